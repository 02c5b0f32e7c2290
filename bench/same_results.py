# SPDX-License-Identifier: Apache-2.0
"""How far the tables of two results folders differ. Prints a line a table with its worst column
and exits with 1 if any number differs by more than the tolerance, relative to it or, if it is
smaller, to a millionth."""
import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd


def compare_column(one, other):
    """Largest relative difference, small numbers taken as 1e-6."""
    if not (pd.api.types.is_numeric_dtype(one) and pd.api.types.is_numeric_dtype(other)):
        return 0.0 if (one.fillna("") == other.fillna("")).all() else np.inf
    a, b = one.to_numpy(float), other.to_numpy(float)
    if (np.isnan(a) != np.isnan(b)).any():
        return np.inf
    with np.errstate(invalid="ignore"):
        difference = np.abs(a - b) / np.maximum(np.maximum(np.abs(a), np.abs(b)), 1e-6)
    difference[a == b] = 0
    return float(np.nanmax(difference, initial=0.0))


def compare_tables(one, other):
    """[(difference, column)], worst first."""
    a, b = (pd.read_csv(path) for path in (one, other))
    if list(a.columns) != list(b.columns) or len(a) != len(b):
        return [(np.inf, "columns or rows")]
    return sorted(((compare_column(a[c], b[c]), c) for c in a.columns), reverse=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("one", type=Path)
    parser.add_argument("other", type=Path)
    parser.add_argument("--tolerance", type=float, default=1e-9)
    args = parser.parse_args()
    names = sorted(p.name for p in args.one.glob("*.csv"))
    if names != sorted(p.name for p in args.other.glob("*.csv")) or not names:
        sys.exit(f"not the same tables: {args.one} and {args.other}")
    failed = False
    for name in names:
        if (args.one / name).read_bytes() == (args.other / name).read_bytes():
            print(f"{name}: the same bytes")
            continue
        difference, column = compare_tables(args.one / name, args.other / name)[0]
        failed |= difference > args.tolerance
        print(f"{name}: {difference:.2g} in {column}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
