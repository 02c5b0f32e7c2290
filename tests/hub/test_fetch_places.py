# SPDX-License-Identifier: Apache-2.0
"""`qkscope get` where something is in its way: a disk with little room, a rival that removes leftovers, names of
revisions that would be odd files, an address with a password."""
import os
import shutil
import subprocess

import pytest
from conftest import check_survived
from fake_hub import FakeHub
from test_fetch_faults import BIG, DATASET, add_big, blobs, read
from test_get import NAME, PROGRAM, get


@pytest.fixture
def hub():
    with FakeHub() as server:
        yield server


# ---- a disk with little room ---------------------------------------------------------------

def on_small_disk(hub, home, megabytes, script):
    """Runs a script where `home` is a disk of its own. What it does to this is gone behind it."""
    line = f"mount -t tmpfs -o size={megabytes}m disk {home} && {script}"
    return subprocess.run(["unshare", "--map-root-user", "--mount", "sh", "-c", line], env=hub.environment(home),
                          capture_output=True, text=True, timeout=100)


@pytest.mark.parametrize("size, there, fits", [(4, 2, True), (4, 1, True), (4, 3, False), (6, 1, False)])
def test_what_is_there_needs_no_room_again(hub, tmp_path, size, there, fits):
    """A disk of 5 MB, and a file of which a run that was cut off has a part: it is copied, and then goes."""
    if not shutil.which("unshare") or on_small_disk(hub, tmp_path, 5, "true").returncode != 0:
        pytest.skip("no disks can be mounted here")
    data = os.urandom(size << 20)
    hub.add("datasets", NAME, {BIG: data})
    etag = hub.repos["datasets", NAME].commits[hub.repos["datasets", NAME].refs["main"]][BIG].etag.strip('"')
    (tmp_path.parent / "part").write_bytes(data[:there << 20])
    folder = tmp_path / "hub" / DATASET / "blobs"
    done = on_small_disk(hub, tmp_path, 5, f"mkdir -p {folder} && cp {tmp_path.parent}/part "
                         f"{folder}/{etag}.0123abcd.qkscope.incomplete && {PROGRAM} get {NAME} --files {BIG} && "
                         f"sha256sum {folder}/*")
    check_survived(done.returncode, done.stderr)
    assert (done.returncode == 0) == fits, done.stderr
    if fits:
        assert done.stdout.split()[-2] == etag
    else:
        assert "to fetch, and " in done.stderr and "make room" in done.stderr and not hub.requests("cdn")


# ---- a rival -------------------------------------------------------------------------------

RIVAL = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
/* Another process takes a new file for a leftover before it is locked. */
int flock(int fd, int operation)
{
    static int times;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    path[size > 0 ? size : 0] = 0;
    if (strstr(path, ".qkscope.incomplete") && times++ < 3)
        unlink(path);
    int (*real)(int, int) = (int (*)(int, int))dlsym(RTLD_NEXT, "flock");
    return real(fd, operation);
}
"""


def test_a_rival_that_removes_a_file_before_it_is_locked(hub, sanitized, tmp_path):
    if sanitized or not shutil.which("cc"):
        pytest.skip("nothing can be put in front of the C library here")
    data = add_big(hub)
    (tmp_path / "rival.c").write_text(RIVAL)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "rival.so", tmp_path / "rival.c", "-ldl"], check=True)
    get(hub, tmp_path, NAME, LD_PRELOAD=str(tmp_path / "rival.so"))
    assert read(tmp_path) == data and len(blobs(tmp_path)) == 1


# ---- names and addresses -------------------------------------------------------------------

ODD = [".", "..", "main/", "/main", "a//b", "a/./b", "a/.b", ".main", "main.", "main\n", "ma\x1b[31min", "a b", "a\tb",
       "a\x7fb", "a~1", "a^", "a:b", "a?", "a*", "a[b", "a\\b", "a.lock", "a.lock/b", "@", "a@{b", "", "x" * 201]


@pytest.mark.parametrize("revision", ODD)
def test_revisions_that_git_does_not_have(hub, tmp_path, revision):
    """They became names of files below refs/, or failed when everything had been fetched."""
    add_big(hub)
    said = get(hub, tmp_path, NAME, "--revision", revision, expect=2)[1]
    assert "not a revision" in said and "\x1b" not in said
    assert not hub.requests() and not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("revision", ["main", "v1.0", "refs/pr/1", "step-2004/last", "ünicode", "a@b", "x" * 200])
def test_revisions_that_git_has(hub, tmp_path, revision):
    add_big(hub)
    assert "not a revision" not in subprocess.run([PROGRAM, "get", NAME, "--revision", revision], text=True, timeout=60,
                                                  env=hub.environment(tmp_path), capture_output=True).stderr


@pytest.mark.parametrize("address", ["http://me:PASSWORD@127.0.0.1:1", "me:PASSWORD@127.0.0.1", "ftp://me:PASSWORD@x",
                                     "https:me:PASSWORD@x", "http://x/?token=PASSWORD", "http://x#PASSWORD"])
@pytest.mark.parametrize("words", [["get", NAME], ["get", "--list", NAME], ["put", "{}", "me/x", "--dry-run"]])
@pytest.mark.parametrize("token", ["", "hf_good"])
def test_an_address_with_a_password_is_not_shown(hub, tmp_path, address, words, token):
    words = [word.format(tmp_path) for word in words]
    for extra, option in (({"HF_ENDPOINT": address}, []), ({}, ["--endpoint", address])):
        env = {**hub.environment(tmp_path), "HF_TOKEN": token, **extra}
        done = subprocess.run([PROGRAM, *words, *option], env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and "it is not shown" in done.stderr
        assert "PASSWORD" not in done.stdout + done.stderr and not hub.requests()


# ---- memory that runs out ------------------------------------------------------------------

SHORT = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
static atomic_long count;
/* The allocation of the number FAIL_AT fails; how many there were is said at the end. */
static int fails(void)
{
    static long at = -1;
    long number = atomic_fetch_add(&count, 1);
    if (number == 0 && getenv("FAIL_AT"))
        at = atol(getenv("FAIL_AT"));
    errno = number == at ? ENOMEM : errno;
    return number == at;
}
void *malloc(size_t size) { return fails() ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return fails() ? NULL : __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { return fails() ? NULL : __libc_realloc(old, size); }
__attribute__((destructor)) static void tell(void)
{
    if (!getenv("FAIL_AT"))
        fprintf(stderr, "allocations: %ld\n", atomic_load(&count));
}
"""


def test_memory_that_runs_out_is_called_that(hub, sanitized, tmp_path):
    """While libraries are loaded and start: it was called a library that is missing, or too old, and OpenSSL ended
    the program. A sample of the allocations, since each is a run. The file is written without any, behind."""
    if sanitized or not shutil.which("cc"):
        pytest.skip("nothing can be put in front of the C library here")
    (tmp_path / "short.c").write_text(SHORT)
    built = subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "short.so", tmp_path / "short.c"], timeout=60)
    hub.add("datasets", NAME, {"README.md": b"x"})

    def run(**extra):
        shutil.rmtree(tmp_path / "hub", ignore_errors=True)
        return subprocess.run([PROGRAM, "get", NAME, "-j", "1", "--tries", "1"], capture_output=True, text=True,
                              timeout=60, env={**hub.environment(tmp_path), "LD_PRELOAD": str(tmp_path / "short.so"),
                                               **extra})
    first = run()
    if built.returncode != 0 or "allocations: " not in first.stderr:
        pytest.skip("this C library has no such functions")
    total = int(first.stderr.split("allocations: ")[1])
    for number in range(0, total, total // 70):
        done = run(FAIL_AT=str(number))
        assert done.returncode in (0, 1), (number, done.returncode)
        said = done.stderr.lower()  # libcurl 7.88 tells the lack of memory from headers that are too long by luck alone
        assert done.returncode == 0 or "memory" in said or "headers that are too long" in said, (number, said)
