# SPDX-License-Identifier: Apache-2.0
"""The combined analysis as researchers run it today: pandas, scikit-learn, SciPy, a process
pool on all processors. Reads what `qkscope pca` reads and writes the columns of qk.csv that
such scripts write. Prints the seconds spent, imports not counted."""
import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

# A process pool on all processors and a BLAS that starts threads on all processors get in each
# other's way; scripts seldom know. --one-blas-thread (or the environment) must come before NumPy.
if "--one-blas-thread" in sys.argv:
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
import pandas as pd
from scipy.stats import pearsonr
from sklearn.decomposition import PCA


def load(path, dtype):
    frame = pd.read_parquet(path)
    vectors = np.stack(frame["vector"].values).astype(dtype, copy=False)
    return vectors, frame["position"].to_numpy()


def analyse(root, layer, q_head, k_head, solver, dtype):
    q, t_q = load(root / f"l{layer:02d}h{q_head:02d}q" / "data.parquet", dtype)
    k, t_k = load(root / f"l{layer:02d}h{k_head:02d}k" / "data.parquet", dtype)
    pca = PCA(n_components=10, svd_solver=solver)
    projected = pca.fit_transform(np.concatenate([q, k]))
    p_q, p_k = projected[:len(q)], projected[len(q):]
    rows = []
    for i in range(pca.n_components_):
        r_q, r_k = pearsonr(p_q[:, i], t_q), pearsonr(p_k[:, i], t_k)
        rows.append((layer, q_head, k_head, i, pca.explained_variance_ratio_[i], r_q[0], r_k[0],
                     r_q[1], r_k[1]))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("capture", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--group", type=int, default=2)
    parser.add_argument("--solver", default="covariance_eigh")
    parser.add_argument("--float64", action="store_true",
                        help="vectors in double precision, for digits comparable with ours")
    parser.add_argument("--one-blas-thread", action="store_true")
    args = parser.parse_args()
    start = time.perf_counter()
    heads = sorted((int(p.name[1:3]), int(p.name[4:6])) for p in args.capture.glob("l*h*q"))
    with ProcessPoolExecutor() as pool:
        jobs = [pool.submit(analyse, args.capture, layer, head, head // args.group, args.solver,
                            np.float64 if args.float64 else np.float32)
                for layer, head in heads]
        rows = [row for job in jobs for row in job.result()]
    pd.DataFrame(rows, columns=["layer", "q_head", "k_head", "pc", "explained_variance", "r_q",
                                "r_k", "p_q", "p_k"]).to_csv(args.output, index=False)
    print(f"{time.perf_counter() - start:.3f}")


if __name__ == "__main__":
    main()
