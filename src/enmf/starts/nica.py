"""nica: nonnegative independent component analysis (Kitamura and Ono 2016, after Plumbley and Oja 2004).

The leading singular subspace gives r mixtures Z = diag(s) Vᵀ of the columns of X. Whiten them by their covariance
without removing the mean, then apply the rotation that leaves the least below zero:
    Y = R Z,  minimize 1/2 sum min(0, Y)²,   R <- exp(-step (f(Y) Yᵀ - Y f(Y)ᵀ)) R,   f(y) = min(0, y)
V is the positive part of the sources Y, U that of the mixing matrix, both at the best common scale.
"""

from __future__ import annotations

import numpy as np

from enmf.linalg.rotation import procrustes
from enmf.linalg.svd import truncated_svd
from enmf.matrix.base import Matrix
from enmf.starts.random import random
from enmf.starts.scaling import balanced, fit_scale

ITERATIONS = 100
STEP = 1.0


def nica(X: Matrix, rank: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    known = min(rank, *X.shape)
    spectrum = truncated_svd(X, known, rng=rng)
    known = max(1, int(np.count_nonzero(spectrum.s[:known])))
    mixtures = (spectrum.V[:, :known] * spectrum.s[:known]).T.astype(np.float64)  # r x m
    whiten, color = _whitening(mixtures)
    R = _least_negative(whiten @ mixtures)
    sources = R @ whiten @ mixtures
    mixing = spectrum.U[:, :known].astype(np.float64) @ color @ R.T
    flip = np.where(sources.sum(axis=1) < 0, -1.0, 1.0)
    A, B = balanced(np.maximum(mixing * flip, 0), np.maximum(sources * flip[:, None], 0).T)
    sizes = np.linalg.norm(A, axis=0)
    real = np.flatnonzero(sizes > 1e-6 * sizes.max())  # the others are rounding noise
    U, V = random(X, rank, rng)
    U[:, real], V[:, real] = A[:, real], B[:, real]
    return fit_scale(X, U, V)


def _whitening(mixtures: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """C^-1/2 and C^1/2 of the covariance; directions without variance are divided by the largest one."""
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(mixtures, bias=True)))
    largest = values[-1] if values[-1] > 0 else float(np.vdot(mixtures, mixtures)) or 1.0
    values = np.where(values > 1e-12 * largest, values, largest)
    return (vectors / np.sqrt(values)) @ vectors.T, (vectors * np.sqrt(values)) @ vectors.T


def _least_negative(Z: np.ndarray) -> np.ndarray:
    """The best rotation R seen: R Z has little below zero."""
    r, m = Z.shape
    R = np.eye(r)
    best, best_loss, step = R, np.inf, STEP
    for _ in range(ITERATIONS):
        Y = R @ Z
        below = np.minimum(Y, 0)
        loss = float((below**2).sum()) / m
        if loss < best_loss:
            best, best_loss = R, loss
        else:
            step, R = step / 2, best
            continue
        torque = (below @ Y.T - Y @ below.T) / m
        # the Cayley transform is the exponential to second order, and exactly orthogonal
        half = 0.5 * step * torque
        R = procrustes(np.linalg.solve(np.eye(r) + half, np.eye(r) - half) @ R)
    return best
