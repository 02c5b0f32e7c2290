# SPDX-License-Identifier: Apache-2.0
"""The run over texts, which the C library leads as it does for `qkscope capture`: it reads and counts texts, splits
long ones, chooses heads, rate and ids, and asks for tokens, a sink and the run of a few texts."""
from __future__ import annotations

import array
import difflib
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from .._call import ArgumentError, Error, ExistsError, call, ffi, lib, text
from .._checks import words
from .._notices import Notices
from .._settings import as_texts, row_type
from ..sampler import example_id
from ..sink import Model, Sink

TOOL = "qkscope-hf"
TOLD = {"batch_tokens": "batch_tokens (--tokens-at-once)", "attention": "attention (--attn)"}  # as messages have them


def guarded(function: Callable[..., None]) -> Callable[..., bool]:
    """A callback of C: what it raises is kept for the caller of C, which is told to stop."""

    def guard(user: Any, *args: Any) -> bool:
        engine = ffi.from_handle(user)
        try:
            function(engine, *args)
            return True
        except BaseException as error:
            engine.failed = error
            return False

    return guard


@ffi.def_extern(name="qkpy_text_rewind", error=False)  # type: ignore[untyped-decorator]
@guarded
def _rewind(engine: Engine) -> None:
    engine.upcoming = enumerate(() if engine.texts is None else engine.texts)


@ffi.def_extern(name="qkpy_text_next", error=False)  # type: ignore[untyped-decorator]
@guarded
def _next(engine: Engine, told: Any, more: Any) -> None:
    found = next(engine.upcoming, None)
    more[0] = found is not None
    if found is None:
        return
    number, value = found
    data = encoded_text(value, number)
    engine.held = [ffi.from_buffer(data), data]
    told.data, told.size = engine.held[0], len(data)
    if engine.ids is not None:
        name = engine.ids[number]
        told.has_id, told.id = True, example_id(name)
        engine.held.append(ffi.new("char[]", words(str(name), f"ids[{number}]").encode("utf-8", "replace")))
        told.name = engine.held[-1]


@ffi.def_extern(name="qkpy_encode", error=False)  # type: ignore[untyped-decorator]
@guarded
def _encode(engine: Engine, data: Any, size: int, max_length: int, tokens: Any) -> None:
    ids = engine.encode(bytes(ffi.buffer(data, size)).decode("utf-8", "replace") if size else "", max_length)
    engine.tokens = ffi.from_buffer("int32_t[]", ids) if isinstance(ids, array.array) else ffi.new("int32_t[]", ids)
    tokens.ids, tokens.count = engine.tokens, len(ids)


@ffi.def_extern(name="qkpy_open_sink", error=False)  # type: ignore[untyped-decorator]
@guarded
def _open(engine: Engine, settings: Any, sink: Any) -> None:
    sink[0] = engine.open(settings)


@ffi.def_extern(name="qkpy_run_model", error=False)  # type: ignore[untyped-decorator]
@guarded
def _run(engine: Engine, sequences: Any, numbers: Any, count: int) -> None:
    from .running import Encoded
    import torch
    texts = [Encoded(numbers[i], torch.frombuffer(
        bytearray(ffi.buffer(sequences[i].tokens, 4 * sequences[i].count)), dtype=torch.int32).long())
        for i in range(count)]
    engine.run(texts)


def encoded_text(value: Any, number: int) -> bytes:
    if not isinstance(value, str):
        raise ArgumentError(f"text {number} is a {type(value).__name__}; wanted is a str: give the texts themselves, "
                            "as with [row[\"text\"] for row in dataset]")
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise ArgumentError(f"text {number} has half a character in it ({error.reason} at {error.start}): repair it, "
                            "as with text.encode(\"utf-8\", \"replace\").decode()") from None


def _other_engine(error: ExistsError, output: str, now: dict[str, Any]) -> ExistsError:
    """With what differs, where the library says no more than that it is the engine."""
    for name in (".partial/run.json", "capture.json", "post/capture.json", "pre/capture.json"):
        try:
            with open(os.path.join(output, name), encoding="utf-8") as file:
                before = json.load(file)["run"]["engine"]
            break
        except (OSError, ValueError, KeyError, TypeError):
            continue
    else:
        return error
    told = ", ".join(f"{TOLD.get(name, name)} {before.get(name)}, now {value}" for name, value in now.items()
                     if before.get(name) != value)
    return ExistsError(str(error).replace("(not the same: engine)", f"(not the same: {told})")
                       .replace("(engine differs)", f"({told})")) if told else error


def as_list(texts: Any) -> Sequence[Any]:
    """Texts that can be gone through twice: once to count, once to run."""
    if isinstance(texts, (str, bytes)):
        raise ArgumentError("texts is one text; wanted is a list of them: [text]")
    if isinstance(texts, Mapping) or hasattr(texts, "columns"):  # whose names would be the texts
        raise ArgumentError(f"texts is a {type(texts).__name__}; wanted is a list of str: give one column of it, as "
                            "texts[\"text\"]")
    if hasattr(texts, "tolist"):  # an array of NumPy, a column of pandas, which is asked by labels
        return as_list(texts.tolist())
    if hasattr(texts, "__getitem__") and hasattr(texts, "__len__"):
        return texts  # type: ignore[no-any-return]
    if isinstance(texts, Iterable):
        return list(texts)
    raise ArgumentError(f"texts is a {type(texts).__name__}; wanted is a list of str, or anything that can be "
                        "iterated")


class Engine:
    """What the library asks of a model that is run here.

    encode  (text, most tokens or 0) -> ids with special ones
    run     (texts) -> runs them and puts their rows
    texts   strings, with `ids` or their numbers; None: files of the settings
    ordinary  ids that are no special tokens, where texts are made
    """

    def __init__(self, *, facts: Any, arithmetic: str, identity: dict[str, Any], describe: dict[str, Any],
                 tokenizer: int, specials: tuple[int, int], ordinary: Collection[int] | None, encode: Callable[[str, int], Sequence[int]],
                 run: Callable[[list[Any]], None], sink: Sink, texts: Sequence[Any] | None,
                 ids: Sequence[Any] | None, before: Callable[[Any], None]) -> None:
        self.encode, self.run, self.sink, self.texts, self.ids, self.before = encode, run, sink, texts, ids, before
        self.facts = facts
        self.failed: BaseException | None = None
        self.upcoming: Any = iter(())
        self.held: list[Any] = []
        self.tokens: Any = None
        self.handle = ffi.new_handle(self)
        self._kept = [ffi.new("char[]", part.encode()) for part in
                      (TOOL, arithmetic, json.dumps(identity, sort_keys=True), json.dumps(describe, sort_keys=True))]
        self.struct = e = ffi.new("qk_recorder_engine *")
        e.tool, e.arithmetic, e.identity, e.describe = self._kept
        e.facts, e.tokenizer = facts, tokenizer
        e.specials_before, e.specials_after = specials
        if ordinary is not None:
            self._special = ffi.new("int32_t[]", [i for i in range(facts.vocab_size) if i not in ordinary])
            e.special, e.num_special = self._special, len(self._special)
        e.encode, e.open, e.run, e.user = lib.qkpy_encode, lib.qkpy_open_sink, lib.qkpy_run_model, self.handle
        if texts is not None:
            e.next, e.rewind = lib.qkpy_text_next, lib.qkpy_text_rewind

    def open(self, settings: Any) -> Any:
        """The sink, opened with what was settled."""
        s, sink = settings, self.sink
        if sink.is_open:
            raise ArgumentError("the sink is open already: give Sink neither model nor texts, which are told here")
        layers, q, k = s.num_layers, s.num_q_heads, s.num_k_heads
        q_heads = [[bool(s.q_heads[layer * q + h]) for h in range(q)] for layer in range(layers)]
        k_heads = [[bool(s.k_heads[layer * k + h]) for h in range(k)] for layer in range(layers)]
        frequencies = [[s.frequencies[layer].values[i] for i in range(s.frequencies[layer].count)]
                       for layer in range(layers)] if s.frequencies else None
        model = Model(text(s.model_name) or "", layers, q, k, s.head_dim, q_heads, k_heads,
                      [s.windows[layer] for layer in range(layers)], frequencies, s.rope_interleaved)
        sink._settings.sampler = s.sampler
        run = json.loads(text(s.run) or "{}")
        try:
            sink.open(model, s.num_texts, s.num_tokens, run=run,
                      text_ids=ffi.unpack(s.text_ids, s.num_texts) if s.text_ids else None, extra=json.loads(text(s.extra_json) or "{}"),
                      card=text(s.card), source=TOOL)
        except ExistsError as error:
            raise _other_engine(error, sink.output, run["engine"]) from None
        self.before(model)
        return sink._sink

    def lead(self, settings: Any, notices: Notices) -> Any:
        """Runs all of it; returns the qk_recorder_outcome. What a callback raised is raised here."""
        settings.engine = self.struct
        settings.context.notice, settings.context.user = lib.qkpy_notice, notices.handle
        outcome = ffi.new("qk_recorder_outcome *")
        try:
            call(lib.qk_recorder_run, settings, outcome)
        except BaseException:
            failed, self.failed = self.failed, None
            if failed is not None:
                raise failed from None
            self.sink._notices.raise_failed()
            raise
        finally:
            settings.engine = ffi.NULL
            notices.tell()
        return outcome


def facts_struct(facts: Any, dtype: str, fingerprint: int, kept: list[Any]) -> Any:
    """Facts as the library has them. kept: what the struct points to."""
    made = ffi.new("qk_model_facts *")
    layers = ffi.new("qk_layer_facts[]", facts.num_layers)
    for layer, f in facts.layers.items():
        values = f.rope.frequencies if f.rope else []
        one = layers[layer]
        one.attends, one.rope, one.window, one.sliding = True, f.rope is not None, f.window, f.window > 0
        if values:
            numbers = ffi.new("double[]", values)
            one.frequencies, one.num_frequencies = numbers, len(values)
            kept.append(numbers)
    strings = [ffi.new("char[]", part.encode()) for part in (facts.model_type, facts.rope_type, dtype)]
    kept += [layers, *strings, made]
    made.architecture, made.rope_type, made.dtype = strings
    made.layers, made.num_layers = layers, facts.num_layers
    made.num_q_heads, made.num_k_heads, made.head_dim = facts.q_heads, facts.k_heads, facts.head_dim
    made.vocab_size, made.max_positions, made.rope_theta = facts.vocabulary, facts.max_positions, facts.rope_theta
    made.rope_interleaved = any(f.rope and f.rope.pairing == "interleaved" for f in facts.layers.values())
    made.attention_factor, made.fingerprint = 1.0, fingerprint
    return made


def set_options(settings: Any, options: dict[str, Any]) -> None:
    """Settings of the library by name, as the other functions of the package take them; None is passed over."""
    for name, value in options.items():
        if value is None:
            continue
        option = name.replace("_", "-")
        try:
            kind = row_type(settings, option)
        except KeyError:
            near = difflib.get_close_matches(option, (text(lib.qk_settings_row(settings, i).name) or ""
                                                      for i in range(lib.qk_settings_count(settings))), 1)
            raise TypeError(f"capture() got an unexpected keyword argument {name!r}: " + (
                f"did you mean {near[0].replace('-', '_')!r}?" if near else
                "its options are those of `qkscope capture --help`, with _ for -")) from None
        for told in as_texts(value, kind, name):
            try:
                call(lib.qk_settings_set, settings, option.encode(), told)
            except Error as error:
                raise ArgumentError(f"{name} is {value!r}: {error}") from None
