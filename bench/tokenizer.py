# SPDX-License-Identifier: Apache-2.0
"""Tokenizers: MB per processor second, beside Hugging Face's tokenizers on the same texts, interleaved.
Prints Markdown; `make bench` runs it. English texts are pseudo-English from tests/tokenizer's generator,
mixed ones hold all its scripts."""
import argparse
import json
import os
import random
import statistics
import struct
import subprocess
import sys
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "tokenizer")]
import tokenizer_cases as cases  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

SHAPES = ["llama3", "qwen2", "tekken", "smollm", "gemma", "llama2"]


def english(size):
    rng = random.Random(1)
    words = [w for pool, weight in cases._pools(random.Random(2)) if weight == 400 for w in pool]
    return [("".join(rng.choices(words, k=800))).encode() for _ in range(size // 5500)]


def long_words(size):
    return [b"a" * size, bytes(random.Random(3).choices(b"etaoinshrdlu", k=size))]


def ours(build, work, texts):
    packed = work / "texts"
    packed.write_bytes(b"".join(struct.pack("<I", len(t)) + t for t in texts))
    run = subprocess.run([build / "tests/tokenizer/tokenize_texts", work / "tokenizer.json", packed,
                          work / "ids"], check=True, capture_output=True, text=True)
    return float(run.stdout)


def theirs(tokenizer, strings):
    start = time.process_time()
    tokenizer.encode_batch_fast(strings)
    return time.process_time() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    work = args.build / "bench-data" / "tokenizer"
    work.mkdir(parents=True, exist_ok=True)
    kinds = {"English": english(2_000_000), "mixed": cases.texts(9, 2_000_000),
             "two words of 1 MB": long_words(1_000_000)}
    print(f"\nTokenizers: {args.runs} interleaved runs, medians; MB per processor second of qkscope, of "
          "tokenizers, and their ratio.\n")
    print("| shape | " + " | ".join(kinds) + " |\n|---|" + "---|" * len(kinds))
    for name, tokenizer in cases.shapes().items():
        if name not in SHAPES:
            continue
        (work / "tokenizer.json").write_text(json.dumps(tokenizer))
        cells = []
        for texts in kinds.values():
            strings = [t.decode(errors="replace") for t in texts]
            size = sum(map(len, texts)) / 1e6
            seconds = []
            for _ in range(args.runs):
                fresh = Tokenizer.from_file(str(work / "tokenizer.json"))  # without its cache
                seconds.append((ours(args.build, work, texts), theirs(fresh, strings)))
            mine, yours = (statistics.median(column) for column in zip(*seconds))
            cells.append(f"{size / mine:.1f}, {size / yours:.1f}, **{yours / mine:.1f}**")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
