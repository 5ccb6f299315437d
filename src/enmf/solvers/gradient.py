"""gradient: projected row-wise gradient steps with the optimal sizes of the paper's eq. 8 to 11, as a descent.

    U_i <- max(0, U_i - d_i g_i),  d_i = ||g_i||² / (g_i VᵀV g_iᵀ),  g the projected gradient

The paper's "gradient" ablation of the descent stage: Algorithm 2 on factors that are nonnegative already. Exact steps
along a projected gradient need not decrease the objective once the projection has cut them; a row for which the steps
did not help takes a short step instead.
"""

from __future__ import annotations

import numpy as np

from enmf import parallel
from enmf.kernels.rowstep import row_steps
from enmf.kernels.sweep import BLOCK
from enmf.problem.state import Iterate
from enmf.run.method import Method


class Gradient(Method):
    """Projected gradient steps, `inner` of them for each product with X."""

    name = "gradient"

    def __init__(self, inner: int = 5, epsilon: float = 0.1) -> None:
        self.inner, self.epsilon = inner, epsilon

    def step(self, it: Iterate, objective: float) -> None:
        self._update(it.U, *it.normal_U())
        it.U_changed()
        self._update(it.V, *it.normal_V())
        it.V_changed()

    def _update(self, F: np.ndarray, G: np.ndarray, B: np.ndarray) -> None:
        n, r = F.shape
        before = F.copy(order="F")
        bounds = parallel.even_bounds(n, 4.0 * r * r * self.inner, BLOCK)
        parallel.run(row_steps, bounds, F.T, B.T, np.ascontiguousarray(G), 0.0, self.inner, self.epsilon, False)
        worse = _row_objective(F, G, B) > _row_objective(before, G, B)
        if worse.any():
            F[worse] = before[worse]
            # a short step always helps: 1 / ||G|| is below the inverse curvature of every row
            step = np.asarray(1.0 / max(float(np.linalg.norm(G, 2)), np.finfo(F.dtype).tiny), F.dtype)
            rows = before[worse]
            F[worse] = np.maximum(rows - step * (rows @ G - B[worse]), 0)


def _row_objective(F: np.ndarray, G: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", F, 0.5 * (F @ G) - B)
