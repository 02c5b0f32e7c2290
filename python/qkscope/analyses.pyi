# SPDX-License-Identifier: Apache-2.0
# Written by python/make_stubs.py (make reference).
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from .outcomes import Losses
from .results import Results
from .tables import Table


def analyze(
    capture: Any,
    *,
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
    model_name: str | None = None,
    revision: str | None = None,
    offline: bool = False,
    split: str | None = None,
    q_per_kv_group: int | None = None,
    strict: bool = False,
    allow_missing: bool = False,
    layers: int | str | Iterable[int] | None = None,
    heads: int | str | Iterable[int | str | tuple[int, int]] | None = None,
    max_samples: int | None = None,
    from_position: int = 0,
    allow_repeats: bool = False,
    sample_heads: int | None = None,
    seed: int = 0,
    ci: float | None = None,
    components: int = 10,
    taxonomy_low: float = 0.3,
    taxonomy_high: float = 0.7,
    lda: bool = False,
    lengths: str | None = None,
    b_axis: Literal['pairs', 'centroid'] = 'pairs',
    pairs: int | None = None,
    convention: Literal['exact', 'published'] = 'exact',
    max_pairs: int = 65536,
    bucket_width: float | None = None,
    ks_alpha: float = 0.01,
    buckets: int | Literal['capture'] | None = None,
    max_distance: str | None = None,
    attention_scale: float | None = None,
    threads: int | None = None,
    complement: bool = False,
    progress: bool | Callable[[str, int, int | None], Any] | None = None,
) -> Results:
    """The analyses of pca, rotate and plasticity, and attention where the capture keeps it, in one run, which reads
    each file once.

    capture is a folder with a capture, "org/name" of a dataset on the Hugging Face Hub, or what qkscope.open
    returned. The arguments are the options of `qkscope analyze`. Without `output` the results are kept in memory and
    in a private folder, which goes with them.

        results = qkscope.analyze("examples/kjv-tiny-capture", layers="0-2", ci=95)
        results.heads.to_pandas()
        results.figure("pca-02-rq-rk-scatter")

    Raises NotFoundError (a FileNotFoundError) for a capture that is not there, ArgumentError (a ValueError) for a value
    that a keyword does not take, DataError for files that are damaged or hold too little, Cancelled or
    KeyboardInterrupt where it was stopped: then nothing is written. Where some heads fail, the others' results are
    returned with a PartialWarning, and results.failed names them (results.check() raises PartialError then); where all
    fail, the first failure is raised.

    Output:
        output
            folder for the tables
        force = False
            replace the results that output holds, even those of another capture
        model_name
            name in the model column (None: from capture.json, else of the dataset)
    Input:
        revision
            branch, tag or commit of a dataset on the Hub (None: main)
        offline = False
            fetch nothing from the Hub: take what is in the cache, as with HF_HUB_OFFLINE=1
        split
            sub-folder, when the capture holds several captures (None: found by looking)
        q_per_kv_group
            query heads per key head (1 to 65535; None: from capture.json, else inferred)
        strict = False
            fail where the group size is a guess, or does not fit the heads or capture.json
        allow_missing = False
            leave out missing heads, and query heads without their key head
    Heads and rows:
        layers
            only these layers (such as 3, [0, 2] or "0,2,5-9"; None: all)
        heads
            only these query heads: 2:1,14-23:*, 5 (of every layer), @FILE (or a list such as [(2,
            1), 5]; None: all)
        max_samples
            only the first N rows of each head (1 to 1e+15 rows; None: all)
        from_position = 0
            leave out rows of positions below K (0 to 1e+15)
        allow_repeats = False
            take rows whose text and position are there more than once
        sample_heads
            draw N heads at random, as Python's random.Random(S).sample does (1 to 1000000000; None:
            all)
        seed = 0
            seed of every draw
    Intervals:
        ci
            confidence intervals over examples, e.g. 95 (1 to below 100; None: none)
    PCA:
        components = 10
            principal components per head (1 to 4096)
        taxonomy_low = 0.3
            lower taxonomy threshold on |r| (0 to 1)
        taxonomy_high = 0.7
            upper taxonomy threshold on |r| (0 to 1)
        lda = False
            fill lda_accuracy in heads.csv (reads the rows twice)
        lengths
            fill lengths.csv: categories as if texts ended after L tokens: 256,1024,4096 (None:
            none)
    Rotation:
        b_axis = 'pairs'
            axis b: pairs (the largest differences of queries and keys, at a right angle to a) or
            centroid (the difference of their means) ('pairs' or 'centroid')
        pairs
            write complement.csv, with N planes at most (1 to 2048; None: none; 30 with complement)
        complement = False
            compute complement.csv, too: the planes of what is left, and how they turn
    Plasticity:
        convention = 'exact'
            published: signs of vectors and sliding window as in the original tool ('exact' or
            'published')
        max_pairs = 65536
            most pairs in a cell: where there are more, N are drawn; 0: no limit (0 to 1e+15)
        bucket_width
            tokens per bin of head_distance.csv (0.001 to 1000000000000 tokens; None: the buckets')
        ks_alpha = 0.01
            p-values below P count in q_noise_frac_ks_p_lt_alpha (0 to 1)
        buckets
            N position buckets of equal width, or capture: those of the capture (2 to 1024; None:
            the capture's if there are at most 32, else 32)
        max_distance
            only pairs of keys within N tokens, or N% of their text (None: all)
    Attention:
        attention_scale
            factor on scores where attention is predicted, or computed from rows (0 to 1000000;
            None: the model's, as capture.json has it; else 1 over the root of the dimension)
    Running:
        threads
            number of threads; results do not depend on it (1 to 4096; None: all processors)
        progress
            None: a bar where there is tqdm and somebody to see it; True; False: none; or a function
            of (what, done, total), which may return False to stop
    """

def pca(
    capture: Any,
    *,
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
    model_name: str | None = None,
    revision: str | None = None,
    offline: bool = False,
    split: str | None = None,
    q_per_kv_group: int | None = None,
    strict: bool = False,
    allow_missing: bool = False,
    layers: int | str | Iterable[int] | None = None,
    heads: int | str | Iterable[int | str | tuple[int, int]] | None = None,
    max_samples: int | None = None,
    from_position: int = 0,
    allow_repeats: bool = False,
    sample_heads: int | None = None,
    seed: int = 0,
    ci: float | None = None,
    components: int = 10,
    taxonomy_low: float = 0.3,
    taxonomy_high: float = 0.7,
    lda: bool = False,
    lengths: str | None = None,
    kinds: str | Iterable[str] | None = None,
    threshold: float = 0.3,
    threads: int | None = None,
    progress: bool | Callable[[str, int, int | None], Any] | None = None,
) -> Results:
    """Combined PCA of queries and keys, position correlations, categories of heads: tables qk and heads.

    With `kinds`, queries and keys are fitted separately: table correlations. Otherwise as analyze.

        qkscope.pca("examples/kjv-tiny-capture").heads["category"]

    Output:
        output
            folder for the tables
        force = False
            replace the results that output holds, even those of another capture
        model_name
            name in the model column (None: from capture.json, else of the dataset)
    Input:
        revision
            branch, tag or commit of a dataset on the Hub (None: main)
        offline = False
            fetch nothing from the Hub: take what is in the cache, as with HF_HUB_OFFLINE=1
        split
            sub-folder, when the capture holds several captures (None: found by looking)
        q_per_kv_group
            query heads per key head (1 to 65535; None: from capture.json, else inferred)
        strict = False
            fail where the group size is a guess, or does not fit the heads or capture.json
        allow_missing = False
            leave out missing heads, and query heads without their key head
    Heads and rows:
        layers
            only these layers (such as 3, [0, 2] or "0,2,5-9"; None: all)
        heads
            only these query heads: 2:1,14-23:*, 5 (of every layer), @FILE (or a list such as [(2,
            1), 5]; None: all)
        max_samples
            only the first N rows of each head (1 to 1e+15 rows; None: all)
        from_position = 0
            leave out rows of positions below K (0 to 1e+15)
        allow_repeats = False
            take rows whose text and position are there more than once
        sample_heads
            draw N heads at random, as Python's random.Random(S).sample does (1 to 1000000000; None:
            all)
        seed = 0
            seed of every draw
    Intervals:
        ci
            confidence intervals over examples, e.g. 95 (1 to below 100; None: none)
    PCA:
        components = 10
            principal components per head (1 to 4096)
        taxonomy_low = 0.3
            lower taxonomy threshold on |r| (0 to 1)
        taxonomy_high = 0.7
            upper taxonomy threshold on |r| (0 to 1)
        lda = False
            fill lda_accuracy in heads.csv (reads the rows twice)
        lengths
            fill lengths.csv: categories as if texts ended after L tokens: 256,1024,4096 (None:
            none)
        kinds
            fit queries (q), keys (k) or both (q,k), each kind by itself ('q' or 'k'; None:
            together)
        threshold = 0.3
            |r| from which a component counts as high in summary.json (0 to 1)
    Running:
        threads
            number of threads; results do not depend on it (1 to 4096; None: all processors)
        progress
            None: a bar where there is tqdm and somebody to see it; True; False: none; or a function
            of (what, done, total), which may return False to stop
    """

def rotate(
    capture: Any,
    *,
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
    model_name: str | None = None,
    revision: str | None = None,
    offline: bool = False,
    split: str | None = None,
    q_per_kv_group: int | None = None,
    strict: bool = False,
    allow_missing: bool = False,
    layers: int | str | Iterable[int] | None = None,
    heads: int | str | Iterable[int | str | tuple[int, int]] | None = None,
    max_samples: int | None = None,
    from_position: int = 0,
    allow_repeats: bool = False,
    sample_heads: int | None = None,
    seed: int = 0,
    ci: float | None = None,
    b_axis: Literal['pairs', 'centroid'] = 'pairs',
    pairs: int | None = None,
    threads: int | None = None,
    complement: bool = False,
    progress: bool | Callable[[str, int, int | None], Any] | None = None,
) -> Results:
    """The planar rotation model: drift, bias towards recent keys, separation. Table rotated; with `complement` or
    `pairs`, complement. Otherwise as analyze.

        qkscope.rotate("examples/kjv-tiny-capture").rotated["bias_strength"]

    Output:
        output
            folder for the tables
        force = False
            replace the results that output holds, even those of another capture
        model_name
            name in the model column (None: from capture.json, else of the dataset)
    Input:
        revision
            branch, tag or commit of a dataset on the Hub (None: main)
        offline = False
            fetch nothing from the Hub: take what is in the cache, as with HF_HUB_OFFLINE=1
        split
            sub-folder, when the capture holds several captures (None: found by looking)
        q_per_kv_group
            query heads per key head (1 to 65535; None: from capture.json, else inferred)
        strict = False
            fail where the group size is a guess, or does not fit the heads or capture.json
        allow_missing = False
            leave out missing heads, and query heads without their key head
    Heads and rows:
        layers
            only these layers (such as 3, [0, 2] or "0,2,5-9"; None: all)
        heads
            only these query heads: 2:1,14-23:*, 5 (of every layer), @FILE (or a list such as [(2,
            1), 5]; None: all)
        max_samples
            only the first N rows of each head (1 to 1e+15 rows; None: all)
        from_position = 0
            leave out rows of positions below K (0 to 1e+15)
        allow_repeats = False
            take rows whose text and position are there more than once
        sample_heads
            draw N heads at random, as Python's random.Random(S).sample does (1 to 1000000000; None:
            all)
        seed = 0
            seed of every draw
    Intervals:
        ci
            confidence intervals over examples, e.g. 95 (1 to below 100; None: none)
    Rotation:
        b_axis = 'pairs'
            axis b: pairs (the largest differences of queries and keys, at a right angle to a) or
            centroid (the difference of their means) ('pairs' or 'centroid')
        pairs
            write complement.csv, with N planes at most (1 to 2048; None: none; 30 with complement)
        complement = False
            compute complement.csv, too: the planes of what is left, and how they turn
    Running:
        threads
            number of threads; results do not depend on it (1 to 4096; None: all processors)
        progress
            None: a bar where there is tqdm and somebody to see it; True; False: none; or a function
            of (what, done, total), which may return False to stop
    """

def plasticity(
    capture: Any,
    *,
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
    model_name: str | None = None,
    revision: str | None = None,
    offline: bool = False,
    split: str | None = None,
    q_per_kv_group: int | None = None,
    strict: bool = False,
    allow_missing: bool = False,
    layers: int | str | Iterable[int] | None = None,
    heads: int | str | Iterable[int | str | tuple[int, int]] | None = None,
    max_samples: int | None = None,
    from_position: int = 0,
    allow_repeats: bool = False,
    sample_heads: int | None = None,
    seed: int = 0,
    ci: float | None = None,
    convention: Literal['exact', 'published'] = 'exact',
    max_pairs: int = 65536,
    bucket_width: float | None = None,
    ks_alpha: float = 0.01,
    buckets: int | Literal['capture'] | None = None,
    max_distance: str | None = None,
    threads: int | None = None,
    progress: bool | Callable[[str, int, int | None], Any] | None = None,
) -> Results:
    """Does the query decide which of two keys wins? Tables head_metrics, head_profile, head_bucket_plasticity,
    head_distance, head_component_weights and model_report; tokens, where the capture has their strings. Otherwise as analyze.

        qkscope.plasticity("examples/kjv-tiny-capture", buckets=16).head_metrics["ap_overall"]

    Output:
        output
            folder for the tables
        force = False
            replace the results that output holds, even those of another capture
        model_name
            name in the model column (None: from capture.json, else of the dataset)
    Input:
        revision
            branch, tag or commit of a dataset on the Hub (None: main)
        offline = False
            fetch nothing from the Hub: take what is in the cache, as with HF_HUB_OFFLINE=1
        split
            sub-folder, when the capture holds several captures (None: found by looking)
        q_per_kv_group
            query heads per key head (1 to 65535; None: from capture.json, else inferred)
        strict = False
            fail where the group size is a guess, or does not fit the heads or capture.json
        allow_missing = False
            leave out missing heads, and query heads without their key head
    Heads and rows:
        layers
            only these layers (such as 3, [0, 2] or "0,2,5-9"; None: all)
        heads
            only these query heads: 2:1,14-23:*, 5 (of every layer), @FILE (or a list such as [(2,
            1), 5]; None: all)
        max_samples
            only the first N rows of each head (1 to 1e+15 rows; None: all)
        from_position = 0
            leave out rows of positions below K (0 to 1e+15)
        allow_repeats = False
            take rows whose text and position are there more than once
        sample_heads
            draw N heads at random, as Python's random.Random(S).sample does (1 to 1000000000; None:
            all)
        seed = 0
            seed of every draw
    Intervals:
        ci
            confidence intervals over examples, e.g. 95 (1 to below 100; None: none)
    Plasticity:
        convention = 'exact'
            published: signs of vectors and sliding window as in the original tool ('exact' or
            'published')
        max_pairs = 65536
            most pairs in a cell: where there are more, N are drawn; 0: no limit (0 to 1e+15)
        bucket_width
            tokens per bin of head_distance.csv (0.001 to 1000000000000 tokens; None: the buckets')
        ks_alpha = 0.01
            p-values below P count in q_noise_frac_ks_p_lt_alpha (0 to 1)
        buckets
            N position buckets of equal width, or capture: those of the capture (2 to 1024; None:
            the capture's if there are at most 32, else 32)
        max_distance
            only pairs of keys within N tokens, or N% of their text (None: all)
    Running:
        threads
            number of threads; results do not depend on it (1 to 4096; None: all processors)
        progress
            None: a bar where there is tqdm and somebody to see it; True; False: none; or a function
            of (what, done, total), which may return False to stop
    """

def attention(
    capture: Any,
    *,
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
    model_name: str | None = None,
    revision: str | None = None,
    offline: bool = False,
    split: str | None = None,
    q_per_kv_group: int | None = None,
    strict: bool = False,
    allow_missing: bool = False,
    layers: int | str | Iterable[int] | None = None,
    heads: int | str | Iterable[int | str | tuple[int, int]] | None = None,
    max_samples: int | None = None,
    from_position: int = 0,
    allow_repeats: bool = False,
    sample_heads: int | None = None,
    seed: int = 0,
    ci: float | None = None,
    attention_scale: float | None = None,
    threads: int | None = None,
    progress: bool | Callable[[str, int, int | None], Any] | None = None,
) -> Results:
    """What does each head attend to: the first token, itself, near and far, copies of its token? Tables attention and
    attention_profile, of a capture that keeps sums of attention, or every row of its texts. Otherwise as analyze.

        qkscope.attention("capture").attention["distance_share"]

    Output:
        output
            folder for the tables
        force = False
            replace the results that output holds, even those of another capture
        model_name
            name in the model column (None: from capture.json, else of the dataset)
    Input:
        revision
            branch, tag or commit of a dataset on the Hub (None: main)
        offline = False
            fetch nothing from the Hub: take what is in the cache, as with HF_HUB_OFFLINE=1
        split
            sub-folder, when the capture holds several captures (None: found by looking)
        q_per_kv_group
            query heads per key head (1 to 65535; None: from capture.json, else inferred)
        strict = False
            fail where the group size is a guess, or does not fit the heads or capture.json
        allow_missing = False
            leave out missing heads, and query heads without their key head
    Heads and rows:
        layers
            only these layers (such as 3, [0, 2] or "0,2,5-9"; None: all)
        heads
            only these query heads: 2:1,14-23:*, 5 (of every layer), @FILE (or a list such as [(2,
            1), 5]; None: all)
        max_samples
            only the first N rows of each head (1 to 1e+15 rows; None: all)
        from_position = 0
            leave out rows of positions below K (0 to 1e+15)
        allow_repeats = False
            take rows whose text and position are there more than once
        sample_heads
            draw N heads at random, as Python's random.Random(S).sample does (1 to 1000000000; None:
            all)
        seed = 0
            seed of every draw
    Intervals:
        ci
            confidence intervals over examples, e.g. 95 (1 to below 100; None: none)
    Attention:
        attention_scale
            factor on scores where attention is predicted, or computed from rows (0 to 1000000;
            None: the model's, as capture.json has it; else 1 over the root of the dimension)
    Running:
        threads
            number of threads; results do not depend on it (1 to 4096; None: all processors)
        progress
            None: a bar where there is tqdm and somebody to see it; True; False: none; or a function
            of (what, done, total), which may return False to stop
    """

def compare_stages(
    before: Any,
    after: Any = None,
    *,
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
    model_name: str | None = None,
    revision: str | None = None,
    offline: bool = False,
    q_per_kv_group: int | None = None,
    layers: int | str | Iterable[int] | None = None,
    heads: int | str | Iterable[int | str | tuple[int, int]] | None = None,
    max_samples: int | None = None,
    from_position: int = 0,
    allow_repeats: bool = False,
    taxonomy_low: float = 0.3,
    taxonomy_high: float = 0.7,
    threads: int | None = None,
    progress: bool | Callable[[str, int, int | None], Any] | None = None,
) -> Results:
    """What RoPE does to each head: captures of the same rows before and after it, side by side. Tables stages,
    rope_pairs and score_by_distance.

    Without `after`, `before` is a folder that holds both, as pre and post. Otherwise as analyze.

        qkscope.compare_stages("capture/pre", "capture/post").stages["r_squared_predicted"]

    Output:
        output
            folder for the tables
        force = False
            replace the results that output holds, even those of another capture
        model_name
            name in the model column (None: from capture.json, else of the dataset)
    Input:
        revision
            branch, tag or commit of a dataset on the Hub (None: main)
        offline = False
            fetch nothing from the Hub: take what is in the cache, as with HF_HUB_OFFLINE=1
        q_per_kv_group
            query heads per key head (1 to 65535; None: from capture.json, else inferred)
    Heads and rows:
        layers
            only these layers (such as 3, [0, 2] or "0,2,5-9"; None: all)
        heads
            only these query heads: 2:1,14-23:*, 5 (of every layer), @FILE (or a list such as [(2,
            1), 5]; None: all)
        max_samples
            only the first N rows of each head (1 to 1e+15 rows; None: all)
        from_position = 0
            leave out rows of positions below K (0 to 1e+15)
        allow_repeats = False
            take rows whose text and position are there more than once
    PCA:
        taxonomy_low = 0.3
            lower taxonomy threshold on |r| (0 to 1)
        taxonomy_high = 0.7
            upper taxonomy threshold on |r| (0 to 1)
    Running:
        threads
            number of threads; results do not depend on it (1 to 4096; None: all processors)
        progress
            None: a bar where there is tqdm and somebody to see it; True; False: none; or a function
            of (what, done, total), which may return False to stop
    """

def compare(
    a: Any,
    b: Any,
    *,
    ci: float = 95.0,
    any_length: bool = False,
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
    html: bool = True,
    format: str | Iterable[str] = 'svg',
    theme: Literal['paper', 'screen', 'dark'] = 'paper',
    width: int | None = None,
    no_title: bool = False,
    no_legend: bool = False,
    symbols: bool = False,
    threads: int | None = None,
    progress: bool | Callable[[str, int, int | None], Any] | None = None,
) -> Results:
    """What changed from a to b, head by head: tables compare and compare_heads.

    a and b are results (of analyze with ci=95, for intervals and p-values), folders with some, or "FOLDER:MODEL" for one of
    several models there. With `output` the page (compare.html) and its figures are written, too.

        changes = qkscope.compare("results/step-20", "results/step-2004")
        changes.compare.to_pandas().query("p_corrected < 0.05")

    Raises ArgumentError for a capture, NotFoundError for a folder that is not there, DataError where no head is in both.

    Intervals:
        ci = 95.0
            level of the intervals; the tables' intervals must have it, too (1 to below 100)
    Comparison:
        any_length = False
            test changes and compare categories also where texts of A and B differ in length by more
            than a tenth
    Output:
        output
            folder for the tables
        force = False
            replace another comparison in output; also compare tables that were edited, with a
            warning
        html = True
            False: only tables: neither figures nor compare.html
    Figures:
        format = 'svg'
            pictures beside each SVG: png, pdf or both (by rsvg-convert) ('png' or 'svg' or 'pdf')
        theme = 'paper'
            colours and fonts of the figures ('paper' or 'screen' or 'dark')
        width
            page width, e.g. 85mm or 170mm for one or two columns of a journal; type keeps its size,
            and a PNG has 300 dots an inch (60 to 400 mm; None: each figure's own)
        no_title = False
            no heading, for a paper whose caption says it
        no_legend = False
            no legend, for a paper whose caption says it
        symbols = False
            symbols instead of words in labels and legends, where there are any: r_q, AP
    Running:
        threads
            number of threads; results do not depend on it (1 to 4096; None: all processors)
        progress
            None: a bar where there is tqdm and somebody to see it; True; False: none; or a function
            of (what, done, total), which may return False to stop
    """

def loss(
    model: str | os.PathLike[str],
    text: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    revision: str | None = None,
    offline: bool = False,
    tokenizer: str | os.PathLike[str] | None = None,
    dtype: Literal['float32', 'f32', 'bf16-sim', 'bf16', 'f16-sim'] = 'float32',
    text_column: str | None = None,
    id_column: str | None = None,
    max_texts: int | None = None,
    max_length: int | None = None,
    long: Literal['split', 'cut', 'truncate', 'skip'] = 'split',
    threads: int | None = None,
    tokens_at_once: int | None = None,
    progress: bool | Callable[[str, int, int | None], Any] | None = None,
) -> Losses:
    """How well a model predicts texts: loss and perplexity over all tokens, by position and by text.

    model is a folder, a GGUF file, or "org/name" on the Hugging Face Hub; text a file, a folder, "repeat:64x2:8" for texts
    that are made, or several of them. The arguments are the options of `qkscope loss`; see docs/behaviour.md#loss.

        losses = qkscope.loss("examples/kjv-tiny/step-2004", "examples/kjv-tiny/passages.jsonl")
        losses.perplexity, [text.loss for text in losses.texts]

    Raises NotFoundError for a model or texts that are not there, ArgumentError for a value that a keyword does not take,
    DataError for files that are damaged, a model that cannot be run, or where no text has two tokens.

    Model:
        revision
            branch, tag or commit of a model on the Hub (None: main)
        offline = False
            fetch nothing from the Hub: take what is in the cache, as with HF_HUB_OFFLINE=1
        tokenizer
            tokenizer.json or its folder, or a GGUF file (None: the model's)
        dtype = 'float32'
            bf16: bfloat16 products, faster on AMD's processors with AVX512_BF16; bf16-sim, f16-sim:
            float32, rounded as a run in bfloat16 or float16 does ('float32' or 'f32' or 'bf16-sim'
            or 'bf16' or 'f16-sim')
    Texts:
        text_column
            key or column of JSON, .parquet, .csv that holds the text (None: text)
        id_column
            column that holds ids of texts (None: their numbers)
        max_texts
            take the first N texts (1 to 1e+15; None: all)
        max_length
            longest text, in tokens (1 to 1073741824 tokens; None: what the model was made for)
        long = 'split'
            what becomes of longer texts: split into windows, each an example; cut; or skipped
            ('split' or 'cut' or 'truncate' or 'skip')
    Running:
        threads
            number of threads; results do not depend on it (1 to 4096; None: all processors)
        tokens_at_once
            tokens that are run together; more take more memory (1 to 1000000000 tokens; None: 8192)
        progress
            None: a bar where there is tqdm and somebody to see it; True; False: none; or a function
            of (what, done, total), which may return False to stop
    """

def ablate(
    model: str | os.PathLike[str],
    text: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
    model_name: str | None = None,
    what: str = 'remove,freeze,profile',
    groups: Sequence[str | os.PathLike[str]] | None = None,
    results: str | os.PathLike[str] | None = None,
    capture: str | os.PathLike[str] | None = None,
    screen: str | os.PathLike[str] | None = None,
    suffix: int | None = None,
    layers: int | str | Iterable[int] | None = None,
    heads: int | str | Iterable[int | str | tuple[int, int]] | None = None,
    controls: bool = True,
    draws: int = 20,
    seed: int = 0,
    ci: float = 95.0,
    memory: int = 2048,
    dry_run: bool = False,
    revision: str | None = None,
    offline: bool = False,
    tokenizer: str | os.PathLike[str] | None = None,
    dtype: Literal['float32', 'f32', 'bf16-sim', 'bf16', 'f16-sim'] = 'float32',
    text_column: str | None = None,
    id_column: str | None = None,
    max_texts: int | None = None,
    max_length: int | None = None,
    long: Literal['split', 'cut', 'truncate', 'skip'] = 'split',
    threads: int | None = None,
    shard: str | tuple[int, int] | None = None,
    progress: bool | Callable[[str, int, int | None], Any] | None = None,
) -> Results:
    """What a model loses without a head, or without its sense of position: its loss on texts while heads are changed.
    Tables ablation, ablation_heads, ablation_groups and ablation_positions.

    model and text as in loss. The arguments are the options of `qkscope ablate`; see docs/behaviour.md#ablation. Without `output` the
    results are in memory and in a private folder, which goes with them. With it, a run that was stopped goes on when it is
    called again. With `dry_run` there are no tables, and results.forecast says how long it would take.

        results = qkscope.ablate("examples/kjv-tiny/step-2004", "repeat:64x2:8", what="remove,freeze")
        results.ablation.to_pandas().nlargest(5, "delta")

    Raises as loss, and ExistsError where output holds something else, or without `force` another ablation, or a run that is
    at work there.

    Output:
        output
            folder for the tables
        force = False
            replace another ablation in output; the old one stays until the new one is complete
        model_name
            name in the tables (None: org/name, or the folder's name)
    Changes:
        what = 'remove,freeze,profile'
            remove, mean, freeze[:BAND], shuffle:TOKENS, profile, window:TOKENS[:KEPT], no-sink,
            uniform, direction:pcN|a[:PART]
        groups
            heads that are changed together: each (one by one), layer, all, "where CONDITION" or
            "top N,N,... by COLUMN" of --results, or heads, as 2:1,5:*; may be given again (None:
            each)
        results
            results of the model, for --groups
        capture
            capture of the model after RoPE, of other texts, for --what direction
        screen
            with --groups each, only heads of groups whose loss changed in output, an earlier
            ablation
        suffix
            change only the last N rows of each text (2 to 1073741824 rows; None: all rows)
        layers
            of these layers (such as 3, [0, 2] or "0,2,5-9"; None: all)
        heads
            of these query heads: 2:1,14-23:*, 5 (of every layer), @FILE (or a list such as [(2, 1),
            5]; None: all)
    Controls:
        controls = True
            False: neither random groups nor changes that keep the first keys
        draws = 20
            different random groups beside each group, as far as there are so many (0 to 1000)
        seed = 0
            seed of random groups and shuffles (0 to 2147483647)
        ci = 95.0
            level of the intervals (1 to below 100)
    Running:
        memory = 2048
            memory for changes that run at once (1 to 1073741824 MiB)
        dry_run = False
            say what would be run, and how long it takes
        threads
            number of threads; results do not depend on it (1 to 4096; None: all processors)
        shard
            part i of n of the texts, (i, n) or "i/n": each of n processes computes its part into
            one output folder, and the last one to end writes the tables
        progress
            None: a bar where there is tqdm and somebody to see it; True; False: none; or a function
            of (what, done, total), which may return False to stop
    Model:
        revision
            branch, tag or commit of a model on the Hub (None: main)
        offline = False
            fetch nothing from the Hub: take what is in the cache, as with HF_HUB_OFFLINE=1
        tokenizer
            tokenizer.json or its folder, or a GGUF file (None: the model's)
        dtype = 'float32'
            bf16: bfloat16 products, faster on AMD's processors with AVX512_BF16; bf16-sim, f16-sim:
            float32, rounded as a run in bfloat16 or float16 does ('float32' or 'f32' or 'bf16-sim'
            or 'bf16' or 'f16-sim')
    Texts:
        text_column
            key or column of JSON, .parquet, .csv that holds the text (None: text)
        id_column
            column that holds ids of texts (None: their numbers)
        max_texts
            take the first N texts (1 to 1e+15; None: all)
        max_length
            longest text, in tokens (1 to 1073741824 tokens; None: what the model was made for)
        long = 'split'
            what becomes of longer texts: split into windows, each an example; cut; or skipped
            ('split' or 'cut' or 'truncate' or 'skip')
    """

def study(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    force: bool = False,
    dry_run: bool = False,
    figures: bool = True,
    html: bool = True,
    format: str | None = None,
    theme: str | None = None,
    width: int | None = None,
    no_title: bool = False,
    no_legend: bool = False,
    symbols: bool = False,
    local_root: str | os.PathLike[str] | None = None,
    offline: bool = False,
    threads: int | None = None,
    progress: bool | Callable[[str, int, int | None], Any] | None = None,
) -> Results:
    """The analyses of every model of a study file, combined tables, figures and the report in `output`. Models whose
    files and settings did not change since the last run are not computed again; see docs/howto/published.md#studies.

    Returns the combined tables, `models` among them; `failed` has the models that failed, with a PartialWarning. Where
    all failed, PartialError is raised. With `dry_run` nothing is written, and there are no tables.

        qkscope.study("study.yaml", "results").models.to_pandas()

    Output:
        force = False
            compute every model again, and write even into a folder that holds other things
        dry_run = False
            say which models would be computed, and why; write nothing
    Figures:
        figures = True
            False: only tables: neither figures nor report
        html = True
            False: figures without report.html
        format
            pictures beside each SVG: png, pdf or both (by rsvg-convert) (None: the study's, else
            svg)
        theme
            colours and fonts: paper, screen or dark (None: the study's, else paper)
        width
            page width of the figures, e.g. 85mm (60 to 400 mm; None: the study's, else each its
            own)
        no_title = False
            figures without headings
        no_legend = False
            figures without legends
        symbols = False
            symbols instead of words in the labels of figures
    Input:
        local_root
            folder to look for datasets in, before the cache
        offline = False
            fetch nothing from the Hub: take what is in the cache, as with HF_HUB_OFFLINE=1
    Running:
        threads
            number of threads; results do not depend on it (1 to 4096; None: all processors)
        progress
            None: a bar where there is tqdm and somebody to see it; True; False: none; or a function
            of (what, done, total), which may return False to stop
    """
