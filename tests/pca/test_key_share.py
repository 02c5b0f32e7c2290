# SPDX-License-Identifier: Apache-2.0
"""key_share by pairs of keys: what of the difference of two scores the mean query has (docs/methods.md#pca)."""
import numpy as np
import pytest
from conftest import EXAMPLE, head_pairs, read_csv

pytest.importorskip("pyarrow")
stats = pytest.importorskip("scipy.stats")
PAIRS = 20000


def of_all(q, k, rng):
    """Over pairs and queries from everywhere; its standard error is about 0.5 % of it."""
    at = rng.integers(0, len(k), (2, PAIRS))
    delta = k[at[0]] - k[at[1]]
    some = q[rng.integers(0, len(q), PAIRS)]
    return float(((delta @ q.mean(0)) ** 2).sum() / ((delta * some).sum(1) ** 2).sum())


def of_texts(q, k, rng):
    """Over pairs of a text and the queries behind both; less what the mean of few queries has by chance."""
    alone, together = [], []
    vectors = [np.asarray(side["vector"], float) for side in (q, k)]
    for text in np.unique(k["example_id"]):
        (x, s), (y, t) = ((v[side["example_id"] == text], side["position"][side["example_id"] == text])
                          for v, side in zip(vectors, (q, k), strict=True))
        for a, b in rng.integers(0, len(y), (100, 2)) if len(y) else ():
            later = x[s > max(t[a], t[b])] @ (y[a] - y[b])
            if a != b and len(later) >= 8:
                alone.append(later.mean() ** 2 - later.var(ddof=1) / len(later))
                together.append((later ** 2).mean())
    return float(np.mean(alone) / np.mean(together))


@pytest.mark.test_all
def test_key_share_by_pairs(qkscope, tmp_path):
    qkscope("analyze", EXAMPLE, "-o", tmp_path, "--threads", 2, expect=0)
    plasticity = [row["ap_overall"] for row in read_csv(tmp_path / "head_metrics.csv")]
    found, rng = [], np.random.default_rng(3)
    for (_, _, q, k), row in zip(head_pairs(EXAMPLE, 2), read_csv(tmp_path / "heads.csv"), strict=True):
        found.append((row["key_share"], of_all(*(np.asarray(side["vector"], float) for side in (q, k)), rng), of_texts(q, k, rng)))
    share, everywhere, own = np.array(found).T
    assert np.abs(share / everywhere - 1).max() < 0.1
    off = np.abs(share - own)
    goes = [stats.spearmanr(share, other)[0] for other in (own, plasticity)]
    print(f"\npairs of a text: {np.median(own - share):.3f} in the median, {off.max():.3f} at most; rank correlation {goes[0]:.2f}; "
          f"with plasticity {goes[1]:.2f}")
    assert 0 < np.median(own - share) < 0.05 and off.max() < 0.3 and goes[0] > 0.6 and goes[1] < -0.75
