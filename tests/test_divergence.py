"""Beta divergences: the loss, its methods and its bounds against plain NumPy, scikit-learn, and each other."""

import itertools
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import non_negative_factorization
from sklearn.exceptions import ConvergenceWarning

import enmf
import problems
import slow
from enmf.api.registry import DESCENTS
from enmf.api.request import Request
from enmf.api.request import solve as solve_request
from enmf.certificate.words import SETTLED
from enmf.losses.divergence import Divergence
from enmf.losses.frobenius import Frobenius
from enmf.matrix.sweeps import EntrySteps
from enmf.problem.problem import Penalty, Problem, SidePenalty
from enmf.problem.state import State, best_pair
from enmf.problem.validation.arrays import check_problem
from enmf.problem.validation.masks import check_masked_problem
from enmf.run.options import Given, RunOptions
from enmf.run.run import run
from enmf.run.stopping import Stopping
from enmf.solvers.coordinate_newton import CoordinateNewton

BETAS = (0.0, 0.5, 1.0, 1.5)


def problem_of(X, beta, penalty=None):
    problem = replace(check_problem(X), loss=Divergence(beta))
    return replace(problem, penalty=penalty) if penalty is not None else problem


def counts(beta, n=60, m=40, rank=3, seed=0):
    """Counts of a Poisson model; without zeros for beta = 0."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(rng.gamma(1.0, 1.5, (n, rank)) @ rng.gamma(1.0, 1.0, (rank, m))).astype(float)
    return X + 0.5 if beta == 0.0 else X


def pair_for(X, rank, seed=0):
    rng = np.random.default_rng(seed)
    return tuple(np.sqrt(X.mean() / rank) * (rng.random((length, rank)) + 0.2) for length in X.shape)


def solve(problem, rank=3, method="e-hals", tol=1e-6, max_iter=2000, init="random", **options):
    stopping = Stopping(tol=tol, max_iter=max_iter)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        request = Request(method=method, init=init, random_state=0, stopping=stopping, options=options)
        return solve_request(problem, rank, request)


def plain_value(X, U, V, beta, W=1.0):
    W, M = np.broadcast_to(W, X.shape), np.maximum(U @ V.T, 1e-30 * X.max())
    return float((W * slow.divergence(X, M, beta))[W > 0].sum())


# Against others ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("beta", [*BETAS, 2.0])
def test_multiplicative_updates_are_those_of_scikit_learn(beta, store):
    X = counts(beta)
    U, V = pair_for(X, 3)
    problem = Problem(check_problem(store(X)).X, Frobenius() if beta == 2.0 else Divergence(beta))
    state = State(problem, U, V)
    for iteration in range(1, 11):
        DESCENTS["mu"].step(state, None, 0.0)
        if iteration not in (1, 3, 10):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            W, H, _ = non_negative_factorization(
                X,
                W=U.copy(),
                H=np.ascontiguousarray(V.T),
                n_components=3,
                init="custom",
                solver="mu",
                beta_loss=beta,
                tol=0.0,
                max_iter=iteration,
            )
        np.testing.assert_allclose(state.U, W, rtol=1e-10)
        np.testing.assert_allclose(state.V, H.T, rtol=1e-10)


@pytest.mark.parametrize("beta", BETAS)
def test_extrapolated_updates_follow_the_published_rule(beta):
    X = counts(beta)
    U, V = pair_for(X, 3)
    state, memory = State(problem_of(X, beta), U, V), DESCENTS["mu-e"].begin(None)
    exponent = 1.0 / (2.0 - beta) if beta < 1 else 1.0

    def update(X, F, C):
        M = F @ C.T
        return F * ((X * M ** (beta - 2)) @ C / (M ** (beta - 1) @ C)) ** exponent

    old, t = (U, V), 1.0
    for _ in range(8):
        before, (last, t) = (U, V), (t, (1 + np.sqrt(1 + 4 * t**2)) / 2)
        alpha = (last - 1) / t
        U = update(X, U + alpha * np.maximum(U - old[0], 0), V)
        V = update(X.T, V + alpha * np.maximum(V - old[1], 0), U)
        old = before
        DESCENTS["mu-e"].step(state, memory, 0.0)
        np.testing.assert_allclose(state.U, U, rtol=1e-9)
        np.testing.assert_allclose(state.V, V, rtol=1e-9)


def test_extrapolation_is_sooner_than_plain_updates():
    """For the losses for which convergence is proven."""
    for beta in (1.0, 1.5):
        X = counts(beta)
        plain, extrapolated = (solve(problem_of(X, beta), method=name, tol=0.0, max_iter=60) for name in ("mu", "mu-e"))
        assert extrapolated.error < plain.error


@pytest.mark.parametrize(("beta", "damped"), [(1.0, False), (1.0, True), (1.5, True)])
def test_coordinate_newton_steps_are_those_of_their_pseudo_code(beta, damped):
    X = counts(beta, 20, 12)
    U, V = pair_for(X, 3)
    problem = problem_of(X, beta, Penalty(SidePenalty(0.2, 0.1), SidePenalty(0.1, 0.3)))
    state = State(problem, U, V)
    for _ in range(3):
        CoordinateNewton(sweeps=2, damped=damped).step(state, None, 0.0)
        for rows, F, C, weights in ((X, U, V, (0.2, 0.1)), (X.T, V, U, (0.1, 0.3))):
            for i, x in enumerate(rows):
                row = slow.DivergenceRow(x, np.ones_like(x), C, beta, weights, X.max())
                F[i] = row.entry_sweep(row.entry_sweep(F[i], damped), damped)
        np.testing.assert_allclose(state.U, U, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(state.V, V, rtol=1e-6, atol=1e-9)


# Monotone methods ----------------------------------------------------------------------------------------------------


@st.composite
def small_problems(draw, betas=(0.0, 0.3, 0.5, 1.0, 1.2, 1.5, 1.9)):
    """Small matrices with zeros, rows of zeros, tiny and huge entries; a start without zeros, and one with some."""
    beta, rng = draw(st.sampled_from(betas)), np.random.default_rng(draw(st.integers(0, 10**6)))
    n, m, rank = draw(st.integers(1, 7)), draw(st.integers(1, 7)), draw(st.integers(1, 4))
    X = rng.poisson(1.0, (n, m)) * 10.0 ** rng.uniform(-1, 1, (n, m)) ** draw(st.sampled_from([1, 3]))
    X *= 10.0 ** (draw(st.sampled_from([0, 4])) * rng.uniform(-1, 1, (n, m)))
    X *= 10.0 ** draw(st.sampled_from([-20, 0, 20]))
    X[0, 0] = X.max(initial=0.0) or 1.0
    if beta == 0.0:
        X = np.where(X > 0, X, 1e-3 * X[X > 0].min())
    U, V = pair_for(X, rank, draw(st.integers(0, 100)))
    if rank > 1 and draw(st.booleans()):  # the loss stays finite
        U[:, 0] *= rng.random(n) < 0.5
    store = draw(st.sampled_from([np.asarray, sp.csr_array]))
    penalty = None
    if draw(st.booleans()):
        unit = X.sum() if beta == 1.0 else (X[X > 0] ** beta).sum()
        penalty = Penalty(*(SidePenalty(0.1 * unit / F.sum(), 0.1 * unit / (F**2).sum()) for F in (U, V)))
    return problem_of(store(X), beta, penalty), U, V


def check_falls(method, problem, U, V, steps=5):
    state = State(problem, U, V)
    memory, last = method.begin(state), state.objective()
    for _ in range(steps):
        method.step(state, memory, last)
        now = state.objective()
        assert np.isfinite(now)
        assert now <= last + 1e-11 * (abs(last) + problem.loss.mass(problem.X))
        last = now
        for F in (state.U, state.V):
            assert np.isfinite(F).all()
            assert F.min() >= 0


FALLING = [
    name
    for name, method in DESCENTS.items()
    if method.monotone and method.needs <= {"half-step", "terms", "single entries", "all rows"}
]


@pytest.mark.parametrize("name", FALLING)
@settings(max_examples=400, deadline=None)
@given(case=small_problems())
def test_a_monotone_method_never_raises_the_objective(name, case):
    check_falls(DESCENTS[name], *case)


@settings(max_examples=800, deadline=None)
@given(case=small_problems(betas=(1.0,)))
def test_damped_coordinate_newton_steps_never_raise_the_divergence_of_kullback_and_leibler(case):
    check_falls(DESCENTS["sn"], *case)


@settings(max_examples=300, deadline=None)
@given(case=small_problems())
def test_methods_that_may_rise_stay_finite(case):
    problem, U, V = case
    for name in ("e-hals", "mu-e", "ccd", "sn"):
        state = State(problem, U, V)
        memory = DESCENTS[name].begin(state)
        for _ in range(4):
            DESCENTS[name].step(state, memory, state.objective())
        assert np.isfinite(state.objective())
        assert min(state.U.min(), state.V.min()) >= 0


# What is measured ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("beta", [*BETAS, 0.7, 1.9])
def test_value_and_kkt_are_those_of_their_definitions(beta, store):
    X = counts(beta)
    U, V = pair_for(X, 4)
    U[:, 1] *= np.arange(60) % 3 > 0
    state = State(problem_of(store(X), beta), U, V)
    assert state.value() == pytest.approx(plain_value(X, U, V, beta), rel=1e-8)
    assert state.error() == pytest.approx(np.sqrt(2 * plain_value(X, U, V, beta)), rel=1e-8)
    assert state.kkt() == pytest.approx(slow.divergence_kkt(X, U, V, beta), rel=1e-8)


@pytest.mark.parametrize("beta", BETAS)
def test_penalties_are_part_of_the_gradient(beta):
    X = counts(beta)
    U, V = pair_for(X, 3)
    state = State(problem_of(X, beta, Penalty(SidePenalty(0.5, 0.3), SidePenalty(0.2, 0.0))), U, V)
    for half, rows, F, C, (l1, l2) in zip(state.halves, (X, X.T), (U, V), (V, U), ((0.5, 0.3), (0.2, 0.0))):
        M = F @ C.T
        D = (M ** (beta - 1) - rows * M ** (beta - 2)) @ C + l1 + l2 * F
        np.testing.assert_allclose(half.measure().squares, (D**2).sum(axis=0), rtol=1e-8)


@pytest.mark.parametrize("beta", BETAS)
def test_missing_and_weighted_entries(beta):
    X = counts(beta)
    rng = np.random.default_rng(1)
    U, V = pair_for(X, 3)
    gone, weights = rng.random(X.shape) < 0.3, rng.choice([0.5, 1.0, 2.0], X.shape)
    holes = np.where(gone, np.nan, X)
    stored = sp.csr_array(X)
    cases = {
        "dense, some missing": (check_masked_problem(holes), ~gone),
        "dense, most missing": (check_masked_problem(np.where(rng.random(X.shape) < 0.8, np.nan, X)), None),
        "dense, weighted": (check_masked_problem(holes, weights=weights), weights * ~gone),
        "sparse, unstored missing": (check_masked_problem(stored, "unstored"), X > 0),
        "sparse, some missing": (check_masked_problem(stored, sp.csr_array(gone)), ~gone),
    }
    for name, (masked, W) in cases.items():
        if W is None:
            W = np.zeros(X.shape)
            for i, j, _ in masked.X.observed_entries():
                W[i, j] = 1.0
        W = np.asarray(W, dtype=float)
        problem = replace(masked, loss=Divergence(beta), whole=None)
        unit = problem.units.value(problem.loss)
        factor = np.sqrt(problem.scale)
        state = State(problem, U / factor, V / factor)
        assert state.value() * unit == pytest.approx(plain_value(X, U, V, beta, W), rel=1e-8), name
        state_kkt = slow.divergence_kkt(X / problem.scale, U / factor, V / factor, beta, W / problem.units.weight)
        assert state.kkt() == pytest.approx(state_kkt, rel=1e-8), name
        before = state.value()
        for method in ("hals", "mu", "sn"):
            state.replace(np.asfortranarray(U / factor), np.asfortranarray(V / factor))
            DESCENTS[method].step(state, DESCENTS[method].begin(state), before)
            expected = plain_value(X, state.U * factor, state.V * factor, beta, W)
            assert state.value() * unit == pytest.approx(expected, rel=1e-8), (name, method)
            assert state.value() < before, (name, method)


@pytest.mark.parametrize("beta", BETAS)
def test_completion_ends_at_a_stationary_point(beta):
    X = counts(beta)
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    problem = replace(check_masked_problem(X), loss=Divergence(beta), whole=None)
    result = solve(problem, method="masked-scd", tol=1e-5)
    assert result.status == "converged"
    W = np.isfinite(X).astype(float)
    assert slow.divergence_kkt(np.where(W > 0, X, 1.0), result.U, result.V, beta, W) <= 1.1e-5


# Bounds --------------------------------------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(case=small_problems(betas=(1.0, 1.3)), steps=st.integers(0, 5))
def test_no_factor_gains_more_than_the_gap_of_its_block(case, steps):
    problem, U, V = case
    problem = Problem(problem.X, problem.loss)
    for side in (0, 1):
        state = State(problem, U, V)
        for _ in range(steps):
            DESCENTS["hals"].step(state, DESCENTS["hals"].begin(state), 0.0)
        before, half = state.value(), state.halves[side]
        gap = problem.loss.block_gap(half)
        assert gap >= 0
        problem.loss.solve(half)
        assert before - state.value() <= gap * (1 + 1e-9) + 1e-11 * (problem.loss.mass(problem.X) + before)


def test_the_gap_closes_at_the_optimum_of_a_block():
    for beta in (1.0, 1.3):
        X = counts(beta)
        state = State(problem_of(X, beta), *pair_for(X, 3))
        first = state.problem.loss.block_gap(state.halves[0])
        state.problem.loss.solve(state.halves[0])
        assert state.problem.loss.block_gap(state.halves[0]) < 1e-6 * first


# Units, storage, precision -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["e-hals", "hals", "mu", "mu-e", "sn"])
@pytest.mark.parametrize("beta", BETAS)
def test_scaling_changes_units_only(beta, method):
    X = counts(beta)
    base = solve(problem_of(X, beta), method=method, tol=1e-4, max_iter=100)
    for power in (-20, 20):
        scaled = solve(problem_of(X * 2.0**power, beta), method=method, tol=1e-4, max_iter=100)
        assert (scaled.n_iter, scaled.status) == (base.n_iter, base.status)
        np.testing.assert_allclose(scaled.U / 2.0 ** (power / 2), base.U, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(scaled.V / 2.0 ** (power / 2), base.V, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("beta", BETAS)
def test_units_far_from_one_change_nothing(beta):
    X = counts(beta)
    base = solve(problem_of(X, beta), max_iter=20, tol=0.0)
    for power in (-200, 200):
        scaled = solve(problem_of(X * 2.0**power, beta), max_iter=20, tol=0.0)
        np.testing.assert_allclose(scaled.U / 2.0 ** (power / 2), base.U, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("method", ["e-hals", "mu", "mu-e", "ccd", "sn"])
@pytest.mark.parametrize("beta", BETAS)
def test_sparse_equals_dense(beta, method):
    if (beta, method) in ((0.0, "ccd"), (0.5, "ccd")):
        pytest.skip("bare Newton steps diverge here, and rounding with them")
    X = counts(beta)
    dense, sparse = (
        solve(problem_of(store(X), beta), method=method, max_iter=15) for store in (np.asarray, sp.csr_array)
    )
    assert sparse.error == pytest.approx(dense.error, rel=1e-9)
    np.testing.assert_allclose(sparse.U, dense.U, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("method", ["e-hals", "mu", "sn"])
@pytest.mark.parametrize("beta", BETAS)
def test_single_precision_is_near_double(beta, method):
    X = counts(beta)
    double, single = (solve(problem_of(X.astype(dtype), beta), method=method, max_iter=15) for dtype in "df")
    assert single.U.dtype == np.float32
    assert single.error == pytest.approx(double.error, rel=1e-3)
    first, last = pair_for(X, 3), (single.U.astype(float), single.V.astype(float))
    assert single.error == pytest.approx(np.sqrt(2 * plain_value(X, *last, beta)), rel=1e-4)
    assert single.error < np.sqrt(2 * plain_value(X, *first, beta))


# Runs ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", BETAS)
def test_one_factor_is_solved_for_to_optimality(beta):
    X = counts(beta)
    problem = problem_of(X, beta)
    _, V = pair_for(X, 3)
    U, V = best_pair(problem, V.T)
    for i, x in enumerate(X):
        assert slow.DivergenceRow(x, np.ones_like(x), V, beta).violation(U[i]) < 1e-6
    again, _ = best_pair(problem, V.T)
    assert (again == U).all()


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("beta", BETAS)
def test_the_exterior_start_and_the_default_descent_end_at_a_kkt_point(beta, store):
    X = counts(beta)
    found = solve(problem_of(store(X), beta), method="enmf", init=None, tol=1e-5, max_iter=5000)
    assert found.status == "converged"
    assert found.certificate.stationary
    assert slow.divergence_kkt(X, found.U, found.V, beta) <= 1.01e-5
    assert found.error == pytest.approx(np.sqrt(2 * plain_value(X, found.U, found.V, beta)), rel=1e-8)
    other = solve(problem_of(store(X), beta), method="mu", max_iter=200)
    assert found.error <= 1.001 * other.error


@pytest.mark.parametrize("name", [name for name in DESCENTS if "normal equations" not in DESCENTS[name].needs])
def test_every_method_that_is_offered_descends(name):
    X = counts(1.0)
    problem = problem_of(X, 1.0)
    if not DESCENTS[name].needs <= problem.loss.offers(problem.X):
        pytest.skip("not offered for this loss")
    start = Given(*pair_for(X, 3))
    result = run(problem, RunOptions(3, DESCENTS[name], start, name, stopping=Stopping(tol=0.0, max_iter=40)))
    errors = [row.error for row in result.trace.of("descent")]
    assert errors[-1] < 0.9 * errors[0]
    if name in FALLING:
        assert all(b <= a * (1 + 1e-9) for a, b in itertools.pairwise(errors))


def test_options_of_coordinate_newton_steps_reach_the_kernel():
    X = counts(1.0)
    state, by_hand = (State(problem_of(X, 1.0), *pair_for(X, 3)) for _ in range(2))
    replace(DESCENTS["ccd"], sweeps=3, damped=True).step(state, None, 0.0)
    for half in by_hand.halves:
        half.loss.entry_steps(half, EntrySteps(3, True))
    assert (state.V == by_hand.V).all()
    found = [solve(problem_of(X, 1.0), method="ccd", max_iter=3, sweeps=s).error for s in (1, 4)]
    assert found[0] != found[1]
    with pytest.raises(TypeError, match="damped"):
        solve(problem_of(X, 1.0), method="ccd", damped=2)


def test_zeros_of_a_sparse_matrix_need_not_be_listed_for_kullback_and_leibler():
    X = sp.csr_array(problems.counts())
    assert Divergence(1.0).step_flops(check_problem(X).X, 3) < Divergence(1.5).step_flops(check_problem(X).X, 3)


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 1.5])
def test_a_default_run_ends_when_going_on_would_gain_next_to_nothing(beta):
    rng = np.random.default_rng(0)
    X = rng.poisson(rng.gamma(0.5, 1.0, (150, 5)) @ rng.gamma(0.5, 3.0, (5, 40))) + (0.5 if beta == 0.0 else 0.0)
    usual, long = (
        enmf.factorize(X, 5, loss=beta, random_state=0, restarts=0, **options)
        for options in ({}, {"tol": 1e-8, "max_iter": 3000})
    )
    assert usual.status in ("settled", "converged")
    assert usual.n_iter < long.n_iter
    assert long.loss <= usual.loss <= 1.0005 * long.loss
    if usual.status == "settled":
        assert usual.certificate.left <= 3 * SETTLED
    else:
        assert usual.certificate.kkt <= 1e-5
