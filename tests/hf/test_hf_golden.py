# SPDX-License-Identifier: Apache-2.0
"""The sink's side of the bridge, without torch: what hooks in a model gave it, put again, makes what it made then
(hooks_golden.py)."""
import json
import sys
from pathlib import Path

import numpy as np
import pytest

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")

from safetensors.numpy import load_file  # noqa: E402

sys.path.append(str(Path(__file__).parent))
from hooks_golden import GOLDEN, collected  # noqa: E402

FACTS = json.loads((GOLDEN / "facts.json").read_text())
LENGTHS = [16, 17, 3]


def given():
    """Vectors by name, in float32: NumPy has no bfloat16, of which each number is the upper half of one."""
    data = (GOLDEN / "given.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    assert {part["dtype"] for name, part in header.items() if name != "__metadata__"} == {"BF16"}
    made = {}
    for name, part in header.items():
        if name != "__metadata__":
            begin, end = part["data_offsets"]
            half = np.frombuffer(data[8 + size + begin:8 + size + end], "<u2").astype(np.uint32)
            made[name] = (half << 16).view(np.float32).reshape(part["shape"])
    return made


def feed(folder, keep, change=lambda x: x):
    frequencies = FACTS["rows-post"]["rope_frequencies"]
    model = qk.Model("tiny", 2, 4, 2, 4, frequencies=[frequencies["0"], frequencies["1"]])
    vectors = given()
    with qk.Sink(folder, keep=keep, stage="both", sampler=qk.Sampler("log_uniform", 4, 4), model=model,
                 texts=len(LENGTHS), tokens=sum(LENGTHS)) as sink:
        for number, tokens in enumerate(LENGTHS):
            with sink.text(number, tokens):
                for name, x in vectors.items():
                    text, layer, kind, stage = name.split(".")
                    if int(text) == number:
                        sink.put(number, int(layer), kind, change(x), before_rope=stage == "pre")


@pytest.mark.parametrize("change", [lambda x: x, lambda x: x * np.float32(1 + 1e-6)],
                         ids=["as given", "another"])
@pytest.mark.parametrize("keep", ["rows", "moments"])
def test_what_hooks_gave(tmp_path, keep, change):
    feed(tmp_path / "c", keep, change)
    same = True
    for stage in ("post", "pre"):
        made, facts = collected(tmp_path / "c" / stage)
        wanted = load_file(GOLDEN / f"{keep}-{stage}.safetensors")
        assert made.keys() == wanted.keys() and facts == FACTS[f"{keep}-{stage}"]
        for name, values in wanted.items():
            assert made[name].dtype == values.dtype and made[name].shape == values.shape
            if values.dtype == np.float64:  # sums: other processors round otherwise
                same &= bool((np.abs(made[name] - values) <= 1e-13 * np.abs(values).max(initial=0)).all())
            else:
                same &= made[name].tobytes() == values.tobytes()
    assert same == (change(np.float32(1)) == 1)
