#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/reference/tables.md from the schema:
build/qkscope explain --json | tools/tables_page.py > docs/reference/tables.md"""
import json
import sys

HEAD = """# Tables and their columns

Made from `src/schema/tables.def` by `tools/tables_page.py`: change it there. `qkscope explain COLUMN` says the
same of one column, and `schema.json` beside the tables says it of the tables that are there. A number that is not
defined is an empty field. How each number is computed stands in the page that its table names.
"""


def cell(text):
    return (text or "").replace("|", "\\|").replace("_", "\\_").replace("*", "\\*")


def row(column):
    about = cell(column["about"])
    if "option" in column:
        about += f"; with `{column['option']}`"
    if "read" in column:
        about += f". *{cell(column['read'])}*"
    if "method" in column:
        about += f" ([method](../{column['method']}))"
    symbol = f" ({cell(column['symbol'])})" if "symbol" in column else ""
    unit, bounds = cell(column.get("unit")), cell(column.get("range"))
    return f"| `{column['name']}`{symbol} | {about} | {column['type']} | {unit} | {bounds} |\n"


def page(tables):
    text = HEAD
    for name, table in tables.items():
        text += f"\n## {name}\n\n{table['about']}. One row for each {table['rows']}."
        text += f" [Method](../{table['method']})\n"
        if table["columns"]:
            text += "\n| column | what it is, *how to read it* | type | unit | range |\n|---|---|---|---|---|\n"
            text += "".join(map(row, table["columns"]))
    return text


if __name__ == "__main__":
    sys.stdout.write(page(json.load(sys.stdin)))
