# SPDX-License-Identifier: Apache-2.0
"""org/name in Python: what the library does, through the package."""
import pytest
from conftest import EXAMPLE
from fake_hub import FakeHub
from test_fetch_commands import files_of
from test_get import NAME

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A server, of which the library learns from this process's environment."""
    with FakeHub() as server:
        for name, value in server.environment(tmp_path).items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
        yield server


def test_open_fetches(hub, tmp_path):
    commit = hub.add("datasets", NAME, files_of(EXAMPLE), revision="v1")
    seen = []
    found = qk.open(NAME, revision="v1", progress=lambda what, done, total: seen.append(what))
    assert found.path.endswith(commit) and found.path.startswith(str(tmp_path)) and "MB" in seen
    for mine, theirs in zip(found.heads, qk.open(str(EXAMPLE)).heads, strict=True):
        assert (mine.read().vectors == theirs.read().vectors).all()
    sent = len(hub.log)
    qk.open(NAME, revision="v1", offline=True)
    assert len(hub.log) == sent


def test_open_says_what_is_wrong(hub):
    with pytest.raises(qk.NotFoundError, match="not in the cache"):
        qk.open(NAME, offline=True)
    assert not hub.log
    with pytest.raises(qk.NotFoundError, match="no dataset of this name"):
        qk.open(NAME)


def test_progress_of_both_captures(hub):
    """What the second one tells reaches the same user."""
    for name in ("org/pre", "org/post"):
        hub.add("datasets", name, files_of(EXAMPLE))
    seen = []
    with pytest.raises(qk.DataError, match="as it should be after RoPE"):
        qk.compare_stages("org/pre", "org/post", progress=lambda what, done, total: seen.append(what))
    assert "MB" in seen
