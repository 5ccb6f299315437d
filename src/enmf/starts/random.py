"""random: |Gaussian| entries, scaled so that U Vᵀ has the mean of X, or its root mean square if X has both signs.

With missing entries: V uniform and U constant, at the mean of the observed entries.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from enmf.matrix.base import Matrix


def random(X: Matrix, rank: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    n, m = X.shape
    # E|g| = sqrt(2/pi), so an entry of U Vᵀ has mean rank * scale² * 2/pi
    size = np.sqrt(X.squared_norm() / (n * m)) if X.signed else X.mean()
    scale = np.sqrt(size * np.pi / (2.0 * rank))
    U, V = (np.abs(rng.standard_normal((k, rank))) * scale for k in (n, m))
    return np.asfortranarray(U, dtype=X.dtype), np.asfortranarray(V, dtype=X.dtype)


def observed(X: Any, rank: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """U Vᵀ has the mean of the observed entries; U may be constant, as all methods update it first."""
    size = np.sqrt(mean(X) / rank)
    V = 2.0 * size * rng.random((X.shape[1], rank))
    return np.full((X.shape[0], rank), size, X.dtype, order="F"), np.asfortranarray(V, dtype=X.dtype)


def mean(X: Any) -> float:
    """Weighted mean of the observed entries."""
    ones = np.ones((X.shape[1], 1), X.dtype)
    passes = X.passes
    total = float(X.times(ones).sum(dtype=np.float64))
    X.passes = passes
    return total / float(X.totals(0).sum())
