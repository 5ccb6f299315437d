"""min over f >= 0, sum(f) = s of 1/2 fᵀ G f - bᵀ f  for every row f of F: rows that are mixtures.

With the gradient d = G f - b, a row is optimal when some number mu has d_k + mu = 0 where f_k > 0 and d_k + mu >= 0
where f_k = 0; then mu = -<f, d> / s. Rounds of two steps, for all rows at once, neither of which raises a row's value:
an exchange moves the best amount from the entry with the largest to the one with the smallest gradient, and so lets
zeros grow; then the row goes toward the minimum of its face (the entries that are positive) until one of them becomes
zero. The second step makes this an active set method: it ends at the optimum, not near it.
"""

from __future__ import annotations

import numpy as np

from enmf.matrix.factor import row_blocks

MOST_ROUNDS = 100  # of a row; about as many as its support changes are needed
ACCURACY = 1e-13  # of the largest product: spread of the gradient that is rounding
RIDGE = 1e-13  # of the mean Gram diagonal: components that depend on each other have a solution, too


def nearest_mixture(F: np.ndarray, total: float) -> np.ndarray:
    """The nearest rows with f >= 0 and sum(f) = total: max(0, f - t), by sorting (Held, Wolfe and Crowder 1974)."""
    order = -np.sort(-F.astype(np.float64), axis=1)
    thresholds = (np.cumsum(order, axis=1) - total) / np.arange(1, F.shape[1] + 1)
    last = (order > thresholds).sum(axis=1) - 1
    return _summing(np.maximum(F - np.take_along_axis(thresholds, last[:, None], axis=1), 0.0), total)


def solve_simplex(G: np.ndarray, B: np.ndarray, total: float, start: np.ndarray | None = None) -> np.ndarray:
    """The best rows, from a start or from equal parts."""
    n, r = B.shape
    F = np.full((n, r), total / r) if start is None else _summing(start.astype(np.float64), total)
    G = G.astype(np.float64)
    for rows in row_blocks(n, (r + 1) ** 2):
        F[rows] = _solve(G, B[rows].astype(np.float64), total, F[rows])
    return np.asfortranarray(F, dtype=B.dtype)


def _summing(F: np.ndarray, total: float) -> np.ndarray:
    sums = F.sum(axis=1, keepdims=True)
    return np.where(sums > 0.0, F * (total / np.where(sums > 0.0, sums, 1.0)), total / F.shape[1])


def _solve(G: np.ndarray, B: np.ndarray, total: float, F: np.ndarray) -> np.ndarray:
    size = ACCURACY * (np.abs(G).max() * total + np.abs(B).max(axis=1))
    left = np.arange(len(F))  # rows that are not optimal yet
    for _ in range(MOST_ROUNDS):
        f, b = F[left], B[left]
        d = f @ G - b
        grow, shrink = d.argmin(axis=1), np.where(f > 0.0, d, -np.inf).argmax(axis=1)
        every = np.arange(len(left))
        unequal = d[every, shrink] - d[every, grow] > size[left]
        left, f, b = left[unequal], f[unequal], b[unequal]
        if not len(left):
            break
        _exchange(f, d[unequal], G, grow[unequal], shrink[unequal])
        F[left] = _summing(_toward_face(f, b, G, total), total)
    return F


def _exchange(f: np.ndarray, d: np.ndarray, G: np.ndarray, grow: np.ndarray, shrink: np.ndarray) -> None:
    """Move the best amount from `shrink` to `grow` in every row, in place."""
    every = np.arange(len(f))
    curvature = G[grow, grow] + G[shrink, shrink] - 2.0 * G[grow, shrink]
    whole, slope = f[every, shrink], d[every, shrink] - d[every, grow]
    amount = np.minimum(np.divide(slope, curvature, out=whole.copy(), where=curvature > 0.0), whole)
    f[every, grow] += amount
    f[every, shrink] -= amount


def _toward_face(f: np.ndarray, b: np.ndarray, G: np.ndarray, total: float) -> np.ndarray:
    """Go toward the minimum over the positive entries of every row, no further than to the first zero."""
    n, r = f.shape
    free = f > 0.0
    both = free[:, :, None] & free[:, None, :]
    K = np.zeros((n, r + 1, r + 1))  # the KKT matrix of each row; entries that are zero have a row of the identity
    K[:, :r, :r] = np.where(both, G, 0.0)
    K[:, np.arange(r), np.arange(r)] += np.where(free, RIDGE * (np.trace(G) / r or 1.0), 1.0)
    K[:, :r, r] = K[:, r, :r] = free
    goal = np.linalg.solve(K, np.append(np.where(free, b, 0.0), np.full((n, 1), total), axis=1)[:, :, None])[:, :r, 0]
    step = np.where(free, goal - f, 0.0)
    slope, curvature = np.einsum("ik,ik->i", f @ G - b, step), np.einsum("ik,ik->i", step @ G, step)
    reach = np.divide(f, -step, out=np.full_like(f, np.inf), where=step < 0.0)
    first = reach.min(axis=1)
    best = np.divide(-slope, curvature, out=np.where(slope < 0.0, np.inf, 0.0), where=curvature > 0.0)
    length = np.minimum(np.clip(best, 0.0, 1.0), first)  # 1: the goal; rounding may promise more beyond it
    moved = np.maximum(f + length[:, None] * step, 0.0)
    moved[(reach <= first[:, None]) & (length == first)[:, None] & (step < 0.0)] = 0.0
    return moved
