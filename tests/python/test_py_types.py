# SPDX-License-Identifier: Apache-2.0
"""Types, stubs and help of the Python package are those of what runs, and complete."""
import ast
import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
import textwrap

import pytest

from conftest import BUILD, ROOT

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")

# modules whose keywords come from tables of settings, so that they have stubs
STUBS = {"analyses": ["analyze", "pca", "rotate", "plasticity", "attention", "compare_stages", "compare", "loss", "ablate",
                      "study"]}
FUNCTIONS = sum(STUBS.values(), [])
COMMANDS = {"compare_stages": "compare-stages"}
# options that have no keyword: what Python has other means for
OFF = {"float32": "bfloat16", "no-title": "no_title", "no-legend": "no_legend"}  # options that switch off what has another name
OF_THE_SHELL = {"config", "quiet", "verbose", "json", "help", "version", "combined", "tolerance"}


# ---- types --------------------------------------------------------------------------------

SAMPLE = """
    from collections.abc import Sequence
    from pathlib import Path

    import qkscope


    def ranks(folder: Path, layers: Sequence[int]) -> list[str]:
        results: qkscope.Results = qkscope.analyze(folder, layers=layers, ci=95, b_axis="pairs", buckets="capture",
                                                   progress=lambda what, done, total: done < 3)
        same = qkscope.pca(str(folder), layers="0-2", heads=3, kinds=["q", "k"], threads=2, output="out")
        table: qkscope.Table = results.heads
        for name, column in table.schema.items():
            print(name, column.unit or "")
        figure: qkscope.Figure = results.figure("pca-02-rq-rk-scatter", theme="dark", width=85)
        figure.save(folder / "figure.svg")
        capture: qkscope.Capture = qkscope.open(folder)
        total = sum(len(block) for head in capture.heads for block in head.blocks(columns=["vectors"], limit=10))
        qkscope.write_capture("copy", ((head.name, head.blocks()) for head in capture.heads), stage="post")
        sampler = qkscope.Sampler("uniform", base_rate=2)
        with qkscope.Sink("sink", sampler=sampler, model=qkscope.Model("m", 1, 2, 1, 64), texts=total) as sink:
            with sink.text(0, tokens=5, example_id=qkscope.example_id("a")):
                sink.put(0, 0, "q", [], positions=sink.positions(0, 0, "q"))
        page: str = results.report(title="Drift").html
        diff = qkscope.side_by_side(results, same, "qk")
        saved: Path = results.save("out", force=True)
        perplexity: float = qkscope.loss("model", ["a.txt", folder], max_length=64, dtype="bf16").perplexity
        ablation: qkscope.Results = qkscope.ablate("model", "a.txt", what="remove", groups=["layer"], draws=3, dry_run=True)
        print(perplexity, ablation.forecast.seconds if ablation.forecast else None)
        files: tuple[str, ...] = qkscope.export("duo-attention", results, folder, sink=4, force=True).files
        print(files)
        return [page, figure.svg, str(saved), *diff.names, *(failure.message for failure in results.failed)]


    try:
        ranks(Path("capture"), [0, 1])
    except qkscope.PartialError as error:
        print(error.status, error.results)
"""

WRONG = [
    ('qkscope.analyze("c", layer=3)', 'Unexpected keyword argument "layer"'),
    ('qkscope.analyze("c", ci="95")', 'has incompatible type "str"; expected "float | None"'),
    ('qkscope.analyze("c", b_axis="pair")', "Literal['pairs', 'centroid']"),
    ('qkscope.pca("c", buckets=3)', 'Unexpected keyword argument "buckets"'),
    ('qkscope.rotate("c", 3)', "Too many positional arguments"),
    ('print(qkscope.analyze("c").figure(3))', 'expected "str"'),
    ('print(qkscope.open(3))', 'has incompatible type "int"'),
    ('print(qkscope.open("c").head(0, 0, 1))', 'expected "str"'),
    ('qkscope.Sink("c", stages="post")', 'Unexpected keyword argument "stages"'),
    ('print(qkscope.loss("m"))', 'Missing positional argument "text"'),
    ('print(qkscope.ablate("m", "t", dtype="float8"))', "expected \"Literal['float32', "),
    ('print(qkscope.export("q-filters", "c", "o", threads="3"))', 'has incompatible type "str"; expected "int | None"'),
    ('print(qkscope.side_by_side("a", 3))', 'has incompatible type "int"'),
]


def mypy(*arguments, cwd):
    pytest.importorskip("mypy", reason="mypy is not installed")
    return subprocess.run([sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", "--cache-dir", cwd / "cache",
                           "--no-error-summary", *arguments], capture_output=True, text=True, cwd=cwd, timeout=300,
                          env={**os.environ, "MYPYPATH": str(BUILD / "python")})


@pytest.mark.test_all
def test_types(tmp_path):
    """The package passes mypy --strict; so does a file that uses it well, and one that does not fails line by line."""
    (tmp_path / "sample.py").write_text(textwrap.dedent(SAMPLE))
    (tmp_path / "wrong.py").write_text("import qkscope\n" + "".join(f"{line}\n" for line, _ in WRONG))
    done = mypy(BUILD / "python" / "qkscope", "sample.py", "wrong.py", cwd=tmp_path)
    said = done.stdout.splitlines()
    assert [line for line in said if not line.startswith("wrong.py")] == [], done.stderr
    for i, (line, text) in enumerate(WRONG, 2):
        assert any(one.startswith(f"wrong.py:{i}: error:") and text in one for one in said), (line, said)


# ---- stubs --------------------------------------------------------------------------------

@pytest.mark.parametrize("stub", STUBS)
def test_the_stub_is_new(stub):
    made = subprocess.run([sys.executable, ROOT / "python" / "make_stubs.py", stub], capture_output=True, text=True,
                          check=True, env={**os.environ, "PYTHONPATH": str(BUILD / "python")})
    assert made.stdout == (ROOT / "python" / "qkscope" / f"{stub}.pyi").read_text(), "make reference"
    assert sorted(STUBS[stub]) == sorted(n.name for n in ast.parse(made.stdout).body if isinstance(n, ast.FunctionDef))


def test_the_page_of_the_api_is_new():
    made = subprocess.run([sys.executable, ROOT / "python" / "make_api_page.py"], capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": str(BUILD / "python")}).stdout
    assert made == (ROOT / "docs" / "reference" / "python-api.md").read_text(), "make reference"
    assert "`project(layer, head, components=(0, 1), **options)`" in made


# ---- help ---------------------------------------------------------------------------------

def options_of(qkscope, command):
    """{option: its help, in one line} as the command prints it."""
    page = qkscope(command, "--help", expect=0).out
    found = {}
    for match in re.finditer(r"^  (?:-\w,|   ) --([\w-]+)(.*(?:\n {20,}.*)*)", page, re.M):
        found[match[1]] = " ".join(match[2].split())
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_help_is_complete(qkscope, name):
    """Every option of the command is a keyword, under the words that the command has for it."""
    function = getattr(qk, name)
    page = inspect.getdoc(function)
    flat = " ".join(page.split())
    parameters = inspect.signature(function).parameters
    keywords = {n for n, p in parameters.items() if p.kind == p.KEYWORD_ONLY}
    options = options_of(qkscope, COMMANDS.get(name, name))
    assert len(options) > 8
    expected = {OFF.get(option, option.removeprefix("no-").replace("-", "_")) for option in set(options) - OF_THE_SHELL}
    assert expected - set(parameters) == set() and keywords - expected == {"progress"}
    for keyword in keywords:
        about = re.search(rf"^    {keyword}(?: = (.*))?\n((?: {{8}}.*\n?)+)", page, re.M)
        assert about, keyword
        default = parameters[keyword].default
        assert (about[1] or "None") == repr(default)
        said = options.get(keyword.replace("_", "-"))
        if said and keyword not in ("shard", "complement", "output", "frequencies"):
            words = re.sub(r"^[A-Z]+ |\(default: .*?\)", "", said).split()
            assert " ".join(words[-3:]).rstrip() in flat, keyword
    assert f"    qkscope.{name}(" in page or f" = qkscope.{name}(" in page  # an example


@pytest.mark.cases(8)
@pytest.mark.parametrize("keyword, good, bad", [
    ("components", ("1 to 4096", 4096), 4097), ("ci", ("1 to below 100", 99.9), 100), ("buckets", ("2 to 1024", 2), 1),
    ("taxonomy_low", ("0 to 1", 0), 1.5), ("ks_alpha", ("0 to 1", 1), -0.1), ("threads", ("1 to 4096", 1), 0),
    ("pairs", ("1 to 2048", 2048), 2049), ("max_pairs", ("0 to 1e+15", 0), -1),
])
def test_ranges_in_help_are_those_that_hold(keyword, good, bad, tmp_path):
    """The ends that help names are taken: the next error is that there is no capture."""
    said, value = good
    about = re.search(rf"^    {keyword}\b.*\n((?: {{8}}.*\n?)+)", inspect.getdoc(qk.analyze), re.M)[1]
    assert f"({said}" in about
    with pytest.raises(qk.NotFoundError):
        qk.analyze(tmp_path / "nowhere", **{keyword: value})
    with pytest.raises(qk.ArgumentError, match=f"{keyword}={bad}"):
        qk.analyze(tmp_path / "nowhere", **{keyword: bad})


def public(module):
    for name, thing in vars(module).items():
        if not name.startswith("_") and getattr(thing, "__module__", None) == module.__name__:
            yield f"{module.__name__}.{name}", thing
            if inspect.isclass(thing):
                yield from ((f"{module.__name__}.{name}.{n}", getattr(t, "fget", t)) for n, t in vars(thing).items()
                            if not n.startswith("_") and (inspect.isfunction(t) or isinstance(t, property)))


def test_everything_public_has_a_docstring():
    bare = [name for name in qk.__all__ if callable(getattr(qk, name)) and not inspect.getdoc(getattr(qk, name))]
    assert bare == []
    for module in ("results", "tables", "figures", "analyses", "captures", "writing", "inspection", "merging",
                   "outcomes", "sampler", "sink"):
        module = importlib.import_module(f"qkscope.{module}")
        bare += [name for name, thing in public(module) if callable(thing) and not inspect.getdoc(thing)]
    assert bare == []


def test_import_needs_nothing_else():
    """The package itself imports neither NumPy nor any other that is not its own."""
    program = "import sys, qkscope; print(*sorted({name.split('.')[0] for name in sys.modules} - set(sys.stdlib_module_names)))"
    done = subprocess.run([sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(BUILD / 'python')!r}); {program}"],
                          capture_output=True, text=True, check=True)
    assert (BUILD / "python" / "qkscope" / "py.typed").is_file()
    foreign = {name for name in done.stdout.split() if not name.startswith(("_", "sitecustomize"))}
    assert foreign <= {"qkscope", "cffi"}, foreign
    assert {m.name for m in pkgutil.iter_modules([str(BUILD / "python" / "qkscope")])} >= {"analyses", "tables", "results"}
