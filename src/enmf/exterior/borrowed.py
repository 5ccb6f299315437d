"""The exterior start of a loss whose best unconstrained factors are not known in closed form.

Near the best model of rank one, r cᵀ / N with row sums r and column sums c, a beta divergence is a weighted sum of
squares, with weights (r_i c_j)^(beta - 2). So its best unconstrained factors are nearly those of an ordinary SVD, of
    D_r^-p X D_c^-p,    p = (2 - beta) / 2        (for Kullback-Leibler p = 1/2: correspondence analysis)
Positive scaling keeps signs: rotation and feasibility work on the scaled matrix as they are, and their factors are
scaled back. Other powers p are candidates too; the pair with the smallest loss after two steps goes on. Where entries
are missing, the start is that of least squares, with a ridge that is as strong there: x^(2 - beta) times as large, x
being the mean entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from enmf.exterior.pipeline import trivial
from enmf.matrix.factor import fortran
from enmf.matrix.scaled import ScaledMatrix
from enmf.matrix.sweeps import Sweep
from enmf.problem.problem import FROBENIUS, NO_PENALTY, Penalty, Problem, SidePenalty
from enmf.problem.state import State
from enmf.run.options import Start

if TYPE_CHECKING:
    from enmf.run.options import Phase, RunOptions
    from enmf.run.walk import Walk

TRIAL = 2  # steps after which candidates are compared
SMOOTH = 0.01  # share of a component that is spread like the sums of X: no model is zero where X is not


@dataclass(frozen=True, eq=False)
class BorrowedStart(Start):
    """Candidates from the start of least squares on scaled data."""

    inner: Start
    options: RunOptions | None = None

    def phases(self, problem: Problem, options: RunOptions) -> Sequence[Phase]:
        if options.rank >= min(problem.X.shape) and not problem.penalty and problem.X.complete:
            return [trivial]
        return [replace(self, options=options).candidates]

    def candidates(self, walk: Walk) -> None:
        """The best of the starts from the scalings that the loss proposes."""
        walk.settle_rows()
        best: tuple[float, State] | None = None
        for power in walk.problem.loss.scalings if walk.problem.X.complete else (0.0,):
            state = self._candidate(walk, power)
            with walk.monitor.phase("trial") as counter:
                for _ in range(TRIAL):
                    for half in state.halves:
                        half.sweep(Sweep(20, 0.1))
                    counter.iterations += 1
                value = state.objective()
            if best is None or value < best[0]:
                best = value, state
            if walk.monitor.out_of_time():
                break
        assert best is not None
        walk.begin_at(best[1].U, best[1].V)

    def _candidate(self, walk: Walk, power: float) -> State:
        X = walk.problem.X
        rows, columns = (_relative(X.sums(side)) for side in (0, 1))
        scaled = ScaledMatrix(X, rows**-power, columns**-power) if power > 0 else X
        problem = Problem(scaled, FROBENIUS, NO_PENALTY if X.complete else _for_squares(walk.problem))
        assert self.options is not None
        inside = replace(walk, problem=problem, monitor=walk.monitor.within(problem), plan=None, spectrum=None)
        for phase in self.inner.phases(problem, self.options):
            phase(inside)
        walk.plan = inside.plan if walk.plan is None else walk.plan
        walk.rotation = inside.rotation if walk.rotation is None else walk.rotation
        factors = [F * (size**power)[:, None] for F, size in zip((inside.state.U, inside.state.V), (rows, columns))]
        return State(walk.problem, *_smoothed(factors, (X.sums(0), X.sums(1))))


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
