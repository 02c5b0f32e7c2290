# SPDX-License-Identifier: Apache-2.0
"""Sums over rows of attention, as the bridge makes them, beside the weights that eager attention returns, in float64;
and captures of them, for test_hf_attention.py, which reads what this leaves behind:

    python tests/hf/hf_attention.py FOLDER [TYPE, or folder of a model, ...]
"""
import json
import sys
import warnings
from pathlib import Path

from hf_guards import small
from hf_models import TOKENS, Letters, build
from hf_runs import load as load_tiny, passages, refused, run, run_checks
import numpy as np
import torch
import transformers

sys.path.append(str(Path(__file__).parents[1] / "attention"))
from attention_rows import LOGIT, SUMS, bin_of, sums_of_text  # noqa: E402

import qkscope  # noqa: E402
from qkscope.hf import capture, facts as F  # noqa: E402
from qkscope.hf.attention_sums import sums_of  # noqa: E402
from qkscope._call import lib  # noqa: E402
from qkscope.hf.hooks import Call, Watch, layer_of  # noqa: E402
from qkscope.hf.scores import Scores, why_not  # noqa: E402

TILES = ({}, {"keys": 32, "at_once": 1}, {"keys": 64, "at_once": 700})


def load(kind):
    if "/" not in kind:
        return build(kind, "eager")
    config = transformers.AutoConfig.from_pretrained(kind)
    return getattr(transformers, config.architectures[0]).from_pretrained(
        kind, dtype=torch.float32, attn_implementation="eager").eval()


def by_bucket(count):
    """Weights of all rows of a text, 1 in the bucket of each."""
    weights = torch.zeros(1, count, bin_of(count - 1) + 1, dtype=torch.float64)
    for i in range(count):
        weights[0, i, bin_of(i)] = 1
    return weights


def first_seen(mask, window, count):
    """The first key of each row, told by the mask as far as there is one."""
    if mask is None:
        return [max(0, i - window + 1) if window else 0 for i in range(count)]
    seen = mask[0, 0, :, :count]
    seen = seen if seen.dtype == torch.bool else seen > -1e4
    return [int(row.nonzero()[0]) for row in seen]


def largest(got, wanted, rows):
    """Of means over rows, by column; weights do not tell scores."""
    return float((np.abs(got - wanted)[:, :LOGIT].sum(0) / rows).max())


def check(kind, count=TOKENS):
    """Largest error of a column; of other tiles; and of float32, as a capture has it."""
    model = load(kind)
    decoder = F.decoder_of(model)
    found = F.find_facts(model)
    why = why_not(model, decoder, found)
    ids = torch.randint(3, 100, (1, count), generator=torch.Generator().manual_seed(5)) % 7 + 3
    made, row = {}, {"type": kind, "why": why, "error": 0.0, "tiles": 0.0, "float32": 0.0, "layers": 0}
    if why:
        return row
    positions, weights = np.arange(count)[None], by_bucket(count)

    def before(call):
        layer = layer_of(call, watch.name(call))
        if layer in found.layers:
            made[layer] = [sums_of(Scores(call, 0), positions, weights, ids, **tiles)[0].numpy() for tiles in TILES]

    def after(call):
        layer = layer_of(call, watch.name(call))
        if layer not in made or call.weights is None or call.weights.dim() != 4:
            return
        low = first_seen(call.mask if torch.is_tensor(call.mask) else None, found.layers[layer].window, count)
        window = max(i - first + 1 for i, first in enumerate(low))
        if low != [max(0, i - window + 1) for i in range(count)]:
            return  # pieces of the text: not what this oracle does
        wide = made[layer][0].dtype
        for head in range(call.weights.shape[1]):
            a = call.weights[0, head, :, :count].double().numpy()
            wanted = sums_of_text(a, ids[0].tolist(), window if window < count else 0)
            name = "error" if call.query.dtype == torch.float64 else "float32"
            row[name] = max(row[name], largest(made[layer][0][head], wanted, count))
        row["layers"] += call.query.dtype == torch.float64
        if call.query.dtype == torch.float64:
            row["tiles"] = max(row["tiles"], *(float(np.abs(other - made[layer][0]).max()) for other in made[layer][1:]))
        assert wide == np.float64 and made[layer][0].shape[2] == SUMS

    with torch.no_grad(), Watch(decoder, before, after=after) as watch:
        decoder(input_ids=ids, use_cache=False)
        if model.get_experts_implementation() is not None:
            model.set_experts_implementation("eager")  # others know no float64
        model.double()
        decoder(input_ids=ids, use_cache=False)
    return row


# ---- captures ------------------------------------------------------------------------------------

def check_ways(out):
    """The same attention, however rows go."""
    kept = {"keep": "rows,attention"}
    run(out / "host", **kept)
    run(out / "chunks", batch_tokens=64, **kept)
    run(out / "together", padding=True, **kept)
    run(out / "device", device=True, padding=True, **kept)
    run(out / "device_chunks", device=True, padding=False, batch_tokens=64, **kept)
    run(out / "eager", of=load_tiny(attn_implementation="eager"), **kept)
    run(out / "moments", keep="moments,attention", options={"attention": "all"})
    run(out / "device_moments", keep="moments,attention", device=True)
    rare = qkscope.Sampler("uniform", 0.05, 16)
    run(out / "all_of_few", sampler=rare, options={"attention": "all"}, **kept)
    run(out / "few", sampler=rare, **kept)
    run(out / "some", options={"heads": "0:1,2:0-3"}, **kept)
    run(out / "whole", sampler=qkscope.Sampler("uniform", 16, 16), **kept)
    run(out / "both", stage="both", **kept)
    run(out / "made", "repeat:20x4:6:1", **kept)


def check_windows(out):
    """Layers with windows and sinks, of whose keys a cache drops those that are not seen any more."""
    texts = ["a text that is longer than windows of eight tokens, " * 2, "abc", "another one"]
    for name, batch_tokens in (("whole", 8192), ("chunks", 16)):
        with qkscope.Sink(out / name, keep="rows,attention") as sink:
            capture(build("gpt_oss"), Letters(), texts, sink, batch_tokens=batch_tokens, progress=False)


def check_unknown(out):
    """What cannot be told from queries and keys is not measured, and said by name; rows are captured."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    def nearer(module, query, key, value, attention_mask, **options):
        n = query.shape[2]
        near = -0.2 * (torch.arange(n)[:, None] - torch.arange(n)).abs()
        mask = near.masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf)
        made = torch.nn.functional.scaled_dot_product_attention(query, key, value, mask, enable_gqa=True)
        return made.transpose(1, 2), None

    ALL_ATTENTION_FUNCTIONS["nearer"] = nearer
    m = load_tiny()
    m.set_attn_implementation("nearer")
    torch.manual_seed(0)
    bert = transformers.BertForMaskedLM(small("bert", max_position_embeddings=1024)).eval()
    for name, of, words in (("unknown", m, "in layer 0 its output differs"), ("bert", bert, "later keys")):
        told = []
        run(out / name, passages()[:2], of=of, keep="rows,attention",
            options={"on_notice": lambda *notice, told=told: told.append(notice)})
        assert any(level == "warning" and "attention is not measured" in said and words in said and repr(
            of.config.model_type) in said for level, said in told), told
        assert not (out / name / "attention").exists() and list((out / name).rglob("*.parquet"))


def check_pieces(out):
    """Keys that are seen one after the other, in windows or in pieces of the text; other masks are refused."""
    n, piece = 40, 16
    q, k = (torch.randn(1, 2, n, 8, generator=torch.Generator().manual_seed(i), dtype=torch.float64) for i in (1, 2))
    positions, weights = np.arange(n)[None], by_bucket(n)
    at = torch.arange(n)
    near, same = at[:, None] - at, at[:, None] // piece == at // piece

    def sums(mask, **options):
        return sums_of(Scores(Call(torch.nn.Module(), q, k, None, mask, options), 0), positions, weights)[0].numpy()

    window = (near >= 0) & (near < piece)
    for mask in (window, torch.where(window, 0.0, -torch.inf), torch.where(window, 0.0, torch.finfo(torch.float32).min)):
        assert np.array_equal(sums(mask[None, None]), sums(None, sliding_window=piece))
    found = sums(((near >= 0) & same)[None, None])
    for head in range(2):
        scores = (q[0, head] @ k[0, head].T / 8 ** 0.5).masked_fill(~((near >= 0) & same), -torch.inf)
        a = scores.softmax(-1)
        rows = dict(zip(("SELF", "SINK", "ENTROPY", "VISIBLE", "FAR"), (
            a.diagonal(), a[:, 0], torch.special.entr(a).sum(-1), (at % piece + 1).double().log(), a[8:, 4:].sum(-1))))
        for name, values in rows.items():
            assert abs(found[head, :, getattr(lib, "QK_ATTENTION_" + name)].sum() - float(values.sum())) < 1e-12, name
    hole = (near >= 0) & (near != 3)
    refused(lambda: sums(hole[None, None]), "not one after the other", kind=qkscope.DataError)


def main(folder, *kinds):
    folder = Path(folder)
    warnings.simplefilter("ignore")
    found = run_checks(globals(), folder, ())
    rows = []
    for kind in kinds:
        try:
            rows.append(check(kind))
        except Exception as error:  # told by the test
            rows.append({"type": kind, "failed": f"{type(error).__name__}: {error}"[:500]})
    (folder / "rows.json").write_text(json.dumps(rows))
    (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
