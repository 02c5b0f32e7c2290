# SPDX-License-Identifier: Apache-2.0
"""How good mean queries are on real models: calibrated on one window of --length tokens, checked on the first windows of other texts (docs/howto/export.md).
Beside them the same numbers read wrongly, of which the correlation has to fall. Prints Markdown.
`python bench/held_out.py results/real results/gemma3-270m`, folders of `make demo-real` and `make demo-real MODEL=gemma3-270m`, of which only
fetched/ and passages.jsonl are needed; minutes."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("QKSCOPE_BUILD", ROOT / "build")).resolve()
sys.path.insert(0, str(BUILD / "python"))
from qkscope.export import _check  # noqa: E402
from qkscope.export._request import Request  # noqa: E402
from qkscope.export._rotary import pairs, rotary  # noqa: E402


def capture(model, texts, output, length, *options):
    subprocess.run([BUILD / "qkscope", "capture", "-m", model, "-t", texts, "-o", output, "--long", "cut", "--max-length", str(length), "--sampler", "all",
                    "--quiet", *options], check=True)
    return output


def means_of(folder):
    return rotary(Request(folder, Path("nowhere"), "", None, 128, 256, 500, {}, False))


def faults(right, after):
    """The means, and what readers have made of them."""
    other = {"half": "interleaved"}  # the models here have halves
    yield "right", right.layers
    yield "conjugated", [one._replace(mean=one.mean.conj()) for one in right.layers]
    vectors = right.heads.means("q")
    yield f"pairs of halves read as {other['half']}", [one._replace(mean=pairs(vectors[i], one.rotation._replace(interleaved=True)))
                                                       for i, one in enumerate(right.layers)]
    yield "mean after RoPE", [one._replace(mean=pairs(after[i], one.rotation)) for i, one in enumerate(right.layers)]
    yield "next query head", [one._replace(mean=np.roll(one.mean, -1, 0)) for one in right.layers]


def after_rope(folder):
    """[layers, heads, d]"""
    from safetensors.numpy import load_file
    return [load_file(path)["q.mean"][0] for path in sorted((folder / "moments").glob("l*.safetensors"))]


def bench(folder, length, texts):
    model, = (folder / "fetched").glob("*.gguf")
    lines = (folder / "passages.jsonl").read_text().splitlines(keepends=True)
    with tempfile.TemporaryDirectory() as work:
        work = Path(work)
        for name, some in (("seen.jsonl", lines[:1]), ("held.jsonl", lines[1:1 + texts])):
            (work / name).write_text("".join(some))
        capture(model, work / "seen.jsonl", work / "seen", length, "--stage", "both", "--keep", "moments", "--groups", "0")
        held = capture(model, work / "held.jsonl", work / "held", length, "--stage", "pre", "--keep", "rows")
        rows, read = {}, _check._texts  # each head is read once
        _check._texts = lambda capture, *head: rows[head] if head in rows else rows.setdefault(head, read(capture, *head))
        right = means_of(work / "seen" / "pre")
        thetas = [one.rotation.frequencies[-1] for one in right.layers]
        kinds = [[i for i, one in enumerate(thetas) if one == kind] for kind in dict.fromkeys(thetas)]
        print(f"\n{model.stem}: {sum(len(json.loads(line)['text']) for line in lines[1:1 + texts])} characters held out in {texts} windows of {length} tokens\n")
        print("| | all heads |", *(f" layers {', '.join(map(str, kind))} |" for kind in kinds[:len(kinds) * (len(kinds) > 1)]))
        print("|---|--:|" + "--:|" * (len(kinds) if len(kinds) > 1 else 0))
        for name, layers in faults(right, after_rope(work / "seen" / "post")):
            found = _check.correlations(right._replace(layers=layers), held)
            medians = [np.median(found), *(np.median(found[kind]) for kind in kinds[:len(kinds) * (len(kinds) > 1)])]
            print(f"| {name} |", *(f"{median:.3f} |" for median in medians), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--texts", type=int, default=3)
    args = parser.parse_args()
    for folder in args.folders:
        bench(folder, args.length, args.texts)


if __name__ == "__main__":
    main()
