# SPDX-License-Identifier: Apache-2.0
"""What is said of mistakes, and help: said.txt has commands, what each writes, and its exit code. After a change of words

    QKSCOPE_GOLDEN=write .venv/bin/python -m pytest tests/cli/test_said.py

writes the file anew; look at the difference."""
import os
import pathlib
import re
import shlex
import shutil

import pytest
from conftest import EXAMPLE, ROOT, write_table

SAID = pathlib.Path(__file__).with_name("said.txt")
KJV = ROOT / "examples" / "kjv-tiny"
SECTIONS = re.split(r"^(?=#)", SAID.read_text(), flags=re.M)[1:]


@pytest.fixture(scope="module")
def folder(qkscope, tmp_path_factory):
    """What there may be, each by what it is called in messages."""
    pa = pytest.importorskip("pyarrow")
    folder = tmp_path_factory.mktemp("said")
    shutil.copytree(EXAMPLE, folder / "capture")
    (folder / "link").symlink_to("capture")
    qkscope("pca", folder / "capture", "-o", folder / "results", "--layers", 0, "--quiet", expect=0)
    (folder / "models").symlink_to(KJV)
    shutil.copytree(KJV / "step-20", folder / "model")
    write_table(folder, "table", pa.table({"body": ["a"], "title": ["b"]}))
    for name, text in {"texts/a.txt": "In the beginning\n", "study.yaml": "title: x\nmodels:\n  - {name: a, source: capture}\n",
                       "sauce.yaml": "models:\n  - {name: a, sauce: x}\n", "config.yaml": "pca:\n  n_components: 3\n",
                       "wrong.yaml": "pca:\n  n_componets: 3\n", "unfinished/.partial/x": "", "tokenizer.json": "{",
                       "zero.txt": "In the beginning\0 and so on", "utf16.txt": "In the beginning".encode("utf-16"),
                       "random.txt": bytes((i * 7919) % 255 + 1 for i in range(5000)), "with/a.txt": "And God said\n",
                       "with/b.txt": (ROOT / "docs/gallery/scatter-pca.png").read_bytes()[:3000]}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    (folder / "empty").mkdir()
    (folder / "bin").mkdir()
    (folder / "bin/hf").write_text("#!/bin/sh\ntouch asked-the-network\n")
    (folder / "bin/hf").chmod(0o755)
    return folder


def said(qkscope, folder, line):
    done = qkscope(*shlex.split(line)[1:], cwd=folder, env={"COLUMNS": None, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"})
    return f"{done.out}{done.err}[{done.code}]\n"


@pytest.mark.cases(99)
@pytest.mark.parametrize("section", SECTIONS, ids=[section.splitlines()[0][2:] for section in SECTIONS])
def test_what_is_said(qkscope, folder, section):
    before = sorted(folder.rglob("*"))
    commands = re.findall(r"^\$ (qkscope.*)$", section, re.M)
    told = section.split("\n")[0] + "\n" + "".join(f"\n$ {line}\n{said(qkscope, folder, line)}" for line in commands) + "\n"
    if os.environ.get("QKSCOPE_GOLDEN") == "write":
        SAID.write_text(SAID.read_text().replace(section, told))
    else:
        assert told.rstrip() == section.rstrip()
    assert sorted(folder.rglob("*")) == before  # a mistake writes nothing, and fetches nothing
