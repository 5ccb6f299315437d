"""random: |Gaussian| entries, scaled so that U Vᵀ has the mean of X."""

from __future__ import annotations

import numpy as np

from enmf.matrix.base import Matrix


def random(X: Matrix, rank: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    n, m = X.shape
    # E|g| = sqrt(2/pi), so an entry of U Vᵀ has mean rank * scale² * 2/pi
    scale = np.sqrt(X.mean() * np.pi / (2.0 * rank))
    U, V = (np.abs(rng.standard_normal((k, rank))) * scale for k in (n, m))
    return np.asfortranarray(U, dtype=X.dtype), np.asfortranarray(V, dtype=X.dtype)
