"""gradient: projected row-wise gradient steps with the optimal sizes of the paper's eq. 8 to 11, as a descent.

    U_i <- max(0, U_i - d_i g_i),  d_i = ||g_i||² / (g_i VᵀV g_iᵀ),  g the projected gradient

The paper's "gradient" ablation of the descent stage: Algorithm 2 on factors that are already nonnegative. Exact steps
along a projected gradient need not decrease the objective once the projection has cut them; a row for which they did
not help takes a short step instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from enmf.matrix.sweeps import RowSteps, gradient_steps
from enmf.problem.state import State
from enmf.run.method import Method


@dataclass(frozen=True)
class Gradient(Method):
    """Projected gradient steps, `inner` of them per product with X."""

    inner: int = 5
    epsilon: float = 0.1

    def step(self, state: State, memory: Any, objective: float) -> None:
        for half in state.halves:
            G, B = half.normal()
            with half.editing() as F:
                self._update(F, G, B)

    def _update(self, F: np.ndarray, G: np.ndarray, B: np.ndarray) -> None:
        before = F.copy(order="F")
        gradient_steps(F, G, B, RowSteps(self.inner, self.epsilon))
        worse = _row_objective(F, G, B) > _row_objective(before, G, B)
        if worse.any():
            F[worse] = before[worse]
            # a short step always helps: 1 / ||G|| is below the inverse curvature of every row
            step = np.asarray(1.0 / max(float(np.linalg.norm(G, 2)), np.finfo(F.dtype).tiny), F.dtype)
            rows = before[worse]
            F[worse] = np.maximum(rows - step * (rows @ G - B[worse]), 0)


def _row_objective(F: np.ndarray, G: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", F, 0.5 * (F @ G) - B)
