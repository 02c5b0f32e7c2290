# SPDX-License-Identifier: Apache-2.0
"""A capture by many processes: the processor time of 1, 2, 4 and 8 shards, one after another, against one
process, by a random Llama; and what `qkscope merge` takes to put together 64 shards that lie in folders of
their own. Prints Markdown."""
import argparse
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from keep import size_of, write_texts
from prefill import make_llama
from timed import measured

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "recorder"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from recording import write_tokenizer  # noqa: E402

SHARDS = (1, 2, 4, 8)


def capture(build, model, texts, out, shards, *options):
    """Processor seconds of each shard."""
    shutil.rmtree(out, ignore_errors=True)
    return [measured(build, [build / "qkscope", "capture", "-m", model, "-t", texts, "-o", out, "--quiet",
                             "--threads", "1", *options, "--shard", f"{i}/{shards}"])[0]["processor_seconds"]
            for i in range(shards)]


def sharing(build, scratch, keep, runs):
    model = make_llama(build / "bench-data" / "llama-20m", 384, 1024, 6, 6, 2, 64, 8000)
    write_tokenizer(model)
    texts = write_texts(scratch / "texts.jsonl", 65536, 128)
    print(f"\n`--keep {keep}`: 6 layers of 6 query and 2 key heads, d = 64, 128 texts of 512 tokens, "
          f"{runs} interleaved runs, medians\n\n| shards | processor time | of one process |\n|--:|--:|--:|")
    table = {n: [] for n in SHARDS}
    for _ in range(runs):
        for n in SHARDS:
            table[n].append(sum(capture(build, model, texts, scratch / "out", n, "--keep", keep)))
    for n, seconds in table.items():
        ratio = statistics.median(s / one for s, one in zip(seconds, table[1]))
        print(f"| {n} | {statistics.median(seconds):.2f} s | {ratio:.3f} |", flush=True)


def merging(build, scratch, keep):
    """64 blocks, each in a folder of its own."""
    model = make_llama(build / "bench-data" / "llama-1m", 64, 128, 4, 32, 8, 64, 1000)
    write_tokenizer(model)
    texts = write_texts(scratch / "many.jsonl", 64 * 8192, 512)
    for i in range(64):
        measured(build, [build / "qkscope", "capture", "-m", model, "-t", texts, "-o", scratch / f"p{i}",
                         "--quiet", "--keep", keep, "--shard", f"{i}/64"])
    pieces = [scratch / f"p{i}" for i in range(64)]
    took, _ = measured(build, [build / "qkscope", "merge", *pieces, "-o", scratch / "all", "--quiet"])
    print(f"\n`merge` of 64 shards, `--keep {keep}`: 4 layers of 32 query and 8 key heads, d = 64: "
          f"{sum(map(size_of, pieces)):.0f} MiB of pieces become {size_of(scratch / 'all'):.0f} MiB in "
          f"{took['processor_seconds']:.2f} s of a processor, {took['seconds']:.2f} s in all, "
          f"{took['peak_mib']:.0f} MiB of memory", flush=True)
    for folder in [*pieces, scratch / "all"]:
        shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--scratch", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.scratch) as scratch:
        for keep in ("rows", "moments"):
            sharing(args.build, Path(scratch), keep, args.runs)
        for keep in ("moments", "moments,reservoir=2"):
            merging(args.build, Path(scratch), keep)


if __name__ == "__main__":
    main()
