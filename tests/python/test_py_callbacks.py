# SPDX-License-Identifier: Apache-2.0
"""What the library calls back: what that raises reaches the caller, and nothing is made without it. And texts with a
zero byte, where C would end them."""
import ast
import json
import sys

import numpy as np
import pytest

from conftest import BUILD, ROOT

sys.path.insert(0, str(BUILD / "python"))
qk = pytest.importorskip("qkscope")
from py_feeding import files_of, model, py_feed, sink  # noqa: E402

pq = pytest.importorskip("pyarrow.parquet")


class Unknown(Exception):
    pass


@pytest.mark.cases(3)
@pytest.mark.parametrize("options, error", [
    ({}, Unknown("no such token")), ({"threads": 4, "stage": "both"}, KeyboardInterrupt()), ({"layout": "packed"}, SystemExit(3))])
def test_what_token_strings_raises_is_raised(tmp_path, options, error):
    """The capture was completed with empty strings."""
    def string(token):
        if token > 3:
            raise error
        return f"t{token}"

    given = {"sampler": qk.Sampler(), "model": model(qk), "texts": 2, **options}
    with pytest.raises(type(error)) as raised:
        feed_all(tmp_path / "a", given, string)
    assert raised.value is error
    assert [path.name for path in (tmp_path / "a").iterdir()] == [".partial"]
    feed_all(tmp_path / "a", given, lambda token: f"t{token}")  # goes on: nothing is wanted any more
    feed_all(tmp_path / "b", given, lambda token: f"t{token}")
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")


def feed_all(folder, given, string):
    with qk.Sink(folder, token_strings=string, **given) as s:
        for number in (n for n in range(2) if s.wants(n)):
            with s.text(number, tokens=16, ids=list(range(16))):
                for layer in range(3):
                    for kind, heads in (("q", 4), ("k", 2)):
                        for before in [False, True] if given.get("stage") == "both" else [False]:
                            s.put(number, layer, kind, np.full((heads, 16, 12), number + 1, "f4"), before_rope=before)


def test_a_token_with_a_zero_byte(tmp_path):
    feed_all(tmp_path / "a", {"model": model(qk), "texts": 2}, lambda token: f"a\0{token}" if token else "\0")
    path = next((tmp_path / "a").glob("l00h*q/*.parquet"))
    assert set(pq.read_table(path)["token_str"].to_pylist()) == {"\ufffd", *(f"a\ufffd{i}" for i in range(1, 16))}


@pytest.mark.test_all
def test_every_callback_has_an_error_path():
    """A callback of cffi that raises prints, and returns what `error` says; that must not look like an answer."""
    found = {}
    for path in (ROOT / "python" / "qkscope").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            for call in getattr(node, "decorator_list", []):
                if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "def_extern":
                    guarded = any(getattr(d, "id", "") == "guarded" for d in node.decorator_list)
                    name = next((k.value.value for k in call.keywords if k.arg == "name"), node.name)
                    found[name] = (guarded, {k.arg: ast.unparse(k.value) for k in call.keywords}.get("error"))
    declared = {line.split("qkpy_")[1].split("(")[0] for line in
                (ROOT / "python" / "make_binding.py").read_text().splitlines() if 'extern "Python"' in line}
    assert {name.removeprefix("qkpy_") for name in found} == declared
    ours = {"qkpy_notice": None, "qkpy_progress": "False", "qkpy_token_string": "ffi.NULL"}  # they run no code of users
    for name, (guarded, error) in found.items():
        assert (guarded, error) == (name not in ours, ours.get(name, "False")), name


# ---- zero bytes ----------------------------------------------------------------------------

ZERO = "a\0b"
CUT = {
    "open": lambda tmp: qk.open(tmp / f"c{ZERO}"),
    "split": lambda tmp: qk.open(tmp / "c", split="\0x"),
    "revision": lambda tmp: qk.open(tmp / "c", revision=f"main{ZERO}"),
    "inspect": lambda tmp: qk.inspect(str(tmp / "c") + "\0x"),
    "pca": lambda tmp: qk.pca(str(tmp / "c") + "\0x"),
    "merge": lambda tmp: qk.merge(str(tmp / "c") + "\0x"),
    "merge to": lambda tmp: qk.merge(tmp / "c", str(tmp / "made") + "\0x"),
    "study": lambda tmp: qk.study(str(tmp / "s.yaml") + "\0x", tmp / "made"),
    "shard": lambda tmp: qk.find_shard("0/2\0x"),
    "sampler": lambda tmp: qk.Sampler("all\0x"),
    "output": lambda tmp: sink(qk, str(tmp / "made") + "\0x"),
    "source": lambda tmp: sink(qk, tmp / "made", source=ZERO),
    "card": lambda tmp: sink(qk, tmp / "made", card=ZERO),
    "keep": lambda tmp: sink(qk, tmp / "made", keep="rows\0x"),
    "model": lambda tmp: qk.Sink(tmp / "made", model=model(qk, name=ZERO), texts=1),
    "head": lambda tmp: qk.write_capture(tmp / "made", {"l00h00q\0x": np.ones((3, 4), "f4")}),
    "model of a capture": lambda tmp: qk.write_capture(tmp / "made", {(0, 0, "q"): np.ones((3, 4), "f4")}, model=ZERO),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("zero")
    qk.write_capture(folder / "c", {(0, 0, "q"): np.ones((3, 4), "f4"), (0, 0, "k"): np.ones((3, 4), "f4")})
    return folder


@pytest.mark.cases(len(CUT))
@pytest.mark.parametrize("what", CUT)
def test_a_zero_byte_does_not_cut_a_text(place, what):
    with pytest.raises((ValueError, OSError), match="zero byte|null byte"):
        CUT[what](place)
    assert {path.name for path in place.iterdir()} == {"c"}


def test_a_zero_byte_in_what_a_text_is_called(tmp_path):
    s = sink(qk, tmp_path / "a")
    for name in ("source", "source_id"):
        with pytest.raises(qk.ArgumentError, match=f"{name} is .*zero bytes"):
            s.begin(0, 3, **{name: ZERO})
    s.close()


def test_a_zero_byte_in_json_is_refused(tmp_path):
    py_feed(qk, tmp_path / "a", texts=1, run={"a": "x y"})
    assert json.loads((tmp_path / "a/capture.json").read_text())["run"]["a"] == "x y"
    with pytest.raises(qk.DataError, match="u0000"):
        py_feed(qk, tmp_path / "b", texts=1, run={"a": ZERO})
