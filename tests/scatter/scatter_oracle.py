# SPDX-License-Identifier: Apache-2.0
"""The axes that a scatter draws rows on, from the definitions alone, and reading what it drew."""
import math

import numpy as np

from figure_files import panels, svg_texts


# ---- axes ------------------------------------------------------------------------------------

def correlation(x, t):
    x, t = x - x.mean(), t - t.mean()
    spread = math.sqrt((x @ x) * (t @ t))
    return float(x @ t) / spread if spread > 0 else 0.0


def largest_positive(axis):
    return -axis if axis[np.abs(axis).argmax()] < 0 else axis


def eigenvectors(matrix):
    """Rows, the largest eigenvalue first, and the eigenvalues."""
    values, vectors = np.linalg.eigh(matrix)
    return vectors[:, ::-1].T, values[::-1]


def pca_axes(q, k, count):
    """(axis, share of variance, r_q, r_k) of the first components of both kinds; q and k are
    (vectors, positions), k is None for one kind by itself."""
    rows = q[0] if k is None else np.concatenate([q[0], k[0]])
    vectors, values = eigenvectors(np.cov(rows, rowvar=False))
    out = []
    for axis, value in zip(vectors[:count], values):
        if k is None:
            axis = largest_positive(axis)
            r_q, r_k = correlation(q[0] @ axis, q[1]), None
        else:
            r_q, r_k = correlation(q[0] @ axis, q[1]), correlation(k[0] @ axis, k[1])
            if (r_q if abs(r_q) >= 0.05 else r_k) < 0:
                axis, r_q, r_k = -axis, -r_q, -r_k
        out.append((axis, value / values.sum(), r_q, r_k))
    return out


def plane_axes(q, k, complement=0):
    """a, b, and the first axes of the complement with the shares of their pairs."""
    x, t = np.concatenate([q[0], k[0]]), np.concatenate([q[1], k[1]]).astype(float)
    centred = x - x.mean(axis=0)
    a = centred.T @ (t - t.mean())
    a /= np.linalg.norm(a)
    off_a = np.eye(len(a)) - np.outer(a, a)
    gap = q[0].mean(axis=0) - k[0].mean(axis=0)
    pairs = (np.cov(q[0], rowvar=False, bias=True) + np.cov(k[0], rowvar=False, bias=True)
             + np.outer(gap, gap))
    b = eigenvectors(off_a @ pairs @ off_a)[0][0]
    b = -b if gap @ b < 0 else b
    off = off_a - np.outer(b, b)
    covariance = np.cov(x, rowvar=False)
    vectors, values = eigenvectors(off @ covariance @ off)
    shares = (values[0::2] + values[1::2][:len(values[0::2])]
              if len(values) % 2 == 0 else None)
    shares = None if shares is None else shares / np.trace(covariance)
    return a, b, [largest_positive(v) for v in vectors[:complement]], shares


# ---- what was drawn --------------------------------------------------------------------------

def drawn_points(folder, name, series=("query", "key")):
    """The points of each panel: columns x, y, position, is key."""
    return [np.array([[row["x"], row["y"], row["value"], row["series"].startswith("key")] for row in panel
                      if row["series"] in series], float) for panel in panels(folder / name)]


def text_of(folder, name="f"):
    """All text of a drawing, pieces of one label joined, each label on a line."""
    return "\n".join(" ".join(line.split()) for line in svg_texts(folder / name))


def match(points, expected):
    """For every drawn point the row that it is: both have columns x, y, position, is key. Each row is used once."""
    from scipy.spatial import cKDTree
    scale = np.abs(expected).max(axis=0)
    scale[scale == 0] = 1
    scale[3] = 1e-3  # a query is no key
    distance, index = cKDTree(expected / scale).query(points / scale)
    assert distance.max() < 1e-5, distance.max()
    assert len(set(index)) == len(points), "a row was drawn twice"
    return index


def projections(q, k, x_axis, y_axis):
    """What drawn_points has for all rows: queries, then keys (None: none)."""
    kinds = [(q, 0)] + ([(k, 1)] if k is not None else [])
    return np.concatenate([np.column_stack([v @ x_axis, v @ y_axis, t, np.full(len(t), kind)])
                           for (v, t), kind in kinds])
