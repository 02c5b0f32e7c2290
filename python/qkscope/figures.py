# SPDX-License-Identifier: Apache-2.0
"""Figures and reports of results. `qkscope report` draws them; here they show themselves."""
from __future__ import annotations

import html
import os
import re
from pathlib import Path

from ._call import NotFoundError, files_of
from ._settings import StrPath


PICTURES = ("png", "pdf")


class Figure:
    """One figure. In a notebook it shows itself (SVG). `.svg` is its text, `.png` and `.pdf` are bytes, for
    which rsvg-convert is needed; `.csv` are the numbers as drawn, `.note` is Markdown: what it shows, of which tables, rows and numbers, and what these data say in it."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.svg = (folder / f"{name}.svg").read_text(encoding="utf-8")
        self.csv = (folder / f"{name}.csv").read_text(encoding="utf-8")
        self._pictures = {kind: (folder / f"{name}.{kind}").read_bytes() for kind in PICTURES if (folder / f"{name}.{kind}").exists()}
        note = (folder / f"{name}.md").read_text(encoding="utf-8")
        self.note = re.sub(r"^In this folder, this draws it again:\n\n    .*$",
                           f'`results.figure("{name}")` draws it again.', note, flags=re.M)

    @property
    def png(self) -> bytes:
        """At twice the nominal size."""
        return self._picture("png")

    @property
    def pdf(self) -> bytes:
        """For a paper."""
        return self._picture("pdf")

    def _picture(self, kind: str) -> bytes:
        if kind not in self._pictures:
            raise NotFoundError(f"figure {self.name}: rsvg-convert was not found when it was drawn, and a {kind} needs it: install librsvg2-bin")
        return self._pictures[kind]

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<Figure {self.name}>"

    def save(self, path: StrPath) -> None:
        """Writes the picture, of the kind that the path ends with, .svg, .png or .pdf; the numbers, .csv; or
        the note, .md."""
        texts = {".svg": self.svg, ".csv": self.csv, ".md": self.note}
        target = Path(path)
        kind = target.suffix.lower()
        if kind not in texts and kind[1:] not in PICTURES:
            raise ValueError(f"{target}: a figure is saved as .svg, .png, .pdf, .csv or .md")
        write_whole(target, texts[kind].encode() if kind in texts else self._picture(kind[1:]))


class Report:
    """The page of `qkscope report`: summary, findings, figures, an explorer of all heads. `.html` is its text; it
    needs no network and no other file. In a notebook it shows itself in a frame."""

    def __init__(self, page: str) -> None:
        self.html = page

    def _repr_html_(self) -> str:
        return (f'<iframe srcdoc="{html.escape(self.html)}" style="width:100%;height:800px;border:1px solid #ccc">'
                "</iframe>")

    def __repr__(self) -> str:
        return f"<Report: {len(self.html) / 1e6:.1f} MB; .save(path) writes it>"

    def save(self, path: StrPath) -> None:
        """Writes the page; into a folder, as report.html."""
        target = Path(path)
        write_whole(target / "report.html" if target.is_dir() else target, self.html.encode())


def write_whole(path: Path, content: bytes) -> None:
    """Beside its place, then there: whole or not at all."""
    beside = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    with files_of(path, "save it elsewhere"):
        try:
            with open(beside, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
