# SPDX-License-Identifier: Apache-2.0
"""What files share without exporting it begins with qk__ (cli_ or cmd_ in the command), types too; so one sees
of a name whether a program may use it, and a program's own names are free."""
import collections
import functools
import re

from conftest import ROOT
from source_tree import HEADERS, code, declarations, names, private_headers, rooms, symbols


@functools.cache
def public_names():
    return set(re.findall(r"\bqk_\w+", "\n".join(map(code, HEADERS))))


def prefixes(room):
    return ("cli_", "cmd_") if room == "cli" else ("qk__",)


def test_declarations_are_understood(tmp_path):
    header = tmp_path / "a.h"
    header.write_text("""/* struct no { int x; }; */
#define NO(x) \\
    no(x);
typedef struct one { struct { int x; } y; } two;
struct three { int x; };
typedef enum four { A, B } five;
typedef void (*six)(int a, void *b);
typedef int seven(int a);
QK_MUST_CHECK qk_status eight(six call, int (*b)(int));
static inline const char *nine(void) { if (1) { return "no("; } return 0; }
extern const struct three ten[];
void eleven(const char *fmt, ...) QK_PRINTF(2, 3);
typedef struct twelve twelve;
const int *thirteen(void);
""")
    assert [name for declaration in declarations(header) for name in names(declaration)] == \
        ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
         "twelve", "thirteen"]


def test_private_headers_declare_private_names():
    known = public_names()
    wrong = [f"{path.parent.name}/{path.name}: {name}" for room in rooms() for path in private_headers(room)
             for declaration in declarations(path) for name in names(declaration)
             if name not in known and not name.startswith(prefixes(room))]
    assert not wrong


def test_symbols_between_files_are_private():
    wrong = []
    for room, files in symbols().items():
        known = {"main"} if room == "cli" else public_names()
        wrong += [(room, file, name) for file, (defined, _) in files.items() for name in defined
                  if not name.startswith(prefixes(room)) and name not in known]
    assert not wrong


def test_a_type_has_one_meaning():
    places = collections.defaultdict(set)
    for path in [*HEADERS, *(header for room in rooms() for header in (ROOT / "src" / room).glob("*.h"))]:
        for name in re.findall(r"\} (\w+)(?:\[\w*\])?;", code(path)):
            places[name].add(f"{path.parent.name}/{path.name}")
    types = {name: where for name, where in places.items() if name.startswith(("qk_", "cli_"))}
    assert len(types) > 100
    assert not {name: where for name, where in types.items() if len(where) > 1}
