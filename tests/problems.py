"""Small problems with known answers."""

import numpy as np
import scipy.sparse as sp


def unique_exact():
    """X = U Vᵀ whose nonnegative factorization of rank 3 is unique: both factors contain a scaled identity
    (separable on both sides), so the factors themselves can be checked."""
    rng = np.random.default_rng(7)
    U = np.vstack([np.diag([3.0, 2.0, 1.0]), rng.random((9, 3))])
    V = np.vstack([np.diag([1.0, 2.0, 2.5]), rng.random((7, 3))])
    return U @ V.T, U, V


def dense(n=60, m=40, seed=0, dtype=np.float64):
    """No structure: full rank, all entries positive."""
    return np.random.default_rng(seed).random((n, m)).astype(dtype)


def counts(n=80, m=50, density=0.2, seed=0, dtype=np.float64):
    """Sparse counts with a zero row and a zero column."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(2.0, (n, m)) * (rng.random((n, m)) < density)
    X[3], X[:, 5] = 0, 0
    return X.astype(dtype)


def low_rank_noisy(n=70, m=50, rank=4, noise=0.05, seed=0):
    rng = np.random.default_rng(seed)
    return rng.random((n, rank)) @ rng.random((rank, m)) + noise * rng.random((n, m))


def heavy_tailed(n=1500, m=1100, density=0.005, seed=0):
    """Sparse counts of which three rows have nearly all of the norm; its sides are too long for an exact SVD, and a
    sample drawn by the norm of the rows has a smaller rank than is asked for."""
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, m), density=density, random_state=rng, format="csr")
    X.data = np.ceil(rng.pareto(1.0, X.nnz))
    return (sp.diags_array(np.where(np.arange(n) < 3, 1e5, 1.0)) @ X).tocsr()


def rank_deficient(n=40, m=30, rank=2, seed=0):
    """Exact, of a rank below the ones that are asked for; no entry is zero."""
    rng = np.random.default_rng(seed)
    return rng.random((n, rank)) @ rng.random((rank, m))


def duplicated(n=40, m=30, different=3, seed=0):
    """A few different rows and columns, each many times."""
    rng = np.random.default_rng(seed)
    return rng.random((different, different))[rng.integers(0, different, n)][:, rng.integers(0, different, m)]


def sparse_formats(X):
    """X in every form scipy has for it, arrays and matrices, with 32 and 64 bit indices."""
    for kind in (sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_matrix, sp.csc_matrix, sp.coo_matrix):
        yield kind.__name__, kind(X)
    wide = sp.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    yield "csr_array int64", wide
    rows, columns = np.nonzero(X)
    yield (
        "coo_array int64",
        sp.coo_array((X[rows, columns], (rows.astype(np.int64), columns.astype(np.int64))), X.shape),
    )


class PolarsLike:
    """What a polars frame shows of itself: names of columns, none of rows."""

    def __init__(self, values, columns):
        self.values, self.columns, self.shape = values, columns, values.shape

    def __array__(self, dtype=None, copy=None):
        return self.values
