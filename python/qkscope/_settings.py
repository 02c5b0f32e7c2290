# SPDX-License-Identifier: Apache-2.0
"""Keyword arguments from the library's tables of settings: names, types, defaults, ranges, help.

A function that takes them is written with `**keywords` and decorated; its signature, its annotations and the list
of arguments in its docstring are then those of the table."""
from __future__ import annotations

import difflib
import inspect
import math
import operator
import os
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from ._call import ArgumentError, call, ffi, lib, text

Function = TypeVar("Function", bound=Callable[..., Any])
StrPath = str | os.PathLike[str]
Indices = int | str | Iterable[int]
Heads = int | str | Iterable[int | str | tuple[int, int]]

FLAG, INTEGER, REAL, PERCENT, TEXT, PATH, PATHS, LIST, CHOICE, SET, _NESTED, HEADS = range(12)
TYPES: dict[int, Any] = {FLAG: bool, INTEGER: int, REAL: float, PERCENT: float, TEXT: str, PATH: StrPath,
                         PATHS: Sequence[StrPath], LIST: Indices, HEADS: Heads}


_EXPECTED = {FLAG: "True or False", INTEGER: "a whole number", REAL: "a number", PERCENT: "a percentage",
             TEXT: "a text", PATH: "a path", PATHS: "paths", LIST: "whole numbers", CHOICE: "a word", SET: "words",
             HEADS: "heads"}


class Keyword(NamedTuple):
    """An argument given by keyword. `option` is the setting's name in the table; None: it has none there."""

    name: str
    option: str | None
    type: Any
    default: Any
    about: str
    section: str = ""


class Settings:
    """A struct of settings with its defaults; `values` points to it, and lives as long as this does."""

    def __init__(self, table: str) -> None:
        made = ffi.new("qk_settings **")
        call(lib.qk_settings_new, made, ffi.addressof(getattr(lib, table)), ffi.NULL)
        self._settings = ffi.gc(made[0], lambda settings: lib.qk_settings_free(ffi.new("qk_settings **", settings)))
        kind = table.removesuffix("_table")
        self.values = ffi.cast(f"{kind} *", lib.qk_settings_values(self._settings))

    def set(self, option: str, value: Any, keyword: str | None = None) -> None:
        """As `keyword=value`; None is "not given". Raises ArgumentError, whose text begins with the keyword."""
        if value is None:
            return
        keyword = keyword or option.replace("-", "_")
        for part in as_texts(value, row_type(self._settings, option), keyword):
            try:
                call(lib.qk_settings_set, self._settings, option.encode(), part)
            except ArgumentError as error:
                raise wrong(keyword, value, str(error)) from None

    def given(self, option: str) -> bool:
        return bool(lib.qk_settings_given(self._settings, option.encode()))


def wrong(keyword: str, value: Any, why: str) -> ArgumentError:
    """To raise; its text begins with the keyword."""
    error = ArgumentError(f"{keyword}={value!r}: {why}")
    error.status = "QK_ERR_ARGUMENT"
    return error


# ---- values as the library reads them -----------------------------------------------------

def _is_bool(value: Any) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")


def _number(value: Any, keyword: str) -> str:
    if _is_bool(value):
        raise wrong(keyword, value, "expected a number, not a truth value")
    if hasattr(value, "__index__"):
        return str(operator.index(value))
    number = float(value)
    return str(int(number)) if math.isfinite(number) and number.is_integer() else repr(number)


def _items(value: Any, kind: int, keyword: str) -> str:
    """Of a list of numbers, words or heads, with commas; a range is what it holds."""
    parts = []
    if kind == HEADS and isinstance(value, tuple) and len(value) == 2 and not any(isinstance(item, (str, tuple)) for item in value):
        raise wrong(keyword, value, f"[{value!r}] is head {value[1]} of layer {value[0]}, {list(value)!r} are these heads of every layer: "
                                    "give one or the other")
    for item in value:
        if kind == HEADS and isinstance(item, tuple) and len(item) == 2:
            item = ":".join(part if isinstance(part, str) else _number(part, keyword) for part in item)
        if not isinstance(item, str) and not hasattr(item, "__index__"):
            raise wrong(keyword, value, f"{item!r} is neither a whole number nor a text")
        parts.append(item if isinstance(item, str) else _number(item, keyword))
    if not parts:
        raise wrong(keyword, value, "is empty; leave it out, or give None, for all")
    return ",".join(parts)


def as_texts(value: Any, kind: int, keyword: str) -> list[bytes]:
    """What qk_settings_set takes, once for each time it is to be called."""
    if kind == PATHS:
        return [part for path in ([value] if isinstance(value, (str, os.PathLike)) else value)
                for part in as_texts(path, PATH, keyword)]
    if kind == FLAG and _is_bool(value):
        made: str | bytes = "true" if value else "false"
    elif isinstance(value, (str, bytes, os.PathLike)):
        made = os.fspath(value)
    elif kind in (INTEGER, REAL, PERCENT) and (hasattr(value, "__float__") or hasattr(value, "__index__")):
        made = _number(value, keyword)
    elif kind in (LIST, SET, HEADS) and isinstance(value, Iterable):
        made = _items(value, kind, keyword)
    elif kind in (LIST, HEADS) and hasattr(value, "__index__"):
        made = _number(value, keyword)
    else:
        raise wrong(keyword, value, f"expected {_EXPECTED[kind]}, not {type(value).__name__}")
    encoded = os.fsencode(made)
    if b"\0" in encoded:
        raise wrong(keyword, value, "has a zero byte in it")
    return [encoded]


# ---- what a table has ---------------------------------------------------------------------

def _rows(settings: Any) -> Iterable[Any]:
    return (lib.qk_settings_row(settings, i) for i in range(lib.qk_settings_count(settings)))


def row_type(settings: Any, option: str) -> int:
    for row in _rows(settings):
        if text(row.name) == option:
            return int(row.type)
    raise KeyError(option)


def _words(row: Any) -> list[str]:
    found: list[str] = []
    while row.words != ffi.NULL and row.words[len(found)].text != ffi.NULL:
        found.append(text(row.words[len(found)].text))
    return found


def _type(row: Any, optional: bool) -> Any:
    words = _words(row)
    if row.type == CHOICE:
        kind: Any = Literal[tuple(words)]
    elif row.type == SET:
        kind = str | Iterable[str]
    else:
        kind = TYPES[row.type]
        if row.type == INTEGER and words:
            kind = kind | Literal[tuple(words)]
    return kind | None if optional else kind


def default_of(settings: Any, row: Any) -> Any:
    """As a Python value; None where the library has a way to find it, or none."""
    room = ffi.new("char[]", 256)
    lib.qk_settings_get(settings, row.name, room, 256)
    value = text(room)
    bounded = row.min != 0 or row.max != 0
    if row.type == FLAG:
        return value == "true"
    if not value or (row.type == SET and row.unset != ffi.NULL):
        return None
    if row.type in (INTEGER, REAL, PERCENT):
        number = int(value) if row.type == INTEGER else float(value)
        return None if row.unset != ffi.NULL and bounded and not row.min <= number <= row.max else number
    return value


def _range(row: Any) -> str:
    if row.type == PERCENT:
        return f"{row.min:.15g} to below 100"
    if row.type not in (INTEGER, REAL) or (row.min == 0 and row.max == 0):
        return ""
    return f"{row.min:.15g} to {row.max:.15g}"


def _about(row: Any, default: Any) -> str:
    words = _words(row) if row.type in (CHOICE, SET) else []
    unit = text(row.unit)
    facts = [_range(row) + (f" {unit}" if unit and _range(row) and unit != "percent" else "")]
    facts += [" or ".join(repr(word) for word in words)] if words else []
    facts += ['such as 3, [0, 2] or "0,2,5-9"'] if row.type == LIST else []
    facts += ["or a list such as [(2, 1), 5]"] if row.type == HEADS else []
    if row.unset != ffi.NULL and default is None:
        facts.append("None: " + text(row.unset).replace("--", ""))
    help_ = text(row.help) or f"False: {text(row.off_help)}"
    help_ = help_.replace("DIR", "output").replace("CAPTURE", "the capture")
    facts = [fact for fact in facts if fact]
    return help_ + (f" ({'; '.join(facts)})" if facts else "")


def keywords_of(table: str, command: str) -> list[Keyword]:
    """The settings of a table that a command takes, as keywords."""
    made = ffi.new("qk_settings **")
    call(lib.qk_settings_new, made, ffi.addressof(getattr(lib, table)), command.encode())
    found = []
    for row in _rows(made[0]):
        default = default_of(made[0], row)
        option = text(row.name)
        found.append(Keyword(option.replace("-", "_"), option, _type(row, default is None), default,
                             _about(row, default), text(row.section)))
    lib.qk_settings_free(made)
    return found


# ---- functions with these keywords --------------------------------------------------------

class Keywords:
    """The keywords of a function: those of a table, without `hidden` ones, then `own` ones."""

    def __init__(self, table: str, command: str, hidden: Iterable[str] = (), own: Iterable[Keyword] = ()) -> None:
        mine = list(own)
        leave_out = {*hidden, *(keyword.name for keyword in mine)}
        self.table = table
        self.all = [k for k in keywords_of(table, command) if k.name not in leave_out] + mine

    def __call__(self, function: Function) -> Function:
        """The decorator."""
        plain = inspect.signature(function, eval_str=True)
        first = [p for p in plain.parameters.values() if p.kind != p.VAR_KEYWORD]
        rest = [inspect.Parameter(k.name, inspect.Parameter.KEYWORD_ONLY, default=k.default, annotation=k.type)
                for k in self.all]
        function.__signature__ = plain.replace(parameters=[*first, *rest])  # type: ignore[attr-defined]
        function.__doc__ = f"{inspect.getdoc(function)}\n\n{self.describe()}"
        return function

    def describe(self) -> str:
        """The arguments under the headings that the command's help has."""
        lines = []
        for section in dict.fromkeys(keyword.section for keyword in self.all):
            lines.append(f"{section}:" if section else "Other:")
            for keyword in self.all:
                if keyword.section == section:
                    given = "" if keyword.default is None else f" = {keyword.default!r}"
                    lines.append(f"    {keyword.name}{given}")
                    lines += textwrap.wrap(keyword.about, 96, initial_indent=" " * 8, subsequent_indent=" " * 8)
        return "\n".join(lines)

    def check(self, function: str, given: dict[str, Any], plain: Iterable[str] = ()) -> None:
        """TypeError for a keyword that there is none of, with the one that was most likely meant. plain: those that the
        function has by itself."""
        names = [keyword.name for keyword in self.all]
        for name in given:
            if name not in names:
                near = difflib.get_close_matches(name, [*names, *plain], 1, 0.5)
                hint = f". Did you mean {near[0]!r}?" if near else ""
                raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")

    def settings(self, function: str, given: dict[str, Any], plain: Iterable[str] = ()) -> Settings:
        """The struct with those of the keywords that are settings of the table."""
        self.check(function, given, plain)
        made = Settings(self.table)
        for keyword in self.all:
            if keyword.option and keyword.name in given:
                made.set(keyword.option, given[keyword.name], keyword.name)
        return made
