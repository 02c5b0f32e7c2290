# SPDX-License-Identifier: Apache-2.0
"""make install PREFIX=... DESTDIR=..., of a build that was set up for another prefix; and make uninstall."""
import os
import re
import shutil
import subprocess

import pytest
from conftest import BUILD, ROOT, VERSION

PROGRAM = """
#include <qkscope/{header}.h>
#include <stdio.h>
int main(void)
{{
    qk_head_id id;
    return qk_head_parse("l03h07k", &id) && id.layer == 3 && puts(qk_version()) >= 0 ? 0 : 1;
}}
"""


pytestmark = pytest.mark.test_all


@pytest.fixture(scope="module", autouse=True)
def ready():
    if not (BUILD / "qkscope").exists() or not shutil.which("make"):
        pytest.skip("nothing is built, or there is no make")
    if b"b_sanitize" in (BUILD / "meson-private" / "cmd_line.txt").read_bytes():
        pytest.skip("an instrumented library is not installed")


def make(target, prefix=None, destination=None):
    """-o build: what is built is installed as it is."""
    words = [f"{name}={value}" for name, value in {"PREFIX": prefix, "DESTDIR": destination}.items() if value]
    done = subprocess.run(["make", "-s", "-C", ROOT, "-o", "build", f"BUILD={BUILD}", target, *words], check=False,
                          capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())


def compile_and_run(tmp_path, package, library):
    source = tmp_path / f"{package}.c"
    source.write_text(PROGRAM.format(header="qkscope" if package == "qkscope" else "capture"))
    env = {**os.environ, "PKG_CONFIG_PATH": str(library / "pkgconfig")}
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", package], check=True, env=env, capture_output=True,
                           text=True).stdout.split()
    subprocess.run(["cc", "-std=c11", "-Wall", "-Werror", source, "-o", tmp_path / package, *flags,
                    f"-Wl,-rpath,{library}"], check=True)
    said = subprocess.run([tmp_path / package], check=True, capture_output=True, text=True).stdout
    assert said == f"{VERSION}\n"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    destination = tmp_path_factory.mktemp("destination")
    said = make("install", "/opt/some-where", destination)
    assert said == f"{destination}/opt/some-where/bin/qkscope\n"
    # Another prefix is not written into the build, which others use.
    assert "/opt/some-where" not in (BUILD / "meson-private" / "qkscope.pc").read_text()
    return destination


def test_everything_is_right_below_the_prefix(installed):
    prefix = installed / "opt" / "some-where"
    found = files_below(prefix)
    assert {path.name for path in installed.iterdir()} == {"opt"} and {p.name for p in prefix.parent.iterdir()} == {
        "some-where"}
    wanted = ["bin/qkscope", "bin/sniff-qk", "include/qkscope/qkscope.h", "share/man/man1/qkscope.1",
              "share/man/man1/qkscope-capture.1", "share/bash-completion/completions/qkscope.bash",
              "share/zsh/site-functions/_qkscope", "share/fish/vendor_completions.d/qkscope.fish",
              "share/doc/qkscope/LICENSE", "share/doc/qkscope/README.md", "share/doc/qkscope/docs/methods.md",
              "share/qkscope/examples/kjv-tiny/passages.jsonl", "share/qkscope/studies/smollm3.yaml"]
    assert not set(wanted) - set(found)
    assert sum(name.endswith(".pc") for name in found) == 2 and sum(name.endswith(".a") for name in found) == 2
    assert not [name for name in found if "site-packages" in name or "dist-packages" in name or "_library" in name]
    assert (prefix / "share/doc/qkscope/LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    headers = {path.name for path in (ROOT / "include" / "qkscope").glob("*.h")}
    assert {path.name for path in (prefix / "include" / "qkscope").iterdir()} == headers


def test_links_of_the_documents_lead_somewhere(installed):
    folder = installed / "opt" / "some-where" / "share" / "doc" / "qkscope"
    for page in [folder / "README.md", folder / "docs" / "dev" / "pictures.md"]:
        links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
        assert len(links) > 10 and not [link for link in links if not (page.parent / link).exists()]


def test_the_command_runs_where_it_is(installed, tmp_path, qkscope):
    prefix = installed / "opt" / "some-where"
    examples = prefix / "share" / "qkscope" / "examples"
    qkscope("analyze", examples / "kjv-tiny-capture", "-o", tmp_path / "o", "--quiet", expect=0,
            executable=prefix / "bin" / "qkscope")
    said = qkscope("--version", executable=prefix / "bin" / "pca-analyze", expect=0).out
    assert said == f"qkscope {VERSION}\n" and (tmp_path / "o" / "qk.csv").exists()


def test_programs_by_pkg_config_at_a_prefix(tmp_path):
    """Without DESTDIR: nothing but the prefix says where things are. Then all of it goes, and what is not ours stays."""
    prefix = tmp_path / "here"
    (prefix / "share").mkdir(parents=True)
    (prefix / "share" / "mine").write_text("x")
    make("install", prefix)
    library = next(prefix.rglob("libqkscope.so")).parent
    for package in ("qkscope", "qkscope-core"):
        compile_and_run(tmp_path, package, library)
    make("uninstall", prefix)
    assert files_below(tmp_path / "here") == ["share/mine"]
    assert sorted(path.name for path in prefix.rglob("*")) == ["mine", "share"]


def test_twice_and_back(tmp_path):
    """The default prefix; a second time over the first, while the command runs."""
    make("install", destination=tmp_path)
    first = files_below(tmp_path)
    assert "usr/local/bin/qkscope" in first
    with subprocess.Popen([tmp_path / "usr/local/bin/qkscope", "tokenize", ROOT / "examples/kjv-tiny/step-20", "-"],
                          stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as running:
        make("install", destination=tmp_path)
        running.communicate(b"word", timeout=900)
    assert running.returncode == 0 and files_below(tmp_path) == first
    make("uninstall", destination=tmp_path)
    assert list(tmp_path.iterdir()) == []
    make("uninstall", destination=tmp_path)
