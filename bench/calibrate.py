# SPDX-License-Identifier: Apache-2.0
"""`qkscope calibrate` of a model of 8B parameters: Llama 3.1's shape, weights drawn at random in Q8_0 (8.1 GB in a GGUF file), the vocabulary that of
another GGUF file. The forecast of seconds and memory, and what they come to. Prints Markdown; minutes.
`python bench/calibrate.py BUILD --vocabulary SmolLM2.gguf`. It needs the `gguf` package."""
import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter
from timed import measured

LAYERS, HIDDEN, INNER, HEADS, KEY_HEADS, DIM = 32, 4096, 14336, 32, 8, 128
SPREAD = 0.02 / 73  # the scale of a block whose int8 are drawn uniformly: weights of about 0.02


def random_blocks(rng, rows, columns):
    """Q8_0: blocks of 32 numbers, a float16 scale before 32 int8."""
    blocks = rng.integers(0, 256, (rows, columns // 32, 34), dtype=np.uint8)
    blocks[..., :2] = np.frombuffer(np.float16(SPREAD).tobytes(), np.uint8)
    return blocks.reshape(rows, -1)


def write_model(path, vocabulary):
    reader = GGUFReader(vocabulary)
    writer, rng = GGUFWriter(path, "llama"), np.random.default_rng(1)
    for name, value in {"block_count": LAYERS, "embedding_length": HIDDEN, "feed_forward_length": INNER, "attention.head_count": HEADS,
                        "attention.head_count_kv": KEY_HEADS, "rope.dimension_count": DIM, "context_length": 131072}.items():
        writer.add_uint32(f"llama.{name}", value)
    writer.add_float32("llama.rope.freq_base", 500000.0)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    for name, field in reader.fields.items():
        if name.startswith("tokenizer."):
            kind = field.types[0]
            if kind == GGUFValueType.ARRAY:
                writer.add_array(name, field.contents())
            else:
                writer.add_key_value(name, field.contents(), kind)
    tokens = len(reader.fields["tokenizer.ggml.tokens"].data)

    def matrix(name, rows, columns):
        writer.add_tensor(name, random_blocks(rng, rows, columns), raw_dtype=GGMLQuantizationType.Q8_0)

    def ones(name):
        writer.add_tensor(name, np.ones(HIDDEN, np.float32))

    matrix("token_embd.weight", tokens, HIDDEN)
    matrix("output.weight", tokens, HIDDEN)
    ones("output_norm.weight")
    for layer in range(LAYERS):
        at = f"blk.{layer}."
        ones(at + "attn_norm.weight")
        ones(at + "ffn_norm.weight")
        for name, rows, columns in (("attn_q", HEADS * DIM, HIDDEN), ("attn_k", KEY_HEADS * DIM, HIDDEN), ("attn_v", KEY_HEADS * DIM, HIDDEN),
                                    ("attn_output", HIDDEN, HEADS * DIM), ("ffn_gate", INNER, HIDDEN), ("ffn_up", INNER, HIDDEN),
                                    ("ffn_down", HIDDEN, INNER)):
            matrix(f"{at}{name}.weight", rows, columns)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("--vocabulary", type=Path, required=True, help="a GGUF file")
    parser.add_argument("--model", type=Path, help="where the model is, or is written to")
    parser.add_argument("--tokens", type=int, default=1024, help="of the text")
    args = parser.parse_args()
    package = str(args.build.resolve() / "python")
    os.environ["PYTHONPATH"] = package
    sys.path.insert(0, package)
    from qkscope.export.calibrate import BUNDLED
    with tempfile.TemporaryDirectory() as work:
        model = args.model or Path(work) / "model.gguf"
        if not model.exists():
            write_model(model, args.vocabulary)
        text = Path(work) / "text.jsonl"
        text.write_text(json.dumps({"text": " ".join(json.loads(line)["text"] for line in BUNDLED.read_text("utf-8").splitlines())}) + "\n")
        command = [sys.executable, "-c", "from qkscope.export.calibrate import main; main()", model, text, "--for", "triattention", "-o",
                   Path(work) / "out", "--long", "cut", "--max-length", str(args.tokens), "--no-check"]
        forecast, said = measured(args.build, [*command, "--dry-run"])
        run, _ = measured(args.build, command)
    print("| | seconds | processor seconds | MiB |\n|---|--:|--:|--:|")
    for name, figures in (("forecast", forecast), ("run", run)):
        print(f"| {name} | {figures['seconds']:.0f} | {figures['processor_seconds']:.0f} | {figures['peak_mib']:.0f} |")
    print(f"\nIt says before: {said.splitlines()[-1]}")


if __name__ == "__main__":
    main()
