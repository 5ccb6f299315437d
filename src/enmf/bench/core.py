"""Where the bench meets the inside of the library: a checked matrix, its bound, a start, a run, the measure of a pair.

Protocols and the package `paper` of benchmarks/ reach these through here alone.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from enmf.api.registry import STARTS
from enmf.api.request import Request, solve
from enmf.certificate.words import PROVEN, TOL
from enmf.linalg.bound import sharpen
from enmf.linalg.spectrum import Spectrum
from enmf.linalg.svd import truncated_svd
from enmf.problem.problem import Problem
from enmf.problem.state import State
from enmf.problem.validation.arrays import check_problem
from enmf.problem.validation.numbers import make_rng
from enmf.run.monitor import Progress
from enmf.run.result import Result
from enmf.run.stopping import Stopping

__all__ = ["PROVEN", "TOL", "Case", "Choices", "Goal", "Measure", "Problem", "Result", "Spectrum"]
__all__ += ["bound_of", "checked", "exact_spectrum", "measure", "run_to", "start_of"]


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


@dataclass(frozen=True)
class Choices:
    """How a method of ours runs."""

    tol: float = TOL
    threads: int | None = None
    preset: str | None = None
    bound: bool = False
    options: dict[str, Any] = field(default_factory=dict)


class Measure(NamedTuple):
    """Of a pair of factors; the error in the units of the user's X."""

    error: float
    kkt: float


def checked(X: Any) -> Problem:
    """The matrix, validated."""
    return check_problem(X)


def exact_spectrum(problem: Problem, rank: int) -> Spectrum:
    return truncated_svd(problem.X, rank, kind="exact", rng=make_rng(0))


def bound_of(problem: Problem, rank: int, *, exact: bool = False) -> float:
    """The Eckart-Young bound, in the units of the user's X. An exact SVD makes it tight also for flat spectra."""
    if exact:
        spectrum = exact_spectrum(problem, rank)
    else:
        rng = make_rng(0)
        spectrum = sharpen(problem.X, truncated_svd(problem.X, rank, rng=rng), rng=rng)
    return spectrum.lower_bound(rank) * problem.scale


def start_of(problem: Problem, rank: int, case: Case) -> tuple[np.ndarray, np.ndarray]:
    return STARTS[case.init](problem.X, rank, make_rng(case.seed))


def measure(problem: Problem, U: np.ndarray, V: np.ndarray) -> Measure:
    state = State(problem, U, V)
    return Measure(state.error() * problem.scale, state.kkt())


def run_to(problem: Problem, rank: int, case: Case, goal: Goal | None = None, choices: Choices | None = None) -> Result:
    """One run of ours that ends at the goal or at its KKT point. A run that the goal's time ended is a "timeout"."""
    how = choices or Choices()

    def out_of_time(progress: Progress) -> bool:
        return goal is not None and progress.phase == "descent" and progress.seconds >= goal.seconds

    limits = Stopping(how.tol, 10**7, target_error=goal.error if goal else None, patience=1000 if goal else 100)
    request = Request(
        method=case.method,
        init=case.init,
        stopping=limits,
        random_state=case.seed,
        n_threads=how.threads,
        callback=out_of_time,
        preset=how.preset,
        bound=how.bound,
        options=how.options,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = solve(problem, rank, request)
    return replace(result, status="timeout") if result.status == "interrupted" else result
