# SPDX-License-Identifier: Apache-2.0
"""How often `compare` calls a difference significant where there is none, of the same texts: two models of one truth, whose texts have offsets and drifts
of their own that both models share to a part. The table of docs/dev/validation.md. `python bench/paired.py BUILD [--seeds 8]`; minutes."""
import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
from make_capture import make_capture  # noqa: E402

LENGTH = 2048  # tokens, of 16 buckets


def of_texts(seed, head, texts, dim, spread):
    """Offset and drift of each text."""
    rng = np.random.default_rng([seed, *head])
    return rng.normal(0, spread, (2, texts, dim))


def write_half(made, folder, half, texts, seed, spread, shared):
    """A capture of half the texts, numbered anew, with effects of texts."""
    for path in sorted(made.rglob("*.parquet")):
        name = path.relative_to(made)
        head = [int(b) for b in str(name).encode()[:8]]
        table = pq.read_table(path)
        ids = table["example_id"].to_numpy()
        mine = (ids >= texts) == bool(half)
        table, ids = table.filter(pa.array(mine)), ids[mine] % texts
        x = np.stack(table["vector"].to_numpy(zero_copy_only=False)).astype(np.float64)
        both, own = of_texts(seed, head, texts, x.shape[1], spread), of_texts(seed + 1000 * (half + 1), head, texts, x.shape[1], spread)
        effect = np.sqrt(shared) * both + np.sqrt(1 - shared) * own
        t = table["position"].to_numpy()[:, None] / LENGTH - 0.5
        x += effect[0][ids] + effect[1][ids] * t
        for column, values in (("example_id", pa.array(ids, table["example_id"].type)),
                               ("vector", pa.array(x.astype(np.float32).tolist(), pa.list_(pa.float32())))):
            table = table.set_column(table.column_names.index(column), column, values)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, folder / name)
    facts = json.loads((made / "capture.json").read_text())
    kept = {key: facts[key] for key in ("format", "format_version", "model", "q_per_kv_group") if key in facts}
    (folder / "capture.json").write_text(json.dumps(kept))


def tested(program, work, seed, texts, spread, shared):
    """(paired, p) of each tested difference."""
    make_capture(work / "made", layers=3, query_heads=8, q_per_kv_group=4, dim=16, examples=2 * texts, rows=96, seed=seed)
    for half, name in enumerate("ab"):
        write_half(work / "made", work / name, half, texts, seed, spread, shared)
        subprocess.run([program, "analyze", work / name, "-o", work / f"{name}.out", "--ci", "95", "-q"], check=True, stderr=subprocess.DEVNULL)
    subprocess.run([program, "compare", work / "a.out", work / "b.out", "-o", work / "c", "-q"], check=True, stderr=subprocess.DEVNULL)
    with open(work / "c" / "compare.csv", newline="") as file:
        return [(row["paired"] == "1", float(row["p"])) for row in csv.DictReader(file) if row["p"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("--seeds", type=int, default=8)
    args = parser.parse_args()
    print("| texts | effects of texts | shared | tests | paired | p < 0.05 |\n|--:|--:|--:|--:|--:|--:|")
    for texts in (16, 40):
        for spread, shared in ((0, 0), (0.3, 0), (0.3, 0.5), (0.3, 0.9)):
            found = []
            for seed in range(args.seeds):
                with tempfile.TemporaryDirectory() as work:
                    found += tested(args.build / "qkscope", Path(work), seed, texts, spread, shared)
            paired, p = zip(*found)
            print(f"| {texts} | {spread:g} | {shared:g} | {len(p)} | {np.mean(paired):.0%} | {np.mean(np.array(p) < 0.05):.1%} |", flush=True)


if __name__ == "__main__":
    main()
