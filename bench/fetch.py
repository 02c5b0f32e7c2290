#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fetching a capture: `qkscope get` beside `hf download`, from a server on this machine, turn about.

    python bench/fetch.py [--program build/qkscope] [--files 192] [--megabytes 2000] [--repeats 5]

Seconds, and processor time of the client alone; medians, with the fastest and the slowest. Files are random bytes in
TMPDIR, so set it to a folder in memory, of three times their size. Needs huggingface_hub."""
import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "hub"))
from fake_hub import FakeHub  # noqa: E402


def timed(command, environment):
    before = os.times()
    start = time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds = time.perf_counter() - start
    after = os.times()
    return seconds, (after.children_user - before.children_user) + (after.children_system - before.children_system)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=ROOT / "build" / "qkscope")
    parser.add_argument("--files", type=int, default=192)
    parser.add_argument("--megabytes", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    hf = pathlib.Path(sys.executable).with_name("hf")
    size = options.megabytes * 1000000 // options.files
    with tempfile.TemporaryDirectory() as folder, FakeHub() as hub:
        place = pathlib.Path(folder)
        files = {}
        for i in range(options.files):
            path = place / f"{i}.parquet"
            path.write_bytes(os.urandom(size))
            files[f"l{i // 24:02}h{i % 24:02}q/data.parquet"] = path
        hub.add("datasets", "org/name", files)
        commands = {"qkscope get": [options.program, "get", "org/name"],
                    "hf download": [hf, "download", "--repo-type", "dataset", "org/name"]}
        times = {name: [] for name in commands}
        for _ in range(options.repeats):
            for name, command in commands.items():
                times[name].append(timed(command, hub.environment(place / "cache")))
                shutil.rmtree(place / "cache")
        for name, pairs in times.items():
            wall, processor = zip(*pairs)
            middle = statistics.median(wall)
            print(f"{name:12} {middle:6.2f} s ({min(wall):.2f} to {max(wall):.2f}), "
                  f"{options.megabytes / middle:6.0f} MB/s; processor {statistics.median(processor):6.2f} s "
                  f"({min(processor):.2f} to {max(processor):.2f})", flush=True)


if __name__ == "__main__":
    main()
