# SPDX-License-Identifier: Apache-2.0
# What cffi writes from the public headers (python/make_binding.py).
from typing import Any

ffi: Any
lib: Any
