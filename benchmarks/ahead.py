"""How far eNMF is ahead of every opponent to the same error, and where it spends its time.

    ENMF_DATA=<folder> python benchmarks/ahead.py [real] [synthetic] [sweep] [profile] [scaling] [name of data ...]
    python benchmarks/ahead.py --show

real, synthetic  the target is the best error of all runs plus 0.1 %. Every opponent runs from every start until it
                 converges or has had TIMES times eNMF's time; the fastest one, if it arrives, then runs again, in turns
                 with eNMF, and medians of seven runs give the ratio, of three on synthetic data. eNMF has another
                 random_state in each of them, the opponent the one that was fastest; where that is a random start,
                 "other seeds" is its median over as many seeds as eNMF has. scikit-learn's cd, if it arrives, has three
                 runs. Clocks charge everything but the measuring of errors.
sweep            coordinate sweeps against a matrix product of the same shape
profile          shares of every phase of eNMF, to convergence; "outside" is the share of the time before the
                 certificate that is neither the SVD nor a product (with what it does to its operands) nor a sweep (with
                 the extrapolation that follows it)
scaling          seconds and passes against n, m, r and nonzeros, with fitted exponents, and one thread against two

Each part writes benchmarks/results/ahead-<part>.csv and all of them benchmarks/results/ahead.md.
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
from enmf.bench import Setting
from enmf.bench.data import matrix
from enmf.bench.protocols import Case, Goal, run_outside, warm_up
from enmf.kernels import BLOCK
from enmf.kernels import sweep as kernels
from enmf.matrix.base import Matrix
from enmf.problem.validation.arrays import check_problem
from enmf.run.monitor import Monitor
from grid import machine

RESULTS = Path(__file__).parent / "results"
THREADS = 2
REAL = [
    *(("verb", 20), ("verb", 40), ("face", 10), ("face", 25), ("audio", 20), ("faces", 49), ("hyperspectral", 10)),
    *(("single_cell", 20), ("newsgroups", 20), ("imdb", 20)),
]
SYNTHETIC = [(f"synthetic-{snr}-5000", rank) for rank in (50, 200, 500) for snr in (60, 100)]
OPPONENTS = ("e-hals", "a-hals", "nenmf", "anls-bpp")
STARTS = ("random-0", "random-1", "nndsvd")
TIMES = 5.0  # that of eNMF an opponent has (but 1 to 10 s); on synthetic data more than the ratio we claim
TIMES_SYNTHETIC = 12.0
REPEATS = 7
REPEATS_SYNTHETIC = 3  # a run takes minutes
# kernels: products, and sweeps
COUNTED = ("product", "rows", "columns", "part", "half_step", "core_step", "sweep", "extrapolate_columns")
SEEDS = "other seeds"

Curve = tuple[np.ndarray, np.ndarray, np.ndarray]  # seconds, errors, passes


def run(X: Any, rank: int, method: str, start: str, limit: float, seed: int = 0) -> tuple[Curve, enmf.Result]:
    """One run; errors of phases without factors of X are infinite."""
    name, _, number = start.partition("-")
    options: dict[str, Any] = {} if method == "enmf" else {"init": name}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = enmf.factorize(
            X,
            rank,
            method,
            random_state=int(number or seed),
            bound=False,
            max_iter=10**6,
            time_limit=limit,
            n_threads=THREADS,
            **options,
        )
    rows = [row for row in result.trace if row.phase in ("svd", "descent", "restart", "certificate")]
    curve = [np.array([getattr(row, field) for row in rows]) for field in ("seconds", "error", "passes")]
    return (curve[0], curve[1], curve[2]), result


def arrival(curve: Curve, target: float) -> tuple[float, float]:
    """Seconds and passes at which a run reaches the target."""
    reached = np.flatnonzero(curve[1] <= target)
    return (float(curve[0][reached[0]]), float(curve[2][reached[0]])) if len(reached) else (math.inf, math.inf)


def race(
    name: str, rank: int, opponents: tuple[str, ...], starts: tuple[str, ...], cd: bool, times: float = TIMES
) -> list[dict[str, Any]]:
    X = matrix(name)
    problem = check_problem(X)
    setting = Setting(name, X, rank, opponents, starts, threads=THREADS)
    with parallel.limit(THREADS):
        warm_up(problem, setting)
    most = 600.0 if times == TIMES else 60.0  # at large ranks its descent goes on for minutes below any opponent
    ours, _result = run(X, rank, "enmf", "exterior", most)
    limit = max(1.0, times * arrival(ours, 1.001 * float(ours[1].min()))[0])
    if times == TIMES:
        limit = min(limit, 10.0)
    curves = {("enmf", "exterior"): [ours]}
    for method in opponents:
        for start in starts:
            curves[method, start] = [run(X, rank, method, start, limit)[0]]
    target = 1.001 * min(float(curve[1].min()) for found in curves.values() for curve in found)
    fastest = min((key for key in curves if key[0] != "enmf"), key=lambda key: arrival(curves[key][0], target)[0])
    again = [("enmf", "exterior")] + [fastest] * math.isfinite(arrival(curves[fastest][0], target)[0])
    repeats = REPEATS if times == TIMES else REPEATS_SYNTHETIC
    for seed in range(1, repeats):
        for key in again:
            curves[key].append(run(X, rank, *key, min(limit, most) if key[0] == "enmf" else limit, seed)[0])
    if fastest in again and fastest[1].startswith("random"):
        method = fastest[0]
        curves[method, SEEDS] = [run(X, rank, method, f"random-{seed}", limit)[0] for seed in range(repeats)]
    rows: list[dict[str, Any]] = []

    def add(method: str, start: str, seconds: float, passes: float, error: float, limit: float) -> None:
        ended = {"seconds": seconds, "passes": passes, "final": error / (target / 1.001) - 1.0, "limit": limit}
        rows.append({"data": name, "rank": rank, "method": method, "start": start, **ended})

    for (method, start), found in curves.items():
        seconds = float(np.median([arrival(curve, target)[0] for curve in found]))
        error = float(np.median([curve[1].min() for curve in found]))
        add(method, start, seconds, arrival(found[0], target)[1], error, limit)
    if cd:
        outside = Setting(name, X, rank, ("sklearn-cd",), starts, threads=THREADS)
        patience = max(2.0, TIMES_SYNTHETIC * rows[0]["seconds"]) if math.isfinite(rows[0]["seconds"]) else limit
        for start in (starts[0], starts[-1]):
            with parallel.limit(THREADS):
                found = run_outside(problem, outside, Case("sklearn-cd", start), Goal(patience, target))
                arrived = found.status == "target_reached"
                seconds = [found.seconds]
                for _ in range(2 * arrived):
                    more = run_outside(problem, outside, Case("sklearn-cd", start), Goal(patience, target))
                    seconds.append(more.seconds if more.status == "target_reached" else math.inf)
            cost = (float(np.median(seconds)), found.passes) if arrived else (math.inf, math.inf)
            add("sklearn-cd", start, *cost, found.error, patience)
    for row in rows:
        row["ratio"] = row["seconds"] / rows[0]["seconds"]
    report(rows)
    return rows


def report(rows: list[dict[str, Any]]) -> None:
    print(f"{rows[0]['data']} r={rows[0]['rank']}", flush=True)
    for row in sorted(rows, key=lambda row: (row["method"] != "enmf", row["seconds"], row["final"]))[:6]:
        print(
            f"  {row['method']:<10} {row['start']:<9} {row['seconds']:8.3f} s, ratio {row['ratio']:6.2f}, "
            f"passes {row['passes']:5.0f}, final error +{row['final']:.4%}",
            flush=True,
        )


def real() -> None:
    _all("real", REAL, OPPONENTS, STARTS, TIMES)


def synthetic() -> None:
    """One opponent from one start: a run takes minutes here."""
    _all("synthetic", SYNTHETIC, ("e-hals",), ("nndsvd",), TIMES_SYNTHETIC)


def _all(
    part: str, settings: list[tuple[str, int]], opponents: tuple[str, ...], starts: tuple[str, ...], times: float
) -> None:
    """Race by race, resumes where it stopped; names of data on the command line choose among them."""
    rows = _read(part)
    done = set() if rows.empty else set(zip(rows["data"], rows["rank"]))
    chosen = [argument for argument in sys.argv[1:] if argument in {name for name, _ in settings}]
    for name, rank in settings:
        if (name, rank) not in done and (not chosen or name in chosen):
            _write(part, race(name, rank, opponents, starts, part == "real", times), more=True)


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
        run(X[:60, :60], 2, "enmf", "exterior", 1.0)
        with stopwatch() as spent:
            _, result = run(X, rank, "enmf", "exterior", 60.0)
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
            _, result = run(X, int(size["r"]), "enmf", "exterior", 20.0)
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
    lines = ["# How far eNMF is ahead", "", "Made by `python benchmarks/ahead.py` on: " + machine(), ""]
    for part in ("real", "synthetic"):
        rows = _read(part)
        if len(rows):
            lines += _races(part, rows)
    for part in ("sweep", "profile", "scaling"):
        rows = _read(part)
        if len(rows):
            names = list(rows)
            lines += [f"## {part}", "", "| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
            lines += ["| " + " | ".join(map(_short, row)) + " |" for row in rows.itertuples(index=False)]
            lines += [""]
    return "\n".join(lines)


def _races(part: str, rows: pd.DataFrame) -> list[str]:
    """A line for each race, and the mean of their ratios."""
    lines = [
        f"## {part}: time to the best error of all plus 0.1 %",
        "",
        "| data, rank | eNMF: seconds, passes, final error | best opponent: ratio | its ratio from other seeds "
        "| scikit-learn cd: ratio |",
        "|---|---|---|---|---|",
    ]
    ratios: list[float] = []
    missing: list[str] = []
    for (name, rank), of in rows.groupby(["data", "rank"], sort=False):
        ours = of[of["method"] == "enmf"].iloc[0]
        cd = of[of["method"] == "sklearn-cd"]
        others = of[~of["method"].isin(("enmf", "sklearn-cd")) & (of["start"] != SEEDS)]
        best = others.loc[others["seconds"].idxmin()]
        arrives, none = math.isfinite(best["ratio"]), best["limit"] / ours["seconds"]
        ratio = best["ratio"] if arrives else none
        if math.isfinite(ours["seconds"]):
            ratios.append(ratio)
        else:
            missing.append(f"{name}, {rank}")
        lines.append(
            f"| {name}, {rank} | {ours['seconds']:.3f}, {ours['passes']:.0f}, +{ours['final']:.3%} | "
            + (f"{best['method']} ({best['start']}) {ratio:.2f}" if arrives else f"none arrives, > {none:.0f}")
            + f" | {_seeds(of.loc[of['start'] == SEEDS, 'ratio'])} | {_cd(cd, ours['seconds'])} |"
        )
    without = f" (without {'; '.join(missing)}, where eNMF does not arrive)" if missing else ""
    mean = np.exp(np.mean(np.log(ratios)))
    return [*lines, "", f"Geometric mean of the ratios to the best opponent{without}: {mean:.2f}", ""]


def _cd(rows: pd.DataFrame, seconds: float) -> str:
    """The ratio of scikit-learn's cd from its best start, or what it is above."""
    if rows.empty:
        return "-"
    ratio = rows["ratio"].min()
    return f"{ratio:.1f}" if math.isfinite(ratio) else f"> {rows['limit'].max() / seconds:.0f}"


def _seeds(ratios: pd.Series) -> str:
    if ratios.empty:
        return "-"
    return f"{ratios.iloc[0]:.2f}" if math.isfinite(ratios.iloc[0]) else "most do not arrive"


def _short(value: Any) -> str:
    return value if isinstance(value, str) else "" if math.isnan(value) else f"{value:.3g}"


def _read(part: str) -> pd.DataFrame:
    path = RESULTS / f"ahead-{part}.csv"
    return pd.read_csv(path) if path.exists() else pd.DataFrame()


def _write(part: str, rows: list[dict[str, Any]], more: bool = False) -> None:
    """Write the table, or more rows of it. Objects: a whole number stays one in a column that has gaps."""
    path = RESULTS / f"ahead-{part}.csv"
    more = more and path.exists()
    frame = pd.DataFrame(rows, dtype=object)
    frame.to_csv(path, mode="a" if more else "w", header=not more, index=False, lineterminator="\n")


PARTS = {"real": real, "synthetic": synthetic, "sweep": sweeps, "profile": profile, "scaling": scaling}


def main() -> None:
    if "--show" not in sys.argv:
        for part in [argument for argument in sys.argv[1:] if argument in PARTS] or list(PARTS):
            PARTS[part]()
        (RESULTS / "ahead.md").write_text(digest() + "\n")
    print((RESULTS / "ahead.md").read_text())


if __name__ == "__main__":
    main()
