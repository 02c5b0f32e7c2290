# SPDX-License-Identifier: Apache-2.0
"""Runs the unit test programs and the Python tests of a tier (TESTING.md), and ends with the line `N passed, N failed`
(and `, N skipped`). Unit tests are counted one by one from their TAP output; a program that dies without saying why
counts as one failure."""
import argparse
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import changed

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


def unit_test(entry, wrapper):
    """(passed, failed, skipped, seconds, name, what to print if it failed) of one program."""
    env = {**os.environ, **entry["env"], "CMOCKA_MESSAGE_OUTPUT": "TAP"}
    start = time.monotonic()
    run = subprocess.run([*wrapper, *entry["cmd"]], env=env, capture_output=True, text=True,
                         errors="replace", cwd=ROOT, timeout=3600)
    output = run.stdout + run.stderr
    # cmocka says "not ok" of a test that skips itself
    skipped = len(re.findall(r"^(?:not )?ok .*# SKIP", output, re.M))
    passed = len(re.findall(r"^ok (?!.*# SKIP)", output, re.M))
    failed = len(re.findall(r"^not ok (?!.*# SKIP)", output, re.M))
    if run.returncode != 0 and failed == 0:
        failed = 1
    if passed + failed + skipped == 0:
        passed = 1  # a program without TAP: its exit code is the verdict
    return passed, failed, skipped, time.monotonic() - start, entry["name"], f"{entry['name']} failed\n{output}"


def unit_tests(build, wrapper=()):
    """(passed, failed, skipped) of the registered programs, one a processor at a time."""
    listing = subprocess.run(["meson", "introspect", "--tests", build], check=True,
                             capture_output=True, text=True).stdout
    start, counts, times = time.monotonic(), [], Counter()
    with ThreadPoolExecutor(processors()) as pool:
        for *count, seconds, name, text in pool.map(lambda e: unit_test(e, wrapper), json.loads(listing)):
            counts.append(count)
            times[name] = seconds
            if count[1]:
                print(text, flush=True)
    passed, failed, skipped = map(sum, zip(*counts))
    print(f"{len(counts)} unit test programs: {passed} passed, {failed} failed in {time.monotonic() - start:.0f} s;",
          ", ".join(f"{name} {seconds:.1f}" for name, seconds in times.most_common(6)), flush=True)
    return passed, failed, skipped


def main_job(build, wrapper=()):
    """The command from model to report under a wrapper such as valgrind: exit code 0, and not a word from the wrapper."""
    model = ROOT / "examples" / "kjv-tiny"
    failures = 0
    with tempfile.TemporaryDirectory() as out:
        jobs = (["capture", "-m", model / "step-2004", "-t", model / "passages.jsonl", "--max-texts", "4", "--max-length", "100",
                 "--long", "cut", "--rows", "100", "-o", f"{out}/capture"],
                ["analyze", f"{out}/capture", "-o", f"{out}/results", "--layers", "0", "--ci", "95", "--lda"],
                ["rotate", f"{out}/capture", "-o", f"{out}/rotate", "--layers", "1", "--complement"],
                ["pca", f"{out}/capture", "-o", f"{out}/single", "--kinds", "q,k"],
                ["report", f"{out}/results"],
                ["inspect", f"{out}/capture", "--json"])
        for words in jobs:
            run = subprocess.run([*wrapper, Path(build) / "qkscope", *words], capture_output=True, text=True)
            if run.returncode != 0 or "==" in run.stderr:
                failures += 1
                print(f"qkscope {words[0]} failed\n{run.stderr}", flush=True)
    return len(jobs) - failures, failures, 0


def print_times(suite, most=12):
    """Seconds of the tests of each folder, and the longest tests: where to look when the suite gets slow."""
    folders, tests = Counter(), Counter()
    for case in suite.iter("testcase"):
        place = (case.get("classname") or "tests.?").split(".")
        folders[place[1]] += float(case.get("time"))
        tests["/".join(place[1:]) + " " + case.get("name").split("[")[0]] += float(case.get("time"))
    for title, times in ("by folder of tests/", folders), ("of the longest", Counter(dict(tests.most_common(most)))):
        print(f"seconds {title}:")
        row = [f"{name} {seconds:.1f}" for name, seconds in times.most_common()]
        print(textwrap.fill(", ".join(row), 118, initial_indent="  ", subsequent_indent="  "))


def python_tests(build, arguments, seconds=None):
    """(passed, failed, skipped) of pytest with these arguments; tests that have not begun after so many seconds are skipped."""
    report = Path(build) / "pytest.xml"
    report.unlink(missing_ok=True)
    env = {**os.environ, "QKSCOPE_BUILD": str(Path(build).resolve())}
    # What is compiled of 250 files of tests is kept: to compile it takes longer than to run many of them.
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    env["PYTHONPYCACHEPREFIX"] = str(Path(build).resolve() / "pycache")
    if seconds:
        env["QKSCOPE_UNTIL"] = str(time.time() + seconds)
    run = subprocess.run([sys.executable, "-m", "pytest", "-q", "-rs", "--instafail", "-p", "no:cacheprovider",
                          "-n", str(min(processors(), 8)), "--dist", "load" if seconds else "worksteal",
                          f"--junitxml={report}", *arguments], cwd=ROOT, env=env)
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
    parser.add_argument("--tier", choices=["test", "all", "long"], default="test")
    parser.add_argument("--changed", type=float, metavar="SECONDS",
                        help="Python tests alone, of what was changed, and no new one after so many seconds")
    parser.add_argument("--valgrind", action="store_true", help="unit tests and the main job alone, under valgrind")
    parser.add_argument("pytest", nargs="*", help="arguments for pytest, in place of the folder tests")
    args = parser.parse_args()
    os.environ["QKSCOPE_TIER"] = args.tier
    # A shell that runs this in the background ignores Ctrl-C, and so would the programs that tests send it to.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    start = time.monotonic()
    with scratch() as folder:
        os.chmod(folder, 0o755)  # some tests run the program as nobody
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        if args.valgrind:
            counts = [unit_tests(args.build, VALGRIND), main_job(args.build, VALGRIND)]
        elif args.changed:
            folders = changed.folders()
            print("tests of what was changed:", *folders)
            counts = [python_tests(args.build, [f"tests/{name}" for name in folders], args.changed) if folders else (0, 0, 0)]
        else:
            counts = [unit_tests(args.build), python_tests(args.build, args.pytest or ["tests"])]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{time.monotonic() - start:.0f} s, of processors {used.ru_utime + used.ru_stime:.0f} s")
    passed, failed, skipped = (sum(column) for column in zip(*counts))
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
