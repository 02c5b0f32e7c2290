# SPDX-License-Identifier: Apache-2.0
"""analyze, study and report, killed or interrupted at any change of a folder with older, different results: what says that it
is complete is all old or all new, the next command says what it found, and running again ends in the bytes of a run that
was not disturbed."""
import json
import os
import re
import shutil
import signal
import subprocess

import pytest
from conftest import BUILD, TIER, environment, synth

pytestmark = pytest.mark.test_all

# In front of the C library: a signal at the n-th call that changes a folder.
KILL_AT = BUILD / "tests/recorder/libkill_at.so"
UNTOLD = ("seconds", "timings", "command_line", "threads", "date")


def contents(folder):
    """Files by name; of manifests what does not tell of this very run."""
    files = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if not path.is_file() or "/." in name or ".tmp-" in name:
            continue
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


def left_over(folder):
    return [str(p) for p in folder.rglob("*") if ".tmp-" in p.name or p.name.startswith(".")]


class Case:
    """A command in a folder with older results of other settings."""

    expected = ()
    step = 7  # of the calls that change a folder, one in so many is tried

    def __init__(self, program, root):
        self.program, self.root, self.old = program, root, root / "old"
        self.env = environment({"PATH": f"{root / 'bin'}:{os.environ['PATH']}"})
        self.make_old()
        new = shutil.copytree(self.old, root / "new")
        self.qkscope(*self.words(new))
        self.expected = [self.state(self.old), self.state(new)]
        assert self.expected[0] != self.expected[1] and None not in self.expected

    def qkscope(self, *words, code=0):
        done = subprocess.run([self.program, *map(str, words)], capture_output=True, text=True, env=self.env, timeout=600)
        assert done.returncode == code, done
        return done.stderr

    def disturbed(self, out, n, number):
        """The exit code of a run that gets the signal at its n-th change."""
        env = {"LD_PRELOAD": str(KILL_AT), "KILL_AT": str(n), "KILL_BY": str(number.value)}
        code = subprocess.run([self.program, *map(str, self.words(out)), "--quiet"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, env=self.env | env, timeout=600).returncode
        assert code in (0, -number)
        return code

    def check(self, out):
        """What a reader finds after a run that was disturbed."""
        found = self.state(out)
        assert found is None or found in self.expected
        return found

    def settle(self, out):
        """The next command says what it found; run again, all is there and nothing else."""
        found = self.check(out)
        if found is None:
            self.told(out)
        said = self.qkscope(*self.words(out))
        assert found is not None or "stopped" in said or not self.tells, said
        assert left_over(out) == []
        state = self.state(out)
        assert state == self.expected[1], [n for n in {*state, *self.expected[1]} if state.get(n) != self.expected[1].get(n)]
        return found is None

    tells = True

    def told(self, out):
        before = contents(out)
        assert "not complete" in self.qkscope("report", out, code=1)
        assert contents(out) == before


class Analyze(Case):
    def make_old(self):
        self.qkscope("analyze", self.root / "c", "-o", self.old, "--complement", "--pairs", 2, "--components", 3, "--max-samples",
                     90, "--bucket-width", 32)

    def words(self, out):
        return ["analyze", self.root / "c", "-o", out, "--threads", 1]

    def state(self, out):
        """What `report` would take for the results; None: nothing."""
        files = contents(out)
        manifest = files["manifest.json"]
        if not manifest["complete"]:
            return None
        tables = {name for run in manifest["runs"] for name in run["tables"]}
        assert tables == {n for n in files if n.endswith((".csv", ".json")) and "/" not in n
                          and n not in ("manifest.json", "figures.json", "schema.json")}
        return {name: files[name] for name in (*tables, "manifest.json")}


class Report(Case):
    """Of other tables than the report that is there: fewer figures, other numbers."""

    tells = False
    step = 41

    def make_old(self):
        self.qkscope("analyze", self.root / "c", "-o", self.old, "--max-samples", 90)
        self.qkscope("report", self.old, "--theme", "dark")
        self.qkscope("rotate", self.root / "c", "-o", self.old, "--force")

    def words(self, out):
        return ["report", out, "--threads", 1]

    def state(self, out):
        """A page that is there has its figures; a figure whose drawing is there is whole."""
        files = contents(out)
        figures = {n: c for n, c in files.items() if n.startswith("figures/")}

        def drawn(files, stem):
            return {n: c for n, c in files.items() if n.rsplit(".", 1)[0] == stem}
        for stem in (n[:-4] for n in figures if n.endswith(".svg")):
            assert not self.expected or drawn(figures, stem) in [drawn(e, stem) for e in self.expected]
        return figures | {"report.html": files["report.html"]} if "report.html" in files else None

    def told(self, out):
        pass


class Study(Case):
    """A model less and another one, other settings."""

    def write(self, names, more):
        (self.root / "study.yaml").write_text("models:\n" + "".join(f"  - {{name: {n}, source: {n}}}\n" for n in names) + more)

    def make_old(self):
        self.write(["c", "d"], "analyses: [rotation, plasticity]\ndata: {max_samples: 90}\n")
        self.qkscope(*self.words(self.old))
        self.write(["c", "e"], "analyses: [rotation]\nrotation: {complement_pairs: 2}\n")

    def words(self, out):
        return ["study", self.root / "study.yaml", "-o", out, "--threads", 1, "--no-figures"]

    def state(self, out):
        """The tables and page; models that are not in the study keep their folder."""
        files = contents(out)
        if not files["manifest.json"]["complete"]:
            return None
        # a note has the way from its folder to the capture
        return {n: re.sub(rb"(\.\./)+(killed\d+/)?", b"", c) if n.endswith(".md") else c for n, c in files.items()
                if not n.startswith("models/")}


@pytest.fixture(scope="module", params=[Analyze, Report, Study], ids=["analyze", "report", "study"])
def case(request, program, sanitized, tmp_path_factory):
    if sanitized or not KILL_AT.exists():
        pytest.skip("nothing can be put in front of the C library here")
    root = tmp_path_factory.mktemp("killed")
    for i, name in enumerate("cde"):
        synth(root / name, seed=i, layers=2, query_heads=2, dim=8, examples=2, rows=120, buckets=4, bucket_width=64)
    return request.param(program, root)


def moments(step):
    """The first call, and every so many of those after it."""
    return range(1, 9999, 1 if TIER == "long" else step)


def test_killed_at_every_change(case, tmp_path):
    met = []
    for n in moments(case.step):
        out = shutil.copytree(case.old, tmp_path / f"{n}")
        if case.disturbed(out, n, signal.SIGKILL) == 0:
            break
        met.append(case.settle(out))
        shutil.rmtree(out)
    assert len(met) > 4 and any(met)  # some were found incomplete


def test_interrupted_at_every_change(case, tmp_path):
    """What has begun to take its place goes on to the end."""
    codes = []
    for n in moments(case.step):
        out = shutil.copytree(case.old, tmp_path / f"{n}")
        code = case.disturbed(out, n, signal.SIGINT)
        found = case.check(out)
        assert code or found == case.expected[1]
        assert isinstance(case, Study) or found == case.expected[code == 0]
        assert left_over(out) == []
        codes.append(code)
        shutil.rmtree(out)
        if codes[-3:] == [0, 0, 0]:
            break
    assert any(codes)
