# SPDX-License-Identifier: Apache-2.0
"""What tests of the sink share: running feed.c, and the model and texts of made.h in NumPy."""
import json
import subprocess

import numpy as np

from conftest import BUILD, check_survived, environment

FEED = BUILD / "tests" / "sink" / "feed"
LAYERS, HEADS, DIM = 3, {"q": 4, "k": 2}, 12
CAPTURED = {"q": [[0, 1, 2, 3], [2, 3], [2, 3]], "k": [[0, 1], [], [0]]}
TOKENS = (300, 0, 1, 700, 40, 256, 513, 7)


def tokens_of(text):
    return TOKENS[text % 8]


def example_of(text):
    return text * 1001 - 4000


def mix(z):
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return z ^ z >> np.uint64(31)


def vectors_of(text, layer, kind, head, before=False):
    """[tokens][DIM]"""
    place = (((text * LAYERS + layer) * 2 + (kind == "k")) * 2 + before) * 64 + head
    position = np.arange(tokens_of(text), dtype=np.uint64)[:, None]
    with np.errstate(over="ignore"):
        at = ((np.uint64(place << 32) | position) * np.uint64(64) + np.arange(DIM, dtype=np.uint64))
        return ((mix(at) % np.uint64(255)).astype(np.int64) - 127) / 64


def vectors_at(text, layer, head, position):
    """[DIM]: the query of a head at any position."""
    place = ((text * LAYERS + layer) * 2 * 2) * 64 + head
    with np.errstate(over="ignore"):
        at = np.uint64(place << 32 | position) * np.uint64(64) + np.arange(DIM, dtype=np.uint64)
        return ((mix(at) % np.uint64(255)).astype(np.int64) - 127) / 64


def files_of(folder):
    """{name: bytes} of everything below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else "folder"
            for path in sorted(folder.rglob("*"))}


def start(folder, **options):
    words = [f"{name}={value}" for name, value in options.items()]
    return subprocess.Popen([FEED, folder, *words], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env=environment())


def end(run, refused=False):
    """What feed prints, or, refused, what it says."""
    out, err = run.communicate(timeout=900)
    check_survived(run.returncode, err)
    assert (run.returncode == 2) == refused and run.returncode in (0, 2), err
    return err if refused else json.loads(out)


def feed(folder, refused=False, **options):
    return end(start(folder, **options), refused)
