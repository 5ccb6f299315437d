"""The grid behind our comparisons: every opponent on ten matrices, both protocols, in half an hour on two cores.

    ENMF_DATA=<folder> python benchmarks/grid.py        # writes benchmarks/results/grid.csv, goes on where it stopped
    python benchmarks/grid.py --show                    # prints the committed table

Small matrices get the paper's nine starts, large ones three or two. Equal error gives up after three times eNMF's time.
"""

from __future__ import annotations

import datetime
import platform
import sys
from pathlib import Path

import numba
import numpy
import scipy
import sklearn

import enmf
from enmf import parallel
from enmf.bench import Setting, Table
from enmf.bench.__main__ import print_summary, run_settings
from enmf.bench.data import matrix
from enmf.bench.protocols import NINE_STARTS

RESULTS = Path(__file__).parent / "results"
METHODS = (
    *("hals", "a-hals", "e-hals", "mu", "grad-mult", "als", "ao-admm", "nmf-admm", "nenmf", "fpgm", "r1d", "anls-bpp"),
    *("sklearn-cd", "sklearn-mu"),
)
STRONGEST = ("hals", "a-hals", "e-hals", "ao-admm", "nenmf", "fpgm", "anls-bpp", "sklearn-cd")
THREE = ("random-0", "random-1", "nndsvd")
TWO = ("random-0", "nndsvd")
GRID = [
    ("digits", 20, NINE_STARTS),
    ("verb", 20, NINE_STARTS),
    ("synthetic-60", 40, THREE),
    ("synthetic-100", 40, THREE),
    ("synthetic-20", 40, THREE),
    ("face", 10, THREE),
    ("audio", 20, THREE),
    ("hyperspectral", 10, THREE),
    ("newsgroups", 20, TWO),
    ("single_cell", 20, TWO),
]


def machine() -> str:
    with parallel.limit(None) as threads:
        return (
            f"{datetime.date.today()}, {platform.processor() or platform.machine()}, {threads} threads, Python "
            f"{platform.python_version()}, numpy {numpy.__version__}, scipy {scipy.__version__}, scikit-learn "
            f"{sklearn.__version__}, numba {numba.__version__}, enmf {enmf.__version__}"
        )


def main() -> None:
    table = Table(RESULTS / "grid.csv")
    if "--show" not in sys.argv:
        (RESULTS / "grid.txt").write_text(machine() + "\n")
        for name, rank, starts in GRID:
            X = matrix(name)
            run_settings("equal-time", [Setting(name, X, rank, METHODS, starts)], table)
            few = TWO if len(starts) > 3 else ("nndsvd",)
            run_settings("equal-error", [Setting(name, X, rank, STRONGEST, few, patience=3.0)], table)
    print_summary(table)


if __name__ == "__main__":
    main()
