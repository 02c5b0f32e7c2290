# SPDX-License-Identifier: Apache-2.0
"""What the tests run on Ray, by an interpreter that has it: run_on_ray.py FOUND NAME ARGUMENT...
writes a list of JSON into the file FOUND, since Ray prints as well."""
import json
import os
import random
import signal
import sys
import threading
import time
import warnings
from functools import partial
from pathlib import Path

import qkscope
import qkscope.ray
import ray

from made_up_capture import fill

WORKERS, SHARDS = 3, 12


def start():
    ray.init(address="local", num_cpus=WORKERS, include_dashboard=False, log_to_driver=False, logging_level="ERROR")


def note_and_fill(pids, pause):
    """In a worker: says who it is, so that it can be killed."""
    Path(pids, str(os.getpid())).touch()
    return partial(fill, pause=pause)


# ---- one worker killed ---------------------------------------------------------------------

def workers_of_analysis(out):
    """Those that have a shard: their numbers are at the end of names such as node7-0123456789abcdef-4711-99."""
    owners = [path.read_text().split("\n")[0] for path in out.glob(".units/*/ranks/*") if ".tmp-" not in path.name]
    return [int(owner.split("-")[-2]) for owner in owners]


def finished(out):
    return [p for p in [*out.glob(".units/*/*/results"), *out.glob(".partial/*")] if ".tmp-" not in str(p)]


def kill_one(out, pids, chance, told):
    """Waits for a random number of finished parts, and a random moment; then it kills one."""
    parts = chance.randrange(4)
    while len(finished(out)) < parts and not told["ended"]:
        time.sleep(0.002)
    time.sleep(chance.random() * 0.05)
    while not told["ended"]:
        for pid in chance.sample(found := pids(), len(found)):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            told.update(killed=pid, parts=parts)
            return
        time.sleep(0.002)


def with_a_murderer(compute, out, pids, chance):
    """Calls compute; what was killed, and what the caller was told."""
    told = {"ended": False, "killed": 0}
    murderer = threading.Thread(target=kill_one, args=(out, pids, chance, told))
    murderer.start()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            compute()
        finally:
            told["ended"] = True
            murderer.join()
    return {**told, "warnings": [str(w.message) for w in caught]}


def rounds_of(kills, folder, seed, compute, pids):
    """Rounds until so many kills have hit a shard; others come between two shards, or too late."""
    start()
    hits = 0
    for turn in range(4 * int(kills)):
        out = Path(folder, str(turn))
        said = with_a_murderer(partial(compute, out), out, partial(pids, out), random.Random(int(seed) + turn))
        yield said
        hits += any("a worker died while it computed shard" in w for w in said["warnings"])
        if hits == int(kills):
            break


def killed_analyses(capture, folder, seed, kills):
    compute = partial(qkscope.ray.analyze, capture, workers=WORKERS, shards=SHARDS, ci=95)
    yield from rounds_of(kills, folder, seed, compute, workers_of_analysis)


def workers_of_capture(out):
    """As workers_of_analysis, where the library runs the model."""
    owners = [path.read_text().split("\n")[0] for path in out.glob(".partial/.units/*/ranks/*")
              if ".tmp-" not in path.name]
    return [int(owner.split("-")[-2]) for owner in owners]


def killed_recordings(model, text, folder, seed, kills, keep):
    compute = partial(qkscope.ray.capture, model, text=text, keep=keep, workers=WORKERS, shards=SHARDS // 2)
    yield from rounds_of(kills, folder, seed, compute, workers_of_capture)


def killed_captures(folder, seed, kills, keep):
    def compute(out):
        pids = Path(f"{out}-pids")
        pids.mkdir(parents=True)
        qkscope.ray.capture(partial(note_and_fill, str(pids), 0.02), out, workers=WORKERS, shards=SHARDS, keep=keep)

    def pids(out):
        return [int(p.name) for p in Path(f"{out}-pids").iterdir()]

    yield from rounds_of(kills, folder, seed, compute, pids)


# ---- the rest ------------------------------------------------------------------------------

def analysis(capture, folder, settings):
    """Without ray.init: Ray on this machine begins, and ends."""
    seen = []
    results = qkscope.ray.analyze(capture, folder, progress=lambda *state: seen.append(state), **json.loads(settings))
    yield {"heads": len(results.heads), "progress": seen, "initialized": ray.is_initialized()}


def on_a_cluster(capture, folder):
    from ray.cluster_utils import Cluster
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=2)
    try:
        results = qkscope.ray.analyze(capture, folder, address=cluster.address)
        yield {"heads": len(results.heads)}
    finally:
        cluster.shutdown()


def failing(folder):
    """Exceptions of workers reach the caller as they are."""
    start()

    def bad_text(sink):
        fill(sink)
        raise KeyError("a model that cannot")

    def no_model():
        raise OSError("no such model")

    for make in (lambda: bad_text, no_model, lambda: lambda sink: None):
        yield attempt(lambda: qkscope.ray.capture(make, Path(folder, "a"), workers=2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield attempt(lambda: qkscope.ray.capture(lambda: lambda sink: os.abort(), Path(folder, "b"), workers=1,
                                                  shards=1))
    yield attempt(lambda: qkscope.ray.analyze(Path(folder, "nothing"), Path(folder, "c"), workers=1))
    yield attempt(lambda: qkscope.ray.analyze(folder, Path(folder, "c"), workers=1, ci=400))
    where = os.open(folder, os.O_RDONLY)  # a folder that workers cannot see by this name
    yield attempt(lambda: qkscope.ray.capture(lambda: fill, f"/proc/self/fd/{where}/d", workers=1))
    outcome = qkscope.ray.capture(lambda: fill, Path(folder, "a"), workers=2)
    yield {"complete": outcome.complete, "left": sorted(os.listdir(folder))}


def attempt(function):
    try:
        return {"returned": str(function())}
    except Exception as error:
        return {"type": type(error).__name__, "text": str(error)}


if __name__ == "__main__":
    found = list(globals()[sys.argv[2]](*sys.argv[3:]))
    Path(sys.argv[1]).write_text(json.dumps(found))
