# SPDX-License-Identifier: Apache-2.0
"""A capture from NumPy arrays: what a program does that runs a model itself. The model and its vectors are made up.

    python sink.py capture && qkscope analyze capture
"""
import sys

import numpy as np

import qkscope

HEADS, DIM, TEXTS, TOKENS = {"q": 4, "k": 2}, 16, 6, 400
FREQUENCIES = 10000.0 ** (-2 * np.arange(DIM // 2) / DIM)


def vectors(text, layer, kind, positions):
    """The forward pass of one layer, as it were: [heads, positions, DIM], queries and keys drifting apart."""
    x = np.random.default_rng([text, layer, kind == "k"]).normal(size=(HEADS[kind], TOKENS, DIM))
    for head in range(HEADS[kind]):
        x[head, :, head] += 1 + (4 if kind == "q" else -4) * np.arange(TOKENS) / TOKENS
    return x[:, positions].astype(np.float32)


def main(folder, keep="rows,moments"):
    model = qkscope.Model("made up", num_layers=2, num_q_heads=4, num_k_heads=2, head_dim=DIM,
                          frequencies=[FREQUENCIES, FREQUENCIES])
    sampler = qkscope.Sampler("uniform", base_rate=48, min_bucket_size=64)
    with qkscope.Sink(folder, keep=keep, sampler=sampler, model=model, texts=TEXTS, tokens=TEXTS * TOKENS) as sink:
        for number in sink.wanted():  # not those that were run before
            with sink.text(number, TOKENS, example_id=100 + number, source="made up"):
                for layer in range(2):
                    for kind in "qk":  # only positions that are kept need leave the model
                        positions = np.asarray(sink.positions(number, layer, kind))
                        sink.put(number, layer, kind, vectors(number, layer, kind, positions), positions=positions)
    print(f"{sink.outcome.heads} heads, {sink.outcome.rows} rows, {sink.outcome.summed} of them summed")


if __name__ == "__main__":
    main(*sys.argv[1:])
