"""How solutions relate, and how many there are. Properties of `compare` and `stability`."""

import json
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import enmf
import problems
from enmf.geometry.equivalence import _Measured, _verdict, cosines, match
from paper import figures

SEEDS = st.integers(0, 10**6)
RANKS = st.integers(1, 8)


def factors(seed, rank, n=40, m=30, sparsity=0.3):
    rng = np.random.default_rng(seed)
    U, V = (rng.random((length, rank)) * (rng.random((length, rank)) >= sparsity) for length in (n, m))
    return rng, U, V


def orthogonal(rng, rank):
    return np.linalg.qr(rng.standard_normal((rank, rank)))[0]


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, rank=RANKS, power=st.integers(-30, 30))
def test_order_and_scale_are_recognised(seed, rank, power):
    rng, U, V = factors(seed, rank)
    order, scale = rng.permutation(rank), (1.1 + 0.8 * rng.random(rank)) * 2.0**power
    found = enmf.compare((U, V), ((U * scale)[:, order], (V / scale)[:, order]))
    moved = (order != np.arange(rank)).any()
    assert found.verdict == "E"
    assert (found.share_U, found.share_V) == (1.0, 1.0)
    assert found.relation == ("permutation and scaling" if moved else "scaling")
    assert found.permutation == tuple(np.argsort(order).tolist())
    assert max(found.transform.delta_u, found.transform.delta_v) < 1e-8
    for F, G in zip(found.aligned(), (U, V)):
        np.testing.assert_allclose(F, G, atol=1e-10)


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS, rank=RANKS)
def test_order_alone_and_nothing_at_all_are_named(seed, rank):
    _, U, V = factors(seed, rank)
    order = np.roll(np.arange(rank), 1)
    found = enmf.compare((U, V), (U[:, order], V[:, order]))
    assert found.relation == ("permutation" if rank > 1 else "same")
    same = enmf.compare((U, V), (U, V))
    assert (same.verdict, same.relation, same.product_difference < 1e-14) == ("E", "same", True)


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, rank=st.integers(2, 8), stretched=st.booleans())
def test_rotation_is_recognised(seed, rank, stretched):
    rng, U, V = factors(seed, rank)
    R = orthogonal(rng, rank)
    if np.abs(R).max(axis=0).min() > 0.9:
        return  # nearly a permutation
    scale = rng.permutation(np.geomspace(0.5, 2.0, rank)) if stretched else np.ones(rank)
    B = (U * scale @ R, V / scale @ R)
    for pair in (((U, V), B), (B, (U, V))):
        found = enmf.compare(*pair)
        assert found.verdict == "E"
        assert found.relation == ("scaling and rotation" if stretched else "rotation")
        assert max(found.transform.delta_u, found.transform.delta_v) < 1e-8
    np.testing.assert_allclose(found.transform.R1 @ found.transform.R1.T, np.eye(rank), atol=1e-10)


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, rank=st.integers(3, 8))
def test_a_general_mix_has_the_same_product_but_is_not_equivalent(seed, rank):
    rng, U, V = factors(seed, rank)
    A = orthogonal(rng, rank) * np.geomspace(1, 3, rank) @ orthogonal(rng, rank)
    found = enmf.compare((U, V), (U @ A, V @ np.linalg.inv(A).T))
    assert found.relation == "general"
    assert found.verdict == "NE"
    np.testing.assert_allclose(np.sort(found.transform.L), np.geomspace(1, 3, rank), rtol=1e-8)


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, rank=st.integers(2, 8))
def test_unrelated_factors_are_not_equivalent(seed, rank):
    _, U, V = factors(seed, rank)
    _, U2, V2 = factors(seed + 1, rank)
    found = enmf.compare((U, V), (U2, V2))
    assert (found.verdict, found.relation, found.transform) == ("NE", "none", None)


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS)
def test_one_joint_matching_sees_what_two_separate_ones_miss(seed):
    """Columns of U in one order and those of V in another: every column has a perfect partner, but no component has."""
    _, U, V = factors(seed, 5)
    found = enmf.compare((U, V), (U, np.roll(V, 1, axis=1)))
    assert cosines(U, U).max(axis=1).min() > 0.999
    assert found.verdict != "E"
    assert min(found.share_U, found.share_V) < 1.0


def test_equal_columns_of_one_factor_are_told_apart_by_the_other():
    _, U, V = factors(0, 4)
    U[:, 1] = U[:, 0]
    order = [1, 0, 3, 2]
    for A, B in (((U, V), (U[:, order], V[:, order])), ((V, U), (V[:, order], U[:, order]))):
        found = enmf.compare(A, B)
        assert found.permutation == (1, 0, 3, 2)
        assert found.verdict == "E"


def test_columns_that_agree_are_counted():
    _, U, V = factors(0, 6)
    U2, V2 = U.copy(), V.copy()
    U2[:, :2], V2[:, :2] = factors(9, 2)[1:]
    found = enmf.compare((U, V), (U2, V2))
    assert (found.verdict, found.share_U, found.share_V) == ("TE", 4 / 6, 4 / 6)
    U2[:, 2:4], V2[:, 2:4] = factors(10, 2)[1:]
    assert enmf.compare((U, V), (U2, V2)).verdict == "NE"


def test_a_stationary_point_does_not_tend_elsewhere():
    X = problems.low_rank_noisy(noise=0.5)
    runs = [enmf.factorize(X, 6, "e-hals", init="random", tol=1e-5, random_state=seed) for seed in range(6)]
    different = [(a, b) for a in runs for b in runs if enmf.compare(a, b, X).verdict != "E"]
    assert different  # otherwise this test is empty
    for a, b in different:
        found = enmf.compare(a, b, X)
        assert found.stationary_b
        assert found.verdict == "NE"


@pytest.mark.parametrize(("stationary", "verdict"), [(True, "NE"), (False, "TE"), (None, "TE")])
def test_who_has_arrived_does_not_tend(stationary, verdict):
    _, U, V = factors(0, 6)
    U2, V2 = U.copy(), V.copy()
    U2[:, :2], V2[:, :2] = factors(9, 2)[1:]
    assert _verdict(match((U, V), (U2, V2)), "none", _Measured(1.0, 1.0, True, stationary)) == verdict


def test_errors_decide_too():
    X, U, V = problems.unique_exact()
    near = (U * (1 + 0.02 * np.random.default_rng(0).random(U.shape)), V)
    found = enmf.compare((U, V), near, X)
    assert (found.share_U, found.share_V) == (1.0, 1.0)
    assert found.error_difference == pytest.approx(np.linalg.norm(X - near[0] @ near[1].T))
    assert not found.stationary_b
    assert found.verdict == "TE"
    assert enmf.compare((U, V), near).verdict == "E"  # without X nothing speaks against it


def test_other_ranks_zero_columns_and_transposition():
    _, U, V = factors(0, 4)
    fewer = enmf.compare((U, V), (U[:, 1:], V[:, 1:]))
    assert (fewer.share_U, fewer.verdict, fewer.permutation) == (0.75, "TE", (0, 1, 2))
    more = enmf.compare((U[:, 1:], V[:, 1:]), (U, V))
    assert more.permutation == (1, 2, 3, 0)
    dead = (np.column_stack([U, np.ones(40)]), np.column_stack([V, np.zeros(30)]))
    gone = (np.column_stack([np.zeros(40), U]), np.column_stack([np.ones(30), V]))
    assert enmf.compare(dead, gone).verdict == "E"
    forth, back = enmf.compare((U, V), (U[:, ::-1], V[:, ::-1])), enmf.compare((V, U), (V[:, ::-1], U[:, ::-1]))
    assert forth.relation == back.relation == "permutation"
    assert enmf.compare((np.zeros((4, 2)), np.zeros((3, 2))), (np.zeros((4, 2)), np.zeros((3, 2)))).verdict == "E"


def test_results_and_estimators_are_taken_too():
    X = problems.counts()
    result = enmf.factorize(X, 4, random_state=0)
    model = enmf.ENMF(4, random_state=0).fit(X)
    found = enmf.compare(result, model, X)
    assert found.verdict == "E"
    shown = str(found)
    assert "E (equivalent)" in shown
    assert "error of B - error of A" in shown
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["verdict"] == "E"
    assert len(plain["pairs"]) == 4
    with pytest.raises(ValueError, match="B: a fitted estimator keeps no W; pass X"):
        enmf.compare(result, model)


def test_bad_input_is_named():
    X, U, V = problems.unique_exact()
    with pytest.raises(TypeError, match="factors of A must be a pair"):
        enmf.compare(3, (U, V))
    with pytest.raises(TypeError, match="got ENMF, which is not fitted"):
        enmf.compare((U, V), enmf.ENMF())
    broken = V.copy()
    broken[2, 1] = np.nan
    with pytest.raises(ValueError, match="V of B has 1 entries that are NaN"):
        enmf.compare((U, V), (U, broken))
    with pytest.raises(ValueError, match=r"different shapes, \(12, 10\) and \(11, 10\)"):
        enmf.compare((U, V), (U[1:], V))
    with pytest.raises(ValueError, match=r"different shapes"):
        enmf.compare((U, V), (U, V), X[:, 1:])
    with pytest.raises(TypeError, match="U of A must be an array of numbers"):
        enmf.compare(("a", V), (U, V))


def test_pruning_removes_columns_whose_neighbourhood_differs():
    """Each column is near its partner, but the angles among B's columns are not those among A's."""
    base = np.linalg.qr(np.random.default_rng(0).standard_normal((60, 13)))[0]
    A, common = base[:, :12], base[:, 12:]
    B = A + 0.31 * common  # cosine with its partner 0.955, cosines among themselves 0.088 instead of 0
    found = match((A, A), (B, B))
    assert found.cosines_U.min() > 0.95
    assert found.share_U == 0.0
    assert match((A, A), (A, A)).share_U == 1.0


def test_stability_finds_one_minimum_where_there_is_one():
    X, U, V = problems.unique_exact()
    found = enmf.stability(X, 3, n_runs=6)
    assert len(found.minima) == 1
    assert found.minima[0].frequency == 1.0
    assert found.mean_agreement == 1.0
    assert enmf.compare((U, V), found.best, X).verdict == "E"


def test_stability_clusters_runs_and_does_not_depend_on_threads():
    X = problems.low_rank_noisy(noise=0.5)
    found, again = (enmf.stability(X, 6, n_runs=8, n_threads=k) for k in (1, 2))
    assert (found.errors == again.errors).all()
    assert (found.labels == again.labels).all()
    assert 1 < len(found.minima) <= 8
    assert sorted(run for minimum in found.minima for run in minimum.runs) == list(range(8))
    assert sum(minimum.frequency for minimum in found.minima) == pytest.approx(1.0)
    assert [m.error for m in found.minima] == sorted(m.error for m in found.minima)
    assert found.best.error == found.errors.min()
    assert (found.agreement == found.agreement.T).all()
    for k, minimum in enumerate(found.minima):
        assert (found.labels[list(minimum.runs)] == k).all()
        assert all(found.agreement[minimum.runs[0], run] == 1.0 for run in minimum.runs)
    assert "distinct minima" in str(found)
    assert json.loads(json.dumps(found.to_dict()))["n_minima"] == len(found.minima)
    with pytest.raises(ValueError, match="n_runs must be at least 1"):
        enmf.stability(X, 3, n_runs=0)


def test_figures_are_tidy_tables():
    rows = list(figures.distance_to_orthant([(20, 15, 4)], [0.3], max_iter=400))
    assert [row["kind"] for row in rows] == ["rotation", "general"]
    assert rows[1]["distance"] <= rows[0]["distance"]
    X = problems.counts()
    (row,) = figures.error_at_feasibility(X, [4], data="counts")
    assert row["bound"] <= row["final_error"] <= row["feasible_error"]
    assert row["increase"] == pytest.approx(row["feasible_error"] / row["final_error"] - 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = figures.columns_along_a_run(X, 4, "hals", init="exterior", points=5, max_iter=200)
    assert rows[-1]["share_U"] == rows[-1]["share_V"] == 1.0
    assert abs(rows[-1]["error_difference"]) < 1e-3 * rows[-1]["error"]


def test_against_data_that_are_all_zero():
    ones, zeros = (np.ones((3, 1)), np.ones((2, 1))), (np.zeros((3, 1)), np.zeros((2, 1)))
    X = np.zeros((3, 2))
    assert enmf.compare(ones, ones, X).stationary_b is False
    found = enmf.compare(ones, zeros, X)
    assert found.stationary_b
    assert found.error_a == pytest.approx(6**0.5)
