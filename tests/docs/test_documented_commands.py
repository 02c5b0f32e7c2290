# SPDX-License-Identifier: Apache-2.0
"""Every command that the README, the tutorial and the gallery show is run, as it stands there: in a folder that has what
they name (MODEL, CAPTURE, books, ...), beside a server that answers as the Hub does."""
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import BUILD, EXAMPLE, ROOT, check_survived, minutes_if_sanitized, synth
from documented_commands import add_programs, commands_of

sys.path[:0] = [str(ROOT / "tests" / "hub"), str(ROOT / "tests" / "study")]
from fake_cache import CROSS_MODEL, DATASET, SMOLLM3, group_of, revision_of  # noqa: E402
from hub_server import HubServer  # noqa: E402

PROGRAM = BUILD / "qkscope"
MODELS = ROOT / "examples" / "kjv-tiny"

# What is run by another test, or is no command of ours: the file that shows it.
ELSEWHERE = {
    r"make( test|$)": "tests/run.py",
    r"make build$": "tests/run.py",
    r"make install\b.*": "tests/cli/test_installed.py",
    r"make demo-real.*": "tests/recorder/test_real_model.py",
    r"pip install .*": "tests/python/test_py_package.py",
    r"qkscope-hf .*": "tests/hf/test_hf_bridge.py",
    r"tools/make_gallery.sh": "tests/figure/test_gallery.py",
    r"PATH=.*": "README.md",
}

pytestmark = [pytest.mark.test_all,
              pytest.mark.skipif(not PROGRAM.exists() or not shutil.which("rsvg-convert"), reason="needs the program and rsvg-convert")]


def files_of(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


class World:
    """A folder in which the commands of the pages run."""

    def __init__(self, folder, hub):
        self.folder, self.hub, self.said = folder, hub, ""
        self.environment = {**hub.environment(folder / "hf", HF_TOKEN="hf_good"), "PATH": add_programs(folder / "bin"), "TMPDIR": str(folder)}
        shutil.copytree(ROOT / "examples", folder / "examples")  # study files name folders from where they lie
        for name in ("studies", "configs", "docs"):
            (folder / name).symlink_to(ROOT / name)
        (folder / "build").symlink_to(BUILD)
        shutil.copytree(ROOT / "tools", folder / "tools", ignore=shutil.ignore_patterns(".*"))

    def run(self, command):
        done = subprocess.run(shlex.split(command), cwd=self.folder, env=self.environment, capture_output=True, text=True,
                              timeout=900, stdin=subprocess.DEVNULL)
        check_survived(done.returncode, done.stderr)
        assert done.returncode == 0, f"$ {command}\n{done.stdout}\n{done.stderr}"
        self.said += done.stdout + done.stderr
        return done.stdout

    def run_as_shown(self, command):
        """What the command is to write is not there yet, but results that compare-stages adds to are; `make demo` builds nothing anew."""
        command, _, target = command.partition(" > ")
        words = shlex.split(command)
        output = self.folder / words[words.index("-o") + 1] if "-o" in words else None
        if output and not ("compare-stages" in words and (output / "heads.csv").exists()):
            shutil.rmtree(output, ignore_errors=True)
        if "study studies/" in command:
            command += " --no-figures"  # of 21 models; test_study_figures.py draws those of a few
        said = self.run("tools/demo.sh" if command == "make demo" else command)
        if target.endswith((".tex", ".txt")):
            (self.folder / target).write_text(said)


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Small captures of all published models."""
    folder = tmp_path_factory.mktemp("published")
    for seed, name in enumerate((*CROSS_MODEL, *SMOLLM3)):
        group = group_of(name)
        synth(folder / name, seed=seed, layers=2, query_heads=2 * group, q_per_kv_group=group, dim=16, examples=2, rows=60,
              buckets=6, bucket_width=16)
        (folder / name / "capture.json").unlink()  # the published ones have none
    return folder


@pytest.fixture
def world(tmp_path, published):
    if not shutil.which("hf", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}"):
        pytest.skip("needs hf (pip install huggingface_hub)")
    with HubServer() as hub:
        for model in ("HuggingFaceTB/SmolLM2-135M-Instruct", "org/name", "ORG/MODEL"):
            hub.add("models", model, files_of(MODELS / "step-2004"))
        for name in ("org/name", "ORG/NAME"):
            hub.add("datasets", name, files_of(EXAMPLE))
            hub.add("datasets", name, files_of(EXAMPLE), revision="REV")
        for name in (*CROSS_MODEL, *SMOLLM3):
            hub.add("datasets", DATASET, files_of(published / name), revision=revision_of(name))
        yield World(tmp_path, hub)


def add_inputs(world):
    """What the README and the tutorial take for granted."""
    folder, texts = world.folder, (MODELS / "passages.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "books").mkdir()
    for i, words in enumerate(texts[:4]):
        (folder / "books" / f"{i}.txt").write_bytes(words[:1500])
    (folder / "passages.jsonl").write_bytes(b"".join(texts[:4]))
    for name, target in (("MODEL", MODELS / "step-20"), ("TOKENIZER", MODELS / "step-20" / "tokenizer.json"),
                         ("TEXT", folder / "books"), ("FILE", folder / "books" / "0.txt"), ("CAPTURE", EXAMPLE)):
        (folder / name).symlink_to(target)
    world.run("hf download HuggingFaceTB/SmolLM2-135M-Instruct config.json")  # as the tutorial says
    (folder / "STUDY.yaml").write_text("models:\n  - {name: tiny, source: CAPTURE}\n")
    for stage in ("PRE", "POST"):
        world.run(f"qkscope capture --model MODEL --text passages.jsonl -o {stage} --stage {stage.lower()} --quiet")
    world.run("qkscope capture --model MODEL --text books/0.txt -o WHOLE --sampler all --quiet")
    world.run("qkscope analyze CAPTURE -o RESULTS --quiet")
    for name in "AB":
        (folder / name).symlink_to(folder / "RESULTS")


def add_gallery(world):
    """The folders of tools/make_gallery.sh, of the small model alone."""
    for stage in ("pre", "post"):
        world.run(f"qkscope capture --model examples/kjv-tiny/step-20 --text examples/kjv-tiny/passages.jsonl --stage {stage} "
                  f"--max-texts 8 -o results/real/capture/{stage} --quiet")
    world.run("qkscope capture --model examples/kjv-tiny/step-20 --text examples/kjv-tiny/passages.jsonl --stage both "
              "--max-texts 8 -o results/gallery/kjv-tiny --quiet")
    world.run("qkscope capture --model examples/kjv-tiny/step-20 --text examples/kjv-tiny/passages.jsonl --sampler all "
              "--max-texts 4 -o results/gallery/every-row --quiet")
    for name in ("models", "scores"):
        world.run(f"qkscope analyze examples/kjv-tiny-capture -o results/gallery/{name} --quiet")
    for name in ("post", "of-step-20"):
        world.run(f"qkscope analyze results/gallery/kjv-tiny/post -o results/gallery/{name} --model-name kjv-tiny --quiet")
    shutil.copy(MODELS / "passages.jsonl", world.folder / "results/gallery/other-texts.jsonl")


def add_nothing(world):
    """What a page needs beyond the examples is made by its own commands."""


def add_steps(world):
    """The study file that the page shows."""
    page = (ROOT / "docs/howto/training.md").read_text()
    (world.folder / "STUDY.yaml").write_text(re.search(r"```yaml\n(.*?)```", page, re.S)[1])


def without_times(text):
    return re.sub(r"\b(\d+(\.\d+)?|a few) (s|MB of memory)\b", r"N \3", text)


@minutes_if_sanitized
@pytest.mark.parametrize("page, prepare, least", [("README.md", add_inputs, 6), ("docs/commands.md", add_inputs, 20),
                                                  ("docs/tutorial.md", add_inputs, 6), ("docs/index.md", add_inputs, 3),
                                                  ("docs/howto/positional-heads.md", add_nothing, 5), ("docs/howto/rope.md", add_nothing, 4),
                                                  ("docs/howto/need-position.md", add_nothing, 2), ("docs/howto/windows.md", add_nothing, 11),
                                                  ("docs/howto/export.md", add_nothing, 3),
                                                  ("docs/howto/training.md", add_steps, 4), ("docs/howto/published.md", add_inputs, 3),
                                                  ("docs/howto/paper.md", add_nothing, 4),
                                                  ("docs/sql.md", add_nothing, 8), ("docs/howto/compare.md", add_inputs, 1),
                                                  pytest.param("docs/dev/pictures.md", add_gallery, 6, marks=pytest.mark.test_long)])
def test_every_command_of_a_page(world, page, prepare, least):
    prepare(world)
    ran = 0
    for command in commands_of((ROOT / page).read_text()):
        shown = next((path for pattern, path in ELSEWHERE.items() if re.fullmatch(pattern, command)), None)
        if shown:
            assert (ROOT / shown).is_file(), f"{command}: {shown}"
            continue
        world.run_as_shown(command.replace("COLUMN", "r_q").replace("FORMAT RESULTS", "kvpress-stats PRE").replace("--for FORMAT", "--for triattention").replace("attention CAPTURE", "attention WHOLE"))  # of every position
        ran += 1
    assert ran >= least
    if page.startswith("docs/howto/") or page == "docs/sql.md":  # a block without a language is what the commands print
        said = without_times(world.said)
        text = re.sub(r"^\$ (.*\\\n)*.*\n", "", (ROOT / page).read_text(), flags=re.M)  # the commands among it
        shown = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)
        lines = [line.strip() for language, block in shown if not language for line in without_times(block).splitlines()
                 if line.strip() not in ("", "...")]
        assert [line for line in lines if line not in said] == []
