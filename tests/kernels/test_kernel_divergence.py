"""Row problems of beta divergences against their slow twins."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import slow

BETAS = st.sampled_from([0.0, 0.5, 1.0, 1.5])
RANKS = st.sampled_from([1, 2, 3, 4, 5, 8, 9, 16, 17])
DTYPES = st.sampled_from([np.float64, np.float32])
INDICES = st.tuples(st.sampled_from([np.int32, np.int64]), st.sampled_from([np.int32, np.int64]))
KINDS = st.sampled_from(["dense", "sparse", "blocks", "weighted", "missing", "missing and weighted"])
WIDTHS = st.sampled_from([0, 1, 2, 7, 8, 9, 16, 33])
SIZES = st.sampled_from(["counts", "tiny", "huge", "mixed"])
NONE = np.empty(0)


class Problem:
    """Six rows, one of them full of zeros unless beta = 0; X, W (0: missing) and C are plain arrays."""

    def __init__(self, beta, r, dtype, kind, width, size, index, seed):
        rng = np.random.default_rng(seed)
        self.beta, self.r, self.dtype, self.kind, self.index, self.n = beta, r, dtype, kind, index, 6
        self.single = dtype == np.float32
        far = 3.0 if self.single else 8.0
        X = rng.poisson(1.0, (self.n, width)).astype(float)
        X *= {"counts": 1.0, "tiny": 10.0**-far, "huge": 10.0**far, "mixed": 1.0}[size]
        if size == "mixed":
            X *= 10.0 ** rng.uniform(-far, far, X.shape)
        X[2] = 0.0
        if beta == 0.0:
            X = np.where(X > 0, X, X[X > 0].min(initial=1.0))
        self.X = X.astype(dtype)
        self.W = np.ones_like(self.X)
        if "weighted" in kind:
            self.W[:] = rng.choice([0.0, 0.5, 1.0, 3.0], self.W.shape)
        if "missing" in kind:
            self.W[rng.random(self.W.shape) < 0.4] = 0.0
        C = rng.gamma(0.5, 1.0, (width, r)) * (rng.random((width, r)) < 0.8)
        C[~C.any(axis=1)] = 0.1  # the loss is finite
        self.C = C.astype(dtype)
        self.base = self.C.sum(axis=0, dtype=float).astype(dtype)
        u = rng.random((r, self.n)) * (rng.random((r, self.n)) < 0.8) + 0.01
        self.F = (u * ((self.X.mean() if width else 0.0) or 1.0)).astype(dtype)
        self.l1, self.l2 = 0.0, np.zeros(self.n, dtype)
        listed = self.W > 0 if "missing" in kind else np.full(self.X.shape, True)
        self.listed_largest = float(self.X[listed].max(initial=0.0))

    def penalized(self):
        """A penalty of the size of the gradient."""
        size = max(self.row(i).parts(self.u(i))[1].max(initial=0.0) for i in range(self.n)) + 1e-3
        self.l1 = float(self.dtype(0.1 * size))
        self.l2[1::2] = 0.1 * size / np.abs(self.F).max()
        return self

    def source(self, kernels):
        source = (kernels.divergence.Single if self.single else kernels.divergence.Double)(self.beta)
        if self.kind == "dense":
            source.dense(self.X)
            return source
        implied = "missing" not in self.kind
        listed = (self.X != 0) | (self.W != 1.0) if implied else self.W > 0
        width = self.X.shape[1]
        bounds = [0, width // 3, width // 2, width] if self.kind == "blocks" else [0, width]
        starts, columns, rows, place = [], [], [], 0
        for low, high in itertools.pairwise(bounds):
            starts.append([place])
            for i in range(self.n):
                here = low + np.flatnonzero(listed[i, low:high])
                columns.append(here)
                rows.append(np.full(len(here), i))
                place += len(here)
                starts[-1].append(place)
        i, j = np.concatenate(rows), np.concatenate(columns)
        weights = self.W[i, j] if "weighted" in self.kind else self.W[:0, 0] if width else self.W.ravel()
        indices = np.array(starts, self.index[0]), j.astype(self.index[1])
        source.sparse(width, *indices, self.X[i, j], np.ascontiguousarray(weights), implied)
        return source

    def row(self, i):
        numbers = self.X[i].astype(float), self.W[i].astype(float), self.C.astype(float)
        largest = self.listed_largest or 1.0
        return slow.DivergenceRow(*numbers, self.beta, (self.l1, float(self.l2[i])), largest, self.single)

    def u(self, i):
        return self.F[:, i].astype(float)

    def newton(self, kernels, steps, sweeps=3, progress=0.0, accuracy=0.0, start=0, stop=None):
        arguments = self.C, self.base, self.l1, self.l2, self.F, steps, progress, sweeps, accuracy
        self.source(kernels).newton(start, self.n if stop is None else stop, *arguments)

    def entry_steps(self, kernels, sweeps, damped, start=0, stop=None):
        arguments = self.C, self.base, self.l1, self.l2, self.F, sweeps, damped
        self.source(kernels).entry_steps(start, self.n if stop is None else stop, *arguments)

    def close(self, found, expected, near=1e-9, scale=None):
        near = max(near, 3e-4) if self.single else near
        size = np.abs(expected).max(initial=0.0) if scale is None else scale
        np.testing.assert_allclose(found, expected, rtol=near, atol=near * size + 1e-300)


@st.composite
def given_problems(draw, betas=BETAS, dtypes=DTYPES, sizes=SIZES):
    p = Problem(*(draw(of) for of in (betas, RANKS, dtypes, KINDS, WIDTHS, sizes, INDICES)), draw(st.integers(0, 1000)))
    return p.penalized() if draw(st.booleans()) else p


@settings(max_examples=150, deadline=None)
@given(p=given_problems(), data=st.data())
def test_values_and_both_parts_of_the_gradient(kernels, p, data):
    start = data.draw(st.integers(0, p.n))
    stop = data.draw(st.integers(start, p.n))
    values, up, down = np.full(p.n, 7.0), np.full_like(p.F, 7), np.full_like(p.F, 7)
    p.source(kernels).terms(start, stop, p.C, p.base, p.F, values, up, down)
    for i in range(p.n):
        if not start <= i < stop:
            assert values[i] == 7
            assert (up[:, i] == 7).all()
            assert (down[:, i] == 7).all()
            continue
        row, u = p.row(i), p.u(i)
        size = max(float(((row.w + 1) * (row.x + row.model(u)) ** p.beta).sum()), abs(row.value(u)))
        p.close(values[i], row.value(u), 1e-12, size)
        for found, expected in zip((up, down), row.parts(u)):
            p.close(found[:, i], expected, 1e-11)


@settings(max_examples=100, deadline=None)
@given(p=given_problems())
def test_a_multiplicative_step(kernels, p):
    expected = [p.row(i).multiplied(p.u(i)) for i in range(p.n)]
    p.newton(kernels, 0)
    for i in range(p.n):
        p.close(p.F[:, i], expected[i], 1e-10)


@settings(max_examples=150, deadline=None)
@given(p=given_problems(dtypes=st.just(np.float64), sizes=st.just("counts")), sweeps=st.integers(1, 4))
def test_a_newton_step(kernels, p, sweeps):
    expected = [p.row(i).newton(p.row(i).begun(p.u(i)), sweeps) for i in range(p.n)]
    p.newton(kernels, 1, sweeps)
    for i in range(p.n):
        p.close(p.F[:, i], expected[i], 1e-6)


@settings(max_examples=150, deadline=None)
@given(p=given_problems(), steps=st.integers(1, 3), sweeps=st.integers(1, 20))
def test_no_step_of_a_row_raises_its_loss(kernels, p, steps, sweeps):
    before = [p.row(i).objective(p.u(i)) for i in range(p.n)]
    size = [float((p.row(i).w * (p.row(i).x + p.row(i).model(p.u(i))) ** p.beta).sum()) for i in range(p.n)]
    p.newton(kernels, steps, sweeps)
    assert np.isfinite(p.F).all()
    assert (p.F >= 0).all()
    for i in range(p.n):
        rounding = (1e-5 if p.single else 1e-12) * (size[i] + abs(before[i]))
        assert p.row(i).objective(p.u(i)) <= before[i] + rounding


@settings(max_examples=150, deadline=None)
@given(p=given_problems(st.just(1.0), st.just(np.float64), st.sampled_from(["counts", "tiny", "huge"])))
def test_many_steps_reach_the_optimum_of_a_row(kernels, p):
    p.newton(kernels, 500, 20, 1e-13, 0.1)
    for i in range(p.n):
        if p.W[i].any():
            assert p.row(i).violation(p.u(i)) < 1e-4  # sweeps are slow if there are more components than entries


@settings(max_examples=60, deadline=None)
@given(p=given_problems(st.sampled_from([1.2, 1.5, 1.8]), st.just(np.float64), st.sampled_from(["counts", "huge"])))
def test_many_steps_come_close_to_the_optimum_of_other_convex_rows(kernels, p):
    """Where x = 0, the curvature is infinite at m = 0, and entries on the way there are slow."""
    p.newton(kernels, 500, 20, 1e-13, 0.1)
    for i in range(p.n):
        row, u = p.row(i), p.u(i)
        size = float((row.w * row.x**p.beta).sum()) + 1e-300
        bounds = [(0.0, None)] * p.r
        scale = u.max(initial=0.0) or 1.0  # for the unit of the reference
        better = minimize(
            lambda v, row=row, size=size, scale=scale: (
                row.objective(v * scale) / size,
                row.gradient(v * scale) * scale / size,
            ),
            u / scale,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": 200},
        )
        assert row.objective(u) / size <= better.fun + 1e-5


@settings(max_examples=40, deadline=None)
@given(p=given_problems(), data=st.data())
def test_models_of_rows_are_added(kernels, p, data):
    start = data.draw(st.integers(0, p.n))
    stop = data.draw(st.integers(start, p.n))
    sums = np.full((p.n, p.r * (p.r + 1) // 2 + 2 * p.r), 7.0)
    p.source(kernels).models(start, stop, p.C, p.base, p.F, sums)
    assert (sums[:start] == 7).all()
    assert (sums[stop:] == 7).all()
    for i in range(start, stop):
        expected = p.row(i).model_line(p.u(i))
        curvature = p.r * (p.r + 1) // 2
        for some in (slice(0, curvature), slice(curvature, None)):
            p.close(sums[i, some], 7.0 + expected[some], 1e-10)


@settings(max_examples=40, deadline=None)
@given(p=given_problems(dtypes=st.just(np.float64), sizes=st.just("counts")), seed=st.integers(0, 1000))
def test_slopes_along_steps_are_added(kernels, p, seed):
    """Without a penalty, whatever the problem has; the last one is the bound on the change."""
    p.l1, p.l2[:] = 0.0, 0.0
    rng = np.random.default_rng(seed)
    goal = p.F * rng.uniform(0.1, 3.0, p.F.shape) * (rng.random(p.F.shape) < 0.9) + 1e-3
    shares = np.array([1.0, 0.5, 0.0])
    sums = np.full((p.n, 4), 7.0)
    p.source(kernels).slopes(0, p.n, p.C, p.base, p.l2, p.F, goal, shares, sums)
    for i in range(p.n):
        row, u = p.row(i), p.u(i)
        step = goal[:, i] - u
        expected = [row.slope(u, step, share) for share in shares] + [row.rise(u, step)]
        m, after = row.model(u), row.model(u + step)
        size = float((row.w * np.abs(after - m) * (1.0 + row.x * np.minimum(m, after) ** (p.beta - 2.0))).sum())
        p.close(sums[i], 7.0 + np.array(expected), 1e-9, size + 7.0)


@settings(max_examples=40, deadline=None)
@given(p=given_problems(sizes=st.just("counts")), sweeps=st.integers(1, 3))
def test_models_that_were_added_are_swept(kernels, p, sweeps):
    lines = np.array([p.row(i).model_line(p.u(i)) for i in range(p.n)])
    l2 = float(p.l2.max())
    expected = [slow.swept_model(lines[i], p.u(i), p.l1, l2, sweeps) for i in range(p.n)]
    kernels.divergence.sweep_models(0, p.n, lines, p.l1, l2, p.F, sweeps, 0.0)
    for i in range(p.n):
        p.close(p.F[:, i], expected[i], 1e-7)


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 1.5])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_models_and_slopes_of_blocks_make_those_of_the_whole(kernels, beta, kind):
    whole = Problem(beta, 5, np.float64, kind, 33, "counts", (np.int64, np.int32), 0)
    goal, shares = 1.5 * whole.F + 0.1, np.array([1.0, 0.25])
    found = [[np.zeros((whole.n, 25)), np.zeros((whole.n, 3))] for _ in range(2)]
    for cuts, (models, slopes) in zip(([0, 33], [0, 1, 20, 33]), found):
        for low, high in itertools.pairwise(cuts):
            p = Problem(beta, 5, np.float64, kind, 33, "counts", (np.int64, np.int32), 0)
            p.X, p.W, p.C = (np.ascontiguousarray(A) for A in (p.X[:, low:high], p.W[:, low:high], p.C[low:high]))
            p.base, source = p.C.sum(axis=0), p.source(kernels)
            source.models(0, p.n, p.C, p.base, p.F, models)
            source.slopes(0, p.n, p.C, p.base, p.l2, p.F, goal, shares, slopes)
    for one, other in zip(*found):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10 * np.abs(one).max())


@settings(max_examples=200, deadline=None)
@given(
    p=given_problems(dtypes=st.just(np.float64), sizes=st.just("counts")),
    sweeps=st.integers(0, 2),
    damped=st.booleans(),
)
def test_steps_of_single_entries(kernels, p, sweeps, damped):
    expected, clear = [p.u(i) for i in range(p.n)], np.full(p.n, True)
    for i in range(p.n):
        row = p.row(i)
        for _ in range(sweeps):
            expected[i] = row.entry_sweep(expected[i], damped)
            clear[i] &= row.lowest > 1e-6
    p.entry_steps(kernels, sweeps, damped)
    assert np.isfinite(p.F).all()
    for i in np.flatnonzero(clear):
        p.close(p.F[:, i], expected[i], 1e-6)


@settings(max_examples=150, deadline=None)
@given(p=given_problems(betas=st.just(1.0)), sweeps=st.integers(1, 3))
def test_damped_steps_of_single_entries_never_raise_the_loss_of_kullback_and_leibler(kernels, p, sweeps):
    before = [p.row(i).objective(p.u(i)) for i in range(p.n)]
    size = [float((p.row(i).w * (p.row(i).x + p.row(i).model(p.u(i)))).sum()) for i in range(p.n)]
    clear = [not p.row(i).is_held_off_zero(p.u(i)) for i in range(p.n)]
    p.entry_steps(kernels, sweeps, True)
    assert np.isfinite(p.F).all()
    assert (p.F >= 0).all()
    for i in np.flatnonzero(clear):
        rounding = (1e-5 if p.single else 1e-12) * (size[i] + abs(before[i]))
        assert p.row(i).objective(p.u(i)) <= before[i] + rounding


@settings(max_examples=40, deadline=None)
@given(p=given_problems(st.sampled_from([1.0, 1.5]), st.just(np.float64), st.just("counts")))
def test_damped_steps_of_single_entries_reach_the_optimum_of_a_convex_row(kernels, p):
    p.newton(kernels, 500, 20, 1e-13, 0.1)
    best = [p.row(i).objective(p.u(i)) for i in range(p.n)]
    p.F[:] = 1.0
    p.entry_steps(kernels, 500, True)
    for i in range(p.n):
        size = float((p.row(i).w * p.row(i).x).sum()) + 1.0
        assert p.row(i).objective(p.u(i)) <= best[i] + 1e-3 * size


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 1.5])
@pytest.mark.parametrize("kind", ["dense", "sparse", "missing and weighted"])
def test_a_row_depends_on_itself_alone(kernels, dtype, beta, kind):
    for how, arguments in (("newton", (3,)), ("entry_steps", (2, True))):
        whole, single = (Problem(beta, 9, dtype, kind, 33, "counts", (np.int64, np.int32), 0) for _ in range(2))
        for p in (whole, single):
            p.X[3] = np.nan  # one row is spoilt, and no other
        getattr(whole, how)(kernels, *arguments)
        for i in reversed(range(single.n)):
            getattr(single, how)(kernels, *arguments, start=i, stop=i + 1)
        np.testing.assert_array_equal(np.delete(whole.F, 3, axis=1), np.delete(single.F, 3, axis=1))
        assert np.isfinite(np.delete(whole.F, 3, axis=1)).all()


def test_steps_end_when_they_change_little(kernels):
    one, many = (Problem(1.0, 5, np.float64, "sparse", 33, "counts", (np.int64, np.int32), 0) for _ in range(2))
    one.newton(kernels, 1)
    many.newton(kernels, 50, progress=1.0)
    assert (one.F == many.F).all()


def test_entries_of_any_size_have_a_finite_loss(kernels):
    """m / x overflows where the loss is m."""
    for beta in (1.0, 1.5):
        source, values = kernels.divergence.Double(beta), np.zeros(1)
        source.dense(np.array([[5e-324, 1e-310, 1e-300, 1.0]]))
        C, none = np.array([[1e50], [2.0], [1e30], [1.0]]), np.empty((1, 0))
        source.terms(0, 1, C, C.sum(axis=0), np.ones((1, 1)), values, none, none)
        assert values[0] == pytest.approx(((C[:3, 0] ** beta) / beta).sum(), rel=1e-12)


def test_what_does_not_fit_is_refused(kernels):
    p = Problem(1.0, 4, np.float64, "sparse", 33, "counts", (np.int64, np.int32), 0)
    source = p.source(kernels)
    names = ["C", "base", "l1", "l2", "F"]

    def newton(start=0, stop=p.n, **other):
        given_ones = dict(zip(names, (p.C, p.base, p.l1, p.l2, p.F)))
        source.newton(start, stop, *{**given_ones, **other}.values(), 1, 0.0, 3, 0.0)

    def entry_steps(start=0, stop=p.n, **other):
        given_ones = dict(zip(names, (p.C, p.base, p.l1, p.l2, p.F)))
        source.entry_steps(start, stop, *{**given_ones, **other}.values(), 1, False)

    shared = np.zeros((33, 4))
    for kernel in (newton, entry_steps):
        for wrong, what in (
            ({"F": shared[:4, :0], "C": shared}, "a column for each row"),
            ({"F": p.F.copy()[:, :5]}, "a column for each row"),
            ({"C": p.C[:-1]}, "C has to be m x r"),
            ({"C": p.C[:, :3].copy()}, "C has to be m x r"),
            ({"base": p.base[:-1]}, "C has to be m x r, base r"),
            ({"l2": p.l2[:-1]}, "l2 has to have the length of F"),
            ({"stop": 7}, "range"),
            ({"start": -1}, "range"),
            ({"l2": p.F[0]}, "shares memory"),
        ):
            with pytest.raises(ValueError, match=what):
                kernel(**wrong)
        for wrong, what in (
            ({"C": p.C.astype(np.float32)}, "C has to be float64, and is float32"),
            ({"F": p.F.astype(np.float32)}, "F has to be float64, and is float32"),
            ({"F": np.asfortranarray(p.F)}, "contiguous"),
        ):
            with pytest.raises(TypeError, match=what):
                kernel(**wrong)
    values, up, down = np.zeros(p.n), np.zeros_like(p.F), np.zeros_like(p.F)
    for wrong, what in (
        ((p.F, values[:-1], up, down), "values has to have the length of F"),
        ((p.F, values, up[:, :-1], down), "shape of F"),
        ((p.F, values, up[:-1], down), "shape of F"),
        ((p.F, values, up, up), "two results share memory"),
        ((p.F, values, p.F, down), "shares memory"),
    ):
        with pytest.raises(ValueError, match=what):
            source.terms(0, p.n, p.C, p.base, *wrong)
    sums = np.zeros((p.n, 18))
    for wrong in (sums[:-1], sums[:, :-1]):
        with pytest.raises(ValueError, match="a line for each model"):
            source.models(0, p.n, p.C, p.base, p.F, wrong)
    shares, slopes = np.ones(2), np.zeros((p.n, 3))
    for wrong, what in (
        ((p.l2, p.F, p.F[:-1].copy(), shares, slopes), "to has to have the shape of F"),
        ((p.l2, p.F, p.F.copy(), shares[:1], slopes), "a column for each share and one"),
        ((p.l2[:-1], p.F, p.F.copy(), shares, slopes), "l2 has to have the length of F"),
    ):
        with pytest.raises(ValueError, match=what):
            source.slopes(0, p.n, p.C, p.base, *wrong)
    for wrong, what in (((0, p.n, sums[:-1]), "a line for each column"), ((0, p.n + 1, sums), "range")):
        with pytest.raises(ValueError, match=what):
            kernels.divergence.sweep_models(*wrong, 0.0, 0.0, p.F, 1, 0.0)
    with pytest.raises(ValueError, match="a column for each row"):
        kernels.divergence.Double(1.0).terms(0, 6, p.C, p.base, p.F, values, up, down)


def test_a_broken_matrix_is_refused(kernels):
    starts, columns, data = np.array([[0, 2, 3]]), np.array([0, 3, 1]), np.ones(3)

    def sparse(width=4, starts=starts, columns=columns, data=data, weights=NONE):
        kernels.divergence.Double(1.0).sparse(width, starts, columns, data, weights, True)

    sparse()
    for wrong, what in (
        ({"width": 3}, "an entry lies outside the matrix"),
        ({"columns": np.array([0, -1, 1])}, "an entry lies outside the matrix"),
        ({"columns": columns[:2]}, "columns and values have to be equally long"),
        ({"weights": np.ones(2)}, "weights and values have to be equally long"),
        ({"starts": np.array([[0, 2, 4]])}, "rows begin or end outside"),
        ({"starts": np.array([[0, 3, 2]])}, "rows begin or end outside"),
        ({"starts": np.array([[-1, 2, 3]])}, "rows begin or end outside"),
        ({"starts": np.empty((0, 3), int)}, "starts has to have a row"),
    ):
        with pytest.raises(ValueError, match=what):
            sparse(**wrong)
    for wrong, what in (
        ({"data": data.astype(np.float32)}, "values has to be float64"),
        ({"columns": columns.astype(float)}, "columns has to be int32 or int64"),
        ({"starts": starts.astype(np.int16)}, "starts has to be int32 or int64"),
    ):
        with pytest.raises(TypeError, match=what):
            sparse(**wrong)
    with pytest.raises(TypeError, match="made of arrays"):
        kernels.divergence.Double(1.0).dense("X")
    with pytest.raises(TypeError, match="X has to be float32"):
        kernels.divergence.Single(1.0).dense(np.ones((2, 2)))
