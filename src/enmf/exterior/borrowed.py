"""The exterior start of a loss whose best unconstrained factors are not known in closed form.

Near the best model of rank one, r cᵀ / N with row sums r and column sums c, a beta divergence is a weighted sum of
squares, with weights (r_i c_j)^(beta - 2). So its best unconstrained factors are nearly those of an ordinary SVD, of
    D_r^-p X D_c^-p,    p = (2 - beta) / 2        (for Kullback-Leibler p = 1/2: correspondence analysis)
Positive scaling keeps signs: rotation and feasibility work on the scaled matrix as they are, and their factors are
scaled back. Other powers p are candidates too; the pair with the smallest loss after a few steps goes on. For beta < 1
the loss is not even convex in one factor, its minima lie some percent apart, and only a longer trial tells them apart:
random starts take part, on a sample of the rows (or columns) of a large X. Where entries are missing, the start is that
of least squares, with a ridge that is as strong there: x^(2 - beta) times as large, x being the mean entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from enmf.certificate.words import LIMITED
from enmf.exterior.pipeline import trivial
from enmf.losses.divergence import ACCURACY, MOST_SWEEPS
from enmf.matrix.base import Matrix
from enmf.matrix.dense import DenseMatrix
from enmf.matrix.factor import fortran
from enmf.matrix.scaled import ScaledMatrix
from enmf.matrix.sweeps import Sweep
from enmf.problem.problem import FROBENIUS, NO_PENALTY, Penalty, Problem, SidePenalty
from enmf.problem.state import State
from enmf.run.loop import Stage, descend, run_stage
from enmf.run.options import Start
from enmf.run.trace import Phase as Cost
from enmf.solvers.hals import ExtrapolatedHALS
from enmf.starts.random import random

if TYPE_CHECKING:
    from enmf.run.options import Phase, RunOptions
    from enmf.run.walk import Walk

SHORT = 2  # steps of a trial that needs no sample
SMOOTH = 0.01  # share of a component that is spread like the sums of X: no model is zero where X is not
DRAWS = 3  # starts from scaled data: one depends on chance (sampled rows, random rotations), and one in five was poor
CORE_DESCENT = 20  # iterations on the core of the scaled matrix; 50 led to the same minima
SAMPLED = 1 << 21  # entries of a sample on which long trials are made
CHEAP = 1e8  # flops of a step that takes some milliseconds: further starts are tried
HOPELESS = 1.15  # times the best loss after a short trial: a start above it would have to gain more than good ones do
LIFT = 5  # steps of the longer factor after a trial on a sample


@dataclass(frozen=True, eq=False)
class BorrowedStart(Start):
    """Candidates from the start of least squares on scaled data."""

    inner: Start
    options: RunOptions | None = None

    def phases(self, problem: Problem, options: RunOptions) -> Sequence[Phase]:
        if options.rank >= min(problem.X.shape) and not problem.penalty and problem.X.complete:
            return [trivial]
        return [replace(self, options=options).candidates]

    def afterwards(self, problem: Problem, options: RunOptions) -> Sequence[Phase]:
        restarts = getattr(getattr(self.inner, "options", None), "restarts", 0)
        few = problem.penalty or options.rank >= min(problem.X.shape) or not problem.X.complete or not restarts
        return [] if few else [partial(_restart, restarts)]

    def candidates(self, walk: Walk) -> None:
        """The best of the starts from the scalings that the loss proposes, and of random ones."""
        walk.monitor.phases.update(dict.fromkeys(("svd", "rotation", "feasibility", "surrogate", "trial"), Cost()))
        walk.settle_rows()
        X, loss, rank = walk.problem.X, walk.problem.loss, walk.rank
        side = int(np.argmax(X.shape))
        few = _sample(X, side, rank, walk.rng) if loss.trial > SHORT and not walk.problem.penalty else X
        problem = replace(walk.problem, X=few)
        scalings = loss.scalings if X.complete else (0.0,)
        starts = [partial(_random, problem, rank, walk.rng) for _ in range(loss.random_candidates * X.complete)]
        starts += [partial(self._borrowed, walk, problem, power) for power in scalings]
        best = _race(walk, problem, starts)
        if few is X:
            walk.begin_at(best.U, best.V)
        else:
            _lift(walk, best, side)

    def _borrowed(self, walk: Walk, problem: Problem, power: float) -> State:
        X = problem.X
        rows, columns = (_relative(X.sums(side)) for side in (0, 1))
        scaled = ScaledMatrix(X, rows**-power, columns**-power) if power > 0 else X
        squares = Problem(scaled, FROBENIUS, NO_PENALTY if X.complete else _for_squares(problem))
        assert self.options is not None
        best: tuple[float, State] | None = None
        for _ in range(DRAWS if power > 0 else 1):
            inside = replace(walk, problem=squares, monitor=walk.monitor.within(squares), plan=None, spectrum=None)
            for phase in self._shorter().phases(squares, self.options):
                phase(inside)
            walk.plan = inside.plan if walk.plan is None else walk.plan
            walk.rotation = inside.rotation if walk.rotation is None else walk.rotation
            factors = [F * (size**power)[:, None] for F, size in zip((inside.state.U, inside.state.V), (rows, columns))]
            state = State(problem, *_smoothed(factors, (X.sums(0), X.sums(1))))
            value = inside.state.value()
            if best is None or value < best[0]:
                best = value, state
            if walk.monitor.out_of_time() or _arrived(walk, state):
                return state
        assert best is not None
        return best[1]

    def _shorter(self) -> Start:
        """The start of least squares with a short descent on its core: that of the loss follows."""
        options = getattr(self.inner, "options", None)
        if getattr(options, "surrogate_iterations", 0) is not None:
            return self.inner
        return replace(self.inner, options=replace(options, surrogate_iterations=CORE_DESCENT))  # type: ignore[type-var]


def _race(walk: Walk, problem: Problem, starts: Sequence[Callable[[], State]]) -> State:
    """The start with the smallest objective after its trial, or the first one that reaches the target."""
    loss = problem.loss
    best: tuple[float, State] | None = None
    for start in starts:
        state = start()
        if _arrived(walk, state):
            return state
        if best is not None and loss.trial <= SHORT and state.objective() > HOPELESS * best[0]:
            continue
        memory, monitor = None, walk.monitor.within(problem)
        for _ in range(loss.trial):  # the loss that tells whether it has arrived is the one the next step needs
            memory = run_stage(state, ExtrapolatedHALS(), monitor, Stage("trial", 1), memory)
            if _arrived(walk, state):
                break
        value = state.objective()
        if best is None or value < best[0]:
            best = value, state
        if walk.monitor.out_of_time() or _arrived(walk, state):
            break
    assert best is not None
    return best[1]


def _arrived(walk: Walk, state: State) -> bool:
    """Whether factors of X itself, not of a sample, have reached the target."""
    monitor = walk.monitor
    return state.X is walk.problem.X and monitor.stopping.target_error is not None and monitor.arrived(state.error())


def _lift(walk: Walk, found: State, side: int) -> None:
    """From factors of a sample of the rows (side 0) or columns to those of X: a few steps of the longer factor."""
    X = walk.problem.X
    known, longer = (half.F for half in (found.halves[1 - side], found.halves[side]))
    unknown = np.tile(longer.mean(axis=0), (X.shape[side], 1))
    walk.begin_at(*((unknown, known) if side == 0 else (known, unknown)))
    with walk.monitor.phase("trial"):
        for _ in range(LIFT):
            walk.state.halves[side].sweep(Sweep(MOST_SWEEPS, ACCURACY))


def _restart(count: int, walk: Walk) -> None:
    """Try random starts where steps are so short that they cost little; keeps the best pair of all.

    Minima of small counts lie some percent apart, and starts can be told apart only at their end.
    """
    if walk.method.step_flops(walk.state) > CHEAP:
        return
    for child in walk.rng.spawn(count):
        if walk.status in LIMITED or walk.monitor.out_of_time():
            return
        if walk.plan is not None and walk.plan[-1].phase != "restart":
            walk.plan.note("restart", f"{count} random starts", "a step takes some milliseconds")
        other = walk.anew(child)
        other.begin_at(*random(walk.problem.X, walk.rank, child))
        with walk.monitor.restarting():
            descend(other)
        if other.state.value() < walk.state.value():
            walk.take(other)


def _random(problem: Problem, rank: int, rng: np.random.Generator) -> State:
    return State(problem, *random(problem.X, rank, rng))


def _sample(X: Matrix, side: int, rank: int, rng: np.random.Generator) -> Matrix:
    """X, or some of its rows (side 0) or columns if it is dense and large."""
    count = max(SAMPLED // X.shape[1 - side], 20 * rank)
    if not X.has_entries or 2 * count > X.shape[side]:
        return X
    index = np.sort(rng.choice(X.shape[side], count, replace=False))
    return DenseMatrix(np.ascontiguousarray(X.raw().take(index, axis=side)))


def _for_squares(problem: Problem) -> Penalty:
    """The penalty of least squares that is as strong as that of the problem."""
    X, sides = problem.X, (problem.penalty.U, problem.penalty.V)
    mean = float(X.sums(0).sum()) / max(float(X.totals(0).sum()), np.finfo(float).tiny)
    unit = mean ** (2.0 - problem.loss.degree)
    return Penalty(*(SidePenalty(side.l1 * unit, side.l2 * unit) for side in sides))


def _relative(sums: np.ndarray) -> np.ndarray:
    """Sums relative to their mean; 1 where there are none."""
    mean = sums.mean()
    return np.where(sums > 0, sums / mean, 1.0) if mean > 0 else np.ones_like(sums)


def _smoothed(factors: list[Any], sums: tuple[np.ndarray, np.ndarray]) -> list[Any]:
    """Every component gets a small share of the sums of X."""
    total = max(float(sums[0].sum()), np.finfo(float).tiny)
    return [
        fortran(F + (SMOOTH / total) * np.outer(own, F.sum(axis=0)).astype(F.dtype)) for F, own in zip(factors, sums)
    ]
