"""Half-steps in one pass over X, against product, sweep, extrapolation and the products that follow."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slow

ROWS = st.sampled_from([1, 2, 7, 8, 9, 31, 33, 64, 127, 128, 129, 255, 256, 257, 300, 515, 700])
COLUMNS = st.sampled_from([1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 65])
RANKS = st.integers(1, 20)
DTYPES = st.sampled_from([np.float64, np.float32])
NONE = np.empty((0, 0))


def near(found, expected, dtype):
    share = 1e-10 if dtype == np.float64 else 2e-3
    np.testing.assert_allclose(found, expected, rtol=0, atol=share * (np.abs(expected).max(initial=0) + 1e-3))


class Step:
    """The arguments of a half-step, stored as kernels want them."""

    def __init__(self, kernels, n, m, r, dtype=np.float64, extrapolates=False, parts=None, seed=0):
        rng = np.random.default_rng(seed)
        self.kernels, self.dtype = kernels.onepass, dtype
        self.X, self.F, V, old = (
            np.ascontiguousarray(rng.random(shape), dtype) for shape in ((n, m), (r, n), (r, m), (r, n))
        )
        self.F[rng.random((r, n)) < 0.3] = 0
        self.V = np.ascontiguousarray(V + np.eye(r, m), dtype)
        self.G = self.V @ self.V.T
        self.old = old if extrapolates else NONE.astype(dtype)
        self.skip = np.zeros(r, dtype=bool)
        lanes = kernels.LANE_BYTES // np.dtype(dtype).itemsize
        self.height = lanes * (parts or 1)
        count = -(-n // self.height)
        self.cross, self.gram = (np.full((count, r, width), np.nan, dtype) for width in (m, r))

    def half(self, start, stop, shift=0.0, wall=np.inf, sweeps=1, progress=0.0, beta=0.0):
        how = self.G, wall, sweeps, progress, self.skip, self.old, beta, self.cross, self.gram
        self.kernels.half_step(start, stop, self.X, self.height, self.F, self.V, shift, *how)

    def core(self, start, stop, At, M, wall, sweeps, beta):
        how = self.G, wall, sweeps, 0.0, self.skip, self.old, beta, self.cross, self.gram
        self.kernels.core_step(start, stop, At, self.height, self.F, M, *how)

    def twin(self, shift=0.0, wall=np.inf, sweeps=1, beta=0.0):
        X, U, V = (A.astype(float) for A in (self.X, self.F.T, self.V.T))
        old = self.old.T.astype(float) if self.old.size else None
        return slow.half_step(X, U, V, shift, wall, sweeps, np.flatnonzero(self.skip), old, beta)

    def expect(self, twin):
        """The parts hold the sums of their rows, and together those of all."""
        U, cross, gram, new = twin
        near(self.F, U.T, self.dtype)
        if self.old.size:
            near(self.old, new.T, self.dtype)
        for part in range(len(self.cross)):
            rows = slice(part * self.height, (part + 1) * self.height)
            near(self.cross[part], U[rows].T @ self.X[rows], self.dtype)
            near(np.tril(self.gram[part]), np.tril(U[rows].T @ U[rows]), self.dtype)
        self.kernels.add_parts(self.cross, self.gram)
        near(self.cross[0], cross.T, self.dtype)
        near(self.gram[0], gram, self.dtype)
        assert (self.gram[0] == self.gram[0].T).all()


@settings(max_examples=50, deadline=None)
@given(
    n=ROWS,
    m=COLUMNS,
    r=RANKS,
    dtype=DTYPES,
    extrapolates=st.booleans(),
    shift=st.sampled_from([0.0, 0.7]),
    wall=st.sampled_from([np.inf, 0.5]),
    sweeps=st.integers(0, 3),
    parts=st.integers(1, 2),
    data=st.data(),
)
def test_half_step(kernels, n, m, r, dtype, extrapolates, shift, wall, sweeps, parts, data):
    step = Step(kernels, n, m, r, dtype, extrapolates, parts, data.draw(st.integers(0, 20)))
    step.skip[:] = data.draw(st.sampled_from([False, np.arange(r) % 3 == 1]))
    beta = 0.4
    twin = step.twin(shift, wall, sweeps, beta)
    middle = data.draw(st.integers(0, len(step.cross)))
    for start, stop in ((middle, len(step.cross)), (0, middle)):
        step.half(start, stop, shift, wall, sweeps, beta=beta)
    step.expect(twin)


@settings(max_examples=50, deadline=None)
@given(
    n=ROWS,
    m=COLUMNS,
    width=st.integers(1, 20),
    r=RANKS,
    dtype=DTYPES,
    extrapolates=st.booleans(),
    wall=st.sampled_from([np.inf, 0.5]),
    sweeps=st.integers(0, 3),
    parts=st.integers(1, 2),
    data=st.data(),
)
def test_core_step(kernels, n, m, width, r, dtype, extrapolates, wall, sweeps, parts, data):
    """X = A Bᵀ: the step sees A and Bᵀ V, and adds Aᵀ U."""
    step = Step(kernels, n, m, r, dtype, extrapolates, parts, data.draw(st.integers(0, 20)))
    rng = np.random.default_rng(width)
    At, Bt = (np.ascontiguousarray(rng.standard_normal((width, length)), dtype) for length in (n, m))
    M = np.ascontiguousarray(step.V @ Bt.T)
    beta = 0.3
    A, U, V = (F.T.astype(float) for F in (At, step.F, step.V))
    old = step.old.T.astype(float) if extrapolates else None
    U, _, gram, new = slow.half_step(A @ Bt.astype(float), U, V, 0.0, wall, sweeps, (), old, beta)
    step.cross = np.full((len(step.cross), r, width), np.nan, dtype)
    middle = data.draw(st.integers(0, len(step.cross)))
    for start, stop in ((middle, len(step.cross)), (0, middle)):
        step.core(start, stop, At, M, wall, sweeps, beta)
    step.X = A
    step.expect((U, A.T @ U, gram, new))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_no_part_touches_another_one(kernels, dtype):
    step = Step(kernels, 900, 13, 5, dtype, extrapolates=True)
    before = step.F.copy(), step.old.copy()
    step.half(1, 2, beta=0.5)
    outside = np.ones(900, dtype=bool)
    outside[step.height : 2 * step.height] = False
    for now, then in zip((step.F, step.old), before):
        assert (now[:, outside] == then[:, outside]).all()
        assert (now[:, ~outside] != then[:, ~outside]).any()
    for sums in (step.cross, step.gram):
        assert np.isnan(sums[[0, *range(2, len(sums))]]).all()
    assert np.isfinite(step.cross[1]).all()


def test_sweeps_end_when_they_make_no_progress(kernels):
    """In each block of rows, as they do in a sweep after a product of its own."""
    step = Step(kernels, 300, 20, 6)
    X, U, V = step.X, step.F.T.copy(), step.V.T
    expected = slow.sweeps_in_blocks(U, V.T @ V, X @ V, np.inf, 50, 0.2, kernels.LANE_BYTES // 8)
    most = slow.sweep(U, V.T @ V, X @ V, np.inf, 50)
    step.half(0, len(step.cross), sweeps=50, progress=0.2)
    near(step.F, expected.T, np.float64)
    assert np.abs(step.F - most.T).max() > 1e-6


@settings(max_examples=30, deadline=None)
@given(parts=st.integers(0, 5), r=RANKS, m=COLUMNS, dtype=DTYPES)
def test_parts_are_added_in_order(kernels, parts, r, m, dtype):
    rng = np.random.default_rng(parts + r)
    cross, gram = (rng.random((parts, r, width)).astype(dtype) for width in (m, r))
    kept = cross.copy(), gram.copy()
    kernels.onepass.add_parts(cross, gram)
    for sums, before in zip((cross, gram), kept):
        assert (sums[1:] == before[1:]).all()
    if parts == 0:
        return
    expected = [before[0] for before in kept]
    for part in range(1, parts):
        expected = [total + before[part] for total, before in zip(expected, kept)]
    assert (cross[0] == expected[0]).all()
    assert (gram[0] == np.tril(expected[1]) + np.tril(expected[1], -1).T).all()


CALLS = {  # the arguments of each kernel by name, in their order
    "half_step": "start stop X height F V shift G wall sweeps progress skip old beta cross gram",
    "core_step": "start stop At height F M G wall sweeps progress skip old beta cross gram",
}


@pytest.mark.parametrize("name", list(CALLS))
def test_what_does_not_fit_is_refused(kernels, name):
    step = Step(kernels, 300, 20, 4, extrapolates=True)
    good = {
        "start": 0, "stop": 3, "X": step.X, "At": np.ones((20, 300)), "height": step.height, "F": step.F, "V": step.V,
        "M": np.ones((4, 20)), "shift": 0.0, "G": step.G, "wall": np.inf, "sweeps": 1, "progress": 0.0,
        "skip": step.skip, "old": step.old, "beta": 0.5, "cross": step.cross, "gram": step.gram,
    }  # fmt: skip
    kernel, names = getattr(kernels.onepass, name), CALLS[name].split()
    kernel(*(good[key] for key in names))  # this one fits
    matrix, small = ("X", "V") if name == "half_step" else ("At", "M")
    before = step.F.copy()

    def refused(problem, match, **changed):
        with pytest.raises(problem, match=match):
            kernel(*({**good, **changed}[key] for key in names))

    refused(ValueError, "range", stop=4)
    refused(ValueError, "range", start=2, stop=1)
    refused(ValueError, "range", start=-1)
    refused(ValueError, "multiple of the lanes", height=step.height + 1)
    refused(ValueError, "multiple of the lanes", height=0)
    refused(ValueError, "as many columns as X has rows", F=np.ones((4, 299)))
    refused(ValueError, f"{small} has to be r x", **{small: np.ones((4, 19))})
    refused(ValueError, f"{small} has to be r x", **{small: np.ones((3, 20))})
    refused(ValueError, "G has to be r x r", G=np.ones((4, 5)))
    refused(ValueError, "skip has to have r flags", skip=np.zeros(3, dtype=bool))
    refused(ValueError, "old has to have the shape of F", old=np.ones((4, 299)))
    refused(ValueError, "too few parts", cross=step.cross[:2], gram=step.gram[:2], stop=2)
    refused(ValueError, "too few parts", gram=step.gram[:2])
    refused(ValueError, "cross has to be", cross=np.ones((3, 4, 21)))
    refused(ValueError, "gram has to be", gram=np.ones((3, 4, 5)))
    refused(TypeError, "F has to be float32 or float64", F=step.F.astype(int))
    refused(TypeError, f"{matrix} has to be float64", **{matrix: good[matrix].astype(np.float32)})
    refused(TypeError, "skip has to be bool", skip=np.zeros(4))
    refused(TypeError, "cross has 2 dimensions", cross=np.ones((3, 80)))
    refused(TypeError, "contiguous along its last axis", F=np.asfortranarray(step.F))
    refused(TypeError, "contiguous along its last axis", **{matrix: np.asfortranarray(good[matrix])})
    refused(ValueError, "results share memory", old=step.F)
    refused(ValueError, "shares memory with another argument", G=step.F[:, :4])
    frozen = step.F.copy()
    frozen.flags.writeable = False
    refused(TypeError, "F is read-only", F=frozen)
    assert (before == step.F).all()


def test_parts_that_do_not_fit_are_refused(kernels):
    cross, gram = np.ones((3, 4, 6)), np.ones((3, 4, 4))
    add = kernels.onepass.add_parts
    with pytest.raises(ValueError, match="gram has to be"):
        add(cross, np.ones((3, 4, 5)))
    with pytest.raises(ValueError, match="results share memory"):
        add(gram, gram)
    with pytest.raises(TypeError, match="gram has to be float64"):
        add(cross, gram.astype(np.float32))
    with pytest.raises(TypeError, match="cross has to be float32 or float64"):
        add(cross.astype(int), gram)
