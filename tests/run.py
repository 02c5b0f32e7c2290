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
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VALGRIND = ["valgrind", "--quiet", "--error-exitcode=99", "--leak-check=full",
            "--errors-for-leak-kinds=definite,indirect,possible"]


def unit_tests(build, wrapper):
    """Yields (name, passed, failed, skipped, output) for each registered program."""
    listing = subprocess.run(["meson", "introspect", "--tests", build], check=True,
                             capture_output=True, text=True).stdout
    for entry in json.loads(listing):
        env = {**os.environ, **entry["env"], "CMOCKA_MESSAGE_OUTPUT": "TAP"}
        if wrapper:
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
        print(f"{entry['name']:32} {passed:5} passed {failed:3} failed "
              f"{time.monotonic() - start:6.1f} s", flush=True)
        yield passed, failed, skipped
        if failed:
            print(output)


def commands(build, wrapper):
    """The command's main jobs under a wrapper: exit code 0 and not a word from it."""
    example = ROOT / "examples" / "kjv-tiny-capture"
    with tempfile.TemporaryDirectory() as out:
        for arguments in (["pca", example, "-o", f"{out}/a", "--lda", "--threads", "2"],
                          ["analyze", example, "-o", f"{out}/d", "--layers", "0", "--ci", "95"],
                          ["rotate", example, "-o", f"{out}/e", "--layers", "1", "--complement"],
                          ["plasticity", example, "-o", f"{out}/f", "--layers", "2",
                           "--variance", "full", "--max-pairs", "50"],
                          ["pca", example, "-o", f"{out}/b", "--kinds", "q,k"],
                          ["inspect", example, "--json"],
                          ["synth", "-o", f"{out}/c", "--rows", "50", "--dim", "16"]):
            run = subprocess.run([*wrapper, Path(build) / "qkscope", *arguments],
                                 capture_output=True, text=True)
            failed = run.returncode != 0 or "==" in run.stderr
            print(f"qkscope {arguments[0]:24} {not failed:5} passed {failed:3} failed", flush=True)
            if failed:
                print(run.stderr)
            yield int(not failed), int(failed), 0


def python_tests(build, arguments):
    report = Path(build) / "pytest.xml"
    report.unlink(missing_ok=True)
    env = {**os.environ, "QKSCOPE_BUILD": str(Path(build).resolve())}
    workers = len(os.sched_getaffinity(0))
    run = subprocess.run([sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider",
                          "-n", str(min(workers, 8)), "--dist", "worksteal",
                          f"--junitxml={report}", *arguments, str(ROOT / "tests")], cwd=ROOT,
                         env=env)
    if not report.exists():
        return 0, 1, 0
    suite = ElementTree.parse(report).getroot().find("testsuite")
    total, skipped = int(suite.get("tests")), int(suite.get("skipped"))
    failed = int(suite.get("failures")) + int(suite.get("errors"))
    if run.returncode not in (0, 1) and failed == 0:
        failed = 1
    return total - skipped - failed, failed, skipped


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("--valgrind", action="store_true",
                        help="unit tests and the main jobs, each under valgrind")
    parser.add_argument("pytest", nargs="*", help="more arguments for pytest")
    args = parser.parse_args()
    counts = list(unit_tests(args.build, VALGRIND if args.valgrind else []))
    if args.valgrind:
        counts += commands(args.build, VALGRIND)
    else:
        counts.append(python_tests(args.build, args.pytest))
    passed, failed, skipped = (sum(column) for column in zip(*counts))
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
