"""Runs in bursts of iterations: the same as step by step, ended by the same rules, and never far from their clock."""

import signal
import threading
import time
import warnings
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import enmf
import problems
from enmf.exterior.feasibility import WallPath
from enmf.matrix.dense import DenseMatrix
from enmf.matrix.sparse import SparseMatrix
from enmf.problem.problem import Problem
from enmf.problem.state import State
from enmf.run import bursts
from enmf.run.loop import Stage, run_stage
from enmf.run.monitor import Monitor
from enmf.run.stopping import DEFAULTS, Stopping

METHODS = ["hals", "a-hals", "e-hals", "default"]
KINDS = ["dense", "fortran", "sparse", "float32", "sparse float32"]


def data(kind, n=90, m=70):
    X = problems.dense(n, m) if "sparse" not in kind else problems.counts(n, m)
    X = X.astype(np.float32 if "float32" in kind else np.float64)
    if "sparse" in kind:
        return sp.csr_array(X)
    return np.asfortranarray(X) if kind == "fortran" else X


def fit(X, method="e-hals", rank=4, **options):
    options = {"random_state": 0, "max_iter": 60} | options
    if method != "default":
        options |= {"method": method, "init": "random"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return enmf.factorize(X, rank, **options)


def quiet(progress):
    """A callback that only looks: the run goes step by step."""


def column(result, name):
    return np.array([getattr(row, name) for row in result.trace])


def same_bits(one, other):
    np.testing.assert_array_equal(one.U, other.U)
    np.testing.assert_array_equal(one.V, other.V)
    assert (one.status, one.n_iter, one.error) == (other.status, other.n_iter, other.error)
    for name in ("iteration", "phase", "error", "kkt", "passes"):
        np.testing.assert_array_equal(column(one, name), column(other, name))


@pytest.fixture
def taken(monkeypatch):
    """How many iterations every burst has taken."""
    numbers = []
    take = bursts.Bursts._take

    def counting(self, *arguments):
        numbers.append(take(self, *arguments))
        return numbers[-1]

    monkeypatch.setattr(bursts.Bursts, "_take", counting)
    return numbers


@pytest.mark.parametrize("tol", [1e-5, None])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_bursts_are_the_steps(method, kind, tol, taken):
    X = data(kind)
    whole = fit(X, method, tol=tol)
    assert sum(taken) >= whole.n_iter - 1
    assert whole.n_iter > 6 or method == "default"  # whose start may be as good
    taken.clear()
    steps = fit(X, method, tol=tol, callback=quiet)
    assert taken == []
    if "float32" in kind:  # rounding may decide when it ends
        common = min(len(whole.trace), len(steps.trace), 20)
        np.testing.assert_allclose(column(whole, "error")[:common], column(steps, "error")[:common], rtol=1e-4)
        assert whole.error == pytest.approx(steps.error, rel=1e-3)
        return
    assert (whole.status, whole.n_iter) == (steps.status, steps.n_iter)
    for name in ("iteration", "phase", "passes"):
        np.testing.assert_array_equal(column(whole, name), column(steps, name))
    np.testing.assert_allclose(column(whole, "error"), column(steps, "error"), rtol=1e-7)
    np.testing.assert_array_equal(np.isnan(column(whole, "kkt")), np.isnan(column(steps, "kkt")))
    assert whole.error == pytest.approx(steps.error, rel=1e-7)
    np.testing.assert_allclose(whole.U @ whole.V.T, steps.U @ steps.V.T, atol=1e-4)
    assert {name: (cost.iterations, cost.passes) for name, cost in whole.phases.items()} == {
        name: (cost.iterations, cost.passes) for name, cost in steps.phases.items()
    }


@pytest.mark.parametrize("method", ["hals", "a-hals", "e-hals"])
def test_what_a_burst_does_not_know_is_computed_again(method, taken, monkeypatch):
    """Where KKT residuals are rare, a burst may end with one known product; the loop goes on from there."""
    X = problems.dense(30, 20)
    steps = fit(X, method, rank=8, max_iter=31, tol=0.0, callback=quiet)
    measured = ~np.isnan(column(steps, "kkt"))
    assert measured.any()
    assert not measured.all()
    monkeypatch.setattr(bursts, "SECONDS", 1e-6)
    for most in (29, 30, 31):
        whole = fit(X, method, rank=8, max_iter=most, tol=0.0)
        np.testing.assert_allclose(column(whole, "error"), column(steps, "error")[: most + 1], rtol=1e-7)
        # the loop has the product of the coming step before it records an iteration, even if a restart discards it
        fewer = column(steps, "passes")[most] - column(whole, "passes")[-1]
        assert fewer == 0 if method != "e-hals" else 0 <= fewer < 10
        np.testing.assert_allclose(whole.error, np.linalg.norm(X - whole.U @ whole.V.T), rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seconds", [1.0, 1e-6])
@pytest.mark.parametrize("most", [7, 100])
def test_walls_in_bursts_are_those_of_the_steps(kind, seconds, most, taken, monkeypatch):
    """A stage that ends by itself; its factors have negative entries until the last step."""
    monkeypatch.setattr(bursts, "SECONDS", seconds)
    X = data(kind)
    found = []
    for watch in (None, quiet):
        rng = np.random.default_rng(0)
        problem = Problem((SparseMatrix if "sparse" in kind else DenseMatrix)(X))
        state = State(problem, *(rng.standard_normal((length, 4)) for length in X.shape))
        monitor = Monitor(problem, Stopping(), watch)
        left = run_stage(state, WallPath(), monitor, Stage("feasibility", most))
        found.append((state, monitor, left))
    (one, bursting, left), (other, stepping, expected) = found
    steps = min(most, WallPath().steps)
    assert sum(taken) == steps
    assert left == expected
    assert len(left) == WallPath().steps - steps
    assert bursting.phases["feasibility"].iterations == stepping.phases["feasibility"].iterations == steps
    share = 2e-3 if "float32" in kind else 1e-8
    for F, G in ((one.U, other.U), (one.V, other.V)):
        np.testing.assert_allclose(F, G, rtol=0, atol=share * np.abs(G).max())
        assert (F.min() >= 0) == (most > steps)
    assert one.value() == pytest.approx(other.value(), rel=share)
    np.testing.assert_allclose(*([row.error for row in m.trace] for m in (bursting, stepping)), rtol=share)


@pytest.mark.parametrize("method", ["hals", "e-hals", "default"])
@pytest.mark.parametrize("kind", ["dense", "sparse float32"])
def test_where_bursts_end_changes_no_bit(method, kind, taken, monkeypatch):
    """On a busy machine a burst has time for a single iteration, or for none."""
    X, found, lengths = data(kind), [], []
    for seconds in (1.0, 1e-6, 3e-4):
        monkeypatch.setattr(bursts, "SECONDS", seconds)
        taken.clear()
        found.append(fit(X, method))
        lengths.append(max(taken))
    same_bits(found[0], found[1])
    same_bits(found[0], found[2])
    assert lengths[1] < lengths[0]


@pytest.mark.parametrize("method", METHODS)
def test_threads_change_no_bit(method, monkeypatch):
    monkeypatch.setattr(bursts, "LEAST_WORK", 1)  # as many threads as there are
    one, two, five = (fit(data("dense", 300, 140), method, max_iter=15, n_threads=count) for count in (1, 2, 5))
    same_bits(one, two)
    same_bits(one, five)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_trace_has_every_iteration_in_order(method, kind):
    result = fit(data(kind), method, tol=0.0)
    for phase in set(column(result, "phase")):
        numbers = [row.iteration for row in result.trace.of(phase)]
        assert all(now in (before + 1, 0) for before, now in pairwise(numbers))  # 0: of a further stage
    assert [row.iteration for row in result.trace.of("descent")] == list(range(61))
    for name in ("seconds", "passes"):
        assert (np.diff(column(result, name)) >= 0).all()
    assert column(result, "seconds")[-1] > 0


def test_a_callback_sees_every_iteration(taken):
    seen = []
    result = fit(data("dense"), callback=lambda progress: seen.append(progress.row))
    assert seen == list(result.trace)
    assert taken == []


# What ends a run ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_the_number_of_iterations_is_honoured(method, taken):
    X = data("dense")
    for most in (0, 1, 2, 17):
        result = fit(X, method, max_iter=most, tol=0.0)
        assert (result.status, result.n_iter) == ("max_iter", most)
    assert max(taken) >= 16


@pytest.mark.parametrize("method", ["hals", "e-hals"])
def test_the_target_is_honoured_at_the_first_iteration_that_meets_it(method):
    X = data("dense")
    errors = [row.error for row in fit(X, method).trace.of("descent")]
    target = errors[20] * (1 + 1e-9)
    result = fit(X, method, target_error=target)
    first = next(i for i, error in enumerate(errors) if error <= target)
    assert (result.status, result.n_iter) == ("target_reached", first)
    assert result.error <= target
    assert fit(X, method, target_error=1e9).n_iter == 0


def test_a_target_in_units_of_a_large_X():
    X = data("dense")
    one, large = (fit(unit * X, target_error=unit * fit(X).trace[20].error * 1.001) for unit in (1.0, 1e100))
    assert one.status == large.status == "target_reached"
    assert one.n_iter == large.n_iter


@pytest.mark.parametrize("method", METHODS)
def test_a_tiny_time_limit_is_honoured(method):
    result = fit(data("dense"), method, time_limit=1e-6, max_iter=10**9, tol=0.0)
    assert result.status == "timeout"
    assert result.n_iter <= 1


def test_a_time_limit_is_honoured_between_bursts(monkeypatch):
    """No burst may last longer than a burst, nor than what is left of the limit, whatever else the machine does."""
    allowed = []
    take = bursts.Bursts._take

    def noting(self, *arguments):
        before = self.monitor.time_left()
        taken = take(self, *arguments)
        allowed.append((self.kernel.state.seconds, before))
        return taken

    monkeypatch.setattr(bursts.Bursts, "_take", noting)
    began = time.perf_counter()
    result = fit(data("dense"), "hals", time_limit=0.15, max_iter=10**9, tol=0.0)
    assert result.status == "timeout"
    assert time.perf_counter() - began >= 0.15
    assert allowed
    assert all(seconds <= min(bursts.SECONDS, before) for seconds, before in allowed)


def test_without_a_tolerance_nothing_but_limits_ends_a_run():
    """Not even a run that has made no progress for long."""
    result = fit(problems.dense(12, 9), "a-hals", rank=1, tol=0.0, max_iter=1500, bound=False)
    assert result.status in ("max_iter", "global_optimum")
    assert result.n_iter == 1500


@pytest.mark.parametrize("method", ["hals", "e-hals"])
def test_patience_is_honoured(method, taken):
    """The same end as step by step, a few iterations apart: rounding decides when progress ends."""
    X = problems.dense(12, 9)
    result = fit(X, method, rank=2, tol=1e-300, max_iter=5000)
    assert result.status == "stalled"
    lowest, at = np.inf, 0
    for row in result.trace.of("descent"):
        objective = 0.5 * row.error**2
        if objective < lowest * (1 - 9 * np.finfo(float).eps):
            lowest, at = objective, row.iteration
    assert result.n_iter - at == pytest.approx(DEFAULTS.patience, abs=10)
    assert max(taken) > 20


@pytest.mark.parametrize("method", METHODS)
def test_a_run_that_converges_does_so_at_the_same_iteration(method):
    X = data("dense")
    whole, steps = (fit(X, method, tol=1e-3, max_iter=2000, callback=watch) for watch in (None, quiet))
    assert whole.status == steps.status == "converged"
    assert whole.n_iter == steps.n_iter
    assert whole.certificate.kkt == pytest.approx(steps.certificate.kkt, rel=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_an_exact_factorization_is_found_to_be_one(method):
    X = problems.rank_deficient()
    whole, steps = (fit(X, method, rank=2, max_iter=3000, tol=1e-12, callback=watch) for watch in (None, quiet))
    assert whole.status == steps.status
    assert whole.certificate.relative_error < 1e-6
    assert abs(whole.n_iter - steps.n_iter) <= 2


def test_columns_far_apart_are_evened_out():
    """A start whose column norms differ by 10⁹ ends where a balanced one does."""
    X = data("dense")
    rng = np.random.default_rng(1)
    U, V = rng.random((90, 4)), rng.random((70, 4))
    scale = np.array([1e9, 1e-9, 1.0, 1.0])
    found = [fit(X, "hals", init=(U * s, V / s), max_iter=30) for s in (np.ones(4), scale)]
    assert found[0].error == pytest.approx(found[1].error, rel=1e-6)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signals to threads here")
@pytest.mark.parametrize("method", ["hals", "default"])
def test_ctrl_c_ends_a_run_between_bursts(method, taken):
    main = threading.get_ident()
    alarm = threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT))
    handler = signal.getsignal(signal.SIGINT)
    began = time.perf_counter()
    alarm.start()
    try:
        result = fit(problems.dense(), method, max_iter=10**9, tol=0.0)
    finally:
        alarm.cancel()
    assert result.status == "interrupted"
    assert time.perf_counter() - began < 10
    assert result.n_iter > 0
    assert max(taken) > 1
    assert signal.getsignal(signal.SIGINT) is handler
    assert np.isfinite(result.U).all()
