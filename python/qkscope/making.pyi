# SPDX-License-Identifier: Apache-2.0
# Written by python/make_stubs.py (make reference).
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from .captures import Capture
from .outcomes import Export


def synth(
    output: str | os.PathLike[str],
    *,
    model_name: str | None = None,
    layers: int = 2,
    query_heads: int = 4,
    q_per_kv_group: int = 2,
    dim: int = 64,
    examples: int = 4,
    rows: int = 1000,
    buckets: int = 16,
    bucket_width: int = 128,
    position_offset: int = 0,
    sliding_window: int = 0,
    seed: int = 0,
    bfloat16: bool = True,
    token_strings: bool = False,
    r_q: float | None = None,
    r_k: float | None = None,
    slope_q: float | None = None,
    slope_k: float | None = None,
    separation: float | None = None,
    mean_offset: float | None = None,
    scale: float | None = None,
    exponent: float | None = None,
    rope_planes: int = 2,
    rope_theta: float = 10000.0,
    rope_amplitude: float | None = None,
    truth_matrices: bool = False,
    layout: Literal['heads', 'packed'] = 'heads',
    shards: int = 1,
    codec: Literal['zstd', 'none', 'snappy', 'gzip', 'brotli', 'lz4'] = 'zstd',
    level: int = 0,
    encoding: Literal['auto', 'plain', 'dictionary', 'split'] = 'auto',
    row_group_rows: int = 65536,
    page_bytes: int = 1048576,
    page_version: int = 1,
    threads: int | None = None,
    frequencies: Iterable[float] | None = None,
    progress: bool | Callable[[str, int, int | None], Any] | None = None,
) -> Capture:
    """Writes a capture of made-up heads whose answers are known, and truth.json beside them: the means, drifts,
    covariances and frequencies that the vectors were drawn from. Returns it, open.

    What no keyword gives is drawn for every head from the seed; the same seed gives the same bytes. See docs/synth.md.

        capture = qkscope.synth("made-up", layers=4, dim=128, r_k=0.9, seed=7)
        qkscope.pca(capture).heads["category"]

    Raises ExistsError where output is not empty, ArgumentError for a value out of range. After a failure or Ctrl-C
    capture.json says that the capture is not complete.

    Shape:
        model_name
            name in capture.json (None: synth)
        layers = 2
            layers (1 to 1000)
        query_heads = 4
            query heads per layer (1 to 1000)
        q_per_kv_group = 2
            query heads per key head (1 to 1000)
        dim = 64
            head dimension (2 to 4096)
    Rows:
        examples = 4
            texts (0 to 1000000000)
        rows = 1000
            rows per text and head (1 to 1000000000 rows)
        buckets = 16
            position buckets (1 to 1000000000)
        bucket_width = 128
            tokens in a bucket (1 to 1000000000 tokens)
        position_offset = 0
            position of the first token (0 to 2000000000 tokens)
        sliding_window = 0
            window in tokens (0 to 2000000000 tokens)
        seed = 0
            seed of everything drawn
        bfloat16 = True
            False: do not round to bfloat16
        token_strings = False
            add the column token_str
    Model:
        r_q
            correlation of queries with position along the drift (-0.999999 to 0.999999; None:
            drawn)
        r_k
            the same of keys (-0.999999 to 0.999999; None: drawn)
        slope_q
            drift of queries per token (-1000000 to 1000000; None: as r-q demands)
        slope_k
            the same of keys (-1000000 to 1000000; None: as r-k demands)
        separation
            distance of the means of queries and keys, in standard deviations of content (0 to
            1000000 sd of content; None: drawn)
        mean_offset
            distance of the mean key from zero, in standard deviations of content (0 to 1000000 sd
            of content; None: drawn)
        scale
            standard deviation of content per dimension (1e-06 to 1000000; None: drawn)
        exponent
            decay of the eigenvalues, j^-E (0 to 20; None: drawn)
        rope_planes = 2
            planes that turn with position (0 to 2047)
        rope_theta = 10000.0
            theta of RoPE: base of the frequencies of these planes (1 to 1000000000000)
        rope_amplitude
            their radius, in standard deviations of content (0 to 1000000 sd of content; None:
            drawn)
        frequencies
            radians per token, one plane each (None: by rope_theta)
    Files:
        truth_matrices = False
            add full covariance bases to truth.json
        layout = 'heads'
            a file a head (heads), or one a layer and kind (packed) ('heads' or 'packed')
        shards = 1
            files per head, or of packed ones per layer and kind (1 to 10000)
        codec = 'zstd'
            compression of the files ('zstd' or 'none' or 'snappy' or 'gzip' or 'brotli' or 'lz4')
        level = 0
            level of the codec (0 to 22)
        encoding = 'auto'
            of vectors; auto: the smaller of dictionary and split ('auto' or 'plain' or 'dictionary'
            or 'split')
        row_group_rows = 65536
            rows per row group (1 to 1073741824 rows)
        page_bytes = 1048576
            bytes per page (1 to 1073741824 bytes)
        page_version = 1
            data pages of version 1 or 2 (1 to 2)
    Running:
        threads
            number of threads; results do not depend on it (1 to 4096; None: all processors)
        progress
            None: a bar where there is tqdm and somebody to see it; True; False: none; or a function
            of (what, done, total), which may return False to stop
    """

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
