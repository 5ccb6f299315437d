"""Products of sparse matrices against their slow twins."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import slow

RANKS = st.sampled_from([0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 33, 63, 65, 127, 129, 257, 300])
ROWS = st.sampled_from([0, 1, 2, 31, 32, 33, 64, 70])
COLUMNS = st.sampled_from([1, 2, 3, 20, 40])
DTYPES = st.sampled_from([np.float64, np.float32])
INDICES = st.sampled_from([np.int32, np.int64])
SEEDS = st.integers(0, 1000)


def near(dtype):
    return {"rtol": 1e-10, "atol": 1e-11} if dtype == np.float64 else {"rtol": 1e-4, "atol": 1e-4}


def matrix(n, m, seed, dtype=np.float64):
    """Some rows are empty, some full, and a few entries are stored zeros."""
    rng = np.random.default_rng(seed)
    X = sp.csr_array(rng.random((n, m)) * (rng.random((n, m)) < rng.choice([0.0, 0.1, 0.5, 1.0], (n, 1))))
    X.data[rng.random(X.nnz) < 0.05] = 0.0
    return X.astype(dtype)


def part_of(n, data):
    start = data.draw(st.integers(0, n))
    return start, data.draw(st.integers(start, n))


def by_blocks(kernels, X, height, position, index):
    n, m = X.shape
    starts = np.full((max(1, -(-n // height)), m + 1), -1, position)
    rows, values = np.full(X.nnz, -1, index), np.full_like(X.data, np.nan)
    indptr, indices = X.indptr.astype(position), X.indices.astype(index)
    kernels.sparse.transpose(0, len(starts), indptr, indices, X.data, height, starts, rows, values)
    return starts, rows, values


@settings(max_examples=80, deadline=None)
@given(n=ROWS, m=COLUMNS, r=RANKS, dtype=DTYPES, stored=DTYPES, position=INDICES, index=INDICES, seed=SEEDS, data=st.data())
def test_times(kernels, n, m, r, dtype, stored, position, index, seed, data):
    X = matrix(n, m, seed, stored)
    C = np.random.default_rng(seed).standard_normal((m, r)).astype(dtype)
    start, stop = part_of(n, data)
    out = np.full((r, n), 7, dtype)
    arguments = X.indptr[None].astype(position), X.indices.astype(index), X.data, C
    kernels.sparse.times(start, stop, *arguments, out)
    assert (out[:, :start] == 7).all()
    assert (out[:, stop:] == 7).all()
    np.testing.assert_allclose(out[:, start:stop], (X.toarray().astype(dtype) @ C).T[:, start:stop], **near(dtype))
    whole = np.full((r, n), np.nan, dtype)
    kernels.sparse.times(0, n, *arguments, whole)
    assert (out[:, start:stop] == whole[:, start:stop]).all()


@settings(max_examples=60, deadline=None)
@given(n=ROWS, m=COLUMNS, r=RANKS, dtype=DTYPES, position=INDICES, index=INDICES, height=st.integers(1, 80), data=st.data())
def test_times_in_blocks(kernels, n, m, r, dtype, position, index, height, data):
    X = matrix(n, m, n + m, dtype)
    S = by_blocks(kernels, X, height, position, index)
    C = np.random.default_rng(r).standard_normal((n, r)).astype(dtype)
    start, stop = part_of(m, data)
    out = np.full((r, m), 7, dtype)
    kernels.sparse.times(start, stop, *S, C, out)
    assert (out[:, :start] == 7).all()
    assert (out[:, stop:] == 7).all()
    np.testing.assert_allclose(out[:, start:stop], (X.T @ C).T[:, start:stop], **near(dtype))
    whole = np.full((r, m), np.nan, dtype)
    kernels.sparse.times(0, m, *S, C, whole)
    assert (out[:, start:stop] == whole[:, start:stop]).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("r", [20, 100])
def test_times_of_far_columns(kernels, r, dtype):
    """C is larger than the cache, and its rows are a part of longer ones."""
    X = sp.random_array((300, 20_000), density=0.002, rng=np.random.default_rng(0), format="csr").astype(dtype)
    C = np.random.default_rng(1).random((20_000, r + 3)).astype(dtype)[:, 2:-1]
    out = np.empty((r, 300), dtype)
    kernels.sparse.times(0, 300, X.indptr[None], X.indices, X.data, C, out)
    np.testing.assert_allclose(out, (X @ C).T, rtol=1e-4 if dtype == np.float32 else 1e-12)


@settings(max_examples=50, deadline=None)
@given(n=ROWS, m=COLUMNS, dtype=DTYPES, position=INDICES, index=INDICES, height=st.integers(1, 80), seed=SEEDS)
def test_transpose(kernels, n, m, dtype, position, index, height, seed):
    X = matrix(n, m, seed, dtype)
    for found, expected in zip(by_blocks(kernels, X, height, position, index), slow.sparse_transpose(X, height)):
        np.testing.assert_array_equal(found, expected)


def test_transpose_fills_its_blocks_alone(kernels):
    X = matrix(60, 20, 3)
    starts, rows, values = np.full((6, 21), -1, X.indptr.dtype), np.full(X.nnz, -1, X.indices.dtype), np.full(X.nnz, -1.0)
    kernels.sparse.transpose(2, 4, X.indptr, X.indices, X.data, 10, starts, rows, values)
    expected = slow.sparse_transpose(X, 10)
    first, last = X.indptr[20], X.indptr[40]
    np.testing.assert_array_equal(starts[2:4], expected[0][2:4])
    np.testing.assert_array_equal(rows[first:last], expected[1][first:last])
    assert (starts[:2] == -1).all()
    assert (starts[4:] == -1).all()
    assert (rows[:first] == -1).all()
    assert (values[last:] == -1).all()


@settings(max_examples=50, deadline=None)
@given(n=ROWS, m=st.sampled_from([1, 7, 20, 63, 64, 65, 300]), dtype=DTYPES, position=INDICES, seed=SEEDS, data=st.data())
def test_row_squares(kernels, n, m, dtype, position, seed, data):
    X = matrix(n, m, seed, dtype)
    start, stop = part_of(n, data)
    out = np.full(n, -1.0)
    kernels.sparse.row_squares(start, stop, X.indptr.astype(position), X.data, out)
    expected = (X.toarray().astype(float) ** 2).sum(axis=1)
    np.testing.assert_allclose(out[start:stop], expected[start:stop], rtol=1e-13)
    assert (out[:start] == -1).all()
    assert (out[stop:] == -1).all()


@settings(max_examples=40, deadline=None)
@given(n=ROWS, m=COLUMNS, r=RANKS, dtype=DTYPES, position=INDICES, index=INDICES, seed=SEEDS, data=st.data())
def test_residual(kernels, n, m, r, dtype, position, index, seed, data):
    X = matrix(n, m, seed, dtype)
    rng = np.random.default_rng(seed)
    U, V = rng.standard_normal((n, r)), rng.standard_normal((m, r))
    start, stop = part_of(n, data)
    out = np.full(n, 7.0)
    kernels.sparse.residual(start, stop, X.indptr.astype(position), X.indices.astype(index), X.data, U, V, out)
    expected = slow.sparse_residual(X.astype(float), U, V)
    np.testing.assert_allclose(out[start:stop], expected[start:stop], rtol=1e-11, atol=1e-11)
    assert (out[:start] == 7).all()
    assert (out[stop:] == 7).all()


def test_what_is_only_read_may_be_read_only(kernels):
    X = matrix(9, 5, 1)
    C = np.ones((5, 3))
    for array in (X.indptr, X.indices, X.data, C):
        array.flags.writeable = False
    out = np.empty((3, 9))
    kernels.sparse.times(0, 9, X.indptr[None], X.indices, X.data, C, out)
    np.testing.assert_allclose(out, (X @ C).T)


def test_what_does_not_fit_is_refused(kernels):
    X, C, out = matrix(9, 5, 1), np.ones((5, 3)), np.empty((3, 9))
    starts, times = X.indptr[None], kernels.sparse.times
    with pytest.raises(TypeError, match="columns has to be float64, and is float32"):
        times(0, 9, starts, X.indices, X.data, C.astype(np.float32), out)
    with pytest.raises(TypeError, match="indices has to be int32 or int64"):
        times(0, 9, starts, X.indices.astype(np.int16), X.data, C, out)
    with pytest.raises(TypeError, match="contiguous along its last axis"):
        times(0, 9, starts, X.indices, X.data, np.asfortranarray(C), out)
    with pytest.raises(ValueError, match="out has to have r rows"):
        times(0, 9, starts, X.indices, X.data, C[:, :2], out)
    with pytest.raises(ValueError, match="one more start than rows"):
        times(0, 9, starts[:, :-1], X.indices, X.data, C, out)
    with pytest.raises(ValueError, match="outside the entries"):
        times(0, 9, starts + 1, X.indices, X.data, C, out)
    with pytest.raises(ValueError, match="every entry has to have an index"):
        times(0, 9, starts, X.indices[:-1], X.data, C, out)
    with pytest.raises(ValueError, match="range"):
        times(0, 10, starts, X.indices, X.data, C, out)
    both = np.ones((14, 9))
    with pytest.raises(ValueError, match="shares memory"):
        times(0, 9, starts, X.indices, X.data, both[2:7, :3], both[:3])
    squares = np.zeros(9)
    with pytest.raises(TypeError, match="out has to be float64"):
        kernels.sparse.row_squares(0, 9, X.indptr, X.data, squares.astype(np.float32))
    with pytest.raises(ValueError, match="same number of columns"):
        kernels.sparse.residual(0, 9, X.indptr, X.indices, X.data, np.ones((9, 2)), C, squares)
    with pytest.raises(ValueError, match="U has to have as many rows"):
        kernels.sparse.residual(0, 9, X.indptr, X.indices, X.data, np.ones((8, 3)), C, squares)
    with pytest.raises(TypeError, match="V has to be float64"):
        kernels.sparse.residual(0, 9, X.indptr, X.indices, X.data, np.ones((9, 3)), C.astype(np.float32), squares)
    at, rows, values = np.empty((1, 6), X.indptr.dtype), np.empty_like(X.indices), np.empty_like(X.data)
    with pytest.raises(ValueError, match="as many entries"):
        kernels.sparse.transpose(0, 1, X.indptr, X.indices, X.data, 9, at, rows[:-1], values)
    with pytest.raises(ValueError, match="shares memory"):
        kernels.sparse.transpose(0, 1, X.indptr, X.indices, X.data, 9, at, rows, X.data)
    with pytest.raises(ValueError, match="must not be empty"):
        kernels.sparse.transpose(0, 1, X.indptr, X.indices, X.data, 0, at, rows, values)
    with pytest.raises(ValueError, match="range"):
        kernels.sparse.transpose(0, 2, X.indptr, X.indices, X.data, 9, at, rows, values)
