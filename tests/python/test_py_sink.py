# SPDX-License-Identifier: Apache-2.0
"""The sink from Python gives the bytes that the same vectors give in C."""
import pytest

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")

from py_feeding import feed, files_of, py_feed  # noqa: E402

KEPT = {
    "rows": dict(keep="rows"),
    "some rows": dict(keep="rows", sampler="uniform", rate=20, strings=1, stage="both", tokens=1),
    "packed rows": dict(keep="rows", layout="packed", sampler="uniform", rate=20, max_rows=9),
    "rows and moments": dict(keep="rows,moments", stage="both", max_rows=600),
    "reservoir": dict(keep="moments,reservoir=3", groups=0, stage="pre", seed=7, tokens=1),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """whole(name) -> the files of the capture that feed.c makes."""
    made = {}

    def make(name):
        if name not in made:
            folder = tmp_path_factory.mktemp("whole") / "capture"
            assert feed(folder, **KEPT[name])["complete"]
            made[name] = files_of(folder)
        return made[name]
    return make


@pytest.mark.parametrize("name", KEPT)
def test_the_bytes_of_a_program_in_c(whole, tmp_path, name):
    outcome = py_feed(qk, tmp_path / "a", **KEPT[name])
    assert outcome.complete and outcome.blocks == outcome.blocks_there and outcome.texts_there == 8
    assert files_of(tmp_path / "a") == whole(name)
    assert outcome.bytes == sum(len(data) for file, data in whole(name).items()
                                if file.endswith((".parquet", ".safetensors")))
