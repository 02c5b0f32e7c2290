# SPDX-License-Identifier: Apache-2.0
"""Running the program, finding shared data, and writing captures as the original tool does."""
import csv
import json
import os
import pathlib
import subprocess
from dataclasses import dataclass

import pytest

# Small matrices on busy processors: NumPy's own threads would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("QKSCOPE_BUILD", ROOT / "build")).resolve()
SHARED = pathlib.Path(os.environ.get("QKSCOPE_SHARED", ROOT.parent / "shared"))
EXAMPLE = ROOT / "examples" / "kjv-tiny-capture"
REPORTS = ("AddressSanitizer", "LeakSanitizer", "ThreadSanitizer", "runtime error:")


# ---- running ---------------------------------------------------------------------------------

@dataclass
class Outcome:
    code: int
    out: str
    err: str


def environment(changes=None):
    """The environment without what would change the program's behaviour."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "HF_", "LANG"))}
    env.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
    for name, value in (changes or {}).items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = str(value)
    return env


def check_survived(code, err):
    """However bad the input, no signal ends the program and no sanitizer speaks."""
    assert code >= 0, f"ended by signal {-code}\n{err}"
    assert not any(word in err for word in REPORTS), err


@pytest.fixture(scope="session")
def program():
    path = BUILD / "qkscope"
    if not path.exists():
        pytest.skip(f"{path} is not built")
    return path


@pytest.fixture(scope="session")
def sanitized(program):
    """Whether it is a build with AddressSanitizer, which needs terabytes of address space."""
    return b"__asan_init" in program.read_bytes()


@pytest.fixture(scope="session")
def qkscope(program):
    """qkscope("pca", folder, ...) -> Outcome; expect= checks the exit code."""
    def run(*arguments, expect=None, env=None, timeout=120, executable=None, **options):
        options.setdefault("stdin", subprocess.DEVNULL)
        done = subprocess.run([executable or program, *map(os.fspath, map(text, arguments))],
                              stdout=options.pop("stdout", subprocess.PIPE),
                              stderr=options.pop("stderr", subprocess.PIPE),
                              env=environment(env), timeout=timeout, **options)
        out, err = (b"" if s is None else s for s in (done.stdout, done.stderr))
        outcome = Outcome(done.returncode, out.decode(errors="surrogateescape"),
                          err.decode(errors="surrogateescape"))
        check_survived(outcome.code, outcome.err)
        if expect is not None:
            assert outcome.code == expect, f"exit code {outcome.code}\n{outcome.err}"
        return outcome
    return run


def text(argument):
    return argument if isinstance(argument, (str, bytes, os.PathLike)) else str(argument)


@pytest.fixture(scope="session")
def shared_data():
    """shared_data("kjv-tiny-capture") -> its folder; skips the test where it is absent."""
    def find(name):
        folder = SHARED / "data" / name
        if not folder.is_dir():
            pytest.skip(f"{folder} is absent (set QKSCOPE_SHARED)")
        return folder
    return find


# ---- reading results -------------------------------------------------------------------------

INTEGERS = {"layer", "head", "q_head", "k_head", "pc", "pca_dim", "n_q", "n_k", "d"}
TEXTS = {"model", "category", "kind"}


def cell(column, value):
    if column in TEXTS:
        return value
    if value == "":
        return None
    return int(value) if column in INTEGERS else float(value)


def read_csv(path):
    """Rows as dicts; an empty field is None."""
    with open(path, newline="", encoding="utf-8", errors="surrogateescape") as file:
        return [{c: cell(c, v) for c, v in row.items()} for row in csv.DictReader(file)]


def read_json(path):
    return json.loads(pathlib.Path(path).read_text())


def read_bytes(folder, *names):
    return {name: (folder / name).read_bytes() for name in names}


# ---- captures --------------------------------------------------------------------------------

def head_name(layer, head, kind):
    return f"l{layer:02d}h{head:02d}{kind}"


def capture_table(vectors, position, vector_type=None, position_type=None):
    """The columns of the original tool; vectors is an array, rows x dim."""
    import numpy as np
    import pyarrow as pa
    value_type = vector_type or pa.from_numpy_dtype(vectors.dtype)
    position = np.asarray(position)
    rows, dim = vectors.shape
    values = pa.array(np.ascontiguousarray(vectors).ravel(), value_type)
    return pa.table({
        "bucket": pa.array((position - position.min(initial=0)) // 128 % 64, pa.int32()),
        "example_id": pa.array(np.arange(rows) * 4 // max(rows, 1), pa.int32()),
        "position": pa.array(position, position_type or pa.int32()),
        "vector": pa.FixedSizeListArray.from_arrays(values, dim),
        "sliding_window": pa.nulls(rows),
    })


def write_head(root, name, vectors, position, shards=1, vector_type=None, position_type=None,
               **options):
    """One head, as pyarrow writes it with zstd and dictionaries; `shards` files of its rows."""
    import numpy as np
    import pyarrow.parquet as pq
    folder = pathlib.Path(root) / name
    folder.mkdir(parents=True, exist_ok=True)
    table = capture_table(vectors, position, vector_type, position_type)
    bounds = np.linspace(0, len(table), shards + 1).astype(int)
    for i in range(shards):
        file = "data.parquet" if shards == 1 else f"data-{i:05d}-of-{shards:05d}.parquet"
        part = table.slice(bounds[i], bounds[i + 1] - bounds[i])
        pq.write_table(part, folder / file, **{"compression": "zstd", **options})
    return folder


def read_head(root, name):
    """(vectors in float64, positions) of a head, read by pyarrow; shards in name order."""
    import numpy as np
    import pyarrow.parquet as pq
    tables = [pq.read_table(f, columns=["position", "vector"])
              for f in sorted((pathlib.Path(root) / name).glob("*.parquet"))]
    vectors = [t["vector"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
               .astype(np.float64).reshape(len(t), -1) for t in tables if len(t)]
    positions = [t["position"].to_numpy().astype(np.int64) for t in tables]
    return np.concatenate(vectors), np.concatenate(positions)


def head_names(root):
    return sorted(p.name for p in pathlib.Path(root).iterdir() if p.is_dir())
