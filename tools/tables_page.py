#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/reference/tables.md from the schema:
build/qkscope explain --json | tools/tables_page.py > docs/reference/tables.md"""
import json
import re
import sys
from collections import Counter

HEAD = """# Tables and their columns

Made from `src/schema/tables.def` by `tools/tables_page.py`. `qkscope explain COLUMN` prints an entry, with what it means for reading and
typical values. The field of an undefined number is empty. A table names the page with its formulas.
"""
COLUMNS = "\n| column | what it is, *how to read it* | type, unit, range |\n|---|---|---|\n"
ENDS = ("_cv", "_lo", "_hi")


def cell(text):
    return (text or "").replace("|", "\\|").replace("_", "\\_").replace("*", "\\*")


def row(column, method=None):
    about = cell(column["about"])
    if "option" in column:
        about += f"; with `{column['option']}`"
    if "read" in column:
        about += f". *{cell(column['read'])}*"
    if column.get("method", method) != method:
        about += f" ([method](../{column['method']}))"
    symbol = f" ({cell(column['symbol'])})" if "symbol" in column else ""
    value = ", ".join(cell(column[part]) for part in ("type", "unit", "range") if column.get(part))
    return f"| `{column['name']}`{symbol} | {about} | {value} |\n"


def alike(columns):
    """Columns that say the same but for their own names are one row, of NAME."""
    rows = {}
    for column in columns:
        name = next((part for part in (column["name"], column["name"].rpartition("_")[0]) if part and re.search(rf"\b{part}(\b|_cv)", column["about"])), None)
        same = {**column, "about": column["about"].replace(name, "NAME") if name else column["about"], "name": column["name"] if not name else ""}
        rows.setdefault(key(same), (same, []))[1].append(column)
    return [{**same, "name": "`, `".join(column["name"] for column in found)} if len(found) > 1 else found[0] for same, found in rows.values()]


def key(column):
    return json.dumps(column, sort_keys=True)


def interval_of(column, names):
    """The number that the column is an end of the interval of, or the cross-fitted estimate; None: it is no such column."""
    number = column["name"][:-3]
    return number if column["name"].endswith(ENDS) and column.get("option") == "--ci" and number in names else None


def intervals(columns):
    """What --ci adds to which numbers, in a sentence for each set of ends."""
    names, of = [column["name"] for column in columns], {}
    for column in columns:
        number = interval_of(column, names)
        if number:
            of.setdefault(number, []).append(column["name"][-3:])
    sets = {}
    for number, ends in of.items():
        sets.setdefault(tuple(ends), []).append(f"`{number}`")
    return "".join(f"\nWith `--ci`, `NAME{'`, `NAME'.join(ends)}` of {', '.join(numbers)} ([intervals](../how-sure.md)).\n"
                   for ends, numbers in sets.items())


def page(tables):
    count = Counter(key(column) for table in tables.values() for column in table["columns"])
    shared = [json.loads(text) for text in count if count[text] > 2]
    text = HEAD + "\n## Columns of several tables\n" + COLUMNS + "".join(map(row, shared))
    for name, table in tables.items():
        text += f"\n## {name}\n\n{table['about'][0].upper()}{table['about'][1:]}. One row for each {table['rows']}."
        text += f" [Method](../{table['method']})\n"
        names = [column["name"] for column in table["columns"]]
        own = [column for column in table["columns"] if column not in shared and not interval_of(column, names)]
        common = [f"`{column['name']}`" for column in table["columns"] if column in shared and not interval_of(column, names)]
        if common:
            text += f"\nIt has {', '.join(common)} of [several tables](#columns-of-several-tables){', and' if own else '.'}\n"
        if own:
            text += COLUMNS + "".join(row(column, table["method"]) for column in alike(own))
        text += intervals(table["columns"])
    return text


if __name__ == "__main__":
    sys.stdout.write(page(json.load(sys.stdin)))
