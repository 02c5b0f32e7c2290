#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""explain_words.py GLOSSARY TYPICAL OUT: words of the glossary, and typical values of numbers, as C for `qkscope explain`."""
import re
import sys


def rows_of(page):
    """The cells of the first table, without its header; and the header."""
    lines = [line for line in re.search(r"(?:^\|.*\n)+", page, re.M)[0].splitlines()]
    cells = [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return cells[0], cells[2:]


def plain(text):
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("`", "").replace("**", "")


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def main(glossary, typical, out):
    words, values = [], []
    for word, meaning in rows_of(open(glossary, encoding="utf-8").read())[1]:
        link = re.search(r" \(\[[^]]*\]\(([^)]*)\)\)", meaning)
        about = plain(meaning.replace(link[0], "") if link else meaning)
        more = quoted("docs/" + link[1]) if link else "NULL"
        words += [f"    {{{quoted(one)}, {quoted(plain(word))}, {quoted(about)}, {more}}}," for one in plain(word).split(", ")]
    header, rows = rows_of(open(typical, encoding="utf-8").read())
    for label, *cells in rows:
        names = re.findall(r"`([^`]+)`", label) + [re.sub(r" \(.*|^mean | heads$", "", plain(label))]
        told = [f"{plain(model)}: {plain(cell)}" for model, cell in zip(header[1:], cells) if cell]
        for name in dict.fromkeys(names):
            values.append(f"    {{{quoted(name)}, {quoted(plain(label))}, NULL, {quoted(chr(10).join(told))}}},".replace("\n", "\\n"))
    with open(out, "w", encoding="utf-8") as file:
        file.write('/* Made by tools/explain_words.py. */\n#include "word_meanings.h"\n\n#include <stddef.h>\n\nconst cli_word cli_words_of_glossary[] = {\n'
                   + "\n".join(words) + "\n    {NULL, NULL, NULL, NULL}};\n\nconst cli_word cli_typical_values[] = {\n" + "\n".join(values)
                   + "\n    {NULL, NULL, NULL, NULL}};\n")


main(*sys.argv[1:])
