"""The paper's two comparisons (section 5.3).

equal time   eNMF runs to its KKT point; every opponent gets that time from each start and ends with the first iteration
             past it, or at its own KKT point
equal error  every opponent runs until it reaches eNMF's error, its own KKT point, 1,000 iterations without improvement,
             or `patience` times eNMF's time
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from enmf import parallel
from enmf.api import registry
from enmf.api.factorize import factorize_problem
from enmf.bench import outside
from enmf.bench.table import Row, Table
from enmf.certificate.certificate import kkt_residual
from enmf.linalg.svd import sharpen, truncated_svd
from enmf.problem.state import Iterate
from enmf.problem.validation.arrays import Problem, check_problem
from enmf.problem.validation.numbers import make_rng
from enmf.run.result import Result
from enmf.run.stopping import Progress, Stopping

NINE_STARTS = ("random-0", "random-1", "random-2", "random-3", "random-4", "kmeans", "heuristic", "nica", "nndsvd")
REFERENCE = "enmf"
ROUNDING = 1e-6  # an error within this share of eNMF's is the same error


@dataclass(frozen=True)
class Setting:
    """What to run on one matrix."""

    data: str
    X: Any = field(repr=False)
    rank: int
    methods: tuple[str, ...]
    starts: tuple[str, ...] = NINE_STARTS
    repeats: int = 1
    threads: int | None = None
    tol: float = 1e-5
    patience: float = 20.0  # equal error: times eNMF's time until an opponent is given up


def equal_time(setting: Setting, table: Table) -> Iterator[Row]:
    """Run the setting, yielding each row as it is made; rows that the table has already are not made again."""
    return _compare("equal-time", setting, table)


def equal_error(setting: Setting, table: Table) -> Iterator[Row]:
    """Run the setting, yielding each row as it is made; rows that the table has already are not made again."""
    return _compare("equal-error", setting, table)


def count_runs(setting: Setting) -> int:
    """How many rows a setting makes."""
    return setting.repeats * (1 + len(setting.methods) * len(setting.starts))


@dataclass(frozen=True)
class Goal:
    """When an opponent ends: the time it has, and the error at which it has arrived."""

    seconds: float
    error: float = 0.0


def _compare(protocol: str, setting: Setting, table: Table) -> Iterator[Row]:
    problem = check_problem(setting.X)
    with parallel.limit(setting.threads) as threads:
        rng = make_rng(0)
        bound = sharpen(problem.X, truncated_svd(problem.X, setting.rank, rng=rng), rng=rng).lower_bound(setting.rank)
        compile_kernels(problem, setting)
        for repeat in range(setting.repeats):  # interleaved: every method runs once before any runs twice
            reference = table.find((protocol, setting.data, setting.rank, REFERENCE, "exterior", repeat))
            if reference is None:
                run = _run_ours(problem, setting, REFERENCE, "exterior", repeat, None)
                reference = _row(protocol, setting, problem, REFERENCE, "exterior", repeat, threads, run, bound, None)
                table.add(reference)
                yield reference
            goal = (
                Goal(reference.seconds)
                if protocol == "equal-time"
                else Goal(setting.patience * reference.seconds, reference.error * (1.0 + ROUNDING))
            )
            for start in setting.starts:
                for method in setting.methods:
                    if table.find((protocol, setting.data, setting.rank, method, start, repeat)) is not None:
                        continue
                    runner = run_outside if method in outside.names() else _run_ours
                    run = runner(problem, setting, method, start, repeat, goal)
                    row = _row(protocol, setting, problem, method, start, repeat, threads, run, bound, reference)
                    table.add(row)
                    yield row


@dataclass(frozen=True)
class _Run:
    status: str
    seconds: float = math.nan
    passes: int = 0
    iterations: int = 0
    error: float = math.nan
    kkt: float = math.nan


def _row(
    protocol: str,
    setting: Setting,
    problem: Problem,
    method: str,
    start: str,
    repeat: int,
    threads: int,
    run: _Run,
    bound: float,
    reference: Row | None,
) -> Row:
    bound *= problem.scale
    return Row(
        protocol,
        setting.data,
        *problem.X.shape,
        setting.rank,
        method,
        start,
        repeat,
        threads,
        run.status if reference is not None else "reference",
        run.seconds,
        run.passes,
        run.iterations,
        run.error,
        run.error / bound if bound > 0 else math.inf,
        run.kkt,
        reference.seconds if reference is not None else run.seconds,
        reference.error if reference is not None else run.error,
    )


def run_to(
    problem: Problem,
    rank: int,
    method: str,
    start: str,
    goal: Goal | None = None,
    *,
    tol: float = 1e-5,
    threads: int | None = None,
    preset: str | None = None,
    bound: bool = False,
    options: dict[str, Any] | None = None,
) -> Result:
    """One run of ours that ends at the goal or at its KKT point. A run that the goal's time ended is a "timeout"."""

    def out_of_time(progress: Progress) -> bool:
        return goal is not None and progress.phase == "descent" and progress.seconds >= goal.seconds

    stopping = Stopping(
        tol, 10**7, target_error=goal.error if goal is not None else None, patience=1000 if goal else 100
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = factorize_problem(
            problem,
            rank,
            method,
            init="random" if start.startswith("random-") else start,
            stopping=stopping,
            random_state=seed_of(start),
            n_threads=threads,
            callback=out_of_time,
            verbose=False,
            preset=preset,
            bound=bound,
            exact_U=False,
            options=options or {},
        )
    return replace(result, status="timeout") if result.status == "interrupted" else result


def seed_of(start: str) -> int:
    """The number in "random-3"; repeats of a run differ in timing only, so they share it."""
    return int(start.rsplit("-", 1)[1]) if start.startswith("random-") else 0


def _run_ours(problem: Problem, setting: Setting, method: str, start: str, repeat: int, goal: Goal | None) -> _Run:
    try:
        result = run_to(problem, setting.rank, method, start, goal, tol=setting.tol, threads=setting.threads)
    except Exception as problem_found:
        return _Run(f"failed: {type(problem_found).__name__}: {problem_found}"[:200])
    last = result.trace[-1]
    return _Run(result.status, last.seconds, last.passes, result.n_iter, result.error, result.certificate.kkt)


def run_outside(problem: Problem, setting: Setting, method: str, start: str, repeat: int, goal: Goal | None) -> _Run:
    """In chunks of growing length, timed one by one; error and KKT residual are measured between them."""
    assert goal is not None
    X, raw, best, stale = problem.X, problem.X.raw(), math.inf, 0
    name = "random" if start.startswith("random-") else start
    try:
        began = time.perf_counter()
        U, V = registry.STARTS[name](X, setting.rank, make_rng(seed_of(start)))
        spent, iterations, chunk = time.perf_counter() - began, 0, 1
        W, H = np.ascontiguousarray(U), np.ascontiguousarray(V.T)
        while True:
            began = time.perf_counter()
            with parallel.blas_threads():
                W, H = outside.advance(method, raw, W, H, chunk)
            spent += time.perf_counter() - began
            iterations += chunk
            it = Iterate(X, np.maximum(W, 0), np.maximum(H.T, 0))
            error, kkt = math.sqrt(max(it.squared_error(), 0.0)) * problem.scale, kkt_residual(it)
            stale = 0 if error < best * (1.0 - 1e-9) else stale + chunk
            best = min(best, error)
            status = _outside_status(error, kkt, spent, stale, goal, setting.tol)
            if status is not None:
                return _Run(status, spent, 2 * iterations, iterations, error, kkt)
            left = max(goal.seconds - spent, 0.0) / (spent / iterations)
            chunk = max(1, min(2 * chunk, int(left / 4) + 1, iterations // 4 + 1))
    except Exception as problem_found:
        return _Run(f"failed: {type(problem_found).__name__}: {problem_found}"[:200])


def _outside_status(error: float, kkt: float, spent: float, stale: int, goal: Goal, tol: float) -> str | None:
    if kkt <= tol:
        return "converged"
    if error <= goal.error:
        return "target_reached"
    if spent >= goal.seconds:
        return "timeout"
    return "stalled" if stale >= 1000 else None


def compile_kernels(problem: Problem, setting: Setting) -> None:
    """Compile every kernel for this precision and storage on a corner of X, before any clock starts."""
    corner = check_problem(problem.X.raw()[:60, :60])
    if corner.X.squared_norm() == 0.0:
        return
    small = Setting(setting.data, None, 2, (), threads=setting.threads, tol=0.0)
    for method in (REFERENCE, *setting.methods):
        if method in outside.names():
            continue
        names = {"exterior"} if method == REFERENCE else {start.split("-")[0] for start in setting.starts}
        for name in names:
            _run_ours(corner, small, method, name, 0, Goal(0.0))


Protocol = Callable[[Setting, Table], Iterator[Row]]
PROTOCOLS: dict[str, Protocol] = {"equal-time": equal_time, "equal-error": equal_error}
