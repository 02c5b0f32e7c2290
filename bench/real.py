# SPDX-License-Identifier: Apache-2.0
"""Every command on a capture of a pretrained model, as `make demo-real` leaves it: seconds, seconds of
processors and peak memory, beside another program (an older qkscope) if one is given, in turns. Prints Markdown;
`make bench` runs it, and it skips where there is no such capture."""
import argparse
import shutil
import statistics
import sys
from pathlib import Path

from timed import measured

ROOT = Path(__file__).resolve().parent.parent
SLOW = 30  # seconds; what takes longer is run once

# {capture}, {out}: folders; the results of the last analysis are in {out}/analyze
COMMANDS = {
    "pca": ["pca", "{capture}", "-o", "{out}/pca", "--force"],
    "rotate": ["rotate", "{capture}", "-o", "{out}/rotate", "--force"],
    "rotate --complement": ["rotate", "{capture}", "--complement", "-o", "{out}/complement", "--force"],
    "plasticity": ["plasticity", "{capture}", "-o", "{out}/plasticity", "--force"],
    "plasticity --buckets capture": ["plasticity", "{capture}", "--buckets", "capture", "-o",
                                     "{out}/buckets", "--force"],
    "analyze --ci 95 --complement --lda": ["analyze", "{capture}", "--ci", "95", "--complement", "--lda",
                                           "-o", "{out}/analyze", "--force"],
    "scatter --random 4 --collage": ["scatter", "{capture}", "--random", "4", "--collage", "--name",
                                     "collage", "-o", "{out}/figures"],
    "report": ["report", "{out}/analyze", "-o", "{out}/report"],
}


def run(build, program, words, capture, out):
    """(seconds, processor seconds, peak MiB)"""
    if words[0] == "report":
        shutil.rmtree(out / "report", ignore_errors=True)
    words = [w.format(capture=capture, out=out) for w in words]
    figures = measured(build, [program, *words, "--quiet"])[0]
    return figures["seconds"], figures["processor_seconds"], figures["peak_mib"]


def measure(build, programs, words, capture, work, runs):
    """For each program the median seconds of interleaved runs, of processors, too, and the largest peak."""
    found = [[] for _ in programs]
    for _ in range(runs):
        for i, program in enumerate(programs):
            if not found[i] or found[i][0][0] < SLOW:
                found[i].append(run(build, program, words, capture, work / str(i)))
    return [(*(statistics.median(r[c] for r in one) for c in range(2)), max(r[2] for r in one))
            for one in found]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("--capture", type=Path, default=ROOT / "results/real/capture/post")
    parser.add_argument("--before", type=Path, help="another program to run in turns")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", help="commands that contain this")
    args = parser.parse_args()
    if not (args.capture / "capture.json").exists():
        print(f"\nReal model: skipped, since {args.capture} is no capture; `make demo-real` makes one, "
              "--capture names another.")
        return
    args.build = args.build.resolve()
    capture, work = args.capture.resolve(), args.build / "bench-data" / "real"
    programs = ([args.before.resolve()] if args.before else []) + [args.build / "qkscope"]
    print(f"\nA pretrained model: {capture.name} of {capture.parent.name}, at most {args.runs} interleaved "
          f"runs, medians (above {SLOW} s one run).\n")
    if args.before:
        print("| command | before, s | processor s | peak MiB | now, s | processor s | peak MiB |\n"
              "|---|---|---|---|---|---|---|")
    else:
        print("| command | s | processor s | peak MiB |\n|---|---|---|---|")
    try:
        for name, words in COMMANDS.items():
            if args.only and args.only not in name:
                continue
            results = measure(args.build, programs, words, capture, work, args.runs)
            numbers = " | ".join(f"{wall:.2f} | {processor:.2f} | {peak:.0f}"
                                 for wall, processor, peak in results)
            print(f"| `{name}` | {numbers} |", flush=True)
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
