"""min over v >= 0 of 1/2 vᵀ M v - cᵀ v  with M = g I + Dᵀ W D, D the differences of neighbours on a line or a grid.

M is an M-matrix (positive definite, nothing positive off the diagonal). For these the primal-dual active set method
ends at the minimum after finitely many steps, from any guess of the support (Hintermüller, Ito and Kunisch 2003,
Theorem 3.2). Neighbours are a `stride` apart (1, the length of a row), so M is banded, and a step a Cholesky solution.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

MOST_STEPS = 100  # a handful is usual; rounding may let entries near zero come and go


@dataclass(frozen=True, eq=False)
class Obstacle:
    """M and c; `couplings` are the weights W of neighbours by their stride, zero where cells are no neighbours."""

    g: float
    couplings: dict[int, np.ndarray]
    c: np.ndarray

    @cached_property
    def diagonal(self) -> np.ndarray:
        """That of M."""
        whole = np.full(len(self.c), self.g)
        for stride, weights in self.couplings.items():
            whole[:-stride] += weights
            whole[stride:] += weights
        return whole

    def times(self, v: np.ndarray) -> np.ndarray:
        """M v."""
        out = self.diagonal * v
        for stride, weights in self.couplings.items():
            out[:-stride] -= weights * v[stride:]
            out[stride:] -= weights * v[:-stride]
        return out

    def value(self, v: np.ndarray) -> float:
        return 0.5 * float(v @ self.times(v)) - float(self.c @ v)

    def solve(self, free: np.ndarray) -> np.ndarray:
        """The minimizer, from a guess of its support."""
        v = np.zeros_like(self.c)
        for _ in range(MOST_STEPS):
            v = self._solve_where(free)
            found = np.where(free, v > 0.0, self.times(v) < self.c)
            if np.array_equal(found, free):
                break
            free = found
        return np.maximum(v, 0.0)

    def _solve_where(self, free: np.ndarray) -> np.ndarray:
        """M v = c in the free entries, the others being zero."""
        from scipy.linalg import solveh_banded  # here: only who smooths needs it

        band = np.zeros((1 + max(self.couplings, default=0), len(self.c)))
        band[0] = np.where(free, self.diagonal, 1.0)
        for stride, weights in self.couplings.items():
            band[stride, :-stride] = -weights * (free[:-stride] & free[stride:])
        return solveh_banded(band, np.where(free, self.c, 0.0), lower=True, check_finite=False)
