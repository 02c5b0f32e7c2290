# SPDX-License-Identifier: Apache-2.0
"""Many processes: the processor time of 1, 2, 4, 8 and 64 shards, one after another, against one
process; what putting 64 shards together costs; and from these the time on 64 machines, on paper. Prints
Markdown; `make bench` runs it. The capture is made once in BUILD/bench-data."""
import argparse
import shutil
import statistics
from pathlib import Path

from analyses import synth
from timed import measured

SHARDS = (1, 2, 4, 8, 64)
COMMANDS = ("analyze", "pca")


def compute(build, words, out, shards, blocked=False):
    """What each shard took; the last one puts all together, unless something is in its way."""
    shutil.rmtree(out, ignore_errors=True)
    if blocked:
        (out / "qk.csv").mkdir(parents=True)
    whole = ["--shard", "none"] if shards == 1 else None
    return [measured(build, [build / "qkscope", *words, "-o", out, "--force", "--quiet",
                             *(whole or ["--shard", f"{i}/{shards}"])], check=not blocked)[0]
            for i in range(shards)]


def size_of(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--layers", type=int, default=8)
    args = parser.parse_args()
    work = args.build / "bench-data"
    work.mkdir(exist_ok=True)
    capture = synth(args.build, work / f"shards-{args.layers}", layers=args.layers, query_heads=32,
                    q_per_kv_group=4, dim=128, examples=40, rows=200, buckets=16, bucket_width=512)
    out = work / "shards-out"
    print(f"\nMany processes: {args.layers} layers of 32 query and 8 key heads, d = 128, 8,000 rows a head, "
          f"{size_of(capture) / 1e9:.2f} GB; one thread, one process after another, {args.runs} interleaved "
          "runs, medians.\n", flush=True)
    for command in COMMANDS:
        words = [command, capture, "--threads", "1"]
        table = {n: [] for n in SHARDS}
        merges, kept = [], 0
        for _ in range(args.runs):
            for n in SHARDS:
                table[n].append(compute(args.build, words, out, n))
            compute(args.build, words, out, 64, blocked=True)
            kept = size_of(out / ".units")
            shutil.rmtree(out / "qk.csv")
            merges.append(measured(args.build, [args.build / "qkscope", "merge", out, "--quiet",
                                                "--threads", "1"])[0])
        one = [runs[0]["processor_seconds"] for runs in table[1]]
        print(f"`qkscope {command}`\n\n| shards | processor time | of one process | slowest of them |\n"
              "|--:|--:|--:|--:|")
        for n in SHARDS:
            total = statistics.median(sum(s["processor_seconds"] for s in runs) for runs in table[n])
            ratio = statistics.median(sum(s["processor_seconds"] for s in runs) / o
                                      for runs, o in zip(table[n], one))
            slowest = statistics.median(max(s["processor_seconds"] for s in runs) for runs in table[n])
            print(f"| {n} | {total:.2f} s | {ratio:.3f} | {slowest:.2f} s |")
        merge, work_of = (statistics.median(m[key] for m in merges) for key in ("seconds", "processor_seconds"))
        print(f"\nPutting 64 shards together: {merge:.2f} s ({work_of:.2f} s of a processor), {kept / 1e6:.1f} MB read, "
              f"{max(m['peak_mib'] for m in merges):.0f} MiB of memory.\n", flush=True)
        shutil.rmtree(out)


if __name__ == "__main__":
    main()
