# SPDX-License-Identifier: Apache-2.0
"""Every text decoder type of transformers for which a tiny random model can be built: captured, or refused by name.

    python tests/hf/hf_models.py [--write docs/dev/models.md] [--json FILE] [TYPE ...]

It runs in the environment that `make hf-env` makes, and takes about two minutes. Of each type that is captured it
checks that logits are the same bits with and without; that the vectors are those of the whole model, run as its user
would run it; that a capture is written; that softmax of queries and keys, with the model's own
scaling, mask, soft cap and sinks, is the model's attention; that a text in chunks gives what the whole gives; that
a text beside a longer one gives what it gives alone; and what comes before RoPE, turned, is what comes after.
"""
import argparse
import json
import os
import signal
import sys
import tempfile
import warnings
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import numpy as np  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES  # noqa: E402

from qkscope import ArgumentError, DataError, Sink  # noqa: E402
from qkscope.hf import capture, facts as F, guard as G  # noqa: E402
from qkscope._call import lib  # noqa: E402
from qkscope.hf.attention_sums import sums_of  # noqa: E402
from qkscope.hf.hooks import Watch, layer_of  # noqa: E402
from qkscope.hf.running import Encoded, Runner, chunks_safely, pads_safely  # noqa: E402
from qkscope.hf.scores import Scores, why_not  # noqa: E402

MOST = 100_000_000  # parameters of a model that is tiny
SECONDS = 60
TOKENS = 32

SMALL = {
    "vocab_size": 128, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 96, "head_dim": 16, "max_position_embeddings": 256, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "sliding_window": 8, "n_embd": 64, "n_layer": 4, "n_head": 4, "n_positions": 256, "n_inner": 96,
    "d_model": 64, "d_ff": 96, "decoder_layers": 4, "encoder_layers": 2, "decoder_attention_heads": 4,
    "encoder_attention_heads": 4, "decoder_ffn_dim": 96, "encoder_ffn_dim": 96, "ffn_dim": 96, "num_layers": 4,
    "num_heads": 4, "attention_heads": 4, "moe_intermediate_size": 32, "num_experts": 4, "num_local_experts": 4,
    "num_experts_per_tok": 2, "n_routed_experts": 4, "n_shared_experts": 1, "n_group": 1, "topk_group": 1,
    "first_k_dense_replace": 1, "shared_expert_intermediate_size": 32, "q_lora_rank": 32, "kv_lora_rank": 16,
    "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "is_decoder": True, "use_cache": True,
    "rotary_dim": 8, "emb_dim": 64, "n_heads": 4, "n_layers": 4, "dim_ff": 96, "num_decoder_layers": 4,
    "max_target_positions": 256, "max_source_positions": 256, "ffn_hidden_size": 96, "embedding_size": 64,
    "input_embedding_size": 64, "output_embedding_size": 64, "global_head_dim": 16, "num_global_key_value_heads": 2,
    "vocab_size_per_layer_input": 128, "hidden_size_per_layer_input": 8, "mamba_d_state": 8, "mamba_n_heads": 4,
    "mamba_d_head": 32, "mamba_expand": 2, "mamba_num_heads": 4, "mamba_head_dim": 32, "n_mamba_heads": 4,
    "state_size": 8, "conv_kernel": 4, "ssm_state_size": 8, "num_dense_layers": 1,
    "index_n_heads": 2, "index_head_dim": 16, "index_topk": 64,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
    "attention_window_size": 8, "lru_width": 64, "expert_ffn_hidden_size": 32, "original_max_position_embeddings": 256,
}

# What a type needs beside, or instead (None: leave out what is above).
OWN = {
    "bamba": {"attn_layer_indices": [1, 3]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"] * 2},
    "kimi_linear": {"layer_types": ["linear_attention", "full_attention"] * 2},
    "bailing_hybrid": {"layer_group_size": 2},
    "zamba2": {"layers_block_type": ["linear_attention", "hybrid"] * 2, "hybrid_layer_ids": [1, 3]},
    "nemotron_h": {"layers_block_type": ["linear_attention", "full_attention", "mlp", "full_attention"], "n_groups": 1},
    "falcon_h1": {"mamba_d_ssm": 128},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 2},
    "mamba2": {"head_dim": 32, "n_groups": 1},
    "zaya": {"num_experts_per_tok": 1},
    "xmod": {"default_language": "en_XX"},
    "reformer": {"axial_pos_embds_dim": [32, 32], "axial_pos_shape": [16, 16]},
    "gemma3n_text": {"num_kv_shared_layers": 2, "layer_types": ["full_attention", "sliding_attention"] * 2},
    "cohere_compass_text": {"layer_types": ["sliding_attention", "full_attention"] * 2},
    "big_bird": {"attention_type": "original_full"},
    "bigbird_pegasus": {"attention_type": "original_full"},
}


class TooLong(Exception):
    pass


def alarm(*_):
    raise TooLong(f"more than {SECONDS} s of the processor")


def config_of(kind):
    """A small configuration of a type: whatever of SMALL its own configuration has."""
    usual = transformers.AutoConfig.for_model(kind)
    own = {**SMALL, **OWN.get(kind, {})}

    def chosen(config):
        told = config.to_dict()
        if "qk_rope_head_dim" in told:  # where it is the dimensions that are rotated
            own.update(head_dim=8, num_key_value_heads=4)
        names = set(told) | set(getattr(config, "attribute_map", {}))
        picked = {name: value for name, value in own.items() if name in names and value is not None
                  and not isinstance(told.get(name), (dict, list))}
        layers = next((picked[n] for n in ("num_hidden_layers", "n_layer", "num_layers", "decoder_layers") if n in picked), 4)
        for name, value in told.items():  # lists of layers are cut
            if isinstance(value, list) and len(value) > layers and name.endswith(("types", "type", "layers")):
                picked[name] = value[:layers] if all(isinstance(v, str) for v in value) else value
        return picked

    picked = chosen(usual)
    for name, part in vars(usual).items():
        if isinstance(part, transformers.PretrainedConfig):
            picked[name] = {**chosen(part), "model_type": part.model_type}
    picked.update({k: v for k, v in OWN.get(kind, {}).items() if v is not None})
    return type(usual)(**picked)


def build(kind, attention=None):
    config = config_of(kind)
    with torch.device("meta"):
        shape = transformers.AutoModelForCausalLM.from_config(config)
    count = sum(p.numel() for p in shape.parameters())
    if count > MOST:
        raise ValueError(f"{count / 1e6:.0f} million parameters")
    torch.manual_seed(0)
    options = {"attn_implementation": attention} if attention else {}
    model = transformers.AutoModelForCausalLM.from_config(config_of(kind), dtype=torch.float32, **options)
    torch.manual_seed(1)
    for name, parameter in model.named_parameters():  # larger than they are initialised, so that nothing is flat
        if parameter.dim() > 1:
            parameter.data.normal_(0, 0.2)
        elif "sink" in name or "bias" in name:
            parameter.data.normal_(0, 0.5)
    return model.eval()


class Collect:
    """Rows as they come, in place of a sink."""

    def __init__(self):
        self.parts = {}

    def prepare(self, batch):
        pass

    def take(self, batch, layer, kind, vectors, before):
        for b, row in enumerate(batch.rows):
            count = batch.count(row)
            if count:
                self.parts.setdefault((row.number, layer, kind, before), []).append(vectors[b, :, :count].clone())

    def drain(self):
        pass

    def rows(self):
        return {key: torch.cat(parts, dim=1) for key, parts in self.parts.items()}


def collect(model, found, ids, *, stage="post", batch_tokens=4096, pads=False, chunks=False):
    decoder = F.decoder_of(model)
    heads = {(layer, kind): list(range(f.q_heads if kind == "q" else f.k_heads))
             for layer, f in found.layers.items() for kind in "qk"}
    rows = Collect()
    runner = Runner(model, decoder, found, rows, heads, stage=stage, batch_tokens=batch_tokens, pads=pads, chunks=chunks)
    runner.run([Encoded(i, x) for i, x in enumerate(ids)])
    return rows.rows()


class Letters:
    """A tokenizer of a token a byte."""

    def __call__(self, text, **_):
        return {"input_ids": [3 + byte % 97 for byte in text.encode()]}


def write_capture(model, layers):
    """Through the sink, which has its own rules of what a model may be."""
    with tempfile.TemporaryDirectory() as folder, Sink(Path(folder) / "c") as sink:
        capture(model, Letters(), ["a text that is kept"], sink, layers=layers, progress=False,
                on_notice=lambda *_: None)


def whole_vectors(model, decoder, found, ids):
    """Queries and keys of the whole model; and its logits with them."""
    seen = {}

    def see(call):
        layer = layer_of(call, watch.name(call))
        if layer in found.layers:
            seen[0, layer, "q", False], seen[0, layer, "k", False] = call.query[0].clone(), call.key[0].clone()

    with torch.no_grad(), Watch(decoder, see, rotations=True) as watch:
        return seen, model(input_ids=ids, use_cache=False).logits


def largest_difference(a, b):
    assert set(a) == set(b) and a
    return max(((a[key] - b[key]).abs().max() / b[key].abs().max().clamp(min=1e-9)).item() for key in a)


def scores_of(call):
    """Of captured vectors, with everything else that the model was called with but sinks."""
    o, q, k = call.options, call.query.double(), call.key.double()
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    scaling = o.get("scaling")
    scores = q @ k.transpose(2, 3) * (q.shape[-1] ** -0.5 if scaling is None else scaling)
    if o.get("softcap"):
        scores = torch.tanh(scores / o["softcap"]) * o["softcap"]
    mask = call.mask
    if mask is not None:
        mask = mask[:, :, :, :k.shape[2]]
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask.double()
    if o.get("position_bias") is not None:
        scores = scores + o["position_bias"].double()
    return scores


def weights_of(call):
    o, scores = call.options, scores_of(call)
    sinks = o.get("s_aux", o.get("sinks"))
    if sinks is not None:
        sinks = sinks.double() if sinks.dim() == 4 else sinks.double().reshape(1, -1, 1, 1)
        sinks = sinks.expand(*scores.shape[:3], 1)
        return torch.softmax(torch.cat((scores, sinks), dim=-1), dim=-1)[..., :-1]
    return torch.softmax(scores, dim=-1)


def sums_error(call, weights):
    """Largest difference of sums over rows of attention, as a capture has them, from those of its weights."""
    tokens = weights.shape[2]
    made = sums_of(Scores(call, 0), np.arange(tokens)[None], torch.ones(1, tokens, 1, dtype=torch.float64))[0, :, 0]
    a = weights[0]
    wanted = {"SINK": a[:, :, 0], "SELF": a.diagonal(dim1=1, dim2=2), "PREVIOUS": a.diagonal(-1, 1, 2),
              "NO_KEY": 1 - a.sum(-1), "ENTROPY": torch.special.entr(a).sum(-1)}
    wanted["LOGIT"] = scores_of(call)[0].amax(-1)
    top = wanted["LOGIT"].amax(-1)
    most = ((made[:, lib.QK_ATTENTION_LOGIT_MAX] - top).abs() / top.abs().clamp(min=1)).max().item()
    return max(most, *((made[:, getattr(lib, "QK_ATTENTION_" + name)] - values.sum(-1)).abs().max().item() / tokens
               for name, values in wanted.items()))


def attention_error(kind, found, ids):
    """Largest difference from the weights that the model's own eager function returns; None: it returns none. And of
    sums over their rows."""
    model = build(kind, "eager")
    worst, sums = [], [0.0]

    def after(call):
        layer = layer_of(call, watch.name(call))
        if layer in found.layers and call.weights is not None and call.weights.dim() == 4:
            theirs = call.weights.double()
            ours = weights_of(call)
            error = (ours - theirs[..., :ours.shape[-1]]).abs().max().item()
            if call.options.get("s_aux") is not None and error > 1e-5:  # they may be returned without the sinks
                value = call.value.double().repeat_interleave(ours.shape[1] // call.value.shape[1], dim=1)
                error = ((ours @ value).transpose(1, 2) - call.output.double()).abs().max().item()
            worst.append(error)
            if found.causal:
                sums.append(sums_error(call, ours))

    decoder = F.decoder_of(model)
    with torch.no_grad(), Watch(decoder, lambda call: None, after=after) as watch:
        decoder(input_ids=ids, use_cache=False)
    return max(worst) if worst else None, max(sums)


def turned_error(found, rows):
    """Of rows before RoPE, turned by the frequencies, from those after it; None: no layer rotates."""
    worst = []
    for (number, layer, kind, before), after in rows.items():
        rope = found.layers[layer].rope
        piece = rope and (rope.q if kind == "q" else rope.k)
        if before or piece is None or not rope.frequencies or not piece.exact:
            continue
        x = rows[number, layer, kind, True].double()
        n, first = len(rope.frequencies), rope.first
        t = torch.arange(x.shape[1], dtype=torch.float64)[:, None]
        z = torch.polar(torch.ones(x.shape[1], n, dtype=torch.float64), t * torch.tensor(rope.frequencies))
        part = x[..., first:first + 2 * n]
        a, b = (part[..., 0::2], part[..., 1::2]) if rope.pairing == "interleaved" else (part[..., :n], part[..., n:])
        out = torch.complex(a, b) * z
        whole = x.clone()
        whole[..., first:first + 2 * n] = (torch.stack((out.real, out.imag), -1).flatten(-2)
                                           if rope.pairing == "interleaved" else torch.cat((out.real, out.imag), -1))
        # Factors on cosine and sine, and of the length, are left out of it.
        scale = (after.double() * whole).sum() / (whole * whole).sum()
        worst.append(((after - scale * whole).abs().max() / after.abs().max()).item())
    return max(worst) if worst else None


def check(kind):
    """One row of the table."""
    row = {"type": kind, "state": "captured", "why": ""}
    try:
        model = build(kind)
    except TooLong:
        raise
    except Exception as error:
        return {**row, "state": "not built", "why": f"{type(error).__name__}: {str(error).strip().split(chr(10))[0]}"[:160]}
    ids = torch.randint(3, 100, (1, TOKENS), generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        try:
            plain = model(input_ids=ids, use_cache=False).logits
        except TooLong:
            raise
        except Exception as error:
            return {**row, "state": "not built", "why": f"does not run: {type(error).__name__}: {str(error)[:120]}"}
    row["parts"] = ""
    row["layers"] = int(getattr(F.text_config(F.decoder_of(model)), "num_hidden_layers", 0) or 0)
    decoder = F.decoder_of(model)
    try:
        G.refuse_kinds(model, decoder)
        found = F.find_facts(model)
        every = dict(found.layers)
        G.check_whole(model, decoder, found)
        shapes = {}
        for layer, f in found.layers.items():
            shapes.setdefault((f.q_heads, f.k_heads, f.head_dim), []).append(layer)
        row["shapes"], row["attends"] = len(shapes), len(found.layers)
        for layers in shapes.values():  # a capture each
            write_capture(model, layers)
        F.choose_shape(found, max(shapes.values(), key=len))
    except (DataError, ArgumentError) as error:
        return {**row, "state": "refused", "why": str(error)}
    vectors, logits = whole_vectors(model, decoder, found, ids)
    row["logits"] = torch.equal(logits, plain)
    row["changes"] = found.changes
    row["windows"] = sum(f.window > 0 for f in found.layers.values())
    row["sinks"] = any(f.sinks for f in found.layers.values())
    row["softcap"] = any(f.softcap for f in found.layers.values())
    row["terms"] = sorted({term for f in found.layers.values() for term in f.terms})
    ropes = [f.rope for f in found.layers.values() if f.rope]
    row["rope"] = "" if not ropes else ropes[0].pairing if ropes[0].frequencies else "unknown"
    row["exact"] = all(p.exact for r in ropes for p in (r.q, r.k) if p)
    row["rotated"] = 2 * len(ropes[0].frequencies) if ropes else 0
    row["first"] = ropes[0].first if ropes else 0
    row["still"] = max((f.rope.frequencies.count(0.0) for f in every.values() if f.rope), default=0)
    row["heads"] = [found.q_heads, found.k_heads, found.head_dim]
    whole = collect(model, found, [ids[0]])
    row["whole"] = largest_difference(whole, vectors)
    row["causal"] = found.causal
    row["attention"], row["sums"] = attention_error(kind, found, ids)
    row["measured"] = not why_not(model, decoder, found) if found.causal else None
    row["chunks"] = chunks_safely(model, decoder, found)
    if row["chunks"]:
        row["chunked"] = largest_difference(collect(model, found, [ids[0]], batch_tokens=8, chunks=True), whole)
    row["pads"] = pads_safely(model, decoder, found)
    if row["pads"]:
        both = collect(model, found, [ids[0], ids[0, :27]], pads=True)
        alone = collect(model, found, [ids[0], ids[0, :27]])
        row["padded"] = largest_difference(both, alone)
    try:
        F.check_before(model, decoder, found, list(found.layers))
        row["before"] = True
        row["turned"] = turned_error(found, collect(model, found, [ids[0]], stage="both"))
    except (DataError, ArgumentError) as error:
        row["before"], row["why"] = False, str(error)
    with torch.no_grad():
        row["restored"] = torch.equal(model(input_ids=ids, use_cache=False).logits, plain)
    return row


def sound(row):
    """What is wrong with a type that counts as captured."""
    wrong = []
    if not (row["logits"] and row["restored"]):
        wrong.append("other logits")
    if not row["whole"] < 1e-5:
        wrong.append(f"not the vectors of the whole model: off by {row['whole']:.2g}")
    if row["attention"] is not None and not row["attention"] < 1e-5:
        wrong.append(f"attention weights off by {row['attention']:.2g}")
    if not row["sums"] < 1e-5 or row["measured"] is False:
        wrong.append(f"sums of attention off by {row['sums']:.2g}")
    if row["chunks"] and not row["chunked"] < 1e-4:
        wrong.append(f"chunks off by {row['chunked']:.2g}")
    if row["pads"] and not row["padded"] < 1e-4:
        wrong.append(f"padding off by {row['padded']:.2g}")
    if row.get("turned") is not None and not row["turned"] < 1e-4:
        wrong.append(f"not turned by the frequencies: {row['turned']:.2g}")
    return wrong


def check_all(kinds):
    signal.signal(signal.SIGPROF, alarm)
    rows = []
    for kind in kinds:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            rows.append(check(kind))
        except TooLong as error:
            rows.append({"type": kind, "state": "not built", "why": str(error)})
        except Exception as error:
            rows.append({"type": kind, "state": "broken", "why": f"{type(error).__name__}: {error}"[:300]})
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    return rows


PAGE = """# Which models of transformers can be captured

Written by `tests/hf/hf_models.py`, with transformers {version} and torch {torch}: of every type of
`MODEL_FOR_CAUSAL_LM` a tiny random model is built and captured. {captured} types are captured, {refused} are refused
by name, and of {unbuilt} no tiny model could be built, so that nothing is said of them. How it is done, and what is
captured: [transformers](../transformers.md). Models of images and text, or sound and text, are captured by their text
decoder; encoder-decoder models are refused, whatever part of them is loaded.

## Captured

Of each it was checked, in float32 on the processor, that

* logits are the same bits with and without capture;
* captured queries and keys are those of the whole model, run as its user would run it: the largest difference of all
  types is {whole} of the largest number. Every capture begins with this comparison
  ([how](../transformers.md#refused)), which refuses {unlike} of the types here;
* softmax of the captured queries and keys, with the model's own scaling, mask, soft cap, sinks and position bias, is
  the attention that the model computes: the largest difference of a weight is in the table; of means over rows, as
  [captures of attention](../transformers.md#attention) have them, none is above 1e-5;
* chunks of 8 tokens with a cache give the queries and keys of the whole text, where "chunks" says yes; other types run
  a text as a whole;
* a text beside a longer one gives what it gives alone, where "side by side" says yes; other types run one text at a
  time;
* queries and keys from before RoPE, turned by the frequencies in the manifest, are those from after it, where "before
  RoPE" says yes; other types are captured after it alone. "-" : the type has no RoPE.

"layers" tells how many of the tiny model's layers have attention that can be captured; the others have none, or
another kind. Layers of several shapes make a capture for each. Under "RoPE" is how dimensions are paired, and which are
turned where it is not all of them.

| type | layers | RoPE | before RoPE | chunks | side by side | scores also have | difference |
|---|---|---|---|---|---|---|---|
{table}

## Refused

| type | why |
|---|---|
{refusals}

## Not built

| type | why |
|---|---|
{others}
"""


def yes(value):
    return "yes" if value else "no"


def page_row(row):
    extras = [name for name, has in (("windows", row["windows"]), ("sinks", row["sinks"]), ("soft cap", row["softcap"]),
                                     ("position bias", "position_bias" in row["terms"])) if has]
    rotated = f"{row['first']} to {row['first'] + row['rotated'] - 1} of {row['heads'][2]}"
    rope = {"": "-", "unknown": "own form"}.get(row["rope"], row["rope"])
    if row["rotated"] and row["rotated"] < row["heads"][2]:
        rope += f", {rotated}"
    if row["still"]:
        rope += f", {row['still']} pairs do not turn"
    before = "-" if row["before"] and not row["rope"] else yes(row["before"])
    error = "no weights told" if row["attention"] is None else f"{row['attention']:.0e}"
    layers = f"{row['attends']} of {row['layers']}" + (f", {row['shapes']} shapes" if row["shapes"] > 1 else "")
    return (f"| {row['type']} | {layers} | {rope} | {before} | {yes(row['chunks'])} | "
            f"{yes(row['pads'])} | {', '.join(extras)} | {error} |")


def shortened(row):
    why = row["why"].removeprefix(f"model type '{row['type']}'").lstrip(": ")
    for end in (": its decoder", ": its queries", ": there are no", ": it has no single", ". docs/models"):
        why = why.split(end)[0]
    return why.replace("|", "\\|")[:160].rstrip(": ")


def write_page(path, rows):
    by_state = {state: [row for row in rows if row["state"] == state] for state in ("captured", "refused", "not built")}

    def reasons(state):
        return "\n".join(f"| {row['type']} | {shortened(row)} |" for row in by_state[state])

    worst = max(row["whole"] for row in by_state["captured"])
    unlike = sum("whole model" in row["why"] for row in by_state["refused"])
    with open(path, "w", encoding="utf-8") as file:
        file.write(PAGE.format(version=transformers.__version__, torch=torch.__version__.split("+")[0],
                               whole=f"{worst:.0e}" if worst else "0", unlike=unlike or "none",
                               captured=len(by_state["captured"]), refused=len(by_state["refused"]),
                               unbuilt=len(by_state["not built"]),
                               table="\n".join(page_row(row) for row in by_state["captured"]),
                               refusals=reasons("refused"), others=reasons("not built")))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("types", nargs="*")
    parser.add_argument("--json")
    parser.add_argument("--write")
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    rows = check_all(args.types or sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    for row in rows:
        if row["state"] != "captured":
            print(f"{row['type']:28s} {row['state']:10s} {row['why']}")
        else:
            print(f"{row['type']:28s} {'captured':10s} {row['attends']}/{row['layers']} {row['heads']} window={row['windows']} "
                  f"rope={row['rope']}:{row['first']}+{row['rotated']} att={row['attention']} chunk={row.get('chunked')} "
                  f"pad={row.get('padded')} whole={row['whole']} before={row['before']} turned={row.get('turned')} {sound(row)} {row['why'][:80]}")
    if args.write:
        write_page(args.write, rows)
    states = [row["state"] for row in rows]
    print({state: states.count(state) for state in sorted(set(states))}, file=sys.stderr)
    wrong = [row["type"] for row in rows if row["state"] == "broken" or row["state"] == "captured" and sound(row)]
    if wrong:
        sys.exit(f"wrong: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
