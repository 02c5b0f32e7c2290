#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sending a capture: `qkscope put` beside `hf upload`, to a server on this machine, turn about.

    python bench/send.py [--program build/qkscope] [--megabytes 2000] [--repeats 5]

Seconds, and processor time of the client alone; medians, with the fastest and the slowest. The server does not look at
what it gets. `hf upload` sends over plain HTTP, too: its own protocol, Xet, has no server here. The capture, 192
files, lies in TMPDIR, so set it to a folder in memory. Needs huggingface_hub."""
import argparse
import pathlib
import statistics
import sys
import tempfile

from fetch import ROOT, FakeHub, timed

sys.path.append(str(ROOT / "tools"))
from make_capture import make_capture  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=ROOT / "build" / "qkscope")
    parser.add_argument("--megabytes", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    hf = pathlib.Path(sys.executable).with_name("hf")
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        capture = place / "capture"
        make_capture(capture, layers=4, query_heads=32, dim=128, rows=1000, examples=max(1, options.megabytes // 98), float32=True,
                     codec="none")
        megabytes = sum(path.stat().st_size for path in capture.rglob("*.parquet")) / 1e6
        commands = {"qkscope put": [options.program, "put", capture, "org/name"],
                    "hf upload": [hf, "upload", "org/name", capture, ".", "--repo-type", "dataset", "--private"]}
        times = {name: [] for name in commands}
        for _ in range(options.repeats):
            for name, command in commands.items():
                with FakeHub() as hub:
                    hub.uploads.keep = False
                    times[name].append(timed(command, hub.environment(place / "cache", HF_TOKEN="hf_good")))
        for name, pairs in times.items():
            wall, processor = zip(*pairs, strict=True)
            middle = statistics.median(wall)
            print(f"{name:12} {middle:6.2f} s ({min(wall):.2f} to {max(wall):.2f}), "
                  f"{megabytes / middle:6.0f} MB/s; processor {statistics.median(processor):6.2f} s "
                  f"({min(processor):.2f} to {max(processor):.2f})", flush=True)


if __name__ == "__main__":
    main()
