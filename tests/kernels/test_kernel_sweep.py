"""Sweeps against their slow twin."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slow

WIDTHS = st.sampled_from([0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 95, 127, 128, 129, 255, 256, 257, 300])
RANKS = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 20, 33])
DTYPES = st.sampled_from([np.float64, np.float32])


def problem(n, r, dtype, seed):
    rng = np.random.default_rng(seed)
    V = rng.random((r + 3, r)) + np.eye(r + 3, r)
    F = rng.random((r, n)) * (rng.random((r, n)) < 0.7)
    B = rng.standard_normal((r, n)) + 1
    return (np.ascontiguousarray(A, dtype=dtype) for A in (F, V.T @ V, B))


@settings(max_examples=60, deadline=None)
@given(n=WIDTHS, r=RANKS, dtype=DTYPES, wall=st.sampled_from([np.inf, 0.5]), sweeps=st.integers(0, 3), data=st.data())
def test_sweep(kernels, n, r, dtype, wall, sweeps, data):
    F, G, B = problem(n, r, dtype, data.draw(st.integers(0, 100)))
    skip = np.array(data.draw(st.lists(st.booleans(), min_size=r, max_size=r)))
    undetermined = data.draw(st.sampled_from([None, 0, r - 1]))
    if undetermined is not None:
        G[undetermined, :] = G[:, undetermined] = 0
    start = data.draw(st.integers(0, n))
    stop = data.draw(st.integers(start, n))
    before = F.copy()
    twin = slow.sweep(F.T.astype(float), G.astype(float), B.T.astype(float), wall, sweeps, np.flatnonzero(skip)).T
    kernels.sweep.sweep(start, stop, F, B, G, wall, sweeps, 0.0, skip)
    assert np.isfinite(F).all()
    assert (F[:, :start] == before[:, :start]).all()
    assert (F[:, stop:] == before[:, stop:]).all()
    near = {"rtol": 1e-9, "atol": 1e-11} if dtype == np.float64 else {"rtol": 2e-3, "atol": 2e-3}
    np.testing.assert_allclose(F[:, start:stop], twin[:, start:stop], **near)


def test_a_strided_factor(kernels):
    """Rows of F may lie further apart than they are long: a part of a larger factor."""
    F, G, B = problem(300, 5, np.float64, 0)
    part, other = F[:, 40:90], F[:, 40:90].copy()
    skip = np.zeros(5, dtype=bool)
    kernels.sweep.sweep(0, 50, part, B[:, :50], G, np.inf, 2, 0.0, skip)
    kernels.sweep.sweep(0, 50, other, B[:, :50].copy(), G, np.inf, 2, 0.0, skip)
    assert (part == other).all()


@settings(max_examples=30, deadline=None)
@given(n=WIDTHS, r=RANKS, dtype=DTYPES, beta=st.floats(0, 1))
def test_extrapolation(kernels, n, r, dtype, beta):
    F, _, old = problem(n, r, dtype, 1)
    new, before = F.copy(), old.copy()
    kernels.sweep.extrapolate_columns(0, n, F, old, beta)
    np.testing.assert_allclose(F, np.maximum(0, new + beta * (new - before)), rtol=1e-5, atol=1e-5)
    assert (old == new).all()


def test_what_does_not_fit_is_refused(kernels):
    F, G, B = problem(20, 4, np.float64, 0)
    skip = np.zeros(4, dtype=bool)
    sweep = kernels.sweep.sweep
    with pytest.raises(ValueError, match=r"share memory|shares memory"):
        sweep(0, 20, F, F, G, np.inf, 1, 0.0, skip)
    with pytest.raises(TypeError, match="B has to be float64, and is float32"):
        sweep(0, 20, F, B.astype(np.float32), G, np.inf, 1, 0.0, skip)
    with pytest.raises(TypeError, match="F has to be float32 or float64, and is int64"):
        sweep(0, 20, F.astype(np.int64), B, G, np.inf, 1, 0.0, skip)
    with pytest.raises(TypeError, match="contiguous along its last axis"):
        sweep(0, 20, np.asfortranarray(F), B, G, np.inf, 1, 0.0, skip)
    with pytest.raises(ValueError, match="B has to have the shape of F"):
        sweep(0, 20, F, B[:, :19], G, np.inf, 1, 0.0, skip)
    with pytest.raises(ValueError, match="range"):
        sweep(0, 21, F, B, G, np.inf, 1, 0.0, skip)
    F.flags.writeable = False
    with pytest.raises(TypeError, match="F is read-only"):
        sweep(0, 20, F, B, G, np.inf, 1, 0.0, skip)
