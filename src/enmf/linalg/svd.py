"""Phase 1: the best unconstrained factors, X ~ U diag(s) Vᵀ (paper, section 4).

exact        eigenvectors of the small Gram matrix, or LAPACK's SVD if the remainder is so small that the Gram matrix
             has lost its digits
krylov       ARPACK
randomized   block power iteration with oversampling, started from a sample of the rows (`enmf.linalg.sketch`)

The package uses only numpy's linear algebra, never scipy.linalg as well: each brings its own BLAS with its own waiting
threads, and alternating between the two made the rotation 17 times slower.
"""

from __future__ import annotations

import inspect
from dataclasses import replace

import numpy as np

from enmf.linalg.bound import sharpen
from enmf.linalg.sketch import glance, power
from enmf.linalg.spectrum import MEASURED, Spectrum, choose_kind, fix_signs, full_svd, remainders, rounding_of, thin_svd
from enmf.matrix.base import Matrix
from enmf.matrix.factor import gather
from enmf.parallel import lapack, look_again, matmul

EXACT_FLOPS = 2e10  # an exact SVD of less than a second is worth its time to somebody who asks for a bound

GRAM_DIGITS = 1e-8  # share of ||X||² below which eigenvalues of the Gram matrix do not give the remainder


def truncated_svd(
    X: Matrix,
    rank: int,
    *,
    kind: str = "auto",
    oversampling: int | None = None,
    power_iterations: float = 1,
    rng: np.random.Generator,
) -> Spectrum:
    """The leading `rank` singular triplets of X and some more (for the surrogate matrix and the bound).

    Parameters
    ----------
    kind : {"auto", "exact", "krylov", "randomized"}
        "exact": Gram matrix of the smaller side and its eigenvectors; "krylov": ARPACK; "randomized": block power
        iteration with oversampling, started from a sample of the rows.
        "auto" is "exact" unless that costs more than twice as much as "randomized" with its bound.
    oversampling : int, optional
        Triplets beyond `rank`; default min(rank, 40), at least 10.
    power_iterations : float
        Products with XᵀX in the randomized kind, which makes 1 + 2 power_iterations passes; half of one is possible.
    """
    kind, width = choose_kind(X, rank, kind, oversampling)
    if kind == "exact":
        return fix_signs(_exact(X, width))
    if kind == "krylov":
        return power(X, _krylov(X, width, rng), 1)  # ARPACK's random numbers, which have no seed, affect rounding
    return power(X, glance(X, width, rng), power_iterations)


def _exact(X: Matrix, width: int) -> Spectrum:
    gram = X.gram()
    whole = X.squared_norm()
    values, vectors = lapack(np.linalg.eigh, gram)
    values, small = np.maximum(values[::-1][:width], 0.0), vectors[:, ::-1][:, :width]
    bounds = remainders(np.cumsum(values), whole, rounding_of(X))
    if X.has_entries and bounds[-1] ** 2 < GRAM_DIGITS * whole:
        return _lapack(X, width)
    small = np.asfortranarray(small, dtype=X.dtype)
    tall = (X.transpose_times if X.shape[0] <= X.shape[1] else X.times)(small)
    if values[-1] > MEASURED.well_conditioned**2 * values[0]:
        s = np.sqrt(values).astype(X.dtype)
        left = tall / s
    else:  # Ritz vectors of the small side, accurate even for values that squaring in the Gram matrix has lost
        left, s, turn = thin_svd(tall)
        small = matmul(small, turn)
    U, V = (small, left) if X.shape[0] <= X.shape[1] else (left, small)
    return Spectrum(U, s, V, whole, "exact", bounds)


def _lapack(X: Matrix, width: int) -> Spectrum:
    """The full SVD: the remainder comes from its own singular values, not from a difference."""
    X.passes += 1
    unit = 2.0 ** np.floor(np.log2(X.squared_norm()) / 2.0)  # LAPACK's rounding depends on the unit of its matrix
    U, s, Vt = lapack(full_svd, X.raw().astype(np.float64) / unit)
    s *= unit
    tail = np.sqrt(np.append(np.cumsum((s**2)[::-1])[::-1], 0.0))[1:]  # entry i: error of rank i + 1
    tail = np.maximum(tail - rounding_of(X) * s[0], 0.0)
    U, s, V = (F[..., :width].astype(X.dtype) for F in (U, s, Vt.T))
    return Spectrum(U, s, V, X.squared_norm(), "exact", tail[:width])


def _krylov(X: Matrix, width: int, rng: np.random.Generator) -> Spectrum:
    """ARPACK on the Gram matrix of the smaller side, and the other side from one product."""
    from scipy.sparse.linalg import LinearOperator, eigsh  # here: no other kind needs it

    look_again()  # ARPACK computes with scipy's BLAS
    n, m = X.shape
    side, narrow = min(n, m), m <= n

    def gram(C: np.ndarray) -> np.ndarray:
        C = np.asarray(C, X.dtype).reshape(side, -1)
        return X.transpose_times(X.times(C)) if narrow else gather(X.times(X.transpose_times(C)))

    operator = LinearOperator((side, side), matvec=gram, matmat=gram, dtype=X.dtype)
    # since scipy 1.17 the restarts of eigsh can be seeded
    seeded = {"rng": rng} if "rng" in inspect.signature(eigsh).parameters else {}
    _, near = eigsh(operator, k=width, v0=rng.random(side).astype(X.dtype), **seeded)
    near = np.asfortranarray(near[:, ::-1])
    far, s, turn = thin_svd(X.times(near) if narrow else X.transpose_times(near))
    near = matmul(near, turn)
    U, V = (far, near) if narrow else (near, far)
    return Spectrum(U, s, V, X.squared_norm(), "krylov")


def exact_pays(X: Matrix, rank: int) -> bool:
    """Whether a bound is best taken from an exact SVD."""
    return choose_kind(X, rank, policy=replace(MEASURED, exact_flops=EXACT_FLOPS))[0] == "exact"


def bounded(X: Matrix, spectrum: Spectrum | None, rank: int, rng: np.random.Generator) -> Spectrum:
    """A spectrum with a rigorous bound: the exact one if that takes less than a second, else this one sharpened."""
    if (spectrum is None or spectrum.kind != "exact") and exact_pays(X, rank):
        return truncated_svd(X, rank, kind="exact", rng=rng)
    if spectrum is None:
        spectrum = truncated_svd(X, rank, rng=rng)
    return sharpen(X, spectrum, rng=rng)
