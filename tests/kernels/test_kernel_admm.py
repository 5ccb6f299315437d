"""The elementwise parts of the rotation against their slow twins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slow

SIZES = st.sampled_from([0, 1, 7, 8, 9, 15, 16, 17, 33, 100, 8191, 8192, 8193, 20_000])
DTYPES = st.sampled_from([np.float64, np.float32])


def arrays(size, dtype, count):
    rng = np.random.default_rng(size)
    return [rng.standard_normal(size).astype(dtype) for _ in range(count)]


@settings(max_examples=50, deadline=None)
@given(size=SIZES, dtype=DTYPES, threshold=st.sampled_from([0.25, 1.0, 0.0]), data=st.data())
def test_split(kernels, size, dtype, threshold, data):
    WR, Y = arrays(size, dtype, 2)
    WR[: size // 4] = Y[: size // 4]  # B = 0
    Z, ZY = np.full(size, 7, dtype), np.full(size, 7, dtype)
    start = data.draw(st.integers(0, size))
    stop = data.draw(st.integers(start, size))
    kernels.admm.split(start, stop, WR, Y, Z, ZY, dtype(threshold))
    for found, expected in zip((Z, ZY), slow.admm_split(WR, Y, dtype(threshold))):
        np.testing.assert_array_equal(found[start:stop], expected[start:stop])
        assert (found[:start] == 7).all()
        assert (found[stop:] == 7).all()


@settings(max_examples=50, deadline=None)
@given(size=SIZES, dtype=DTYPES, data=st.data())
def test_update_dual(kernels, size, dtype, data):
    chunk = kernels.admm.CHUNK
    WR, before, Y, Z = arrays(size, dtype, 4)
    chunks = -(-size // chunk)
    first = data.draw(st.integers(0, chunks))
    start, stop = min(first * chunk, size // chunk * chunk), size
    old, partial = Y.copy(), np.full((chunks, 4), -1.0)
    kernels.admm.update_dual(start, stop, WR, before, Y, Z, partial)
    np.testing.assert_array_equal(Y, np.r_[old[:start], (old + (Z - WR))[start:]])
    assert (partial[: start // chunk] == -1).all()
    for row in range(start // chunk, chunks):
        here = slice(row * chunk, (row + 1) * chunk)
        w, b, z = (A[here].astype(float) for A in (WR, before, Z))
        expected = ((z - w) ** 2).sum(), ((w - b) ** 2).sum(), w.sum(), np.abs(w).sum()
        np.testing.assert_allclose(partial[row], expected, rtol=1e-6 if dtype == np.float32 else 1e-12, atol=1e-10)


def test_what_does_not_fit_is_refused(kernels):
    WR, before, Y, Z = arrays(10_000, np.float64, 4)
    partial = np.empty((2, 4))
    split, update_dual = kernels.admm.split, kernels.admm.update_dual
    with pytest.raises(ValueError, match="two results share memory"):
        split(0, 10_000, WR, Y, Z, Z, 0.5)
    with pytest.raises(ValueError, match="shares memory"):
        split(0, 10_000, WR, Y, Y, Z, 0.5)
    with pytest.raises(ValueError, match="same length"):
        split(0, 9_999, WR[1:], Y, Z, before, 0.5)
    with pytest.raises(TypeError, match="Y has to be float64, and is float32"):
        split(0, 10_000, WR, Y.astype(np.float32), Z, before, 0.5)
    with pytest.raises(ValueError, match="range"):
        split(-1, 10_000, WR, Y, Z, before, 0.5)
    with pytest.raises(ValueError, match="shares memory"):
        update_dual(0, 10_000, WR, before, Y, Y, partial)
    with pytest.raises(ValueError, match="multiple of CHUNK"):
        update_dual(100, 10_000, WR, before, Y, Z, partial)
    with pytest.raises(ValueError, match="a row for each chunk"):
        update_dual(0, 10_000, WR, before, Y, Z, partial[:1])
    with pytest.raises(ValueError, match="same length"):
        update_dual(0, 10_000, WR, before, Y, Z[1:], partial)
    Y.flags.writeable = False
    with pytest.raises(TypeError, match="Y is read-only"):
        update_dual(0, 10_000, WR, before, Y, Z, partial)
