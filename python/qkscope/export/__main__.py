# SPDX-License-Identifier: Apache-2.0
"""python -m qkscope.export: the program qkscope-export."""
import sys

from .cli import main

sys.exit(main())
