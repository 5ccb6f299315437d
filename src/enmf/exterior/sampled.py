"""The exterior start of an X in blocks, for losses that look at every entry: that of some of its rows.

V has as many rows for a few rows of X as for all of them. So some rows are drawn, brought to the caller, and given the
start of the loss (`enmf.exterior.borrowed`) and a short descent. Its V, with a small share of the column sums of X (no
row of it is zero where X is not), and the U that a few half-steps find for it are the start for X.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from enmf.losses.divergence import ACCURACY, MOST_SWEEPS
from enmf.matrix.base import Matrix
from enmf.matrix.sweeps import Sweep
from enmf.problem.problem import Problem
from enmf.run.loop import Stage, run_stage
from enmf.run.options import Start
from enmf.solvers.hals import ExtrapolatedHALS

if TYPE_CHECKING:
    from enmf.run.options import Phase, RunOptions
    from enmf.run.walk import Walk

SAMPLED = 1 << 23  # entries of the sample: 64 MB
LEAST_ROWS = 50  # per component
DESCENT = 50  # iterations on the sample
SMOOTH = 0.01  # share of a component that is spread like the column sums of X
LIFT = 5  # half-steps of U


@dataclass(frozen=True, eq=False)
class SampledStart(Start):
    """The start of some rows of X."""

    inner: Start
    options: RunOptions | None = None

    def phases(self, problem: Problem, options: RunOptions) -> Sequence[Phase]:
        if options.rank >= min(problem.X.shape) and not problem.penalty:
            return self.inner.phases(problem, options)
        return [replace(self, options=options).begin]

    def begin(self, walk: Walk) -> None:
        X, loss = walk.problem.X, walk.problem.loss
        with walk.monitor.phase("sample"):
            few = _some_rows(X, walk.rank, loss.degree, walk.rng)
        problem = Problem(few, loss.in_memory())
        inside = replace(walk, problem=problem, monitor=walk.monitor.within(problem))
        assert self.options is not None
        for phase in self.inner.phases(problem, self.options):
            phase(inside)
        run_stage(inside.state, ExtrapolatedHALS(), inside.monitor, Stage("trial", DESCENT))
        walk.plan, walk.rotation = inside.plan, inside.rotation
        if walk.plan is not None:
            walk.plan.note("sample", f"{few.shape[0]} of {X.shape[0]} rows", "X is read in blocks")
        with walk.monitor.phase("init"):
            walk.begin_at(X.zeros(walk.rank) + np.ones((), X.dtype), _smoothed(inside.state.V, X.sums(1)))
            for _ in range(LIFT):
                walk.state.halves[0].sweep(Sweep(MOST_SWEEPS, ACCURACY))


def _some_rows(X: Matrix, rank: int, beta: float, rng: np.random.Generator) -> Matrix:
    """At least LEAST_ROWS for each component, and about SAMPLED entries, each row as likely as any other."""
    n = X.shape[0]
    count = min(n, max(int(SAMPLED * n / max(X.listed_entries(beta), 1)), LEAST_ROWS * rank))
    index = np.sort(rng.choice(n, count, replace=False))
    return X._rows(index, np.ones(count, X.dtype))


def _smoothed(V: np.ndarray, sums: np.ndarray) -> Any:
    """Every component gets a small share of the column sums of X."""
    total = max(float(sums.sum()), np.finfo(float).tiny)
    return V + ((SMOOTH / total) * np.outer(sums, V.sum(axis=0))).astype(V.dtype)
