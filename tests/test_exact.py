"""Exact factorizations: transforms to known and unknown factors, separability."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import enmf
import problems
import slow
from enmf.datasets import make_exact
from enmf.geometry.exact.admm import GeneralAdmm, positive_root
from enmf.geometry.exact.newton import refine
from enmf.geometry.exact.orthant import _Best
from enmf.geometry.exact.relation import Transform
from enmf.linalg.rotation import spread

SEEDS = st.integers(0, 10**6)


def negative_sum(U, V):
    return -np.minimum(U, 0).sum() - np.minimum(V, 0).sum()


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS, rank=st.integers(1, 6))
def test_the_way_from_the_svd_to_known_factors(seed, rank):
    X, U0, V0 = make_exact(20, 15, rank, 0.2, random_state=seed)
    if np.linalg.matrix_rank(X, tol=1e-6) < rank:
        return
    U, V = enmf.exact.svd_factors(X, rank)
    found = enmf.exact.relate((U, V), (U0, V0))
    np.testing.assert_allclose(found.R1 @ found.R1.T, np.eye(rank), atol=1e-12)
    np.testing.assert_allclose(found.R2 @ found.R2.T, np.eye(rank), atol=1e-12)
    assert (found.L > 0).all()
    # eq. gen_4 as printed
    P, s, _ = np.linalg.svd(X)
    printed = (P[:, :rank] / np.sqrt(s[:rank])).T @ U0
    np.testing.assert_allclose(np.abs(found.A), np.abs(printed), atol=1e-8)  # an SVD leaves its signs open
    np.testing.assert_allclose(U @ found.A, U0, atol=1e-8)
    np.testing.assert_allclose(V @ found.inverse_transpose, V0, atol=1e-8)
    assert max(found.delta_u, found.delta_v) < 1e-8


def test_factors_of_another_product_are_not_explained():
    _, U, V = make_exact(20, 15, 4, random_state=0)
    _, U2, V2 = make_exact(20, 15, 4, random_state=1)
    found = enmf.exact.relate((U, V), (U2, V2))
    assert found.delta_u > 0.1
    with pytest.raises(ValueError, match="linearly dependent"):
        enmf.exact.relate((np.zeros((20, 4)), V), (U2, V2))


@settings(max_examples=100, deadline=None)
@given(seed=SEEDS, power=st.integers(-20, 20))
def test_the_quartic_is_solved_for_all_columns_at_once(seed, power):
    rng = np.random.default_rng(seed)
    a, d = rng.random((2, 8)) * 10.0**power + 1e-30
    b, c = rng.standard_normal((2, 8)) * 10.0**power
    start = np.exp(rng.standard_normal(8))
    x = positive_root(a, b, c, d, start)
    for k in range(8):
        roots = np.roots([a[k], -b[k], 0, c[k], -d[k]])
        real = roots[(np.abs(roots.imag) < 1e-6 * np.abs(roots)) & (roots.real > 0)].real
        assert np.abs(real - x[k]).min() <= 1e-6 * x[k]
    nothing = np.zeros(8)
    assert (positive_root(nothing, b, c, d, start) == start).all()


def test_the_admm_equals_the_printed_algorithm():
    X, _, _ = make_exact(20, 15, 4, 0.3, random_state=0)
    U, V = enmf.exact.svd_factors(X, 4)
    run = GeneralAdmm(U, V, spread(4), rho=1.3, gamma=0.8, t=1.1)
    for _ in range(8):
        run.step()
    R1, lam, R2 = slow.general_admm(U, V, spread(4), 1.3, 0.8, 1.1, 8)
    np.testing.assert_allclose(run.A, (R1 * lam) @ R2, atol=1e-8)


@pytest.mark.parametrize(("n", "m", "rank"), [(50, 40, 10), (100, 80, 20)])
@pytest.mark.parametrize("sparsity", [0.1, 0.3])
def test_a_cold_start_reaches_the_orthant(n, m, rank, sparsity):
    X, _, _ = make_exact(n, m, rank, sparsity, random_state=3)
    found = enmf.exact.transform_to_orthant(*enmf.exact.svd_factors(X, rank), kind="general")
    assert found.relative_distance < 1e-10
    assert found.distance == pytest.approx(negative_sum(found.U, found.V), abs=1e-12)
    np.testing.assert_allclose(found.U @ found.V.T, X, atol=1e-9)
    certificate = enmf.certify(X, np.maximum(found.U, 0), np.maximum(found.V, 0))
    assert certificate.exact


@settings(max_examples=15, deadline=None)
@given(seed=SEEDS, sparsity=st.sampled_from([0.0, 0.2, 0.5]), rank=st.integers(1, 6))
def test_general_is_never_farther_than_rotation(seed, sparsity, rank):
    rng = np.random.default_rng(seed)
    X = make_exact(15, 12, rank, sparsity, random_state=seed)[0] + 0.3 * rng.random((15, 12))
    U, V = enmf.exact.svd_factors(X, rank)
    rotation = enmf.exact.transform_to_orthant(U, V, "rotation", max_iter=120)
    general = enmf.exact.transform_to_orthant(U, V, "general", max_iter=300)
    assert general.distance <= rotation.distance
    for found in (rotation, general):
        np.testing.assert_allclose(found.U @ found.V.T, U @ V.T, atol=1e-8)
        np.testing.assert_allclose(U @ found.transform.A, found.U, atol=1e-9)
        np.testing.assert_allclose((found.R1 * found.L) @ found.R2.T, found.transform.A)
    assert np.abs(rotation.L - 1).max() == 0
    np.testing.assert_allclose(rotation.R2 @ rotation.R2.T, np.eye(rank), atol=1e-10)


@pytest.mark.parametrize("power", [-40, 30])
def test_units_and_transposition_do_not_matter(power):
    X, _, _ = make_exact(30, 20, 5, 0.2, random_state=1)
    U, V = enmf.exact.svd_factors(X, 5)
    base = enmf.exact.transform_to_orthant(U, V, max_iter=400)
    c = 2.0**power
    scaled = enmf.exact.transform_to_orthant(U * c, V * c, max_iter=400)
    np.testing.assert_array_equal(scaled.U, base.U * c)
    one_sided = enmf.exact.transform_to_orthant(U * c, V, max_iter=400)
    assert one_sided.relative_distance <= 1e-10
    swapped = enmf.exact.transform_to_orthant(V, U, max_iter=400)
    assert swapped.relative_distance <= 1e-10


def test_signs_zero_columns_and_rank_one():
    u, v = np.array([[1.0], [2.0], [0.0]]), np.array([[3.0], [1.0]])
    for kind in ("rotation", "general"):
        found = enmf.exact.transform_to_orthant(-u, -v, kind)
        assert found.distance == 0.0
        assert found.nonnegative
    X, _, _ = make_exact(12, 10, 3, random_state=0)
    U, V = (np.pad(F, ((0, 0), (0, 2))) for F in enmf.exact.svd_factors(X, 3))
    found = enmf.exact.transform_to_orthant(U, V, max_iter=300)
    assert np.isfinite(found.distance)
    np.testing.assert_allclose(found.U @ found.V.T, X, atol=1e-8)
    zero = enmf.exact.transform_to_orthant(np.zeros((4, 2)), np.zeros((3, 2)))
    assert zero.distance == 0.0


def test_an_approximate_factorization_becomes_an_exact_one():
    X, U0, V0 = make_exact(60, 50, 6, 0.4, random_state=0)
    rough = enmf.factorize(X, 6, "hals", init="random", random_state=0, target_error=0.01 * np.linalg.norm(X))
    assert rough.certificate.relative_error > 1e-4
    U, V = enmf.exact.svd_factors(X, 6)
    found = enmf.exact.transform_to_orthant(U, V, start=rough, max_iter=0)
    assert found.nonnegative
    assert found.iterations == 0
    assert enmf.compare((U0, V0), found, X).verdict == "E"
    with pytest.raises(ValueError, match="need kind='general'"):
        enmf.exact.transform_to_orthant(U, V, "rotation", start=rough)
    with pytest.raises(ValueError, match="linearly dependent"):
        enmf.exact.transform_to_orthant(U, V, start=(np.ones((60, 6)), V0))


def test_newton_steps_finish_from_the_right_basin():
    X, U0, V0 = make_exact(60, 50, 6, 0.4, random_state=0)
    U, V = enmf.exact.svd_factors(X, 6)
    near = enmf.exact.relate((U, V), (U0, V0)).A
    near = near @ (np.eye(6) + 0.02 * np.random.default_rng(0).standard_normal((6, 6)))
    before = Transform.of(near).apply(U, V)
    A, steps = refine(U, V, near)
    after = Transform.of(A).apply(U, V)
    assert negative_sum(*before) > 0.1
    assert negative_sum(*after) < 1e-10
    assert steps <= 10
    assert enmf.compare((U0, V0), after).verdict == "E"


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("side", ["rows", "columns"])
def test_separable_data_are_recognised_and_solved(store, side):
    rng = np.random.default_rng(0)
    U = np.vstack([rng.random((10, 4)), np.diag([1.0, 5.0, 0.1, 2.0]), rng.random((20, 4))])
    V = rng.random((12, 4))
    X = U @ V.T
    X[5] = 0
    X = store(X if side == "rows" else X.T.copy())
    found = enmf.exact.separability(X, 4)
    assert found.separable
    assert (found.side, found.anchors) == (side, (10, 11, 12, 13))
    assert found.relative_error < 1e-12
    result = enmf.factorize(X, 4, "hals", init="spa", random_state=0)
    assert result.certificate.relative_error < 1e-8
    assert result.n_iter <= 2


def test_rows_near_a_corner_already_taken_are_not_picked():
    U = np.vstack([np.eye(4), [[1, 0.05, 0, 0], [1, 0, 0.05, 0], [1, 0, 0, 0.05]]])
    V = np.random.default_rng(0).random((12, 4)) + 1.0
    V[:, 0] = 1e-3
    V[0, 0] = 50.0  # its row is the longest one by far, and so are its neighbours
    found = enmf.exact.separability(U @ V.T, 4)
    assert found.anchors == (0, 1, 2, 3)


def test_the_best_transform_is_kept():
    X, _, _ = make_exact(20, 15, 4, 0.3, random_state=0)
    U, V = enmf.exact.svd_factors(X, 4)
    best = _Best(U, V, spread(4))
    before = best.distance
    best.offer(np.eye(4))  # the SVD itself: far outside
    assert best.distance == before
    best.offer(enmf.exact.transform_to_orthant(U, V).transform.A)
    assert best.distance < 1e-9 < before


def test_data_that_are_not_separable_are_named_so():
    X, _, _ = make_exact(40, 30, 5, 0.1, random_state=0)
    assert not enmf.exact.separability(X, 5).separable
    assert not enmf.exact.separability(problems.dense(), 5).separable
    assert enmf.exact.separability(np.ones((4, 3)), 3).separable  # one row does it all
    assert enmf.exact.separability(np.zeros((4, 3)), 2).separable


def test_bad_input_is_named():
    U, V = np.ones((5, 2)), np.ones((4, 2))
    with pytest.raises(ValueError, match="kind='other' is not known"):
        enmf.exact.transform_to_orthant(U, V, "other")
    with pytest.raises(ValueError, match=r"the same number of columns, got \(5, 2\) and \(2, 4\).*V = H.T"):
        enmf.exact.transform_to_orthant(U, V.T)
    with pytest.raises(ValueError, match="U has 1 entries that are NaN"):
        enmf.exact.transform_to_orthant(np.where(np.eye(5, 2) * [1, 0], np.nan, U), V)
    with pytest.raises(ValueError, match="2 dimensions"):
        enmf.exact.transform_to_orthant(U[0], V)
    with pytest.raises(TypeError, match="max_iter must be an integer"):
        enmf.exact.transform_to_orthant(U, V, max_iter=2.5)
    with pytest.raises(ValueError, match="different ranks, 2 and 1"):
        enmf.exact.relate((U, V), (U[:, :1], V[:, :1]))
    with pytest.raises(ValueError, match="rank must be at least 1"):
        enmf.exact.separability(U, 0)
