"""A rigorous Eckart-Young bound from an iterative SVD.

No factorization of rank r has an error below  sqrt(||X||² - s_1² - ... - s_r²)  with the true singular values.
Computed values are too small, so the naive formula is not a bound. Ours is:

exact        from the eigenvalues of the small Gram matrix, less a margin for rounding; from LAPACK's SVD if the
             remainder is so small that the Gram matrix has lost its digits.
krylov,      With C = XᵀX, Q (m x l, orthonormal), A = QᵀCQ, B = CQ - QA and delta >= ||(I-QQᵀ)C(I-QQᵀ)||, for any t > 0
randomized       C <= (A + BᵀB/t) (+) (delta + t) I      in the order of symmetric matrices, since
                 [-BᵀB/t, Bᵀ; B, -tI] is negative semidefinite. So the r largest eigenvalues of the right-hand side add
             up to at least s_1² + ... + s_r². delta comes from block Lanczos with a fresh random start: by Kuczynski
             and Wozniakowski (1992) q steps from one start underestimate the norm by more than a factor (1 - e) with
             probability at most 1.648 sqrt(m) exp(-sqrt(e) (2q - 1)); p independent starts must all fail at once.
             We choose e such that the probability is below 1e-9.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from enmf.linalg.spectrum import MEASURED, Spectrum, choose_kind, orthonormal, remainders, rounding_of
from enmf.matrix.base import Matrix
from enmf.parallel import lapack, matmul


def bound_passes(X: Matrix, spectrum: Spectrum | None, rank: int) -> float:
    """Approximate number of passes with blocks of `rank` columns that a bound takes, given a spectrum or none."""
    if spectrum is not None and spectrum.kind == "exact":
        return 0.0
    if spectrum is None and choose_kind(X, rank)[0] == "exact":
        return min(X.shape) / rank
    steps = MEASURED.bound_power_iterations + 1 + MEASURED.norm_steps + (2 if spectrum is None else 0)
    return 2.0 * steps


def sharpen(
    X: Matrix, spectrum: Spectrum, *, rng: np.random.Generator, power_iterations: int = MEASURED.bound_power_iterations
) -> Spectrum:
    """Give an iterative spectrum a rigorous bound; a randomized one is improved by some power iterations first.

    Costs 2 passes per product with XᵀX; those of the norm estimate have few columns.
    """
    if spectrum.kind == "exact" or spectrum.squared_norm == 0.0:
        return spectrum
    Q = spectrum.V.astype(np.float64)
    if spectrum.kind == "randomized":
        for _ in range(power_iterations):
            Q = orthonormal(_gram_times(X, Q))
    else:
        Q = orthonormal(Q)  # it may come from single precision
    CQ = X.gram_times_in_double(Q)
    # Rayleigh-Ritz in the span of Q, then the residual of that basis
    A = matmul(Q.T, CQ)
    values, rotation = lapack(np.linalg.eigh, (A + A.T) / 2.0)
    rotation, values = rotation[:, ::-1], values[::-1]
    Q, CQ = matmul(Q, rotation), matmul(CQ, rotation)
    B = CQ - Q * values
    delta = remainder_norm(X, Q, rng)
    sums = _upper_sums(values, matmul(B.T, B), delta, spectrum.squared_norm)
    return replace(spectrum, bounds=remainders(sums, spectrum.squared_norm, rounding_of(X)))


def _gram_times(X: Matrix, Q: np.ndarray) -> np.ndarray:
    return X.gram_times(Q.astype(X.dtype, copy=False)).astype(np.float64, copy=False)


def _product_rounding(X: Matrix) -> float:
    """Rounding of a product with X, relative to ||X||²."""
    return rounding_of(X) if X.dtype == np.float64 else 16.0 * float(np.finfo(X.dtype).eps)


def remainder_norm(X: Matrix, Q: np.ndarray, rng: np.random.Generator, failure: float = MEASURED.failure) -> float:
    """An upper bound of ||(I - QQᵀ) XᵀX (I - QQᵀ)||_2, wrong with a probability below `failure`."""
    m, width = Q.shape
    block = min(MEASURED.norm_block, m - width)

    def project(Y: np.ndarray) -> np.ndarray:
        Y = Y - matmul(Q, matmul(Q.T, Y))
        return Y - matmul(Q, matmul(Q.T, Y))

    steps = min(MEASURED.norm_steps, max(1, (m - width) // block))
    K, CK = (np.empty((m, steps * block), order="F") for _ in range(2))  # the Krylov basis and its images
    last = orthonormal(project(rng.standard_normal((m, block))))
    for step in range(steps):
        here, known = slice(step * block, (step + 1) * block), K[:, : (step + 1) * block]
        K[:, here] = last
        new = CK[:, here] = project(_gram_times(X, last))
        if step + 1 < steps:
            for _ in range(2):
                new = new - matmul(known, matmul(known.T, new))
            last = orthonormal(project(new))
    H = matmul(K.T, CK)
    largest = max(float(np.linalg.eigvalsh((H + H.T) / 2.0)[-1]), 0.0)
    root = np.log(1.648 * np.sqrt(m) / failure ** (1.0 / block)) / (2 * steps - 1)
    if root >= 1.0:
        return X.squared_norm()
    return largest / (1.0 - root**2) + _product_rounding(X) * X.squared_norm()


def _upper_sums(values: np.ndarray, BtB: np.ndarray, delta: float, whole: float) -> np.ndarray:
    """For each rank i + 1, an upper bound of s_1² + ... + s_{i+1}²; `values` are the eigenvalues of A."""
    best = np.full(len(values), whole)
    for t in np.geomspace(1e-6, 10.0, 40) * max(values[0], np.finfo(float).tiny):
        inside = np.linalg.eigvalsh(np.diag(values) + BtB / t)
        outside = np.full(len(values), delta + t)
        together = np.sort(np.concatenate([inside, outside]))[::-1][: len(values)]
        best = np.minimum(best, np.cumsum(together))
    return best
