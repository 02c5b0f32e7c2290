# SPDX-License-Identifier: Apache-2.0
"""Two workers of Ray capture a transformers model into FOLDER/ray, one process alone into FOLDER/alone."""
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import qkscope

MODEL = Path(__file__).resolve().parents[2] / "examples" / "kjv-tiny"
SINK = {"keep": "moments,reservoir=8"}


def load():
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    import qkscope.hf
    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(MODEL / "step-700", dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(MODEL / "step-700")
    texts = [json.loads(line)["text"] for line in (MODEL / "passages.jsonl").read_text(encoding="utf-8").splitlines()][:12]
    return lambda sink: qkscope.hf.capture(model, tokenizer, texts, sink, progress=False)


def main(folder):
    if importlib.util.find_spec("ray") is None:
        sys.exit(3)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import qkscope.ray
    made = qkscope.ray.capture(load, folder + "/ray", workers=2, shards=4, progress=False, **SINK)
    with qkscope.Sink(folder + "/alone", **SINK) as sink:
        load()(sink)
    assert made == sink.outcome
    run_page(folder)


def run_page(folder):
    """The program in docs/cluster.md, word for word, in a process of its own and on the processor."""
    for name in ("examples", "docs"):
        (Path(folder) / name).symlink_to(MODEL.parents[1] / name)
    page = (MODEL.parents[1] / "docs" / "cluster.md").read_text(encoding="utf-8")
    program, = (block for block in re.findall(r"^```python\n(.*?)^```", page, re.M | re.S) if "def load():" in block)
    path = Path(folder) / "page.py"
    path.write_text(program.replace('.to("cuda")', ""), encoding="utf-8")
    done = subprocess.run([sys.executable, path.name], cwd=folder, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-4000:]
    assert (Path(folder) / "capture" / "capture.json").exists()


if __name__ == "__main__":
    main(*sys.argv[1:])
