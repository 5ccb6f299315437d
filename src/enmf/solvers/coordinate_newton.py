"""Coordinate Newton steps: entries of a factor one after another, the model m of their row following each of them.

    u_k <- max(0, u_k - g / h),    g = sum_j v_jk d'(x_j | m_j),   h = sum_j v_jk² d''(x_j | m_j),   m = V u

ccd     bare: they may raise the loss, and diverge from some starts.
        Hsieh and Dhillon 2011.
sn      damped: with lambda = sqrt(h) |step| / sqrt(smallest x^beta, x > 0), the step is taken in full if g <= 0 or
        lambda <= 0.683802, else divided by 1 + lambda. No step raises the loss for beta = 1: it is self-concordant.
        Hien and Gillis 2021.

For beta < 1 h is the curvature of the convex part of d. For least squares this would be HALS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from enmf.matrix.sweeps import EntrySteps
from enmf.problem.state import State
from enmf.run.method import Method


@dataclass(frozen=True)
class CoordinateNewton(Method):
    """Sweeps over the entries of every row of U, then of V.

    Parameters
    ----------
    sweeps : int
        Sweeps over the entries of a row while the other factor is held.
    damped : bool
        Whether steps are damped.
    """

    sweeps: int = 2
    damped: bool = False

    needs = frozenset({"single entries"})
    monotone = False  # but for beta = 1 with damping

    def step(self, state: State, memory: Any, objective: float) -> None:
        for half in state.halves:
            half.loss.entry_steps(half, EntrySteps(self.sweeps, self.damped))

    def step_flops(self, state: State) -> float:
        return state.problem.loss.step_flops(state.X, state.rank)
