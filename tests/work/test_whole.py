# SPDX-License-Identifier: Apache-2.0
"""A capture of which something is gone is not said to be complete."""
import shutil

import pytest
from conftest import ROOT

TINY = ROOT / "examples" / "kjv-tiny"
CAPTURE = ["capture", "-m", TINY / "step-20", "-t", TINY / "passages.jsonl", "--max-length", "64", "--layers", "0",
           "--sampler", "all", "-q", "--threads", "1", "--max-texts", "1"]
GONE = {"a head": ([], "l00h00q", True), "an emptied head": ([], "l00h00q", False), "a packed file": (["--layout", "packed"], "l00q", True),
        "moments": (["--keep", "rows,moments"], "moments", True), "of a stage": (["--stage", "both"], "post/l00h01k", True)}


@pytest.mark.parametrize("kind", GONE)
def test_what_is_missing_is_named(qkscope, tmp_path, kind):
    options, part, whole = GONE[kind]
    out = tmp_path / "c"
    qkscope(*CAPTURE, *options, "-o", out, expect=0)
    shutil.rmtree(out / part)
    if not whole:
        (out / part).mkdir()
    for words in ([*CAPTURE, *options, "-o", out], ["merge", out]):
        said = qkscope(*words, expect=1).err
        assert f"{out}/" in said and part.split("/")[-1] in said and "--force" in said
    qkscope(*CAPTURE, *options, "-o", out, "--force", expect=0)
    assert "nothing waits to be merged" in qkscope("merge", out, expect=0).out
