"""The exterior start of X ~ U Uᵀ.

The best unconstrained factors are Q L^1/2 R with the largest positive eigenvalues L of X and any orthogonal R: the
rotation searches the whole set. Every rotation is clipped and descends for a while on Q L Qᵀ, which takes no pass over
X; the one with the smallest error goes on.

Where X is large that would take longer than a whole fit that knows nothing of the symmetry, and the exterior start of
such a fit has nearly equal factors: their mean goes on. Where they differ, as in a graph with two sides, whose
components are pairs (u, v) and (v, u), rotations search as above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from enmf.linalg.eigen import decomposes, positive_part
from enmf.linalg.rotation import Turning, rotate
from enmf.matrix.lowrank import LowRankMatrix
from enmf.problem.state import State
from enmf.problem.structure import NO_STRUCTURE
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
# ||U - V|| / ||U|| of a start without symmetry up to which U and V mean the same components: it is 0.004 to 0.33 on
# kernels and on networks of groups, 0.9 to 1.4 on graphs with two sides
APART = 0.6


@dataclass(frozen=True, eq=False)
class SymmetricStart(Start):
    """Rotations of the positive part of X, or the mean of the factors of a start without symmetry."""

    inner: Start

    def phases(self, problem: Problem, options: RunOptions) -> Sequence[Phase]:
        return [partial(self._begin, options)]

    def _begin(self, options: RunOptions, walk: Walk) -> None:
        if decomposes(walk.problem.X, walk.rank) or not self._begin_at_mean(options, walk):
            _begin_at_rotation(walk)

    def _begin_at_mean(self, options: RunOptions, walk: Walk) -> bool:
        """Begin at the mean of both factors of a start without symmetry, if they are nearly equal."""
        inside = walk.inside(self.inner, replace(walk.problem, structure=NO_STRUCTURE), options)
        inside.state.balance(sort=False)
        U, V = inside.state.U, inside.state.V
        if np.linalg.norm(U - V) > APART * np.linalg.norm(U):
            return False
        walk.spectrum, walk.plan = inside.spectrum, inside.plan
        if walk.spectrum is not None:
            walk.monitor.lower_bound = walk.spectrum.lower_bound(walk.rank)
        mean = np.asfortranarray((U + V) / 2)
        walk.begin_at(mean, mean.copy(order="F"))
        return True


def _begin_at_rotation(walk: Walk) -> None:
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
