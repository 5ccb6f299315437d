"""The paper's two comparisons (section 5.3), and the single runs that they and the package `paper` are made of.

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
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from enmf import parallel
from enmf.api.registry import STARTS
from enmf.api.request import Request, solve
from enmf.bench import outside
from enmf.bench.table import Row, Table
from enmf.certificate.words import TOL
from enmf.linalg.svd import bounded
from enmf.problem.problem import Problem
from enmf.problem.state import State
from enmf.problem.validation.arrays import check_problem
from enmf.problem.validation.losses import with_loss
from enmf.problem.validation.numbers import make_rng
from enmf.run.monitor import Progress
from enmf.run.result import Result
from enmf.run.stopping import Stopping

NINE_STARTS = ("random-0", "random-1", "random-2", "random-3", "random-4", "kmeans", "heuristic", "nica", "nndsvd")
REFERENCE = "enmf"
ROUNDING = 1e-6  # an error within this share of eNMF's is the same error


# One run -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One run: a method, a start ("random-3": with seed 3), and which of the repeats, which differ in timing only."""

    method: str
    start: str = "exterior"
    repeat: int = 0

    @property
    def init(self) -> str:
        return "random" if self.start.startswith("random-") else self.start

    @property
    def seed(self) -> int:
        return int(self.start.rsplit("-", 1)[1]) if self.start.startswith("random-") else 0


@dataclass(frozen=True)
class Goal:
    """When a run ends: the time it has, and the error at which it has arrived."""

    seconds: float
    error: float = 0.0


def bound_of(problem: Problem, rank: int) -> float:
    """The Eckart-Young bound, in the units of the user's X; 0 for a loss that has none."""
    if not problem.loss.has_bound(problem.X):
        return 0.0
    rng = make_rng(0)
    return bounded(problem.X, None, rank, rng).lower_bound(rank) * problem.scale


def measure(problem: Problem, U: np.ndarray, V: np.ndarray) -> tuple[float, float]:
    """Error, in the user's units, and KKT residual."""
    state = State(problem, U, V)
    return state.error() * problem.units.error(problem.loss), state.kkt()


def run_to(problem: Problem, rank: int, case: Case, goal: Goal | None = None, tol: float = TOL, **more: Any) -> Result:
    """One run of ours that ends at the goal or at its KKT point; `more` are fields of `Request`.

    A run that the goal's time ended is a "timeout".
    """

    def out_of_time(progress: Progress) -> bool:
        return goal is not None and progress.phase == "descent" and progress.seconds >= goal.seconds

    limits = Stopping(tol, 10**7, target_error=goal.error if goal else None, patience=1000 if goal else 100)
    fixed = {"stopping": limits, "random_state": case.seed, "callback": out_of_time, "bound": False}
    request = Request(method=case.method, init=case.init, **{**fixed, **more})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = solve(problem, rank, request)
    return replace(result, status="timeout") if result.status == "interrupted" else result


# Comparisons -------------------------------------------------------------------------------------------------------


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
    tol: float = TOL
    patience: float = 20.0  # equal error: times eNMF's time until an opponent is given up
    loss: str | float = "frobenius"  # of everybody


def equal_time(setting: Setting, table: Table) -> Iterator[Row]:
    """Run the setting, yielding each row as it is made; rows that the table has already are not made again."""
    return _compare("equal-time", setting, table)


def equal_error(setting: Setting, table: Table) -> Iterator[Row]:
    """Run the setting, yielding each row as it is made; rows that the table has already are not made again."""
    return _compare("equal-error", setting, table)


def count_runs(setting: Setting) -> int:
    """How many rows a setting makes."""
    return setting.repeats * (1 + len(setting.methods) * len(setting.starts))


def goals(seconds: float, error: float, patience: float) -> dict[str, Goal]:
    """What an opponent of a run with these seconds and this error is given by each protocol."""
    return {"equal-time": Goal(seconds), "equal-error": Goal(patience * seconds, error * (1.0 + ROUNDING))}


@dataclass(frozen=True)
class Run:
    """What a run says, whoever made it."""

    status: str
    seconds: float = math.nan
    passes: int = 0
    iterations: int = 0
    error: float = math.nan
    kkt: float = math.nan


@dataclass(frozen=True)
class _Contest:
    """What all runs of a comparison share."""

    protocol: str
    setting: Setting
    problem: Problem
    threads: int
    bound: float

    def key(self, case: Case) -> tuple[Any, ...]:
        own = self.protocol, self.setting.data, self.setting.rank, self.problem.loss.name
        return (*own, case.method, case.start, case.repeat)

    def row(self, case: Case, run: Run, reference: Row | None) -> Row:
        """The row of a run; without a reference it is the reference."""
        n, m = self.problem.X.shape
        made = {**asdict(case), **asdict(run if reference is not None else replace(run, status="reference"))}
        return Row(
            protocol=self.protocol,
            data=self.setting.data,
            rows=n,
            columns=m,
            rank=self.setting.rank,
            threads=self.threads,
            ratio=run.error / self.bound if self.bound > 0 else math.inf,
            reference_seconds=(reference or run).seconds,
            reference_error=(reference or run).error,
            loss=self.problem.loss.name,
            **made,
        )


def _compare(protocol: str, setting: Setting, table: Table) -> Iterator[Row]:
    problem = with_loss(check_problem(setting.X), setting.loss)
    with parallel.limit(setting.threads) as threads:
        contest = _Contest(protocol, setting, problem, threads, bound_of(problem, setting.rank))
        warm_up(problem, setting)
        for repeat in range(setting.repeats):  # interleaved: every method runs once before any runs twice
            own = Case(REFERENCE, repeat=repeat)
            reference = table.find(contest.key(own))
            if reference is None:
                reference = contest.row(own, run_ours(problem, setting, own), None)
                table.add(reference)
                yield reference
            goal = goals(reference.seconds, reference.error, setting.patience)[protocol]
            for case in (Case(method, start, repeat) for start in setting.starts for method in setting.methods):
                if table.find(contest.key(case)) is None:
                    runner = run_outside if case.method in outside.names() else run_ours
                    row = contest.row(case, runner(problem, setting, case, goal), reference)
                    table.add(row)
                    yield row


def _failed(problem: Exception) -> Run:
    return Run(f"failed: {type(problem).__name__}: {problem}"[:200])


def run_ours(problem: Problem, setting: Setting, case: Case, goal: Goal | None = None) -> Run:
    try:
        result = run_to(problem, setting.rank, case, goal, setting.tol, n_threads=setting.threads)
    except Exception as problem_found:
        return _failed(problem_found)
    last = result.trace[-1]
    return Run(result.status, last.seconds, last.passes, result.n_iter, result.error, result.certificate.kkt)


def run_outside(problem: Problem, setting: Setting, case: Case, goal: Goal) -> Run:
    """In chunks of growing length, timed one by one; error and KKT residual are measured between them."""
    raw, best, stale = problem.X.raw(), math.inf, 0
    try:
        began = time.perf_counter()
        U, V = STARTS[case.init](problem.X, setting.rank, make_rng(case.seed))
        spent, iterations, chunk = time.perf_counter() - began, 0, 1
        W, H = np.ascontiguousarray(U), np.ascontiguousarray(V.T)
        while True:
            began = time.perf_counter()
            with parallel.blas_threads():
                W, H = outside.advance(case.method, raw, W, H, chunk, problem.loss.degree)
            spent += time.perf_counter() - began
            iterations += chunk
            error, kkt = measure(problem, np.maximum(W, 0), np.maximum(H.T, 0))
            stale = 0 if error < best * (1.0 - 1e-9) else stale + chunk
            best = min(best, error)
            status = _outside_status(error, kkt, spent, stale, goal, setting.tol)
            if status is not None:
                return Run(status, spent, 2 * iterations, iterations, error, kkt)
            left = max(goal.seconds - spent, 0.0) / (spent / iterations)
            chunk = max(1, min(2 * chunk, int(left / 4) + 1, iterations // 4 + 1))
    except Exception as problem_found:
        return _failed(problem_found)


def _outside_status(error: float, kkt: float, spent: float, stale: int, goal: Goal, tol: float) -> str | None:
    if kkt <= tol:
        return "converged"
    if error <= goal.error:
        return "target_reached"
    if spent >= goal.seconds:
        return "timeout"
    return "stalled" if stale >= 1000 else None


def warm_up(problem: Problem, setting: Setting) -> None:
    """Run everything once on a corner of X, before any clock starts: no import falls into a measurement."""
    corner = replace(check_problem(problem.X.raw()[:60, :60]), loss=problem.loss)
    if corner.X.squared_norm() == 0.0:
        return
    small = Setting(setting.data, None, 2, (), threads=setting.threads, tol=0.0)
    for method in (REFERENCE, *setting.methods):
        if method in outside.names():
            continue
        names = {"exterior"} if method == REFERENCE else {start.split("-")[0] for start in setting.starts}
        for name in names:
            run_ours(corner, small, Case(method, name), Goal(0.0))


Protocol = Callable[[Setting, Table], Iterator[Row]]
PROTOCOLS: dict[str, Protocol] = {"equal-time": equal_time, "equal-error": equal_error}
