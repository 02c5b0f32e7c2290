# SPDX-License-Identifier: Apache-2.0
"""qkscope ablate: its tables are what NumPy makes of the losses that the engine tells of each token (tests/prefill holds
these against whole forwards); changes that change nothing; what must not change the bytes; what is refused."""
import csv
import json
import math
import shutil
import sys

import numpy as np
import pytest
import scipy.stats
from conftest import EXAMPLE, ROOT, head_name, write_head

sys.path += [str(ROOT / "tests" / "prefill"), str(ROOT / "tests" / "recorder")]
from branch_reference import (NO_SINK, OUTPUT, PROFILE, ROTATION, UNIFORM, WINDOW, Llama, change, distance_bin,  # noqa: E402
                              write_branches)
from prefill_runs import read_losses, start  # noqa: E402
from recording import killed  # noqa: E402

TINY = ROOT / "examples" / "kjv-tiny"
STEP = TINY / "step-2004"
PASSAGES = [json.loads(line)["text"] for line in (TINY / "passages.jsonl").read_text().splitlines()]
LONGEST, GROUPS, LAYERS, WIDTH, PAIRS = 32, 32, 5, 4, 16
# A tokenizer of bytes: texts of 1 to 32 tokens, one of three windows, and one without tokens. More than there are groups.
LENGTHS = [20, 32, 1, 75, 9, 0, 2, *range(4, 18), *range(3, 19)]
TEXTS = [PASSAGES[i].encode()[:n].decode() for i, n in enumerate(LENGTHS)]
TABLES = ("ablation.csv", "ablation_heads.csv", "ablation_groups.csv", "ablation_positions.csv")


def write_texts(folder, texts):
    path = folder / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def ablate(qkscope, texts, out, *words, expect=0):
    return qkscope("ablate", "-m", STEP, "-t", texts, "--max-length", LONGEST, "-q", "-o", out, *words, expect=expect)


def rows_of(folder, name="ablation.csv"):
    with open(folder / name, newline="") as file:
        return list(csv.DictReader(file))


def number(cell):
    return float(cell) if cell else np.nan


def tables(folder):
    return {name: (folder / name).read_bytes() for name in TABLES}


def manifest(folder):
    made = json.loads((folder / "manifest.json").read_text())
    made.pop("command_line")
    return made


def print_of(path):
    data = path.read_bytes()
    return {"bytes": len(data), "xxh3_128": pytest.importorskip("xxhash").xxh3_128_hexdigest(data)}


def finished(folder):
    """Nothing but tables and manifest is in it."""
    return sorted(path.name for path in folder.iterdir()) == sorted([*TABLES, "manifest.json"])


# ---- tables --------------------------------------------------------------------------------------

def windows_of(texts):
    """Tokens of each window, and the group of texts that it is of. A text of one token has no loss, and no group of its own."""
    made, number = [], 0
    for text in texts:
        tokens = list(text.encode())
        made += [(tokens[i:i + LONGEST], number % GROUPS if len(tokens) > 1 else 0) for i in range(0, len(tokens), LONGEST)]
        number += len(tokens) > 1
    return made


def repeats(tokens):
    """Of each token but the first: whether it stood behind the same one before."""
    pairs = list(zip(tokens, tokens[1:]))
    return np.array([pair in pairs[:i] for i, pair in enumerate(pairs)], bool)


KINDS = {"remove": dict(kind=OUTPUT), "freeze": dict(kind=ROTATION, frozen=np.ones(PAIRS)),
         "freeze+first": dict(kind=ROTATION, frozen=np.ones(PAIRS), keep_first=1),
         "freeze:fast": dict(kind=ROTATION, frozen=np.arange(PAIRS) < 6),
         "freeze:fast+first": dict(kind=ROTATION, frozen=np.arange(PAIRS) < 6, keep_first=1),
         "window:4:1": dict(kind=WINDOW, window=4, kept=1), "no-sink": dict(kind=NO_SINK), "uniform": dict(kind=UNIFORM)}
WORDS = "remove,freeze,freeze:fast,window:4:1,no-sink,uniform"
SINGLE = {"L1H2": [(1, 2)], "L3H2": [(3, 2)]}
TOGETHER = {"all": [(1, 2), (3, 2)]}


class Losses:
    """Of each group of heads and change, of every window: losses without the change, differences, drifts; by token."""

    def __init__(self, folder, texts, groups, kinds, suffix=0):
        self.windows = windows_of(texts)
        self.texts = [n for n, text in enumerate(texts) for _ in range(0, len(text.encode()), LONGEST)]
        trials = sorted(((name, heads, what) for name, heads in groups.items() for what in kinds),
                        key=lambda trial: trial[1][0])
        branches = [(w, suffix, [change(*head, **kinds[what]) for head in heads])
                    for _, heads, what in trials for w in range(len(self.windows))]
        write_branches(folder / "branches.txt", branches)
        run, _ = start(STEP, [tokens for tokens, _ in self.windows], folder, "none", f"loss={folder / 'losses'}",
                       f"branches={folder / 'branches.txt'}")
        assert run.returncode == 0, run.stderr
        changed = {}
        clean = read_losses(folder / "losses", changed)
        self.rows = [np.arange(max(len(t) - suffix, 0) if suffix else 0, len(t) - 1) for t, _ in self.windows]
        self.clean = [clean[w].astype(float)[rows] if len(t) > 1 else np.zeros(0)
                      for w, ((t, _), rows) in enumerate(zip(self.windows, self.rows))]
        self.delta, self.drift = {}, {}
        for i, (name, _, what) in enumerate(trials):
            at = i * len(self.windows)
            own = [changed.get(at + w, (0, np.zeros(0), np.zeros(0)))[1:] for w in range(len(self.windows))]
            self.delta[name, what] = [a.astype(float) - b for (a, _), b in zip(own, self.clean)]
            self.drift[name, what] = [b.astype(float) for _, b in own]

    def every(self):
        return [np.ones(len(v), bool) for v in self.clean]

    def rate(self, values, mask):
        """Mean over the tokens of all texts, and without each group of them."""
        groups = np.array([g for _, g in self.windows])
        sums = np.array([v[m].sum() for v, m in zip(values, mask)])
        counts = np.array([m.sum() for m in mask])
        kept = (groups >= 0, *(groups != g for g in range(groups.max() + 1)))
        return np.array([sums[keep].sum() / max(counts[keep].sum(), 1) for keep in kept])

    def changed(self, *trial):
        """The share of tokens that are not as they were, and how many texts have any."""
        found = self.moved(*trial)
        return self.rate(found, self.every())[0], len({n for n, any_of in zip(self.texts, map(np.any, found)) if any_of})

    def moved(self, *trial):
        """Which tokens are not as they were."""
        return [(a != 0) | (b != 0) for a, b in zip(self.delta[trial], self.drift[trial])]

    def degrees(self, mask=None):
        """Of freedom: as many groups of equal numbers of (these) tokens know as much, less one."""
        tokens = np.bincount([g for _, g in self.windows], [m.sum() for m in mask or self.every()])
        count, known = tokens.sum() ** 2 / (tokens ** 2).sum(), (tokens > 0).sum()
        return (known if count > known - 0.5 else count) - 1


def jackknife(rates, level, degrees):
    """lo, hi, p of the first, by repetitions without one group of texts each."""
    values, count = rates[1:], len(rates) - 1
    error = np.sqrt((count - 1) / count * ((values - values.mean()) ** 2).sum())
    reach = scipy.stats.t.ppf((1 + level) / 2, degrees) * error
    p = 2 * scipy.stats.t.sf(abs(rates[0]) / error, degrees) if error else 1
    return rates[0] - reach, rates[0] + reach, p


def with_draws(rates, drawn, possible, degrees):
    """lo, hi at 95 % of the first of the rates, where other draws of so many of `possible` are another reason to differ."""
    count = len(rates) - 1
    texts = (count - 1) / count * ((rates[1:] - rates[1:].mean()) ** 2).sum()
    draws = np.var(drawn, ddof=1) / len(drawn) * (1 - len(drawn) / possible)
    known = (texts + draws) ** 2 / (texts ** 2 / degrees + draws ** 2 / (len(drawn) - 1))
    reach = scipy.stats.t.ppf(0.975, known) * np.sqrt(texts + draws)
    return rates[0] - reach, rates[0] + reach


def check_rows(rows, losses, groups, level):
    every = losses.every()
    again = [repeats(t)[r] if len(t) > 1 else np.zeros(0, bool) for (t, _), r in zip(losses.windows, losses.rows)]
    novel = [~mask for mask in again]
    close = dict(rel=1e-9, abs=1e-13)
    degrees = losses.degrees()
    loss, ps, undecided = losses.rate(losses.clean, every)[0], [], 0
    for row, (name, what) in zip(rows, ((name, what) for name in groups for what in KINDS), strict=True):
        assert (row.get("group") or f"L{row['layer']}H{row['q_head']}", row["what"]) == (name, what)
        delta, drift = losses.delta[name, what], losses.drift[name, what]
        assert float(row["loss"]) == pytest.approx(loss, rel=1e-12)
        rates, far = losses.rate(delta, every), losses.rate(drift, every)
        lo, hi, p = jackknife(rates, level, degrees)
        for column, value in dict(delta=rates[0], delta_lo=lo, delta_hi=hi, drift=far[0], drift_hi=jackknife(far, level, degrees)[1],
                                  drift_lo=max(jackknife(far, level, degrees)[0], 0), repeated=losses.rate(delta, again)[0],
                                  novel=losses.rate(delta, novel)[0]).items():
            assert float(row[column]) == pytest.approx(value, **close), (name, what, column)
        assert [float(row["changed"]), int(row["changed_texts"])] == pytest.approx(losses.changed(name, what), rel=1e-12)
        moved = losses.moved(name, what)
        of_moved = jackknife(losses.rate(delta, moved), level, losses.degrees(moved))
        assert float(row["changed_delta_hi"]) == pytest.approx(of_moved[1], **close)
        assert float(row["p"]) == pytest.approx(p, rel=1e-6)
        ps.append(float(row["p"]))
        removed = losses.rate(losses.delta[name, "remove"], every)
        p_removed = next(float(r["p_corrected"]) for r in rows if r["what"] == "remove" and (r.get("group") or
                         f"L{r['layer']}H{r['q_head']}") == name)
        if p_removed > 0.05:
            assert row["share"] == row["share_lo"] == row["share_hi"] == ""
            undecided += 1
        else:
            ratio = rates / removed
            lo, hi, _ = jackknife(ratio, level, degrees)
            shares = [float(row[c]) for c in ("share", "share_lo", "share_hi")]
            assert shares == pytest.approx([ratio[0], lo, hi], rel=1e-8, abs=1e-10)
    corrected = scipy.stats.false_discovery_control(ps)
    assert [float(row["p_corrected"]) for row in rows] == pytest.approx(list(corrected), rel=1e-12)
    assert len(set(corrected)) > 3 and (corrected > ps).any()
    return undecided


def check_positions(rows, losses):
    found = {(row["group"], row["what"], int(row["first"])): row for row in rows}
    count = 0
    for name, what in losses.delta:
        for least in (1, 2, 4, 8, 16):
            inside = [(r + 1 >= least) & (r + 1 < 2 * least) for r in losses.rows]
            if not any(mask.any() for mask in inside):
                continue
            row = found[name, what, least]
            count += 1
            assert int(row["tokens"]) == sum(mask.sum() for mask in inside)
            assert int(row["last"]) == 2 * least - 1
            for column, values in dict(loss=losses.clean, delta=losses.delta[name, what],
                                       drift=losses.drift[name, what]).items():
                assert float(row[column]) == pytest.approx(losses.rate(values, inside)[0], rel=1e-9, abs=1e-13)
    assert count == len(rows)


@pytest.mark.release
@pytest.mark.parametrize("count, suffix, level", [(len(TEXTS), 0, 95), (11, 6, 80)])
def test_tables(qkscope, tmp_path, count, suffix, level):
    """Of heads one by one and together, by the losses of single tokens."""
    texts = write_texts(tmp_path, TEXTS[:count])
    more = ["--suffix", suffix] if suffix else []
    ablate(qkscope, texts, tmp_path / "out", "-w", WORDS, "--heads", "1:2,3:2", "--groups", "each", "--groups", "all",
           "--draws", "0", "--ci", level, *more)
    losses = Losses(tmp_path, TEXTS[:count], SINGLE | TOGETHER, KINDS, suffix)
    assert len(losses.windows) == count + 1 and max(g for _, g in losses.windows) == min(count - 2, GROUPS) - 1
    out = tmp_path / "out"
    undecided = check_rows(rows_of(out), losses, SINGLE, level / 100)
    assert 0 < undecided and (suffix or undecided < len(KINDS) * len(SINGLE))  # the last rows of short texts decide nothing
    check_rows(rows_of(out, "ablation_groups.csv"), losses, TOGETHER, level / 100)
    check_positions(rows_of(out, "ablation_positions.csv"), losses)
    told = manifest(out)
    assert (told["texts"], told["text_groups"]) == (len(losses.windows), min(count - 2, GROUPS))
    assert told["tokens"] == sum(map(len, losses.clean)) and told["suffix"] == suffix and told["level"] == level
    assert told["what"] == list(KINDS) and finished(out)


def test_equal_texts_count_once(qkscope, tmp_path):
    """Six texts, one of them in windows, and the same three times over: nothing is known better."""
    texts = TEXTS[:7]
    for name, times in (("once", 1), ("often", 3)):
        (tmp_path / name).mkdir()
        ablate(qkscope, write_texts(tmp_path / name, texts * times), tmp_path / name / "out", "-w", "remove", "--heads", "1:2")
    once, often = (rows_of(tmp_path / name / "out")[0] for name in ("once", "often"))
    assert manifest(tmp_path / "once" / "out")["text_groups"] == manifest(tmp_path / "often" / "out")["text_groups"] == 5
    for column in ("delta", "delta_lo", "delta_hi", "p", "drift_lo", "drift_hi"):
        assert float(often[column]) == pytest.approx(float(once[column]), rel=1e-9), column


def seen_in(llama, tokens, name, of):
    """{(layer, head): of(what a method returns)} of a text, by the forward that knows no profiles."""
    made, method = {}, getattr(llama, name)

    def keep(*args):
        found = method(*args)
        made[len(made) // WIDTH, len(made) % WIDTH] = of(found)
        return found

    setattr(llama, name, keep)
    try:
        llama.logits(tokens)
    finally:
        delattr(llama, name)
    assert len(made) == LAYERS * WIDTH
    return made


def softmax(scores):
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def profile_of(weights):
    """[bins of rows][shares] from several texts' weights."""
    sums, rows = np.zeros((22, 24)), np.zeros(22)
    for a in weights:
        for i in range(len(a)):
            to = sums[distance_bin(i)]
            rows[distance_bin(i)] += 1
            to[0] += a[i, 0]
            to[1] += a[i, 1:4].sum()
            for j in range(4, i + 1):
                to[2 + distance_bin(i - j)] += a[i, j]
    last = max(b for b in range(22) if rows[b])
    return np.array([sums[b] / rows[b] if rows[b] else sums[last] / rows[last] for b in range(22)])


def mean_of(outputs):
    """By bin of the row; rows in bins that no text reaches have the last one that is reached."""
    values = []
    for b in range(22):
        rows = [out[r] for out in outputs for r in range(len(out)) if distance_bin(r) == b]
        values.append(np.mean(rows, axis=0) if rows else values[-1])
    return values


@pytest.mark.parametrize("what, kind, seen, average", [("profile", PROFILE, ("scores", softmax), profile_of),
                                                       ("mean", OUTPUT, ("head", np.array), mean_of)], ids=["profile", "mean"])
def test_of_the_other_texts(qkscope, tmp_path, what, kind, seen, average):
    """A text's own attention, or output, is not in the profile, or mean, that it is tested with: not in the longest text either."""
    given = [PASSAGES[i].encode()[:n].decode() for i, n in enumerate((20, 31, 12, 28))]
    ablate(qkscope, write_texts(tmp_path, given), tmp_path / "out", "-w", what, "--heads", "0:3,2:1")
    llama = Llama(STEP)
    tokens = [list(text.encode()) for text in given]
    kept = [seen_in(llama, t, *seen) for t in tokens]
    clean = [llama.log_probabilities(t) for t in tokens]
    for row, at in zip(rows_of(tmp_path / "out"), [(0, 3), (2, 1)], strict=True):
        deltas, own = [], []
        for i, t in enumerate(tokens):
            here = np.arange(len(t) - 1)
            for some, to in ([j for j in range(4) if j != i], deltas), (range(4), own):
                changed = llama.log_probabilities(t, [change(*at, kind, values=average([kept[j][at] for j in some]))])
                to.append((clean[i] - changed)[here, t[1:]])
        expected = np.concatenate(deltas).mean()
        assert float(row["delta"]) == pytest.approx(expected, abs=2e-6)
        assert abs(np.concatenate(own).mean() - expected) > 2e-5, "with its own text it would be the same"


def test_bands(qkscope, tmp_path):
    """Thirds of the pairs, from the fastest on, and wavelengths: which pairs they are."""
    theta = json.loads((STEP / "config.json").read_text())["rope_theta"]
    waves = 2 * np.pi * theta ** (np.arange(PAIRS) / PAIRS)
    assert waves[2] < 20 < waves[3] and waves[6] < 300 < waves[7]
    pairs = np.arange(PAIRS)
    bands = {"all": pairs >= 0, "fast": pairs < 6, "middle": (pairs >= 6) & (pairs < 11), "slow": pairs >= 11, "<20": pairs < 3,
             "20-300": (pairs >= 3) & (pairs < 7), ">300": pairs >= 7}
    texts, kinds = TEXTS[:4], {f"freeze:{band}": dict(kind=ROTATION, frozen=frozen) for band, frozen in bands.items()}
    ablate(qkscope, write_texts(tmp_path, texts), tmp_path / "out", "-w", ",".join(kinds), "--heads", "0:3", "--no-controls")
    losses = Losses(tmp_path, texts, {"L0H3": [(0, 3)]}, kinds)
    rows = rows_of(tmp_path / "out")
    assert len({row["delta"] for row in rows}) == len(bands) == len(rows)
    for row in rows:
        assert float(row["delta"]) == pytest.approx(losses.rate(losses.delta["L0H3", row["what"]], losses.every())[0], rel=1e-9)


def test_shuffles_within_blocks(qkscope, tmp_path):
    """Of five tokens in blocks of two: each of the four ways comes, by the seed and by the text, and no other."""
    text = PASSAGES[0][:5]
    ways = {str(a + b): dict(kind=ROTATION, positions=[*a, *b, 4]) for a in ((0, 1), (1, 0)) for b in ((2, 3), (3, 2))}
    losses = Losses(tmp_path, [text], {"L0H3": [(0, 3)]}, ways)
    sums = {way: losses.delta["L0H3", way][0].mean() for way in ways}
    assert sums[str((0, 1, 2, 3))] == 0 and len({round(value, 6) for value in sums.values()}) == 4
    seen, pairs = set(), set()
    for seed in range(12):
        for texts, found in (([text], seen), ([text, text], pairs)):
            ablate(qkscope, write_texts(tmp_path, texts), tmp_path / "out", "-w", "shuffle:2", "--heads", "0:3", "--no-controls",
                   "--seed", seed, "--force")
            row, = rows_of(tmp_path / "out")
            found.add(round(float(row["delta"]), 9))
    assert seen <= {round(value, 9) for value in sums.values()} and len(seen) >= 3
    assert pairs - seen, "both texts were shuffled alike, each time"
    for value in pairs:
        assert min(abs(value - (a + b) / 2) for a in sums.values() for b in sums.values()) < 2e-9


# ---- changes that change nothing -----------------------------------------------------------------

def test_changes_that_change_nothing(qkscope, tmp_path):
    """Exactly: a window of the text's length, places that stay, and a band without pairs, which
    is one above every wavelength, or below."""
    theta = json.loads((STEP / "config.json").read_text())["rope_theta"]
    longest = 2 * np.pi * theta ** ((PAIRS - 1) / PAIRS)
    whats = [f"window:{LONGEST}", f"window:1:{LONGEST}", "shuffle:1", "freeze:<6", f"freeze:>{longest + 1:.0f}", "freeze:2-6"]
    ablate(qkscope, write_texts(tmp_path, TEXTS[:8]), tmp_path / "out", "-w", ",".join([*whats, "window:30", "freeze:>6"]),
           "--heads", "0:1,2:*,4:3")
    rows = rows_of(tmp_path / "out")
    assert len(rows) == 6 * (8 + 5)  # and those that keep the first keys
    moved = {row["what"] for row in rows if float(row["delta"]) or float(row["drift"])}
    assert moved == {"window:30", "freeze:>6", "freeze:>6+first"}
    for row in rows:
        if row["what"] not in moved:
            assert [row[c] for c in ("delta", "delta_lo", "delta_hi", "drift", "repeated", "novel")] == ["0"] * 6
            assert row["p"] == row["p_corrected"] == ""
    for row in rows_of(tmp_path / "out", "ablation_positions.csv"):
        assert row["what"] in moved or row["delta"] == row["drift"] == "0"


def test_a_suffix_longer_than_the_texts(qkscope, tmp_path):
    """Is no suffix, and a warning says so."""
    texts = write_texts(tmp_path, TEXTS[:2])
    for suffix, warned in (31, False), (32, True):
        said = qkscope("ablate", "-m", STEP, "-t", texts, "-w", "remove", "--heads", "1:2", "-o", tmp_path / str(suffix), "--suffix", suffix,
                       expect=0).err
        assert ("suffix: no text has more than 32 tokens, so all rows change" in said) == warned
    ablate(qkscope, texts, tmp_path / "whole", "-w", "remove", "--heads", "1:2")
    assert tables(tmp_path / "whole") == tables(tmp_path / "32")


@pytest.mark.parametrize("kept, suffix", [(0, 0), (1, 0), (0, 5)])
@pytest.mark.cases(3)
def test_how_much_a_window_changes(qkscope, tmp_path, kept, suffix):
    """The rows that miss a key: those behind the window, and the keys that are kept. Equal texts and windows of one count once."""
    texts, window = [*TEXTS[:8], TEXTS[0], TEXTS[0]], 6
    ablate(qkscope, write_texts(tmp_path, texts), tmp_path / "out", "-w", f"window:{window}:{kept},remove", "--heads", "1:2",
           *(["--suffix", suffix] if suffix else []))
    row, removed = rows_of(tmp_path / "out")
    rows = [np.arange(len(tokens) - 1)[max(len(tokens) - suffix, 0) if suffix else 0:] for tokens, _ in windows_of(texts)]
    missed = [(own >= window + kept).sum() for own in rows]
    assert float(row["changed"]) == pytest.approx(sum(missed) / sum(map(len, rows)), rel=1e-12) and 0 < float(row["changed"]) < 1
    assert int(row["changed_texts"]) == len({text for text in texts if len(text.encode()) > window + kept + 1})
    assert removed["changed"] == "1"


def test_a_verdict_needs_texts_that_change(qkscope, tmp_path):
    """A window that hardly a row of a text reaches is judged by these rows, and not at all where they are of one or two texts."""
    def run(name, lengths, window, tolerance):
        (tmp_path / name).mkdir()
        texts = write_texts(tmp_path / name, [passage[:length] for passage, length in zip(PASSAGES, lengths)])
        words = ["ablate", "-m", STEP, "-t", texts, "-w", f"window:{window}", "--heads", "1:*", "--tolerance", repr(tolerance), "-o",
                 tmp_path / name / "out"]
        said = qkscope(*words, expect=0).out
        return json.loads(qkscope(*words, "--json", expect=0).out)["effects"], " ".join(said.split())
    effects, _ = run("first", [40] * 8, 30, 1.0)
    most = max(e["delta_hi"] for e in effects)
    assert most > 0 and {(e["verdict"], e["changed_texts"]) for e in effects} == {("harmless", 8)}
    # The largest loss is below the tolerance for a token, and above it for one that changed.
    effects, said = run("all", [40] * 8, 30, 1.5 * most)
    assert {round(e["changed"], 9) for e in effects} == {round(9 / 39, 9)}
    assert [e["verdict"] for e in effects] == [verdict(e, 1.5 * most) for e in effects]
    worst = max(effects, key=lambda e: e["delta_hi"])
    assert worst["verdict"] == "undecided" and worst["delta_hi"] < 1.5 * most
    assert f"{worst['group']}: with a window (30) the rise is not decided (" in said and "nats; only 23 % of predictions changed)" in said
    effects, said = run("wide", [40] * 8, 30, 9)
    assert "; only 23 % of predictions changed): this window is enough in these texts." in said
    for long, word in (1, "one text"), (2, "two texts"), (3, None):
        effects, said = run(f"{long} long", [120] * long + [90] * (7 - long), 89, 9)
        assert {(e["verdict"], e["changed_texts"]) for e in effects} == {("harmless" if long == 3 else "undecided", long)}
        assert (word is None) == ("text changed" not in said and "texts changed" not in said) and f"only {word} changed" in said or not word
    # Seven texts change, and nearly all that changes is of one of them: there is no interval of that.
    effects, said = run("one long", [500] + [91] * 6, 89, 9)
    assert {(e["verdict"], e["changed_texts"], e["changed_delta_hi"]) for e in effects} == {("undecided", 7, None)}
    assert all(e["delta_hi"] < 1 for e in effects) and "; most of what changed is of one text" in said


def test_weights_that_are_not_numbers(qkscope, tmp_path):
    """No number comes of them, and the message says why."""
    model, texts = tmp_path / "m", write_texts(tmp_path, TEXTS[:2])
    shutil.copytree(STEP, model)
    path, = model.glob("*.safetensors")
    data = bytearray(path.read_bytes())
    data[-64:] = b"\xff" * 64
    path.write_bytes(data)
    for command in ["loss"], ["ablate", "-w", "remove", "-o", tmp_path / "out"]:
        said = qkscope(*command, "-m", model, "-t", texts, "--max-length", LONGEST, expect=1)
        assert "is not finite: a weight of the model" in said.err and not said.out, said


def test_texts_of_one_id(qkscope, tmp_path):
    """They are one text, as a warning says: in groups, in what is counted, and in what a profile is fitted on."""
    made = tmp_path / "texts.jsonl"
    made.write_text("".join(json.dumps({"id": i // 2, "text": text[:300]}) + "\n" for i, text in enumerate(PASSAGES[:8])))
    said = qkscope("ablate", "-m", STEP, "-t", made, "--id-column", "id", "--heads", "4:3", "-w", "remove,profile", "-o",
                   tmp_path / "out", expect=0)
    assert "all texts of an id count as one" in said.err and manifest(tmp_path / "out")["text_groups"] == 4
    assert [row["changed_texts"] for row in rows_of(tmp_path / "out")] == ["4", "4"]
    # Windows of 300 tokens of the same texts, joined: the same groups, and so the same interval.
    (tmp_path / "joined").mkdir()
    joined = write_texts(tmp_path / "joined", ["".join(text[:300] for text in PASSAGES[i:i + 2]) for i in range(0, 8, 2)])
    qkscope("ablate", "-m", STEP, "-t", joined, "--max-length", "300", "--heads", "4:3", "-w", "remove,profile", "-o",
            tmp_path / "windows", "-q", expect=0)
    assert rows_of(tmp_path / "windows") == rows_of(tmp_path / "out")


def test_a_loss_that_falls(qkscope, tmp_path):
    """A head of an early checkpoint that does harm: its loss is not said to rise."""
    found = qkscope("ablate", "-m", TINY / "step-100", "-t", TINY / "passages.jsonl", "--max-texts", "6", "--max-length", "64", "--long",
                    "cut", "-w", "remove,no-sink", "--heads", "3:0", "-o", tmp_path / "out", expect=0)
    removed, sink = rows_of(tmp_path / "out")
    assert float(removed["delta_hi"]) < 0 and float(sink["delta_hi"]) < 0
    said = " ".join(found.out[found.out.index("Verdicts"):].split())
    assert "L3H0: removing it lowers the loss (" in said and "the loss falls (" in said and "rises" not in said


def test_no_test_where_nothing_changes(qkscope, tmp_path):
    """Changes that changed nothing do not count in the correction of the others."""
    texts, heads = write_texts(tmp_path, TEXTS[:8]), ["--heads", "0:1,2:0,4:3", "--no-controls"]
    ablate(qkscope, texts, tmp_path / "alone", "-w", "remove,uniform", *heads)
    ablate(qkscope, texts, tmp_path / "out", "-w", "shuffle:1,remove,window:999,uniform", *heads)
    rows, alone = rows_of(tmp_path / "out"), rows_of(tmp_path / "alone")
    assert [row for row in rows if row["what"] in ("remove", "uniform")] == alone
    assert [row["p_corrected"] for row in rows if row["what"] in ("shuffle:1", "window:999")] == 6 * [""]
    ps = [float(row["p"]) for row in alone]
    assert [float(row["p_corrected"]) for row in alone] == pytest.approx(list(scipy.stats.false_discovery_control(ps)), rel=1e-9)


def test_texts_without_a_loss(qkscope, tmp_path):
    """Texts of one token tell nothing, and change nothing."""
    for name, texts in ("few", TEXTS[:2]), ("many", ["a", *TEXTS[:1], *"bcdef", TEXTS[1], "g"]):
        (tmp_path / name).mkdir()
        ablate(qkscope, write_texts(tmp_path / name, texts), tmp_path / name / "out", "-w", "remove,freeze,profile", "--heads", "4:3")
    assert rows_of(tmp_path / "few" / "out") == rows_of(tmp_path / "many" / "out")
    assert manifest(tmp_path / "many" / "out")["text_groups"] == 2
    for texts, words in ("abc", ["no text has two tokens"]), (["a", TEXTS[1], "b"], ["there is one text", "that of other texts"]):
        (tmp_path / words[0]).mkdir()
        found = qkscope("ablate", "-m", STEP, "-t", write_texts(tmp_path / words[0], texts), "-o", tmp_path / "no")
        assert found.code and all(word in found.err for word in words), found.err


def test_a_long_text_among_short_ones(qkscope, tmp_path):
    """Eleven texts that tell hardly more than one, and no interval: what is said is not of one text."""
    texts = [PASSAGES[0][:600], *(passage[:8] for passage in PASSAGES[1:11])]
    found = qkscope("ablate", "-m", STEP, "-t", write_texts(tmp_path, texts), "--heads", "4:3", "-w", "remove", "-o", tmp_path / "out",
                    expect=0)
    tokens = np.array([len(text.encode()) - 1 for text in texts])
    assert (f"most tokens are of one text, so that 11 texts tell as much as {tokens.sum() ** 2 / (tokens ** 2).sum():.1f}: there are no "
            "intervals") in found.err
    assert "no interval, as most tokens are of one text" in " ".join(found.out.split()) and "one text has no interval" not in found.out
    row, = rows_of(tmp_path / "out")
    assert [row[column] for column in ("delta_lo", "delta_hi", "p", "p_corrected")] == 4 * [""]


def test_no_verdict_where_nothing_changes(qkscope, tmp_path):
    """A window of the texts' length, or places that stay, says nothing about the head."""
    words = ["ablate", "-m", STEP, "-t", write_texts(tmp_path, TEXTS[:8]), "--max-length", LONGEST, "--heads", "0:1,2:0",
             "-w", f"window:{LONGEST},window:999,shuffle:1,remove", "--no-controls", "--tolerance", "9", "-o", tmp_path / "out"]
    said = " ".join(qkscope(*words, expect=0).out.split())
    assert (f"L0H1: with a window ({LONGEST}) nothing changes in these texts, which have at most {LONGEST} tokens; with a window (999) "
            f"nothing changes in these texts, which have at most {LONGEST} tokens; with keys shuffled (1) nothing changes in these "
            "texts; removing it is harmless (") in said
    for what in (f"a window ({LONGEST})", "a window (999)", "keys shuffled (1)"):
        assert f"with {what}: 2 unchanged, 0 harmless, 0 needed, 0 undecided" in said
    assert "removing it: 2 harmless, 0 needed, 0 undecided" in said
    told = json.loads(qkscope(*words, "--json", "--force", expect=0).out)
    assert told["lengths"].startswith("texts of ") and told["lengths"].endswith(f" to {LONGEST})")
    assert [effect["verdict"] for effect in told["effects"]] == 2 * [*3 * ["unchanged"], "harmless"]


def test_a_head_that_does_nothing(qkscope, tmp_path):
    """As in pruned models: weights of 0 behind it. It is not said that the texts are too short."""
    model = shutil.copytree(STEP, tmp_path / "dead")
    data = bytearray((model / "model.safetensors").read_bytes())
    size = 8 + int.from_bytes(data[:8], "little")
    first, end = json.loads(data[8:size])["model.layers.2.self_attn.o_proj.weight"]["data_offsets"]
    np.frombuffer(data, "u2", (end - first) // 2, size + first).reshape(128, 128)[:, :32] = 0
    (model / "model.safetensors").write_bytes(data)
    found = qkscope("ablate", "-m", model, "-t", write_texts(tmp_path, TEXTS[:8]), "--heads", "2:0-1", "-w", "remove,window:4", "-o",
                    tmp_path / "out", expect=0)
    assert [row["changed_texts"] != "0" for row in rows_of(tmp_path / "out")] == [False, False, True, True]
    said = " ".join(found.out.split())
    assert "L2H0: removing it changes nothing in these texts; with a window (4) nothing changes in these texts." in said


# ---- what must not change the bytes --------------------------------------------------------------

SOME = ["-w", "remove,mean,freeze,shuffle:4,profile,window:4", "--heads", "0:2-3,2:1", "--groups", "each", "--groups", "all",
        "--groups", "layer", "--draws", "2"]

FEW = ["-w", "remove", "--heads", "0:3", "--max-texts", "3"]

# Eight changes, with those that keep the first keys, of three heads, of all of them, and of two layers. There are no
# others among the heads of which random groups could be.
SOME_BRANCHES = 8 * (3 + 1 + 2)


@pytest.fixture(scope="module")
def whole(qkscope, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    texts = write_texts(folder, TEXTS[:9])
    ablate(qkscope, texts, folder / "out", *SOME, "--threads", "1")
    return texts, tables(folder / "out"), manifest(folder / "out")


def same(folder, whole):
    assert tables(folder) == whole[1] and manifest(folder) == whole[2] and finished(folder)


@pytest.mark.release
def test_threads_and_memory(qkscope, whole, tmp_path):
    ablate(qkscope, whole[0], tmp_path / "out", *SOME, "--threads", "2", "--memory", "1")
    same(tmp_path / "out", whole)


@pytest.mark.test_all
def test_shards(qkscope, whole, tmp_path):
    """Each has some texts; the last one writes the tables, whichever it is, or has none to do."""
    out = tmp_path / "out"
    for shard in ("2/3", "0/3"):
        said = json.loads(qkscope("ablate", "-m", STEP, "-t", whole[0], "--max-length", LONGEST, "-o", out, *SOME,
                                  "--shard", shard, "--json", expect=0).out)
        assert not said["complete"] and 0 < said["texts_there"] < said["texts"] and said["effects"] == []
        assert not any((out / name).exists() for name in (*TABLES, "manifest.json"))
    ablate(qkscope, whole[0], out, *SOME, "--shard", "1/3")
    same(out, whole)
    texts = write_texts(tmp_path, TEXTS[:2])
    ablate(qkscope, texts, tmp_path / "two", *FEW)
    for shard in range(3):
        ablate(qkscope, texts, tmp_path / "of three", *FEW, "--shard", f"{shard}/3")
    same(tmp_path / "of three", (texts, tables(tmp_path / "two"), manifest(tmp_path / "two")))


@pytest.mark.test_all
def test_killed_and_resumed(program, qkscope, whole, tmp_path):
    """What was done is not done again; until then there are the tables of other settings that were there."""
    out, words = tmp_path / "out", [*SOME, "--memory", "1", "--threads", "1", "--force"]
    ablate(qkscope, whole[0], out, *FEW)
    before = {path: path.read_bytes() for path in out.iterdir()}
    command = ["ablate", "-m", STEP, "-t", whole[0], "--max-length", LONGEST, "-o", out, *words]
    for _ in range(3):
        # A call for each folder above, twice, before the first unit.
        assert killed(program, 8 + 2 * len(out.parts), *command) is not None, "it ended before"
        assert {path: path.read_bytes() for path in before} == before
    done = len([path for path in out.glob(".units/*/t*") if ".tmp-" not in path.name])
    assert 2 <= done < len(windows_of(TEXTS[:9]))
    assert "remov" in ablate(qkscope, whole[0], out, "-w", "remov", expect=2).err
    assert {path: path.read_bytes() for path in before} == before
    said = qkscope(*command, "-v", expect=0)
    assert f"{done} of {len(windows_of(TEXTS[:9]))} texts are done already" in said.err
    same(out, whole)


def test_units_of_another_run(qkscope, whole, tmp_path):
    """An ablation that was stopped in the same folder: its command goes on with it, unless another one replaces it."""
    unit = tmp_path / "out/.units/0123456789abcdef/t000000"
    unit.parent.mkdir(parents=True)
    unit.write_bytes(bytes(8))
    told = "was stopped here, and this run does not go on with it"
    command = ["ablate", "-m", STEP, "-t", whole[0], "--max-length", LONGEST, "-o", tmp_path / "out", *FEW]
    assert told in qkscope(*command, expect=0).err and unit.exists()
    assert told not in qkscope(*command, "--force", expect=0).err
    assert not (tmp_path / "out/.units").exists()


# ---- groups --------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def results(qkscope, tmp_path_factory):
    folder = tmp_path_factory.mktemp("results") / "r"
    qkscope("capture", "-m", STEP, "-t", TINY / "passages.jsonl", "--max-texts", "6", "--max-length", "64", "--long", "cut",
            "--sampler", "all", "-o", folder.parent / "c", "-q", expect=0)
    qkscope("pca", folder.parent / "c", "-o", folder, "-q", expect=0)
    return folder


def test_random_groups(qkscope, results, tmp_path):
    """Of the same layers, as many in each, and none of the group; `beyond` is the difference from their mean."""
    texts_given = TEXTS[:8]
    texts = write_texts(tmp_path, texts_given)
    out, groups = tmp_path / "out", ["top 3 by -r_k", "where layer == 1 and q_head == 2", "all", "0:2-3"]
    said = qkscope("ablate", "-m", STEP, "-t", texts, "--max-length", LONGEST, "-o", out, "-w", "remove,uniform", "--results", results,
                   "--draws", "4", "--groups", "each",
                   *(word for group in groups for word in ("--groups", group)), expect=0)
    assert "1 of 4 groups: fewer than 3 different random groups stand beside it, and beyond is empty" in said.err
    listed = rows_of(results, "heads.csv")
    drawn = {}
    for entry in manifest(out)["groups"]:
        drawn.setdefault(entry["group"], {})[entry["draw"]] = [tuple(head) for head in entry["heads"]]
    assert list(drawn) == groups
    assert drawn[groups[1]][0] == [(1, 2)] and len(drawn["all"]) == 1 and len(drawn["all"][0]) == LAYERS * WIDTH
    best = sorted(listed, key=lambda row: -float(row["r_k"]))[:3]
    assert drawn[groups[0]][0] == sorted((int(row["layer"]), int(row["q_head"])) for row in best)
    different = set()
    # There are as many as asked for, or all there are: one head of four has three others, two have one other pair.
    layers = [layer for layer, _ in drawn[groups[0]][0]]
    possible = np.prod([math.comb(WIDTH - n, n) for n in map(layers.count, set(layers))])
    count = {groups[0]: min(4, possible), groups[1]: 3, "0:2-3": 1}
    assert count[groups[0]] >= 3
    for of in count:
        assert list(drawn[of]) == list(range(count[of] + 1))
        assert len({tuple(mine) for mine in drawn[of].values()}) == count[of] + 1
        for draw in range(1, count[of] + 1):
            mine, own = drawn[of][draw], drawn[of][0]
            assert mine == sorted(set(mine)) and not set(mine) & set(own)
            assert [layer for layer, _ in mine] == [layer for layer, _ in own]
            different.add((of, *mine))
    assert len(different) > 2 and drawn["0:2-3"][1] == [(0, 0), (0, 1)]
    table = {(row["group"], row["what"]): row for row in rows_of(out, "ablation_groups.csv")}
    losses = Losses(tmp_path, texts_given, {(of, draw): heads for of in groups[:2] for draw, heads in drawn[of].items()},
                    {"remove": KINDS["remove"], "uniform": KINDS["uniform"]})
    every = losses.every()
    for of in groups[:2]:
        for what in ("remove", "uniform"):
            row = table[of, what]
            own, *random = (losses.rate(losses.delta[(of, draw), what], every) for draw in range(count[of] + 1))
            beyond = own - np.mean(random, axis=0)
            lo, hi = with_draws(beyond, [r[0] for r in random], possible if of == groups[0] else 3, losses.degrees())
            assert (int(row["draws"]), int(row["heads"])) == (count[of], len(drawn[of][0]))
            for column, value in dict(delta=own[0], random=np.mean(random, axis=0)[0], random_least=min(r[0] for r in random),
                                      random_most=max(r[0] for r in random), beyond=beyond[0], beyond_lo=lo,
                                      beyond_hi=hi).items():
                assert float(row[column]) == pytest.approx(value, rel=1e-9, abs=1e-13), (of, what, column)
    assert [table["all", "remove"][c] for c in ("draws", "random", "beyond", "beyond_lo")] == ["0", "", "", ""]
    one = table["0:2-3", "remove"]
    assert one["random"] == one["random_least"] == one["random_most"] != ""
    assert (one["draws"], one["beyond"], one["beyond_lo"], one["beyond_hi"]) == ("1", "", "", "")
    ablate(qkscope, texts, tmp_path / "plain", "-w", "freeze", "--groups", "layer", "--no-controls")
    assert {row["what"] for row in rows_of(tmp_path / "plain", "ablation_groups.csv")} == {"freeze"}
    assert all(row["draws"] == "0" for row in rows_of(tmp_path / "plain", "ablation_groups.csv"))


def test_groups_by_name_and_size(qkscope, results, tmp_path):
    """Heads as they are named, in words and in a file; the best so many, several times."""
    (tmp_path / "list").write_text("0:1,4:*\n2:3\n")
    ablate(qkscope, write_texts(tmp_path, TEXTS[:2]), tmp_path / "out", "-w", "remove", "--results", results, "--no-controls",
           "--groups", "3:1,0:2-3", "--groups", f"@{tmp_path / 'list'}", "--groups", "top 1,3-4 by -abs(r_k)")
    made = {entry["group"]: [tuple(head) for head in entry["heads"]] for entry in manifest(tmp_path / "out")["groups"]}
    best = sorted(rows_of(results, "heads.csv"), key=lambda row: -abs(float(row["r_k"])))
    named = {"3:1,0:2-3": [(0, 2), (0, 3), (3, 1)], f"@{tmp_path / 'list'}": [(0, 1), (2, 3), *((4, i) for i in range(WIDTH))]}
    assert made == named | {f"top {n} by -abs(r_k)": sorted((int(r["layer"]), int(r["q_head"])) for r in best[:n]) for n in (1, 3, 4)}


def test_screen(qkscope, tmp_path):
    """Layers first; then only heads of those whose loss changed. Nothing else may stand for such a folder."""
    texts, first, second = write_texts(tmp_path, TEXTS[:8]), tmp_path / "first", tmp_path / "second"
    ablate(qkscope, texts, first, "-w", "remove,window:999", "--groups", "layer", "--groups", "1:2", "--no-controls",
           "--layers", "0-2")
    table = first / "ablation_groups.csv"
    told = manifest(first)
    with table.open(newline="") as file:
        columns, *body = csv.reader(file)
    group, lo, hi = (columns.index(name) for name in ("group", "delta_lo", "delta_hi"))

    def write(chosen):
        rows = [[*row] for row in body]
        for row in rows:
            row[lo], row[hi] = chosen.get(row[group], ("-1", "1"))
        with table.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([columns, *rows])
        told["contents"][table.name] = print_of(table)
        (first / "manifest.json").write_text(json.dumps(told))

    def screened(*words, expect=0):
        return ablate(qkscope, texts, second, "-w", "remove", "--screen", first, "--dry-run", "--json", *words, expect=expect)

    write({"layer 2": ("-2", "-1"), "1:2": ("0.1", "0.2")})
    assert json.loads(screened().out)["branches"] == WIDTH + 1
    (tmp_path / "others").mkdir()
    others = write_texts(tmp_path / "others", TEXTS[1:8])
    same, unlike = (qkscope("ablate", "-m", STEP, "-t", given, "--max-length", LONGEST, "-o", second, "-w", "remove", "--screen", first,
                            "--heads", "1:2", "--dry-run", expect=0) for given in (texts, others))
    assert f"{first} is of the same texts, which chose the heads" in same.err and "same texts" not in unlike.err
    assert ", 1 change of each, " in same.out
    assert json.loads(screened("--heads", "2:0-1").out)["branches"] == 2
    ablate(qkscope, texts, second, "-w", "remove", "--screen", first)
    assert [(row["layer"], row["q_head"]) for row in rows_of(second)] == [("1", "2"), *(("2", str(i)) for i in range(WIDTH))]
    assert manifest(second)["screen"] == str(first)
    assert "is of step-2004, not of other" in screened("--model-name", "other", expect=1).err
    assert "has no group with an interval" in ablate(qkscope, texts, tmp_path / "x", "--screen", second, expect=1).err
    assert "give --groups each" in screened("--groups", "layer", expect=2).err
    table.write_text(table.read_text() + "\n")
    assert f"{table} is not as it was written" in screened(expect=1).err
    write({})
    assert "no group of" in screened(expect=1).err
    (first / "manifest.json").unlink()
    assert "holds no ablation" in screened(expect=1).err


# ---- folders -------------------------------------------------------------------------------------

def everything(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name, text, said", [
    ("manifest.json", '{"kind": "results", "runs": []}', "something else than an ablation"), ("manifest.json", "[1]", "something else"),
    *((table, "mine", f"holds {table}") for table in TABLES)])
def test_a_folder_of_somebody_else(qkscope, whole, tmp_path, name, text, said):
    out = tmp_path / "out"
    out.mkdir()
    (out / name).write_text(text)
    (out / "notes.txt").write_text("mine too")
    told = ablate(qkscope, whole[0], out, *FEW, expect=1).err
    assert said in told and str(out) in told
    assert everything(out) == {(out / name).relative_to(out): text.encode(), (out / "notes.txt").relative_to(out): b"mine too"}
    (out / name).unlink()
    ablate(qkscope, whole[0], out, *FEW)
    assert (out / "notes.txt").read_text() == "mine too" and rows_of(out)


@pytest.mark.cases(5)
@pytest.mark.parametrize("words", [
    ["-m", TINY / "step-20"], ["-t", "repeat:8x2:3:5", "--max-texts", "12"], ["-w", "freeze"], ["--heads", "0:2"], ["--max-texts", "1"], ["--max-length", "9"],
    ["--suffix", "4"]], ids=lambda words: words[0])
def test_another_ablation_stays(qkscope, whole, tmp_path, words):
    """Of another model, of other texts, changes, or heads: not without --force, also where its run was stopped while tables took
    their places. The same one is made again."""
    out = tmp_path / "out"
    ablate(qkscope, whole[0], out, *FEW)
    before = everything(out)
    told = manifest(out)
    assert told["tables"] == list(TABLES) and told["contents"] == {name: print_of(out / name) for name in TABLES}
    for complete in (True, False):
        if not complete:
            (out / "manifest.json").write_text(json.dumps({"kind": "ablation", "complete": False, "run": told["run"]}))
        here = everything(out)
        said = ablate(qkscope, whole[0], out, *FEW, *words, expect=1).err
        assert f"{out}: holds an ablation of another model" in said and "--force" in said and everything(out) == here
        ablate(qkscope, whole[0], out, *FEW)
        assert everything(out) == before
    ablate(qkscope, whole[0], out, *FEW, *words, "--force")
    assert finished(out) and tables(out) != {name: before[(out / name).relative_to(out)] for name in TABLES}
    assert manifest(out)["run"] != told["run"]


def test_a_unit_that_is_damaged(qkscope, whole, tmp_path):
    """Its name and the remedy, which helps."""
    out = tmp_path / "out"
    ablate(qkscope, whole[0], tmp_path / "whole", *FEW)
    ablate(qkscope, whole[0], out, *FEW, "--shard", "0/2")
    unit = min(out.glob(".units/*/t*"))
    unit.write_bytes(b"x" + unit.read_bytes()[1:])
    said = ablate(qkscope, whole[0], out, *FEW, expect=1).err
    assert f"{unit} (remove it, and run the same command again)" in said and not (out / "manifest.json").exists()
    unit.unlink()
    ablate(qkscope, whole[0], out, *FEW)
    assert tables(out) == tables(tmp_path / "whole") and finished(out)


def test_dry_run(qkscope, whole, tmp_path):
    """Says how many changes and operations; writes nothing, with a folder or without."""
    (tmp_path / "here").mkdir()
    words = ["ablate", "-m", STEP, "-t", whole[0], "--max-length", LONGEST, *SOME, "--dry-run"]
    for more in ([], ["-o", tmp_path / "here" / "out"]):
        said = json.loads(qkscope(*words, *more, "--json", expect=0, cwd=tmp_path / "here").out)
        assert (said["texts"], said["branches"], said["complete"]) == (len(windows_of(TEXTS[:9])), SOME_BRANCHES, False)
        assert said["flops"] > 0 and said["forecast"] > 0 and said["effects"] == []
    assert list((tmp_path / "here").iterdir()) == []
    assert "operations, about" in qkscope(*words, expect=0).out


def test_operations_of_a_dry_run(qkscope, whole):
    """Of one forward, which counts a second time where it fits what heads put out on average, and of each branch."""
    def flops(what, heads):
        return json.loads(qkscope("ablate", "-m", STEP, "-t", whole[0], "-w", what, "--heads", heads, "--no-controls", "--dry-run",
                                  "--json", expect=0).out)["flops"]
    one, two = flops("remove", "2:1"), flops("remove", "2:1-2")
    assert one < two < 2 * one
    assert flops("mean", "2:1") - one == pytest.approx(2 * one - two, rel=1e-12)


# ---- what is printed -----------------------------------------------------------------------------

def verdict(effect, tolerance):
    if effect["changed"] == 0:
        return "unchanged"
    needed = effect["delta_lo"] > 0 and effect["p_corrected"] <= 0.05
    harmless = effect["changed_delta_hi"] is not None and effect["changed_delta_hi"] < tolerance and effect["changed_texts"] >= 3
    return "harmless" if harmless else "needed" if needed else "undecided"


def test_verdicts_of_many_heads(qkscope, tmp_path):
    """An interval above 0 is not enough where p is large after the correction: the sentence has both."""
    words = ["ablate", "-m", STEP, "-t", TINY / "passages.jsonl", "--max-texts", "4", "--max-length", "32", "--long", "cut",
             "--what", "remove", "-o", tmp_path / "out"]
    found = {e["group"]: e for e in json.loads(qkscope(*words, "--json", expect=0).out)["effects"]}
    said = " ".join(qkscope(*words, expect=0).out.split())
    chance, sure = found["L0H2"], found["L4H3"]
    assert chance["delta_lo"] > 0.01 and chance["p_corrected"] > 0.05 and chance["verdict"] == "undecided"
    p = number(rows_of(tmp_path / "out")[2]["p"])
    assert p < 0.05 and (f"L0H2: removing it is not decided ({chance['delta']:.4f}, {chance['delta_lo']:.4f} to {chance['delta_hi']:.4f} "
                         f"nats; p {p:.2g}, corrected for 20 tests {chance['p_corrected']:.2g}). ") in said
    assert sure["verdict"] == "needed" and f"to {sure['delta_hi']:.4f} nats): the model needs it." in said
    # One head alone is one test.
    alone, = json.loads(qkscope(*words[:-1], tmp_path / "alone", "--heads", "0:2", "--json", expect=0).out)["effects"]
    assert alone["p_corrected"] == pytest.approx(p, rel=1e-9) and alone["verdict"] == "needed"


def test_json(qkscope, whole, results, tmp_path):
    """The rows of the tables, heads first."""
    words = ["ablate", "-m", STEP, "-t", whole[0], "--max-length", LONGEST, "-w", "remove,freeze", "--heads", "0:2-3,2:1-3,4:0",
             "--groups", "each", "--groups", "top 2 by -r_k", "--results", results, "--draws", "2", "-o"]
    found = json.loads(qkscope(*words, tmp_path / "a", "--json", expect=0).out)
    rows = [*rows_of(tmp_path / "a"), *rows_of(tmp_path / "a", "ablation_groups.csv")]
    assert len(found["effects"]) == len(rows) and found["complete"] and found["texts_there"] == found["texts"]
    for effect, row in zip(found["effects"], rows, strict=True):
        assert (effect["what"], effect["layer"]) == (row["what"], int(row.get("layer", -1)))
        assert effect["group"] == row.get("group", f"L{row.get('layer')}H{row.get('q_head')}")
        for column in set(row) - {"layer", "q_head", "group", "what", "loss"}:
            value = effect[column]
            assert np.isnan(number(row.get(column, ""))) if value is None else float(row[column]) == value, column
    for effect in found["effects"]:
        assert effect["verdict"] == verdict(effect, 0.01)
    assert (found["tolerance"], found["level"], found["loss"]) == (0.01, 95, float(rows[0]["loss"]))
    said = qkscope(*words, tmp_path / "b", "--tolerance", "1e-9", expect=0).out.splitlines()
    first, = [e for e in found["effects"] if (e["group"], e["what"]) == ("L0H3", "freeze")]
    numbers = ", ".join(f"{first[name]:.4f}" for name in ("delta", "delta_lo")) + f" to {first['delta_hi']:.4f}"
    begin, = [i for i, line in enumerate(said) if line.startswith("  L0H3: removing it ")]
    assert all(len(line) <= 100 for line in said[begin:begin + 3])
    sentence = " ".join(line.strip() for line in said[begin:begin + 3])
    assert f"; without rotation the rise is not decided ({numbers}; p " in sentence and first["delta_lo"] > 0
    assert sentence.split(";")[0].endswith(" nats")
    of = [verdict(e, 1e-9) for e in found["effects"] if e["what"] == "remove" and e["layer"] >= 0]
    [counts] = [line for line in said if line.startswith("  removing it: ") and f"{of.count('needed')} needed" in line][:1]
    assert f"removing it: {of.count('harmless')} harmless, {of.count('needed')} needed, {of.count('undecided')} undecided" in counts
    assert said[0].startswith(f"step-2004: {found['texts']} texts, {3 * (6 + 1)} changes of each")
    listed = [float(line.split()[0]) for line in said if line.lstrip()[:1] in "+-" and line.strip()]
    singles = [e["delta"] for e in found["effects"] if e["layer"] >= 0]
    assert listed[:5] == pytest.approx(sorted(singles, reverse=True)[:5], abs=6e-6)


# ---- what is refused -----------------------------------------------------------------------------

@pytest.mark.cases(12)
@pytest.mark.parametrize("words, code, said", [
    (["-w", "remov"], 2, '"remov"'), (["-w", ""], 2, "what"), (["-w", "remove,,freeze"], 2, "what"),
    (["-w", "remove:3"], 2, '"remove:3"'),
    (["-w", "window"], 2, '"window"'), (["-w", "window:0"], 2, '"window:0"'), (["-w", "window:4:-1"], 2, '"window:4:-1"'),
    (["-w", "shuffle:4:4"], 2, '"shuffle:4:4"'), (["-w", "freeze:quick"], 2, '"freeze:quick"'),
    (["-w", "freeze:9-3"], 2, '"freeze:9-3"'), (["-w", "freeze:<0"], 2, '"freeze:<0"'),
    (["-w", "remove,remove"], 2, "remove twice"), (["--heads", "9:0"], 1, "9:0"), (["--heads", "0:7"], 1, "0:7"),
    (["--layers", "5"], 1, "5"), (["--groups", "some"], 2, '"some"'),
    (["--groups", "all", "--groups", "layer", "--groups", "all"], 2, '"all" twice'),
    (["--groups", "0:1", "--groups", "all", "--groups", "0:1"], 2, '"0:1" twice'), (["--groups", "9:0"], 1, "has none of the heads"),
    (["--groups", "top 0 by r_q", "--results", EXAMPLE], 2, "0 heads"),
    (["--groups", "top many by r_q"], 2, "top many"), (["--groups", "top 2 by r_q"], 2, "--results"),
    (["--suffix", "1"], 2, "--suffix"), (["--ci", "100"], 2, "--ci"), (["--draws", "-1"], 2, "--draws"),
    (["--memory", "0"], 2, "--memory"),
    (["--results", "nowhere", "--groups", "top 2 by r_q"], 1, "nowhere"), (["--shard", "3/3"], 2, "3/3"),
    (["-t", "nothing.txt"], 1, "nothing.txt"), (["--id-column", "no"], 1, '"no"'), (["-m", "nothing"], 1, "nothing"), (["--rows", "9"], 2, "--rows")], ids=str)
def test_refused(qkscope, whole, tmp_path, words, code, said):
    """By name, and nothing is left."""
    found = ablate(qkscope, whole[0], tmp_path / "out", *words, expect=code)
    assert said in found.err and not (tmp_path / "out").exists(), found.err


@pytest.mark.cases(3)
@pytest.mark.parametrize("words, said", [
    (["-t", "x", "-o", "y"], "which model? --model DIR"), (["-m", STEP, "-o", "y"], "which texts? --text FILE"),
    (["-m", STEP, "-t", "x"], "where to? -o DIR, or --dry-run")])
def test_what_is_missing(qkscope, words, said):
    assert said in qkscope("ablate", *words, expect=2).err


def test_texts_that_are_not_enough(qkscope, tmp_path):
    """None; none with two tokens; and one, which has no others to take a profile from. Nothing is left. One text has no
    intervals, and a warning says so."""
    said = qkscope("ablate", "-m", STEP, "-t", write_texts(tmp_path, TEXTS[:1]), "-w", "remove", "-o", tmp_path / "one", expect=0)
    assert "there is one text" in said.err
    for row in rows_of(tmp_path / "one"):
        assert float(row["delta"]) != 0 and [row[c] for c in ("delta_lo", "delta_hi", "p", "p_corrected", "share")] == [""] * 5
    for texts, words, code, said in (
            ([], [], 1, "no texts"), (["", ""], ["-w", "remove"], 1, "two tokens"),
            (["a", "b"], ["-w", "remove"], 1, "two tokens"), (["In the beginning"], [], 2, "that of other texts")):
        out = tmp_path / "out"
        found = ablate(qkscope, write_texts(tmp_path, texts), out, *words, expect=code)
        assert said in found.err, found.err
        assert not out.exists() and (code == 1 or "--what remove" in found.err)
        shown = qkscope("ablate", "-m", STEP, "-t", tmp_path / "texts.jsonl", *words, "--dry-run")
        assert shown.code == code and said in shown.err


def test_results_of_another_model(qkscope, whole, results, tmp_path):
    """Of the same shape, or with layers that this one has not; a condition that nothing meets; a column that is not there."""
    for kind in "qk":
        write_head(tmp_path / "c", head_name(6, 0, kind), np.random.default_rng(1).normal(size=(30, 4)), np.arange(30))
    for capture, name, folder in (results.parent / "c", "other", "o"), (tmp_path / "c", STEP.name, "r"):
        qkscope("pca", capture, "-o", tmp_path / folder, "--model-name", name, "-q", expect=0)
    for folder, group, code, said in ((tmp_path / "o", "where layer < 2", 1, f"is of other, not of {STEP.name}"),
                                      (tmp_path / "r", "where layer > 5", 1, "are they results of this model?"),
                                      (results, "where r_q > 7", 1, "where r_q > 7"), (results, "top 3 by r_z", 2, "r_z"),
                                      (results, "where r_q >", 2, "where: character 7"),
                                      (EXAMPLE, "top 3 by r_q", 1, str(EXAMPLE))):
        found = ablate(qkscope, whole[0], tmp_path / "out", "-w", "remove", "--results", folder, "--groups", group,
                       expect=code)
        assert said in found.err and not (tmp_path / "out").exists(), found.err
