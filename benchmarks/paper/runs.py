"""One run as a row, and the comparison of all methods on one matrix under a budget of seconds."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from enmf.bench import protocols
from enmf.bench.data import matrix
from enmf.bench.protocols import (
    NINE_STARTS,
    TOL,
    Case,
    Goal,
    Problem,
    Result,
    Setting,
    equal_error,
    equal_time,
    goals,
    run_to,
)
from enmf.bench.table import Summary, Table, summarize
from enmf.certificate.words import PROVEN
from enmf.linalg.spectrum import Spectrum
from enmf.linalg.svd import truncated_svd
from enmf.problem.validation.arrays import check_problem
from enmf.problem.validation.numbers import make_rng
from paper.case import Row

OPPONENTS = ("hals", "nmf-admm", "grad-mult", "als", "ao-admm", "a-hals", "nenmf", "fpgm", "r1d")  # the paper's nine
THREE_STARTS = ("random-0", "random-1", "nndsvd")
EXACT_SIDE = 2048  # smaller side up to which the bound comes from an exact SVD
MET = 1.0 + PROVEN  # error / bound of a global optimum, as in the certificate
LETTER = "enmf-paper"  # eNMF to the paper's letter: preset="paper"
# instead of TOL where a constant explains 98.6 % of the norm: residuals over ||X||^1.5 are small
TOLS = {"audio_waveform": 3e-6}


@lru_cache(maxsize=1)
def problem(data: str) -> Problem:
    """The validated matrix of that name; the last one is kept."""
    return check_problem(matrix(data))


def bound_of(target: Problem, rank: int) -> float:
    """The Eckart-Young bound: from an exact SVD, which makes it tight for flat spectra too, where that is cheap."""
    if min(target.X.shape) > EXACT_SIDE:
        return protocols.bound_of(target, rank)
    return exact_spectrum(target, rank).lower_bound(rank) * target.scale


def exact_spectrum(target: Problem, rank: int) -> Spectrum:
    return truncated_svd(target.X, rank, kind="exact", rng=make_rng(0))


def warm(target: Problem, *methods: str) -> None:
    """Run these methods once on a corner, before any clock starts."""
    protocols.warm_up(target, Setting("", None, 2, methods, ("random-0", "nndsvd")))


def facts(result: Result, bound: float) -> Row:
    """What a run says: end, cost, error against the bound, KKT residuals. A run that ends at the bound has found a
    global optimum, whatever it ended for."""
    c = result.certificate
    last = result.trace[-1]
    met = 0.0 < c.error <= MET * bound and result.status != "target_reached"
    return {
        "status": "global_optimum" if met else result.status,
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
        "rows": len(result.U),
        "columns": len(result.V),
    }


def contest(data: str, rank: int, budget: float, methods: tuple[str, ...] = OPPONENTS) -> list[Row]:
    """Both protocols of the paper. Equal time: as many of its nine starts as the budget allows (nine, three or one).
    Equal error: each opponent from its best start, for as many times eNMF's time as the budget allows (1.5 to 10)."""
    X, table, tol = problem(data).X.raw(), Table(), TOLS.get(data, TOL)
    reference = next(equal_time(Setting(data, X, rank, methods, (), tol=tol), table))
    one_start = reference.seconds * len(methods)
    starts = NINE_STARTS if 9 * one_start <= budget else THREE_STARTS if 3 * one_start <= budget else NINE_STARTS[:1]
    list(equal_time(Setting(data, X, rank, methods, starts, tol=tol), table))
    best: dict[str, list[str]] = {}
    for line in summarize(table.rows):
        if line.method != protocols.REFERENCE:
            best.setdefault(line.best_start, []).append(line.method)
    patience = min(10.0, max(1.5, 0.4 * budget / one_start))
    for start, names in best.items():
        list(equal_error(Setting(data, X, rank, tuple(names), (start,), tol=tol, patience=patience), table))
    bound = bound_of(problem(data), rank)
    rows = [_line(line, bound, tol) for line in summarize(table.rows)] + _letter(data, rank, bound, reference, patience)
    return [{**row, "patience": patience, "threads": table.rows[0].threads} for row in rows]


def _letter(data: str, rank: int, bound: float, reference: protocols.Row, patience: float) -> list[Row]:
    """The paper's letter as one more opponent of our defaults."""
    rows = []
    for protocol, goal in goals(reference.seconds, reference.error, patience).items():
        result = run(data, rank, LETTER, "exterior", goal)
        found = facts(result, bound)
        head = {"protocol": protocol, "data": data, "rank": rank, "method": LETTER, "start": "exterior", "starts": 1}
        ended = {name: found[name] for name in ("status", "seconds", "error", "bound", "ratio", "kkt")}
        times = {"time_ratio": found["seconds"] / reference.seconds, "error_ratio": result.error / reference.error}
        rows.append({**head, **ended, **times})
    return rows


def _line(line: Summary, bound: float, tol: float) -> Row:
    status = line.status
    if line.method == protocols.REFERENCE:
        status = "global_optimum" if line.best_error <= MET * bound else "converged" if line.kkt <= tol else "stalled"
    key = {name: getattr(line, name) for name in ("protocol", "data", "rank", "method")}
    start = {"start": line.best_start, "starts": line.starts, "status": status, "seconds": line.seconds}
    ratio = line.best_error / bound if bound > 0 else math.nan
    ended = {"error": line.best_error, "bound": bound, "ratio": ratio, "kkt": line.kkt}
    names = ("time_ratio", "error_ratio", "median_error", "worst_error")
    return {**key, **start, **ended, **{name: getattr(line, name) for name in names}}


def run(
    data_or_problem: str | Problem, rank: int, method: str, start: str = "", goal: Goal | None = None, **more: Any
) -> Result:
    """`run_to` for a set by name, to its tolerance. eNMF, ours and the letter, has one start."""
    if isinstance(data_or_problem, str):
        more = {"tol": TOLS.get(data_or_problem, TOL), **more}
    target = problem(data_or_problem) if isinstance(data_or_problem, str) else data_or_problem
    if method in (protocols.REFERENCE, LETTER):
        more = {**({"preset": "paper"} if method == LETTER else {}), **more}
        return run_to(target, rank, Case(protocols.REFERENCE), goal, **more)
    return run_to(target, rank, Case(method, start), goal, **more)
