"""Phases 2 and 3, and their order."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls
from sklearn.datasets import load_digits

import enmf
import problems
import slow
from enmf.datasets import make_synthetic
from enmf.exterior import feasibility
from enmf.exterior.core import lift, make_core
from enmf.exterior.plan import MEASURED, ExteriorOptions, Facts, Plan, plan_effort
from enmf.linalg.rotation import Turning, _Admm, negative_share, rotate, spread
from enmf.linalg.svd import truncated_svd
from enmf.matrix.dense import DenseMatrix
from enmf.matrix.lowrank import LowRankMatrix
from enmf.problem.problem import Problem
from enmf.problem.state import State
from enmf.solvers.hals import ExtrapolatedHALS


def factors(X, rank):
    return truncated_svd(DenseMatrix(X), rank, rng=np.random.default_rng(0)).factors(rank)


@pytest.mark.parametrize("start", ["identity", "spread", "random"])
def test_rotation_is_orthogonal_and_keeps_the_product(start):
    U, V = factors(problems.dense(), 6)
    found = rotate(U, V, Turning(start), np.random.default_rng(0))
    assert found.orthogonality_error < 1e-12
    np.testing.assert_allclose(U @ found.R @ (V @ found.R).T, U @ V.T, atol=1e-12)
    assert found.negative_mass <= found.negative_mass_before
    assert found.negative_mass == pytest.approx(negative_share(np.vstack([U, V]) @ found.R), abs=1e-14)


def test_rotation_equals_the_printed_algorithm():
    U, V = factors(problems.counts(), 5)
    W = np.vstack([U, V])
    W = np.ascontiguousarray(W / np.abs(W).mean())
    run = _Admm(W, np.eye(5), Turning(rho=1.3, adapt=False))
    for _ in range(12):
        run.advance()
    np.testing.assert_allclose(run.R, slow.admm_rotation(W, np.eye(5), 1.3, 12), atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(power=st.integers(-60, 60))
def test_rotation_does_not_depend_on_units(power):
    U, V = factors(problems.counts(), 4)
    base, scaled = rotate(U, V), rotate(U * 2.0**power, V * 2.0**power)
    assert (base.R == scaled.R).all()
    assert base.iterations == scaled.iterations


def test_spread_sends_the_leading_direction_to_all_ones():
    R = spread(7)
    np.testing.assert_allclose(R[0], np.full(7, 1 / np.sqrt(7)), atol=1e-15)
    np.testing.assert_allclose(R @ R.T, np.eye(7), atol=1e-14)


@pytest.mark.parametrize("name", feasibility.STAGES)
def test_feasibility_ends_nonnegative_and_near(name):
    X = problems.counts()
    U, V = factors(X, 5)
    R = rotate(U, V).R
    state = State(Problem(DenseMatrix(X)), U @ R, V @ R)
    clipped = np.linalg.norm(X - np.maximum(U @ R, 0) @ np.maximum(V @ R, 0).T)
    stage = feasibility.STAGES[name]
    memory = stage.begin(state)
    steps = 0
    while not stage.finished(state, memory):
        stage.step(state, memory, 0.0)
        steps += 1
        assert steps < 200
    assert state.U.min() >= 0
    assert state.V.min() >= 0
    error = state.error()
    assert error == pytest.approx(clipped) if name == "projection" else error < clipped


def test_penalty_never_steps_past_zero():
    F = np.asfortranarray([[-1.0, 2.0], [-0.05, -3.0]])
    feasibility.raise_negatives(F, 0.1)
    np.testing.assert_allclose(F, [[-0.9, 2.0], [0.0, -2.9]])


@pytest.mark.parametrize("snr", [60, 100])
def test_rotation_alone_reaches_the_global_optimum(snr):
    X = make_synthetic(200, 150, 60, snr, random_state=0)
    result = enmf.factorize(X, 6, random_state=0)
    assert result.status == "global_optimum"
    assert result.certificate.ratio <= 1 + 1e-6
    assert result.certificate.globally_optimal
    assert result.phases["feasibility"].iterations == result.phases["descent"].iterations == 0
    assert sum(p.passes for name, p in result.phases.items() if name not in ("svd", "certificate")) == 0
    assert result.error == pytest.approx(slow.bound(X, 6), rel=1e-6)


def test_rank_one_is_always_globally_optimal():
    for X in (problems.dense(), problems.counts()):
        assert enmf.factorize(X, 1).status == "global_optimum"


@pytest.mark.parametrize("surrogate", [True, False])
@pytest.mark.parametrize("stage", feasibility.STAGES)
def test_every_combination_ends_at_a_stationary_point(stage, surrogate):
    X = problems.counts()
    result = enmf.factorize(X, 5, feasibility=stage, surrogate=surrogate, random_state=0, tol=1e-6)
    assert result.status == "converged"
    assert slow.kkt(X, result.U, result.V) <= 1e-6 * 1.001


def test_the_paper_preset():
    X = problems.counts()
    result = enmf.factorize(X, 4, preset="paper", max_iter=20_000, tol=1e-5)
    assert result.rotation.start == "identity"
    assert "surrogate" not in result.phases
    assert result.status == "converged"
    assert enmf.factorize(X, 4, preset="paper", rotation="spread", max_iter=20_000).rotation.start == "spread"


def test_a_bad_minimum_of_low_rank_data_is_left_by_another_start():
    """The certificate of exactly low-rank data says when a much better factorization exists."""
    X, _, _ = problems.unique_exact()
    result = enmf.factorize(X, 3, random_state=0)
    assert result.status == "exact"
    assert result.certificate.relative_error <= 1e-8


def test_small_data_are_given_further_starts_and_the_best_one_is_kept():
    X = load_digits().data
    found = enmf.factorize(X, 20, random_state=1, bound=False, restarts=3)
    once = enmf.factorize(X, 20, random_state=1, bound=False, restarts=0)
    first, further = (list(found.trace.of(phase)) for phase in ("descent", "restart"))
    ends = [row.error for row, after in itertools.pairwise([*first, *further]) if after.iteration == 0]
    assert len(ends) == 3
    ends.append(further[-1].error)
    assert found.error == pytest.approx(min(ends), rel=1e-9)
    assert found.error <= once.error
    for result in (once, enmf.factorize(X, 5, "hals", init="exterior", random_state=0)):
        assert "restart" not in result.phases


def test_as_many_rotations_as_wanted():
    rng = np.random.default_rng(0)
    X = rng.random((300, 400)) * (rng.random((300, 400)) < 0.02)
    for wanted in (0, 7):
        options = {"rotation_iterations": wanted, "rotation": "spread"}
        result = enmf.factorize(X, 60, random_state=0, restarts=0, max_iter=3, tol=0, **options)
        assert result.phases["rotation"].iterations == wanted


def test_factors_of_the_core_become_nearly_optimal_factors_of_all_rows_in_two_passes():
    rng = np.random.default_rng(0)
    true_U, true_V = (rng.random((n, 3)) * (rng.random((n, 3)) < 0.6) for n in (2500, 1800))
    X = DenseMatrix(true_U @ true_V.T + 0.01 * rng.random((2500, 1800)))
    A, B = truncated_svd(X, 3, oversampling=2, rng=rng).factors(5)
    core = make_core(LowRankMatrix(A, B), X.dtype, 0.0, rng, MEASURED)
    assert core.shape[0] < 2500
    assert core.shape[1] < 1800
    state = State(Problem(core), *(rng.random((n, 3)) for n in core.shape))
    descent = ExtrapolatedHALS()
    memory = descent.begin(state)
    for _ in range(300):
        descent.step(state, memory, state.objective())
    before = X.passes
    U, V = lift(state, core, B, X)
    assert X.passes - before == 2
    assert U.min() >= 0
    assert V.min() >= 0
    best = np.array([nnls(U, X.array[:, j])[0] for j in range(0, 1800, 60)])
    np.testing.assert_allclose(V[::60], best, atol=1e-6 * best.max())
    for found, true in ((U, true_U), (V, true_V)):
        cosines = (found / np.linalg.norm(found, axis=0)).T @ (true / np.linalg.norm(true, axis=0))
        assert cosines.max(axis=1).min() > 0.99


def test_factors_of_a_core_with_all_rows_are_those_of_X():
    X = DenseMatrix(problems.dense())
    A, B = factors(X.array, 6)
    core = make_core(LowRankMatrix(A, B), X.dtype, np.inf, np.random.default_rng(0), MEASURED)
    np.testing.assert_array_equal(core.A, A)
    state = State(Problem(core), np.abs(A), np.abs(B))
    before = X.passes
    U, _ = lift(state, core, B, X)
    assert X.passes - before == 2
    best = np.array([nnls(np.abs(B), row)[0] for row in X.array])
    assert np.linalg.norm(X.array - U @ np.abs(B).T) <= 1.01 * np.linalg.norm(X.array - best @ np.abs(B).T)


def test_rotation_decides_on_nearly_exact_data_and_near_the_orthant():
    """Decisions are functions of facts: no matrix is needed to test them."""

    def decides(error, mass):
        facts = Facts(error, mass, exact=True, core_cost=0.1, step_flops=1e10)
        return plan_effort(facts, ExteriorOptions(), MEASURED, Plan()).decides

    assert decides(0.02, 1.0)  # nearly exact
    assert not decides(0.12, 1.0)
    assert decides(0.12, 0.01)  # near the orthant
    assert not decides(0.3, 0.01)  # not of low rank at all


def test_the_plan_says_what_was_done_and_why():
    X = make_synthetic(300, 300, 60, 20, random_state=0)
    result = enmf.factorize(X, 8, random_state=0)
    shown = str(result.plan)
    assert shown.startswith("Plan")
    for phase in ("svd", "rotation"):
        assert f"  {phase}" in shown
    assert all(decision.because for decision in result.plan)
    rotation, parts = (d.what for d in result.plan if d.phase == "rotation")
    assert "singular pairs" in parts
    assert "from spread and identity" in rotation
    assert result.rotation.iterations <= int(rotation.split()[-3])
