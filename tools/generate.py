# SPDX-License-Identifier: Apache-2.0
"""Man pages, completion for shells and docs/reference/options.md, from what `qkscope describe` says
of commands and options.

    generate.py DESCRIPTION FILE    prints FILE: qkscope.1, qkscope-pca.1, qkscope.bash, _qkscope,
                                    qkscope.fish or options.md; DESCRIPTION: what it says, in a file
"""
import collections
import json
import re
import sys
import textwrap
from pathlib import Path

SUMMARY = "position and content in the query-key space of attention heads"
ABOUT = """Takes the query and key vectors of every attention head of a language model (a capture) and
tells how much of each head's query-key space is position and how much is content: tables,
figures, one page."""
EXIT = ("0: done. 1: failure. 2: usage. 3: some heads failed, the others have their numbers. "
        "After Ctrl-C or another signal that stops it, a run cleans up and dies by that signal: shells say 130 "
        "(128 and its number).")


def sections(options):
    """(section, its options), in the order in which sections come first."""
    names = list(dict.fromkeys(o["section"] for o in options))
    return [(name, [o for o in options if o["section"] == name]) for name in names]


# ---- man pages -----------------------------------------------------------------------------------

def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in (".", "'") else text


def paragraphs(text):
    """Short lines, none of which reads as a request."""
    parts = (textwrap.wrap(" ".join(part.split()), 70, break_on_hyphens=False)
             for part in text.split("\n\n"))
    return "\n.PP\n".join("\n".join(map(roff, part)) for part in parts)


def heading(about, name, summary):
    return [f'.TH {roff(name.upper())} 1 "{about["released"]}" "qkscope {about["version"]}"',
            ".SH NAME", paragraphs(f"{name} - {summary}")]


def man_option(option):
    letter = f"\\-{option['letter']}\\fR, \\fB" if option["letter"] else ""
    value = f" \\fI{roff(option['value'])}\\fR" if option["value"] else ""
    text = option["help"][0].upper() + option["help"][1:] + "."
    if option["not_given"]:
        text += f" Not given: {option['not_given']}."
    if option["yaml"]:
        text += f" In files: {option['yaml']}."
    return [".TP", f"\\fB{letter}\\-\\-{roff(option['name'])}\\fR{value}", paragraphs(text)]


def man_page(about, command):
    name = "qkscope-" + command["name"]
    lines = heading(about, name, command["summary"])
    lines += [".SH SYNOPSIS", f".B qkscope {roff(command['name'])}", roff(command["usage"]),
              ".SH DESCRIPTION", paragraphs(command["description"]), ".SH OPTIONS"]
    for section, options in sections(command["options"]):
        lines.append(f".SS {section}")
        for option in options:
            lines += man_option(option)
    lines += [".SH EXIT STATUS", paragraphs(EXIT), ".SH EXAMPLES", ".EX",
              *map(roff, command["examples"].splitlines()), ".EE", ".SH SEE ALSO",
              ".BR qkscope (1)"]
    return lines


def man_overview(about):
    lines = heading(about, "qkscope", SUMMARY)
    lines += [".SH SYNOPSIS", ".B qkscope", "COMMAND [options]", ".SH DESCRIPTION",
              paragraphs(ABOUT), ".SH COMMANDS"]
    for command in about["commands"]:
        lines += [".TP", f".BR qkscope\\-{roff(command['name'])} (1)",
                  paragraphs(command["summary"])]
    return lines


# ---- completion ----------------------------------------------------------------------------------

FIGURES = Path(__file__).parent.parent / "src" / "figure" / "figures.def"


def kind(option):
    """What may follow it, for bash: words, or what the function below knows."""
    if option["words"]:
        return " ".join(option["words"])
    if option["name"] == "figure":
        return " ".join(re.findall(r'^FIGURE\("([^"]+)"', FIGURES.read_text(encoding="utf-8"), re.MULTILINE))
    if option["name"] == "what":  # its help lists them: "mean, freeze[:BAND], shuffle:TOKENS"
        return " ".join(re.sub(r"\[.*?\]|(?<=:).*", "", word) for word in option["help"].split(", "))
    if option["name"] in ("where", "sort", "columns"):
        return "@columns"
    return "@folder" if option["value"] == "DIR" else "@file" if option["path"] else "@none"


def distinct(command):
    """What its first argument may be: a column is in several tables."""
    return list(dict.fromkeys(command["arguments"]))


def columns(about):
    """Of all tables, whose names explain takes as well."""
    return [word for c in about["commands"] if c["name"] == "explain" for word in distinct(c) if "." not in word]


BASH = r"""
_qkscope()
{
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} values last
    [ "$before" = = ] && before=${COMP_WORDS[COMP_CWORD-2]}
    [ "$word" = = ] && word=
    if [ "$COMP_CWORD" -eq 1 ]; then
        values='COMMANDS help --help --version'
    elif [ "$COMP_CWORD" -eq 2 ] && [ "${COMP_WORDS[1]}" = help ]; then
        values='COMMANDS'
    else
        values=$(_qkscope_values "${COMP_WORDS[1]}" "$before")
        [ "$values" = @columns ] && values=$(_qkscope_arguments explain)
        if [ -z "$values" ] && [ "${word#-}" != "$word" ]; then
            values=$(_qkscope_options "${COMP_WORDS[1]}")
        fi
        if [ -z "$values" ] && [ "$COMP_CWORD" -eq 2 ]; then
            values=$(_qkscope_arguments "${COMP_WORDS[1]}")
        fi
    fi
    case $values in
    @none) COMPREPLY=() ;;
    @folder) mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
    @file | '') mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
    *) # of a list with commas the last word, of "-column" the column
        last=${word##*,}
        [ "${values#-}" != "$values" ] || last=${last#-}
        mapfile -t COMPREPLY < <(compgen -P "${word%"$last"}" -W "$values" -- "$last") ;;
    esac
}
complete -o filenames -F _qkscope qkscope"""


def bash(about):
    lines = ["# bash completion for qkscope", "_qkscope_options()", "{", "    case $1 in"]
    for c in about["commands"]:
        lines.append(f"    {c['name']}) echo '{' '.join('--' + o['name'] for o in c['options'])}' ;;")
    lines += ["    esac", "}", "", "_qkscope_values()", "{", '    case "$1 $2" in']
    for c in about["commands"]:
        for o in c["options"]:
            letter = f"|'{c['name']} -{o['letter']}'" if o["letter"] else ""
            if o["value"]:
                lines.append(f"    '{c['name']} --{o['name']}'{letter}) echo '{kind(o)}' ;;")
    lines += ["    esac", "}", "", "_qkscope_arguments()", "{", "    case $1 in"]
    lines += [f"    {c['name']}) echo '{' '.join(distinct(c))}' ;;" for c in about["commands"] if c["arguments"]]
    names = " ".join(c["name"] for c in about["commands"])
    return lines + ["    esac", "}", *BASH.replace("COMMANDS", names).splitlines()]


def quoted(text, special):
    """Between single quotes, with these characters escaped."""
    for character in special:
        text = text.replace(character, "\\" + character)
    return text.replace("'", "'\\''")


def zsh_option(o):
    assign = ("=-" if o["optional"] else "=") if o["value"] else ""
    names = f"'{'*' if o['path'] else ''}--{o['name']}{assign}"
    if o["letter"]:
        letter = f"-{o['letter']}{'+' if o['value'] else ''}"
        names = f"'(-{o['letter']} --{o['name']})'{{{letter},--{o['name']}{assign}}}'"
    action = ""
    if o["value"]:
        what = {"@folder": "_files -/", "@file": "_files", "@none": "", "@columns": "_values -s , column $columns"}
        action = f":{':' if o['optional'] else ''}{quoted(o['value'], ':[]')}:" + what.get(
            kind(o), f"({kind(o)})")
    return f"        {names}[{quoted(o['help'], '[]:')}]{action}'"


def zsh(about):
    lines = ["#compdef qkscope", "_qkscope()", "{", "    local -a commands columns", f"    columns=({' '.join(columns(about))})", "    commands=("]
    lines += [f"        '{c['name']}:{quoted(c['summary'], ':')}'" for c in about["commands"]]
    lines += ["        'help:what a command does'", "    )", "    if (( CURRENT == 2 )); then", "        _describe command commands",
              "        return", "    fi", "    shift words", "    (( CURRENT-- ))",
              "    case $words[1] in"]
    for c in about["commands"]:
        first = [f"        '1:name:({' '.join(distinct(c))})'"] if c["arguments"] else []
        options = [zsh_option(o) for o in c["options"]] + first + ["        '*:file:_files'"]
        lines += [f"    {c['name']})", "        _arguments -s \\",
                  *" \\\n".join(options).splitlines(), "        ;;"]
    return lines + ["    help) _describe command commands ;;", "    esac", "}", '_qkscope "$@"']


def fish(about):
    def text(words):
        return words.replace("\\", "\\\\").replace("'", "\\'")
    lines = ["# fish completion for qkscope", f"set -g __qkscope_columns {' '.join(columns(about))}",
             "complete -c qkscope -n __fish_use_subcommand -f"]
    for c in about["commands"]:
        lines.append(f"complete -c qkscope -n __fish_use_subcommand -a {c['name']} "
                     f"-d '{text(c['summary'])}'")
    lines.append("complete -c qkscope -n __fish_use_subcommand -a help -d 'what a command does'")
    given = [("help", [c["name"] for c in about["commands"]])] + [
        (c["name"], distinct(c)) for c in about["commands"] if c["arguments"]]
    lines += [f"complete -c qkscope -n '__fish_seen_subcommand_from {name}; and "
              f"test (count (commandline -opc)) -eq 2' -f -a '{' '.join(words)}'" for name, words in given]
    values = {"@folder": "-x -a '(__fish_complete_directories)'", "@file": "-r -F", "@none": "-x", "@columns": "-x -a '$__qkscope_columns'"}
    for c in about["commands"]:
        for o in c["options"]:
            words = [f"complete -c qkscope -n '__fish_seen_subcommand_from {c['name']}'",
                     f"-l {o['name']}"]
            if o["letter"]:
                words.append(f"-s {o['letter']}")
            if o["value"] and not o["optional"]:
                words.append(values.get(kind(o), f"-x -a '{kind(o)}'"))
            lines.append(" ".join([*words, f"-d '{text(o['help'])}'"]))
    return lines


# ---- reference -----------------------------------------------------------------------------------

def allowed(option):
    found = []
    if option["range"]:
        found.append("{:.9g} to {:.9g}".format(*option["range"]))
    found += [f"`{word}`" for word in option["words"]]
    if option["list"]:
        found.append("`0,2,5-9`")
    if option["value"].startswith("L:H"):
        found.append("[naming heads](../commands.md#naming-heads)")
    unit = f" {option['unit']}" if option["unit"] else ""
    return ", ".join(found) + unit


def reference_row(option):
    letter = f"`-{option['letter']}`, " if option["letter"] else ""
    value = f" {option['value']}" if option["value"] else ""
    yaml = f"`{option['yaml']}`" if option["yaml"] else ""
    cells = [f"{letter}`--{option['name']}{value}`", option["help"], allowed(option),
             option["not_given"], yaml]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def reference(about):
    lines = ["<!-- Made by tools/generate.py; `make reference` makes it again. -->", "# Options", "",
             "Every option of every command. *In files*: its key in configuration files",
             "([commands](../commands.md#configuration-files), [capture](../capture.md#configuration-files-of-the-original)) and study files",
             "([studies](../howto/published.md#studies)). All commands have `--quiet`, `--verbose`, `--json`, `--help` and",
             "`--version`, too."]
    header = ["", "| option | what it is | values | not given | in files |", "|---|---|---|---|---|"]
    rows = {c["name"]: {o["name"]: reference_row(o) for o in c["options"] if not o["common"]} for c in about["commands"]}
    count = collections.Counter(row for own in rows.values() for row in own.values())
    shared = [row for row in count if count[row] > 2]
    lines += ["", "## Options of several commands", *header, *shared]
    for c in about["commands"]:
        own = rows[c["name"]]
        lines += ["", f"## {c['name']}", "", f"`qkscope {c['name']} {c['usage']}`"]
        common = [f"`--{name}`" for name, row in own.items() if row in shared]
        if common:
            lines += ["", f"[Of several commands](#options-of-several-commands): {', '.join(common)}."]
        left = [row for row in own.values() if row not in shared]
        lines += [*header, *left] if left else []
    return lines


# ---- which file ----------------------------------------------------------------------------------

def main():
    description, file = sys.argv[1:]
    with open(description, encoding="utf-8") as said:
        about = json.load(said)
    pages = {"qkscope.1": lambda: man_overview(about), "qkscope.bash": lambda: bash(about),
             "_qkscope": lambda: zsh(about), "qkscope.fish": lambda: fish(about),
             "options.md": lambda: reference(about)}
    for command in about["commands"]:
        pages[f"qkscope-{command['name']}.1"] = lambda c=command: man_page(about, c)
    print("\n".join(pages[file]()))


if __name__ == "__main__":
    main()
