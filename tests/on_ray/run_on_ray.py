# SPDX-License-Identifier: Apache-2.0
"""What the tests run on Ray, by an interpreter that has it: run_on_ray.py FOUND NAME ARGUMENT...
writes a list of JSON into the file FOUND, since Ray prints as well."""
import json
import os
import sys
import warnings
from functools import partial
from pathlib import Path

import qkscope
import qkscope.ray
import ray

from made_up_capture import fill

WORKERS = 3


def start():
    ray.init(address="local", num_cpus=WORKERS, include_dashboard=False, log_to_driver=False, logging_level="ERROR")


def killed_capture(out, grave, keep):
    """One worker dies in the middle of a shard."""
    start()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        qkscope.ray.capture(partial(filling, grave), out, workers=WORKERS, shards=12, keep=keep)
    yield [str(w.message) for w in caught]


def filling(grave):
    return partial(fill, grave=grave)


def analysis(capture, folder, settings):
    """Without ray.init: Ray on this machine begins, and ends."""
    seen = []
    results = qkscope.ray.analyze(capture, folder, progress=lambda *state: seen.append(state), **json.loads(settings))
    yield {"heads": len(results.heads), "progress": seen, "initialized": ray.is_initialized()}


def on_a_cluster(model, text, folder, keep):
    """A capture by the library."""
    from ray.cluster_utils import Cluster
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=2)
    try:
        yield {"complete": qkscope.ray.capture(model, folder, text=text, keep=keep, address=cluster.address).complete}
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
