# SPDX-License-Identifier: Apache-2.0
"""Prints docs/reference/python-api.md, from signatures and docstrings of the package.

    PYTHONPATH=BUILD/python make_api_page.py >docs/reference/python-api.md
"""
import inspect
import textwrap

from make_stubs import annotation  # which takes this folder, where the package has no library, off the path

HEAD = """# Python API

Every name of the package `qkscope`: its signature and the first lines of its docstring; `help(NAME)` has the rest. `make reference`
writes this page. [Python](../python.md) shows how the parts go together.
"""


def about(thing):
    """The first paragraph."""
    own = thing.__doc__ if inspect.isclass(thing) else inspect.getdoc(thing)
    text = (own or "").split("\n\n")[0]
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def signature(name, function):
    told, keywords = [], False
    for p in inspect.signature(function, eval_str=True).parameters.values():
        if p.name == "self":
            continue
        if p.kind == p.KEYWORD_ONLY and not keywords:
            told.append("*")
            keywords = True
        stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        default = "" if p.default is p.empty else f"={p.default!r}"
        told.append(f"{stars}{p.name}{default}")
    return f"{name}({', '.join(told)})"


def members(kind):
    for name, member in vars(kind).items():
        if name.startswith("_"):
            continue
        function = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        if inspect.isfunction(function):
            yield signature(name, function).replace("(cls, ", "(").replace("(cls)", "()"), about(function)
        elif isinstance(member, property):
            yield name, about(member)


def entry(name, thing):
    if inspect.isclass(thing):
        rows = [f"| `{told.replace('|', chr(92) + '|')}` | {text} |" for told, text in members(thing)]
        return [f"## {name}", about(thing), "\n".join(["| | |", "| --- | --- |", *rows]) if rows else ""]
    if inspect.isfunction(thing):
        result = inspect.signature(thing, eval_str=True).return_annotation
        returns = "" if result in (None, inspect.Signature.empty) else f" -> {annotation(result)}"
        told = textwrap.wrap(f"{signature(name, thing)}{returns}", 116, subsequent_indent="    ", break_on_hyphens=False)
        return [f"## {name}", textwrap.indent("\n".join(told), "    "), about(thing)]
    return []


def main():
    import qkscope
    things = [(name, getattr(qkscope, name)) for name in sorted(qkscope.__all__, key=str.lower)]
    print(HEAD)
    print("\n\n".join(part for one in things for part in entry(*one) if part))


if __name__ == "__main__":
    main()
