"""All kinds of matrix answer alike."""

import numpy as np
import pytest
import scipy.sparse as sp

import problems
from enmf import parallel
from enmf.matrix import DenseMatrix, LowRankMatrix, SparseMatrix


def kinds(dtype=np.float64):
    rng = np.random.default_rng(0)
    A, B = rng.random((30, 6)).astype(dtype), rng.random((20, 6)).astype(dtype)
    A[A < 0.5] = 0
    X = A @ B.T
    X[X < 0.5] = 0
    low = A @ B.T
    return [
        ("C order", DenseMatrix(X), X),
        ("Fortran order", DenseMatrix(np.asfortranarray(X)), X),
        ("sparse", SparseMatrix(sp.csr_array(X)), X),
        ("low rank", LowRankMatrix(A, B), low),
    ]


@pytest.mark.parametrize(("name", "matrix", "X"), kinds(), ids=lambda v: v if isinstance(v, str) else "")
def test_products_norm_and_residual(name, matrix, X):
    rng = np.random.default_rng(1)
    U, V = np.asfortranarray(rng.random((30, 4))), np.asfortranarray(rng.random((20, 4)))
    np.testing.assert_allclose(matrix.times(V), X @ V)
    np.testing.assert_allclose(matrix.transpose_times(U), X.T @ U)
    assert matrix.times(V).flags.f_contiguous
    assert matrix.transpose_times(U).flags.f_contiguous
    assert matrix.squared_norm() == pytest.approx((X**2).sum(), rel=1e-13)
    assert matrix.squared_residual(U, V) == pytest.approx(((X - U @ V.T) ** 2).sum(), rel=1e-12)
    assert matrix.mean() == pytest.approx(X.mean())
    np.testing.assert_allclose(matrix.gram(), X.T @ X, atol=1e-10)


def test_passes_count_products_with_data_only():
    for name, matrix, _ in kinds():
        matrix.times(np.ones((20, 2)))
        matrix.transpose_times(np.ones((30, 2)))
        assert matrix.passes == (0 if name == "low rank" else 2)


@pytest.mark.parametrize("store", [DenseMatrix, lambda X: SparseMatrix(sp.csr_array(X))])
def test_a_tiny_residual_keeps_its_digits(store):
    X, U, V = problems.unique_exact()
    X = X.copy()
    X[4, 4] += 1e-9
    assert np.sqrt(store(X).squared_residual(U, V)) == pytest.approx(1e-9, rel=1e-4)


def test_float32_norms_are_accumulated_in_double():
    X = np.full((2000, 600), 0.1, dtype=np.float32)
    assert DenseMatrix(X).squared_norm() == pytest.approx(float(np.float32(0.1)) ** 2 * X.size, rel=1e-12)
    assert SparseMatrix(sp.csr_array(X)).squared_norm() == pytest.approx(
        float(np.float32(0.1)) ** 2 * X.size, rel=1e-12
    )


def test_cost_does_not_depend_on_storage():
    X = problems.counts()
    assert DenseMatrix(X).cost_per_column == SparseMatrix(sp.csr_array(X)).cost_per_column


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("height", [1, 7, 64, 1000])
def test_blocks_of_the_transposed_matrix(height, dtype, monkeypatch):
    """Any height of the blocks, empty rows and columns, any number of threads."""
    monkeypatch.setattr("enmf.matrix.sparse.BLOCK_ROWS", height)
    monkeypatch.setattr("enmf.matrix.sparse.LEAST_ENTRIES", 0)
    monkeypatch.setattr("enmf.parallel.LEAST_WORK", 1.0)
    rng = np.random.default_rng(height)
    A = np.where(rng.random((300, 41)) < 0.1, rng.random((300, 41)), 0.0).astype(dtype)
    A[50:90] = A[:, 7] = A[:, -1] = 0
    U = rng.random((300, 5)).astype(dtype)
    found = []
    for threads in (1, 2, 3):
        X = SparseMatrix(sp.csr_array(A))
        with parallel.limit(threads):
            found.append(X.transpose_times(U))
        assert len(X.transposed.starts) == -(-300 // height)
        np.testing.assert_array_equal(found[-1], found[0])
    np.testing.assert_allclose(found[0], A.T @ U, rtol=1e-5 if dtype == np.float32 else 1e-13)
    np.testing.assert_allclose(X.row_squares(), (A.astype(np.float64) ** 2).sum(axis=1), rtol=1e-12)
