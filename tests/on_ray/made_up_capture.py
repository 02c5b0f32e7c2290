# SPDX-License-Identifier: Apache-2.0
"""A capture of made-up vectors, which follow from the number of the text: one process makes it, or workers of Ray."""
import os
import random
import signal
from array import array

TEXTS, TOKENS, LAYERS, HEADS, DIM = 40, 96, 2, {"q": 2, "k": 1}, 8


def model(qk):
    return qk.Model("made up", num_layers=LAYERS, num_q_heads=HEADS["q"], num_k_heads=HEADS["k"], head_dim=DIM)


def vectors(text, layer, kind):
    """[heads, tokens, dim]"""
    draw = random.Random(f"{text} {layer} {kind}").random
    shape = (HEADS[kind], TOKENS, DIM)
    numbers = array("f", (draw() - 0.5 for _ in range(shape[0] * shape[1] * shape[2])))
    return memoryview(numbers).cast("B").cast("f", shape)


def fill(sink, grave=None):
    """Puts every text that the sink wants. The first process that has put two dies, where there is no file `grave` yet."""
    import qkscope
    sink.open(model(qkscope), TEXTS)  # a block is a text
    for count, text in enumerate(filter(sink.wants, range(TEXTS))):
        with sink.text(text, TOKENS):
            for layer in range(LAYERS):
                for kind in HEADS:
                    sink.put(text, layer, kind, vectors(text, layer, kind))
        if grave and count == 1 and not os.path.exists(grave):
            try:
                os.close(os.open(grave, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)
