"""Half-steps of a factor about which something is known (`enmf.problem.structure.Side`), for squares.

zeros    B is made negative there (`Side.barred`): with F >= 0 and G >= 0 every step then leaves F = 0, and the
         gradient F G - B > 0 does not count in the projected gradient. No entry is a special case.
fixed    the first k columns stay; the others see  B - F_k G_k.
total    rows have a given sum (`enmf.matrix.simplex`).
signed   F = B G⁺, the solution without a constraint; its gradient counts in full.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from enmf.matrix.simplex import nearest_mixture, solve_simplex
from enmf.matrix.sweeps import GradientMeasure, Sweep, coordinate_sweeps, extrapolate, measure_gradient, solve_nnls
from enmf.parallel import matmul

FIRMLY = 1e3  # times the largest entry of a row: enough also where G is negative, the other factor having any sign
RIDGE = 1e-14  # of the mean Gram diagonal: a singular G has a solution, too


def sweep_known(half: Any, how: Sweep) -> None:
    """The half-step of a factor about which something is known."""
    known, F = half.known, half.F
    G, B = half.normal()
    if half.other.signed:
        B = known.barred(B, FIRMLY)
    if known.total is not None:
        _sweep_mixtures(half, how, known.total)
        return
    if known.signed:
        F[...] = least_squares(G, B)
        if how.momentum is not None:
            how.momentum.old[...] = F  # solved for: there is nothing beyond
    else:
        coordinate_sweeps(F, G, B, how, _columns(known, len(G)))
        if known.zeros is not None:
            F[known.zeros] = 0
        if how.momentum is not None:
            extrapolate(F, how.momentum)
    half.changed()


def solve_known(half: Any) -> np.ndarray:
    """The best factor for the other one."""
    known, k = half.known, _count(half.known)
    G, B = half.normal()
    if known.total is not None:
        return solve_simplex(G, B, known.total)
    if known.signed:
        return least_squares(G, B)
    if k == 0:
        return solve_nnls(G, B)
    F = half.F.copy(order="F")
    F[:, k:] = solve_nnls(*_of_the_others(F, G, B, k))
    return F


def measure_known(half: Any, G: np.ndarray, B: np.ndarray) -> GradientMeasure:
    """Sizes of the gradient F G - B of what is free."""
    known, F, k = half.known, half.F, _count(half.known)
    if known.total is not None:
        return _measure_mixtures(F, G, B, known.total)
    if known.signed:
        D = (matmul(F, G) - B).astype(np.float64)
        along = D * F
        size = float(np.abs(D).max())
        return GradientMeasure(np.square(D).sum(axis=0), float(np.abs(along).max()), float(along.sum()), -size)
    if k == 0:
        return measure_gradient(F, G, B)
    if k == len(G):
        return GradientMeasure(np.zeros(k), 0.0, 0.0, 0.0)
    free = measure_gradient(np.asfortranarray(F[:, k:]), *_of_the_others(F, G, B, k))
    squares = np.concatenate([np.zeros(k), free.squares])
    return GradientMeasure(squares, free.largest_product, free.sum_product, free.smallest)


def _of_the_others(F: np.ndarray, G: np.ndarray, B: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The normal equations of the columns after the first k, which are fixed."""
    return np.ascontiguousarray(G[k:, k:]), np.asfortranarray(B[:, k:] - matmul(F[:, :k], G[:k, k:]))


def _count(known: Any) -> int:
    return 0 if known.fixed is None else known.fixed.shape[1]


def _columns(known: Any, rank: int) -> np.ndarray | None:
    return None if known.fixed is None else np.arange(rank) < _count(known)


def least_squares(G: np.ndarray, B: np.ndarray) -> np.ndarray:
    """B G⁺, in double precision."""
    G64 = G.astype(np.float64)
    values, Q = np.linalg.eigh((G64 + G64.T) / 2.0)
    inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > RIDGE * max(values[-1], 0.0))
    return np.asfortranarray(matmul(B.astype(np.float64), (Q * inverse) @ Q.T), dtype=B.dtype)


def _sweep_mixtures(half: Any, how: Sweep, total: float) -> None:
    """The half-step of rows that have a given sum: the best ones, from those at hand; beyond them, the nearest ones."""
    G, B = half.normal()
    F = solve_simplex(G, B, total, half.F)
    if how.momentum is not None:
        old = how.momentum.old
        further = F + np.asarray(how.momentum.beta, F.dtype) * (F - old)
        old[...], F = F, nearest_mixture(further, total)
    half.F[...] = F
    half.changed()


def _measure_mixtures(F: np.ndarray, G: np.ndarray, B: np.ndarray, total: float) -> GradientMeasure:
    """Sizes of the gradient with the multiplier mu = -<f, d> / total of each row added."""
    F64 = F.astype(np.float64)
    mu = -np.einsum("ik,ik->i", F64, F64 @ G.astype(np.float64) - B) / total
    return measure_gradient(F, G, np.asfortranarray(B - mu[:, None].astype(B.dtype)))
