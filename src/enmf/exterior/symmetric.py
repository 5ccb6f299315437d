"""The exterior start of X ~ U Uᵀ.

The best unconstrained factors are Q L^1/2 R with the largest positive eigenvalues L of X and any orthogonal R: the
rotation searches the whole set. Every rotation is clipped and descends for a while on Q L Qᵀ, which takes no pass over
X; the one with the smallest error goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from enmf.linalg.eigen import positive_part
from enmf.linalg.rotation import Turning, rotate
from enmf.matrix.lowrank import LowRankMatrix
from enmf.problem.state import State
from enmf.run.loop import Stage, run_stage
from enmf.run.options import Start
from enmf.solvers.symmetric import SymmetricHALS

if TYPE_CHECKING:
    from enmf.problem.problem import Problem
    from enmf.run.options import Phase, RunOptions
    from enmf.run.walk import Walk

STARTS = ("spread", "identity", "random", "random")
FEW = 2  # of them for a large X: on graphs they end within 0.1 %
TURNS, TRIAL = 20, 15  # iterations of a rotation, and steps on the low-rank matrix; five times as many for a small X


@dataclass(frozen=True)
class SymmetricStart(Start):
    """Rotations of the positive part of X."""

    def phases(self, problem: Problem, options: RunOptions) -> Sequence[Phase]:
        return [self.begin]

    def begin(self, walk: Walk) -> None:
        X, monitor, rank = walk.problem.X, walk.monitor, min(walk.rank, walk.problem.X.shape[0])
        with monitor.phase("svd"):
            walk.spectrum = spectrum = positive_part(X, rank, walk.rng)
        monitor.lower_bound = spectrum.lower_bound(walk.rank)
        W, _ = spectrum.factors(rank)
        core = replace(walk.problem, X=LowRankMatrix(W, W))
        best: tuple[float, State] | None = None
        small = spectrum.kind == "exact"
        more = 5 if small else 1
        for start in STARTS[: 1 if rank == 1 else len(STARTS) if small else FEW]:
            with monitor.phase("rotation"):
                turn = rotate(W, W[:0], Turning(start, more * TURNS), walk.rng, monitor.out_of_time)
            U = np.asfortranarray(np.maximum(W @ turn.R, 0))
            state = State(core, U, U.copy(order="F"))
            run_stage(state, SymmetricHALS(), monitor.within(core), Stage("surrogate", more * TRIAL))
            value = state.value()
            if best is None or value < best[0]:
                best, walk.rotation = (value, state), turn
            if monitor.out_of_time():
                break
        assert best is not None
        U = np.pad(best[1].U, ((0, 0), (0, walk.rank - rank)))
        walk.begin_at(U, U.copy())
