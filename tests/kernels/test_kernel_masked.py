"""Row problems of a masked matrix against their slow twins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slow

RANKS = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 20, 31, 32, 33, 50])
DTYPES = st.sampled_from([(np.float64, np.float64), (np.float64, np.float32), (np.float32, np.float32)])
INDICES = st.tuples(st.sampled_from([np.int32, np.int64]), st.sampled_from([np.int32, np.int64]))
WALLS = st.sampled_from([np.inf, 0.5])


class Problem:
    """Six rows: without entries, with one, with 30, and with `widths`; two of them may have a base.

    Factors have `dtype`, entries have `own`.
    """

    def __init__(self, r, dtype, own, index, seed, widths=(130, 64, 70), base=True):
        rng = np.random.default_rng(seed)
        self.r, self.dtype, self.n, m = r, dtype, 6, 140
        lengths = [0, 1, 30, *widths]
        self.from_base = np.array([False, False, base, False, base, False])
        X = rng.random((self.n, m))
        self.C = (rng.random((m, r)) + np.eye(m, r)).astype(dtype)
        rows = [np.sort(rng.choice(m, k, replace=False)) for k in lengths]
        a, t = [], []
        for i, columns in enumerate(rows):
            based = self.from_base[i]
            weights = rng.choice([1.0, 2.5], len(columns)) if not based else np.full(len(columns), -1.0)
            a.append(weights)
            t.append(np.zeros(len(columns)) if based else weights * X[i, columns])
            X[i, columns if based else []] = 0
        self.indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(index[0])
        self.indices = np.concatenate(rows).astype(index[1])
        self.weights, self.targets = np.concatenate(a).astype(own), np.concatenate(t).astype(own)
        C = self.C.astype(float)
        self.G0 = (C.T @ C if base else np.zeros((r, r))).astype(dtype)
        self.B0 = np.ascontiguousarray((X @ C).T if base else np.zeros((r, 0)), dtype=dtype)
        self.ridge = np.array([0.0, 0.5, 0.1, 0.5, 0.3, 0.0], dtype)
        self.F = (rng.random((r, self.n)) * (rng.random((r, self.n)) < 0.7)).astype(dtype)

    def entries(self):
        return self.indptr, self.indices, self.weights, self.targets, self.from_base

    def arguments(self):
        return *self.entries(), self.C, self.G0, self.B0, self.ridge, self.F

    def of_row(self, i):
        inside = slice(self.indptr[i], self.indptr[i + 1])
        values = self.weights[inside].astype(float), self.targets[inside].astype(float)
        return list(zip(self.indices[inside], *values))

    def normal(self, i):
        base = (self.G0.astype(float), self.B0[:, i].astype(float)) if self.from_base[i] else (0.0, 0.0)
        return slow.row_problem(self.of_row(i), self.C.astype(float), *base, float(self.ridge[i]))

    def close(self, found, expected, loose=1.0):
        near = 1e-9 if self.dtype == np.float64 else 3e-3
        scale = np.abs(expected).max(initial=1.0)
        np.testing.assert_allclose(found, expected, rtol=near * loose, atol=near * loose * scale)


@st.composite
def given_problems(draw, dtypes=DTYPES):
    widths = draw(st.sampled_from([(130, 64, 70), (7, 8, 9), (63, 64, 65), (24, 128, 2)]))
    dtype, own = draw(dtypes)
    return Problem(draw(RANKS), dtype, own, draw(INDICES), draw(st.integers(0, 1000)), widths, draw(st.booleans()))


def part(data, n):
    start = data.draw(st.integers(0, n))
    return start, data.draw(st.integers(start, n))


@settings(max_examples=60, deadline=None)
@given(p=given_problems(), wall=WALLS, sweeps=st.integers(0, 3), data=st.data())
def test_sweep(kernels, p, wall, sweeps, data):
    before = p.F.copy()
    start, stop = part(data, p.n)
    kernels.masked.sweep(start, stop, *p.arguments(), wall, sweeps, 0.0)
    assert np.isfinite(p.F).all()
    assert not np.signbit(p.F).any() or wall < np.inf
    for i in range(p.n):
        expected = before[:, i].astype(float)
        if start <= i < stop and i > 0:  # row 0 has nothing that determines it
            G, b = p.normal(i)
            own = wall * np.diag(G).mean()
            expected = slow.sweep(expected[None], G, b[None], own, sweeps)[0]
        p.close(p.F[:, i], expected)


@settings(max_examples=40, deadline=None)
@given(p=given_problems(), steps=st.integers(0, 3), data=st.data())
def test_row_steps(kernels, p, steps, data):
    p.F[:, 3] -= p.dtype(0.2)
    before = p.F.copy()
    start, stop = part(data, p.n)
    kernels.masked.row_steps(start, stop, *p.arguments(), steps, 0.0)
    assert np.isfinite(p.F).all()
    for i in range(p.n):
        expected = before[:, i].astype(float)[None]
        G, b = p.normal(i)
        for _ in range(steps if start <= i < stop and i > 0 else 0):
            expected = slow.row_step(expected, G, b[None])
        p.close(p.F[:, i], expected[0], loose=10)


@settings(max_examples=40, deadline=None)
@given(p=given_problems(st.sampled_from([(np.float64, np.float64), (np.float64, np.float32)])), data=st.data())
def test_solve(kernels, p, data):
    before = p.F.copy()
    start, stop = part(data, p.n)
    kernels.masked.solve(start, stop, *p.arguments())
    for i in range(p.n):
        if start <= i < stop:
            assert np.isfinite(p.F[:, i]).all()
            assert slow.nnls_violation(*p.normal(i), p.F[:, i]) < 1e-8
        else:
            assert (p.F[:, i] == before[:, i]).all()


@settings(max_examples=40, deadline=None)
@given(p=given_problems(), other=st.booleans(), data=st.data())
def test_residual_times(kernels, p, other, data):
    D = np.random.default_rng(1).random(p.C.shape).astype(p.dtype) if other else p.C
    F = np.ascontiguousarray(p.F.T)
    out, errors = np.full((p.r, p.n), 7, p.dtype), np.full(p.n, 7.0)
    start, stop = part(data, p.n)
    kernels.masked.residual_times(start, stop, *p.entries(), F, p.C, D, out, errors)
    for i in range(p.n):
        if not start <= i < stop:
            assert (out[:, i] == 7).all()
            assert errors[i] == 7
            continue
        row = F[i].astype(float), p.C.astype(float), D.astype(float), p.from_base[i]
        expected, error = slow.residual_times(p.of_row(i), *row)
        p.close(out[:, i], expected)
        assert errors[i] == pytest.approx(error, rel=1e-9 if p.dtype == np.float64 else 1e-3)


@settings(max_examples=60, deadline=None)
@given(
    count=st.sampled_from([0, 1, 2, 3, 4, 5, 8, 33]),
    r=RANKS,
    dtype=st.sampled_from([np.float64, np.float32]),
    index=st.sampled_from([np.int32, np.int64]),
    data=st.data(),
)
def test_pair_products(kernels, count, r, dtype, index, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 100)))
    U, V = rng.standard_normal((9, r)).astype(dtype), rng.standard_normal((5, r)).astype(dtype)
    rows, columns = rng.integers(0, 9, count).astype(index), rng.integers(0, 5, count).astype(index)
    out, alone = np.full(count, 7, dtype), np.zeros(count, dtype)
    start, stop = part(data, count)
    kernels.masked.pair_products(start, stop, rows, columns, U, V, out)
    expected = np.einsum("ek,ek->e", U[rows].astype(float), V[columns].astype(float))
    expected[:start], expected[stop:] = 7, 7
    np.testing.assert_allclose(out, expected, atol=1e-11 if dtype == np.float64 else 1e-4)
    for e in range(start, stop):
        kernels.masked.pair_products(e, e + 1, rows, columns, U, V, alone)
    assert (out[start:stop] == alone[start:stop]).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_row_depends_on_itself_alone(kernels, dtype):
    p = Problem(21, dtype, dtype, (np.int64, np.int32), 0)
    p.targets[p.indptr[3]] = np.nan  # one row is spoilt, and no other
    whole, single = p.F.copy(), p.F.copy()
    rest = (np.inf, 5, 0.01)
    kernels.masked.sweep(0, p.n, *p.arguments()[:-1], whole, *rest)
    for i in reversed(range(p.n)):
        kernels.masked.sweep(i, i + 1, *p.arguments()[:-1], single, *rest)
    np.testing.assert_array_equal(whole, single)
    assert np.isfinite(np.delete(whole, 3, axis=1)).all()


def test_sweeps_end_when_they_change_little(kernels):
    one, many = (Problem(5, np.float64, np.float64, (np.int64, np.int32), 0) for _ in range(2))
    kernels.masked.sweep(0, 6, *one.arguments(), np.inf, 1, 0.0)
    kernels.masked.sweep(0, 6, *many.arguments(), np.inf, 50, 1.0)
    assert (one.F == many.F).all()


def test_what_cancels_is_not_determined(kernels):
    """All entries of a row with a base are missing: its normal equations cancel to rounding, and F stays."""
    rng = np.random.default_rng(0)
    C = rng.random((40, 6)).astype(np.float32)
    indptr, indices = np.array([0, 40]), np.arange(40)
    a, t = np.full(40, -1, np.float32), np.zeros(40, np.float32)
    G0, B0, F = C.T @ C, np.zeros((6, 1), np.float32), rng.random((6, 1)).astype(np.float32)
    before = F.copy()
    kernels.masked.sweep(
        0, 1, indptr, indices, a, t, np.array([True]), C, G0, B0, np.zeros(1, np.float32), F, np.inf, 3, 0.0
    )
    assert (before == F).all()


def test_a_strided_factor(kernels):
    p = Problem(5, np.float64, np.float64, (np.int64, np.int32), 0)
    wide = np.zeros((5, 20))
    wide[:, 4:10] = p.F
    kernels.masked.sweep(0, 6, *p.arguments(), np.inf, 2, 0.0)
    q = Problem(5, np.float64, np.float64, (np.int64, np.int32), 0)
    kernels.masked.sweep(0, 6, *q.arguments()[:-1], wide[:, 4:10], np.inf, 2, 0.0)
    assert (wide[:, 4:10] == p.F).all()
    assert not wide[:, :4].any()
    assert not wide[:, 10:].any()


def test_what_does_not_fit_is_refused(kernels):
    p = Problem(4, np.float64, np.float64, (np.int64, np.int32), 0)
    names = ["indptr", "indices", "weights", "targets", "from_base", "C", "G0", "B0", "ridge", "F"]

    def sweep(start=0, stop=p.n, **other):
        arguments = {**dict(zip(names, p.arguments())), **other}
        kernels.masked.sweep(start, stop, *arguments.values(), np.inf, 1, 0.0)

    for wrong, what in (
        ({"F": p.B0}, "shares memory"),
        ({"stop": 7}, "range"),
        ({"indptr": p.indptr[:-1]}, "indptr"),
        ({"indptr": p.indptr + 1}, "indptr"),
        ({"indptr": p.indptr[::-1].copy()}, "indptr"),
        ({"indices": p.indices[:-1]}, "as many as indices"),
        ({"weights": p.weights[:-1]}, "as many as indices"),
        ({"from_base": p.from_base[:-1]}, "from_base"),
        ({"C": p.C[:, :3].copy()}, "C has to be m x r"),
        ({"G0": p.G0[:3]}, "G0 has to be r x r"),
        ({"B0": p.B0[:, :0]}, "B0 is missing"),
        ({"B0": p.B0[:, :3]}, "B0 has to have the shape of F"),
        ({"ridge": p.ridge[:-1]}, "ridge"),
    ):
        with pytest.raises(ValueError, match=what):
            sweep(**wrong)
    for wrong, what in (
        ({"C": p.C.astype(np.float32)}, "C has to be float64, and is float32"),
        ({"targets": p.targets.astype(np.float32)}, "targets has to be float64"),
        ({"indices": p.indices.astype(float)}, "indices has to be int32 or int64"),
        ({"from_base": p.from_base.astype(np.int64)}, "from_base has to be bool"),
        ({"F": np.asfortranarray(p.F)}, "contiguous"),
    ):
        with pytest.raises(TypeError, match=what):
            sweep(**wrong)
    with pytest.raises(TypeError, match="F has to be float64, and is float32"):
        kernels.masked.solve(0, 6, *p.arguments()[:-1], p.F.astype(np.float32))
    F, out, errors = np.ascontiguousarray(p.F.T), np.zeros((4, 6)), np.zeros(6)
    with pytest.raises(ValueError, match="out has to be r x n"):
        kernels.masked.residual_times(0, 6, *p.entries(), F, p.C, p.C, np.zeros((6, 4)), errors)
    with pytest.raises(ValueError, match="C and D"):
        kernels.masked.residual_times(0, 6, *p.entries(), F, p.C, p.C[:-1], out, errors)
    with pytest.raises(ValueError, match="errors"):
        kernels.masked.residual_times(0, 6, *p.entries(), F, p.C, p.C, out, errors[:-1])
    places = np.zeros(3, int)
    with pytest.raises(ValueError, match="as many as out"):
        kernels.masked.pair_products(0, 3, places, places[:2], F, p.C, np.zeros(3))
    with pytest.raises(ValueError, match="columns"):
        kernels.masked.pair_products(0, 3, places, places, F, p.C[:, :2], np.zeros(3))
