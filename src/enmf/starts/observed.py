"""random, for a matrix with missing entries: V uniform and U constant, at the mean of the observed entries."""

from __future__ import annotations

from typing import Any

import numpy as np


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
