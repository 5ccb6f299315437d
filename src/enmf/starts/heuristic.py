"""heuristic: rank reduction (Dong, Lin and Chu 2014).

Wedderburn's formula  A' = A - (A x)(yᵀ A) / (yᵀ A x)  lowers the rank by one for any x, y with yᵀ A x != 0. Starting
with A = X, take x and y nonnegative, extract the nonnegative parts of A x and Aᵀ y as a component, and continue with
the rest. The pair comes from a few rounds of  y = max(0, A x), x = max(0, Aᵀ y)  from a random x >= 0. The rest
X - U Vᵀ is never formed.
"""

from __future__ import annotations

import numpy as np

from enmf.matrix.base import Matrix
from enmf.starts.random import random

ROUNDS = 3


def heuristic(X: Matrix, rank: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    n, m = X.shape
    U, V = np.zeros((n, rank), X.dtype, order="F"), np.zeros((m, rank), X.dtype, order="F")
    spare_U, spare_V = random(X, rank, rng)

    def times(v: np.ndarray) -> np.ndarray:
        return X.times(v) - U @ (V.T @ v)

    def transpose_times(u: np.ndarray) -> np.ndarray:
        return X.transpose_times(u) - V @ (U.T @ u)

    nothing = (100 * float(np.finfo(X.dtype).eps)) ** 2 * X.squared_norm()  # what rounding leaves of ||X||²
    for k in range(rank):
        x = rng.random((m, 1)).astype(X.dtype)
        for _ in range(ROUNDS):
            y, length = _direction(times(x))
            x, length = _direction(transpose_times(y)) if length > 0 else (x, length)
            if length == 0:
                break
        y = np.maximum(times(x), 0).astype(np.float64)
        pivot = float(np.vdot(y, y))  # yᵀ A x for y = max(0, A x)
        if length == 0 or pivot <= nothing:
            U[:, k], V[:, k] = spare_U[:, k], spare_V[:, k]
        else:
            U[:, k] = y[:, 0] / np.sqrt(np.sqrt(pivot))
            V[:, k] = np.maximum(transpose_times(y.astype(X.dtype)), 0)[:, 0] * np.sqrt(np.sqrt(pivot)) / pivot
    return U, V


def _direction(x: np.ndarray) -> tuple[np.ndarray, float]:
    """The positive part of x at unit length, and its length; in double precision, where squares cannot overflow."""
    x = np.maximum(x, 0)
    length = float(np.linalg.norm(x.astype(np.float64)))
    return (x / length if length > 0 else x), length
