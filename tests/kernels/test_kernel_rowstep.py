"""Projected gradient steps of rows against their slow twin."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slow

WIDTHS = st.sampled_from([0, 1, 2, 7, 8, 9, 16, 17, 31, 33, 64, 65, 100, 127, 128, 129, 256, 257, 300])
RANKS = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 13, 16, 33])
DTYPES = st.sampled_from([np.float64, np.float32])


def problem(n, r, dtype, seed):
    rng = np.random.default_rng(seed)
    V = rng.random((r + 3, r)) + np.eye(r + 3, r)
    F = (rng.random((r, n)) - 0.2) * (rng.random((r, n)) < 0.7)
    B = rng.standard_normal((r, n)) + 1
    return [np.ascontiguousarray(A, dtype=dtype) for A in (F, B, V.T @ V)]


@settings(max_examples=80, deadline=None)
@given(n=WIDTHS, r=RANKS, dtype=DTYPES, fixed=st.booleans(), steps=st.integers(0, 2), literal=st.booleans(), data=st.data())
def test_row_steps(kernels, n, r, dtype, fixed, steps, literal, data):
    F, B, G = problem(n, r, dtype, data.draw(st.integers(0, 100)))
    step = 1.0 / float(np.linalg.norm(G, 2)) if fixed else 0.0
    start = data.draw(st.integers(0, n))
    stop = data.draw(st.integers(start, n))
    before = F.copy()
    twin = slow.row_steps(F.T.astype(float), G.astype(float), B.T.astype(float), step, steps, literal).T
    kernels.rowstep.row_steps(start, stop, F, B, G, step, steps, 0.0, literal)
    assert np.isfinite(F).all()
    assert (F[:, :start] == before[:, :start]).all()
    assert (F[:, stop:] == before[:, stop:]).all()
    assert (F[before < 0] == before[before < 0]).all()
    near = {"rtol": 1e-8, "atol": 1e-9} if dtype == np.float64 else {"rtol": 1e-2, "atol": 1e-2}
    np.testing.assert_allclose(F[:, start:stop], twin[:, start:stop], **near)


def test_a_block_ends_when_its_gradient_is_small(kernels):
    F, B, G = problem(256, 5, np.float64, 3)
    F = np.maximum(F, 0)
    B[:, :128] = G @ F[:, :128] + 1e-3  # the first block is almost done, and goes on relative to its own start
    few, many = F.copy(), F.copy()
    kernels.rowstep.row_steps(0, 256, few, B, G, 0.0, 200, 0.5, False)
    kernels.rowstep.row_steps(0, 256, many, B, G, 0.0, 200, 1e-6, False)
    for block in (slice(0, 128), slice(128, 256)):
        sizes = []
        for U in (F, few, many):
            g, _ = slow.projected_gradient(U[:, block].T, G, B[:, block].T)
            sizes.append(np.linalg.norm(g))
        assert sizes[1] <= 0.5 * sizes[0]
        assert sizes[2] <= 1e-5 * sizes[0]
        assert sizes[1] > 0.01 * sizes[0]
    halves = F.copy()
    for start in (0, 128):
        kernels.rowstep.row_steps(start, start + 128, halves, B, G, 0.0, 200, 0.5, False)
    assert (halves == few).all()


def test_a_strided_factor(kernels):
    F, B, G = problem(300, 5, np.float32, 0)
    part, other = F[:, 40:90], F[:, 40:90].copy()
    kernels.rowstep.row_steps(0, 50, part, B[:, :50], G, 0.0, 2, 0.0, False)
    kernels.rowstep.row_steps(0, 50, other, B[:, :50].copy(), G, 0.0, 2, 0.0, False)
    assert (part == other).all()


def test_what_does_not_fit_is_refused(kernels):
    F, B, G = problem(20, 4, np.float64, 0)
    options = 0.0, 1, 0.0, False
    row_steps = kernels.rowstep.row_steps
    with pytest.raises(ValueError, match="shares memory"):
        row_steps(0, 20, F, F, G, *options)
    with pytest.raises(TypeError, match="B has to be float64, and is float32"):
        row_steps(0, 20, F, B.astype(np.float32), G, *options)
    with pytest.raises(TypeError, match="contiguous along its last axis"):
        row_steps(0, 20, np.asfortranarray(F), B, G, *options)
    with pytest.raises(ValueError, match="B has to have the shape of F"):
        row_steps(0, 20, F, B[:, :19], G, *options)
    with pytest.raises(ValueError, match="G has to be r x r"):
        row_steps(0, 20, F, B, G[:, :3], *options)
    with pytest.raises(ValueError, match="range"):
        row_steps(3, 2, F, B, G, *options)
    F.flags.writeable = False
    with pytest.raises(TypeError, match="F is read-only"):
        row_steps(0, 20, F, B, G, *options)
