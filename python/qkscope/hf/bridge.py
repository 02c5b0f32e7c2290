# SPDX-License-Identifier: Apache-2.0
"""capture: the queries and keys of a transformers model, text by text, into a sink."""
from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .._call import ArgumentError, Cancelled, DataError, call, ffi, lib, text
from .._notices import Notices
from .._run import _Bar
from ..sampler import Sampler
from ..sink import Model, Sink
from .attention import AttentionRows
from .device_sums import DeviceSums, sums_on
from .engine import Engine, as_list, facts_struct, set_options
from .facts import (Facts, check_before, check_model, choose_shape, decoder_of, find_facts, fingerprint, generation,
                    input_device, model_type)
from .guard import check_whole, refuse_kinds, unseen_layers
from .running import Encoded, Runner, chunks_safely, pads_safely
from .scores import refuse_attention, why_not
from .tokens import Encoder
from .transfer import DeviceRows, HostRows, Workers, captured_heads

STAGES = {"post": 0, "pre": 1, "both": 2}
GROUP = 4  # batches that are run one after the other, on a device


def capture(model: Any, tokenizer: Any, texts: Iterable[str] | str, sink: Sink, *, batch_tokens: int = 8192,
            stage: str | None = None, layers: Sequence[int] | str | None = None,
            heads: Sequence[int | str | tuple[int, int]] | str | None = None, kinds: str = "q,k", ids: Sequence[Any] | None = None,
            max_length: int | None = None, long_texts: str = "split", rows: int | None = None,
            model_name: str | None = None, padding: bool | None = None, attention: str = "sampled", progress: Any = None,
            on_notice: Callable[[str, str], Any] | None = None, **options: Any) -> Outcome:
    """Runs a transformers model over texts and puts queries and keys of its attention heads into a sink.

        with qkscope.Sink("out", keep="moments,reservoir=8") as sink:
            capture(model, tokenizer, texts, sink)

    model         any text decoder of transformers, loaded as you please: on a device or several, quantised, with any
                  attention implementation. docs/dev/models.md lists the types.
    tokenizer     its tokenizer
    texts         strings; gone through twice. A generator is read into a list. "repeat:64x4:8:1": texts that are made
                  (docs/capture.md)
    sink          a qkscope.Sink that is not open yet: it learns the model and the texts here. Which positions are
                  kept is its sampler's
    batch_tokens  tokens that are run together, at most; longer texts are run in chunks of so many, with a cache
    stage         "post" (after RoPE), "pre" or "both"; None: the sink's
    layers, heads which are kept: numbers, or "0,2,5-9" of layers, and "2:1,14-23:*" or [(2, 1)] of heads; heads are
                  query heads, and their key heads come with them
    kinds         "q", "k" or "q,k"
    ids           of the texts, one each: integers, or names, which are hashed; None: 0, 1, ...
    max_length    tokens of a text, special ones included; None: what the model was made for
    long_texts    what becomes of longer ones: "split" into windows, "cut", "skip"
    rows          about so many rows of each head and kind are kept, evenly, in place of the sink's sampler, whatever
                  that is; None: what the sampler keeps, which is every row unless Sink was given one
    padding       several texts side by side; None: on devices other than the processor, where it changes nothing
                  but rounding
    attention     of a sink that keeps it (keep="rows,attention"): that of the "sampled" query rows, or of "all"
    progress      None: tqdm where it is installed and somebody looks; True: anyway; False: none; a function of (what,
                  done, total), called when texts are through, which stops the run by returning False
    options       other settings of `qkscope capture` by name: sample_heads, seed, full_attention_only, ...

    The rows are those of `qkscope capture` for the same texts and options. A run that was stopped goes on when the
    same call is made again. Errors name what to do: ArgumentError, DataError (a model that cannot be captured, by its
    type; a number that is not finite), ExistsError, Cancelled, and TypeError for options that there are not. After an
    error the sink can only be closed, and what is in its folder does not look whole.
    """
    made = isinstance(texts, str) and texts.startswith("repeat:")
    if made and ids is not None:
        raise ArgumentError("texts that are made have ids of their own: leave ids out")
    if made:
        options["text"] = [texts]
    return run(model, tokenizer, None if made else as_list(texts), sink, batch_tokens=batch_tokens, stage=stage,
               ids=ids, rows=rows, padding=padding, attention=attention, progress=progress, on_notice=on_notice, options={
                   "layers": layers, "heads": heads, "kinds": kinds, "max_length": max_length, "long": long_texts,
                   "model_name": model_name, **options})


class Outcome:
    """What `capture` ran. What became of it, `sink.finish` says, or the end of its `with`."""

    def __init__(self, found: Any) -> None:
        self.texts: int = found.texts
        self.windows: int = found.windows
        self.tokens: int = found.tokens
        self.texts_before: int = found.texts_before
        self.tokens_before: int = found.tokens_before
        self.split: int = found.split
        self.cut: int = found.cut
        self.skipped: int = found.skipped
        self.empty: int = found.empty
        self.complete_already: bool = found.complete_already
        self.expected_rows: float = found.expected_rows
        self.seconds: float = found.seconds_running

    def __repr__(self) -> str:
        return (f"Outcome(texts={self.texts}, windows={self.windows}, tokens={self.tokens}, "
                f"seconds={self.seconds:.3g})")


def name_of(model: Any) -> str:
    return str(getattr(model, "name_or_path", "") or getattr(model.config, "_name_or_path", "") or model_type(model))


def identity(model: Any, decoder: Any, facts: Facts, chunks: bool, pads: bool, batch_tokens: int,
             attention: str | None = None) -> dict[str, Any]:
    """What decides the numbers beside model and texts. Devices of one kind count as one."""
    import torch
    import transformers
    devices = sorted({p.device.type for p in decoder.parameters()})
    kind = torch.cuda.get_device_name() if "cuda" in devices else ",".join(devices)
    quantised = getattr(model.config, "quantization_config", None)
    return {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0], "device": kind,
            "attention": str(getattr(decoder.config, "_attn_implementation", None)),
            "dtype": next(iter(facts.layers.values())).dtype, "quantization": str(quantised) if quantised else None,
            "batch_tokens": batch_tokens if chunks or pads else None, "padding": pads,
            **({"attention_rows": attention} if attention else {})}


def describe(facts: Facts) -> dict[str, Any]:
    """Keys of capture.json: what else the scores of a layer are made of."""
    def by_layer(name: str) -> dict[str, Any]:
        return {str(layer): value for layer, f in facts.layers.items() if (value := getattr(f, name)) is not None}
    attention: dict[str, Any] = {name: by_layer(name) for name in ("scaling", "softcap", "sinks")}
    attention["other_terms"] = sorted({term for f in facts.layers.values() for term in f.terms})
    made: dict[str, Any] = {"attention": {name: value for name, value in attention.items() if value}}
    first = {f.rope.first for f in facts.layers.values() if f.rope}
    if first - {0}:
        made["rope"] = {"first_dimension": max(first)}
    return made


class _Progress:
    """Tokens that were run, as a bar of tqdm or a function of the user's shows them."""

    def __init__(self, given: Any) -> None:
        self.own, self.done, self.total = given if callable(given) else None, 0, 0
        self.bar = _Bar(False if self.own else given)

    def start(self, done: int, total: int) -> None:
        self.done, self.total = done, total

    def add(self, tokens: int) -> None:
        self.done += tokens
        if self.own is None:
            self.bar.show("tokens", self.done, self.total)
        elif self.own("tokens", self.done, self.total) is False:
            raise Cancelled(f"stopped by progress, after {self.done} of {self.total} tokens; the same call goes on")

    def close(self) -> None:
        self.bar.close()


class _Run:
    """One call of `capture`."""

    def __init__(self, model: Any, tokenizer: Any, sink: Sink, batch_tokens: int, stage: str, padding: bool | None,
                 attention: str, progress: Any) -> None:
        self.attention = attention
        self.model, self.sink, self.stage, self.batch_tokens = model, sink, stage, batch_tokens
        check_model(model)
        self.decoder = decoder_of(model)
        refuse_kinds(model, self.decoder)
        self.encoder = Encoder(tokenizer)
        self.facts = find_facts(model, tokenizer)
        self.told = [(lib.QK_NOTICE_WARNING, words) for words in check_whole(model, self.decoder, self.facts)]
        self.padding, self.progress = padding, _Progress(progress)
        self.runner: Runner | None = None
        self.workers = Workers(0)
        self.generation: Any = None
        self.on_device = input_device(self.decoder).type != "cpu"

    def settle(self, layers: Any) -> None:
        """What has to be known before anything is written."""
        wanted = None
        if layers is not None:
            wanted = _index_list(layers)
        choose_shape(self.facts, wanted)
        if self.stage != "post":
            check_before(self.model, self.decoder, self.facts,
                         [layer for layer in self.facts.layers if wanted is None or layer in wanted])
        pads = self.on_device if self.padding is None else self.padding
        self.pads = pads and pads_safely(self.model, self.decoder, self.facts)
        if self.padding and not self.pads:
            raise ArgumentError(f"padding: model type {self.facts.model_type!r} gives other queries and keys beside a "
                                "longer text: leave padding out")
        self.chunks = chunks_safely(self.model, self.decoder, self.facts)
        keep = self.sink._settings.keep
        why = why_not(self.model, self.decoder, self.facts) if keep.attention else ""
        if why:
            keep.attention = False
            self.told.append((lib.QK_NOTICE_WARNING, refuse_attention(self.model, why)))
        self.fingerprint = fingerprint(self.model)
        self._tell(wanted)
        self.generation = generation(self.decoder)

    def _tell(self, wanted: set[int] | None) -> None:
        """What is as it should be, and yet may not be what the user thinks."""
        kind, warning = self.facts.model_type, lib.QK_NOTICE_WARNING
        if self.stage != "post" and self.facts.rope_type == "none":
            self.told.append((warning, f"model type {kind!r} has no RoPE: queries and keys from before it are those from "
                              "after it; stage=\"post\" is enough"))
        if not self.facts.causal:
            self.told.append((warning, f"model type {kind!r} is bidirectional: a query meets later keys, too. Analyses that "
                              "pair queries with keys (plasticity, compare-stages) count earlier keys only"))
        words, attends = unseen_layers(self.decoder, self.facts, wanted)
        if words:
            self.told.append((warning if attends else lib.QK_NOTICE_REMARK, words))

    def begin(self, model: Model) -> None:
        """The sink is open."""
        import torch
        heads = {**captured_heads(model.q_heads or (), "q"), **captured_heads(model.k_heads or (), "k")}
        threads = 0 if self.facts.changes else min(torch.get_num_threads(), 8)
        self.workers = Workers(2 if self.on_device else threads if threads > 1 else 0)
        rows = self._rows(heads, model)
        attention = None
        if self.sink._settings.keep.attention:
            sampler = self._sampler()
            every = self.attention == "all" or sampler.type == "all" and sampler.max_rows == 0
            attention = AttentionRows(self.sink, rows, {layer: of for (layer, kind), of in heads.items() if kind == "q"},
                                      None if every else sampler, self.facts.model_type)
        self.runner = Runner(self.model, self.decoder, self.facts, rows, heads, stage=self.stage,
                             batch_tokens=self.batch_tokens, pads=self.pads, chunks=self.chunks, attention=attention)
        _, before = self.sink.texts_before()
        self.progress.start(before, self.sink._settings.num_tokens)

    def _sampler(self) -> Sampler:
        s = self.sink._settings.sampler
        return Sampler(text(lib.qk_sampler_type_name(s.type)) or "", s.base_rate, s.min_bucket_size, s.max_rows)

    def _rows(self, heads: dict[tuple[int, str], list[int]], model: Model) -> Any:
        """How queries and keys get from where the model is into the sink."""
        keep = self.sink._settings.keep
        if not self.on_device:
            return HostRows(self.sink, self.workers)
        if keep.moments and not keep.rows and not keep.first and sums_on(input_device(self.decoder)):
            return DeviceSums(self.sink, self.workers, heads, self._sampler(), model, keep.reservoir > 0)
        return DeviceRows(self.sink, self.workers, heads)

    def run(self, texts: list[Encoded]) -> None:
        assert self.runner is not None
        if generation(self.decoder) != self.generation:
            raise ArgumentError("the model's weights, modules or mode changed between texts: rows would be of two "
                                "models. Load it again and repeat the call, which goes on behind what is finished")
        self.runner.run(texts)
        self.progress.add(sum(len(t.tokens) for t in texts))

    def end(self) -> None:
        if self.runner is not None and fingerprint(self.model) != self.fingerprint:
            raise ArgumentError("the model's weights changed while it was run: the rows are of several models. Remove "
                                "the output folder and capture again")

    def close(self) -> None:
        self.workers.close()
        self.progress.close()


def _index_list(given: Any) -> set[int]:
    wanted = ffi.new("qk_index_list *")
    told = ",".join(map(str, given)) if not isinstance(given, str) else given
    call(lib.qk_index_list_parse, told.encode(), wanted)
    found = {wanted.items[i] for i in range(wanted.count)}
    lib.qk_index_list_free(wanted)
    return found


def run(model: Any, tokenizer: Any, texts: Sequence[Any] | None, sink: Sink, *, batch_tokens: int,
        options: dict[str, Any], stage: str | None = None, ids: Sequence[Any] | None = None, rows: int | None = None,
        padding: bool | None = None, attention: str = "sampled", progress: Any = None,
        on_notice: Callable[[str, str], Any] | None = None, chosen: Any = None, name: str | None = None) -> Outcome:
    """As `capture`; texts None: of the files that the options name. chosen: a qk_settings * to go on from."""
    ids = ids.tolist() if ids is not None and hasattr(ids, "tolist") else ids
    _check_call(sink, batch_tokens, texts, ids)
    if attention not in ("sampled", "all"):
        raise ArgumentError(f"attention is {attention!r}; wanted is \"sampled\" or \"all\" (rows)")
    stage = _set_stage(sink, stage)
    one = _Run(model, tokenizer, sink, batch_tokens, stage, padding, attention, progress)
    settings = chosen or ffi.new("qk_settings **")
    if chosen is None:
        call(lib.qk_settings_new, settings, ffi.addressof(lib.qk_recorder_settings_table), b"capture")
    kept: list[Any] = []
    try:
        set_options(settings[0], options)
        values = ffi.cast("qk_recorder_settings *", lib.qk_settings_values(settings[0]))
        _settle_settings(values, sink, name or name_of(model), rows, stage, batch_tokens, kept, chosen is not None)
        one.settle(_given(settings[0], "layers"))
        notices = Notices(on_notice)
        notices.notices.extend(one.told)
        notices.tell()
        made = texts is None and any(told.startswith(b"repeat:") for told in
                                     (ffi.string(values.texts[i]) for i in range(values.num_texts)))
        specials = one.encoder.specials() if made or values.long_texts == lib.QK_LONG_SPLIT else (0, 0)
        dtype = next(iter(one.facts.layers.values())).dtype
        if one.on_device:  # what ends a group is not hidden behind the next one
            values.tokens_at_once = GROUP * batch_tokens
        engine = Engine(facts=facts_struct(one.facts, dtype, one.fingerprint, kept),
                        arithmetic=f"{dtype} by transformers",
                        identity=identity(model, one.decoder, one.facts, one.chunks, one.pads, batch_tokens,
                                          attention if sink._settings.keep.attention else None),
                        describe=describe(one.facts), tokenizer=one.encoder.fingerprint(), specials=specials,
                        ordinary=one.encoder.ordinary() if made else None, encode=one.encoder, run=one.run, sink=sink,
                        texts=texts, ids=ids, before=one.begin)
        found = engine.lead(values, notices)
        one.end()
        _check_there_is_something(found)
        return Outcome(found)
    except BaseException:
        sink.close()
        raise
    finally:
        one.close()
        if chosen is None:
            lib.qk_settings_free(settings)


def _check_call(sink: Any, batch_tokens: Any, texts: Sequence[Any] | None, ids: Sequence[Any] | None) -> None:
    if not isinstance(sink, Sink):
        raise ArgumentError(f"sink is a {type(sink).__name__}; wanted is a qkscope.Sink")
    if sink.is_open or sink.outcome is not None:
        raise ArgumentError("the sink is open already: give Sink neither model nor texts, which are told here")
    if isinstance(batch_tokens, bool) or not isinstance(batch_tokens, int) or batch_tokens < 1:
        raise ArgumentError(f"batch_tokens is {batch_tokens!r}; wanted is a whole number from 1")
    if ids is not None and texts is not None and len(ids) != len(texts):
        raise ArgumentError(f"{len(ids)} ids for {len(texts)} texts: give one each")


def _set_stage(sink: Sink, stage: str | None) -> str:
    """Of the sink where none is given."""
    if stage is None:
        return next(name for name, value in STAGES.items() if value == sink._settings.stage)
    if stage not in STAGES:
        raise ArgumentError(f"stage is {stage!r}; wanted is one of {', '.join(STAGES)}")
    sink._settings.stage = STAGES[stage]
    return stage


def _check_there_is_something(found: Any) -> None:
    """The sink would say no more than that nothing was kept."""
    if found.tokens > 0 or found.complete_already:
        return
    raise DataError(f"no position was kept: of {found.texts} texts " + (
        f"{found.skipped} are longer than max_length and were passed over: give long_texts=\"split\" or \"cut\" "
        "(--long)"
        if found.skipped > 0 else "none has a token: there is nothing in the texts; give others"))


def _given(settings: Any, name: str) -> str | None:
    if not lib.qk_settings_given(settings, name.encode()):
        return None
    size = lib.qk_settings_get(settings, name.encode(), ffi.NULL, 0) + 1
    room = ffi.new("char[]", size)
    lib.qk_settings_get(settings, name.encode(), room, size)
    return str(text(room))


def _settle_settings(values: Any, sink: Sink, name: str, rows: int | None, stage: str, batch_tokens: int,
                     kept: list[Any], of_files: bool) -> None:
    """What the sink has decides; with `rows`, the sampler's rate is left to the library."""
    kept.append(ffi.new("char[]", os.fsencode(name)))
    values.model = kept[-1]
    values.stage = STAGES[stage]
    values.tokens_at_once = batch_tokens
    values.layout = sink._settings.layout
    keep = sink._settings.keep
    words = ["rows"] * keep.rows + ["moments"] * keep.moments + ["attention"] * keep.attention
    told = ",".join(words + [f"{name}={value}" for name in ("reservoir", "first") if (value := getattr(keep, name))])
    kept.append(ffi.new("char[]", told.encode()))
    values.keep, values.groups = kept[-1], keep.groups
    if of_files:
        return
    if rows is not None:
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
            raise ArgumentError(f"rows is {rows!r}; wanted is a whole number from 1")
        values.rows, values.sampler.base_rate = rows, 0
    else:
        values.sampler = sink._settings.sampler
