# SPDX-License-Identifier: Apache-2.0
"""Each call by which a command changes files fails once, and each folder that it makes is a link to somebody else's. Afterwards the results are whole, or the exit code says that they are
not; nothing says that it is complete and is not; the old results are whole, or the new ones; nothing outside the output folder
changed; and the same command makes all that a run without a fault makes.

`make test` takes a sample of the calls, `make test-long` takes them all (minutes)."""
import shutil
import subprocess
import sys

import pytest
import sweeping
from conftest import TIER, ROOT
from sweep_jobs import JOBS, write_inputs

sys.path.append(str(ROOT / "tests" / "hub"))
from fake_hub import FakeHub  # noqa: E402

pytestmark = pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
SCENARIOS = [(job, old) for job in JOBS for old in ([False, True] if job.old else [False])]
each_scenario = pytest.mark.parametrize("job, old", SCENARIOS, ids=[f"{job.name}-{'old' if old else 'new'}" for job, old in SCENARIOS])


@pytest.fixture(scope="module")
def inputs(program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(program, folder)
    return folder


@pytest.fixture
def place(program, inputs, sanitized, tmp_path, job, old):
    if sanitized:
        pytest.skip("a sanitizer does not run under strace")
    return sweeping.Place(program, job, tmp_path / "work", inputs, old)


def sample(job, items):
    """Some, from the first to the last."""
    step = 1 if TIER == "long" else max(len(items) / job.sample, 1)
    return [items[int(i * step + step / 2)] for i in range(int(len(items) / step))]


def tell(done):
    return f"    exit code {done.returncode}: {done.stderr.decode(errors='replace').strip()[:300]}"


@each_scenario
def test_every_call_fails_once(place, job, old):
    calls = sorted(place.good())
    assert len(calls) > 3
    place.reset()
    outside, found, failed = sweeping.around(place.work), [], 0
    for call, n, line in sample(job, calls):
        place.reset()
        done = place.run(wrapper=sweeping.inject(call, n))
        failed += done.returncode != 0
        wrong = sweeping.judge(place, outside, done) + sweeping.judge_next(place, outside, done.returncode == 0)
        found += [f"{call} {n}: {what}\n    {line}\n{tell(done)}" for what in wrong]
    print(f"\n{len(calls)} calls, {failed} runs failed")
    assert not found, f"{len(found)} times:\n" + "\n".join(found)
    assert failed > 0 or job.sample < 6 and TIER != "long"


@each_scenario
def test_links_in_the_place_of_folders(place, tmp_path, job, old):
    """A link to a folder of somebody else, at each place where the command makes, fills or empties a folder: it is refused by name,
    or a folder takes its place; nobody follows it."""
    folders = sweeping.folders_of(place.good(), place.work)
    folders &= sweeping.folders_of(place.good(), place.work)  # no name that is drawn
    if not folders:
        pytest.skip("it makes no folder in its output folder")
    victim, found = tmp_path / "victim", []
    for name in sample(job, sorted(folders)):
        place.reset()
        sweeping.link_away(place, name, victim)
        before, outside = sweeping.listing(victim), sweeping.around(place.work)
        done = place.run()
        found += [f"{name}: {what}\n{tell(done)}" for what in sweeping.judge_link(place, name, victim, before, outside, done)]
    print(f"\n{len(folders)} folders")
    assert not found, f"{len(found)} times:\n" + "\n".join(found)


def test_put_changes_no_file(program, sanitized, inputs, tmp_path):
    """So there is nothing that could be left half done."""
    if sanitized:
        pytest.skip("a sanitizer does not run under strace")
    (tmp_path / "home").mkdir()
    with FakeHub() as hub:
        done = subprocess.run([*sweeping.tracing(tmp_path / "log"), program, "put", inputs / "capture", "me/captures", "-j", "1"],
                              env=hub.environment(tmp_path / "home", HF_TOKEN="hf_good"), capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and len(hub.uploads.commits) == 1, done.stderr
    assert "openat(" in (tmp_path / "log").read_text()
    assert sweeping.read_calls(tmp_path / "log", tmp_path) + sweeping.read_calls(tmp_path / "log", inputs) == []
