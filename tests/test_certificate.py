"""Certificates of any factors: figures, components, uniqueness."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import enmf
import problems
import slow
from enmf.certificate.uniqueness import uniqueness

SEEDS = st.integers(0, 10**6)


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, rank=st.integers(1, 6), dead=st.booleans(), store=st.sampled_from([np.asarray, sp.csr_array]))
def test_figures_agree_with_the_plain_transcription(seed, rank, dead, store):
    rng = np.random.default_rng(seed)
    X = rng.random((20, 15)) * (rng.random((20, 15)) < 0.7)
    U, V = (rng.random((length, rank)) * (rng.random((length, rank)) < 0.8) for length in (20, 15))
    if dead:
        U[:, 0] = 0
    c = enmf.certify(store(X), U, V)
    plain = slow.certificate(X, U, V)
    for name, value in plain.items():
        assert getattr(c, name) == pytest.approx(value, rel=1e-8, abs=1e-12), name
    assert c.relative_error == pytest.approx(plain["error"] / np.linalg.norm(X), rel=1e-8)


@pytest.mark.parametrize("fixed", ["U", "V"])
def test_a_fixed_factor_has_no_condition(fixed):
    X = problems.dense()
    result = enmf.factorize(X, 4, random_state=0, max_iter=3, tol=0)
    model = enmf.ENMF(4, max_iter=3, tol=0.0, random_state=0)
    W = model.fit_transform(X)  # W is optimal for H, H is not for W
    pair = (W, model.components_.T) if fixed == "V" else (model.components_.T, W)
    data = X if fixed == "V" else X.T
    assert not enmf.certify(data, *pair).stationary
    c = enmf.certify(data, *pair, fixed=fixed)
    assert c.stationary
    assert c.kkt < 1e-12
    assert f"fixed factor               {fixed}" in str(c)
    assert not enmf.certify(data, *pair, fixed="U" if fixed == "V" else "V").stationary
    with pytest.raises(ValueError, match="fixed='W' is not known"):
        enmf.certify(X, result.U, result.V, fixed="W")


def test_shares_sum_to_what_is_explained():
    X = problems.low_rank_noisy()
    result = enmf.factorize(X, 5, random_state=0, tol=1e-9)
    components = result.certificate.components
    assert sum(c.share for c in components) == pytest.approx(1 - result.certificate.relative_error**2, rel=1e-6)
    for c, u, v in zip(components, result.U.T, result.V.T):
        assert c.norm == pytest.approx(np.linalg.norm(u) * np.linalg.norm(v), rel=1e-10)
        assert c.share == pytest.approx(u @ X @ v / np.linalg.norm(X) ** 2, rel=1e-10)


def test_dead_and_duplicated_components_are_named():
    X, U, V = problems.unique_exact()
    U = np.column_stack([U, 2 * U[:, 1], np.zeros(12)])
    V = np.column_stack([V, np.random.default_rng(0).random(10), np.ones(10)])
    c = enmf.certify(X, U, V)
    assert c.dead_components == (4,)
    assert c.duplicated_components == (3,)
    assert c.components[3].duplicate_of == 1
    report = c.report()
    assert "        4 " in report  # people count from 1, data from 0
    assert "duplicate of 2" in report
    assert "dead components            5\n" in report
    assert "column 2 of U is contained in that of column 4" in enmf.certify(X, U[:, :4], V[:, :4]).report()
    plain = json.loads(json.dumps(c.to_dict()))
    assert plain["components"][4]["dead"] is True
    assert plain["uniqueness"]["verdict"] == "not unique"


@pytest.mark.parametrize("power", [-400, 400])
def test_units_scale_the_figures(power):
    X, U, V = problems.unique_exact()
    U = U + 0.1
    base, scaled = enmf.certify(X, U, V), enmf.certify(X * 2.0**power, U * 2.0**power, V)
    assert scaled.kkt == pytest.approx(base.kkt, rel=1e-9)
    for a, b in zip(base.components, scaled.components):
        assert b.norm == pytest.approx(a.norm * 2.0**power, rel=1e-9)
        assert b.share == pytest.approx(a.share, rel=1e-9)


def test_separable_factors_are_unique():
    _, U, V = problems.unique_exact()
    for pair in ((U, V), (V, U), (U[:, [2, 0, 1]] * [5, 1e-5, 1e5], V[:, [2, 0, 1]])):
        found = uniqueness(*pair)
        assert found.verdict == "unique"
        assert "removed" not in found.reason
    almost = uniqueness(U + 1e-12, V)
    assert almost.verdict == "unique"
    assert "once entries up to 1e-8" in almost.reason
    assert uniqueness(np.ones((4, 1)), np.array([[1.0], [0.0]])).verdict == "unique"  # rank one always is


def test_separability_of_one_factor_is_not_enough():
    _, U, _ = problems.unique_exact()
    V = np.random.default_rng(1).random((10, 3))
    V[0, 0] = V[1, 1] = V[2, 2] = 0  # no support within another, but one zero row each spans one of two dimensions
    assert uniqueness(U, V).verdict == "unknown"


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, rank=st.integers(2, 6), transposed=st.booleans())
def test_a_contained_support_comes_with_a_second_factorization(seed, rank, transposed):
    rng = np.random.default_rng(seed)
    U, V = (rng.random((length, rank)) * (rng.random((length, rank)) < 0.6) + 0.0 for length in (12, 9))
    U[0], V[0] = 1.0, 1.0  # nothing is dead
    k, j = rng.permutation(rank)[:2]
    U[:, k] *= U[:, j] > 0
    found = uniqueness(V, U) if transposed else uniqueness(U, V)
    assert found.verdict == "not unique"
    e = 0.5 * np.min(U[U[:, k] > 0, j] / U[U[:, k] > 0, k])
    U2, V2 = U.copy(), V.copy()
    U2[:, j] -= e * U[:, k]
    V2[:, k] += e * V[:, j]
    assert U2.min() >= -1e-15
    np.testing.assert_allclose(U2 @ V2.T, U @ V.T, atol=1e-12)
    turned = [F / np.linalg.norm(F) for F in (U[:, j], U2[:, j], V[:, k], V2[:, k])]
    assert max(np.abs(turned[0] - turned[1]).max(), np.abs(turned[2] - turned[3]).max()) > 1e-9


def test_uniqueness_is_never_claimed_of_factors_that_have_a_rival():
    """Two exact factorizations of one matrix: neither may be called unique."""
    X, _, _ = enmf.datasets.make_exact(50, 40, 10, 0.1, random_state=0)
    first, second = (
        enmf.exact.transform_to_orthant(*enmf.exact.svd_factors(X, 10), start=start) for start in ("spread", "identity")
    )
    assert enmf.compare(first, second).relation == "general"
    for found in (first, second):
        assert uniqueness(np.maximum(found.U, 0), np.maximum(found.V, 0)).verdict != "unique"


def test_dead_components_are_never_unique():
    _, U, V = problems.unique_exact()
    assert uniqueness(np.pad(U, ((0, 0), (0, 1))), np.pad(V, ((0, 0), (0, 1)))).verdict == "not unique"
    assert uniqueness(np.zeros((3, 2)), np.zeros((4, 2))).verdict == "unknown"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda U, V: (U[1:], V), r"U must have shape \(12, r\) for X of shape \(12, 10\), got \(11, 3\)"),
        (lambda U, V: (U, V[:, 1:]), r"V must have shape \(10, 3\)"),
        (lambda U, V: (-U, V), "U has .* negative entries"),
        (lambda U, V: (U, V * np.nan), "V has .* NaN or infinite"),
    ],
)
def test_bad_factors_are_named(change, message):
    X, U, V = problems.unique_exact()
    with pytest.raises(ValueError, match=message):
        enmf.certify(X, *change(U, V))


HOW = ("nan", "mask", "missing", "sparse mask", "unstored", "weights", "sparse weights")


@settings(max_examples=60, deadline=None)
@given(
    seed=SEEDS,
    how=st.sampled_from(HOW),
    ridge=st.sampled_from([0.0, 0.3, (0.2, 0.0)]),
    scaling=st.sampled_from(["entries", "none"]),
    fixed=st.sampled_from([None, "U", "V"]),
    share=st.sampled_from([0.1, 0.6]),
)
def test_masked_figures_agree_with_the_plain_transcription(seed, how, ridge, scaling, fixed, share):
    rng = np.random.default_rng(seed)
    X, seen = rng.random((20, 15)) * 1000, rng.random((20, 15)) >= share
    U, V = (rng.random((length, 3)) * (rng.random((length, 3)) < 0.8) + 0.0 for length in (20, 15))
    U[0], V[0] = 1.0, 1.0
    W = np.where(seen, rng.random((20, 15)) * 5 + 0.1, 0.0) if "weights" in how else seen.astype(float)
    rows, columns = np.nonzero(seen)
    stored = sp.csr_array((X[rows, columns], (rows, columns)), shape=X.shape)
    data, options = {
        "nan": (np.where(seen, X, np.nan), {}),
        "mask": (X, {"mask": seen}),
        "missing": (X, {"missing": ~seen}),
        "sparse mask": (sp.csr_array(X), {"mask": sp.csr_array(seen)}),
        "unstored": (stored, {"missing": "unstored"}),
        "weights": (X, {"weights": W}),
        "sparse weights": (stored, {"missing": "unstored", "weights": sp.csr_array(W)}),
    }[how]
    c = enmf.certify(data, U, V, ridge=ridge, ridge_scaling=scaling, fixed=fixed, **options)
    pair = ridge if isinstance(ridge, tuple) else (ridge, ridge)
    p, q = (
        value * (W.sum(axis=axis) if scaling == "entries" else np.ones(length))
        for value, axis, length in zip(pair, (1, 0), X.shape)
    )
    figures, shares = slow.masked_certificate(X, W, U, V, p, q, fixed)
    for name, value in figures.items():
        assert getattr(c, name) == pytest.approx(value, rel=1e-8), name
    assert [component.share for component in c.components] == pytest.approx(shares, rel=1e-8)
    assert c.lower_bound == 0.0


def test_certify_agrees_with_the_result_of_complete():
    X = problems.low_rank_noisy() * 2.0**300
    X[::3, ::2] = np.nan
    for options in ({}, {"ridge": 0.01 * 2.0**300}, {"weights": np.random.default_rng(0).random(X.shape)}):
        result = enmf.complete(X, 4, random_state=0, tol=1e-7, max_iter=5000, **options)
        own, c = result.certificate.to_dict(), enmf.certify(X, result.U, result.V, tol=1e-7, **options).to_dict()
        for name in ("error", "relative_error", "observed", "lower_bound"):
            assert c[name] == pytest.approx(own[name], rel=1e-7), name
        assert c["kkt"] == pytest.approx(own["kkt"], abs=1e-12)
        assert c["stationary"]
        assert [part["norm"] for part in c["components"]] == pytest.approx([part["norm"] for part in own["components"]])
        if "ridge" not in options:
            assert sum(part["share"] for part in c["components"]) == pytest.approx(1 - c["relative_error"] ** 2)
        assert f"observed entries           {int(np.isfinite(X).sum())}" in str(result.certificate)
        json.dumps(c)


def test_certify_of_a_masked_problem_guesses_nothing():
    X, U, V = problems.unique_exact()
    with pytest.raises(ValueError, match="say what its unstored entries are"):
        enmf.certify(sp.csr_array(X), U, V, ridge=0.1)
    with pytest.raises(ValueError, match="contains NaN"):
        enmf.certify(sp.csr_array(np.where(X > 1, np.nan, X)), U, V)
    with pytest.raises(ValueError, match="shape of X"):
        enmf.certify(X, U, V, mask=np.ones((2, 2), dtype=bool))
    complete = enmf.certify(X, U, V, mask=np.ones(X.shape, dtype=bool))
    assert complete == enmf.certify(X, U, V)
    assert complete.observed is None
