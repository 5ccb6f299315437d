"""All kinds of matrix answer alike."""

import numpy as np
import pytest
import scipy.sparse as sp

import problems
from enmf import parallel
from enmf.matrix.dense import DenseMatrix
from enmf.matrix.lowrank import LowRankMatrix
from enmf.matrix.single import in_single
from enmf.matrix.sparse import SparseMatrix
from enmf.matrix.structure import as_csr, check_structure
from enmf.problem.problem import Problem
from enmf.problem.state import State


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
    monkeypatch.setattr("enmf.matrix.sparse.LEAST_BLOCKS", 1)
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


@pytest.mark.parametrize("order", ["C", "F", "sparse"])
def test_single_precision_looks_at_the_same_data(order, monkeypatch):
    """Products as of a copy in single precision, the same on any number of threads; passes count for X."""
    monkeypatch.setattr("enmf.parallel.LEAST_WORK", 1.0)
    monkeypatch.setattr("enmf.matrix.single.HEIGHT", 8)
    rng = np.random.default_rng(0)
    A = np.where(rng.random((403, 57)) < 0.6, rng.random((403, 57)), 0.0)
    U, V = rng.standard_normal((403, 5)), rng.standard_normal((57, 5))
    X = SparseMatrix(sp.csr_array(A)) if order == "sparse" else DenseMatrix(np.array(A, order=order))
    before = A.copy()
    found = []
    for threads in (1, 2, 3):
        single = in_single(X)
        X.passes = 0
        with parallel.limit(threads):
            XV, back = single.there_and_back(V)
            found.append([single.times(V), single.transpose_times(U), XV, *([] if back is None else [back])])
        assert X.passes == single.passes == 3
        for product in found[-1]:
            assert product.dtype == single.dtype == np.float32
        for product, same in zip(found[-1], found[0]):
            np.testing.assert_array_equal(product, same)
    expected = [A @ V, A.T @ U, A @ V, A.T @ (A @ V)]
    assert (len(found[0]) == 4) == (order == "C")  # only rows that lie together serve both products
    for product, exact in zip(found[0], expected):
        np.testing.assert_allclose(product, exact, atol=1e-5 * abs(exact).max())
    assert single.squared_norm() == X.squared_norm()
    sample = single.sample_rows(40, np.random.default_rng(1))
    same = X.sample_rows(40, np.random.default_rng(1))
    assert sample.dtype == np.float32
    np.testing.assert_allclose(sample.times(V.astype(np.float32)), same.times(V), atol=1e-4)
    np.testing.assert_array_equal(A, before)


@pytest.mark.parametrize("factor", [1e-40, 1e40])
def test_what_single_precision_cannot_hold_stays_double(factor):
    X = DenseMatrix(problems.counts().astype(np.float64) * factor)
    assert in_single(X) is X
    X = DenseMatrix(problems.counts().astype(np.float32))
    assert in_single(X) is X


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_survey_of_dense_data(dtype):
    """Norms and zeros do not depend on the order of storage or the threads."""
    rng = np.random.default_rng(0)
    A = np.where(rng.random((1201, 333)) < 0.3, rng.random((1201, 333)), 0.0).astype(dtype)
    A[7] = 0
    found = []
    for order, threads in (("C", 1), ("C", 2), ("F", 2)):
        X = DenseMatrix(np.array(A, order=order))
        with parallel.limit(threads):
            found.append((X.row_squares(), X.squared_norm(), X.cost_per_column))
        np.testing.assert_array_equal(found[-1][0], found[0][0])
        assert found[-1][1:] == found[0][1:]
    np.testing.assert_allclose(found[0][0], (A.astype(np.float64) ** 2).sum(axis=1), rtol=1e-13)
    assert found[0][2] == 2.0 * min(A.size, 8 * np.count_nonzero(A))


def damaged(form, **fields):
    S = sp.eye_array(4, format="csr").asformat(form)
    for name, value in fields.items():
        setattr(S, name, value if name == "coords" else np.array(value, np.int32))
    return S


@pytest.mark.parametrize(
    ("S", "message"),
    [
        (damaged("csr", indices=[0, 1, 2, -7]), r"1 of 4 column indices lie outside 0..3, the first is -7 at row 3"),
        (damaged("csc", indices=[0, 999999999, 2, 9]), r"2 of 4 row indices .* the first is 999999999 at column 1"),
        (damaged("csr", indptr=[0, 3, 1, 2, 4]), "indptr decreases at 1 places, first after row 1"),
        (damaged("csr", indptr=[0, 1, 2, 3, 9999999]), "indptr ends at 9999999, but 4 entries are stored"),
        (damaged("csr", indptr=[1, 1, 2, 3, 4]), "indptr must begin with 0 and have 5 entries"),
        (damaged("csc", indptr=[0, 1, 4]), "indptr must begin with 0 and have 5 entries"),
        (damaged("csr", indptr=[0, 5, 0, 0, 0]), "indptr decreases"),
        (damaged("bsr", indices=[0, 1, 2, 4]), "1 of 4 column of blocks indices"),
        (damaged("coo", coords=(np.arange(4), np.array([0, 1, 2, 4]))), "1 of 4 column indices .* at entry 3"),
        (damaged("coo", coords=(np.arange(3), np.arange(4))), "there must be 4 integers as row indices, got 3"),
    ],
    ids=lambda v: v.format if sp.issparse(v) else "",
)
def test_indices_that_point_outside_are_found_before_compiled_code_follows_them(S, message):
    with pytest.raises(ValueError, match=message):
        check_structure(S)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "lil", "dok", "dia"])
@pytest.mark.parametrize("shape", [(4, 6), (3, 3), (5, 1)])
def test_sound_structures_become_csr(form, shape):
    X = np.random.default_rng(0).integers(0, 2, shape)
    np.testing.assert_array_equal(as_csr(sp.csr_array(X).asformat(form)).toarray(), X)


def test_lists_that_point_outside_are_found_too():
    S = sp.lil_array((3, 3))
    S.rows[1], S.data[1] = [7], [1.0]
    with pytest.raises(ValueError, match="the first is 7 at row 1"):
        as_csr(S)


def test_room_behind_the_last_entry_is_no_entry():
    S = sp.eye_array(2, format="csr")
    S.data, S.indices = np.array([1.0, 1.0, 99.0]), np.array([0, 1, 77], np.int32)
    csr = as_csr(S)
    assert len(csr.data) == len(csr.indices) == 2
    assert len(S.data) == 3


@pytest.mark.parametrize("noise", [0.02, 0.2, 0.5])
def test_errors_in_single_precision_have_five_digits(noise):
    rng = np.random.default_rng(0)
    U, V = (rng.random((size, 8)).astype(np.float32) for size in (300, 2000))
    X = U @ V.T
    X = np.maximum(X + noise * X.std() * rng.standard_normal(X.shape), 0).astype(np.float32)
    exact = np.linalg.norm(X.astype(float) - U.astype(float) @ V.T.astype(float))
    state = State(Problem(DenseMatrix(X)), U, V)
    assert state.error() == pytest.approx(exact, rel=1e-5)
