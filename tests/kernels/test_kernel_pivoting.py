"""Least squares on passive sets against one solve per row."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slow


def problem(n, r, sets, seed, index=np.int64):
    """n rows with up to `sets` different passive sets; order and borders as the solver makes them."""
    rng = np.random.default_rng(seed)
    A = rng.random((r + 5, r)) + np.eye(r + 5, r)
    B = rng.standard_normal((n, r))
    own = rng.integers(0, sets, n)
    passive = (rng.random((sets, r)) < rng.random((sets, 1)))[own]
    order = np.argsort(own, kind="stable")
    new = np.append(True, np.diff(own[order]) > 0)[:n]
    borders = np.append(np.flatnonzero(new), n)
    return A.T @ A, B, passive, order.astype(index), borders.astype(index)


def results(B):
    return np.full(B.shape, np.nan), np.full(B.shape, np.nan), np.zeros(len(B), bool)


@settings(max_examples=60, deadline=None)
@given(
    n=st.sampled_from([0, 1, 2, 5, 31, 64, 65, 129, 200]),
    r=st.one_of(st.integers(1, 9), st.sampled_from([15, 16, 17, 20, 33, 50])),
    sets=st.sampled_from([1, 2, 7, 100]),
    index=st.sampled_from([np.int32, np.int64]),
    data=st.data(),
)
def test_solve_groups(kernels, n, r, sets, index, data):
    G, B, passive, order, borders = problem(n, r, sets, data.draw(st.integers(0, 1000)), index)
    groups = len(borders) - 1
    start = data.draw(st.integers(0, groups))
    stop = data.draw(st.integers(start, groups))
    F, D, failed = results(B)
    kernels.pivoting.solve_groups(start, stop, G, B, passive, order, borders, F, D, failed)
    rows = order[borders[start] : borders[stop]]
    expected = slow.on_passive_sets(G, B[rows], passive[rows])
    np.testing.assert_allclose(F[rows], expected[0], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(D[rows], expected[1], rtol=1e-8, atol=1e-8)
    assert (F[rows][~passive[rows]] == 0).all()
    assert (D[rows][passive[rows]] == 0).all()
    others = np.setdiff1d(np.arange(n), rows)
    assert np.isnan(F[others]).all()
    assert np.isnan(D[others]).all()
    assert not failed.any()


@settings(max_examples=30, deadline=None)
@given(r=st.integers(2, 20), twin=st.integers(0, 19), n=st.sampled_from([1, 3, 70]))
def test_a_singular_group_is_marked(kernels, r, twin, n):
    """The last component is also an earlier one: sets with both of them fail, and leave F and D alone."""
    twin = min(twin, r - 2)
    G, B, passive, order, borders = problem(n, r, 4, 0)
    G[-1], G[:, -1] = G[twin], G[:, twin]
    G[-1, -1] = G[twin, twin]
    F, D, failed = results(B)
    kernels.pivoting.solve_groups(0, len(borders) - 1, G, B, passive, order, borders, F, D, failed)
    np.testing.assert_array_equal(failed, passive[:, -1] & passive[:, twin])
    assert np.isnan(F[failed]).all()
    expected = slow.on_passive_sets(G, B[~failed], passive[~failed])
    np.testing.assert_allclose(F[~failed], expected[0], rtol=1e-8, atol=1e-9)


def test_a_row_does_not_depend_on_its_group(kernels):
    G, B, passive, order, borders = problem(150, 13, 1, 3)
    F, D, failed = results(B)
    kernels.pivoting.solve_groups(0, 1, G, B, passive, order, borders, F, D, failed)
    alone = results(B)
    kernels.pivoting.solve_groups(0, 150, G, B, passive, order, np.arange(151), *alone)
    np.testing.assert_array_equal(F, alone[0])
    np.testing.assert_array_equal(D, alone[1])


def test_what_does_not_fit_is_refused(kernels):
    G, B, passive, order, borders = problem(20, 4, 5, 0)
    F, D, failed = results(B)
    solve, groups = kernels.pivoting.solve_groups, len(borders) - 1
    with pytest.raises(ValueError, match="shares memory"):
        solve(0, groups, G, B, passive, order, borders, B, D, failed)
    with pytest.raises(ValueError, match="share memory"):
        solve(0, groups, G, B, passive, order, borders, F, F, failed)
    with pytest.raises(ValueError, match="range"):
        solve(0, groups + 1, G, B, passive, order, borders, F, D, failed)
    with pytest.raises(ValueError, match="shape of B"):
        solve(0, groups, G, B, passive[:-1], order, borders, F, D, failed)
    with pytest.raises(ValueError, match="r x r"):
        solve(0, groups, G[:3], B, passive, order, borders, F, D, failed)
    with pytest.raises(ValueError, match="flag"):
        solve(0, groups, G, B, passive, order, borders, F, D, failed[:-1])
    with pytest.raises(ValueError, match="rows of B"):
        solve(0, groups, G, B, passive, order + 1, borders, F, D, failed)
    with pytest.raises(ValueError, match="positions"):
        solve(0, groups, G, B, passive, order[:-1], borders, F, D, failed)
    with pytest.raises(ValueError, match="positions"):
        solve(0, groups, G, B, passive, order, borders[::-1].copy(), F, D, failed)
    with pytest.raises(TypeError, match="passive has to be bool"):
        solve(0, groups, G, B, passive.astype(np.int64), order, borders, F, D, failed)
