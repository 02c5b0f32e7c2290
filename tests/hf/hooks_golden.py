# SPDX-License-Identifier: Apache-2.0
"""What hooks in a model gave the sink, and what it made of it: tests/data/hf. Written by

    python tests/hf/hooks_golden.py

where `make hf-env` has made its environment, from a random Llama of 16 dimensions in bfloat16."""
import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

GOLDEN = Path(__file__).resolve().parents[1] / "data" / "hf"
FACTS = ("model", "q_per_kv_group", "num_layers", "stage", "heads", "keep", "rope_frequencies", "examples")


def collected(capture):
    """All numbers of a capture by name, and its facts."""
    made = {}
    for file in sorted(capture.rglob("data.parquet")):
        table = pq.read_table(file)
        for column in ("bucket", "example_id", "position"):
            made[f"{file.parent.name}.{column}"] = table[column].to_numpy().astype(np.int32)
        vectors = table["vector"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        made[f"{file.parent.name}.vector"] = vectors.astype(np.float32).reshape(len(table), -1)
    for file in sorted(capture.rglob("moments/*.safetensors")):
        from safetensors.numpy import load_file
        made |= {f"{file.stem}.{name}": values for name, values in load_file(file).items()}
    manifest = json.loads((capture / "capture.json").read_text())
    return made, {name: manifest.get(name) for name in FACTS}


def main():
    sys.path[:0] = [str(Path(__file__).resolve().parents[1])]
    from hf_environment import hf_run
    from safetensors.numpy import save_file
    with tempfile.TemporaryDirectory() as scratch:
        folder, facts = Path(scratch), {}
        hf_run(Path(__file__).with_name("hf_runs.py"), folder, "hooks")
        GOLDEN.mkdir(exist_ok=True)
        for keep in ("rows", "moments"):
            for stage in ("post", "pre"):
                made, facts[f"{keep}-{stage}"] = collected(folder / "hooks" / keep / stage)
                save_file(made, GOLDEN / f"{keep}-{stage}.safetensors")
        shutil.copyfile(folder / "hooks" / "given.safetensors", GOLDEN / "given.safetensors")
        (GOLDEN / "facts.json").write_text(json.dumps(facts) + "\n")


if __name__ == "__main__":
    main()
