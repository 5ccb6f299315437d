"""Known components: hold ten of the twenty components of a fit, and see whether the others are found again.

    ENMF_DATA=<folder> python benchmarks/fixed.py

The mutation catalogue with types or with samples in rows; the first ten components, the last ten, every second one.
Prints the error above that of the fit without anything known, and writes benchmarks/results/fixed.csv.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import enmf
from enmf.datasets import load

RANK = 20
HELD = {"first": slice(0, 10), "last": slice(10, 20), "even": slice(0, 20, 2), "odd": slice(1, 20, 2)}


def main() -> None:
    catalogue = np.asarray(load("mutations")[0], dtype=float)
    rows = []
    for orientation, X in (("types x samples", catalogue), ("samples x types", np.ascontiguousarray(catalogue.T))):
        whole = enmf.factorize(X, RANK, random_state=0, bound=False)
        for name, places in HELD.items():
            known = whole.V.T[places]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = enmf.factorize(X, RANK, fixed=known, random_state=0, bound=False)
            unchanged = bool((found.V.T[: len(known)] == known).all())
            above = found.error / whole.error - 1.0
            print(f"{orientation}, {name} ten held: {above:+.4%}, unchanged: {unchanged}", flush=True)
            rows.append({"X": orientation, "held": name, "above": above, "unchanged": unchanged})
    path = Path(__file__).parent / "results" / "fixed.csv"
    pd.DataFrame(rows).to_csv(path, index=False, float_format="%.3g", lineterminator="\n")


if __name__ == "__main__":
    main()
