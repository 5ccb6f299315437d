"""Bursts against their slow twin: the same iterations, one at a time."""

import gc
import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import slow
from enmf import parallel
from enmf.certificate.words import SETTLED
from enmf.run.prospect import is_outlook, judge_outlooks

METHODS = {
    "hals": {},
    "a-hals": {"sweeps": (3, 2), "progress": 0.3},
    "e-hals": {"sweeps": (2, 3), "progress": 0.3, "beta": 0.5},
    "walls": {"walls": np.geomspace(1e-3, 1e2, 7)},
    "walls, then clipped": {"walls": np.geomspace(1e-3, 1e2, 7), "clips": True},
}
STEPS = 7
LENGTHS = st.sampled_from([1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100, 127, 128, 129, 130, 255, 257, 290])
DTYPES = st.sampled_from([np.float64, np.float32])
FAR = 1 << 60  # iterations that never come
MEMORY = ("beta", "last_beta", "cap", "judged", "best")


def problem(n, m, r, seed=0, density=1.0):
    """A noisy X (in Fortran order every other time), and a start with zeros."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, r)) @ rng.random((r, m)) + rng.random((n, m))
    X *= rng.random((n, m)) < density
    X[0, 0] = 1.0
    U, V = (rng.random((length, r)) * (rng.random((length, r)) < 0.8) for length in (n, m))
    U[0, :], V[0, :] = 0.5, 0.5
    return X, U, V


class Fast:
    """A burst of the kernel, with the arrays it works on."""

    def __init__(self, kernels, X, U, V, dtype=np.float64, indices=None, **how):
        self.dtype, self.halves = dtype, []
        self.sweeps = how.get("sweeps", (1, 1))
        kind = kernels.burst.Double if dtype == np.float64 else kernels.burst.Single
        self.kernel = kind(*X.shape, U.shape[1])
        if indices is None:
            self.kernel.dense(*(np.ascontiguousarray(A, dtype) for A in (X, X.T)))
        else:
            by_rows = sp.csr_array(X.astype(dtype))
            starts, columns = by_rows.indptr[None].astype(indices[0]), by_rows.indices.astype(indices[1])
            self.kernel.sparse(0, starts, columns, by_rows.data)
            starts, rows, values = slow.sparse_transpose(by_rows, max(1, X.shape[0] // 3))
            self.kernel.sparse(1, starts.astype(indices[0]), rows.astype(indices[1]), values.astype(dtype))
        for side, F in enumerate((U, V)):
            F = np.ascontiguousarray(F.T, dtype)
            gram = np.ascontiguousarray(F @ F.T)
            self.halves.append([F, np.full_like(F, np.nan), gram, np.full_like(F, np.nan), np.full_like(F, np.nan)])
            self.kernel.factor(side, *self.halves[side], self.sweeps[side], False)
        now = self.state = self.kernel.state
        now.squared_norm = float((X.astype(dtype).astype(float) ** 2).sum())
        now.size = np.sqrt(now.squared_norm)
        now.progress, now.interval = how.get("progress", 0.0), how.get("interval", 0)
        now.seconds, now.most, now.patience = np.inf, STEPS, FAR
        now.best = now.lowest = np.inf
        now.least_value, now.tol = -np.inf, np.nan  # neither ends a burst
        now.walls, now.clips = list(how.get("walls", ())), how.get("clips", False)
        if how.get("beta") is not None:
            now.extrapolates, now.beta, now.last_beta, now.judged = True, how["beta"], how["beta"], np.inf
            now.growth, now.cap_growth, now.shrink = 1.05, 1.01, 1.5

    def run(self, threads=1):
        self.kernel.prepare(threads)
        parallel.run(self.kernel.work, np.arange(threads + 1))
        return self

    def in_pieces(self, length, threads=1):
        """As the package does it: the factors are handed over anew every time."""
        columns = {name: [] for name in ("values", "residuals", "passed")}
        walls, left = self.state.walls, self.state.most
        while left:
            for side in (0, 1):
                self.kernel.factor(side, *self.halves[side], self.sweeps[side], self.kernel.knows_product(side))
            self.state.most = min(length, left)
            self.state.walls = walls[len(columns["values"]) :]
            self.run(threads)
            left -= len(self.state.values)
            for name, numbers in columns.items():
                numbers.extend(getattr(self.state, name))
        return columns

    @property
    def pair(self):
        return [half[0].T for half in self.halves]

    def numbers(self):
        """All that a burst leaves, for comparing bits."""
        now = self.state
        kept = [array for half in self.halves for array in half]
        return [np.array(A) for A in (*kept, now.values, now.residuals, now.passed)] + [
            np.array([getattr(now, name) for name in (*MEMORY, "lowest", "lowest_at", "iteration", "passes")])
        ]


def same_bits(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def near(found, expected, share):
    """Equal to rounding, on the scale of the largest number."""
    expected = np.asarray(expected)
    np.testing.assert_allclose(found, expected, rtol=0, atol=share * np.abs(expected).max())


def compare(fast, twin, share):
    now = fast.state
    assert len(now.values) == len(twin.values)
    assert now.iteration == len(twin.values)
    np.testing.assert_allclose(now.values, twin.values, rtol=0, atol=share * now.squared_norm)
    np.testing.assert_array_equal(np.isnan(now.residuals), np.isnan(twin.residuals))
    assert now.passed == twin.passed
    for side, F in enumerate(twin.pair):
        near(fast.pair[side], F, 10 * share)
        near(fast.halves[side][2], F.T @ F, 10 * share)
    assert now.best == min(now.values)  # its pair is compared by the value: several may be the best one to rounding
    best = 0.5 * np.linalg.norm(twin.X - fast.halves[0][4].T.astype(float) @ fast.halves[1][4]) ** 2
    np.testing.assert_allclose([now.best, best], min(twin.values), rtol=0, atol=share * now.squared_norm)
    if twin.beta is None:
        return
    for name in ("beta", "last_beta", "cap"):
        assert getattr(now, name) == pytest.approx(getattr(twin, name), rel=1e-12)
    assert now.judged == now.values[-1]
    for side, F in enumerate(twin.plain):
        near(fast.halves[side][3].T, F, 10 * share)


def both(kernels, X, U, V, dtype, how, indices=None):
    X, U, V = (A.astype(dtype) for A in (X, U, V))
    block = kernels.LANE_BYTES // np.dtype(dtype).itemsize
    twin = slow.Burst(*(A.astype(float) for A in (X, U, V)), block=block, **how)
    return Fast(kernels, X, U, V, dtype, indices, **how), twin


@settings(max_examples=40, deadline=None)
@given(
    n=LENGTHS,
    m=LENGTHS,
    r=st.integers(1, 20),
    dtype=DTYPES,
    method=st.sampled_from(list(METHODS)),
    indices=st.sampled_from([None, *[(a, b) for a in (np.int32, np.int64) for b in (np.int32, np.int64)]]),
    interval=st.sampled_from([0, 1, 2, 3]),
    seed=st.integers(0, 20),
)
def test_the_iterations_are_those_of_the_twin(kernels, n, m, r, dtype, method, indices, interval, seed):
    how = METHODS[method] | {"interval": interval}
    if dtype == np.float32:  # the end of the sweeps may be a matter of rounding
        how["progress"] = 0.0
    X, U, V = problem(n, m, r, seed, 1.0 if indices is None else 0.4)
    fast, twin = both(kernels, X, U, V, dtype, how, indices)
    share = 1e-9 if dtype == np.float64 else 2e-3
    fast.run(1)
    if r < min(n, m):
        compare(fast, twin.iterate(STEPS), share)
    else:  # X is soon met exactly, and rounding decides what becomes of superfluous components
        twin.iterate(1)
        now = fast.state
        np.testing.assert_allclose(now.values[0], twin.values[0], rtol=0, atol=share * now.squared_norm)
        assert len(now.values) == STEPS
        assert all(np.isfinite(F).all() for F in fast.pair)
        if method in ("hals", "a-hals"):
            assert (np.diff(now.values) <= share * now.squared_norm).all()


@settings(max_examples=25, deadline=None)
@given(n=LENGTHS, m=LENGTHS, r=st.integers(1, 20), dtype=DTYPES, sparse=st.booleans(), steps=st.integers(0, 3))
def test_the_residual_is_that_of_the_definition(kernels, n, m, r, dtype, sparse, steps):
    """At the factors of the burst itself: whether an entry is zero or only nearly makes a difference."""
    X, U, V = problem(n, m, r, 3, 0.4 if sparse else 1.0)
    fast, _ = both(kernels, X, U, V, dtype, METHODS["e-hals"], (np.int32, np.int32) if sparse else None)
    fast.state.most = steps
    fast.run()
    expected = slow.kkt(X.astype(dtype), *fast.pair)
    fast.state.most = fast.state.interval = 1
    fast.run()
    share = 1e-9 if dtype == np.float64 else 1e-3
    np.testing.assert_allclose(fast.state.residuals, [expected], rtol=share, atol=share / 10)


@pytest.mark.parametrize("indices", [None, (np.int32, np.int32)])
@pytest.mark.parametrize("threads", [1, 2])
def test_extrapolation_restarts(kernels, indices, threads):
    X, U, V = problem(150, 60, 5)
    fast, twin = both(kernels, X, U, V, np.float64, METHODS["e-hals"] | {"beta": 0.9, "interval": 3}, indices)
    fast.state.most = 25
    fast.state.growth = twin.growth = 1.3
    fast.run(threads)
    twin.iterate(25)
    assert twin.restarts > 1
    compare(fast, twin, 1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("method", list(METHODS))
@pytest.mark.parametrize("indices", [None, (np.int32, np.int64)])
def test_threads_and_the_length_of_bursts_change_no_bit(kernels, method, dtype, indices):
    """Also where there are fewer blocks of rows than threads (m), and where there are more (n)."""
    how = METHODS[method] | {"interval": 2}
    X, U, V = problem(1100, 90, 6, 1, 1.0 if indices is None else 0.2)
    whole = Fast(kernels, X, U, V, dtype, indices, **how).run(1)
    assert len(whole.state.values) == STEPS
    for threads in (2, 3, 5):
        same_bits(Fast(kernels, X, U, V, dtype, indices, **how).run(threads).numbers(), whole.numbers())
    for length, threads in ((1, 1), (2, 2), (3, 1)):
        pieces = Fast(kernels, X, U, V, dtype, indices, **how)
        columns = pieces.in_pieces(length, threads)
        same_bits(
            [np.array(columns[name]) for name in columns], [np.array(getattr(whole.state, name)) for name in columns]
        )
        same_bits(
            [pieces.halves[s][i] for s in (0, 1) for i in (0, 2, 3, 4)],
            [whole.halves[s][i] for s in (0, 1) for i in (0, 2, 3, 4)],
        )
        assert [getattr(pieces.state, name) for name in MEMORY] == [getattr(whole.state, name) for name in MEMORY]


def test_products_that_are_known_are_not_computed_again(kernels):
    X, U, V = problem(70, 40, 4)
    fast = Fast(kernels, X, U, V).run()
    known = Fast(kernels, X, U, V)
    known.halves[0][1][:] = (X @ V).T
    known.kernel.factor(0, *known.halves[0], 1, True)
    known.run()
    assert known.state.passes == fast.state.passes - 1
    np.testing.assert_allclose(known.state.values, fast.state.values, rtol=1e-12)
    assert not known.kernel.knows_product(0)
    assert known.kernel.knows_product(1)
    near(known.halves[1][1].T, X.T @ known.pair[0], 1e-12)


def test_the_best_pair_of_a_monotone_method_is_looked_for_at_powers_of_two(kernels):
    X, U, V = problem(30, 20, 3)
    fast, twin = both(kernels, X, U, V, np.float64, {})
    fast.state.keeps_all = False
    fast.run()
    twin.iterate(4)
    assert fast.state.best == fast.state.values[4]
    near(fast.halves[0][4].T, twin.pair[0], 1e-11)


# What ends a burst -------------------------------------------------------------------------------------------------


def twin_of(interval=1, steps=12):
    X, U, V = problem(50, 40, 3)
    return (X, U, V), slow.Burst(X, U, V, interval=interval).iterate(steps)


def ended(fast, due=True):
    """How many iterations there were in a burst that ended by itself."""
    fast.state.most = 12
    fast.run(2)
    assert fast.state.due == due
    for name in ("residuals", "times", "passed"):
        assert len(getattr(fast.state, name)) == len(fast.state.values)
    return len(fast.state.values)


def test_a_burst_ends_before_a_value_that_is_small_enough(kernels):
    data, twin = twin_of()
    fast = Fast(kernels, *data)
    fast.state.least_value = twin.values[5] * (1 + 1e-9)
    assert ended(fast) == 5
    near(fast.pair[0], slow.Burst(*data).iterate(5).pair[0], 1e-10)
    assert fast.state.best == fast.state.values[4]


@pytest.mark.parametrize("shrinks", [False, True])
def test_a_burst_ends_before_a_residual_below_the_tolerance(kernels, shrinks):
    data, twin = twin_of(interval=2)
    residuals = np.array(twin.residuals)
    errors = np.sqrt(2 * np.array(twin.values))
    tol, start = residuals[6] * (1 + 1e-9), errors[6] if shrinks else errors[-1] / 2
    limits = tol * np.minimum(1, errors / start)
    first = int(np.flatnonzero(residuals <= limits)[0])
    assert first > 0
    fast = Fast(kernels, *data, interval=2)
    fast.state.tol, fast.state.tol_from = tol, start
    assert ended(fast) == first
    fast = Fast(kernels, *data, interval=0)  # where it is not measured, it does not end anything
    fast.state.tol, fast.state.tol_from = tol, start
    assert ended(fast, due=False) == 12


def test_a_tolerance_shrinks_with_a_small_error(kernels):
    data, twin = twin_of()
    fast = Fast(kernels, *data, interval=1)
    fast.state.tol, fast.state.tol_from = twin.residuals[3] * (1 + 1e-9), 1e9
    assert ended(fast, due=False) == 12


def test_a_burst_ends_when_patience_does(kernels):
    data, twin = twin_of()
    precision, patience = 0.02, 4
    lowest, at, expected = np.inf, 0, None
    for iteration, value in enumerate(twin.values):
        if value < lowest * (1 - 8 * precision):
            lowest, at = value, iteration
        elif iteration - at >= patience:
            expected = iteration
            break
    assert 4 < expected < 12
    fast = Fast(kernels, *data)
    fast.state.precision, fast.state.patience = precision, patience
    assert ended(fast) == expected
    assert fast.state.lowest == pytest.approx(lowest)
    assert fast.state.lowest_at == at


def test_a_burst_ends_before_columns_that_are_far_apart(kernels):
    (X, U, V), _ = twin_of()
    for first, expected in ((0, 0), (1, 1), (3, 1), (4, 0)):
        fast = Fast(kernels, X, U, V * [1, 1e8, 1])
        fast.state.iteration, fast.state.evening, fast.state.apart = first, 2, 1e12
        fast.state.most = 12
        fast.run()
        assert fast.state.due
        assert len(fast.state.values) == expected
    fast = Fast(kernels, X, U, V)
    fast.state.evening, fast.state.apart = 2, 1e12
    assert ended(fast, due=False) == 12


def test_a_burst_ends_with_its_walls(kernels):
    data, _ = twin_of()
    fast = Fast(kernels, *data, walls=[0.1, 1.0, 10.0], clips=True)
    assert ended(fast) == 3
    assert all(F.min() >= 0 for F in fast.pair)


def test_a_burst_ends_before_a_value_that_is_not_a_number(kernels):
    (X, U, V), _ = twin_of()
    U[3, 1] = np.nan
    assert ended(Fast(kernels, X, U, V)) == 0


def test_a_burst_ends_when_its_time_is_up_or_when_it_is_long_enough(kernels):
    data, twin = twin_of()
    fast = Fast(kernels, *data)
    fast.state.seconds = 0.0
    assert ended(fast, due=False) == 1  # one there always is: else a busy machine would get nowhere
    assert fast.state.values == pytest.approx(twin.values[:1])
    fast.state.seconds, fast.state.most = np.inf, 3
    fast.run()
    assert not fast.state.due
    assert fast.state.values == pytest.approx(twin.values[1:4])
    assert fast.state.times == sorted(fast.state.times)
    assert fast.state.times[0] >= 0
    assert fast.state.measuring >= 0
    fast.state.most = 0
    assert fast.run().state.values == []


# What is refused ---------------------------------------------------------------------------------------------------


def test_nothing_happens_without_a_matrix_factors_and_preparation(kernels):
    X, U, V = problem(9, 5, 2)
    ready = Fast(kernels, X, U, V)
    for kind in (kernels.burst.Double, kernels.burst.Single):
        bare = kind(9, 5, 2)
        with pytest.raises(ValueError, match="no matrix or factors"):
            bare.prepare(1)
        with pytest.raises(ValueError, match="not prepared"):
            bare.work(0, 1)
    with pytest.raises(ValueError, match="not prepared"):
        ready.kernel.work(0, 1)
    with pytest.raises(ValueError, match="needs a thread"):
        ready.kernel.prepare(0)
    ready.kernel.prepare(1)
    for thread in (-1, 1, 7):
        with pytest.raises(ValueError, match="not prepared for this thread"):
            ready.kernel.work(thread, thread + 1)
    half = kernels.burst.Double(9, 5, 2)
    half.dense(X, np.ascontiguousarray(X.T))
    half.factor(0, *ready.halves[0], 1, False)
    with pytest.raises(ValueError, match="no matrix or factors"):
        half.prepare(1)
    for side in (-1, 2):
        with pytest.raises(ValueError, match="a side is 0 or 1"):
            ready.kernel.knows_product(side)
        with pytest.raises(ValueError, match="a side is 0 or 1"):
            ready.kernel.factor(side, *ready.halves[0], 1, False)
        with pytest.raises(ValueError, match="a side is 0 or 1"):
            ready.kernel.sparse(side, np.zeros((1, 10), int), np.zeros(0, int), np.zeros(0))


def test_a_factor_that_does_not_fit_is_refused_and_changes_nothing(kernels):
    X, U, V = problem(9, 5, 2)
    fast, twin = both(kernels, X, U, V, np.float64, {})

    def refused(problem, match, **changed):
        arrays = dict(zip(("F", "product", "gram", "plain", "best"), [A.copy() for A in fast.halves[0]])) | changed
        with pytest.raises(problem, match=match):
            fast.kernel.factor(0, *arrays.values(), 1, False)

    F = fast.halves[0][0]
    refused(ValueError, "r x n", F=np.ones((2, 8)))
    refused(ValueError, "r x n", product=np.ones((3, 9)))
    refused(ValueError, "r x n", gram=np.ones((2, 9)))
    refused(TypeError, "best has to be float64, and is float32", best=np.ones((2, 9), np.float32))
    refused(TypeError, "plain has 1 dimensions", plain=np.ones(18))
    refused(TypeError, "contiguous along its last axis", F=np.ones((9, 2)).T)
    refused(TypeError, "a factor has to be an array", best="none")
    frozen = F.copy()
    frozen.flags.writeable = False
    refused(TypeError, "F is read-only", F=frozen)
    shared = np.ones((4, 9))
    refused(ValueError, "share memory", F=shared[:2], best=shared[1:3])
    gc.collect()
    fast.run()
    compare(fast, twin.iterate(STEPS), 1e-10)


def test_factors_and_matrix_share_no_memory(kernels):
    X, U, V = problem(6, 6, 6)
    fast = Fast(kernels, X, U, V)
    fast.kernel.factor(1, fast.halves[0][0], *fast.halves[1][1:], 1, False)
    with pytest.raises(ValueError, match="factors share memory"):
        fast.kernel.prepare(1)
    for side in (0, 1):
        fast = Fast(kernels, X, U, V)
        fast.kernel.dense(fast.halves[side][0], np.ascontiguousarray(X.T))
        with pytest.raises(ValueError, match="shares memory with the matrix"):
            fast.kernel.prepare(1)


def test_a_matrix_that_does_not_fit_is_refused(kernels):
    X, _, _ = problem(9, 5, 2)
    double, single = kernels.burst.Double(9, 5, 2), kernels.burst.Single(9, 5, 2)
    with pytest.raises(ValueError, match="X has to be n x m"):
        double.dense(np.ascontiguousarray(X.T), X)
    with pytest.raises(TypeError, match="X has to be float32"):
        single.dense(X, np.ascontiguousarray(X.T))
    with pytest.raises(TypeError, match="contiguous along its last axis"):
        double.dense(X, X.T)
    with pytest.raises(TypeError, match="made of arrays"):
        double.dense("X", "Xt")
    S = sp.csr_array(X)
    starts, columns, values = S.indptr[None], S.indices, S.data
    with pytest.raises(ValueError, match="one column more"):
        double.sparse(1, starts, columns, values)
    with pytest.raises(ValueError, match="has to have a row"):
        double.sparse(0, starts[:0], columns, values)
    with pytest.raises(ValueError, match="equally long"):
        double.sparse(0, starts, columns[1:], values)
    with pytest.raises(TypeError, match="values has to be float32"):
        single.sparse(0, starts, columns, values)
    with pytest.raises(TypeError, match="columns has to be int32 or int64"):
        double.sparse(0, starts, columns.astype(np.int16), values)
    with pytest.raises(TypeError, match="starts has to be int32 or int64"):
        double.sparse(0, starts.astype(float), columns, values)
    for wrong in (starts + 1, starts - 1, starts[:, ::-1].copy()):
        with pytest.raises(ValueError, match="outside the entries"):
            double.sparse(0, wrong, columns, values)
    for shift in (1, -1):
        with pytest.raises(ValueError, match="outside the matrix"):
            double.sparse(0, starts, columns + shift, values)
    with pytest.raises(ValueError, match="no matrix or factors"):
        double.prepare(1)


def test_a_burst_keeps_its_arrays_alive(kernels):
    X, U, V = problem(60, 40, 3)
    expected = Fast(kernels, X, U, V).run().state.values
    fast = Fast(kernels, X, U, V)
    kernel, state = fast.kernel, fast.state
    del fast
    gc.collect()
    _ = [np.full((60, 40), 7.0) for _ in range(50)]
    kernel.prepare(1)
    kernel.work(0, 1)
    assert state.values == expected


def test_outlooks_of_bursts_are_those_of_the_loop(kernels):
    outlook = kernels.burst.Double(3, 3, 1).state.outlook
    assert not any(outlook.due_at(k) for k in range(100))
    judge_outlooks(outlook, SETTLED, math.inf)
    assert [k for k in range(5000) if outlook.due_at(k)] == [k for k in range(5000) if is_outlook(k)]
