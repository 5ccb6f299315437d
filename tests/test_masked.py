"""Masked matrices and their kernels against the slow twins, in every way the pattern can be kept."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp

import problems
import slow
from enmf.kernels import masked as kernels
from enmf.matrix.masked import from_dense, from_observed, from_sparse
from enmf.matrix.sweeps import RowSteps, Sweep
from enmf.problem.problem import Penalty, Problem, SidePenalty
from enmf.problem.state import State

DTYPES = [np.float64, np.float32]


def pattern(X, share, seed=1):
    """True where missing; row 2 and column 4 have no observation, row 6 all of them."""
    missing = np.random.default_rng(seed).random(X.shape) < share
    missing[6] = False
    missing[2], missing[:, 4] = True, True
    return missing


def as_observed(dtype):
    X = problems.dense(23, 17, dtype=dtype)
    missing = pattern(X, 0.7)
    rows, columns = np.nonzero(~missing)
    weights = np.random.default_rng(3).random(len(rows)).astype(dtype) + 0.5
    W = np.zeros(X.shape)
    W[rows, columns] = weights
    return from_observed(sp.csr_array((X[rows, columns], (rows, columns)), shape=X.shape), weights), X, W


def as_dense(dtype):
    X = problems.dense(23, 70, dtype=dtype)
    missing = pattern(X, 0.1)
    missing[3, :40] = True  # this row is described by what it has, the others by what they lack
    A = from_dense(np.where(missing, 0, X).astype(dtype), missing)
    assert A.base is not None
    assert A.rows.from_base.sum() == 21
    return A, X, (~missing).astype(float)


def as_sparse(dtype):
    X = problems.counts(40, 30, dtype=dtype)
    missing = pattern(X, 0.05)
    X[missing] = 0
    stored = sp.csr_array(X)
    weights = np.where(np.arange(stored.nnz) % 3, 1.0, 2.5).astype(dtype)
    W = (~missing).astype(float)
    W[sp.coo_array(stored).coords] *= weights
    return from_sparse(stored, sp.csr_array(missing), weights), X, W


KINDS = {"observed": as_observed, "dense": as_dense, "sparse": as_sparse}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


def factors(A, rank=5, seed=0, negative=False):
    rng = np.random.default_rng(seed)
    U, V = (np.asfortranarray(rng.random((length, rank)) - 0.2 * negative, dtype=A.dtype) for length in A.shape)
    return U, V, (rng.random(A.shape[0]), rng.random(A.shape[1]))


def state_of(A, U, V, ridge):
    return State(Problem(A, penalty=Penalty(*(SidePenalty(l2=weights) for weights in ridge))), U, V)


def close(found, expected, dtype):
    np.testing.assert_allclose(
        found, expected, rtol=1e-9 if dtype == np.float64 else 5e-3, atol=2e-12 if dtype == np.float64 else 5e-3
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wall", [np.inf, 0.3])
def test_sweeps(kind, dtype, wall):
    A, X, W = kind(dtype)
    U, V, ridge = factors(A)
    rows, columns = state_of(A, U.copy(order="F"), V.copy(order="F"), ridge).halves
    rows.sweep(Sweep(2, wall=wall))
    close(rows.F, slow.masked_sweep(U, V, X, W, ridge[0], wall, 2), dtype)
    rows.replace(U.copy(order="F"))
    columns.sweep(Sweep(2, wall=wall))
    close(columns.F, slow.masked_sweep(V, U, X.T, W.T, ridge[1], wall, 2), dtype)


def test_row_steps_with_a_masked_line_search(kind):
    A, X, W = kind(np.float64)
    U, V, ridge = factors(A, negative=True)
    U[1] = 0.0
    rows, _ = state_of(A, U.copy(order="F"), V, ridge).halves
    A.gradient_steps(rows, RowSteps(1, 0.0))
    close(rows.F, slow.masked_row_step(U, V, X, W, ridge[0]), np.float64)


def test_exact_row_solutions(kind):
    A, X, W = kind(np.float64)
    _, V, ridge = factors(A)
    U = np.zeros((A.shape[0], V.shape[1]), order="F")
    A.run(kernels.solve, A.rows, U, V, ridge[0])
    for i in range(A.shape[0]):
        G, b = slow.masked_normal(i, X, W, V, ridge[0])
        L = np.linalg.cholesky(G).T
        expected, _ = scipy.optimize.nnls(L, np.linalg.solve(L.T, b))
        np.testing.assert_allclose(U[i], expected, atol=1e-9)


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_errors_and_gradients(kind, dtype):
    A, X, W = kind(dtype)
    U, V, ridge = factors(A)
    D = np.asfortranarray(np.random.default_rng(5).random(V.shape), dtype=dtype)
    residual = W * (X.astype(np.float64) - U @ V.T)
    close(A.residual_times(A.rows, U, V)[0], residual @ V, dtype)
    close(A.residual_times(A.rows, U, V, D)[0], residual @ D, dtype)
    close(A.residual_times(A.columns, V, U)[0], residual.T @ U, dtype)
    close(A.times(V), (W * X) @ V, dtype)
    close(A.transpose_times(U), (W * X).T @ U, dtype)
    squared = (W * (X - U @ V.T) ** 2).sum()
    state = state_of(A, U, V, ridge)
    assert 2 * state.value() == pytest.approx(squared, rel=1e-10 if dtype == np.float64 else 1e-4)
    assert A.squared_residual(U, V) == pytest.approx(squared, rel=1e-10 if dtype == np.float64 else 1e-4)
    assert A.squared_norm() == pytest.approx((W * X.astype(np.float64) ** 2).sum(), rel=1e-6)
    np.testing.assert_allclose(A.rows.totals, W.sum(axis=1), rtol=1e-6)
    np.testing.assert_allclose(A.columns.totals, W.sum(axis=0), rtol=1e-6)
    dU = -residual @ V + ridge[0][:, None] * U
    measure = state.halves[0].measure()
    np.testing.assert_allclose(measure.squares, (np.where(U > 0, dU, np.minimum(dU, 0)) ** 2).sum(axis=0), rtol=2e-3)
    assert measure.smallest == pytest.approx(dU.min(), rel=2e-3)
    assert 2 * state.problem.penalty.value(state) == pytest.approx(
        ridge[0] @ (U.astype(float) ** 2).sum(axis=1) + ridge[1] @ (V.astype(float) ** 2).sum(axis=1), rel=1e-6
    )


def test_a_tiny_error_keeps_its_digits(kind):
    A, X, W = kind(np.float64)
    U, V, ridge = factors(A)
    exact = U @ V.T + 1e-9 * np.random.default_rng(2).standard_normal(X.shape)
    missing = W == 0
    if A.base is None:
        rows, columns = np.nonzero(W)
        B = from_observed(sp.csr_array((exact[rows, columns], (rows, columns)), shape=X.shape), W[rows, columns])
    elif sp.issparse(A.base.raw()):
        B = from_sparse(sp.csr_array(np.where(missing, 0, exact)), sp.csr_array(missing))
        W = (~missing).astype(float)
    else:
        B = from_dense(np.where(missing, 0, exact), missing)
    expected = (W * (exact - U @ V.T) ** 2).sum()
    assert 2 * state_of(B, U, V, ridge).value() == pytest.approx(expected, rel=1e-3)


def test_observed_entries_are_given_back(kind):
    A, X, W = kind(np.float64)
    found = np.zeros(A.shape)
    places = np.zeros(A.shape, dtype=int)
    for rows, columns, values in A.observed_entries():
        found[rows, columns] = values
        places[rows, columns] += 1
    np.testing.assert_array_equal(places, W > 0)
    np.testing.assert_allclose(found, np.where(W > 0, X, 0), rtol=1e-12)


def test_weights_and_gaps_keep_their_places_whatever_the_version_of_scipy():
    """Both are listed one after the other; old versions of SciPy do not sort them when they make a matrix of them."""
    X = np.arange(1.0, 16.0).reshape(3, 5) % 4
    stored = sp.csr_array(np.where(X == 3, 0.0, X))
    weights = np.linspace(0.1, 1.5, stored.nnz)
    side = from_sparse(stored, sp.csr_array(X == 3), weights).rows
    expected = np.where(X == 3, -1.0, 0.0)
    expected[stored.nonzero()] = weights - 1
    found = np.zeros(X.shape)
    found[np.repeat(np.arange(3), np.diff(side.indptr)), side.indices] = side.weights
    np.testing.assert_allclose(found, expected)
    assert all(np.all(np.diff(side.indices[a:b]) > 0) for a, b in pairwise(side.indptr))
