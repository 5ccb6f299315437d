"""Where eNMF spends its time, and how its costs grow.

    ENMF_DATA=<folder> python benchmarks/costs.py [sweep] [profile] [scaling]
    python benchmarks/costs.py --show

sweep    coordinate sweeps against a matrix product of the same shape
profile  shares of every phase of eNMF in a default fit; "outside" is the share of the time before the certificate that
         is neither the SVD nor a product (with what it does to its operands) nor a sweep (with the extrapolation that
         follows it)
scaling  seconds and passes against n, m, r and nonzeros, with fitted exponents, and one thread against two

Each part writes benchmarks/results/costs-<part>.csv and all of them benchmarks/results/costs.md.
"""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

import enmf
from enmf import parallel
from enmf.bench.data import matrix
from enmf.kernels import BLOCK
from enmf.kernels import sweep as kernels
from enmf.matrix.base import Matrix
from enmf.run.monitor import Monitor
from grid import machine

RESULTS = Path(__file__).parent / "results"
THREADS = 2
REAL = [
    *(("verb", 20), ("verb", 40), ("face", 10), ("face", 25), ("audio", 20), ("faces", 49), ("hyperspectral", 10)),
    *(("single_cell", 20), ("newsgroups", 20), ("imdb", 20)),
]
# kernels: products, and sweeps
COUNTED = ("product", "rows", "columns", "part", "half_step", "core_step", "sweep", "extrapolate_columns")


def run(X: Any, rank: int, limit: float) -> enmf.Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return enmf.factorize(X, rank, random_state=0, bound=False, time_limit=limit, n_threads=THREADS)


def sweeps() -> None:
    rows = []
    rng = np.random.default_rng(0)
    with parallel.limit(THREADS):
        for dtype in (np.float64, np.float32):
            for rank in (10, 20, 50, 64, 100, 200):
                n = max(4000, 2_000_000 // rank)
                F = np.asfortranarray(rng.random((n, rank)).astype(dtype))
                M = rng.random((3 * rank, rank))
                G = np.ascontiguousarray((M.T @ M).astype(dtype))
                B = np.asfortranarray(F @ G)
                bounds = parallel.even_bounds(n, 6.0 * rank**2, BLOCK)
                arguments = (F.T, B.T, G, math.inf, 3, 0.0, np.zeros(rank, dtype=np.bool_))
                out = np.empty((rank, n), dtype)
                times: list[list[float]] = [[], []]
                for _ in range(12):  # in turns
                    began = time.perf_counter()
                    parallel.run(kernels.sweep, bounds, *arguments)
                    middle = time.perf_counter()
                    parallel.matmul(G, F.T, out)
                    times[0].append((middle - began) / 3.0)
                    times[1].append(time.perf_counter() - middle)
                ours, product = (float(np.median(t[2:])) for t in times)
                flops = 2.0 * n * rank**2
                rows.append(
                    {
                        "dtype": np.dtype(dtype).name,
                        "rank": rank,
                        "sweep GF/s": flops / ours / 1e9,
                        "product GF/s": flops / product / 1e9,
                        "share": product / ours,
                    }
                )
                print(rows[-1], flush=True)
    _write("sweep", rows)


@contextmanager
def stopwatch() -> Iterator[dict[str, float]]:
    """Seconds of products and sweeps in each phase, as the clock of the run counts them: not while measuring."""
    spent: dict[str, float] = {}
    where = ["", ""]  # the phase, and what it is interrupted by
    run, phase, measuring = parallel.run, Monitor.phase, Monitor.measuring
    products = Matrix.times, Matrix.transpose_times

    def timed(kernel: Any, *arguments: Any) -> None:
        counted(run, kernel.__name__ in COUNTED, kernel, *arguments)

    def counted(function: Any, counts: bool, *arguments: Any) -> Any:
        if where[1] or not counts:
            return function(*arguments)
        where[1] = "counted"  # what it calls is part of it
        began = time.perf_counter()
        answer = function(*arguments)
        spent[where[0]] = spent.get(where[0], 0.0) + time.perf_counter() - began
        where[1] = ""
        return answer

    @contextmanager
    def in_phase(self: Monitor, name: str) -> Iterator[Any]:
        with phase(self, name) as counter:
            where[0] = "restart" if self._restarting else name
            yield counter

    @contextmanager
    def in_measuring(self: Monitor) -> Iterator[None]:
        with measuring(self):
            where[1] = "measuring"
            yield
            where[1] = ""

    parallel.run, Monitor.phase, Monitor.measuring = timed, in_phase, in_measuring  # type: ignore
    Matrix.times, Matrix.transpose_times = (  # type: ignore
        lambda self, F, product=product: counted(product, True, self, F) for product in products
    )
    try:
        yield spent
    finally:
        parallel.run, Monitor.phase, Monitor.measuring = run, phase, measuring  # type: ignore
        Matrix.times, Matrix.transpose_times = products  # type: ignore


def profile() -> None:
    rows = []
    for name, rank in REAL:
        X = matrix(name)
        run(X[:60, :60], 2, 1.0)
        with stopwatch() as spent:
            result = run(X, rank, 60.0)
        phases = {key: phase.seconds for key, phase in result.phases.items()}
        whole = sum(phases.values())
        inside = {key: phases[key] if key == "svd" else spent.get(key, 0.0) for key in phases if key != "certificate"}
        rows.append(
            {
                "data": name,
                "rank": rank,
                "seconds": whole,
                **{
                    key: phases.get(key, 0.0) / whole
                    for key in ("svd", "rotation", "feasibility", "surrogate", "descent", "restart", "certificate")
                },
                "passes": sum(phase.passes for phase in result.phases.values()),
                "outside": 1.0 - sum(inside.values()) / sum(phases[key] for key in inside),
            }
        )
        print(rows[-1], flush=True)
    _write("profile", rows)


def scaling() -> None:
    """Time an iteration of the descent, and of the phases before it, as one of n, m, r, nonzeros doubles."""
    rows = []
    base = {"n": 8000, "m": 4000, "r": 20, "density": 1.0}
    sparse = {"n": 40_000, "m": 20_000, "r": 20, "density": 0.002}
    for label, start, key in (
        *(("dense", base, key) for key in ("n", "m", "r")),
        *(("sparse", sparse, key) for key in ("n", "m", "r", "density")),
    ):
        points = []
        for factor in (0.5, 1.0, 2.0, 4.0):
            size = {**start, key: type(start[key])(start[key] * factor)}
            X = _make(size)
            result = run(X, int(size["r"]), 20.0)
            phases = result.phases
            before = sum(phases[k].seconds for k in ("svd", "rotation", "feasibility", "surrogate") if k in phases)
            step = phases["descent"].seconds / max(phases["descent"].iterations, 1)
            nonzeros = X.nnz if sp.issparse(X) else X.size
            points.append((size[key], before, step))
            rows.append(
                {
                    "storage": label,
                    "varied": key,
                    "value": size[key],
                    "nonzeros": nonzeros,
                    "threads": THREADS,
                    "seconds before descent": before,
                    "seconds an iteration": step,
                    "passes": sum(phase.passes for phase in phases.values()),
                }
            )
        values, befores, steps = (np.log(np.array(column, dtype=float)) for column in zip(*points))
        for row in rows[-4:]:
            row["exponent before"] = float(np.polyfit(values, befores, 1)[0])
            row["exponent of an iteration"] = float(np.polyfit(values, steps, 1)[0])
        print(rows[-1], flush=True)
    for name, rank in (("audio", 20), ("newsgroups", 20), ("faces", 49)):
        X = matrix(name)
        seconds = []
        for threads in (1, 2):
            began = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                enmf.factorize(X, rank, random_state=0, bound=False, max_iter=60, tol=0.0, n_threads=threads)
            seconds.append(time.perf_counter() - began)
        rows.append(
            {"storage": name, "varied": "threads", "value": 2, "threads": 2, "speed-up": seconds[0] / seconds[1]}
        )
        print(rows[-1], flush=True)
    _write("scaling", rows)


def _make(size: dict[str, Any]) -> Any:
    rng = np.random.default_rng(0)
    n, m = int(size["n"]), int(size["m"])
    if size["density"] == 1.0:
        return rng.random((n, 30)) ** 4 @ rng.random((30, m)) ** 4 + 0.1 * rng.random((n, m))
    return sp.random_array((n, m), density=size["density"], rng=rng, format="csr")


def digest() -> str:
    """The tables as Markdown."""
    lines = ["# Where eNMF spends its time", "", "Made by `python benchmarks/costs.py` on: " + machine(), ""]
    for part in ("sweep", "profile", "scaling"):
        rows = _read(part)
        if len(rows):
            names = list(rows)
            lines += [f"## {part}", "", "| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
            lines += ["| " + " | ".join(map(_short, row)) + " |" for row in rows.itertuples(index=False)]
            lines += [""]
    return "\n".join(lines)


def _short(value: Any) -> str:
    return value if isinstance(value, str) else "" if math.isnan(value) else f"{value:.3g}"


def _read(part: str) -> pd.DataFrame:
    path = RESULTS / f"costs-{part}.csv"
    return pd.read_csv(path) if path.exists() else pd.DataFrame()


def _write(part: str, rows: list[dict[str, Any]], more: bool = False) -> None:
    """Write the table, or more rows of it. Objects: a whole number stays one in a column that has gaps."""
    path = RESULTS / f"costs-{part}.csv"
    more = more and path.exists()
    frame = pd.DataFrame(rows, dtype=object)
    frame.to_csv(path, mode="a" if more else "w", header=not more, index=False, lineterminator="\n")


PARTS = {"sweep": sweeps, "profile": profile, "scaling": scaling}


def main() -> None:
    if "--show" not in sys.argv:
        for part in [argument for argument in sys.argv[1:] if argument in PARTS] or list(PARTS):
            PARTS[part]()
        (RESULTS / "costs.md").write_text(digest() + "\n")
    print((RESULTS / "costs.md").read_text())


if __name__ == "__main__":
    main()
