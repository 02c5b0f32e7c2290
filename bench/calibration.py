# SPDX-License-Identifier: Apache-2.0
"""How often a category is the true one, by its probability, how often intervals of r_q and r_k hold the truth, by
the lengths of texts and where several examples are one text, and how often intervals along a leave out 0: heads whose
truth is known (tests/pca/clustered_texts.py), seen through few texts and analysed by the program. Prints tables of
docs/dev/validation.md.
`python bench/calibration.py build/qkscope`, minutes; `--only lengths` prints one of them."""
import argparse
import csv
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import scipy.stats

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "pca")]
import clustered_texts  # noqa: E402
from conftest import head_name, write_rows  # noqa: E402


ALONG = ("r_q_a", "r_k_a", "alpha_q", "alpha_k", "bias_strength")


def analysed(program, tables, heads, *options, text_ids=None):
    """Rows of tables, each named with the command that makes it. heads: (queries, keys) of each, in a layer. text_ids:
    of examples 0, 1, ..., where some are of one text."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        capture, out = Path(folder) / "c", Path(folder) / "out"
        capture.mkdir()
        if text_ids is not None:
            lines = [f"{example},{text}\n" for example, text in enumerate(text_ids)]
            (capture / "examples.csv").write_text("".join(["example_id,text_id\n", *lines]))
        for head, kinds in enumerate(heads):
            for name, columns in zip("qk", kinds):
                write_rows(capture, head_name(0, head, name), columns)
        for command in dict.fromkeys(tables.values()):
            subprocess.run([program, command, capture, "-o", out, "--q-per-kv-group", "1", "--quiet", *options],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for table in tables:
            with open(out / table, newline="") as file:
                found.append(list(csv.DictReader(file)))
    return found


def categories(program, kind, heads, texts, seed):
    """(table, true categories)"""
    truth, made = [], []
    for category, *kinds in clustered_texts.heads(np.random.default_rng(seed), kind, heads, texts):
        truth.append(category)
        made.append([clustered_texts.columns(x, texts) for x in kinds])
    [table] = analysed(program, {"heads.csv": "pca"}, made)
    return table, truth


# ---- texts of other lengths ------------------------------------------------------------------

def log_normal(rng, count, longest=1000):
    return np.clip(np.exp(np.log(80) + rng.standard_normal(count)), 16, longest).astype(int)


# lengths of `count` texts
LENGTHS = {"equal, 128": lambda rng, count: np.full(count, 128),
           "16 to 1,000, even": lambda rng, count: rng.integers(16, 1001, count),
           "log-normal, cut at 128": lambda rng, count: log_normal(rng, count, 128),
           "log-normal, cut at 256": lambda rng, count: log_normal(rng, count, 256),
           "log-normal": log_normal}


def text_rows(rng, r, scale, lengths, of_slopes, middle, spread, windows=1):
    """clustered_texts.rows, where positions have this mean and standard deviation over rows of all texts. So many
    lengths in turn are windows of one text."""
    noise = rng.standard_normal((len(lengths), lengths.max(), clustered_texts.D))
    for i in range(1, lengths.max()):
        noise[:, i] = 0.9 * noise[:, i - 1] + np.sqrt(1 - 0.81) * noise[:, i]
    rest, at = 1 - r ** 2, ((np.arange(lengths.max()) - middle) / spread)[None, :, None]
    slopes, offsets = (rng.standard_normal((len(lengths) // windows, 1, clustered_texts.D)).repeat(windows, axis=0)
                       for _ in range(2))
    x = r * at + np.sqrt(rest * of_slopes) * slopes * at + np.sqrt(0.15 * rest) * offsets + \
        np.sqrt(rest * (0.85 - of_slopes)) * noise
    return (x * scale)[np.arange(lengths.max()) < lengths[:, None]]


def of_lengths(program, lengths_of, heads, texts, seed):
    """Per head: (true r_q, true r_k, row of qk.csv, row of heads.csv). The truth is of the rows of infinitely many texts."""
    rng, truth, made = np.random.default_rng(seed), [], []
    n = lengths_of(rng, 1_000_000).astype(float)
    middle = (n * (n - 1) / 2).sum() / n.sum()
    spread = np.sqrt(((n - 1) * n * (2 * n - 1) / 6).sum() / n.sum() - middle ** 2)
    for _ in range(heads):
        r, scale = clustered_texts.near_thresholds(rng)
        lengths, of_slopes = lengths_of(rng, texts), rng.uniform(0.02, 0.15)
        truth.append(clustered_texts.true_correlations(r, scale))
        made.append([{"vector": text_rows(rng, one, scale, lengths, of_slopes, middle, spread).astype(np.float32),
                      "position": np.concatenate([np.arange(k) for k in lengths]),
                      "example_id": np.repeat(np.arange(texts), lengths)} for one in r])
    table, qk = analysed(program, {"heads.csv": "pca", "qk.csv": "pca"}, made, "--ci", "95")
    return truth, [row for row in qk if row["pc"] == "0"], table


def share(hits):
    hits = np.asarray(hits)
    if len(hits) == 0:
        return "none"
    return f"{hits.mean():.3f} ± {np.sqrt(hits.mean() * (1 - hits.mean()) / len(hits)):.3f} of {len(hits)}"


def held(truth, qk):
    """Of intervals that are told, which hold |r|: the sign of an axis means nothing."""
    return [lo <= abs(r) <= hi or lo <= -abs(r) <= hi
            for both, row in zip(truth, qk) for r, name in zip(both, ("r_q", "r_k")) if row[f"{name}_lo"]
            for lo, hi in [(float(row[f"{name}_lo"]), float(row[f"{name}_hi"]))]]


def right_cells(truth, qk, table):
    """What is told, and how often it is right."""
    certain = [(float(row["category_probability"]), row["category"] == clustered_texts.CATEGORIES[
        clustered_texts.classify(*both)]) for both, row in zip(truth, table)
        if float(row["category_probability"] or 0) >= 0.95]
    said = f"{np.mean([p for p, _ in certain]):.3f}" if certain else "-"
    known = np.median([float(row["effective_texts"] or row["texts"]) for row in table])
    told = np.mean([bool(row["category_probability"]) for row in table])
    spans = held(truth, qk)
    return (f"{known:.1f} | {100 * told:.0f} % | {said} | {share([hit for _, hit in certain])} | "
            f"{100 * len(spans) / 2 / len(table):.0f} % | {share(spans)} |")


def print_lengths(program, heads):
    print("| lengths | texts | that count (median) | probability told | certain: said | right | interval told | "
          "holds the truth |\n|---|--:|--:|--:|--:|--:|--:|--:|")
    for name in LENGTHS:
        for texts in (8, 16, 64):
            cells = right_cells(*of_lengths(program, LENGTHS[name], heads, texts, texts))
            print(f"| {name} | {texts} | {cells}", flush=True)


# ---- several examples of one text ------------------------------------------------------------

# (texts, windows of each, copies of each)
ONE_TEXT = {"one book in 11 windows": (1, 11, 1), "one text 12 times": (1, 1, 12), "7 books in 8 windows": (7, 8, 1),
            "10 books in 8 windows": (10, 8, 1), "10 texts": (10, 1, 1), "10 texts twice": (10, 1, 2),
            "40 books in 4 windows": (40, 4, 1)}


def of_one_text(program, texts, windows, copies, heads):
    """As of_lengths, of examples of 128 tokens."""
    rng, truth, made = np.random.default_rng(texts), [], []
    position = np.tile(np.arange(128), texts * windows)
    for _ in range(heads):
        r, scale = clustered_texts.near_thresholds(rng)
        of_slopes = rng.uniform(0.02, 0.15)
        truth.append(clustered_texts.true_correlations(r, scale))
        made.append([{"vector": np.tile(text_rows(rng, one, scale, np.full(texts * windows, 128), of_slopes,
                                                  position.mean(), position.std(), windows).astype(np.float32), (copies, 1)),
                      "position": np.tile(position, copies),
                      "example_id": np.arange(texts * windows * copies).repeat(128)} for one in r])
    table, qk = analysed(program, {"heads.csv": "pca", "qk.csv": "pca"}, made, "--ci", "95",
                         text_ids=np.tile(np.arange(texts).repeat(windows), copies))
    return truth, [row for row in qk if row["pc"] == "0"], table


def farthest(one, other):
    """Two tables of the same heads: how far apart what is said over texts is."""
    names = [name for name in one[0] if name.startswith(("r_q", "r_k")) or "probability" in name or "texts" in name]
    assert all(a["category"] == b["category"] for a, b in zip(one, other) if "category" in a)
    assert all((a[name] == "") == (b[name] == "") for a, b in zip(one, other) for name in names)
    return max(abs(float(a[name]) - float(b[name])) for a, b in zip(one, other) for name in names if a[name])


def print_one_text(program, heads):
    print("| examples | texts | that count (median) | probability told | certain: said | right | interval told | "
          "holds the truth |\n|---|--:|--:|--:|--:|--:|--:|--:|")
    found = {}
    for name, (texts, windows, copies) in ONE_TEXT.items():
        truth, qk, table = found[name] = of_one_text(program, texts, windows, copies, heads)
        assert texts >= 8 or not any(row["category_probability"] for row in table), name
        assert texts > 1 or not any(row[f"{r}_{end}"] for row in qk for r in ("r_q", "r_k") for end in ("lo", "hi")), name
        print(f"| {name} | {texts} | {right_cells(truth, qk, table)}", flush=True)
    apart = max(farthest(a, b) for a, b in zip(found["10 texts"][1:], found["10 texts twice"][1:]))
    print(f"\n10 texts, once and twice: numbers are at most {apart:.1e} apart")


# ---- means over tokens -----------------------------------------------------------------------

def in_groups(values, most=16):
    """Sums of columns, dealt in turn."""
    return sum(np.pad(values[:, i:i + most], ((0, 0), (0, max(0, most - values[:, i:i + most].shape[1]))))
               for i in range(0, values.shape[1], most))[:, :values.shape[1]]


def per_token_line(rng, name, texts, lean, sets=20_000):
    """Intervals of a mean over tokens, of texts whose means differ by 1, and by `lean` for each factor of e in length."""
    def shift(n):
        return lean * np.log(n / 80)
    endless = LENGTHS[name](rng, 2_000_000).astype(float)
    truth = (endless * shift(endless)).sum() / endless.sum()
    n = LENGTHS[name](rng, sets * texts).astype(float).reshape(sets, texts)
    means = rng.standard_normal(n.shape) + shift(n) + 3 / np.sqrt(n) * rng.standard_normal(n.shape)
    w, sums = in_groups(n), in_groups(n * means)
    groups, of_all = w.shape[1], w.sum(1, keepdims=True)
    without = (sums.sum(1, keepdims=True) - sums) / (of_all - w)
    error = np.sqrt((groups - 1) / groups * ((without - without.mean(1, keepdims=True)) ** 2).sum(1))
    off, count = np.abs(sums.sum(1) / w.sum(1) - truth), w.sum(1) ** 2 / (w ** 2).sum(1)
    count = np.maximum(np.where(count > groups - 0.5, groups, count), 2)
    shares = [(off <= error * scipy.stats.t.ppf(0.975, degrees)).mean() for degrees in (groups - 1, count - 1)]
    return f"| {name} | {texts} | {np.median(count):.1f} | {shares[0]:.3f} | {shares[1]:.3f} |"


def print_per_token():
    for lean in (0, 1):
        print(f"lean {lean}\n\n| lengths | texts | that count (median) | G - 1 | G' - 1 |\n|---|--:|--:|--:|--:|")
        for name in ("equal, 128", "16 to 1,000, even", "log-normal"):
            for texts in (4, 8, 16, 64):
                print(per_token_line(np.random.default_rng(texts), name, texts, lean), flush=True)


# ---- along a ---------------------------------------------------------------------------------

def drifting(rng, drift, texts, tokens=256, d=32, autocorrelation=0.98):
    """Queries and keys of one head, whose rows are like their neighbours', with a line over position of this
    size in a random direction, and means apart."""
    at, scale = (np.arange(tokens) - tokens / 2) / tokens, np.exp(-2 * np.arange(d) / d)
    apart, kinds = 1.5 * rng.standard_normal(d) / np.sqrt(d), []
    for sign in (1, -1):
        noise = rng.standard_normal((texts, tokens, d))
        for i in range(1, tokens):
            noise[:, i] = autocorrelation * noise[:, i - 1] + np.sqrt(1 - autocorrelation ** 2) * noise[:, i]
        x = scale * (noise + 0.5 * rng.standard_normal((texts, 1, d))) + sign * apart
        x += at[None, :, None] * drift * rng.standard_normal(d) / np.sqrt(d)
        kinds.append({"vector": x.reshape(-1, d).astype(np.float32), "position": np.tile(np.arange(tokens), texts),
                      "example_id": np.repeat(np.arange(texts), tokens)})
    return kinds


def excluded(program, drift, heads, texts, seed):
    """Of intervals along a, the share that leave out 0."""
    rng = np.random.default_rng(seed)
    [rows] = analysed(program, {"rotated.csv": "rotate"}, (drifting(rng, drift, texts) for _ in range(heads)),
                      "--ci", "95")
    return [np.mean([not float(row[f"{name}_lo"]) <= 0 <= float(row[f"{name}_hi"]) for row in rows])
            for name in ALONG]


def print_probabilities(args):
    print("| heads | texts | 0.5 to 0.8: said, right | 0.8 to 0.95: said, right | from 0.95: said, right |")
    print("|---|--:|--:|--:|--:|")
    for kind in clustered_texts.KINDS:
        for texts in map(int, args.texts.split(",")):
            table, truth = categories(args.program, kind, args.heads, texts, 30)
            if not any(row["category_probability"] for row in table):
                print(f"| {kind} | {texts} | not told | not told | not told |")
                continue
            cells = [f"{said:.3f}, {right:.3f} ± {np.sqrt(right * (1 - right) / heads):.3f} of {heads}"
                     for heads, said, right in clustered_texts.judge(table, truth)]
            print(f"| {kind} | {texts} | {' | '.join(cells)} |", flush=True)


def print_drift(args):
    print("\n| drift | texts |", " | ".join(ALONG), "|\n|---|--:|--:|--:|--:|--:|--:|")
    for drift in (0, 0.5, 2):
        for texts in (10, 40):
            shares = excluded(args.program, drift, args.heads // 2, texts, 3)
            print(f"| {drift} | {texts} |", " | ".join(f"{100 * s:.1f} %" for s in shares), "|", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--heads", type=int, default=400)
    parser.add_argument("--texts", default="4,10,40", help="of the first table")
    parser.add_argument("--only", choices=["probabilities", "lengths", "one-text", "per-token", "drift"])
    args = parser.parse_args()
    if args.only in (None, "probabilities"):
        print_probabilities(args)
    if args.only in (None, "lengths"):
        print_lengths(args.program, args.heads)
    if args.only in (None, "one-text"):
        print_one_text(args.program, args.heads)
    if args.only in (None, "per-token"):
        print_per_token()
    if args.only in (None, "drift"):
        print_drift(args)


if __name__ == "__main__":
    main()
