# SPDX-License-Identifier: Apache-2.0
"""What capturing costs beside the forward pass of a transformers model, on the processor.

    python bench/hf.py [--layers 12] [--rounds 5] [--tokens 4096]

in the environment of `make hf-env`, with the package on PYTHONPATH. A random Llama of 100 million parameters runs
texts of 4,096 tokens: by itself, with rows drawn by log_uniform, with moments of every row, with one row in 32 and its
attention; in turn, in processor time, the whole forward pass each (a capture else leaves off behind the last layer that it takes). Then host memory
by the number of texts.
"""
import argparse
import resource
import statistics
import tempfile
import time

import torch
import transformers

import qkscope
from qkscope.hf import bridge, running
from qkscope.hf.attention import AttentionRows


class Timed(running.Runner):
    """Counts the processor time of forward passes, and goes through to the last layer."""

    spent = 0.0

    def run(self, sequences):
        self.stops = False
        begin = time.process_time()
        super().run(sequences)
        Timed.spent += time.process_time() - begin


class TimedAttention(AttentionRows):
    """Counts the processor time of the sums of attention by themselves: less than what runs differ by."""

    spent = 0.0

    def take(self, *arguments):
        begin = time.thread_time()
        super().take(*arguments)
        TimedAttention.spent += time.thread_time() - begin


class Words:
    """A tokenizer of whatever: every character is a token."""

    def __call__(self, text, **_):
        return {"input_ids": [ord(c) % 30000 for c in text]}


def make_model(layers):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=32000, hidden_size=768, num_hidden_layers=layers, num_attention_heads=12, num_key_value_heads=4,
        intermediate_size=2560, max_position_embeddings=131072)
    return transformers.LlamaForCausalLM(config).eval()


def make_texts(count, tokens):
    generator = torch.Generator().manual_seed(1)
    return ["".join(map(chr, torch.randint(300, 20000, (tokens,), generator=generator).tolist())) for _ in range(count)]


def bare(model, texts):
    ids = [torch.tensor([Words()(text)["input_ids"]]) for text in texts]
    begin = time.process_time()
    with torch.no_grad():
        for one in ids:
            model.model(input_ids=one, use_cache=False)
    return time.process_time() - begin


def captured(model, texts, **sink):
    """Processor time of the forward passes with rows going to the sink, and of the whole call."""
    Timed.spent, begin = 0.0, time.process_time()
    with tempfile.TemporaryDirectory() as folder, qkscope.Sink(folder + "/capture", **sink) as s:
        bridge.capture(model, Words(), texts, s, progress=False)
    return Timed.spent, time.process_time() - begin


MODES = {"rows (log_uniform)": {"sampler": qkscope.Sampler("log_uniform")}, "moments": {"keep": "moments"},
         "rows, attention": {"keep": "rows,attention", "sampler": qkscope.Sampler("uniform", 4, 128)}}


def overhead(model, rounds, tokens):
    texts = make_texts(1, tokens)
    times = {name: [] for name in ["bare", *MODES]}
    shares = []
    bare(model, texts)
    for _ in range(rounds):
        times["bare"].append(bare(model, texts))
        for name, sink in MODES.items():
            TimedAttention.spent = 0.0
            times[name].append(captured(model, texts, **sink)[0])
            if TimedAttention.spent:
                shares.append(TimedAttention.spent / (times[name][-1] - TimedAttention.spent))
    alone = statistics.median(times["bare"])
    print(f"forward pass of {tokens} tokens: {alone:.2f} s of processor time, {tokens / alone:.0f} tokens/s")
    for name in MODES:
        ratios = [a / b - 1 for a, b in zip(times[name], times["bare"])]
        print(f"{name:20s} {100 * statistics.median(ratios):+6.1f} %  "
              f"({', '.join(f'{100 * r:+.1f}' for r in ratios)})")
    print(f"sums of attention, over the rest of the same runs: {100 * statistics.median(shares):.1f} %  "
          f"({', '.join(f'{100 * share:.1f}' for share in shares)})")


def memory(layers):
    """Largest resident set as texts become more."""
    model = make_model(layers)
    for name, sink in MODES.items():
        for count in (4, 16, 64):
            captured(model, make_texts(count, 256), **sink)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"{name:20s} {count:4d} texts: at most {peak:.0f} MiB so far")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--memory", action="store_true", help="only memory")
    args = parser.parse_args()
    bridge.Runner, bridge.AttentionRows = Timed, TimedAttention
    torch.set_num_threads(1)
    if not args.memory:
        model = make_model(args.layers)
        print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.0f} million parameters, one thread")
        overhead(model, args.rounds, args.tokens)
    memory(2)


if __name__ == "__main__":
    main()
