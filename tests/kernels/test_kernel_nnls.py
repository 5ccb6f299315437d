"""The active set method against all supports, and by its optimality conditions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slow

KINDS = st.sampled_from(["random", "deficient", "duplicate", "zero column", "tiny", "nonnegative", "integers"])
STARTS = st.sampled_from(["zero", "some", "all"])


def problem(r, n, kind, seed, l1=0.0, rows=None):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((rows or r + 4, r))
    y = rng.standard_normal((n, len(A)))
    if kind == "nonnegative":
        A, y = np.abs(A), np.abs(y)
    elif kind == "deficient":
        A = rng.standard_normal((len(A), 1)) * rng.standard_normal((1, r))
    elif kind == "duplicate":
        A[:, -1] = A[:, 0]
    elif kind == "zero column":
        A[:, -1] = 0.0
    elif kind == "tiny":
        A *= 1e-6
    elif kind == "integers":
        A, y = np.round(A), np.round(y)
    return A.T @ A, np.ascontiguousarray((y @ A - l1 * np.abs(A).max()).T)


def start(r, n, kind, seed):
    if kind == "zero":
        return np.zeros((r, n))
    F = np.random.default_rng(seed).random((r, n)) + 0.1
    return F if kind == "all" else F * (F > 0.6)


@settings(max_examples=40, deadline=None)
@given(
    r=st.integers(1, 6),
    n=st.integers(0, 4),
    kind=st.sampled_from(["random", "nonnegative"]),
    begin=STARTS,
    data=st.data(),
)
def test_the_best_of_all_supports(kernels, r, n, kind, begin, data):
    seed = data.draw(st.integers(0, 10_000))
    G, B = problem(r, n, kind, seed)
    F = start(r, n, begin, seed)
    before = F.copy()
    first = data.draw(st.integers(0, n))
    last = data.draw(st.integers(first, n))
    kernels.nnls.nnls(first, last, G, B, F)
    for c in range(n):
        expected = slow.nnls(G, B[:, c]) if first <= c < last else before[:, c]
        np.testing.assert_allclose(F[:, c], expected, rtol=1e-8, atol=1e-10)


@settings(max_examples=150, deadline=None)
@given(
    r=st.one_of(st.integers(1, 12), st.sampled_from([15, 16, 17, 24, 31, 32, 33, 64, 65, 100])),
    kind=KINDS,
    begin=STARTS,
    l1=st.sampled_from([0.0, 0.01, 0.5]),
    rows=st.sampled_from([None, 3, 40]),
    seed=st.integers(0, 10_000),
)
def test_optimality(kernels, r, kind, begin, l1, rows, seed):
    """Also where the Gram matrix is singular: members that depend on others have to leave."""
    G, B = problem(r, 3, kind, seed, l1, rows)
    F = start(r, 3, begin, seed)
    kernels.nnls.nnls(0, 3, G, B, F)
    assert np.isfinite(F).all()
    for c in range(3):
        assert slow.nnls_violation(G, B[:, c], F[:, c]) < 1e-7


def test_a_column_does_not_depend_on_the_others(kernels):
    G, B = problem(21, 40, "random", 0)
    F, one = np.zeros((21, 40)), np.zeros((21, 40))
    B[:, 7] = np.nan
    kernels.nnls.nnls(0, 40, G, B, F)
    for c in range(40):
        kernels.nnls.nnls(c, c + 1, G, B, one)
    np.testing.assert_array_equal(F, one)
    assert np.isfinite(np.delete(F, 7, axis=1)).all()


@pytest.mark.parametrize("begin", [0.0, 1.0])
def test_a_column_that_depends_on_the_others_can_be_the_cheaper_one(kernels, begin):
    A, y = np.array([[3.0, 0.0, 1.0, 3.0], [1.0, 1.0, 4.0, 0.0]]), np.array([5.0, 5.0])
    F = np.full((4, 1), begin)
    kernels.nnls.nnls(0, 1, A.T @ A, (A.T @ y - 1.0)[:, None], F)
    assert slow.nnls_violation(A.T @ A, A.T @ y - 1.0, F[:, 0]) < 1e-7


def test_it_never_ends_just_below_zero(kernels):
    """A support whose solution is negative by less than the rounding of the step that leads there."""
    F = np.ones((2, 1))
    kernels.nnls.nnls(0, 1, np.eye(2), np.array([[1.0], [-1e-20]]), F)
    np.testing.assert_array_equal(F, [[1.0], [0.0]])


def test_views_and_nothing(kernels):
    G, B = problem(5, 30, "random", 1)
    F, part = np.zeros((5, 10)), np.zeros((5, 30))
    kernels.nnls.nnls(0, 10, G, np.ascontiguousarray(B[:, 10:20]), F)
    kernels.nnls.nnls(0, 10, G, B[:, 10:20], part[:, 10:20])
    assert (part[:, 10:20] == F).all()
    assert not part[:, :10].any()
    assert not part[:, 20:].any()
    kernels.nnls.nnls(0, 0, np.zeros((0, 0)), np.zeros((0, 0)), np.zeros((0, 0)))
    kernels.nnls.nnls(0, 3, np.zeros((0, 0)), np.zeros((0, 3)), np.zeros((0, 3)))


def test_what_does_not_fit_is_refused(kernels):
    G, B = problem(4, 6, "random", 0)
    F = np.zeros((4, 6))
    nnls = kernels.nnls.nnls
    with pytest.raises(ValueError, match="shares memory"):
        nnls(0, 6, G, F, F)
    with pytest.raises(ValueError, match="range"):
        nnls(0, 7, G, B, F)
    with pytest.raises(ValueError, match="shape of F"):
        nnls(0, 6, G, B[:, :5], F)
    with pytest.raises(ValueError, match="r x r"):
        nnls(0, 6, G[:3, :3], B, F)
    with pytest.raises(TypeError, match="F has to be float64, and is float32"):
        nnls(0, 6, G, B, F.astype(np.float32))
    with pytest.raises(TypeError, match="contiguous"):
        nnls(0, 6, G, np.asfortranarray(B), F)
    F.flags.writeable = False
    with pytest.raises(TypeError, match="read-only"):
        nnls(0, 6, G, B, F)
