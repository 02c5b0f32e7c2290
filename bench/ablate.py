# SPDX-License-Identifier: Apache-2.0
"""What a changed head costs beside a whole forward: `qkscope loss` and `qkscope ablate --what remove` of one head of each layer, over
one text, in turns, one thread, processor time. Which head of a layer is changed makes no difference to the time, so the
mean over layers is that over all heads. SmolLM2-135M's shapes at 2,048 tokens, random weights; --model: another, whose
texts are made of its own tokens. Prints Markdown. The model is made once in BUILD/bench-data."""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

from prefill import make_llama

SHAPE = "smollm2-30", 576, 1536, 30, 9, 3, 64, 49152


def run(program, *arguments):
    """Its outcome, processor seconds and peak memory in MiB."""
    command = subprocess.Popen([program, *map(str, arguments), "--json", "--quiet", "--threads", "1"], stdout=subprocess.PIPE)
    outcome = json.loads(command.stdout.read())
    _, status, usage = os.wait4(command.pid, 0)
    assert status == 0
    return outcome, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--what", default="remove")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--memory", type=int, nargs="*", default=[512, 2048])
    args = parser.parse_args()
    model = args.model or make_llama(args.build / "bench-data" / SHAPE[0], *SHAPE[1:])
    print("| arithmetic | memory asked for | one forward | branches | one branch | of a forward | quartiles | peak memory |\n"
          "|---|--:|--:|--:|--:|--:|---|--:|")
    for arithmetic in ("float32", "bf16"):
        common = "-m", model, "-t", f"repeat:{args.tokens // 2}x2:1", "--dtype", arithmetic
        for memory in args.memory:
            forwards, branches, shares = [], [], []
            for _ in range(args.runs):
                with tempfile.TemporaryDirectory() as folder:
                    _, forward, _ = run(args.build / "qkscope", "loss", *common)
                    changed, all_of_them, peak = run(
                        args.build / "qkscope", "ablate", *common, "--what", args.what, "--heads", "0", "--no-controls",
                        "--memory", memory, "-o", Path(folder) / "out")
                count = changed["branches"]
                forwards.append(forward)
                branches.append((all_of_them - forward) / count)
                shares.append(branches[-1] / forward)
            low, middle, high = statistics.quantiles(shares, n=4) if args.runs > 1 else shares * 3
            print(f"| {arithmetic} | {memory:,} MiB | {statistics.median(forwards):.2f} s | {count} | "
                  f"{statistics.median(branches):.2f} s | {100 * middle:.0f} % | {100 * low:.0f} to {100 * high:.0f} % | "
                  f"{peak:,.0f} MiB |", flush=True)


if __name__ == "__main__":
    main()
