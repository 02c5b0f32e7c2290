# SPDX-License-Identifier: Apache-2.0
"""What `qkscope capture --keep` writes: the numbers of the rows that the same run keeps as rows, computed by NumPy, and
the reservoir that the documented rule chooses."""
import numpy as np
import pytest
from conftest import ROOT, head_name, read_csv, read_json

make_state = pytest.importorskip("make_state")
pytest.importorskip("safetensors")
states = pytest.importorskip("test_states")

TINY = ROOT / "examples" / "kjv-tiny"
SIZE, GROUPS, FIRST = 3, 8, 16


@pytest.fixture(scope="module")
def captures(qkscope, tmp_path_factory):
    """Rows, moments, and moments with a reservoir, of the same positions; and the state that NumPy makes of the rows."""
    folder = tmp_path_factory.mktemp("captured")
    for name, keep in (("rows", "rows"), ("moments", "moments"), ("reservoir", f"moments,reservoir={SIZE}"),
                       ("first", f"moments,first={FIRST}")):
        more = [] if name == "rows" else ["--groups", GROUPS]
        qkscope("capture", "--model", TINY / "step-2004", "--text", TINY / "passages.jsonl", "--id-column", "id",
                "--sampler", "uniform", "--base-rate", 12, "--bucket", 64, "--max-texts", 12, "--layers", "0,3",
                "--keep", keep, *more, "-o", folder / name, expect=0)
    make_state.make_state(folder / "rows", folder / "oracle", groups=GROUPS, reservoir=SIZE)
    make_state.make_state(folder / "rows", folder / "oracle of first", groups=GROUPS, first=FIRST)
    return folder


@pytest.mark.release
@pytest.mark.parametrize("kept, oracle", [("moments", "oracle"), ("reservoir", "oracle"), ("first", "oracle of first")])
def test_moments(captures, kept, oracle):
    from safetensors.numpy import load_file
    files = sorted(p.name for p in (captures / kept / "moments").iterdir())
    assert files == ["l00.safetensors", "l03.safetensors"]
    for name in files:
        got, want = (load_file(captures / f / "moments" / name) for f in (kept, oracle))
        assert set(got) == set(want)
        for array, expected in want.items():
            assert got[array].shape == expected.shape and got[array].dtype == expected.dtype, array
            if expected.dtype.kind == "i":
                assert (got[array] == expected).all(), array
            else:
                scale = np.abs(expected).max()
                np.testing.assert_allclose(got[array], expected, rtol=1e-10, atol=1e-10 * scale, err_msg=array)


@pytest.mark.release
def test_reservoir(captures):
    """The same rows in the same order, bit for bit."""
    listed = {h["name"]: h for h in read_json(captures / "reservoir" / "capture.json")["heads"]}
    for layer, head, kind in [(0, 0, "q"), (0, 1, "k"), (3, 3, "q"), (3, 0, "k")]:
        name = head_name(layer, head, kind)
        got, want = (make_state.columns_of(make_state.read_table(captures / f / name)) for f in ("reservoir", "oracle"))
        assert all((got[column] == want[column]).all() for column in want) and len(want["position"]) > 100
        rows = make_state.read_table(captures / "rows" / name)
        assert (listed[name]["rows"], listed[name]["summed"]) == (len(want["position"]), len(rows))
    _, counts = np.unique(np.stack([want["example_id"], want["bucket"]]), axis=1, return_counts=True)
    assert counts.max() == SIZE


@pytest.mark.test_all
def test_analyses(qkscope, captures, tmp_path):
    """From rows and from either state; intervals are of as many groups as the state has."""
    for kept in ("rows", "moments", "reservoir"):
        states.analyze(qkscope, captures / kept, tmp_path / kept)
    for kept in ("moments", "reservoir"):
        for table in states.MOMENTS:
            got, want = (read_csv(tmp_path / f / table) for f in (kept, "rows"))
            # Of 12 texts 8 groups, where rows have 12.
            states.compare(kept, table, got, want,
                           skip=["r_q_width", "effective_texts", "near_tie", "position_r_q", "position_r_k",
                                 *(c for c in want[0] if "probability" in c)])
    got, want = (read_csv(tmp_path / f / "head_metrics.csv") for f in ("reservoir", "rows"))
    assert len(got) == len(want) == 8
    for row, all_rows in zip(got, want):
        assert 0 < row["ap_overall_se"] < 0.1
        assert abs(row["ap_overall"] - all_rows["ap_overall"]) <= 4 * row["ap_overall_se"]


@pytest.mark.parametrize("size", [SIZE, states.EVERYTHING])
def test_windows(qkscope, tmp_path, size):
    """Examples that are windows of one text: the moments' groups are of texts, and keys stand for those of their group."""
    for name, keep in (("rows", "rows"), ("kept", f"moments,reservoir={size}")):
        more = ["--groups", GROUPS] if name == "kept" else []
        qkscope("capture", "--model", TINY / "step-2004", "--text", TINY / "passages.jsonl", "--max-length", 64, "--max-texts", 12,
                "--sampler", "all", "--layers", "0", "--keep", keep, *more, "-o", tmp_path / name, expect=0)
        states.analyze(qkscope, tmp_path / name, tmp_path / f"of {name}", "--max-pairs", 0, command="plasticity")
    got, want = (read_csv(tmp_path / f"of {name}" / "head_metrics.csv") for name in ("kept", "rows"))
    assert len(got) == len(want) == 4
    for row, all_rows in zip(got, want):
        assert row["ap_overall"] == pytest.approx(all_rows["ap_overall"], abs=4 * row["ap_overall_se"] + 1e-10)
        assert (row["ap_overall_se"] == 0) == (size == states.EVERYTHING)
