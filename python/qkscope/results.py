# SPDX-License-Identifier: Apache-2.0
"""Results of a run: its tables in memory, its folder, figures and report."""
from __future__ import annotations

import csv
import functools
import html
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from . import tables
from ._arrays import need_numpy
from ._call import NotFoundError, PartialError, call, damaged, ffi, files_of, lib, text
from ._checks import path_of, whole, words
from ._folders import TemporaryFolder, prefix
from ._run import Progress, run, warn
from ._settings import HEADS, Heads, Settings, StrPath, as_texts
from .figures import Figure, Report
from .tables import Table

_NAMED = 5  # failures in a message


class Failure(NamedTuple):
    """What failed, a head such as "l00h01q" or a model of a study, and why."""

    name: str
    message: str


class Projection(NamedTuple):
    """Rows of a head on components."""

    queries: Any  # [row, component]
    query_positions: Any
    keys: Any
    key_positions: Any


class Forecast(NamedTuple):
    """What a dry run of `qkscope.ablate` says."""

    texts: int  # windows of long ones are texts of their own
    branches: int  # changes of each text
    flops: float
    seconds: float | None  # None: not known


class Results:
    """What an analysis computed.

    `results.tables` names the tables. `results["heads.csv"]`, `results["heads"]` and `results.heads` are one of them
    (see Table). `results.failed` lists the heads that failed. `results.save(folder)` writes what the command would
    have written; `results.figure(name)` draws one of `results.figures`, `results.report()` the whole page.

    `model`, `capture` (the folder that was read), `num_heads`, `num_rows`, `seconds` and `threads` say what was done.
    `folder` is where the files are: the `output` of the run, else a private folder, which goes with this object. Use
    it in a `with`, or call `close()`, to have it go at once.

    `forecast` is what a dry run of `qkscope.ablate` says, else None.

    `complete` is False for those of a shard, while others compute theirs: there are no tables then, and `save`, `check`
    and all that needs tables raise, with what to do.
    """

    def __init__(self, folder: StrPath, files: Sequence[str], load: Callable[[str], Table], facts: Mapping[str, Any],
                 failed: Sequence[Failure] = (), owned: TemporaryFolder | None = None) -> None:
        self.folder = Path(folder)
        self.files = list(files)
        self.tables = [name for name in self.files if name.endswith(".csv")]
        self.failed = list(failed)
        self.model: str = facts.get("model", "")
        self.capture: str = facts.get("capture", "")
        self.num_heads: int = facts.get("num_heads", 0)
        self.num_rows: int = facts.get("num_rows", 0)
        self.seconds: float = facts.get("seconds", 0.0)
        self.threads: int = facts.get("threads", 0)
        self.complete: bool = facts.get("complete", True)
        self.forecast: Forecast | None = facts.get("forecast")
        self._parts: tuple[int, int] | None = facts.get("parts")  # that are there, of how many; None: not shared
        self._ci: dict[str, float] = facts.get("ci", {})
        self._load = load
        self._owned = owned
        self._cache: dict[str, Table] = {}

    @classmethod
    def read(cls, folder: StrPath) -> Results:
        """The results that a run left in a folder, of this package or of the command; of a study, too.

        Raises NotFoundError where there are none, and DataError for a folder that is not complete, or whose files are
        not as manifest.json says: edited, cut short, removed."""
        return _read(Path(folder))

    @classmethod
    def join(cls, folders: Iterable[StrPath], output: StrPath, force: bool = False) -> Results:
        """Joins the tables of runs of one capture with the same settings, each of other layers or heads, in a folder, as
        `qkscope merge` does: they are those of one run. The inputs stay. A folder that is not empty is refused; with
        `force` results there are replaced.

            parts = [qkscope.pca("capture", layers=layer, output=f"parts/{layer}").folder for layer in range(4)]
            qkscope.Results.join(parts, "results")

        Raises DataError where two folders have the same head, or runs differ in more than their heads."""
        paths = [ffi.new("char[]", path_of(folder, "folders")) for folder in folders]
        listed = ffi.new("char *[]", paths)
        line = f"qkscope.Results.join({len(paths)} folders, {os.fspath(output)!r})"
        call(lib.qk_results_join, listed, len(paths), path_of(output, "output"), force,
             line.encode("utf-8", "replace"))
        return _read(Path(output))

    # ---- tables -------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Table:
        file = name if name in self.tables else f"{name}.csv"
        if file not in self.tables:
            raise KeyError(f"there is no table {name!r}; {self._say_tables()}")
        if file not in self._cache:
            self._cache[file] = self._load(file)
        return self._cache[file]

    def __getattr__(self, name: str) -> Table:
        if not name.startswith("_") and f"{name}.csv" in self.__dict__.get("tables", ()):
            return self[name]
        if name.startswith("_") or "tables" not in self.__dict__:  # as copy and pickle ask
            raise AttributeError(name)
        raise AttributeError(f"results have no {name!r}; {self._say_tables()}")

    def _say_tables(self) -> str:
        if self.complete or self.tables:
            return f"there are {', '.join(self.tables) or 'no tables'}"
        return self._say_missing()

    def _say_missing(self) -> str:
        """Why there are no tables in results that are not complete, and what to do."""
        if self._parts is None:
            return "a dry run makes no tables; leave dry_run out"
        return (f"{self._parts[0]} of {self._parts[1]} parts of this ablation are there: once the other shards have "
                f"ended, qkscope.Results.read({str(self.folder)!r}) has the tables")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name.removesuffix(".csv") for name in self.tables)]

    def __contains__(self, name: object) -> bool:
        return name in self.tables or f"{name}.csv" in self.tables

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def heads_summary(self, where: str | None = None, *, heads: Heads | None = None, sort: str | None = None,
                      top: int | None = None, columns: str | Iterable[str] | None = None,
                      beside: Results | StrPath | None = None) -> Table:
        """A row a head, of the heads of which a condition holds, with numbers from all tables: what `qkscope heads`
        lists, in full.

            results.heads_summary("category == 'position-dominated' and probability >= 0.95", sort="-bias_strength",
                                  columns=["layer", "q_head", "r_q", "bias_strength"]).to_pandas()

        where     condition on columns (docs/sql.md#lists-of-heads); None: all heads
        heads     of these, "4:1" or [(2, 1), 5]; None: of all
        sort      column, or "abs(column)"; with "-" before it the largest come first. None: by model, layer and head
        top       the first so many; None: all
        columns   their names, as a list or with commas; None: those that a list mostly has
        beside    other results, of one model as these: columns then begin with "a.", which are these, "b." or
                  "diff.", b less a

        Raises ArgumentError where a condition or a column is wrong, and NotFoundError where no head has a column that a condition or
        an order reads."""
        folders = [self._whole()]
        if beside is not None:
            folders.append(beside._whole() if isinstance(beside, Results) else Path(beside))
        given = columns if columns is None or isinstance(columns, str) else ",".join(columns)
        kept = [ffi.new("char[]", path_of(folder, "results")) for folder in folders]
        kept += [ffi.new("char[]", words(value, name).encode()) if value is not None else ffi.NULL
                 for name, value in (("columns", given), ("where", where), ("sort", sort))]
        query, made = ffi.new("qk_head_query *"), ffi.new("qk_columns **")
        query.results, query.other = kept[0], kept[1] if beside is not None else ffi.NULL
        query.columns, query.where, query.sort = kept[-3:]
        query.top = 0 if top is None else whole(top, "top", 1)
        if heads is not None:
            call(lib.qk_head_set_parse, as_texts(heads, HEADS, "heads")[0], ffi.addressof(query.heads))
        try:
            call(lib.qk_head_list, query, made, ffi.NULL)
        finally:
            lib.qk_head_set_free(ffi.addressof(query.heads))
        return tables.of_columns(made[0], "heads_summary")

    def sql(self, statement: str, *others: Results | StrPath) -> Table:
        """The rows of one SELECT, in SQLite's language, of these tables: what `qkscope sql` prints, in full (docs/sql.md).

            results.sql("select category, avg(r_k) as r_k from head_numbers group by category").to_pandas()

        With other results, rows of all are in the same tables, and those of each in a.heads (these), b.heads, ...

        Raises ArgumentError where the statement is wrong, with the place."""
        folders = [self._whole(), *(one._whole() if isinstance(one, Results) else Path(one) for one in others)]
        kept = [ffi.new("char[]", path_of(folder, "results")) for folder in folders]
        listed, said = ffi.new("char *[]", kept), ffi.new("char[]", words(statement, "statement").encode())
        query, made = ffi.new("qk_sql_query *"), ffi.new("qk_columns **")
        query.folders, query.count, query.sql = listed, len(kept), said
        call(lib.qk_sql, query, made)
        return tables.of_columns(made[0], "sql")

    def confidence(self, table: str) -> float | None:
        """The level of the intervals in a table, in percent (the `ci` that it was computed with); None without any."""
        there = any(name.endswith("_lo") for name in self[table].names)
        return self._ci.get(self[table].name) if there else None

    @property
    def manifest(self) -> dict[str, Any]:
        """manifest.json: command line, settings, input files with fingerprints, timings (docs/formats.md#results-folder)."""
        place = self._whole() / "manifest.json"
        with files_of(place, "run the analysis again"):
            content = place.read_bytes()
        try:
            return dict(json.loads(content))
        except (TypeError, ValueError) as error:
            raise damaged(place, error) from None

    def check(self) -> Results:
        """Raises PartialError, whose `results` are these, if something failed, or other shards have not ended; else
        returns these."""
        if self.failed:
            raise self._partial(say(self.failed, self.num_heads))
        if self._parts is not None and not self.complete:
            raise self._partial(self._say_missing())
        return self

    def _partial(self, message: str) -> PartialError:
        error = PartialError(message)
        error.status, error.results = "QK_ERR_PARTIAL", self
        return error

    # ---- files --------------------------------------------------------------------------

    def save(self, folder: StrPath, force: bool = False) -> Path:
        """Writes the files of this run into a folder, the bytes that the command would have written: all of them or,
        after a failure, nothing. A folder that is not empty is refused; with `force` results there are replaced, and
        what is none of them stays. Returns the folder."""
        target, held = Path(folder), self._whole()
        call(lib.qk_results_save, path_of(held, "results"), path_of(target, "folder"), force)
        if (target / "report.html").is_file():
            warn(f"{target / 'report.html'} shows the tables from before")
        return target

    def _there(self) -> Path:
        if not self.folder.is_dir():
            gone = " any more; save before close(), or before the `with` ends" if self._owned else ""
            raise NotFoundError(f"{self.folder}: the files of these results are not there{gone}")
        return self.folder

    def _whole(self) -> Path:
        """Where the files are, if all are."""
        if not self.complete and not self.files:
            raise self._partial(self._say_missing())
        return self._there()

    def close(self) -> None:
        """Removes the private folder, if this has one. Tables that were taken stay."""
        if self._owned is not None:
            self._owned.remove()

    def __enter__(self) -> Results:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- pictures -----------------------------------------------------------------------

    @property
    def figures(self) -> list[str]:
        """The names of the figures that these tables allow, in the order of the report."""
        with tempfile.TemporaryDirectory(prefix=prefix()) as drawn:
            outcome = self._draw(Path(drawn), Settings("qk_report_settings_table"), {"list": True}, False)
            return [text(outcome.names[i]) for i in range(outcome.num_names)]

    def figure(self, name: str, *, theme: str = "paper", width: int | None = None,
               progress: Progress = False) -> Figure:
        """Draws one of `figures`; the model at the end of a name may be left out where there is one model. theme is
        "paper", "screen" or "dark"; width, in millimetres, is that of a page to lay it out for. PNG and PDF need rsvg-convert.

            results.figure("pca-02-rq-rk-scatter").save("drift.pdf")

        Raises ValueError for a name that there is not, with those that there are."""
        with tempfile.TemporaryDirectory(prefix=prefix()) as drawn:
            settings = Settings("qk_report_settings_table")
            try:
                outcome = self._draw(Path(drawn), settings, {"figure": [name], "theme": theme, "width": width,
                                                             "format": "png,pdf" if shutil.which("rsvg-convert") else "svg"}, progress)
            except NotFoundError:
                raise ValueError(f"figure {name}: of these results there are {', '.join(self.figures)}") from None
            names = [text(outcome.names[i]) for i in range(outcome.num_names)]
            if name not in names and len(names) > 1:
                raise ValueError(f"figure {name}: there is one for each model: {', '.join(names)}")
            return Figure(name if name in names else names[0], Path(drawn) / "figures")

    def report(self, path: StrPath | None = None, *, title: str | None = None, scores: StrPath | None = None,
               score_metric: str | None = None, score_column: str | None = None, theme: str = "paper",
               progress: Progress = None) -> Report:
        """The page with summary, findings, all figures and an explorer of the heads; with `path`, it is written there,
        too. It is that of `qkscope report --alone`, and the other arguments are those of the command."""
        with tempfile.TemporaryDirectory(prefix=prefix()) as drawn:
            self._draw(Path(drawn), Settings("qk_report_settings_table"),
                       {"title": title, "scores": scores, "score-metric": score_metric, "score-column": score_column,
                        "theme": theme, "alone": True}, progress)
            report = Report((Path(drawn) / "report.html").read_text(encoding="utf-8"))
        if path is not None:
            report.save(path)
        return report

    def scatter(self, heads: Heads | None = None, *, progress: Progress = False, **options: Any) -> list[Figure]:
        """Rows of heads of the capture on two axes, a figure a head: what `qkscope scatter` draws. Options are those of the
        command, as basis="ab", pc_x=2, max_points=0, theme="dark".

            results.scatter("2:1", basis="ab")[0].save("head.svg")"""
        with tempfile.TemporaryDirectory(prefix=prefix()) as drawn:
            settings = Settings("qk_scatter_settings_table")
            for option, value in {"capture": self.capture, "output": drawn, "heads": heads, **options}.items():
                try:
                    settings.set(option.replace("_", "-"), value, option)
                except KeyError:
                    raise TypeError(f"scatter has no option {option!r}; qkscope scatter --help lists them") from None
            out = ffi.new("qk_scatter_outcome **")
            outcome, _ = run(lib.qk_scatter_run, settings.values, out, context=settings.values.input.context, out=out,
                             free=lib.qk_scatter_outcome_free, keep=(settings,), progress=progress)
            return [Figure(text(outcome.figures[i]), Path(drawn)) for i in range(outcome.num_figures)]

    def project(self, layer: int, head: int, components: Sequence[int] = (0, 1), **options: Any) -> Projection:
        """All rows of a query head and of its key head on components of their PCA (basis="ab": on axes a and b), by
        position. It needs NumPy. Options are those of `scatter`.

            rows = results.project(2, 1)
            numpy.corrcoef(rows.key_positions, rows.keys[:, 0])"""
        numpy = need_numpy()
        parts = []
        for i in range(0, len(components), 2):  # the picture has two axes
            x, y = components[i], [*components[i + 1:i + 2], int(components[i] == 0)][0]
            axes: dict[str, Any] = {"pc_x": x, "pc_y": y} if options.get("basis", "pca") == "pca" else {}
            [figure] = self.scatter([(layer, head)], max_points=0, **axes, **options)
            rows = [row for row in csv.DictReader(io.StringIO(figure.csv)) if row["series"] in ("query", "key")]
            order = sorted(rows, key=lambda row: int(row["value"]))
            parts.append([[row for row in order if row["series"] == kind] for kind in ("query", "key")])
        found = []
        for kind in range(2):
            columns = [[float(row[axis]) for row in part[kind]] for part in parts for axis in "xy"]
            found += [numpy.array(columns[:len(components)]).T, numpy.array([int(row["value"]) for row in parts[0][kind]])]
        return Projection(*found)

    def _draw(self, folder: Path, settings: Settings, given: dict[str, Any], progress: Progress) -> Any:
        values = settings.values
        for option, value in {"output": folder, **given}.items():
            settings.set(option, value)
        where = ffi.new("char[]", path_of(self._whole(), "results"))
        values.results = where
        out = ffi.new("qk_report_outcome **")
        outcome, partial = run(lib.qk_report_write, values, out, context=values.context, out=out,
                               free=lib.qk_report_outcome_free, keep=(settings, where), progress=progress)
        if partial is not None:
            if "figure" in given:
                raise partial
            warn(str(partial))
        return outcome

    # ---- how it shows itself ------------------------------------------------------------

    def __repr__(self) -> str:
        failed = f", {len(self.failed)} failed" if self.failed else ""
        failed += "" if self.complete else ", not complete"
        of = self.model or self.capture or ("a run" if self._owned else self.folder)
        return (f"<Results of {of}: {self.num_heads} heads{failed}; "
                f"{', '.join(name.removesuffix('.csv') for name in self.tables)}>")

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td><code>{name.removesuffix('.csv')}</code></td><td>{len(self[name])}</td>"
                       f"<td>{html.escape(about(name))}</td></tr>" for name in self.tables)
        failed = "".join(f"<li>{html.escape(f'{f.name}: {f.message}')}</li>" for f in self.failed[:_NAMED])
        return (f"<p><b>{html.escape(self.model or self.capture)}</b>: {self.num_heads} heads, {self.num_rows} rows, "
                f"{self.seconds:.2f} s</p><table><thead><tr><th>table</th><th>rows</th><th></th></tr></thead>"
                f"<tbody>{rows}</tbody></table>" + (f"<p>{len(self.failed)} failed</p><ul>{failed}</ul>"
                                                    if failed else ""))

    def _facts(self) -> dict[str, Any]:
        return {"ci": self._ci, **{name: getattr(self, name) for name in
                                   ("model", "capture", "num_heads", "num_rows", "seconds", "threads", "complete",
                                    "forecast")},
                "parts": self._parts}

    def __reduce__(self) -> Any:
        """To another process with its files, into a private folder there."""
        folder = self._there()
        return _unpacked, ({name: (folder / name).read_bytes() for name in self.files}, self._facts(),
                           self.failed)


def about(table: str) -> str:
    """What a table is, in a sentence."""
    info = lib.qk_schema_find(table.encode())
    return "" if info == ffi.NULL else text(info.about)


# ---- made by runs, folders, other processes -----------------------------------------------

def of_run(handle: Any, results: Any, folder: StrPath, owned: TemporaryFolder | None,
           ci: float | None = None) -> Results:
    """Of a run in memory, which lives as long as `handle`."""
    heads = [results.heads[i] for i in range(results.num_heads)]
    failed = [Failure(_head_name(head.id), text(head.message) or "failed") for head in heads
              if head.status != lib.QK_OK]
    files = [text(results.outputs[i]) for i in range(results.num_outputs)]
    facts = {"model": text(results.model) or "", "capture": text(results.capture), "num_heads": results.num_heads,
             "num_rows": results.num_rows, "seconds": results.seconds, "threads": results.threads,
             "ci": dict.fromkeys(files, ci) if ci else {}}

    def load(name: str) -> Table:
        return tables.of_run(results, name, handle)

    return Results(folder, files, load, facts, failed, owned)


def _head_name(head: Any) -> str:
    name = ffi.new("char[]", 64)
    lib.qk_head_name(head, name)
    return str(text(name))


def say(failed: Sequence[Failure], count: int) -> str:
    """How many failed, and the first of them with their reasons."""
    named = "; ".join(f"{failure.name}: {failure.message}" for failure in failed[:_NAMED])
    more = f"; and {len(failed) - _NAMED} more" if len(failed) > _NAMED else ""
    return f"{len(failed)} of {count} failed: {named}{more}"


def _unpacked(files: dict[str, bytes], facts: dict[str, Any], failed: list[Failure]) -> Results:
    owned = TemporaryFolder()
    for name, content in files.items():
        (owned.path / name).write_bytes(content)
    return Results(owned.path, list(files), functools.partial(_read_table, owned.path), facts, failed, owned)


def _read_table(folder: Path, name: str) -> Table:
    return tables.read_csv(folder / name)


def _read(folder: Path) -> Results:
    place = folder / "manifest.json"
    shared = (folder / ".units").is_dir()
    with files_of(place, "run the shards that are missing" if shared else "give a folder with results"):
        content = place.read_bytes()
    call(lib.qk_results_check, path_of(folder, "folder"))
    files = [name for name in _known_files() if (folder / name).is_file()]
    try:
        manifest = json.loads(content)
        facts, failed = (_told_of_ablation(manifest, files), []) if manifest.get("kind") == "ablation" else _told(manifest)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise damaged(place, error) from None
    if "ablation_heads.csv" in files and "num_heads" not in facts:
        facts["num_heads"] = len(_read_table(folder, "ablation_heads.csv"))
    return Results(folder, files, functools.partial(_read_table, folder), facts, failed)


def _told(manifest: dict[str, Any]) -> tuple[dict[str, Any], list[Failure]]:
    """Facts and failures of a manifest."""
    runs = manifest.get("runs", [])
    last = runs[-1] if runs else {}
    failed = [Failure(str(failure.get("head", failure.get("model", ""))), str(failure.get("message", "")))
              for one in runs for failure in one.get("failures", [])]
    facts = {"model": last.get("model", ""), "capture": last.get("capture", ""),
             "num_heads": max((one.get("heads", 0) for one in runs), default=0),
             "num_rows": last.get("rows", 0), "threads": last.get("threads", 0),
             "complete": manifest.get("complete", True),
             "ci": {file: one["settings"]["ci"] for one in runs for file in one.get("tables", [])
                    if one.get("settings", {}).get("ci")}}
    return facts, failed


def _told_of_ablation(manifest: dict[str, Any], files: Sequence[str]) -> dict[str, Any]:
    """Facts of the manifest of an ablation, which is of one run; its tables say of how many heads."""
    return {"model": manifest.get("model", ""), "ci": dict.fromkeys(files, float(manifest["level"]))}


# ---- folders ------------------------------------------------------------------------------

def _known_files() -> list[str]:
    return [*tables.known(), "schema.json", "manifest.json"]
