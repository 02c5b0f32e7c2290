# SPDX-License-Identifier: Apache-2.0
"""Somebody gives a model for a capture, a capture for results, and so on: it is said what that is, and which command
takes it."""
import re
import shutil

import pytest
from conftest import EXAMPLE, ROOT

KJV = ROOT / "examples" / "kjv-tiny"
PASSAGES = KJV / "passages.jsonl"


@pytest.fixture(scope="module")
def paths(qkscope, tmp_path_factory):
    """What there may be, each by what it is called in messages."""
    folder = tmp_path_factory.mktemp("paths")
    qkscope("analyze", EXAMPLE, "-o", folder / "results", "--quiet", expect=0)
    shutil.copytree(EXAMPLE, folder / "capture")
    shutil.copytree(KJV / "step-20", folder / "model")
    qkscope("repack", EXAMPLE, "-o", folder / "packed", "--quiet", expect=0)
    (folder / "packed" / "capture.json").unlink()
    (folder / "texts").mkdir()
    (folder / "texts" / "a.txt").write_text("In the beginning\n")
    (folder / "study.yaml").write_text("title: x\nmodels:\n  - {name: a, source: capture}\n")
    (folder / "config.yaml").write_text("pca:\n  n_components: 3\n")
    (folder / "unfinished" / ".partial").mkdir(parents=True)
    return folder


WHAT = {  # path: what it is, and what stands in the remedy
    "capture": ("a capture", "qkscope analyze {}/capture -o DIR"),
    "packed": ("a capture", "qkscope analyze {}/packed -o DIR"),
    "capture/l00h00q/data.parquet": ("a file of a capture", "qkscope analyze {}/capture -o DIR"),
    "packed/l00q/data.parquet": ("a file of a capture", "qkscope analyze {}/packed -o DIR"),
    "unfinished": ("an unfinished capture", "run again, completes {}/unfinished"),
    "model": ("a model", "qkscope capture --model {}/model --text TEXT -o DIR"),
    "model/config.json": ("a file of a model", "qkscope capture --model {}/model --text TEXT -o DIR"),
    "model/model.safetensors": ("a file of a model", "qkscope capture --model {}/model --text TEXT -o DIR"),
    "results": ("a folder of results", "qkscope report {}/results"),
    "results/qk.csv": ("a table of results", "qkscope report {}/results"),
    "study.yaml": ("a study file", "qkscope study {}/study.yaml -o DIR"),
    "config.yaml": ("a file of settings", "give it as --config {}/config.yaml"),
    "texts": ("text", "qkscope capture --model MODEL --text {}/texts -o DIR"),
    "texts/a.txt": ("text", "qkscope capture --model MODEL --text {}/texts/a.txt -o DIR"),
}
COMMANDS = {  # what it wants, and the kinds that are it or told of otherwise
    "analyze @": ("a capture", ["capture", "packed", "unfinished"]),
    "scatter @": ("a capture", ["capture", "packed", "unfinished"]),
    "repack @": ("a capture", ["capture", "packed", "unfinished"]),
    "report @": ("a folder of results", ["results"]),
    "study @": ("a study file", ["study.yaml", "config.yaml"]),
    f"capture --text {PASSAGES} --model @": ("a model", ["model"]),
    f"capture --model {KJV}/step-20 --text @": (
        "text", ["texts", "texts/a.txt", "study.yaml", "config.yaml", "results/qk.csv", "model/config.json",
                 "model/model.safetensors"]),
    f"analyze {EXAMPLE} --config @": ("a file of settings", ["config.yaml"]),
}
CASES = [(command, path) for command, (_, right) in COMMANDS.items() for path in WHAT if path not in right]


@pytest.mark.parametrize("command, path", CASES)
def test_what_it_is_and_which_command_takes_it(qkscope, paths, tmp_path, command, path):
    words = [str(paths / path) if word == "@" else word for word in command.split()]
    said = qkscope(*words, "-o", tmp_path / "o")
    assert said.code in (1, 2) and len(said.err.splitlines()) == 1, said.err
    wanted, (what, remedy) = COMMANDS[command][0], WHAT[path]
    whole = {"a file of a capture": "a capture", "a file of a model": "a model", "a table of results":
             "a folder of results"}.get(what)
    if whole == wanted:
        remedy = f"give the folder {paths / path.split('/')[0]}"
    else:
        remedy = remedy.format(paths)
    assert f"{paths / path}: {what}, not {wanted}; " in said.err and said.err.endswith(remedy + "\n"), said.err
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("path, what", [("results", "a folder of results, not a model"),
                                        ("study.yaml", "a study file, not a file of a model"),
                                        ("texts/a.txt", "text, not a file of a model")])
def test_a_tokenizer(qkscope, paths, path, what):
    said = qkscope("tokenize", paths / path, PASSAGES, "--count", expect=1)
    assert f"{paths / path}: {what}; " in said.err


@pytest.mark.parametrize("path", ["model", "results", "texts"])
def test_both_stages(qkscope, paths, tmp_path, path):
    said = qkscope("compare-stages", paths / path, "-o", tmp_path / "o", expect=1)
    assert f": {WHAT[path][0]}, not a capture; " in said.err


def test_what_is_not_known_keeps_its_message(qkscope, tmp_path):
    (tmp_path / "empty").mkdir()
    for words, said in {"analyze empty -o o": "no head folders", "report empty": "no tables of results here",
                        f"capture -m empty -t {PASSAGES} -o o": "there is no config.json",
                        "study empty -o o": "is a folder, not a file", "analyze nosuch -o o": "no such folder",
                        f"capture -m {KJV}/step-20 -t empty -o o": "no files in this folder"}.items():
        assert said in qkscope(*words.split(), cwd=tmp_path, expect=1).err


def test_what_lies_beside(qkscope, tmp_path):
    """Of a folder of models each is one; and of a name that is not there, those that are."""
    said = qkscope("inspect", KJV, expect=1)
    assert f"{KJV}: a folder of models, not a capture; give one of those in {KJV}" in said.err
    said = qkscope("capture", "-m", KJV / "step-300", "-t", PASSAGES, "-o", tmp_path / "o", expect=1)
    assert said.err.endswith("; beside it: step-100, step-20, step-2004, step-700\n")
    for i in range(9):
        (tmp_path / "many" / f".{i}" / f"m{i}").mkdir(parents=True)
    assert "beside" not in qkscope("analyze", "many/x", "-o", "o", "--offline", cwd=tmp_path, expect=1).err


def test_broken_files_keep_their_message(qkscope, paths, tmp_path):
    """A file of the kind that is wanted is not told what it is, but what is wrong with it."""
    (tmp_path / "s.yaml").write_text("models:\n  - {name: a, sauce: x}\n")
    assert "unknown key models.sauce" in qkscope("study", tmp_path / "s.yaml", "-o", tmp_path / "o").err
    (tmp_path / "tokenizer.json").write_text("{")
    assert "tokenizer.json: byte" in qkscope("tokenize", tmp_path / "tokenizer.json", PASSAGES, expect=1).err
    assert "n_componets" in qkscope("analyze", EXAMPLE, "-o", tmp_path / "o", "--config",
                                    write(tmp_path / "c.yaml", b"pca:\n  n_componets: 3\n")).err


# ---- texts -----------------------------------------------------------------------------------------

def write(path, contents):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(contents)
    return path


def capture(qkscope, tmp_path, text, *options):
    return qkscope("capture", "--model", KJV / "step-20", "--text", text, "-o", tmp_path / "c", "--layers", 0, *options)


NO_TEXTS = {
    "zero": (b"In the beginning\0 and so on", "is not a text (byte 16 is zero)"),
    "random": (bytes((i * 7919) % 255 + 1 for i in range(5000)), "is not a text in UTF-8 ("),
    "utf16": ("In the beginning".encode("utf-16"), "is text in UTF-16"),
    "picture": ((ROOT / "docs/gallery/scatter-pca.png").read_bytes()[:3000], "is not a text (byte "),
}


@pytest.mark.parametrize("where", ["file", "folder"])
@pytest.mark.parametrize("name", NO_TEXTS)
def test_a_binary_file_is_no_text(qkscope, tmp_path, name, where):
    contents, said = NO_TEXTS[name]
    write(tmp_path / "t" / "a.txt", b"And God said, Let there be light\n")
    bad = write(tmp_path / "t" / "b.txt", contents)
    result = capture(qkscope, tmp_path, bad if where == "file" else tmp_path / "t")
    assert result.code == 1 and f"{bad}: {said}" in result.err and len(result.err.splitlines()) == 1, result.err
    assert not (tmp_path / "c" / "capture.json").exists()


@pytest.mark.parametrize("text", ["Grüße aus München".encode() * 20, "Es ist f\u00fcr alle da, sagte er.".encode("latin-1"),
                                  "В начале сотворил Бог небо и землю".encode(), b"a", "起初神創造天地".encode() * 9])
def test_texts_of_all_kinds_are_texts(qkscope, tmp_path, text):
    result = capture(qkscope, tmp_path, write(tmp_path / "t.txt", text), "--sampler", "all")
    assert result.code == 0, result.err


@pytest.mark.parametrize("option", ["text", "id"])
def test_a_table_without_the_column(qkscope, tmp_path, option):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"body": ["a"], "title": ["b"]}), tmp_path / "t.parquet")
    columns = [] if option == "text" else ["--text-column", "body", "--id-column", "number"]
    result = capture(qkscope, tmp_path, tmp_path / "t.parquet", *columns)
    wanted = "text" if option == "text" else "number"
    assert result.code == 1 and result.err == (
        f'qkscope capture: {tmp_path}/t.parquet: there is no column "{wanted}", but "body", "title": name one with '
        f"--{option}-column\n")


def test_a_text_is_no_model_by_a_config_file_beside_it(qkscope, tmp_path):
    """Any program may have a config.json; weights tell a model."""
    write(tmp_path / "t" / "a.txt", b"And God said, Let there be light\n")
    write(tmp_path / "t" / "config.json", b"{}")
    assert capture(qkscope, tmp_path, tmp_path / "t", "--sampler", "all").code == 0


# ---- results in a capture ----------------------------------------------------------------------------

@pytest.mark.parametrize("words", ["pca @ -o @", "analyze @ -o @/ --force", "rotate @ -o @/../capture",
                                   "plasticity @/l00h00q/.. -o @", "pca link -o @"])
def test_a_capture_is_no_place_for_results(qkscope, tmp_path, words):
    """The command says what the library says to Python."""
    capture = shutil.copytree(EXAMPLE, tmp_path / "capture")
    (tmp_path / "link").symlink_to(capture)
    before = sorted(capture.rglob("*"))
    said = qkscope(*words.replace("@", "capture").split(), cwd=tmp_path, expect=1)
    assert re.fullmatch(r"qkscope \w+: \S+: is the folder of the capture; choose another folder\n", said.err), said.err
    assert sorted(capture.rglob("*")) == before


def test_stages_are_no_place_for_results(qkscope, tmp_path):
    stages = tmp_path / "both"
    qkscope("capture", "-m", KJV / "step-20", "-t", PASSAGES, "-o", stages, "--stage", "both", "--layers", 0, "--rows", 300,
            "--quiet", expect=0)
    for output in ("both/pre", "both/post", "both"):
        said = qkscope("compare-stages", "both/pre", "both/post", "-o", output, cwd=tmp_path)
        assert (said.code == 0) == (output == "both"), said.err
        assert said.code == 0 or f"{output}: is the folder of the capture" in said.err
