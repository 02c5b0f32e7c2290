# SPDX-License-Identifier: Apache-2.0
"""A transformers model on several workers of Ray: the bytes of one process."""
import subprocess
from pathlib import Path

import pytest

from hf_environment import hf_python, hf_run

pytestmark = pytest.mark.test_all


def test_workers(tmp_path):
    if subprocess.run([hf_python(), "-c", "import ray"], capture_output=True, timeout=120).returncode:
        pytest.skip("Ray is not in that environment")
    hf_run(Path(__file__).with_name("hf_on_ray.py"), tmp_path)
    one, other = ({str(p.relative_to(tmp_path / name)): p.read_bytes() for p in (tmp_path / name).rglob("*") if p.is_file()}
                  for name in ("ray", "alone"))
    assert one == other and "moments/l04.safetensors" in one
