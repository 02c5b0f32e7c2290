# SPDX-License-Identifier: Apache-2.0
"""`make dist`: one archive of the source, from which the program builds without git."""
import json
import subprocess
import tarfile

import pytest

from conftest import ROOT


pytestmark = pytest.mark.test_all


def output(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def test_an_archive_has_all_that_the_build_needs(tmp_path):
    if not (ROOT / ".git").exists():
        pytest.skip("not a git repository")
    project = json.loads(output("meson", "introspect", "--projectinfo", ROOT / "meson.build"))
    name = f"{project['descriptive_name']}-{project['version']}"
    path = output("make", "-s", "-C", ROOT, "dist", f"BUILD={tmp_path}").strip()
    assert path == f"{tmp_path}/{name}.tar.gz"
    with tarfile.open(path) as archive:
        files = {member.name for member in archive if not member.isdir()}
        archive.extractall(tmp_path)
    tracked = output("git", "-C", ROOT, "ls-tree", "-r", "--name-only", "-z", "HEAD").split("\0")[:-1]
    assert files == {f"{name}/{file}" for file in tracked}
    output("meson", "setup", tmp_path / "build", tmp_path / name, "-Dtests=false")
    # What ninja would do: it says so of a source that is missing.
    assert "libqkscope-core" in output("ninja", "-n", "-C", tmp_path / "build")
