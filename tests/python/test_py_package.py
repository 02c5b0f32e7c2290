# SPDX-License-Identifier: Apache-2.0
"""What is installed: the package's files and the command, from the build folder; and the wheel of `make wheel`, in an
environment of its own for each Python that is here (`make wheel-check`; QKSCOPE_WHEEL names the wheel)."""
import email
import filecmp
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("QKSCOPE_BUILD", ROOT / "build")).resolve()
EXAMPLE = ROOT / "examples" / "kjv-tiny-capture"
VERSION = re.search(r'QK_VERSION +"(.*)"', (ROOT / "include/qkscope/common.h").read_text())[1]
SOURCES = ROOT / "python" / "qkscope"
WHEEL = os.environ.get("QKSCOPE_WHEEL")
needs_wheel = pytest.mark.skipif(not WHEEL, reason="the wheel takes a minute to build: make wheel-check")


def modules():
    return {str(p.relative_to(SOURCES)) for p in SOURCES.rglob("*") if p.suffix in {".py", ".pyi", ".typed", ".jsonl"}}


def package_metadata():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def run(*command, **more):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=300, **more)


@pytest.mark.test_all
def test_what_pip_installs_is_the_package_and_the_command(tmp_path):
    if not (BUILD / "python" / "qkscope" / "_library.abi3.so").exists():
        pytest.skip("the Python package is not in this build")
    (tags,) = [a for a in package_metadata()["tool"]["meson-python"]["args"]["install"] if a.startswith("--tags")]
    made = run("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", tmp_path, *tags.split("="))
    assert made.returncode == 0, made.stdout + made.stderr
    files = {p for p in tmp_path.rglob("*") if p.is_file() or p.is_symlink()}
    files = {p for p in files if p.parent.name != "__pycache__"}  # Meson 1.2 compiles them
    (package,) = {p.parent for p in files if p.name == "_library.abi3.so"}
    inside = {p for p in files if p.is_relative_to(package)}
    assert package.name == "qkscope"
    assert {str(p.relative_to(package)) for p in inside} == modules() | {"_library.abi3.so", "export/passages.jsonl"}
    assert [f"{p.parent.name}/{p.name}" for p in files - inside] == ["bin/qkscope"]


def test_the_base_needs_cffi_and_nothing_else():
    project = package_metadata()["project"]
    assert [re.match(r"[\w-]+", d)[0] for d in project["dependencies"]] == ["cffi"]
    extras = {name: {re.match(r"[\w-]+", d)[0] for d in needs} for name, needs in
              project["optional-dependencies"].items()}
    assert extras["hf"] >= {"torch", "transformers"} and extras["ray"] == {"ray"}


# ---- the wheel -----------------------------------------------------------------------------------

def pythons():
    """This Python and others from 3.10 that are on PATH and run."""
    found = {sys.version_info[:2]: sys.executable}
    for minor in range(10, 20):
        path = shutil.which(f"python3.{minor}")
        if path and run(path, "-c", "import venv, ensurepip").returncode == 0:
            found.setdefault((3, minor), path)
    for path in os.environ.get("QKSCOPE_WHEEL_PYTHONS", "").split():
        version = run(path, "-c", "import sys; print(sys.version_info[1])").stdout
        found.setdefault((3, int(version)), path)
    return {f"{major}.{minor}": path for (major, minor), path in sorted(found.items())}


@pytest.fixture(scope="module", params=pythons() if WHEEL else [None])
def installed(request, tmp_path_factory):
    """The folder of programs of an environment that has the wheel."""
    folder = tmp_path_factory.mktemp("environment")
    made = run(pythons()[request.param], "-m", "venv", folder)
    assert made.returncode == 0, made.stderr
    made = run(folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", WHEEL)
    assert made.returncode == 0, made.stderr
    return folder / "bin"


@needs_wheel
def test_the_tag_is_for_every_python_and_an_old_glibc():
    name = Path(WHEEL).name
    assert re.fullmatch(rf"qkscope-{re.escape(VERSION)}-cp310-abi3-manylinux_2_28_\w+\.whl", name)
    with zipfile.ZipFile(WHEEL) as wheel:
        names = [n for n in wheel.namelist() if not n.endswith("/")]
        metadata = email.message_from_bytes(wheel.read(f"qkscope-{VERSION}.dist-info/METADATA"))
        tags = email.message_from_bytes(wheel.read(f"qkscope-{VERSION}.dist-info/WHEEL")).get_all("Tag")
    assert f"qkscope-{VERSION}.dist-info/licenses/libraries/zlib" in names
    assert tags == [name.removesuffix(".whl").split("-", 2)[2]]
    assert {n.removeprefix("qkscope/") for n in names if n.startswith("qkscope/")} == modules() | {"_library.abi3.so", "export/passages.jsonl"}
    assert not [n for n in names if n.endswith((".h", ".a", ".pc")) or "libqkscope" in n]
    base = [n for n in metadata.get_all("Requires-Dist") if "extra" not in n]
    assert len(base) == 1 and base[0].startswith("cffi")


@needs_wheel
def test_package_and_command_are_of_one_version(installed, tmp_path):
    said = run(installed / "python", "-c", "import qkscope; print(qkscope.__version__, qkscope.__file__)", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert said.stdout.split()[0] == VERSION and str(installed.parent) in said.stdout
    said = run(installed / "qkscope", "--version", cwd=tmp_path)
    assert (said.returncode, said.stdout.split()) == (0, ["qkscope", VERSION])


@needs_wheel
def test_the_package_computes_without_numpy(installed, tmp_path):
    code = ("import sys, qkscope; results = qkscope.analyze(sys.argv[1], layers=0, progress=False, output='results')\n"
            "print(len(results.heads)); print(sorted({'numpy', 'pandas', 'pyarrow', 'torch'} & set(sys.modules)))")
    said = run(installed / "python", "-c", code, EXAMPLE, cwd=tmp_path)
    assert said.stdout.split("\n")[:2] == ["4", "[]"], said.stderr
    done = run(BUILD / "qkscope", "analyze", EXAMPLE, "--layers", "0", "-o", tmp_path / "build")
    assert done.returncode == 0, done.stderr
    tables = sorted(p.name for p in (tmp_path / "build").glob("*.csv"))
    assert filecmp.cmpfiles(tmp_path / "build", tmp_path / "results", tables, shallow=False) == (tables, [], [])


@needs_wheel
def test_pip_brings_cffi_and_nothing_else(installed):
    names = run(installed / "pip", "list", "--format", "freeze", "--disable-pip-version-check").stdout
    names = {line.split("==")[0] for line in names.split()} - {"pip", "setuptools", "wheel"}
    assert names == {"qkscope", "cffi", "pycparser"}


@needs_wheel
def test_the_command_computes_what_the_build_does(installed, tmp_path):
    command = ["analyze", EXAMPLE, "--layers", "0,1", "--ci", "95", "--seed", "3", "-o"]
    for program, out in ((BUILD / "qkscope", tmp_path / "build"), (installed / "qkscope", tmp_path / "wheel")):
        said = run(program, *command, out)
        assert said.returncode == 0, said.stderr
    tables = sorted(p.name for p in (tmp_path / "build").glob("*.csv"))
    assert len(tables) > 3
    same, other, missing = filecmp.cmpfiles(tmp_path / "build", tmp_path / "wheel", tables, shallow=False)
    assert (same, other, missing) == (tables, [], [])


@needs_wheel
def test_reports_have_their_script_and_pictures_ask_for_rsvg_convert(installed, tmp_path):
    results, empty = tmp_path / "results", tmp_path / "empty"
    empty.mkdir()
    assert run(installed / "qkscope", "analyze", EXAMPLE, "--layers", "0", "-o", results).returncode == 0
    said = run(installed / "qkscope", "report", results)
    assert said.returncode == 0, said.stderr
    (page,) = results.glob("*.html")
    assert "Chart.js v3" in page.read_text(encoding="utf-8")
    shutil.rmtree(results)
    assert run(installed / "qkscope", "analyze", EXAMPLE, "--layers", "0", "-o", results).returncode == 0
    python = next(installed.glob("python3*"))  # the command starts through it
    (empty / "python3").symlink_to(python)
    said = run(installed / "qkscope", "report", results, "--format", "png", env={**os.environ, "PATH": str(empty)})
    assert said.returncode == 3, said.stderr
    assert "rsvg-convert is needed for a png" in said.stderr
