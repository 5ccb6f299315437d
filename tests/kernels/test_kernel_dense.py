"""The survey of a dense matrix against NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=100, deadline=None)
@given(
    n=st.integers(0, 6),
    m=st.sampled_from([0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 500]),
    dtype=st.sampled_from([np.float64, np.float32]),
    strided=st.booleans(),
    data=st.data(),
)
def test_survey(kernels, n, m, dtype, strided, data):
    rng = np.random.default_rng(n * m)
    A = ((rng.random((n, m + 4)) - 0.3) * (rng.random((n, m + 4)) < 0.6)).astype(dtype)
    A = A[:, 1 : m + 1] if strided else np.ascontiguousarray(A[:, :m])
    A.flags.writeable = False
    start = data.draw(st.integers(0, n))
    stop = data.draw(st.integers(start, n))
    squares, nonzeros = np.full(n, -1.0), np.full(n, -1)
    kernels.dense.survey(start, stop, A, squares, nonzeros)
    np.testing.assert_allclose(squares[start:stop], (A.astype(float) ** 2).sum(axis=1)[start:stop], rtol=1e-13)
    np.testing.assert_array_equal(nonzeros[start:stop], np.count_nonzero(A, axis=1)[start:stop])
    outside = np.r_[0:start, stop:n]
    assert (squares[outside] == -1).all()
    assert (nonzeros[outside] == -1).all()


@settings(max_examples=60, deadline=None)
@given(
    n=st.sampled_from([0, 1, 15, 16, 17, 100]),
    r=st.integers(0, 9),
    dtype=st.sampled_from([np.float64, np.float32]),
    data=st.data(),
)
def test_copy_and_transpose(kernels, n, r, dtype, data):
    A = np.random.default_rng(n + r).random((r, n + 3)).astype(dtype)[:, 1 : n + 1]
    start = data.draw(st.integers(0, n))
    stop = data.draw(st.integers(start, n))
    for kernel, out in (
        (kernels.dense.copy, np.full((r, n), 7, dtype)),
        (kernels.dense.transpose, np.full((n, r), 7, dtype)),
    ):
        kernel(start, stop, A, out)
        out = out if kernel is kernels.dense.copy else out.T
        np.testing.assert_array_equal(out[:, start:stop], A[:, start:stop])
        assert (out[:, :start] == 7).all()
        assert (out[:, stop:] == 7).all()


def test_copies_that_do_not_fit_are_refused(kernels):
    A = np.ones((3, 5))
    for kernel, shape in ((kernels.dense.copy, (3, 5)), (kernels.dense.transpose, (5, 3))):
        with pytest.raises(ValueError, match="shape"):
            kernel(0, 5, A, np.ones(shape[::-1]))
        with pytest.raises(ValueError, match="range"):
            kernel(0, 6, A, np.ones(shape))
        with pytest.raises(TypeError, match="out has to be float64"):
            kernel(0, 5, A, np.ones(shape, np.float32))
        with pytest.raises(ValueError, match="shares memory"):
            kernel(0, 5, A, A)


def test_what_does_not_fit_is_refused(kernels):
    A, squares, nonzeros = np.ones((4, 4)), np.zeros(4), np.zeros(4, np.int64)
    survey = kernels.dense.survey
    with pytest.raises(ValueError, match="every row has to have its results"):
        survey(0, 4, A, squares[:3], nonzeros)
    with pytest.raises(TypeError, match="nonzeros has to be int64, and is int32"):
        survey(0, 4, A, squares, nonzeros.astype(np.int32))
    with pytest.raises(TypeError, match="squares has to be float64"):
        survey(0, 4, A, squares.astype(np.float32), nonzeros)
    with pytest.raises(TypeError, match="A has to be float32 or float64, and is int64"):
        survey(0, 4, A.astype(np.int64), squares, nonzeros)
    with pytest.raises(ValueError, match="shares memory"):
        survey(0, 4, A, A[0], nonzeros)
    with pytest.raises(ValueError, match="range"):
        survey(0, 5, A, squares, nonzeros)
