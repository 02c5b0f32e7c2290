# SPDX-License-Identifier: Apache-2.0
"""The rule about NULL in common.h, for every pointer of every public function that can return a
status: an error that names the argument, and no handle left undefined. The calls are made from the
headers, so a new function is checked as soon as it is declared."""
import os
import shlex
import re
import subprocess

import pytest
from test_api import BUILD, HEADERS, ROOT, shared_library

# What a declaration allows to be NULL.
OPTIONAL = {
    "qk_capture_open": {"prefix"},
    "qk_capture_writer_open": {"meta"}, "qk_head_writer_add": {"token_str"}, "qk_model_open": {"overrides"},
    "qk_model_open_shape": {"overrides"}, "qk_results_join": {"command_line"}, "qk_shard_find": {"text"}, "qk_prefill": {"sequences"},
    "qk_settings_new": {"command"}, "qk_head_list": {"totals"},
}
# Handles that are there before the call, and are used up by it.
CONSUMED = {"qk_accumulator_finish": "acc", "qk_sink_finish": "sink",
            "qk_head_writer_finish": "head", "qk_capture_writer_finish": "writer"}


def functions():
    """(name, [(type, argument)]) of all that return a status and take more than numbers."""
    for header in HEADERS:
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        for name, arguments in re.findall(
                r"QK_API\s+QK_MUST_CHECK\s+qk_status\s+(qk_\w+)\(([^;]*)\);", text):
            found = []
            for argument in arguments.split(","):
                kind, name_of, array = re.fullmatch(
                    r"(.*?[\s*])(\w+)(\[\w*\])?", " ".join(argument.split())).groups()
                found.append((kind.strip() + (" *" if array else ""), name_of))
            assert found[-1] == ("qk_error *", "err"), name
            yield name, found[:-1]


def value(kind):
    """Something that is not NULL; it is not to be looked at before all pointers are."""
    if kind.endswith("*"):
        return f"({kind})nothing"
    return "(qk_head_id){0}" if kind == "qk_head_id" else f"({kind})1"


def calls():
    for name, arguments in functions():
        for kind, argument in arguments:
            if not kind.endswith("*") or argument in OPTIONAL.get(name, ()):
                continue
            handles = [n for k, n in arguments
                       if k.endswith("**") and "const" not in k and n != argument]
            yield name, argument, [("0" if n == argument else f"({k})&handle" if n in handles
                                    else value(k)) for k, n in arguments], handles


def program():
    lines = ["#include <qkscope/qkscope.h>", "#include <stdio.h>", "#include <string.h>",
             "static char nothing[4096];", "int main(void)", "{", "    int bad = 0;"]
    for name, argument, values, handles in calls():
        start = "0" if name in CONSUMED else "nothing"
        lines += [
            "    {", f"        void *handle = {start};", "        qk_error err = {0};",
            f"        qk_status s = {name}({', '.join(values)}, &err);",
            f"        qk_status t = {name}({', '.join(values)}, 0);",
            "        if (s != QK_ERR_ARGUMENT || t != s || !strstr(err.message, \" is NULL\")"
            f" || !strstr(err.message, \"{name}: \")"
            + (f" || !strstr(err.message, \"{argument} \")" if name not in CONSUMED else "")
            + (" || handle" if handles else "") + ") {",
            f"            printf(\"{name} {argument}: %d '%s'\\n\", s, err.message);",
            "            bad = 1;", "        }", "    }"]
    return "\n".join([*lines, "    return bad;", "}"])


def test_null_is_an_error(tmp_path):
    if b"b_sanitize" in (BUILD / "meson-private" / "cmd_line.txt").read_bytes():
        pytest.skip("an instrumented library needs an instrumented program")
    checked = {(name, argument) for name, argument, _, _ in calls()}
    assert len(checked) > 100 and ("qk_pca_combined", "settings") in checked
    assert {("qk_results_table", a) for a in ("results", "table", "columns")} <= checked
    source = tmp_path / "null_arguments.c"
    source.write_text(program())
    library = shared_library().parent
    subprocess.run([*shlex.split(os.environ.get("CC", "cc")), "-std=c11", "-I", ROOT / "include", source,
                    "-o", tmp_path / "null_arguments", "-L", library, "-lqkscope",
                    f"-Wl,-rpath,{library}"], check=True, capture_output=True)
    done = subprocess.run([tmp_path / "null_arguments"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
