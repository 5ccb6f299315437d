"""What every method promises, whatever its name. New methods and starts are found through the registry."""

import functools
import itertools
import math
import os
import signal
import threading
import time
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import enmf
import problems
import slow
from enmf.api.registry import DESCENTS
from enmf.certificate.words import STATUSES
from enmf.matrix.dense import DenseMatrix
from enmf.problem.problem import Problem
from enmf.problem.state import State
from enmf.solvers.hals import HALS
from fuzz.oracle import EXACT, PROVEN, Rounding

SLOW = {"mu", "mu-e", "grad-mult", "ao-admm", "als-projected"}  # too slow for a tight tolerance, or not convergent
METHODS = enmf.methods()


def run(X, rank=4, method="enmf", **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return enmf.factorize(X, rank, method, **{"random_state": 0, "max_iter": 300, **options})


@pytest.mark.parametrize("init", enmf.initializations())
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_factors_status_and_trace(method, init, store):
    X = problems.counts()
    result = run(store(X), 4, method, init=init)
    for F, length in ((result.U, 80), (result.V, 50)):
        assert F.shape == (length, 4)
        assert np.isfinite(F).all()
        assert F.min() >= 0
    assert result.status in STATUSES
    assert result.error == pytest.approx(np.linalg.norm(X - result.U @ result.V.T), rel=1e-10)
    assert result.certificate.kkt == pytest.approx(slow.kkt(X, result.U, result.V), rel=1e-6, abs=1e-14)
    assert result.certificate.lower_bound <= slow.bound(X, 4) * (1 + 1e-12)
    assert result.error >= result.certificate.lower_bound
    descent = list(result.trace.of("descent"))
    assert result.error <= descent[0].error * (1 + 1e-12)
    if method in DESCENTS and DESCENTS[method].monotone:
        errors = [row.error for row in descent]
        assert all(b <= a * (1 + 1e-9) for a, b in itertools.pairwise(errors))
    seconds = [row.seconds for row in result.trace]
    assert seconds == sorted(seconds)


@functools.cache
def degenerate(kind):
    """X, a rank to ask for, and its Eckart-Young bound."""
    make, rank = {
        "rank one": (lambda: problems.rank_deficient(rank=1), 4),
        "rank two": (problems.rank_deficient, 4),
        "duplicated": (problems.duplicated, 4),
        "heavy-tailed": (problems.heavy_tailed, 10),
    }[kind]
    X = make()
    return X, rank, slow.bound(X, rank)


def check_honest(result, X, bound):
    """Finite, nonnegative, the best on the way; and nothing is called proven, exact or converged that is not."""
    for F in (result.U, result.V):
        assert np.isfinite(F).all()
        assert F.min() >= 0
        assert F.any()
    D = X.toarray() if sp.issparse(X) else X
    whole, error = np.linalg.norm(D), np.linalg.norm(D - result.U @ result.V.T)
    assert result.error == pytest.approx(error, rel=1e-6, abs=1e-12 * whole)
    assert error < whole
    best = min(row.error for row in result.trace.of("descent") if math.isfinite(row.error))
    assert error <= 1.001 * best + 1e-7 * whole  # sums of products are no more accurate than that
    if result.status == "global_optimum":
        assert error <= bound * (1 + PROVEN) + Rounding.of(result.U.dtype).error_floor * whole
    if result.status == "exact":
        assert error <= EXACT[result.U.dtype] * whole
    if result.status == "converged":
        assert slow.kkt(D, result.U, result.V) <= 1e-5 * 1.001


@pytest.mark.parametrize("kind", ["rank one", "rank two", "duplicated", "heavy-tailed"])
@pytest.mark.parametrize("init", enmf.initializations())
@pytest.mark.parametrize("method", METHODS)
def test_degenerate_data_get_finite_factors_and_an_honest_status(method, init, kind):
    X, rank, bound = degenerate(kind)
    for seed, store in enumerate([sp.csr_array] if sp.issparse(X) else [sp.csr_array, np.asarray]):
        check_honest(run(store(X), rank, method, init=init, max_iter=30, random_state=seed), X, bound)


@pytest.mark.parametrize("method", METHODS)
def test_superfluous_components_of_rank_one_data_do_no_harm(method):
    for seed in range(12):
        X = problems.rank_deficient(5 + seed, 4 + seed, 1, seed)
        check_honest(run(X, 2 + seed % 4, method, init="random", random_state=seed, max_iter=1000), X, 0.0)


@pytest.mark.parametrize("method", [name for name in METHODS if name not in SLOW])
def test_converges_to_a_kkt_point(method):
    for X in (problems.low_rank_noisy(), problems.counts()):
        result = run(X, 4, method, tol=1e-6, max_iter=20_000)
        assert result.status == "converged" if X.shape[0] == 80 else result.status in ("converged", "global_optimum")
        if result.status == "converged":  # a global optimum is told by its error, maybe earlier
            assert slow.kkt(X, result.U, result.V) <= 1e-6 * 1.001


@pytest.mark.parametrize("method", ["mu", "mu-e", "grad-mult", "ao-admm"])
def test_slow_methods_converge_given_enough_iterations(method):
    X = problems.counts()
    result = run(X, 3, method, init="random", tol=1e-4, max_iter=20_000)
    assert result.status == "converged"
    assert slow.kkt(X, result.U, result.V) <= 1e-4 * 1.001


@pytest.mark.parametrize("method", METHODS)
def test_scaling_changes_units_only(method):
    X = problems.counts()
    base = run(X, 4, method)
    for power in (-20, 20):
        c = 2.0**power
        scaled = run(X * c, 4, method)
        assert (scaled.status, scaled.n_iter) == (base.status, base.n_iter)
        assert scaled.error == pytest.approx(c * base.error, rel=1e-9)
        np.testing.assert_allclose(scaled.U / np.sqrt(c), base.U, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(scaled.V / np.sqrt(c), base.V, rtol=1e-8, atol=1e-12)


DEFICIENT = np.outer(np.arange(1.0, 10), np.arange(1.0, 7))
BINARY = (np.random.default_rng(3).random((9, 6)) < 0.5).astype(float)


@pytest.mark.filterwarnings("ignore:rank .* is above", "ignore:.* components are zero")
@pytest.mark.parametrize("X", [BINARY, DEFICIENT], ids=["binary", "rank one"])
@pytest.mark.parametrize("rank", [4, 8])
@pytest.mark.parametrize("init", enmf.initializations())
def test_starts_know_no_units_either(init, rank, X):
    """Also where there are more components than independent rows or columns, and for steps that feel their sizes."""
    for method in ("gradient", "anls-bpp"):
        base = run(X, rank, method, init=init, max_iter=2, tol=0.0)
        for power in (-20, 20):
            scaled = run(X * 2.0**power, rank, method, init=init, max_iter=2, tol=0.0)
            np.testing.assert_allclose(scaled.U * 2.0 ** (-power / 2), base.U, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("init", enmf.initializations())
def test_starts_take_every_sparse_form(init):
    X = problems.counts()
    expected = run(sp.csr_array(X), 4, "hals", init=init, max_iter=3).error
    for _, form in problems.sparse_formats(X):
        assert run(form, 4, "hals", init=init, max_iter=3).error == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_dense_equals_sparse(method):
    X = problems.counts()
    dense, sparse = run(X, 4, method), run(sp.csc_matrix(X), 4, method)
    assert dense.error == pytest.approx(sparse.error, rel=1e-8)
    assert dense.n_iter == sparse.n_iter


@pytest.mark.parametrize("method", METHODS)
def test_float32_stays_and_agrees(method):
    X = problems.low_rank_noisy()
    single, double = (run(X.astype(dtype), 4, method, max_iter=2000, tol=1e-5) for dtype in (np.float32, np.float64))
    assert single.U.dtype == single.V.dtype == np.float32
    assert single.error == pytest.approx(double.error, rel=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_result_on_any_number_of_threads(method):
    X = problems.dense(300, 200)
    a, b, c = (run(X, 6, method, init=i, max_iter=30, n_threads=t) for i, t in ((None, 1), (None, 1), (None, 2)))
    assert (a.U == b.U).all()
    np.testing.assert_allclose(a.U, c.U, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("method", [name for name in METHODS if name not in SLOW])
def test_restarting_from_a_solution_stops_at_once(method):
    X = problems.counts()
    result = run(X, 4, method, max_iter=20_000, tol=1e-5)
    again = run(X, 4, method, init=(result.U, result.V), tol=1e-5)
    assert again.status == "converged"
    assert again.n_iter <= 2


@pytest.mark.parametrize("method", METHODS)
def test_limits(method):
    X = problems.dense(200, 150)
    assert run(X, 5, method, init="random", max_iter=3, tol=0.0).n_iter == 3
    timed = run(X, 5, method, init="random", time_limit=0.0, tol=0.0)
    assert timed.status == "timeout"
    goal = run(X, 5, method, init="random", max_iter=20, tol=0.0).error
    reached = run(X, 5, method, init="random", target_error=goal * 1.001, tol=0.0)
    assert reached.status == "target_reached"
    assert reached.error <= goal * 1.001


@pytest.mark.parametrize("method", METHODS)
def test_callback_sees_and_stops_the_run(method):
    X = problems.dense(100, 80)
    seen = []

    def stop_at_five(progress):
        seen.append(progress)
        assert not progress.U.flags.writeable
        return progress.phase == "descent" and progress.iteration == 5

    result = run(X, 5, method, init="random", tol=0.0, callback=stop_at_five)
    assert result.status == "interrupted"
    assert result.n_iter == 5
    assert [row.iteration for row in result.trace] == [p.iteration for p in seen]


def test_time_limit_in_the_exterior_phases_gives_feasible_factors():
    result = run(problems.counts(), 5, time_limit=1e-9)
    assert result.status == "timeout"
    assert result.U.min() >= 0


def test_ctrl_c_returns_the_best_factors_with_a_warning():
    X = problems.dense(300, 200)
    timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.warns(ConvergenceWarning, match="interrupted after"):
        result = enmf.factorize(X, 10, "hals", init="random", tol=0.0, max_iter=10**7, random_state=0)
    assert result.status == "interrupted"
    assert result.error <= result.trace[0].error
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_keyboard_interrupt_in_a_callback_counts_as_ctrl_c():
    def interrupt(progress):
        raise KeyboardInterrupt

    result = run(problems.counts(), 3, callback=interrupt)
    assert result.status == "interrupted"


def test_hals_equals_a_naive_transcription():
    X = problems.counts()
    rng = np.random.default_rng(0)
    U, V = rng.random((80, 4)), rng.random((50, 4))
    state, method = State(Problem(DenseMatrix(X)), U, V), HALS()
    for _ in range(5):
        method.step(state, method.begin(state), 0.0)
        U = slow.sweep(U, V.T @ V, X @ V)
        V = slow.sweep(V, U.T @ U, X.T @ U)
    np.testing.assert_allclose(state.U, U, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(state.V, V, rtol=1e-9, atol=1e-12)


def test_factors_of_a_unique_factorization_are_found():
    X, U, V = problems.unique_exact()
    result = run(X, 3, tol=1e-12, max_iter=20_000)
    assert result.certificate.relative_error <= 1e-8
    size = np.linalg.norm(U, axis=0) * np.linalg.norm(V, axis=0)
    order = np.argsort(-size)
    balance = np.sqrt(np.linalg.norm(V, axis=0) / np.linalg.norm(U, axis=0))
    np.testing.assert_allclose(result.U, (U * balance)[:, order], atol=1e-5)
    np.testing.assert_allclose(result.V, (V / balance)[:, order], atol=1e-5)


def test_order_and_scale_of_components():
    result = run(problems.counts(), 5)
    u, v = np.linalg.norm(result.U, axis=0), np.linalg.norm(result.V, axis=0)
    np.testing.assert_allclose(u, v, rtol=1e-10)
    assert (np.diff(u) <= 0).all()


@pytest.mark.parametrize("method", [name for name in METHODS if name != "als-projected"])  # least squares revive them
def test_dead_components_stay_finite_and_are_reported(method):
    X = problems.counts()
    rng = np.random.default_rng(0)
    U, V = rng.random((80, 4)), rng.random((50, 4))
    U[:, 2] = V[:, 2] = 0.0
    with pytest.warns(UserWarning, match="1 of 4 components are zero"):
        result = run(X, 4, method, init=(U, V), max_iter=5)
    assert np.isfinite(result.U).all()
    assert len(result.certificate.dead_components) == 1


def test_permuting_rows_permutes_the_answer():
    X = problems.counts()
    order = np.random.default_rng(0).permutation(len(X))
    a, b = run(X, 4, tol=1e-9, max_iter=20_000), run(X[order], 4, tol=1e-9, max_iter=20_000)
    np.testing.assert_allclose(b.U, a.U[order], atol=1e-5)


def test_transposing_x_swaps_the_factors():
    X = problems.low_rank_noisy()
    a, b = run(X, 3, tol=1e-9, max_iter=20_000), run(X.T, 3, tol=1e-9, max_iter=20_000)
    assert a.error == pytest.approx(b.error, rel=1e-6)


def test_the_caller_s_arrays_are_not_changed():
    X = problems.counts()
    U, V = np.full((80, 3), 0.5), np.full((50, 3), 0.5)
    copies = X.copy(), U.copy(), V.copy()
    S = sp.coo_array(X)
    S.data.flags.writeable = False
    run(X, 3, init=(U, V))
    run(S, 3, init=(U, V))
    for before, after in zip(copies, (X, U, V)):
        assert (before == after).all()


def test_certify_agrees_with_the_result_and_with_numpy():
    for X in (problems.counts(), sp.csr_array(problems.counts())):
        result = run(X, 4)
        c = enmf.certify(X, result.U, result.V)
        D = X.toarray() if sp.issparse(X) else X
        assert c.error == pytest.approx(np.linalg.norm(D - result.U @ result.V.T), rel=1e-8)
        assert c.kkt == pytest.approx(slow.kkt(X, result.U, result.V), rel=1e-8)
        assert c.lower_bound == pytest.approx(slow.bound(X, 4), rel=1e-8)
        assert c.ratio == pytest.approx(c.error / c.lower_bound)
        assert c.gap == pytest.approx((c.error - c.lower_bound) / np.linalg.norm(D))
        gradients = (result.U @ result.V.T - D) @ result.V, (result.U @ result.V.T - D).T @ result.U
        assert c.min_gradient == pytest.approx(min(G.min() for G in gradients), rel=1e-6)
        products = [G * F for G, F in zip(gradients, (result.U, result.V))]
        assert c.kkt_max == pytest.approx(max(P.max() for P in products), rel=1e-4, abs=1e-9)
        assert c.kkt_sum == pytest.approx(sum(P.sum() for P in products), rel=1e-4, abs=1e-6)


def test_kkt_is_scale_free():
    X = problems.counts()
    rng = np.random.default_rng(0)
    U, V = rng.random((80, 4)), rng.random((50, 4))
    base = enmf.certify(X, U, V).kkt
    d = np.array([1e-3, 1.0, 7.0, 1e4])
    assert enmf.certify(X, U * d, V / d).kkt == pytest.approx(base, rel=1e-9)
    assert enmf.certify(3.7 * X, 3.7 * U, V).kkt == pytest.approx(base, rel=1e-9)
    assert enmf.certify(X.T, V, U).kkt == pytest.approx(base, rel=1e-9)


def test_certificate_prints_as_a_table_and_goes_to_json():
    import json

    c = run(problems.counts(), 3).certificate
    text = str(c)
    assert text.startswith("Certificate")
    assert "best possible (SVD bound)" in text
    assert json.loads(json.dumps(c.to_dict()))["rank"] == 3


def test_trace_becomes_a_frame():
    frame = run(problems.counts(), 3).trace.to_frame()
    assert list(frame.columns) == ["iteration", "phase", "seconds", "error", "kkt", "passes"]
    assert frame["passes"].is_monotonic_increasing


def test_penalties_shrink_the_factors_and_converge():
    X = problems.low_rank_noisy()
    plain = run(X, 4)
    for weights in ({"l1_U": 0.5, "l1_V": 0.5}, {"l2_U": 0.5, "l2_V": 0.5}):
        result = run(X, 4, max_iter=20_000, tol=1e-5, **weights)
        assert result.status == "converged"
        assert result.U.sum() + result.V.sum() < plain.U.sum() + plain.V.sum()
        l1, l2 = weights.get("l1_U", 0.0), weights.get("l2_U", 0.0)
        D = (result.U @ result.V.T - X) @ result.V + l1 + l2 * result.U
        projected = np.where(result.U > 0, D, np.minimum(D, 0))
        assert np.linalg.norm(projected) <= 1e-5 * np.linalg.norm(X) ** 1.5


PENALTIES = [
    {"l1_U": 0.5, "l1_V": 0.5},
    {"l2_U": 0.5, "l2_V": 0.5},
    {"l1_U": 0.3, "l2_U": 0.2, "l1_V": 0.1, "l2_V": 0.4},
]


@pytest.mark.parametrize("weights", PENALTIES, ids=["l1", "l2", "both"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_minimizes_the_penalized_objective(method, weights):
    """The KKT residual is that of the penalized problem, from its definition; a run that has converged has it."""
    X = problems.low_rank_noisy()
    result = run(X, 4, method, init="random", max_iter=5000, tol=1e-5, **weights)
    own = slow.penalized_kkt(X, result.U, result.V, **weights)
    assert result.certificate.kkt == pytest.approx(own, rel=1e-6, abs=1e-12)
    assert own <= (1e-5 * 1.001 if method not in SLOW else 1e-2)
    assert (result.status == "converged") or method in SLOW


def test_further_starts_have_the_options_of_the_first(monkeypatch):
    begun = []
    kind = type(DESCENTS["e-hals"])
    original = kind.begin
    monkeypatch.setattr(kind, "begin", lambda self, state: (begun.append(self), original(self, state))[1])
    result = run(problems.counts(), 4, alpha=2.0, beta=0.01, surrogate=False, restarts=3)
    assert result.phases["restart"].iterations > 0
    assert len(begun) >= 4
    assert all((method.alpha, method.beta) == (2.0, 0.01) for method in begun)


def test_a_penalty_that_outweighs_the_data_is_named():
    with pytest.warns(UserWarning, match="all components are zero: the penalty outweighs the data"):
        result = run(problems.counts(), 3, l1_U=1e6, l1_V=1e6)
    assert (result.U == 0).all()


def test_unconverged_runs_warn_once_with_value_and_remedy():
    X = problems.dense()
    with pytest.warns(ConvergenceWarning, match=r"KKT residual is .*Increase max_iter or tol") as caught:
        enmf.factorize(X, 5, "hals", init="random", max_iter=2, tol=1e-5, random_state=0)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with pytest.warns(ConvergenceWarning, match=r"too few to tell what going on would gain; .*Increase max_iter"):
        enmf.factorize(X, 5, "hals", init="random", max_iter=2, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"going on is expected to gain .* of the error. Increase max_iter"):
        enmf.factorize(X, 5, "hals", init="random", max_iter=20, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        enmf.factorize(X, 5, "hals", init="random", max_iter=2, tol=0, random_state=0)


def test_verbose_writes_progress_to_stderr(capfd):
    run(problems.counts(), 3, verbose=1)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "error" in captured.err


def test_runs_in_a_thread_and_after_a_fork():
    X = problems.dense(200, 100)
    expected = run(X, 4).error
    found = []
    worker = threading.Thread(target=lambda: found.append(run(X, 4).error))
    worker.start()
    worker.join()
    assert found == [pytest.approx(expected, rel=1e-9)]


def test_a_run_that_cannot_improve_is_stalled():
    X = problems.counts().astype(np.float32)
    result = run(X, 4, tol=1e-14, max_iter=50_000)
    assert result.status == "stalled"
    assert result.n_iter < 20_000
    assert math.isfinite(result.error)


def test_time_limit_is_kept():
    began = time.perf_counter()
    result = run(problems.dense(400, 300), 20, "hals", init="random", tol=0.0, max_iter=10**7, time_limit=0.3)
    assert result.status == "timeout"
    assert time.perf_counter() - began < 30  # generous: says that it ends, not how fast
