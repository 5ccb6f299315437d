"""What `enmf.select_rank` promises: planted ranks are found, and a sweep over ten ranks is cheap.

    python benchmarks/rank.py planted     # writes results/rank-planted.csv, prints the share within one
    python benchmarks/rank.py cost        # needs ENMF_DATA; writes results/rank-cost.csv: time over that of one fit
    python benchmarks/rank.py csv         # a csv file of a million rows x 20 columns: the command against pandas + fit

Planted data: X = max(U Vᵀ + N, 0), entries of U and V uniform where they are not zero, N Gaussian and ||N|| the given
share of ||U Vᵀ||. With dense factors the mean takes nearly all of the norm: 5 % of noise there are as much as 30 % with
sparse ones.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import enmf
from enmf.bench.data import matrix

RESULTS = Path(__file__).parent / "results"
RANKS = range(3, 13)
KINDS = (  # rows, columns, share of zeros in the factors, noise
    (200, 150, 0.0, 0.05),
    (120, 120, 0.3, 0.10),
    (400, 80, 0.5, 0.15),
    (150, 300, 0.7, 0.30),
    (1500, 600, 0.3, 0.10),
)


def planted(n: int, m: int, rank: int, sparsity: float, noise: float, seed: int) -> np.ndarray:
    X, _, _ = enmf.datasets.make_exact(n, m, rank, sparsity, random_state=seed)
    N = np.random.default_rng(seed).standard_normal(X.shape)
    return np.maximum(X + noise * np.linalg.norm(X) / np.linalg.norm(N) * N, 0)


def run_planted() -> None:
    rows = []
    for n, m, sparsity, noise in KINDS:
        for rank in RANKS:
            began = time.perf_counter()
            found = enmf.select_rank(planted(n, m, rank, sparsity, noise, rank), range(2, 16))
            lowest = int(found.table["held_out"].idxmin())
            case = {"n": n, "m": m, "sparsity": sparsity, "noise": noise, "rank": rank}
            rows.append({**case, "suggested": found.rank, "lowest": lowest, "seconds": time.perf_counter() - began})
            print(rows[-1], flush=True)
    frame = pd.DataFrame(rows)
    frame.round({"seconds": 2}).to_csv(RESULTS / "rank-planted.csv", index=False)
    off = (frame["suggested"] - frame["rank"]).abs()
    print(f"exact in {(off == 0).sum()}, within one in {(off <= 1).sum()} of {len(frame)} cases")


def seconds_of(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def run_cost(repeats: int = 3) -> None:
    """Medians of the ratio sweep / fit, in turns, after one round that warms up."""
    rows = []
    small = planted(60, 40, 4, 0.5, 0.05, 0)
    enmf.factorize(small, 3, random_state=0)
    enmf.select_rank(small, [2, 3])
    for name in ("audio", "newsgroups"):
        X = matrix(name)
        enmf.factorize(X, 20, random_state=0, tol=1e-2)
        for _ in range(repeats):
            fit = seconds_of(lambda: enmf.factorize(X, 20, random_state=0))  # noqa: B023
            sweep = seconds_of(lambda: enmf.select_rank(X, range(2, 21, 2)))  # noqa: B023
            rows.append({"data": name, "fit": fit, "sweep": sweep, "ratio": sweep / fit})
            print(rows[-1], flush=True)
    frame = pd.DataFrame(rows)
    frame.round(3).to_csv(RESULTS / "rank-cost.csv", index=False)
    print(frame.groupby("data")["ratio"].median())


def run_csv(n: int = 1_000_000, m: int = 20, rank: int = 5) -> None:
    """`enmf factorize` on a large csv file, against reading it with pandas plus the fit."""
    X, _, _ = enmf.datasets.make_exact(n, m, rank, 0.3, random_state=0)
    X += 0.05 * np.random.default_rng(0).random(X.shape)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "big.csv")
        frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(m)])
        frame.to_csv(path, index=False, float_format="%.5g")
        start = seconds_of(lambda: subprocess.run([sys.executable, "-m", "enmf", "info"], capture_output=True))
        parse = seconds_of(lambda: pd.read_csv(path))
        values = pd.read_csv(path).to_numpy()
        enmf.factorize(values[:1000], rank, random_state=0)
        fit = seconds_of(lambda: enmf.factorize(values, rank, random_state=0))
        command = [sys.executable, "-m", "enmf", "factorize", "big.csv", "-r", str(rank), "-q", "--force"]
        whole = seconds_of(lambda: subprocess.run(command, cwd=folder, check=True))
    print(f"pandas {parse:.2f} s, fit {fit:.2f} s, start of the command {start:.2f} s, command {whole:.2f} s: ", end="")
    print(f"{whole / (parse + fit):.2f} times pandas + fit")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    {"planted": run_planted, "cost": run_cost, "csv": run_csv}[sys.argv[1]]()
