"""enmf.complete: known answers, independent certificates, invariances, and every bad input."""

import os
import signal
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import enmf
import problems
import slow
from enmf.api.registry import COMPLETIONS
from enmf.matrix.masked import from_observed
from enmf.problem.problem import Problem
from enmf.run.loop import descend
from enmf.run.monitor import Monitor
from enmf.run.stopping import Stopping
from enmf.run.walk import Walk


def low_rank(n=60, m=45, rank=3, share=0.5, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.random((n, rank)) @ rng.random((rank, m))
    return truth, rng.random(truth.shape) < share


def ratings(n=90, m=60, share=0.75, seed=0):
    """Integers 1..5 with structure; dense with NaN."""
    rng = np.random.default_rng(seed)
    truth = rng.random((n, 3)) @ rng.random((3, m)) * 3
    X = np.clip(np.rint(truth + 0.3 * rng.standard_normal(truth.shape)), 1, 5)
    X[rng.random(X.shape) < share] = np.nan
    return X


def as_sparse(X):
    rows, columns = np.nonzero(~np.isnan(X))
    return sp.csr_array((X[rows, columns], (rows, columns)), shape=X.shape)


def test_a_full_mask_is_a_factorization():
    X = problems.low_rank_noisy()
    whole = enmf.factorize(X, 4, random_state=0, tol=1e-7)
    for options in ({}, {"mask": np.ones(X.shape, dtype=bool)}, {"missing": "none"}):
        result = enmf.complete(X, 4, random_state=0, tol=1e-7, **options)
        assert result.error == pytest.approx(whole.error, rel=1e-6)
    sparse = enmf.complete(sp.csr_array(X), 4, missing="unstored", random_state=0, tol=1e-7)
    assert sparse.error == pytest.approx(whole.error, rel=1e-6)


@pytest.mark.parametrize("method", ["enmc", "masked-scd", "masked-e-scd"])
def test_the_masked_machinery_agrees_with_the_plain_one(method):
    X = problems.low_rank_noisy()
    rng = np.random.default_rng(0)
    init = rng.random((X.shape[0], 4)), rng.random((X.shape[1], 4))
    whole = enmf.factorize(X, 4, "e-hals", init=init, tol=1e-8, max_iter=20_000)
    masked = enmf.complete(X, 4, method, init=init, tol=1e-8, max_iter=20_000)
    assert masked.status == "converged"
    assert masked.error == pytest.approx(whole.error, rel=1e-6)


def test_with_all_entries_observed_the_pattern_does_not_matter():
    X = problems.low_rank_noisy()
    A = from_observed(sp.csr_array(X))
    rng = np.random.default_rng(0)
    U, V = rng.random((X.shape[0], 4)), rng.random((X.shape[1], 4))
    problem, stopping = Problem(A), Stopping(tol=1e-8)
    walk = Walk(problem, 4, COMPLETIONS["masked-e-scd"], Monitor(problem, stopping), rng, max_iter=20_000)
    walk.begin_at(U, V)
    descend(walk)
    whole = enmf.factorize(X, 4, "e-hals", init=(U, V), tol=1e-8, max_iter=20_000)
    assert walk.state.error() == pytest.approx(whole.error, rel=1e-6)


@pytest.mark.parametrize(("rank", "share"), [(3, 0.5), (5, 0.5), (5, 0.1)])
def test_missing_entries_of_an_exact_matrix_are_recovered(rank, share):
    truth, missing = low_rank(120, 90, rank, share)
    result = enmf.complete(np.where(missing, np.nan, truth), rank, random_state=0)
    assert result.status == "exact"
    difference = (result.U @ result.V.T - truth)[missing]
    assert np.linalg.norm(difference) <= 1e-6 * np.linalg.norm(truth[missing])


@pytest.mark.parametrize("feasibility", ["path", "penalty", "projection"])
def test_every_feasibility_stage_arrives(feasibility):
    truth, missing = low_rank(60, 45, 3, 0.5)
    result = enmf.complete(np.where(missing, np.nan, truth), 3, random_state=1, feasibility=feasibility)
    assert np.abs(result.U @ result.V.T - truth).max() <= 1e-4
    assert result.phases["softimpute"].iterations > 0
    assert result.phases["rotation"].iterations > 0


@pytest.mark.parametrize("scaling", ["entries", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ridge", [0.0, 0.05, (0.02, 0.2)])
def test_the_certificate_holds_up_to_an_independent_computation(scaling, weighted, ridge):
    X = ratings()
    observed = ~np.isnan(X)
    weights = np.where(observed, 1.0 + np.random.default_rng(0).random(X.shape), 0.0) if weighted else None
    result = enmf.complete(
        X, 3, weights=weights, ridge=ridge, ridge_scaling=scaling, random_state=0, tol=1e-6, max_iter=5000
    )
    W = observed * (weights if weighted else 1.0)
    W_unit = W / W[observed].mean()
    of_U, of_V = ridge if isinstance(ridge, tuple) else (ridge, ridge)
    if scaling == "entries":
        p, q = of_U * W_unit.sum(axis=1), of_V * W_unit.sum(axis=0)
    else:
        p, q = np.full(X.shape[0], of_U / W[observed].mean()), np.full(X.shape[1], of_V / W[observed].mean())
    kkt = slow.masked_kkt(np.nan_to_num(X), W_unit, result.U, result.V, p, q)
    assert result.status == "converged"
    assert result.certificate.kkt == pytest.approx(kkt, rel=1e-4, abs=1e-12)
    assert kkt <= 1e-6
    error = np.sqrt(np.nansum(W * (X - result.U @ result.V.T) ** 2))
    assert result.error == pytest.approx(error, rel=1e-9)
    assert result.trace[-1].error == pytest.approx(error, rel=1e-6)
    assert result.U.min() >= 0
    assert result.V.min() >= 0


def test_the_same_problem_in_every_form_has_the_same_answer():
    truth, missing = low_rank(50, 40, 3, 0.15)
    X = truth + 0.1 * np.random.default_rng(1).random(truth.shape)
    X[5, 6] = 0.0
    missing[5, 6] = False
    filled = np.where(missing, 0.0, X)
    forms = [
        (np.where(missing, np.nan, X), {}),
        (X, {"mask": ~missing}),
        (X, {"missing": missing}),
        (X, {"missing": sp.csr_array(missing)}),
        (sp.csr_array(filled), {"mask": ~missing}),
        (sp.coo_array(filled), {"mask": sp.csr_array(~missing)}),
        (sp.csr_array(filled), {"missing": sp.coo_array(missing)}),
        (sp.csc_array(np.where(missing, np.nan, X)), {"missing": "nan"}),
        (as_sparse(np.where(missing, np.nan, X)), {"missing": "unstored"}),
        (X, {"weights": (~missing).astype(float)}),
    ]
    found = [enmf.complete(A, 3, random_state=0, tol=1e-6, ridge=0.01, **how) for A, how in forms]
    for other in found[1:]:
        np.testing.assert_allclose(other.U, found[0].U, atol=1e-6)
        assert other.error == pytest.approx(found[0].error, rel=1e-9)


def test_unstored_is_missing_or_zero_as_said():
    X = as_sparse(ratings())
    missing = enmf.complete(X, 3, missing="unstored", random_state=0)
    zero = enmf.complete(X, 3, missing="none", random_state=0)
    assert zero.error == pytest.approx(enmf.factorize(X, 3, random_state=0, tol=1e-4, max_iter=1000).error, rel=1e-9)
    assert zero.error > 2 * missing.error


def test_weights_stand_for_repetition():
    X = ratings()
    plain = enmf.complete(X, 3, ridge=0.05, random_state=0, tol=1e-6)
    double = enmf.complete(X, 3, ridge=0.05, weights=np.full(X.shape, 2.0), random_state=0, tol=1e-6)
    np.testing.assert_allclose(double.U, plain.U, atol=1e-9)
    assert double.error == pytest.approx(np.sqrt(2) * plain.error, rel=1e-9)
    assert double.certificate.kkt == pytest.approx(plain.certificate.kkt, rel=1e-6)
    weights = np.ones(X.shape)
    weights[::7] = 0.0
    dropped = X.copy()
    dropped[::7] = np.nan
    with pytest.warns(UserWarning, match="13 of 90 rows"):
        a = enmf.complete(X, 3, ridge=0.05, weights=weights, random_state=0)
    with pytest.warns(UserWarning, match="13 of 90 rows"):
        b = enmf.complete(dropped, 3, ridge=0.05, random_state=0)
    np.testing.assert_allclose(a.V, b.V, atol=1e-9)
    assert (a.U[::7] == 0).all()


@pytest.mark.parametrize("method", enmf.completion_methods())
@pytest.mark.parametrize("seed", [0, 1])
def test_permuting_rows_permutes_the_answer(method, seed):
    X = ratings(seed=seed)
    order = np.random.default_rng(4).permutation(len(X))
    limits = (
        {"tol": 1e-8, "max_iter": 5000} if method != "adm" and method != "masked-mu" else {"tol": 0, "max_iter": 30}
    )
    options = {"ridge": 0.05, "random_state": seed, **limits}
    plain = enmf.complete(X, 3, method, **options)
    for permuted in (X[order], as_sparse(X[order])):
        missing = "unstored" if sp.issparse(permuted) else "nan"
        found = enmf.complete(permuted, 3, method, missing=missing, **options)
        np.testing.assert_allclose(found.U, plain.U[order], atol=1e-6)
        np.testing.assert_allclose(found.V, plain.V, atol=1e-6)


def test_the_exterior_start_does_not_know_the_order_of_the_rows():
    X = ratings()
    order = np.random.default_rng(4).permutation(len(X))
    plain, permuted = (enmf.complete(A, 3, random_state=0, max_iter=0, tol=0) for A in (X, X[order]))
    np.testing.assert_allclose(permuted.U, plain.U[order], atol=1e-9)
    np.testing.assert_allclose(permuted.V, plain.V, atol=1e-9)


@pytest.mark.parametrize("axis", [0, 1])
def test_permuting_both_sides_from_a_given_start(axis):
    X = ratings()
    order = np.random.default_rng(4).permutation(X.shape[axis])
    rng = np.random.default_rng(0)
    start = [rng.random((length, 3)) for length in X.shape]
    options = {"ridge": 0.05, "tol": 1e-8, "max_iter": 5000}
    factors = enmf.complete(X, 3, init=tuple(start), **options)
    start[axis] = start[axis][order]
    permuted = enmf.complete(np.take(X, order, axis), 3, init=tuple(start), **options)
    wanted = [factors.U, factors.V]
    wanted[axis] = wanted[axis][order]
    for F, G in zip((permuted.U, permuted.V), wanted):
        np.testing.assert_allclose(F, G, atol=1e-6)


@pytest.mark.parametrize("method", enmf.completion_methods())
def test_methods_share_one_contract(method):
    X = ratings()
    result = enmf.complete(X, 3, method, ridge=0.05, random_state=0, max_iter=60, tol=0.0)
    assert result.U.min() >= 0
    assert result.V.min() >= 0
    assert np.isfinite(result.U).all()
    descent = [row.error for row in result.trace.of("descent")]
    assert len(descent) == 61
    assert descent[-1] < (descent[0] if method != "enmc" else 1.01 * descent[0])
    again = enmf.complete(X, 3, method, ridge=0.05, random_state=0, max_iter=60, tol=0.0, n_threads=1)
    np.testing.assert_array_equal(again.U, result.U)
    scale = 4.0**12
    larger = enmf.complete(scale * X, 3, method, ridge=scale * 0.05, random_state=0, max_iter=60, tol=0.0)
    np.testing.assert_allclose(larger.U, np.sqrt(scale) * result.U, rtol=1e-9, atol=1e-9)
    assert larger.certificate.kkt == pytest.approx(result.certificate.kkt, rel=1e-6)


@pytest.mark.parametrize("scale", [1e-140, 1e140])
def test_extreme_units(scale):
    X = ratings()
    plain = enmf.complete(X, 3, ridge=0.05, random_state=0)
    extreme = enmf.complete(scale * X, 3, ridge=scale * 0.05, random_state=0)
    assert extreme.error == pytest.approx(scale * plain.error, rel=1e-6)


def test_masked_scd_and_mu_never_climb():
    X = ratings()
    for method in ("masked-scd", "masked-mu"):
        result = enmf.complete(X, 3, method, random_state=0, max_iter=40, tol=0.0)
        errors = np.array([row.error for row in result.trace])
        assert (np.diff(errors) <= 1e-9 * errors[0]).all()


def test_single_precision():
    X = ratings()
    double = enmf.complete(X, 3, ridge=0.05, random_state=0)
    single = enmf.complete(X.astype(np.float32), 3, ridge=0.05, random_state=0)
    assert single.U.dtype == np.float32
    assert single.status in ("converged", "stalled")
    assert single.error == pytest.approx(double.error, rel=1e-3)


def test_a_restart_from_a_solution_stops_at_once():
    X = ratings()
    first = enmf.complete(X, 3, ridge=0.05, random_state=0)
    assert enmf.complete(X, 3, ridge=0.05, init=(first.U, first.V)).n_iter <= 1


def test_a_sparse_matrix_is_never_made_dense():
    rng = np.random.default_rng(0)
    shape = (200_000, 100_000)  # 160 GB
    X = sp.coo_array(
        (rng.random(3000) + 1, (rng.integers(0, shape[0], 3000), rng.integers(0, shape[1], 3000))), shape=shape
    )
    X = sp.csr_array(X)
    with pytest.warns(UserWarning, match="rows and"):
        missing = enmf.complete(X, 2, missing="unstored", ridge=0.1, max_iter=2, tol=0.0, random_state=0)
    hole = sp.csr_array((np.ones(2, dtype=bool), ([3, 5], [4, 6])), shape=shape)
    zero = enmf.complete(X, 2, missing=hole, max_iter=2, tol=0.0, random_state=0)
    assert np.isfinite(missing.error)
    assert np.isfinite(zero.error)


def test_the_user_s_arrays_stay_as_they_are():
    X, weights = ratings(), np.ones((90, 60))
    kept = X.copy()
    enmf.complete(X, 3, weights=weights, random_state=0, max_iter=3, tol=0)
    np.testing.assert_array_equal(X, kept)
    S = as_sparse(X)
    data = S.data.copy()
    enmf.complete(S, 3, missing="unstored", random_state=0, max_iter=3, tol=0)
    np.testing.assert_array_equal(S.data, data)
    assert (weights == 1).all()


def test_a_callback_and_ctrl_c_end_a_run_with_the_best_factors():
    X = ratings()
    stopped = enmf.complete(X, 3, random_state=0, callback=lambda progress: progress.phase == "descent")
    assert stopped.status == "interrupted"

    def interrupt(progress):
        if progress.phase == "descent" and progress.iteration == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = enmf.complete(X, 3, random_state=0, tol=0.0, callback=interrupt)
    assert result.status == "interrupted"
    assert result.n_iter <= 5


def test_nothing_but_zeros():
    X = np.zeros((6, 5))
    X[0, 0] = np.nan
    result = enmf.complete(X, 2)
    assert result.error == 0
    assert (result.U == 0).all()


def test_a_stored_zero_is_observed():
    X = sp.csr_array((np.array([0.0, 2.0, 2.0]), ([0, 0, 1], [0, 1, 1])), shape=(2, 2))
    result = enmf.complete(X, 1, missing="unstored", ridge=0.1, ridge_scaling="none", random_state=0)
    assert result.V[0, 0] == 0.0
    assert result.V[1, 0] > 1.0


GOOD = ratings(12, 9, 0.3)
SPARSE = as_sparse(GOOD)
TWICE = sp.coo_array((np.ones(2), ([0, 0], [1, 1])), shape=(3, 3))
FULL, EMPTY = ({"missing": "unstored", "weights": sp.csr_array(W)} for W in (np.ones((12, 9)), np.zeros((12, 9))))
BAD = [
    ("sparse X without a choice", SPARSE, {}, ValueError, "say what its unstored entries are"),
    ("both missing and mask", GOOD, {"missing": "nan", "mask": ~np.isnan(GOOD)}, ValueError, "either missing or mask"),
    ("unknown word", GOOD, {"missing": "zero"}, ValueError, "'unstored'"),
    ("unstored for dense", GOOD, {"missing": "unstored"}, ValueError, "for sparse X"),
    ("mask of the wrong shape", GOOD, {"mask": np.ones((9, 12), dtype=bool)}, ValueError, r"shape of X, \(12, 9\)"),
    ("mask of numbers", GOOD, {"mask": np.ones((12, 9))}, TypeError, r"boolean matrix, got dtype float64.*astype"),
    ("mask of text", GOOD, {"mask": np.full((12, 9), "yes")}, TypeError, "boolean matrix"),
    ("mask for one row", GOOD, {"mask": np.ones(9, dtype=bool)}, ValueError, "shape of X"),
    ("NaN where the mask is true", GOOD, {"mask": np.ones((12, 9), dtype=bool)}, ValueError, "contains NaN.*mask="),
    ("NaN although nothing is missing", GOOD, {"missing": "none"}, ValueError, "contains NaN"),
    ("all NaN", np.full((4, 3), np.nan), {}, ValueError, "all 12 entries of X are missing"),
    ("mask all false", GOOD, {"mask": np.zeros((12, 9), dtype=bool)}, ValueError, "are missing"),
    ("nothing stored", sp.csr_array((4, 3)), {"missing": "unstored"}, ValueError, "are missing"),
    ("weights all zero", GOOD, {"weights": np.zeros((12, 9))}, ValueError, "weight 0"),
    ("negative weights", GOOD, {"weights": np.full((12, 9), -1.0)}, ValueError, "negative"),
    ("NaN weights", GOOD, {"weights": np.full((12, 9), np.nan)}, ValueError, "NaN or infinite"),
    ("weights of the wrong shape", GOOD, {"weights": np.ones((9, 12))}, ValueError, "shape of X"),
    ("weights of text", GOOD, {"weights": np.full((12, 9), "1")}, TypeError, "numbers"),
    ("weight outside the pattern", SPARSE, FULL, ValueError, "not observed"),
    ("rating without weight", SPARSE, EMPTY, ValueError, "have no weight"),
    ("sparse weights for dense X", GOOD, {"weights": sp.csr_array(np.ones((12, 9)))}, ValueError, "not observed"),
    ("negative entry", np.where(np.isnan(GOOD), np.nan, -GOOD), {}, ValueError, "Negative values"),
    ("infinite entry", np.where(np.isnan(GOOD), np.inf, GOOD), {}, ValueError, "infinity"),
    ("stored NaN", sp.csr_array(GOOD), {"missing": "unstored"}, ValueError, "contains NaN"),
    ("twice the same place", TWICE, {"missing": "unstored"}, ValueError, "more than once"),
    ("negative ridge", GOOD, {"ridge": -1.0}, ValueError, "ridge must be at least"),
    ("ridge of three", GOOD, {"ridge": (1.0, 1.0, 1.0)}, ValueError, "a pair"),
    ("ridge of text", GOOD, {"ridge": "much"}, TypeError, "ridge must be a number"),
    ("ridge scaling", GOOD, {"ridge_scaling": "rows"}, ValueError, "'entries'"),
    ("method", GOOD, {"method": "mu"}, ValueError, "'masked-mu'"),
    ("start", GOOD, {"init": "nndsvd"}, ValueError, "'exterior'"),
    ("start of the wrong shape", GOOD, {"init": (np.ones((3, 2)), np.ones((9, 2)))}, ValueError, "init U"),
    ("option", GOOD, {"power": 3}, TypeError, "'power'"),
    ("feasibility", GOOD, {"feasibility": "hope"}, ValueError, "'path'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("X", "options", "error", "message"), [case[1:] for case in BAD], ids=[case[0] for case in BAD]
)
def test_bad_input_is_named(X, options, error, message):
    with pytest.raises(error, match=message):
        enmf.complete(X, 2, **options)


def test_a_mask_of_numpy_is_what_is_missing():
    X = ratings()
    X[5, 7] = np.nan  # beside the mask
    hidden = np.isnan(X) | (np.arange(X.size).reshape(X.shape) % 11 == 0)
    covered = np.ma.masked_array(np.where(hidden, -1e6, X), mask=hidden.copy())
    covered.mask[5, 7], covered.data[5, 7] = False, np.nan
    expected = enmf.complete(np.where(hidden, np.nan, X), 3, ridge=0.05, random_state=0)
    for options in ({}, {"missing": "nan"}, {"missing": hidden}, {"mask": ~hidden}):
        result = enmf.complete(covered, 3, ridge=0.05, random_state=0, **options)
        np.testing.assert_array_equal(result.U, expected.U)
    certificate = enmf.certify(covered, expected.U, expected.V, ridge=0.05)
    assert certificate.error == pytest.approx(expected.error, rel=1e-9)
    model = enmf.ENMC(3, ridge=0.05, random_state=0).fit(covered)
    np.testing.assert_allclose(model.components_, expected.V.T, rtol=1e-6, atol=1e-9)
    assert model.score(covered) == pytest.approx(model.score(np.where(hidden, np.nan, X)))


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "boolean"])
def test_pandas_na_is_missing(dtype):
    full = np.arange(1, 61).reshape(10, 6) % (2 if dtype == "boolean" else 7)
    holes = np.arange(60).reshape(10, 6) % 8 == 3
    frame = pd.DataFrame(full).astype(dtype).mask(holes)
    expected = enmf.complete(np.where(holes, np.nan, full.astype(float)), 2, ridge=0.1, random_state=0)
    result = enmf.complete(frame, 2, ridge=0.1, random_state=0)
    np.testing.assert_array_equal(result.U, expected.U)
    with pytest.raises(ValueError, match="entries are NaN, the first at row 0, column 3"):
        enmf.factorize(frame, 2)


@pytest.mark.filterwarnings("ignore:6 of 9 rows")
def test_ranks_that_the_observations_cannot_carry():
    X = np.full((9, 8), np.nan)
    X[[0, 1, 2], [0, 1, 2]] = 1.0, 2.0, 3.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="rank 4 is above the number of observed entries, 3"):
            enmf.complete(X, 4)
    with pytest.warns(UserWarning, match="17 unknowns for 3 observed entries"):
        enmf.complete(X, 1, random_state=0)
    with pytest.warns(UserWarning, match="above min"):
        enmf.complete(GOOD, 10, ridge=0.1, random_state=0)
    with pytest.raises(ValueError, match="at least 1"):
        enmf.complete(GOOD, 0)
    with pytest.raises(TypeError, match="integer"):
        enmf.complete(GOOD, 2.5)


def test_rows_without_observation_are_zero_and_named_once():
    X = ratings()
    X[[3, 7]], X[:, 5] = np.nan, np.nan
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = enmf.complete(X, 3, ridge=0.05, random_state=0)
    cold = [str(w.message) for w in caught if "no observed entry" in str(w.message)]
    assert cold == ["2 of 90 rows and 1 of 60 columns have no observed entry; their factors are zero"]
    assert (result.U[[3, 7]] == 0).all()
    assert (result.V[5] == 0).all()
    assert result.status == "converged"


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 1.5])
def test_the_ridge_of_another_loss_has_the_unit_of_its_gradient(beta):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((30, 20)) < 0.2, np.nan, rng.gamma(1, 1, (30, 20)) + 0.1)
    one = enmf.complete(X, 2, loss=beta, ridge=0.05, random_state=0)
    for unit in (2.0**-150, 2.0**10, 2.0**200):
        other = enmf.complete(unit * X, 2, loss=beta, ridge=0.05 * unit ** (beta - 1), random_state=0)
        assert other.loss == pytest.approx(unit**beta * one.loss, rel=1e-6)
        np.testing.assert_allclose(other.U / np.sqrt(unit), one.U, rtol=1e-4, atol=1e-4 * one.U.max())
