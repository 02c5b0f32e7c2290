# SPDX-License-Identifier: Apache-2.0
"""What capturing costs beside the forward pass on a GPU: random Llamas of the shapes of 1 and 8 billion parameters.

    python bench/gpu.py [--shapes 1b 8b] [--rounds 5] [--long 131072]
    python bench/gpu.py --shapes 8b --tokens 32768 --batch 32768 --texts 4 --long 0  # attention
    python bench/gpu.py --device cpu --shapes tiny --tokens 512 --texts 4 --long 2048 --batch 512

in the environment of `make hf-env`, with the package on PYTHONPATH. Texts run by themselves, with rows drawn by
log_uniform, with moments of every row, with the attention of rows that are drawn; in turns. Tokens a second from the
first token in to the last row in the sink, and of the whole run; peak memory of the device beside that of the bare
forward pass; then one long text in chunks with a cache. On the processor rows go the way of a device, too, which shows that it works and no more.
"""
import argparse
import json
import statistics
import tempfile
import time

import torch
import transformers

import qkscope
from qkscope.hf import bridge, running
from qkscope.hf.facts import decoder_of

SHAPES = {
    "tiny": dict(hidden_size=128, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=2,
                 intermediate_size=256, vocab_size=4096),
    "1b": dict(hidden_size=2048, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
               intermediate_size=8192, vocab_size=128256),
    "8b": dict(hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
               intermediate_size=14336, vocab_size=128256),
}
WAYS = {"rows drawn (log_uniform)": {"sampler": qkscope.Sampler("log_uniform")},
        "rows drawn (about 8,000 a head)": {"sampler": qkscope.Sampler("uniform", 8, 128)},
        "the same, with attention": {"keep": "rows,attention", "sampler": qkscope.Sampler("uniform", 8, 128)},
        "moments": {"keep": "moments", "sampler": qkscope.Sampler("all", min_bucket_size=8192)},
        "moments, by log_uniform buckets": {"keep": "moments", "sampler": qkscope.Sampler("log_uniform", 1e12)}}


class Characters:
    """A tokenizer of whatever: every character is a token."""

    def __init__(self, size):
        self.size = size

    def __call__(self, text, **_):
        return {"input_ids": [ord(c) % self.size for c in text]}


class Timed(running.Runner):
    """Counts the seconds from the first token of a call to its last row in the sink, and goes through to the last
    layer, as the bare forward pass does."""

    spent = 0.0

    def run(self, sequences):
        self.stops = False
        synchronize(self.device)
        begin = time.perf_counter()
        super().run(sequences)
        synchronize(self.device)
        Timed.spent += time.perf_counter() - begin


def synchronize(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Bench:
    def __init__(self, args, shape):
        self.device, self.args = torch.device(args.device), args
        config = transformers.LlamaConfig(**SHAPES[shape], max_position_embeddings=1 << 20, rope_theta=5e5)
        torch.manual_seed(0)
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.bfloat16)
        with self.device:
            self.model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=args.attn).eval()
        torch.set_default_dtype(before)
        self.decoder = decoder_of(self.model)
        self.size = config.vocab_size

    def texts(self, count, tokens):
        generator = torch.Generator().manual_seed(1)
        top = min(self.size, 50000) - 1
        return ["".join(map(chr, (1 + torch.randint(0, top, (tokens,), generator=generator)).tolist())).replace(
            "\r", " ") for _ in range(count)]

    def peak(self):
        if self.device.type != "cuda":
            return float("nan")
        return torch.cuda.max_memory_allocated(self.device) / 2**30

    def fresh(self):
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(self.device)

    def bare(self, texts):
        ids = [torch.tensor([Characters(self.size)(text)["input_ids"]]) for text in texts]
        batch = self.args.batch
        self.fresh()
        synchronize(self.device)
        begin = time.perf_counter()
        with torch.no_grad():
            for one in ids:
                one = one.to(self.device)
                if one.shape[1] <= batch:
                    self.decoder(input_ids=one, use_cache=False)
                    continue
                cache = running.new_cache(self.decoder)
                for start in range(0, one.shape[1], batch):
                    self.decoder(input_ids=one[:, start:start + batch], past_key_values=cache, use_cache=True)
        synchronize(self.device)
        return time.perf_counter() - begin, self.peak()

    def captured(self, texts, sink):
        self.fresh()
        Timed.spent = 0.0
        with tempfile.TemporaryDirectory(dir=self.args.scratch) as folder:
            with qkscope.Sink(folder + "/capture", groups=16 if "keep" in sink else 0, **sink) as s:
                ran = bridge.capture(self.model, Characters(self.size), texts, s, batch_tokens=self.args.batch, padding=False,
                                     progress=False)
            return Timed.spent, self.peak(), ran.tokens / ran.seconds

    def compare(self, count, tokens, rounds):
        """Rows of the table: tokens a second, overhead, peak memory."""
        texts, found = self.texts(count, tokens), {name: [] for name in ("bare", *WAYS)}
        self.bare(texts[:1])
        self.captured(texts[:1], WAYS["moments"])
        for _ in range(rounds):
            found["bare"].append(self.bare(texts))
            for name, sink in WAYS.items():
                found[name].append(self.captured(texts, sink))
        rows = []
        for name, runs in found.items():
            ratios = [run[0] / bare[0] - 1 for run, bare in zip(runs, found["bare"])]
            rows.append({"way": name, "texts": count, "tokens": tokens,
                         "tokens_per_second": count * tokens / statistics.median(run[0] for run in runs),
                         "overhead": statistics.median(ratios), "peak_gib": max(run[1] for run in runs),
                         "whole_run": statistics.median(run[2] for run in runs) if name != "bare" else None})
        return rows


def show(rows):
    print("| texts | | tokens/s | over the forward pass | tokens/s of the whole run | peak memory of the device |\n"
          "|---|---|--:|--:|--:|--:|")
    for row in rows:
        whole = f"{row['whole_run']:,.0f}" if row["whole_run"] else ""
        print(f"| {row['texts']} of {row['tokens']:,} tokens | {row['way']} | {row['tokens_per_second']:,.0f} | "
              f"{100 * row['overhead']:+.1f} % | {whole} | {row['peak_gib']:.2f} GiB |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--attn", default="sdpa")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=["1b", "8b"])
    parser.add_argument("--texts", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--batch", type=int, default=8192, help="tokens of a chunk of a longer text")
    parser.add_argument("--long", type=int, default=131072, help="tokens of a text in chunks; 0: none")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scratch", help="folder for captures; memory is best")
    parser.add_argument("--json")
    args = parser.parse_args()
    bridge.Runner = Timed
    if args.device == "cpu":
        bridge.input_device = lambda decoder: torch.device("xpu")
        bridge.sums_on = lambda device: True
    name = torch.cuda.get_device_name() if args.device.startswith("cuda") else args.device
    print(f"{name}, torch {torch.__version__}, transformers {transformers.__version__}, {args.attn}, bfloat16")
    found = {}
    for shape in args.shapes:
        bench = Bench(args, shape)
        print(f"\n{shape}: {sum(p.numel() for p in bench.model.parameters()) / 1e9:.2f} billion parameters\n")
        found[shape] = bench.compare(args.texts, args.tokens, args.rounds)
        if args.long:
            found[shape] += bench.compare(1, args.long, max(1, args.rounds // 2))
        show(found[shape])
        del bench
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
