# SPDX-License-Identifier: Apache-2.0
"""The test of a mean or slope over layers, once more."""
import numpy as np
from scipy import stats


def layers_expected(slope, against, series, layer, x, value):
    """By matrices: groups of heads, each answer by itself, no filter and no layer means."""
    n = len(value)
    places = sorted(set(zip(series, layer)))
    of = np.array([places.index(place) for place in zip(series, layer)])
    noise = np.mean([1 / (of == i).sum() for i in range(len(places))])
    own = np.eye(len(places))[of]
    gaps = np.array([[abs(a[1] - b[1]) if a[0] == b[0] else np.inf for a in places] for b in places])
    columns = [np.ones(n)]
    if slope:
        columns = [x, np.ones(n)]
    elif max(series) > 0:
        columns.append(series - series.mean())
    design, answers = np.stack(columns, 1), []
    for ratio in (0, 0.5, 2, 8, 32, 128, 512, 4096, 32768):
        for keep in (0, 0.3, 0.5, 0.7, 0.82, 0.91, 0.97) if ratio else (0,):
            effects = np.where(gaps == 0, 1.0, np.power(keep, np.where(np.isinf(gaps), 1e9, gaps)))
            cov = np.eye(n) + ratio * noise * own @ effects @ own.T
            inverse = np.linalg.inv(cov)
            normal = design.T @ inverse @ design
            b = np.linalg.solve(normal, design.T @ inverse @ value)
            rest = (value - design @ b) @ inverse @ (value - design @ b)
            degrees = n - len(columns)
            likely = -(np.linalg.slogdet(cov)[1] + np.linalg.slogdet(normal)[1] + degrees * np.log(rest)) / 2
            t = (b[0] - against) / np.sqrt(rest / degrees * np.linalg.inv(normal)[0, 0])
            answers.append((likely + np.log(0.9 / 56 if ratio else 0.1), stats.t(degrees).sf(t), stats.t(degrees).cdf(t)))
    weight, above, below = np.array(answers).T
    weight = np.exp(weight - weight.max()) / np.exp(weight - weight.max()).sum()
    return 2 * min(weight @ above, weight @ below), np.sign(weight @ below - weight @ above)
