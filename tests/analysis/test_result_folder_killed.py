# SPDX-License-Identifier: Apache-2.0
"""analyze, pca, study and report, killed or interrupted at any moment in a folder with older,
different results: what says that it is complete is all old or all new, the next command says what
it found, and running again ends in the bytes of a run that was not disturbed.

    python test_result_folder_killed.py BUILD 200

does 200 random interrupts and 200 random kills of analyze, study and report, and prints what it
met."""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from conftest import environment  # noqa: E402

UNTOLD = ("seconds", "timings", "command_line", "threads", "date")
REPORT_FORMAT = "svg"
NOT_COMPLETE = "not complete"


def contents(folder, what="**/*"):
    """Files by name; of manifests what does not tell of this very run."""
    files = {}
    for path in sorted(folder.glob(what)):
        if not path.is_file() or path.is_symlink():
            continue
        name = str(path.relative_to(folder))
        if path.name == "manifest.json":
            manifest = json.loads(path.read_text())
            for part in (manifest, *manifest.get("runs", [])):
                for key in UNTOLD:
                    part.pop(key, None)
            if manifest.get("figures"):  # collages that stand are not drawn again
                manifest["figures"].pop("drawn")
            files[name] = manifest
        elif path.name != "report.html":  # shows the manifest, and with it the seconds
            files[name] = path.read_bytes()
        else:
            page = path.read_text()
            files[name] = page[page.index("<body"):page.index('<section id="manifest"')]
    return files


def settled(folder):
    """Without what is being written: gnuplot outlives a run that is killed."""
    return {n: c for n, c in contents(folder).items() if "/." not in n and ".tmp-" not in n}


def left_over(folder):
    return [str(p) for p in folder.rglob("*") if ".tmp-" in p.name or p.name.startswith(".")]


class Case:
    """A command in a folder with older results of other settings."""

    expected = ()

    def __init__(self, program, root, name):
        self.program, self.root, self.name = program, root, name
        self.env = environment({"PATH": f"{root / 'bin'}:{os.environ['PATH']}"})
        self.old = root / f"{name}-old"
        self.make_old()
        self.new = shutil.copytree(self.old, root / f"{name}-new")
        start = time.monotonic()
        self.run(self.new)
        self.duration = time.monotonic() - start
        self.expected = [self.state(self.old), self.state(self.new)]
        assert self.expected[0] != self.expected[1] and None not in self.expected

    def qkscope(self, *words, code=0):
        done = subprocess.run([self.program, *map(str, words)], capture_output=True, text=True,
                              env=self.env, timeout=120)
        assert done.returncode == code, done
        return done.stderr

    def run(self, out):
        return self.qkscope(*self.words(out))

    def check(self, out):
        """What a reader finds after a run that was disturbed."""
        found = self.state(out)
        if found is not None:
            assert found in self.expected
        return found

    def settle(self, out):
        """The next command says what it found; run again, all is there and nothing else."""
        found = self.check(out)
        if found is None:
            self.told(out)
        said = self.run(out)
        if found is None:
            assert "stopped" in said, said
        assert left_over(out) == []
        state = self.state(out)
        assert state == self.expected[1], [n for n in {*state, *self.expected[1]}
                                           if state.get(n) != self.expected[1].get(n)]
        return "incomplete" if found is None else ["old", "new"][self.expected.index(found)]

    def told(self, out):
        before = settled(out)
        assert NOT_COMPLETE in self.qkscope("report", out, code=1)
        assert settled(out) == before


def complete_tables(out):
    """What `report` would take for the results; None: nothing."""
    manifest = json.loads((out / "manifest.json").read_text())
    if not manifest["complete"]:
        return None
    tables = {name for run in manifest["runs"] for name in run["tables"]}
    files = contents(out, "*")
    assert tables == {n for n in files if n.endswith((".csv", ".json"))
                      and n not in ("manifest.json", "figures.json", "schema.json")}
    return {name: files[name] for name in (*tables, "manifest.json")}


class Analyze(Case):
    def make_old(self):
        self.qkscope("analyze", self.root / "c", "-o", self.old, "--complement", "--pairs", 2,
                     "--components", 3, "--max-samples", 90, "--bucket-width", 32)

    def words(self, out):
        return ["analyze", self.root / "c", "-o", out, "--threads", 1, "--quiet"]

    def run(self, out):
        return self.qkscope(*(w for w in self.words(out) if w != "--quiet"))

    def state(self, out):
        return complete_tables(out)


class Pca(Analyze):
    """The tables of the other analyses stay."""

    def words(self, out):
        return ["pca", self.root / "c", "-o", out, "--threads", 1, "--quiet"]


def of_figure(files, stem):
    return {n: c for n, c in files.items() if n.rsplit(".", 1)[0] == stem}


class Report(Case):
    """Of other tables than the report that is there: fewer figures, other numbers."""

    def make_old(self):
        self.qkscope("analyze", self.root / "c", "-o", self.old, "--max-samples", 90)
        self.qkscope("report", self.old, "--format", "svg,png,pdf", "--theme", "dark")
        self.qkscope("rotate", self.root / "c", "-o", self.old, "--force")

    def words(self, out):
        return ["report", out, "--format", REPORT_FORMAT, "--threads", 1, "--quiet"]

    def state(self, out):
        """A page that is there has its figures; a figure whose script is there is whole."""
        files = settled(out)
        figures = {n: c for n, c in files.items() if n.startswith("figures/")}
        for stem in (n[:-3] for n in figures if n.endswith(".gp")):
            drawn = of_figure(figures, stem)
            assert not self.expected or drawn in [of_figure(e, stem) for e in self.expected]
        if "report.html" not in files:
            return None
        return figures | {"report.html": files["report.html"]}

    def told(self, out):
        pass

    def settle(self, out):
        found = self.check(out)
        self.run(out)
        assert left_over(out) == []
        state = self.state(out)
        assert state == self.expected[1], [n for n in {*state, *self.expected[1]}
                                           if state.get(n) != self.expected[1].get(n)]
        return "no page" if found is None else ["old", "new"][self.expected.index(found)]


class Study(Case):
    """A model less and another one, other settings, with figures."""

    def write(self, names, more):
        path = self.root / f"{self.name}.yaml"
        path.write_text("models:\n" + "".join(
            f"  - {{name: {n}, source: {n}}}\n" for n in names) + more)
        return path

    def make_old(self):
        study = self.write(["c", "d"], "analyses: [rotation, plasticity]\ndata: {max_samples: 90}\n")
        self.qkscope("study", study, "-o", self.old, "--format", "svg", *self.options)
        self.write(["c", "e"], "analyses: [rotation]\nrotation: {complement_pairs: 2}\n")

    options = ()

    def words(self, out):
        return ["study", self.root / f"{self.name}.yaml", "-o", out, "--threads", 1, "--quiet",
                "--format", "svg", *self.options]

    def run(self, out):
        return self.qkscope(*(w for w in self.words(out) if w != "--quiet"))

    def state(self, out):
        """The tables, figures and page; models that are not in the study keep their folder."""
        for manifest in out.glob("models/*/manifest.json"):
            complete_tables(manifest.parent)
        files = settled(out)
        if not files["manifest.json"]["complete"]:
            return None
        # a note has the way from its folder to the capture
        return {n: re.sub(rb"(\.\./)+(killed\d+/)?", b"", c) if n.endswith(".md") else c for n, c in files.items()
                if not n.startswith("models/")}


class StudyTables(Study):
    options = ("--no-figures",)


CASES = {"analyze": Analyze, "pca": Pca, "report": Report, "study": Study,
         "study-tables": StudyTables}


# Draws nothing, at once: a picture is the sum of its script and its data.
GNUPLOT = """#!/bin/sh
name=${4%.gp}
case $3 in
*svg*) echo "<svg xmlns='http://www.w3.org/2000/svg'><!-- $(cat $4 $name.dat | cksum) --></svg>" > $name.svg;;
*png*) echo "$(cat $4 $name.dat | cksum) IEND" > $name.png;;
*) echo "$(cat $4 $name.dat | cksum) %%EOF" > $name.pdf;;
esac
"""


def make_captures(program, root):
    (root / "bin").mkdir()
    (root / "bin" / "gnuplot").write_text(GNUPLOT)
    (root / "bin" / "gnuplot").chmod(0o755)
    for i, name in enumerate("cde"):
        subprocess.run([program, "synth", "-o", root / name, "--quiet", "--seed", str(i), "--layers",
                        "2", "--query-heads", "2", "--dim", "8", "--examples", "2", "--rows", "120",
                        "--buckets", "4", "--bucket-width", "64"], check=True, env=environment())


@pytest.fixture(scope="module")
def case(program, sanitized, tmp_path_factory):
    if sanitized:
        pytest.skip("too slow with a sanitizer, and none runs under strace")
    root, made = tmp_path_factory.mktemp("killed"), {}
    make_captures(program, root)
    return lambda name: made.setdefault(name, None) or made.update(
        {name: CASES[name](program, root, name)}) or made[name]


# ---- at every change of the folder -----------------------------------------------------------

def disturb_at(case, out, call, n, name):
    """By strace, when the program is about to do that call for the n-th time. False: it does not
    do it as often."""
    run = subprocess.run(
        ["strace", "-f", "-o", os.devnull, "-e", f"trace={call}", "-e",
         f"inject={call}:signal={name}:when={n}", case.program, *map(str, case.words(out))],
        env=case.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if b"ptrace" in run.stderr:
        pytest.skip("strace may not trace here")
    return run


def count_calls(case, out, call):
    """How often the program does it, undisturbed."""
    log = out.with_suffix(".strace")
    subprocess.run(["strace", "-f", "-o", log, "-e", f"trace={call}", case.program,
                    *map(str, case.words(out))], env=case.env, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    if not log.exists() or f"{call}(" not in log.read_text():
        pytest.skip("strace may not trace here")
    return log.read_text().count(f"{call}(")


def moments(count, most):
    """All of 1 .. count, or that many spread over them, with the last ones."""
    if count <= most:
        return list(range(1, count + 1))
    step = count / (most - 2)
    return sorted({1 + int(i * step) for i in range(most - 2)} | {count - 1, count})


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
@pytest.mark.parametrize("name, call, most", [
    ("analyze", "rename", 50), ("analyze", "unlink", 50), ("pca", "rename", 50),
    ("pca", "unlink", 50), ("study-tables", "rename", 12), ("study-tables", "unlink", 6),
    ("report", "rename", 10), ("report", "unlink", 8)])
def test_killed_at_every_change(case, tmp_path, name, call, most):
    """Or at some of them where there are many."""
    case, met = case(name), []
    count = count_calls(case, shutil.copytree(case.old, tmp_path / "counted"), call)
    for n in moments(count, most):
        out = shutil.copytree(case.old, tmp_path / f"{n}")
        assert disturb_at(case, out, call, n, "SIGKILL").returncode != 0
        met.append(case.settle(out))
        shutil.rmtree(out)
    print(f"\n{len(met)} kills: {', '.join(f'{met.count(m)} {m}' for m in sorted(set(met)))}")
    assert any(m in ("incomplete", "no page") for m in met)


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
@pytest.mark.parametrize("name, most", [("analyze", 12), ("report", 5), ("study-tables", 5)])
def test_interrupted_at_every_change(case, tmp_path, name, most):
    """What has begun to take its place goes on to the end."""
    case, interrupted = case(name), 0
    count = count_calls(case, shutil.copytree(case.old, tmp_path / "counted"), "rename")
    for n in moments(count, most):
        out = shutil.copytree(case.old, tmp_path / f"{n}")
        run = disturb_at(case, out, "rename", n, "SIGINT")
        assert run.returncode in (0, -signal.SIGINT), run
        found = case.check(out)
        assert found == case.expected[1] or run.returncode == -signal.SIGINT
        if name != "study-tables":
            assert found == case.expected[run.returncode == 0]
        assert left_over(out) == []
        interrupted += run.returncode == -signal.SIGINT
        shutil.rmtree(out)
    print(f"\n{interrupted} of {count} interrupted")
    assert count > 1


# ---- at random moments -----------------------------------------------------------------------

def disturb(case, out, number, seconds):
    run = subprocess.Popen([case.program, *map(str, case.words(out))], env=case.env,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           start_new_session=True)
    time.sleep(seconds)
    run.send_signal(number)
    return run.wait(timeout=120)


def at_random(case, folder, number, times, rng):
    met = []
    for i in range(times):
        out = shutil.copytree(case.old, folder / f"{case.name}-{number}-{i}")
        code = disturb(case, out, number, rng.uniform(0, 1.05 * case.duration))
        assert code >= 0 or number == signal.SIGKILL or code == -number
        met.append(case.settle(out))
        if number == signal.SIGINT and case.name in ("analyze", "pca", "report"):
            assert met[-1] in ("old", "new"), met
        shutil.rmtree(out)
    return f"{', '.join(f'{met.count(m)} {m}' for m in sorted(set(met)))}"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("name, times", [("analyze", 10), ("pca", 4), ("report", 3), ("study", 3)])
def test_at_random_moments(case, tmp_path, name, times, number):
    print("\n" + at_random(case(name), tmp_path, number, times, random.Random(times + number)))


def main():
    program, times = pathlib.Path(sys.argv[1]).resolve() / "qkscope", int(sys.argv[2])
    rng = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        make_captures(program, root)
        share = {"analyze": times * 4 // 10, "study": times * 3 // 10}
        share["report"] = times - sum(share.values())
        for name, count in share.items():
            case = CASES[name](program, root, name)
            for number in (signal.SIGINT, signal.SIGKILL):
                print(name, number.name, count, at_random(case, root, number, count, rng), flush=True)


if __name__ == "__main__":
    main()
