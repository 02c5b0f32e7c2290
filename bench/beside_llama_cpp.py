# SPDX-License-Identifier: Apache-2.0
"""Prefill beside llama.cpp's llama-bench: the random Llama of bench/prefill.py with the same weights as GGUF,
in float32 and bfloat16, one text of --tokens. First llama-bench looks for its best micro-batch size, with or
without flash attention, and type of cache for each type of weights; that then runs in turns with qkscope.
Threads of llama.cpp wait for each other in loops, so a run counts only if other programs took less than
--others of the processors meanwhile; the script waits for such times. Prints Markdown. Processor time of
llama-bench is without what loading takes. Needs the `gguf` package. llama-bench comes with the sources of
llama.cpp, which llama-cpp-python's source distribution has under vendor/: cmake -S vendor/llama.cpp -B B
-DGGML_NATIVE=ON && cmake --build B --target llama-bench"""
import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from prefill import make_llama, ours

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "model"))
from gguf_files import write_gguf  # noqa: E402

TYPES = {"F32": "float32", "BF16": "bf16"}


def read_weights(folder):
    raw = (folder / "model.safetensors").read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    tensors = {}
    for name, entry in json.loads(raw[8:start]).items():
        begin, end = entry["data_offsets"]
        upper = np.frombuffer(raw[start + begin:start + end], "<u2").astype("<u4") << 16
        tensors[name.removeprefix("model.")] = upper.view("<f4").reshape(entry["shape"])
    return tensors


def make_gguf(folder, kind):
    """A model without a vocabulary's words: llama-bench takes random tokens."""
    path, config = folder / f"{kind}.gguf", json.loads((folder / "config.json").read_text())

    def vocabulary(writer):
        writer.add_tokenizer_model("no_vocab")
        writer.add_vocab_size(config["vocab_size"])
    if not path.exists():
        write_gguf(path, config, read_weights(folder), kind, add=vocabulary)
    return path


def busy_seconds():
    """Of all processors together."""
    fields = [int(n) for n in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return (sum(fields[:3]) + sum(fields[5:8])) / os.sysconf("SC_CLK_TCK")


def undisturbed(others, until, run):
    """What run returns, a tuple that ends in its processor seconds, of a time when others do little; the last
    after `until`."""
    while True:
        start, busy = time.monotonic(), busy_seconds()
        time.sleep(1)
        if busy_seconds() - busy < others * os.cpu_count() or time.monotonic() > until:
            start, busy = time.monotonic(), busy_seconds()
            found = run()
            rest = busy_seconds() - busy - found[-1]
            if rest < others * os.cpu_count() * (time.monotonic() - start) or time.monotonic() > until:
                return found


def llama(bench, threads, model, tokens, runs, *options):
    """Seconds of each run, and processor seconds of the process."""
    process = subprocess.Popen([bench, "-m", model, "-p", str(tokens), "-n", "0", "-t", str(threads), "-b", str(tokens),
                                "-r", str(runs), "--no-warmup", "-o", "jsonl", *options],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        return None, 0
    return [n * 1e-9 for n in json.loads(out)["samples_ns"]], usage.ru_utime + usage.ru_stime


def best_options(measure, start):
    """One option after the other, each at the best of those before it, by processor time."""
    best, chosen = float("inf"), dict(zip(start[::2], start[1::2]))
    for change in ([{"-ub": str(size)} for size in (512, 256, 1024)] + [{"-fa": "off"}] +
                   [{"-ctk": kind, "-ctv": kind} for kind in ("f32", "bf16")]):
        seconds, used = measure(1, *itertools.chain(*(chosen | change).items()))
        if seconds and used < best:
            best, chosen = used, chosen | change
    return list(itertools.chain(*chosen.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("llama_bench", type=Path)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--others", type=float, default=0.05, help="share of the processors")
    parser.add_argument("--wait", type=float, default=3600, help="for that, at most so many seconds in all")
    parser.add_argument("--as-given", action="store_true", help="do not look for llama-bench's best options")
    args = parser.parse_args()
    until = time.monotonic() + args.wait
    folder = make_llama(args.build / "bench-data" / "llama-100m", 768, 2048, 12, 12, 4, 64, 32000)
    models = {kind: make_gguf(folder, kind) for kind in TYPES}

    def theirs(kind, runs, *options, tokens=args.tokens):
        return undisturbed(args.others, until, lambda: llama(
            args.llama_bench, args.threads, models[kind], tokens, runs, *options))

    def mine(name):
        def run():
            found = ours(args.build, "run", folder, args.tokens, args.threads, name)
            return found["seconds"], found["cpu"]
        return undisturbed(args.others, until, run)
    options, loading = {}, {}
    for kind in models:
        options[kind] = ["-ub", "512", "-fa", "on", "-ctk", "f16", "-ctv", "f16"]
        if not args.as_given:
            options[kind] = best_options(lambda *words: theirs(kind, *words), options[kind])
        loading[kind] = theirs(kind, 1, *options[kind], tokens=1)[1]
    wall, cpu = ({name: [] for name in [*TYPES, *TYPES.values()]} for _ in range(2))
    for _ in range(args.runs):
        for kind, name in TYPES.items():
            seconds, used = mine(name)
            wall[name].append(seconds)
            cpu[name].append(used)
            seconds, used = theirs(kind, 2, *options[kind])
            wall[kind].append(statistics.mean(seconds))
            cpu[kind].append((used - loading[kind]) / 2)
            print(name, wall[name][-1], cpu[name][-1], kind, wall[kind][-1], cpu[kind][-1], file=sys.stderr)
    print(f"{args.tokens:,} tokens, {args.threads} threads, {args.runs} interleaved runs, medians.\n\n"
          "| | seconds | tokens/s | processor seconds |\n|---|---|---|---|")
    for kind, name in TYPES.items():
        for label, key in ((f"qkscope, {name}", name), (f"llama.cpp, {kind} ({' '.join(options[kind])})", kind)):
            seconds = statistics.median(wall[key])
            print(f"| {label} | {seconds:.2f} | {args.tokens / seconds:,.0f} | {statistics.median(cpu[key]):.2f} |")
    print("\n| times faster | by the clock | by processor time |\n|---|---|---|")
    for name, kind in (("float32", "F32"), ("bf16", "BF16"), ("bf16", "F32")):
        ratios = [statistics.median(b / a for a, b in zip(of[name], of[kind])) for of in (wall, cpu)]
        print(f"| {name} against {kind} | {ratios[0]:.2f} | {ratios[1]:.2f} |")


if __name__ == "__main__":
    main()
