"""One run as a row, and the comparison of all methods on one matrix under a budget of seconds."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from enmf.bench import protocols
from enmf.bench.data import matrix
from enmf.bench.paper.case import Row
from enmf.bench.protocols import NINE_STARTS, Goal, Setting, equal_error, equal_time, run_to
from enmf.bench.table import Summary, Table, summarize
from enmf.exterior.svd import sharpen, truncated_svd
from enmf.result import Result
from enmf.validation import Problem, check_problem, make_rng

OPPONENTS = ("hals", "nmf-admm", "grad-mult", "als", "ao-admm", "a-hals", "nenmf", "fpgm", "r1d")  # the paper's nine
THREE_STARTS = ("random-0", "random-1", "nndsvd")
EXACT_SIDE = 2048  # smaller side up to which the bound comes from an exact SVD
MET = 1.0 + 1e-6  # error / bound of a global optimum, as in the certificate


@lru_cache(maxsize=1)
def problem(data: str) -> Problem:
    """The matrix of that name, through the door; the last one is kept."""
    return check_problem(matrix(data))


def bound_of(target: Problem, rank: int) -> float:
    """The Eckart-Young bound: from an exact SVD where that is cheap, so that it is tight also for flat spectra."""
    X, rng = target.X, make_rng(0)
    if min(X.shape) <= EXACT_SIDE:
        spectrum = truncated_svd(X, rank, kind="exact", rng=rng)
    else:
        spectrum = sharpen(X, truncated_svd(X, rank, rng=rng), rng=rng)
    return spectrum.lower_bound(rank) * target.scale


def warm(target: Problem, *methods: str) -> None:
    """Compile the kernels these methods need, before any clock starts."""
    protocols.compile_kernels(target, Setting("", None, 2, methods, ("random-0", "nndsvd")))


def facts(result: Result, bound: float) -> Row:
    """What a run says: end, cost, error against the bound, KKT residuals."""
    c = result.certificate
    last = result.trace[-1]
    return {
        "status": result.status,
        "seconds": last.seconds,
        "passes": last.passes,
        "iterations": result.n_iter,
        "error": c.error,
        "bound": bound,
        "ratio": c.error / bound if bound > 0 else math.nan,
        "relative_error": c.relative_error,
        "kkt": c.kkt,
        "kkt_max": c.kkt_max,
        "kkt_sum": c.kkt_sum,
    }


def contest(data: str, rank: int, budget: float, tol: float, methods: tuple[str, ...] = OPPONENTS) -> list[Row]:
    """Both protocols of the paper. Equal time: as many of its nine starts as the budget allows (nine, three or one).
    Equal error: each opponent from its best start, for as many times eNMF's time as the budget allows (2 to 20)."""
    X, table = problem(data).X.raw(), Table()
    reference = next(equal_time(Setting(data, X, rank, methods, (), tol=tol), table))
    one_start = reference.seconds * len(methods)
    starts = NINE_STARTS if 9 * one_start <= budget else THREE_STARTS if 3 * one_start <= budget else NINE_STARTS[:1]
    list(equal_time(Setting(data, X, rank, methods, starts, tol=tol), table))
    best: dict[str, list[str]] = {}
    for line in summarize(table.rows):
        if line.method != protocols.REFERENCE:
            best.setdefault(line.best_start, []).append(line.method)
    patience = min(20.0, max(2.0, 0.5 * budget / one_start))
    for start, names in best.items():
        list(equal_error(Setting(data, X, rank, tuple(names), (start,), tol=tol, patience=patience), table))
    more = {"patience": patience, "threads": table.rows[0].threads}
    bound = bound_of(problem(data), rank)
    return [{**_line(line, bound, tol), **more} for line in summarize(table.rows)]


def _line(line: Summary, bound: float, tol: float) -> Row:
    status = line.status
    if line.method == protocols.REFERENCE:
        status = "global_optimum" if line.best_error <= MET * bound else "converged" if line.kkt <= tol else "stalled"
    return {
        "protocol": line.protocol,
        "data": line.data,
        "rank": line.rank,
        "method": line.method,
        "start": line.best_start,
        "starts": line.starts,
        "status": status,
        "seconds": line.seconds,
        "error": line.best_error,
        "bound": bound,
        "ratio": line.best_error / bound if bound > 0 else math.nan,
        "kkt": line.kkt,
        "time_ratio": line.time_ratio,
        "error_ratio": line.error_ratio,
        "median_error": line.median_error,
        "worst_error": line.worst_error,
    }


def run(
    data_or_problem: str | Problem, rank: int, method: str, start: str, goal: Goal | None = None, **more: Any
) -> Result:
    """`run_to` for a set by name."""
    target = problem(data_or_problem) if isinstance(data_or_problem, str) else data_or_problem
    return run_to(target, rank, method, start, goal, **more)
