"""A loss is one file: Huber's, which lives in tests/huber.py, goes through everything that Frobenius' does."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest

import problems
from enmf.api.registry import DESCENTS
from enmf.matrix.dense import DenseMatrix
from enmf.problem.problem import Penalty, Problem, SidePenalty, Units
from enmf.problem.state import State, best_pair
from enmf.problem.validation.arrays import check_problem
from enmf.problem.validation.factors import with_penalty, with_ridge
from enmf.problem.validation.masks import check_masked_problem
from enmf.run.loop import Stage, run_stage
from enmf.run.monitor import Monitor
from enmf.run.options import Made, RunOptions
from enmf.run.run import run
from enmf.run.stopping import Stopping
from enmf.solvers.hals import HALS
from enmf.starts.random import observed, random
from huber import Huber


def with_outliers(seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.random((60, 3)) @ rng.random((3, 40))
    X = truth + 0.01 * rng.random(truth.shape)
    X[rng.random(X.shape) < 0.02] += 20.0
    return X, truth


def solve(X, method="e-hals", penalty=None, units=None, loss=None, **more):
    more.setdefault("stopping", Stopping(tol=1e-6, max_iter=4000))
    options = RunOptions(3, DESCENTS[method], Made(random), name=method, rng=np.random.default_rng(0), **more)
    problem = Problem(DenseMatrix(X), loss or Huber(0.05), penalty or Penalty(), units or Units())
    return run(problem, options)


def slow_value(X, U, V, share=0.05):
    delta = share * np.sqrt((X**2).mean())
    return sum(t * t / 2 if t <= delta else delta * t - delta * delta / 2 for t in np.abs(X - U @ V.T).ravel())


def slow_kkt(X, U, V, share=0.05):
    """Projected gradient at balanced factors over ||X||^1.5, in plain NumPy."""
    size = np.sqrt(np.linalg.norm(U, axis=0) / np.linalg.norm(V, axis=0))
    U, V = U / size, V * size
    delta = share * np.sqrt((X**2).mean())
    psi = np.clip(X - U @ V.T, -delta, delta)
    squares = 0.0
    for F, D in ((U, -psi @ V), (V, -psi.T @ U)):
        squares += (np.where(F > 0, D, np.minimum(D, 0)) ** 2).sum()
    return np.sqrt(squares) / np.linalg.norm(X) ** 1.5


@pytest.mark.parametrize("method", ["hals", "a-hals", "e-hals"])
def test_another_loss_descends_to_a_stationary_point(method):
    X, truth = with_outliers()
    result = solve(X, method)
    assert result.status == "converged"
    assert result.certificate.stationary
    assert result.certificate.kkt == pytest.approx(slow_kkt(X, result.U, result.V), rel=1e-4, abs=1e-9)
    assert result.certificate.error == pytest.approx(slow_value(X, result.U, result.V), rel=1e-10)
    errors = [row.error for row in result.trace]
    assert errors[-1] < 0.5 * errors[0]
    if method != "e-hals":
        assert all(b <= a * (1 + 1e-12) for a, b in itertools.pairwise(errors))
    # what it is for: outliers do not bend the components, which they do with least squares
    squares = solve(X, method, loss=Problem(DenseMatrix(X)).loss)
    bent, straight = (np.linalg.norm(found.U @ found.V.T - truth) for found in (squares, result))
    assert straight < (0.2 if method != "e-hals" else 0.8) * bent


def test_no_bound_is_claimed_for_a_loss_that_has_none():
    result = solve(with_outliers()[0], stopping=Stopping(max_iter=3))
    assert result.certificate.lower_bound == 0.0
    assert not result.certificate.globally_optimal
    assert result.spectrum is None


def test_it_resumes_from_a_checkpoint(tmp_path):
    X, _ = with_outliers()
    whole = solve(X)
    part = solve(X, checkpoint=tmp_path, callback=lambda progress: progress.iteration >= 10)
    assert part.status == "interrupted"
    resumed = solve(X, checkpoint=tmp_path)
    assert resumed.n_iter > 10
    assert resumed.error == pytest.approx(whole.error, rel=1e-6)
    with pytest.raises(ValueError, match=r"belongs to another run.*loss"):
        solve(X, checkpoint=tmp_path, loss=Huber2())


class Huber2(Huber):
    name = "another"


def test_penalties_and_units_are_those_of_the_loss():
    X, _ = with_outliers()
    penalty = Penalty(SidePenalty(0.1, 0.2), SidePenalty(0.2, 0.1))
    result = solve(X, penalty=penalty)
    plain = solve(X)
    assert result.U.sum() < plain.U.sum()
    assert result.certificate.kkt <= 1e-6
    scaled = solve(X, units=Units(16.0))  # the user's X is 16 times this one
    assert scaled.certificate.error == pytest.approx(16.0**2 * plain.certificate.error)
    np.testing.assert_allclose(scaled.U, 4.0 * plain.U)


def test_one_factor_is_solved_for_to_optimality():
    X, _ = with_outliers()
    result = solve(X)
    problem = Problem(DenseMatrix(X), Huber(0.05))
    U, V = best_pair(problem, result.V.T)
    squares = State(problem, U, V).halves[0].measure().squares
    assert np.sqrt(squares.sum()) <= 1e-6 * np.linalg.norm(X) ** 1.5
    assert State(problem, U, V).value() <= State(problem, result.U, result.V).value() * (1 + 1e-9)


def test_a_method_that_needs_more_than_a_half_step_is_refused():
    with pytest.raises(ValueError, match=r"method 'mu' needs .* which the loss 'huber' does not offer"):
        solve(problems.dense(), "mu")


@dataclass(frozen=True)
class Recording(HALS):
    """HALS that checks what it is told about the state it gets."""

    def step(self, state, memory, objective):
        assert objective == pytest.approx(state.value() + state.problem.penalty.value(state), rel=1e-12)
        super().step(state, memory, objective)


@pytest.mark.parametrize("masked", [False, True], ids=["complete", "masked"])
def test_a_step_is_told_the_objective_with_its_penalty_in_the_descent_and_in_stages(masked):
    X = problems.low_rank_noisy()
    problem = check_masked_problem(np.where(np.median(X) < X, X, np.nan)) if masked else check_problem(X)
    problem = with_ridge(problem, 0.3, "none") if masked else with_penalty(problem, {"l1_U": 0.2, "l2_V": 0.3})
    start = Made(observed if masked else random)
    run(problem, RunOptions(3, Recording(), start, stopping=Stopping(max_iter=5, tol=0.0)))
    monitor = Monitor(problem, Stopping())
    U, V = start.make(problem.X, 3, np.random.default_rng(0))
    run_stage(State(problem, U, V), Recording(), monitor, Stage("a stage", max_iter=5))
    assert monitor.phases["a stage"].iterations == 5
