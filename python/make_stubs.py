# SPDX-License-Identifier: Apache-2.0
"""Prints the stub of a module of the package, for type checkers and editors: the keywords of its functions come from
the library's tables of settings when it is imported, so its source does not show them.

    PYTHONPATH=BUILD/python make_stubs.py analyses >python/qkscope/analyses.pyi
"""
import importlib
import inspect
import sys
import textwrap
import types
import typing

sys.path.pop(0)  # this folder, where the package has no library

HEAD = '''\
# SPDX-License-Identifier: Apache-2.0
# Written by python/make_stubs.py (make reference).
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

'''
# Of the package, what their annotations name.
IMPORTS = {
    "analyses": "from .outcomes import Losses\nfrom .results import Results\nfrom .tables import Table\n",
}


def annotation(kind):
    """As source, the same for every Python."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, list):
        return f"[{', '.join(map(annotation, kind))}]"
    if kind is typing.Any:
        return "Any"
    if kind in (None, type(None)):
        return "None"
    if origin in (typing.Union, types.UnionType):
        return " | ".join(map(annotation, arguments))
    if origin is typing.Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]"
    if origin is not None:
        return f"{annotation(origin)}[{', '.join(map(annotation, arguments))}]"
    return f"os.{kind.__name__}" if kind.__module__ == "os" else kind.__name__


def stub(name, function):
    signature = inspect.signature(function, eval_str=True)
    lines = [f"def {name}("]
    keywords = False
    for parameter in signature.parameters.values():
        if parameter.kind == parameter.KEYWORD_ONLY and not keywords:
            lines.append("    *,")
            keywords = True
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        lines.append(f"    {parameter.name}: {annotation(parameter.annotation)}{default},")
    lines.append(f") -> {annotation(signature.return_annotation)}:")
    about = inspect.getdoc(function).rstrip()
    return "\n".join([*lines, textwrap.indent(f'"""{about}\n"""', "    ")])


def main(name):
    module = importlib.import_module(f"qkscope.{name}")
    functions = [(name, function) for name, function in vars(module).items() if inspect.isfunction(function)
                 and function.__module__ == module.__name__ and not name.startswith("_")]
    print(HEAD + IMPORTS[name], *(stub(*one) for one in functions), sep="\n\n")


if __name__ == "__main__":
    main(sys.argv[1])
