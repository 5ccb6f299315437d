"""grad-mult: multiplicative updates that converge to a stationary point (Lin 2007, "On the convergence of
multiplicative update algorithms for nonnegative matrix factorization").

    U_ij <- U_ij - Ubar_ij / ((Ubar VᵀV)_ij + delta) * D_ij,     D = U VᵀV - X V
    Ubar_ij = U_ij  where D_ij >= 0,   max(U_ij, sigma)  where D_ij < 0

sigma keeps entries near zero able to grow, delta keeps the denominator positive. Both are given relative to the mean
entry of the factor and of the denominator, so that the method is unit-free. An entry below `drop` of the mean that
still shrinks becomes exactly zero: multiplication alone never gets there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from enmf.parallel import matmul
from enmf.problem.state import State
from enmf.run.method import Method


@dataclass(frozen=True)
class GradMult(Method):
    """One multiplicative update per product with X."""

    sigma: float = 1e-8
    delta: float = 1e-8
    drop: float = 1e-12

    def step(self, state: State, memory: Any, objective: float) -> None:
        for half in state.halves:
            half.replace(self._update(half.F, *half.normal()))

    def _update(self, F: np.ndarray, G: np.ndarray, B: np.ndarray) -> np.ndarray:
        D = matmul(F, G)
        D -= B
        mean = F.mean()
        bar = np.where(D < 0, np.maximum(F, np.asarray(self.sigma * mean, F.dtype)), F)
        denominator = matmul(bar, G)
        denominator += np.asarray(self.delta * denominator.mean() + np.finfo(F.dtype).tiny, F.dtype)
        bar /= denominator
        bar *= D
        new = np.maximum(F - bar, 0)
        new[(new < self.drop * mean) & (D > 0)] = 0
        return np.asfortranarray(new)
