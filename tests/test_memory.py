"""What a fit needs beside X: thin arrays, and for sparse X one transposed copy; never a dense n x m array."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

import enmf
from enmf import parallel


def peak_of(function):
    """Largest number of bytes allocated at once during a call, beyond what was there."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("bound", [False, True])
def test_a_large_sparse_matrix_is_never_dense(bound):
    n, m, rank = 200_000, 100_000, 5
    rng = np.random.default_rng(0)
    count = 600_000
    X = sp.csr_array((rng.random(count), (rng.integers(n, size=count), rng.integers(m, size=count))), shape=(n, m))
    width = rank + 10
    copies = 2 * (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)  # the validated copy, and its transpose
    allowed = 8 * 8 * (n + m) * (rank + width) + copies
    with parallel.limit(1):
        enmf.factorize(X[:300, :300], rank, max_iter=2, tol=0)  # compiling allocates, too
        used = peak_of(lambda: enmf.factorize(X, rank, max_iter=3, tol=0, random_state=0, bound=bound))
    assert used < allowed
    assert allowed < n * m  # not even a dense array of bytes


def test_a_dense_matrix_is_not_copied():
    n, m, rank = 3000, 2500, 4
    X = np.random.default_rng(0).random((n, m))
    with parallel.limit(1):
        enmf.factorize(X[:300, :300], rank, max_iter=2, tol=0)
        used = peak_of(lambda: enmf.factorize(X, rank, max_iter=3, tol=0, random_state=0))
    assert used < 8 * 8 * (n + m) * (2 * rank + 10) + 8 * (1 << 20) * 3
    assert used < 0.7 * X.nbytes
