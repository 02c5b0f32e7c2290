# SPDX-License-Identifier: Apache-2.0
"""A small address space: a run ends soon, with its tables or with a word about memory. (A BLAS
that cannot get its buffer tries for ever; so there is none.)"""
import resource

import pytest
from conftest import EXAMPLE

pytestmark = pytest.mark.test_all


@pytest.mark.parametrize("megabytes", [100, 30, 22])
def test_ends_whatever_the_limit(qkscope, sanitized, tmp_path, megabytes):
    if sanitized:
        pytest.skip("sanitizers need an address space of terabytes")
    size = megabytes * 1000 * 1000
    # Once in a hundred runs the C library finds an aligned place for 64 MB of addresses, for the blocks of another
    # thread, and little is left of 100: that is luck, and not what is tested.
    run = qkscope("pca", EXAMPLE, "-o", tmp_path / "o", "--threads", "4", "--quiet", timeout=600,
                  env={"GLIBC_TUNABLES": "glibc.malloc.arena_max=1"},
                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)))
    if run.code == 127:
        pytest.skip("too little for the program's own libraries")
    assert run.code in (0, 1, 3), run
    assert (run.code == 0) == ("memory" not in run.err.lower()), run
    if megabytes >= 50:
        assert run.code == 0
