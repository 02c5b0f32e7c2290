# SPDX-License-Identifier: Apache-2.0
"""Each call by which a command changes files fails once. Afterwards the results are whole, or the exit code says that they
are not; nothing says that it is complete and is not; the old results are whole, or the new ones; nothing outside the output
folder changed; and the same command makes all that a run without a fault makes.

`make test-all` takes a sample of the calls, `make test-long` takes them all (minutes)."""
import shutil

import pytest
import sweeping
from conftest import TIER
from sweep_jobs import JOBS, write_inputs

pytestmark = [pytest.mark.test_all, pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")]
SCENARIOS = [(job, old) for job in JOBS for old in ([False, True] if job.old else [False])]


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


@pytest.mark.parametrize("job, old", SCENARIOS, ids=[f"{job.name}-{'old' if old else 'new'}" for job, old in SCENARIOS])
def test_every_call_fails_once(place, job, old):
    calls = sorted(place.good())
    assert len(calls) > 3
    place.reset()
    outside, found, failed = sweeping.around(place.work), [], 0
    for call, n, line in sample(job, calls):
        place.reset()
        done = place.run(wrapper=sweeping.inject(call, n))
        failed += done.returncode != 0
        wrong = sweeping.judge(place, outside, done) + sweeping.judge_next(place, outside)
        found += [f"{call} {n}: {what}\n    {line}\n{tell(done)}" for what in wrong]
    print(f"\n{len(calls)} calls, {failed} runs failed")
    assert not found, f"{len(found)} times:\n" + "\n".join(found)
    assert failed > 0 or job.sample < 6 and TIER != "long"
