"""nica: nonnegative independent component analysis (Kitamura and Ono 2016, after Plumbley and Oja 2004).

The leading singular subspace gives r mixtures Z = diag(s) Vᵀ of the columns of X. Whiten them by their covariance
without removing the mean, then turn the whitened mixtures by the rotation that leaves least below zero:
    Y = R Z,  minimize 1/2 sum min(0, Y)²,   R <- exp(-step (f(Y) Yᵀ - Y f(Y)ᵀ)) R,   f(y) = min(0, y)
V is the positive part of the sources Y, U of the mixing matrix, both at the best common scale.
"""

from __future__ import annotations

import numpy as np

from enmf.exterior.rotation import procrustes
from enmf.exterior.svd import truncated_svd
from enmf.initializations.random import random
from enmf.initializations.scaling import fit_scale
from enmf.matrix import Matrix

ITERATIONS = 100
STEP = 1.0


def nica(X: Matrix, rank: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    known = min(rank, *X.shape)
    spectrum = truncated_svd(X, known, rng=rng)
    mixtures = (spectrum.V[:, :known] * spectrum.s[:known]).T.astype(np.float64)  # r x m
    whiten, color = _whitening(mixtures)
    R = _least_negative(whiten @ mixtures)
    sources = R @ whiten @ mixtures
    mixing = spectrum.U[:, :known].astype(np.float64) @ color @ R.T
    flip = np.where(sources.sum(axis=1) < 0, -1.0, 1.0)
    U, V = random(X, rank, rng)
    U[:, :known], V[:, :known] = np.maximum(mixing * flip, 0), np.maximum(sources * flip[:, None], 0).T
    # one scale for each component first: sources have unit variance, whatever they explain
    u, v = np.linalg.norm(U, axis=0), np.linalg.norm(V, axis=0)
    balance = np.sqrt(np.divide(v, u, out=np.ones_like(u), where=(u > 0) & (v > 0)))
    return fit_scale(X, U * balance, V / balance)


def _whitening(mixtures: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """C^-1/2 and C^1/2 of the covariance; directions without variance stay as they are."""
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(mixtures, bias=True)))
    values = np.where(values > 1e-12 * max(values[-1], np.finfo(float).tiny), values, 1.0)
    return (vectors / np.sqrt(values)) @ vectors.T, (vectors * np.sqrt(values)) @ vectors.T


def _least_negative(Z: np.ndarray) -> np.ndarray:
    """The rotation R for which R Z has little below zero; the best one seen."""
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
        # the Cayley transform is the exponential to second order, and orthogonal exactly
        half = 0.5 * step * torque
        R = procrustes(np.linalg.solve(np.eye(r) + half, np.eye(r) - half) @ R)
    return best
