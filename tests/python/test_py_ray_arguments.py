# SPDX-License-Identifier: Apache-2.0
"""What is wrong with the arguments of analyses on Ray is said before Ray begins: these tests need none."""
import pytest

from conftest import EXAMPLE

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")
import qkscope.ray  # noqa: E402


@pytest.fixture(autouse=True)
def no_ray(monkeypatch):
    def begin(*_):
        raise AssertionError("Ray was begun")
    monkeypatch.setattr(qkscope.ray, "cluster", begin)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


@pytest.mark.parametrize("keywords, kind, words", [
    ({"c1": 95}, TypeError, r"analyze\(\) got an unexpected keyword argument 'c1'. Did you mean 'ci'"),
    ({"worker": 2}, TypeError, "unexpected keyword argument 'worker'. Did you mean 'workers'"),
    ({"gpus": 1}, TypeError, "unexpected keyword argument 'gpus'"),
    ({"analysis": "pca", "buckets": 3}, TypeError, "unexpected keyword argument 'buckets'"),
    ({"ci": 0.95}, ValueError, "ci=0.95: is a percentage; did you mean 95"),
    ({"threads": 0}, ValueError, "threads=0: expected a whole number from 1"),
    ({"workers": 0}, ValueError, "workers is 0; wanted is a number of at least 1"),
    ({"workers": 1.5}, ValueError, "workers is 1.5; wanted is a whole number"),
    ({"shards": -1}, ValueError, "shards is -1; wanted"),
    ({"cpus": 0}, ValueError, "cpus=0: expected a number above 0"),
    ({"cpus": "x"}, ValueError, "cpus='x': expected a number above 0"),
    ({"split": "nope"}, FileNotFoundError, "nope"),
])
def test_wrong_arguments(tmp_path, keywords, kind, words):
    with pytest.raises(kind, match=words):
        qk.ray.analyze(EXAMPLE, tmp_path / "out", **keywords)
    assert not list(tmp_path.iterdir())


def test_missing_captures(tmp_path, monkeypatch):
    for capture in (tmp_path / "nope", "no-such-org/name"):
        with pytest.raises(FileNotFoundError, match="nope|no-such-org"):
            qk.ray.analyze(capture, tmp_path / "out")
    monkeypatch.setenv("RAY_ADDRESS", "auto")  # others may have the dataset
    with pytest.raises(AssertionError, match="begun"):
        qk.ray.analyze("no-such-org/name", tmp_path / "out")
    with pytest.raises(FileNotFoundError, match="nope"):
        qk.ray.analyze(tmp_path / "nope", tmp_path / "out")


@pytest.mark.parametrize("keywords", [{"workers": 0}, {"shards": 0}, {"cpus": -1}])
def test_wrong_arguments_of_captures(tmp_path, keywords):
    with pytest.raises(ValueError, match=f"^{next(iter(keywords))}"):
        qk.ray.capture(lambda: None, tmp_path / "out", **keywords)
