# SPDX-License-Identifier: Apache-2.0
"""The Python package that is built beside the program under test. A test file begins with

    qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")
"""
import os
import sys
from pathlib import Path

BUILD = Path(os.environ.get("QKSCOPE_BUILD", Path(__file__).parents[2] / "build")).resolve()
if (BUILD / "python" / "qkscope" / "_library.abi3.so").exists():
    sys.path.insert(0, str(BUILD / "python"))
