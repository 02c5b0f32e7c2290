# SPDX-License-Identifier: Apache-2.0
"""Running a command with one of its system calls failing, and what must hold afterwards.

A job (sweep_jobs.py) is a command in a folder of its own:

    WORK/in/        what it reads
    WORK/out/       what it writes
    WORK/beside/    of nobody's business, as is WORK/home, the user's home

Calls are counted by strace in a run that succeeds, and each that changes something below WORK fails once."""
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
from dataclasses import dataclass

from conftest import check_survived, environment

# What a call may say, and what is told it.
FAULTS = {"write": "ENOSPC", "pwrite64": "ENOSPC", "writev": "ENOSPC", "ftruncate": "ENOSPC", "fsync": "EIO", "fdatasync": "EIO",
          "openat": "EACCES", "open": "EACCES", "mkdir": "ENOSPC", "mkdirat": "ENOSPC", "link": "EPERM", "linkat": "EPERM",
          "rename": "EACCES", "renameat": "EACCES", "renameat2": "EIO", "unlink": "EACCES", "unlinkat": "EACCES", "rmdir": "EACCES",
          "chmod": "EPERM", "fchmod": "EPERM"}
CALL = re.compile(r"^(\d+) +(\w+)\((.*)\) += (-?\d+)")
TEMPORARY = re.compile(r"\.tmp-|^\.|/\.")
MANIFESTS = ("capture.json", "manifest.json")
# Where one fails the others are drawn, the exit code is 3, and the page names it.
DRAWN = re.compile(r"(^|/)figures/|report\.html$")
# A note of what was drawn: without it all is drawn again.
STAMP = "figures.json"


@dataclass(frozen=True)
class Job:
    """A row of the table. words: of the command, with {in} and {out}. old: words of a run before it whose results it replaces
    (None: there is no such thing). before: words of runs that make what is there in any case. at_once: the old results are
    replaced in one step. page: what says that all is there, where it is no manifest. sample: how many of its calls are tried in `make test-all`."""
    name: str
    words: tuple
    old: tuple = None
    before: tuple = ()
    at_once: bool = False
    page: str = None
    sample: int = 6


def fill(words, work):
    return [str(word).replace("{in}", str(work / "in")).replace("{out}", str(work / "out")) for word in words]


class Place:
    """The folder that a job works in, as it is before the command runs."""

    def __init__(self, program, job, work, inputs, old=False, variables=None):
        self.program, self.job, self.work, self.old = program, job, work, old
        self.variables = {"HOME": str(work / "home"), **(variables or {})}
        work.mkdir()
        for name in ("beside/deep", "home"):
            (work / name).mkdir(parents=True)
        (work / "beside" / "deep" / "precious").write_bytes(b"of somebody")
        (work / "beside" / "capture.json").write_bytes(b"{}")
        shutil.copytree(inputs, work / "in")
        runs = [*job.before, *([job.old] if old else [])]
        for words in runs:
            assert self.run(fill(words, work)).returncode == 0, words
        self.start = work.parent / f"{work.name}-start"
        shutil.copytree(work, self.start, symlinks=True)
        self.was = files_of(work / "out")
        self.words = fill(job.words + (("--force",) if old and "--force" not in job.words else ()), work)

    def reset(self):
        shutil.rmtree(self.work)
        shutil.copytree(self.start, self.work, symlinks=True)

    def run(self, words=None, wrapper=()):
        done = subprocess.run([*wrapper, self.program, *(words or self.words)], env=environment(self.variables), cwd=self.work,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=900)
        check_survived(done.returncode, done.stderr.decode(errors="replace"))
        return done

    def good(self):
        """The files of two runs that succeed, and the calls of the second. What differs between the two (times, dates) is only
        looked for."""
        found = []
        for turn in range(2):
            self.reset()
            log = self.work.parent / f"{self.work.name}-calls"
            wrapper = tracing(log) if turn else ()
            done = self.run(wrapper=wrapper)
            assert done.returncode == 0, done.stderr
            found.append(files_of(self.work / "out"))
        assert found[0].keys() == found[1].keys()
        self.varies = {name for name in found[0] if found[0][name] != found[1][name]} | {
            name for name in self.was if pathlib.Path(name).name == "manifest.json"}
        self.whole = found[1]
        self.clean = listing(self.work)
        return read_calls(log, self.work)

    def same(self, files, as_there, without=None):
        files, as_there = ({name: data for name, data in some.items() if not (without and without.search(name))} for some in (files, as_there))
        return files.keys() == as_there.keys() and all(
            files[name] == as_there[name] for name in files if name not in self.varies)


def tracing(log, calls=tuple(FAULTS)):
    return ["strace", "-f", "-y", "-qq", "--seccomp-bpf", "-o", str(log), "-e", "trace=" + ",".join(calls), "-e", "signal=none"]


def read_calls(log, work):
    """[(call, which one of the process, its line)] of those that change something below a folder."""
    found, counts = {}, {}
    for line in log.read_text(errors="replace").splitlines():
        match = CALL.match(line)
        if not match and "<unfinished ...>" in line:
            match = re.match(r"^(\d+) +(\w+)\((.*)()", line)
        if not match:
            continue
        pid, call, arguments, _ = match.groups()
        counts[pid, call] = counts.get((pid, call), 0) + 1
        reading = call in ("open", "openat") and not re.search(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC", arguments)
        if str(work) in arguments and not reading:
            found.setdefault((call, counts[pid, call]), line)
    return [(call, n, line) for (call, n), line in found.items()]


def files_of(folder):
    """{name: bytes} of what is there for a reader: neither hidden nor temporary."""
    return {name: path.read_bytes() for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name != STAMP and not TEMPORARY.search(name := str(path.relative_to(folder)))}


def listing(work):
    """{name: rights and bytes} of everything around the output folder, and the output folder's names."""
    found = {}
    for path in sorted(work.rglob("*")):
        name = str(path.relative_to(work))
        about = path.lstat()
        inside = name.startswith("out/")
        content = None if inside or not stat.S_ISREG(about.st_mode) else path.read_bytes()
        found[name] = None if inside else (stat.S_IFMT(about.st_mode), os.readlink(path) if path.is_symlink() else content)
    return found


def around(work):
    """What is not the command's: everything but the output folder and hidden names beside it."""
    return {name: about for name, about in listing(work).items() if not name.startswith("out") and not re.match(r"\.", name)}


def says_complete(job, out):
    """Folders in which something says that all is there."""
    found = [path.parent for name in MANIFESTS for path in sorted(out.rglob(name))
             if not TEMPORARY.search(str(path.relative_to(out))) and is_complete(path)]
    if job.page:
        found = [out / job.page] if (out / job.page).exists() else []
        found = [path.parent for path in found]
    return found


def is_complete(path):
    try:
        return json.loads(path.read_bytes()).get("complete") is True
    except ValueError:
        return False


def below(files, out, folder):
    start = "" if folder == out else str(folder.relative_to(out)) + "/"
    return {name: data for name, data in files.items() if name.startswith(start)}


def judge(place, outside, done):
    """What is wrong after a run; an empty list is what one wants."""
    out, job, wrong = place.work / "out", place.job, []
    there = files_of(out)
    if around(place.work) != outside:
        wrong.append("something outside the output folder changed")
    if done.returncode not in (0, 1, 3):
        wrong.append(f"exit code {done.returncode}")
    if done.returncode != 0 and not done.stderr.strip():
        wrong.append("it failed without a word")
    drawn = DRAWN if done.returncode == 3 and b"figure" in done.stderr else None
    whole = place.same(there, place.whole, drawn)
    if done.returncode == 0 and not whole:
        wrong.append(f"exit code 0, and {differences(there, place.whole, place.varies)}")
    for folder in says_complete(job, out):
        part = below(there, out, folder)
        if not any(place.same(part, below(state, out, folder), drawn) for state in (place.whole, place.was)):
            wrong.append(f"{folder.relative_to(place.work)} says that it is complete, and of the new one "
                         f"{differences(part, below(place.whole, out, folder), place.varies)}")
    if place.old and not whole and not place.same(there, place.was, drawn) and job.at_once:
        wrong.append(f"neither old nor new: of the old one {differences(there, place.was, place.varies)}")
    return wrong


def differences(there, wanted, varies):
    changed = sorted(name for name in there.keys() & wanted.keys() if name not in varies and there[name] != wanted[name])
    return f"missing {sorted(wanted.keys() - there.keys())[:4]}, too many {sorted(there.keys() - wanted.keys())[:4]}, other {changed[:4]}"


def judge_next(place, outside):
    """The same command again, without a fault: all is there, and nothing else."""
    again, wrong = place.run(), []
    if again.returncode != 0:
        return [f"the next run fails: {again.stderr.decode(errors='replace').strip()[:300]}"]
    there = files_of(place.work / "out")
    if not place.same(there, place.whole):
        wrong.append(f"the next run leaves {differences(there, place.whole, place.varies)}")
    left = sorted(listing(place.work).keys() - place.clean.keys())
    if left:
        wrong.append(f"the next run leaves {left[:5]}")
    if around(place.work) != outside:
        wrong.append("the next run changed something outside the output folder")
    return wrong


def inject(call, n):
    return ["strace", "-f", "-qq", "--seccomp-bpf", "-o", os.devnull, "-e", f"trace={call}", "-e", "signal=none", "-e",
            f"inject={call}:error={FAULTS[call]}:when={n}"]
