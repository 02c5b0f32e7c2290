# SPDX-License-Identifier: Apache-2.0
"""Arguments that are numbers or texts: what is wrong with them is said by name."""
from __future__ import annotations

import operator
import os
from collections.abc import Iterable
from typing import Any

from ._call import ArgumentError


def refuse(name: str, got: str, wanted: str, remedy: str) -> ArgumentError:
    error = ArgumentError(f"{name} is {got}; wanted is {wanted}: {remedy}")
    error.status = "QK_ERR_ARGUMENT"
    return error


def whole(value: Any, name: str, least: int = -2**63, most: int = 2**63 - 1) -> int:
    """A whole number: Python's, NumPy's, or a tensor of one."""
    try:
        number = operator.index(value)
    except TypeError:
        raise refuse(name, f"{value!r:.60}", "a whole number", "int(x)") from None
    if not least <= number <= most:
        limits = f"at least {least}" if number < least else f"at most {most}"
        raise refuse(name, str(number), f"a number of {limits}", "there is no such thing")
    return number


def wholes(values: Any, name: str, least: int = 0, most: int = 2**31 - 1) -> list[int]:
    if not isinstance(values, Iterable) or isinstance(values, str):
        raise refuse(name, f"{values!r:.60}", "a list of whole numbers", "[x]")
    return [whole(value, f"{name}[{i}]", least, most) for i, value in enumerate(values)]


def reals(values: Any, name: str) -> list[float]:
    try:
        return [float(value) for value in values]
    except (TypeError, ValueError):
        raise refuse(name, f"{values!r:.60}", "a list of numbers", "[float(v) for v in x]") from None


def words(value: Any, name: str) -> str:
    """A text that C takes: a zero byte would end it there."""
    if not isinstance(value, str):
        raise refuse(name, f"a {type(value).__name__}", "a text (str)", "str(x)")
    if "\0" in value:
        raise refuse(name, f"{value!r:.60}", "a text without zero bytes", "x.replace(\"\\0\", \"\")")
    return value


def path_of(path: str | bytes | os.PathLike[Any], name: str) -> bytes:
    """A path as C takes it, likewise."""
    made = os.fsencode(path)
    if b"\0" in made:
        raise refuse(name, f"{path!r:.60}", "a path without zero bytes", "no file has such a name")
    return made
