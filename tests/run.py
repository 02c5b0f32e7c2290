# SPDX-License-Identifier: Apache-2.0
"""Runs every unit test program and the Python tests, and ends with the line
`N passed, N failed` (and `, N skipped`). Unit tests are counted one by one from their TAP
output; a program that dies without saying why counts as one failure."""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VALGRIND = ["valgrind", "--quiet", "--error-exitcode=99", "--leak-check=full",
            "--errors-for-leak-kinds=definite,indirect,possible"]


ROOMY = 6 << 30


def scratch():
    """A folder in memory where there is plenty: tests sync thousands of small files, for which a
    disk takes several times as long as all the rest."""
    memory = Path("/dev/shm")
    if memory.is_dir() and os.access(memory, os.W_OK):
        room = os.statvfs(memory)
        if room.f_bavail * room.f_frsize > ROOMY:
            return tempfile.TemporaryDirectory(prefix="qkscope-tests-", dir=memory)
    return tempfile.TemporaryDirectory(prefix="qkscope-tests-")


def processors():
    return len(os.sched_getaffinity(0))


def unit_test(entry, quick, wrapper):
    """(passed, failed, skipped, what to print) of one program."""
    env = {**os.environ, **entry["env"], "CMOCKA_MESSAGE_OUTPUT": "TAP"}
    if quick:
        env["QKSCOPE_QUICK_TESTS"] = "1"
    start = time.monotonic()
    run = subprocess.run([*wrapper, *entry["cmd"]], env=env, capture_output=True, text=True,
                         errors="replace", cwd=ROOT, timeout=1800)
    output = run.stdout + run.stderr
    # cmocka says "not ok" of a test that skips itself
    skipped = len(re.findall(r"^(?:not )?ok .*# SKIP", output, re.M))
    passed = len(re.findall(r"^ok (?!.*# SKIP)", output, re.M))
    failed = len(re.findall(r"^not ok (?!.*# SKIP)", output, re.M))
    if run.returncode != 0 and failed == 0:
        failed = 1
    if passed + failed + skipped == 0:
        passed = 1  # a program without TAP: its exit code is the verdict
    line = (f"{entry['name']:32} {passed:5} passed {failed:3} failed "
            f"{time.monotonic() - start:6.1f} s")
    return passed, failed, skipped, f"{line}\n{output}" if failed else line


def unit_tests(build, quick=False, wrapper=()):
    """Yields (passed, failed, skipped) for each registered program, one a processor at a time."""
    listing = subprocess.run(["meson", "introspect", "--tests", build], check=True,
                             capture_output=True, text=True).stdout
    with ThreadPoolExecutor(processors()) as pool:
        for *counts, text in pool.map(lambda e: unit_test(e, quick, wrapper), json.loads(listing)):
            print(text, flush=True)
            yield counts


def commands(build, wrapper=()):
    """The command's main jobs, from model to report: exit code 0, and not a word from a wrapper."""
    examples = ROOT / "examples"
    with tempfile.TemporaryDirectory() as out:
        for arguments in (["capture", "-m", examples / "kjv-tiny" / "step-2004", "-t",
                           examples / "kjv-tiny" / "passages.jsonl", "--max-texts", "4", "--rows",
                           "400", "-o", f"{out}/capture"],
                          ["analyze", f"{out}/capture", "-o", f"{out}/results", "--layers", "0",
                           "--ci", "95", "--lda"],
                          ["rotate", f"{out}/capture", "-o", f"{out}/rotate", "--layers", "1",
                           "--complement"],
                          ["plasticity", f"{out}/capture", "-o", f"{out}/plasticity", "--layers",
                           "2", "--variance", "full", "--max-pairs", "50"],
                          ["pca", f"{out}/capture", "-o", f"{out}/single", "--kinds", "q,k"],
                          ["report", f"{out}/results"],
                          ["inspect", f"{out}/capture", "--json"],
                          ["synth", "-o", f"{out}/synth", "--rows", "50", "--dim", "16"]):
            run = subprocess.run([*wrapper, Path(build) / "qkscope", *arguments],
                                 capture_output=True, text=True)
            failed = run.returncode != 0 or "==" in run.stderr
            print(f"qkscope {arguments[0]:24} {not failed:5} passed {failed:3} failed", flush=True)
            if failed:
                print(run.stderr)
            yield int(not failed), int(failed), 0


# What says most for its time, for builds that are slow: every command from its input to tables, pictures and
# pages, what it refuses, and files that are damaged. Folders and files of tests/, and of a test that has many
# cases every third.
CORE = """
    ablation/test_beside_results.py analysis/test_inspect.py base capture cli/test_generated.py
    cli/test_terminal_text.py cli/test_usage.py
    cli/test_wrong_path.py compare/test_compare_command.py export/test_export.py figure/test_bucket_plot.py
    figure/test_golden.py figure/test_head_map.py figure/test_hostile_text.py hub/test_cache.py hub/test_fetch_faults.py
    hub/test_get.py hub/test_inspect_hub.py hub/test_put_faults.py intervals/test_analyze.py intervals/test_commands.py model
    parquet/test_parquet_testing.py parquet/test_writer_interop.py pca/test_bad_input.py pca/test_cli.py
    pca/test_oracle.py pca/test_single.py pca/test_terminal_summary.py plasticity/test_buckets.py
    place/test_links.py place/test_one_writer.py plasticity/test_plasticity_bad_input.py plasticity/test_published.py prefill
    recorder/test_capture.py recorder/test_capture_damaged.py recorder/test_capture_messages.py
    recorder/test_gguf_capture.py recorder/test_inspect_model.py recorder/test_saved_models.py
    recorder/test_sniff_qk.py report/test_report_command.py report/test_report_findings.py results
    rotation/test_rotation_bad_input.py sampler scatter/test_scatter.py schema sink stages/test_stages_messages.py
    state/test_captured.py state/test_layer_moments.py state/test_moments_file.py state/test_states_damaged.py
    study/test_study.py synth
""".split()


def print_times(suite):
    """Seconds of the tests of each folder, the longest first: where to look when the suite gets slow."""
    times = Counter()
    for case in suite.iter("testcase"):
        times[(case.get("classname") or "tests.?").split(".")[1]] += float(case.get("time"))
    print(f"seconds of {processors()} processors, by folder of tests/:")
    row = [f"{name} {seconds:.0f}" for name, seconds in times.most_common()]
    print(textwrap.fill(", ".join(row), 110, initial_indent="  ", subsequent_indent="  "))


def python_tests(build, arguments, files=("",)):
    report = Path(build) / "pytest.xml"
    report.unlink(missing_ok=True)
    env = {**os.environ, "QKSCOPE_BUILD": str(Path(build).resolve())}
    run = subprocess.run([sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider",
                          "-n", str(min(processors(), 8)), "--dist", "worksteal",
                          f"--junitxml={report}", *arguments,
                          *(str(ROOT / "tests" / name) for name in files)], cwd=ROOT, env=env)
    if not report.exists():
        return 0, 1, 0
    suite = ElementTree.parse(report).getroot().find("testsuite")
    print_times(suite)
    total, skipped = int(suite.get("tests")), int(suite.get("skipped"))
    failed = int(suite.get("failures")) + int(suite.get("errors"))
    if run.returncode not in (0, 1) and failed == 0:
        failed = 1
    return total - skipped - failed, failed, skipped


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("--check", action="store_true",
                        help="unit tests, less thorough, and the main jobs: within a minute")
    parser.add_argument("--valgrind", action="store_true",
                        help="the same, each under valgrind")
    parser.add_argument("--core", action="store_true",
                        help="the same and the Python tests that say most for their time")
    parser.add_argument("pytest", nargs="*", help="more arguments for pytest")
    args = parser.parse_args()
    with scratch() as folder:
        os.chmod(folder, 0o755)  # some tests run the program as nobody
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        if args.check or args.valgrind:
            wrapper = VALGRIND if args.valgrind else []
            counts = [*unit_tests(args.build, True, wrapper), *commands(args.build, wrapper)]
        elif args.core:
            os.environ.setdefault("QKSCOPE_SAMPLE", "3")
            counts = [*unit_tests(args.build, True), *commands(args.build),
                      python_tests(args.build, args.pytest, CORE)]
        else:
            counts = [*unit_tests(args.build), python_tests(args.build, args.pytest)]
    passed, failed, skipped = (sum(column) for column in zip(*counts))
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
