"""Every kernel against its slow twin, on awkward sizes, in both precisions."""

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

import slow
from enmf import parallel
from enmf.kernels import BLOCK
from enmf.kernels import nnls as active_set
from enmf.matrix.dense import DenseMatrix
from enmf.matrix.lowrank import LowRankMatrix
from enmf.matrix.sparse import SparseMatrix
from enmf.matrix.sweeps import (
    Momentum,
    RowSteps,
    Sweep,
    coordinate_sweeps,
    gradient_steps,
    measure_gradient,
    product_then_sweep,
    solve_nnls,
)
from enmf.problem.problem import Penalty, Problem, SidePenalty
from enmf.problem.state import State
from enmf.solvers.anls_bpp import block_pivoting

SIZES = [(1, 1), (5, 3), (BLOCK - 1, 4), (BLOCK, 7), (BLOCK + 1, 10), (2 * BLOCK + 70, 13)]
DTYPES = [np.float64, np.float32]


def problem(n, r, dtype, seed=0, negative=False):
    rng = np.random.default_rng(seed)
    V = rng.random((r + 3, r))
    U = rng.random((n, r)) * (rng.random((n, r)) < 0.7)
    if negative:
        U -= 0.3
    B = rng.standard_normal((n, r)) + 1
    return (np.asfortranarray(A, dtype=dtype) for A in (U, V.T @ V, B))


@pytest.mark.parametrize(("n", "r"), SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wall", [np.inf, 0.5])
def test_sweep(n, r, dtype, wall):
    U, G, B = problem(n, r, dtype)
    expected = slow.sweep(U.astype(float), G.astype(float), B.astype(float), wall, sweeps=3)
    coordinate_sweeps(U, G, B, Sweep(3, wall=wall))
    np.testing.assert_allclose(
        U, expected, rtol=1e-10 if dtype == np.float64 else 2e-3, atol=1e-4 if dtype == np.float32 else 0
    )


def test_sweep_leaves_undefined_and_fixed_components_alone():
    U, G, B = problem(10, 4, np.float64)
    G[1, :] = G[:, 1] = 0.0
    B[:5, 1], B[5:, 1] = 0.0, -1.0
    before = U.copy()
    coordinate_sweeps(U, G, B, fixed=np.array([False, False, True, False]))
    assert (U[:5, 1] == before[:5, 1]).all()
    assert (U[5:, 1] == 0).all()
    assert (U[:, 2] == before[:, 2]).all()
    assert (U[:, 0] != before[:, 0]).any()
    np.testing.assert_allclose(U, slow.sweep(before, G, B, skip=(2,)))


@pytest.mark.parametrize("penalty", [Penalty(), Penalty(SidePenalty(0.3, 0.2))])
@pytest.mark.parametrize("momentum", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "m", "r"), [(4, 1, 1), (63, 9, 3), (BLOCK + 1, 30, 8), (9 * BLOCK + 5, 17, 13)])
def test_one_pass_equals_two_products(n, m, r, dtype, momentum, penalty):
    rng = np.random.default_rng(0)
    X = DenseMatrix(rng.random((n, m)).astype(dtype))
    U, V, old = (np.asfortranarray(rng.random((size, r)), dtype) for size in (n, m, n))
    found = []
    for one_pass in (True, False):
        rows, columns = State(Problem(X, penalty=penalty), U.copy(order="F"), V).halves
        before = old.copy(order="F")
        assert X.allows_one_pass
        assert not rows.knows_product
        passes = X.passes
        if not one_pass:
            _ = rows.product  # at hand: the sweeps use it, and Xᵀ U takes a second pass
        rows.sweep(Sweep(3, momentum=Momentum(before, 0.7) if momentum else None))
        found.append((rows.F, before, columns.product, rows.gram))
        assert X.passes - passes == (1 if one_pass else 2)
    for a, b in zip(*found):
        np.testing.assert_allclose(
            a, b, rtol=1e-3 if dtype == np.float32 else 1e-11, atol=1e-4 if dtype == np.float32 else 1e-13
        )


def test_one_pass_is_the_same_on_any_number_of_threads():
    rng = np.random.default_rng(0)
    X = DenseMatrix(rng.random((3000, 40)))
    U, V = (np.asfortranarray(rng.random((size, 12))) for size in X.shape)
    found = []
    for threads in (1, 2, 5):
        rows, columns = State(Problem(X), U.copy(order="F"), V).halves
        with parallel.limit(threads):
            rows.sweep(Sweep())
        found.append((rows.F, columns.product, rows.gram))
    assert all((a == b).all() for other in found[1:] for a, b in zip(found[0], other))


@pytest.mark.parametrize(("n", "r"), SIZES)
@pytest.mark.parametrize("literal", [True, False])
@pytest.mark.parametrize("optimal", [True, False])
def test_row_steps(n, r, literal, optimal):
    U, G, B = problem(n, r, np.float64, negative=True)
    U[U > 0.5] = 0.0
    fixed = 0.0 if optimal else 1.0 / np.linalg.norm(G, 2)
    expected = slow.row_step(U, G, B, fixed, literal)
    gradient_steps(U, G, B, RowSteps(1, 0.0, not optimal, literal))
    np.testing.assert_allclose(U, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("n", "r"), SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_gradient_measure(n, r, dtype):
    U, G, B = problem(n, r, dtype)
    projected, D = slow.projected_gradient(U, G, B)
    found = measure_gradient(U, G, B)
    tolerance = 1e-10 if dtype == np.float64 else 1e-3
    np.testing.assert_allclose(found.squares, (projected**2).sum(axis=0), rtol=tolerance)
    np.testing.assert_allclose(found.largest_product, (D * U).max(), rtol=tolerance)
    np.testing.assert_allclose(
        found.sum_product, (D * U).sum(), rtol=tolerance, atol=1e-2 if dtype == np.float32 else 1e-9
    )
    np.testing.assert_allclose(found.smallest, D.min(), rtol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("r", [1, 3, 20])
def test_sparse_products(r, dtype):
    rng = np.random.default_rng(0)
    S = sp.random_array((90, 70), density=0.1, rng=rng, format="csr").astype(dtype)
    X = SparseMatrix(S)
    V, U = rng.random((70, r)).astype(dtype), rng.random((90, r)).astype(dtype)
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(X.times(V), S @ V, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(X.transpose_times(U), S.T @ U, rtol=tolerance, atol=tolerance)
    assert X.passes == 2


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_do_not_depend_on_threads(threads):
    def run(count):
        U, G, B = problem(1000, 30, np.float64)
        with parallel.limit(count):
            coordinate_sweeps(U, G, B, Sweep(4, 0.1))
            measured = measure_gradient(U, G, B)
        return U, measured.squares

    for a, b in zip(run(1), run(threads)):
        assert (a == b).all()


def assert_optimal(A, y, F, l1=0.0):
    """F >= 0 minimizes 1/2 ||A Fᵀ - yᵀ||² + l1 sum F: by its KKT conditions, and against scipy's point.

    The residual norm that scipy 1.17 reports is now and then false, and its point not optimal (scipy issue 25389): what
    counts is the residual of its point.
    """
    assert (F >= 0).all()
    D = (F @ A.T - y) @ A + l1
    size = np.linalg.norm(y, axis=1)
    tolerance = 1e-7 * (np.linalg.norm(A, axis=0) * np.maximum(1.0, size)[:, None] + l1)
    assert (tolerance >= -D).all()
    assert (D[F > 0] <= tolerance[F > 0]).all()
    if l1 == 0:
        for i in range(len(y)):
            best = np.linalg.norm(A @ scipy.optimize.nnls(A, y[i])[0] - y[i])
            assert np.linalg.norm(A @ F[i] - y[i]) <= best + 1e-7 * max(1.0, size[i])


@settings(max_examples=300, deadline=None)
@given(
    rows=st.integers(1, 12),
    r=st.integers(1, 9),
    n=st.integers(1, 4),
    seed=st.integers(0, 10_000),
    kind=st.sampled_from(["random", "deficient", "duplicate", "zero column", "tiny", "nonnegative"]),
    l1=st.sampled_from([0.0, 0.01, 0.5]),
    warm=st.booleans(),
)
def test_nnls_is_optimal(rows, r, n, seed, kind, l1, warm):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((rows, r))
    y = rng.standard_normal((n, rows))
    if kind == "nonnegative":
        A, y = np.abs(A), np.abs(y)
    elif kind == "deficient":
        A = rng.standard_normal((rows, 1)) * rng.standard_normal((1, r))
    elif kind == "duplicate" and r > 1:
        A[:, 1] = A[:, 0]
    elif kind == "zero column":
        A[:, -1] = 0.0
    elif kind == "tiny":
        A *= 1e-6
    G, B = A.T @ A, y @ A - l1
    assert_optimal(A, y, solve_nnls(G, B), l1)
    F = np.maximum(rng.random((r, n)) - 0.5, 0) if warm else np.zeros((r, n))
    active_set.nnls(0, n, G, np.ascontiguousarray(B.T), F)
    assert_optimal(A, y, F.T, l1)


@pytest.mark.parametrize("start", [0.0, 1.0])
def test_a_column_that_depends_on_the_others_can_be_the_cheaper_one(start):
    """With an l1 penalty the slope of a dependent column need not vanish: it has to replace one of the others."""
    A, y = np.array([[3.0, 0.0, 1.0, 3.0], [1.0, 1.0, 4.0, 0.0]]), np.array([[5.0, 5.0]])
    G, B = A.T @ A, y @ A - 1.0
    F = np.full((4, 1), start)
    active_set.nnls(0, 1, G, np.ascontiguousarray(B.T), F)
    assert_optimal(A, y, F.T, 1.0)
    assert_optimal(A, y, block_pivoting(G, B, np.full((1, 4), start)), 1.0)


def test_block_pivoting_is_right_where_scipy_is_not():
    """Rank-deficient integer data, on which scipy 1.17.1 reports a residual of 3.0362; (28/3)**0.5 is optimal."""
    rng = np.random.default_rng(20687)
    A, y = np.round(rng.standard_normal((6, 9))), np.round(rng.standard_normal((4, 6)))
    F = block_pivoting(A.T @ A, y @ A)
    assert_optimal(A, y, F)
    np.testing.assert_allclose(F[3], [1 / 3, 0, 0, 0, 0, 0, 0, 0, 0], atol=1e-12)  # exact: D = (0, 1, 0, 11, ...) / 3


def test_nnls_never_ends_just_below_zero():
    """A support whose solution is negative by less than the rounding of the step that leads there."""
    F = np.ones((2, 1))
    active_set.nnls(0, 1, np.eye(2), np.array([[1.0], [-1e-20]]), F)
    np.testing.assert_array_equal(F, [[1.0], [0.0]])


def test_nnls_of_many_well_conditioned_rows_equals_scipy():
    rng = np.random.default_rng(3)
    A, y = rng.random((50, 12)), rng.random((100, 50))
    expected = np.array([scipy.optimize.nnls(A, row)[0] for row in y])
    np.testing.assert_allclose(solve_nnls(A.T @ A, y @ A), expected, atol=1e-9)


@settings(max_examples=1000, deadline=None)
@given(
    rows=st.integers(1, 12),
    r=st.integers(1, 9),
    n=st.integers(1, 6),
    seed=st.integers(0, 100_000),
    kind=st.sampled_from(["random", "deficient", "duplicate", "zero column", "zero rows", "degenerate", "nonnegative"]),
    warm=st.booleans(),
    l1=st.sampled_from([0.0, 0.01, 0.5]),
)
@example(rows=6, r=9, n=4, seed=20687, kind="degenerate", warm=False, l1=0.0)
def test_block_pivoting_is_optimal(rows, r, n, seed, kind, warm, l1):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((rows, r))
    y = rng.standard_normal((n, rows))
    if kind == "nonnegative":
        A, y = np.abs(A), np.abs(y)
    elif kind == "deficient":
        A = rng.standard_normal((rows, 1)) * rng.standard_normal((1, r))
    elif kind == "duplicate" and r > 1:
        A[:, 1] = A[:, 0]
    elif kind == "zero column":
        A[:, -1] = 0.0
    elif kind == "zero rows":
        y[:] = 0.0
    elif kind == "degenerate":  # integer data: many exact ties between passive and active
        A, y = np.round(A), np.round(y)
    F = block_pivoting(A.T @ A, y @ A - l1, rng.random((n, r)) - 0.5 if warm else None)
    assert_optimal(A, y, F, l1)


def test_block_pivoting_of_many_well_conditioned_rows_equals_scipy():
    rng = np.random.default_rng(3)
    A, y = rng.random((50, 12)), rng.random((100, 50))
    expected = np.array([scipy.optimize.nnls(A, row)[0] for row in y])
    np.testing.assert_allclose(block_pivoting(A.T @ A, y @ A), expected, atol=1e-9)


@pytest.mark.parametrize("momentum", [False, True])
@pytest.mark.parametrize("wall", [np.inf, 0.3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "m", "width", "r"), [(900, 130, 7, 5), (33, 1, 3, 3), (300, 515, 12, 8)])
def test_the_core_is_swept_like_any_matrix(n, m, width, r, dtype, wall, momentum):
    """Lanes, parts and padding do not show: as with products of their own, on any number of threads."""
    rng = np.random.default_rng(n)
    core = LowRankMatrix(*(np.asfortranarray(rng.standard_normal((k, width)), dtype) for k in (n, m)))
    start = [np.asfortranarray(rng.random((k, r)), dtype) for k in (n, m)]
    older = [np.asfortranarray(rng.random((k, r)), dtype) for k in (n, m)]
    found = []
    for step, threads in ((product_then_sweep, 1), (core.half_step, 1), (core.half_step, 3)):
        state = State(Problem(core), *(F.copy(order="F") for F in start))
        old = [F.copy(order="F") for F in older]
        with parallel.limit(threads):
            for _ in range(2):
                for half, before in zip(state.halves, old):
                    step(half, Sweep(2, wall=wall, momentum=Momentum(before, 0.4) if momentum else None))
            found.append((state.U, state.V, *old, *(half.gram for half in state.halves), state.value()))
    for one, three in zip(found[1], found[2]):
        np.testing.assert_array_equal(one, three)
    precision = 2e-4 if dtype == np.float32 else 1e-11
    for expected, got in zip(found[0], found[1]):
        np.testing.assert_allclose(got, expected, rtol=precision, atol=precision * np.abs(expected).max())


def test_a_core_that_is_met_exactly_has_the_error_of_its_residual():
    rng = np.random.default_rng(0)
    A, B = (np.asfortranarray(rng.random((k, 4))) for k in (200, 150))
    assert State(Problem(LowRankMatrix(A, B)), A.copy(order="F"), B.copy(order="F")).value() < 1e-20
