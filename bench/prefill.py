# SPDX-License-Identifier: Apache-2.0
"""Prefill: tokens a second of a random Llama of 100 million parameters (d = 64, 4,096 tokens)
against Hugging Face transformers in float32 on the same threads, interleaved; the rate of the
matrix products against OpenBLAS's sgemm; memory for 131,072 tokens of a small model. Prints
Markdown. The comparison needs torch and transformers, in this Python or in that of --python.
Models are made once in BUILD/bench-data."""
import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np

TRANSFORMERS = """
import sys, time, torch, transformers
from transformers import AutoModel
folder, tokens, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(threads)
model = AutoModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa").eval()
text = torch.arange(tokens)[None] * 7919 % model.config.vocab_size
print(torch.__version__, transformers.__version__, flush=True)
for line in sys.stdin:
    start, cpu = time.perf_counter(), time.process_time()
    with torch.inference_mode():
        model(input_ids=text, use_cache=False)
    print(time.perf_counter() - start, time.process_time() - cpu, flush=True)
"""


def make_llama(folder, hidden, inner, layers, heads, key_heads, dim, vocab):
    """A checkpoint in bfloat16; weights as large as training leaves them."""
    if (folder / "model.safetensors").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    shapes = {"model.embed_tokens.weight": (vocab, hidden), "model.norm.weight": (hidden,)}
    for i in range(layers):
        name = f"model.layers.{i}."
        shapes |= {name + "input_layernorm.weight": (hidden,),
                   name + "post_attention_layernorm.weight": (hidden,),
                   name + "self_attn.q_proj.weight": (heads * dim, hidden),
                   name + "self_attn.k_proj.weight": (key_heads * dim, hidden),
                   name + "self_attn.v_proj.weight": (key_heads * dim, hidden),
                   name + "self_attn.o_proj.weight": (hidden, heads * dim),
                   name + "mlp.gate_proj.weight": (inner, hidden),
                   name + "mlp.up_proj.weight": (inner, hidden),
                   name + "mlp.down_proj.weight": (hidden, inner)}
    random, entries, parts, offset = np.random.default_rng(1), {}, [], 0
    for name, shape in shapes.items():
        values = np.ones(shape, np.float32) if len(shape) == 1 else \
            random.standard_normal(shape, np.float32) * shape[1] ** -0.5
        parts.append((values.view(np.uint32) >> 16).astype("<u2").tobytes())
        entries[name] = {"dtype": "BF16", "shape": shape,
                         "data_offsets": [offset, offset + len(parts[-1])]}
        offset += len(parts[-1])
    header = json.dumps(entries).encode()
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + b"".join(parts))
    (folder / "config.json").write_text(json.dumps(dict(
        architectures=["LlamaModel"], model_type="llama", hidden_size=hidden,
        intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=key_heads, head_dim=dim, vocab_size=vocab, rope_theta=500000.0,
        max_position_embeddings=131072, rms_norm_eps=1e-5, tie_word_embeddings=True)))
    return folder


def ours(build, *arguments):
    run = subprocess.run([build / "bench" / "prefill", *map(str, arguments)], check=True,
                         capture_output=True, text=True)
    return json.loads(run.stdout)


def compare(build, python, model, tokens, threads, runs):
    worker = subprocess.Popen([python, "-c", TRANSFORMERS, model, str(tokens), str(threads)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "OMP_NUM_THREADS": str(threads)})
    versions = worker.stdout.readline().split()
    if not versions:
        print("(torch and transformers are absent: no comparison)")
    mine, bf16, theirs = [], [], []
    for _ in range(runs + 1):
        mine.append(ours(build, "run", model, tokens, threads))
        bf16.append(ours(build, "run", model, tokens, threads, "bf16"))
        if versions:
            worker.stdin.write("run\n")
            worker.stdin.flush()
            theirs.append([float(x) for x in worker.stdout.readline().split()])
    worker.stdin.close()
    worker.wait()
    mine, bf16, theirs = mine[1:], bf16[1:], theirs[1:]  # the first of each warms up
    flops = mine[0]["flops"]

    def row(name, wall, cpu):
        print(f"| {name} | {statistics.median(wall):.2f} | "
              f"{tokens / statistics.median(wall):,.0f} | {tokens / min(wall):,.0f} | "
              f"{statistics.median(cpu):.2f} | {flops / statistics.median(cpu) * 1e-9:.0f} |")
    print(f"\n{tokens:,} tokens, {threads} threads, {runs} interleaved runs.\n\n"
          "| | seconds | tokens/s | best | processor seconds | GFLOP per processor second |\n"
          "|---|---|---|---|---|---|")
    row("qkscope", [r["seconds"] for r in mine], [r["cpu"] for r in mine])
    row("qkscope, bf16", [r["seconds"] for r in bf16], [r["cpu"] for r in bf16])
    print(f"\nfloat32 / bf16, median: {statistics.median(a['seconds'] / b['seconds'] for a, b in zip(mine, bf16)):.2f} "
          f"(processor time: {statistics.median(a['cpu'] / b['cpu'] for a, b in zip(mine, bf16)):.2f}).")
    if theirs:
        row(f"transformers {versions[1]}, torch {versions[0].split('+')[0]}",
            [r[0] for r in theirs], [r[1] for r in theirs])
        ratios = [b[0] / a["seconds"] for a, b in zip(mine, theirs)]
        cpu = [b[1] / a["cpu"] for a, b in zip(mine, theirs)]
        print(f"\nRatio of neighbours, median: {statistics.median(ratios):.2f} "
              f"(processor time: {statistics.median(cpu):.2f}).")


def compare_bf16(build, work, runs):
    """By processor time on one thread: in bfloat16 against float32, by shape and length."""
    shapes = {"hidden 768, d = 64 (the model above)": ("llama-100m", 768, 2048, 12, 12, 4, 64, 32000),
              "hidden 1,024, d = 128": ("llama-d128", 1024, 2816, 8, 8, 2, 128, 8192),
              "hidden 256, d = 64": ("llama-small", 256, 704, 4, 4, 2, 64, 4096),
              "hidden 256, d = 32": ("llama-d32", 256, 704, 4, 8, 2, 32, 4096)}
    lengths = (128, 512, 2048)
    print("\nfloat32 / bf16, processor time of one thread, medians:\n\n| | " +
          " | ".join(f"{n:,} tokens" for n in lengths) + " |\n" + "|---" * (1 + len(lengths)) + "|")
    for title, (name, *shape) in shapes.items():
        model, cells = make_llama(work / name, *shape), []
        for n in lengths:
            pairs = [[ours(build, "run", model, n, 1, a)["cpu"] for a in ("float32", "bf16")] for _ in range(runs)]
            cells.append(f"{statistics.median(a / b for a, b in pairs):.2f}")
        print(f"| {title} | {' | '.join(cells)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--long", type=int, default=131072)
    args = parser.parse_args()
    work = args.build / "bench-data"
    large = make_llama(work / "llama-100m", 768, 2048, 12, 12, 4, 64, 32000)
    small = make_llama(work / "llama-small", 256, 704, 4, 4, 2, 64, 4096)
    compare(args.build, args.python, large, args.tokens, args.threads, args.runs)
    compare_bf16(args.build, work, args.runs)
    print("\nProducts on one thread, GFLOP/s, best of 7:\n\n| outputs x inputs | sgemm | AVX2 | "
          "AVX-512 |\n|---|---|---|---|")
    for outputs, inputs in ((768, 768), (2048, 768), (768, 2048), (4096, 4096)):
        rate = ours(args.build, "products", outputs, inputs, 192)
        print(f"| {outputs} x {inputs} | {rate['sgemm']:.0f} | {rate.get('avx2', 0):.0f} | "
              f"{rate.get('avx512', 0):.0f} |")
    if args.long:
        run = ours(args.build, "run", small, args.long, args.threads)
        print(f"\n{args.long:,} tokens of a model of 4 layers, hidden 256, d = 64: "
              f"{run['seconds']:.0f} s, {run['flops'] / run['cpu'] * 1e-9:.0f} GFLOP per "
              f"processor second, peak {run['peak_mib']:.0f} MiB "
              f"(estimate {run['bytes'] / 2**20:.0f} MiB and the mapped weights).")


if __name__ == "__main__":
    main()
