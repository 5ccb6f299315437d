"""Phase 3: step from the rotated point into the nonnegative orthant (paper, section 4.2 and Algorithm 2).

penalty             negative entries move toward zero by a constant step (eq. 5 and 6), never past it; nonnegative
                    entries take projected row-wise gradient steps of optimal size (eq. 8 to 11) in between
penalty-fixed-step  the same with the step 1 / ||G||_2 for all rows (the paper's ablation)
projection          negative entries become zero at once (the paper's ablation)
path                coordinate sweeps with a soft wall: an entry whose minimizer z / G_kk is negative goes to
                    z / (G_kk + delta), delta growing from 1e-3 to 1e2 of the mean Gram diagonal; no step size is needed

Each is a method for the loop: a step takes two passes over X. They end by themselves, at a nonnegative pair. Where
entries are missing, each row has its own Gram matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from enmf.matrix.factor import clipped
from enmf.matrix.sweeps import RowSteps, Sweep
from enmf.problem.state import State
from enmf.run.method import Method


@dataclass(frozen=True)
class Projection(Method):
    """Clip both factors at zero."""

    needs = frozenset({"all rows"})
    monotone = False

    def step(self, state: State, memory: Any, objective: float) -> None:
        for half in state.halves:
            half.replace(clipped(half.F))

    def finished(self, state: State, memory: Any) -> bool:
        return _nonnegative(state)


@dataclass(frozen=True)
class PenaltyStage(Method):
    """The exterior penalty stage.

    Parameters
    ----------
    steps : int
        Steps in which the most negative entry reaches zero: the constant step rho * delta of eq. 5 and 6, unit-free.
    inner : int
        Largest number of row steps per product with X (`max_iter` of Algorithm 2).
    epsilon : float
        Row steps end when the projected gradient has fallen by this factor (`epsilon` of Algorithm 2).
    optimal_step : bool
        Step sizes of eq. 10 and 11; False: 1 / ||G||_2.
    literal : bool
        Follow Algorithm 2 to the letter: entries at zero that would become negative count in the gradient.
    """

    steps: int = 20
    inner: int = 10
    epsilon: float = 0.1
    optimal_step: bool = True
    literal: bool = False

    needs = frozenset({"gradient steps", "all rows"})
    monotone = False

    def begin(self, state: State) -> list[float]:
        """The strides of U and of V."""
        return [max(-float(half.F.min()), 0.0) / self.steps for half in state.halves]

    def step(self, state: State, memory: list[float], objective: float) -> None:
        how = RowSteps(self.inner, self.epsilon, not self.optimal_step, self.literal)
        for half in state.halves:
            with half.editing() as F:
                raise_negatives(F, memory[half.side])
            half.loss.gradient_steps(half, how)

    def finished(self, state: State, memory: list[float]) -> bool:
        return _nonnegative(state)


@dataclass(frozen=True)
class WallPath(Method):
    """Coordinate sweeps against a wall that grows from soft to hard.

    Parameters
    ----------
    steps : int
    softest, hardest : float
        First and last wall, relative to the mean Gram diagonal.
    """

    steps: int = 20
    softest: float = 1e-3
    hardest: float = 1e2

    needs = frozenset({"half-step"})
    monotone = False
    bursts = True
    clips: ClassVar[bool] = True  # in the last step U has no negative entry left before V is swept

    def begin(self, state: State) -> list[float]:
        """The walls that are still to come, the last one first."""
        return np.geomspace(self.softest, self.hardest, self.steps)[::-1].tolist()

    def step(self, state: State, memory: list[float], objective: float) -> None:
        wall = memory.pop()
        for half in state.halves:
            half.sweep(Sweep(wall=half.X.wall(half, wall)))
            if self.clips and not memory:
                half.replace(clipped(half.F))

    def enter_burst(self, memory: list[float], burst: Any) -> tuple[int, int]:
        burst.walls, burst.clips = memory[::-1], self.clips
        return 1, 1

    def leave_burst(self, memory: list[float], burst: Any, plain: Any) -> None:
        del memory[-len(burst.values) :]

    def finished(self, state: State, memory: list[float]) -> bool:
        return not memory


STAGES: dict[str, Method] = {
    "path": WallPath(),
    "penalty": PenaltyStage(),
    "penalty-fixed-step": PenaltyStage(optimal_step=False),
    "projection": Projection(),
}


def _nonnegative(state: State) -> bool:
    return all(bool(half.F.min() >= 0) for half in state.halves)


def raise_negatives(F: np.ndarray, stride: float) -> None:
    """Raise negative entries by `stride`, at most to zero; in place."""
    np.minimum(F + np.asarray(stride, F.dtype), 0, out=F, where=F < 0)
