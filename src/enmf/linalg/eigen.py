"""The largest eigenvalues of a symmetric X: its best positive semidefinite approximation of rank r,

    X ~ Q L Qᵀ,    L the r largest positive eigenvalues,    ||X - U Uᵀ||² >= ||X||² - sum of their squares

for every U with r columns. Small matrices are decomposed completely, which proves that bound. For large ones a block Q
of singular vectors is found by a few passes over X, and QᵀXQ has the eigenvalues with their signs; where negative ones
have left too little room for the others, Lanczos iterations find these. The Eckart-Young bound, which negative
eigenvalues weaken, stands in.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from enmf.linalg.spectrum import Spectrum, remainders, rounding_of
from enmf.linalg.svd import truncated_svd
from enmf.matrix.base import Matrix
from enmf.parallel import lapack, matmul

WHOLE = 1500  # rows up to which all eigenvalues are computed: a second or two


def decomposes(X: Matrix, rank: int) -> bool:
    """Whether X is small enough for all its eigenvalues."""
    return X.shape[0] <= max(WHOLE, 2 * rank)


def positive_part(X: Matrix, rank: int, rng: np.random.Generator) -> Spectrum:
    """The leading positive eigenpairs of a symmetric X as a spectrum with U = V; others are zero."""
    whole = X.squared_norm()
    if decomposes(X, rank):
        raw = X.raw()
        values, Q = lapack(np.linalg.eigh, (raw.toarray() if sp.issparse(raw) else raw).astype(np.float64))
        values, Q = np.maximum(values[::-1], 0.0), Q[:, ::-1]
        bounds = remainders(np.cumsum(values**2), whole, rounding_of(X))[:rank]
        values, Q, kind = values[:rank], Q[:, :rank], "exact"
    else:
        (values, Q, kind), bounds = _leading(X, rank, rng), np.zeros(0)
    Q = np.asfortranarray(Q, dtype=X.dtype)
    signs = np.where(Q.sum(axis=0) < 0, -1.0, 1.0).astype(X.dtype)
    return Spectrum(Q * signs, values.astype(X.dtype), Q * signs, whole, kind, bounds)


def _leading(X: Matrix, rank: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, str]:
    """The largest eigenvalues of a large X that are positive, others being zero, and their eigenvectors."""
    Q = truncated_svd(X, rank, kind="randomized", rng=rng).V
    A = matmul(Q.T, X.times(Q)).astype(np.float64)
    values, turn = lapack(np.linalg.eigh, (A + A.T) / 2.0)
    if np.count_nonzero(values > 0) >= rank:
        return np.maximum(values[::-1], 0.0), matmul(Q, turn[:, ::-1].astype(Q.dtype)), "randomized"
    from scipy.sparse.linalg import LinearOperator, eigsh  # here: usually not needed

    n = X.shape[0]

    def product(v: np.ndarray) -> np.ndarray:
        return X.times(v.reshape(n, -1).astype(X.dtype)).astype(np.float64)

    operator = LinearOperator((n, n), matvec=lambda v: product(v)[:, 0], matmat=product, dtype=np.float64)
    values, Q = eigsh(operator, rank, which="LA", v0=rng.standard_normal(n), tol=1e-4)
    order = np.argsort(-values)
    return np.maximum(values[order], 0.0), Q[:, order], "krylov"
