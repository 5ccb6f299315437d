"""The measures of the gradient against their slow twin."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slow

WIDTHS = st.sampled_from([0, 1, 2, 7, 8, 9, 16, 17, 31, 33, 64, 65, 100, 127, 128, 129, 255, 256, 257, 300])
RANKS = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 13, 16, 33])
DTYPES = st.sampled_from([np.float64, np.float32])
BLOCK = 128


def problem(n, r, dtype, seed, shift=1.0):
    rng = np.random.default_rng(seed)
    V = rng.random((r + 3, r))
    F = rng.random((r, n)) * (rng.random((r, n)) < 0.7)
    B = rng.standard_normal((r, n)) + shift
    return [np.ascontiguousarray(A, dtype=dtype) for A in (F, B, V.T @ V + np.triu(rng.random((r, r))))]


@settings(max_examples=80, deadline=None)
@given(n=WIDTHS, r=RANKS, dtype=DTYPES, shift=st.sampled_from([1.0, 100.0, -100.0]), strided=st.booleans(), data=st.data())
def test_measure(kernels, n, r, dtype, shift, strided, data):
    """With a shift all products, or all gradients, have one sign: padded lanes must not show in the extremes."""
    F, B, G = problem(n, r, dtype, data.draw(st.integers(0, 100)), shift)
    if strided:
        F, B = (np.pad(A, ((0, 0), (3, 2)))[:, 3 : n + 3] for A in (F, B))
    if shift > 1:
        F += dtype(0.01)
    blocks = -(-n // BLOCK)
    first = data.draw(st.integers(0, blocks))
    last = data.draw(st.integers(first, blocks))
    partial = np.full((blocks, r + kernels.gradient.EXTRAS), -7.0)
    kernels.gradient.measure(min(first * BLOCK, n // BLOCK * BLOCK), min(last * BLOCK, n), F, B, G, partial)
    assert (partial[: min(first, n // BLOCK)] == -7).all()
    assert (partial[last:] == -7).all()
    near = {"rtol": 1e-9, "atol": 1e-9} if dtype == np.float64 else {"rtol": 1e-3, "atol": 1e-3}
    for b in range(first, last):
        here = slice(b * BLOCK, (b + 1) * BLOCK)
        U = F[:, here].T.astype(float)
        projected, D = slow.projected_gradient(U, G.T.astype(float), B[:, here].T.astype(float))
        np.testing.assert_allclose(partial[b, :r], (projected**2).sum(axis=0), **near)
        extras = partial[b, r:]
        np.testing.assert_allclose(extras[kernels.gradient.LARGEST_PRODUCT], (D * U).max(), **near)
        scale = np.abs(D * U).sum()
        np.testing.assert_allclose(extras[kernels.gradient.SUM_PRODUCT] / scale, (D * U).sum() / scale, **near)
        np.testing.assert_allclose(extras[kernels.gradient.SMALLEST_GRADIENT], D.min(), **near)
    if last > first:
        whole = np.empty_like(partial)
        kernels.gradient.measure(0, n, F, B, G, whole)
        assert (whole[first:last] == partial[first:last]).all()


def test_what_does_not_fit_is_refused(kernels):
    F, B, G = problem(200, 4, np.float64, 0)
    partial = np.zeros((2, 7))
    measure = kernels.gradient.measure
    with pytest.raises(ValueError, match="multiple of BLOCK"):
        measure(5, 200, F, B, G, partial)
    with pytest.raises(ValueError, match="a row for each block"):
        measure(0, 200, F, B, G, partial[:1])
    with pytest.raises(ValueError, match="a row for each block"):
        measure(0, 200, F, B, G, partial[:, :6])
    with pytest.raises(ValueError, match="B has to have the shape of F"):
        measure(0, 200, F, B[:, 1:], G, partial)
    with pytest.raises(ValueError, match="G has to be r x r"):
        measure(0, 200, F, B, G[:3], partial)
    with pytest.raises(TypeError, match="B has to be float64, and is float32"):
        measure(0, 200, F, B.astype(np.float32), G, partial)
    with pytest.raises(TypeError, match="partial has to be float64"):
        measure(0, 200, F, B, G, partial.astype(np.float32))
    with pytest.raises(TypeError, match="contiguous along its last axis"):
        measure(0, 200, np.asfortranarray(F), B, G, partial)
    with pytest.raises(ValueError, match="shares memory"):
        measure(0, 200, F, B, G, F[:2, :7])
    with pytest.raises(ValueError, match="range"):
        measure(0, 201, F, B, G, partial)
