# SPDX-License-Identifier: Apache-2.0
# Written by python/make_stubs.py (make reference).
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from .captures import Capture
from .outcomes import Export


def export(
    format: str,
    results: Any,
    output: str | os.PathLike[str],
    *,
    force: bool = False,
    dataset: str | None = None,
    revision: str | None = None,
    offline: bool = False,
    split: str | None = None,
    q_per_kv_group: int | None = None,
    from_position: int | None = None,
    where: str | None = None,
    sort: str | None = None,
    top: int | None = None,
    model: str | None = None,
    sink: int = 128,
    recent: int = 256,
    length: int = 500,
    threads: int | None = None,
    progress: bool | Callable[[str, int, int | None], Any] | None = None,
) -> Export:
    """Writes what is known of heads into files that other programs read: "kvpress-stats", "duo-attention", "q-filters" or
    "transformer-lens".

    results is a capture (a folder, "org/name" on the Hugging Face Hub, or what qkscope.open returned), the folder of an
    ablation, or results; docs/export.md says which format takes which. output is a folder, which gets all files or none.

        qkscope.export("transformer-lens", qkscope.pca("examples/kjv-tiny-capture"), "heads", where="r_q > 0.7")

    Raises ArgumentError for a value that a keyword does not take, NotFoundError for a source, a head or a change that is not
    there, ExistsError for files that are there, unless `force` is given, DataError for what no such file can be made of.

    Output:
        force = False
            replace files that output has of an export
        dataset
            kvpress-stats: what config.json calls the texts (None: no name)
    Input:
        revision
            branch, tag or commit of a dataset on the Hub (None: main)
        offline = False
            fetch nothing from the Hub: take what is in the cache, as with HF_HUB_OFFLINE=1
        split
            sub-folder, when the capture holds several captures (None: found by looking)
        q_per_kv_group
            query heads per key head (1 to 65535; None: from capture.json, else inferred)
    Heads and rows:
        from_position
            leave out rows of positions below K (0 to 1e+15; None: 4 for kvpress-stats, else 0)
        where
            transformer-lens: heads of which this holds, as in qkscope heads (None: all)
        sort
            transformer-lens: order by this column or abs(COLUMN); -COLUMN: descending (None: layer
            and head)
        top
            transformer-lens: the first N of them (1 to 1000000000; None: all)
    DuoAttention:
        model
            whose RoPE turns the means: a folder or a name of the Hub that is cached (None: as the
            capture tells)
        sink = 128
            first keys that a head without far keys sees (0 to 1000000000 tokens)
        recent = 256
            latest keys that it sees (1 to 1000000000 tokens)
        length = 500
            length of the text that means are predicted for (2 to 1000000 tokens)
    Running:
        threads
            number of threads; results do not depend on it (1 to 4096; None: all processors)
        progress
            None: a bar where there is tqdm and somebody to see it; True; False: none; or a function
            of (what, done, total), which may return False to stop
    """
