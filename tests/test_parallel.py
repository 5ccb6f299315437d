"""Products on our own threads, and the threads of BLAS, which belong to others too."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import enmf
from enmf import kernels, parallel
from enmf.matrix.dense import DenseMatrix
from enmf.problem.problem import Problem
from enmf.problem.state import State


def stored(A, order):
    return {
        "C": np.ascontiguousarray,
        "F": np.asfortranarray,
        "part": lambda A: np.pad(A, ((1, 2), (3, 1)))[1:-2, 3:-1],
    }[order](A)


@settings(max_examples=60, deadline=None)
@given(
    shape=st.tuples(*[st.integers(0, 300)] * 3),
    orders=st.tuples(*[st.sampled_from(["C", "F", "part"])] * 2),
    dtypes=st.sampled_from([(np.float64, np.float64), (np.float32, np.float32), (np.float64, np.float32)]),
)
def test_matmul_is_the_product(shape, orders, dtypes):
    n, inner, m = shape
    rng = np.random.default_rng(n + 7 * inner + 49 * m)
    A, B = rng.standard_normal((n, inner)).astype(dtypes[0]), rng.standard_normal((inner, m)).astype(dtypes[1])
    found, wanted = parallel.matmul(stored(A, orders[0]), stored(B, orders[1])), A.astype(float) @ B
    assert found.dtype == np.result_type(*dtypes)
    np.testing.assert_allclose(found, wanted, atol=1e-9 if np.float32 not in dtypes else 1e-3)


@pytest.mark.parametrize("shape", [(40, 20_000, 30), (3000, 500, 40), (40, 500, 3000), (10, 4000, 600)])
@pytest.mark.parametrize("threads", [2, 5])
def test_matmul_does_not_depend_on_threads(shape, threads):
    n, inner, m = shape
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((n, inner)), rng.standard_normal((inner, m))
    results = []
    for count in (1, threads):
        with parallel.limit(count):
            results.append(parallel.matmul(A, B))
    assert np.array_equal(*results)
    np.testing.assert_allclose(results[0], A @ B, atol=1e-9)


@pytest.mark.parametrize("of_itself", [False, True])
def test_matmul_of_any_shape_does_not_depend_on_threads(of_itself):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((260, 420))
    B = A.T if of_itself else rng.standard_normal((420, 260))
    results = []
    for count in (1, 2, 3, 5):
        with parallel.limit(count):
            results.append(parallel.matmul(A, B))
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


def test_the_result_is_stored_like_the_first_factor_and_goes_where_it_is_wanted():
    A, B = np.ones((5, 4), order="F"), np.ones((4, 3))
    assert parallel.matmul(A, B).flags.f_contiguous
    assert parallel.matmul(np.ascontiguousarray(A), B).flags.c_contiguous
    out = np.empty((5, 3))
    assert parallel.matmul(A, B, out) is out
    assert (out == 4).all()


BOUNDS = np.array([0, 3, 7, 10])


def test_every_range_has_a_thread_of_its_own():
    seen, threads = [], set()

    def kernel(start, stop, shift):
        threads.add(threading.get_ident())
        seen.extend(range(start + shift, stop + shift))
        while len(threads) < 3:  # nobody does the work of another one
            time.sleep(1e-3)

    for _ in range(3):
        seen.clear()
        threads.clear()
        parallel.run(kernel, BOUNDS, 100)
        assert sorted(seen) == list(range(100, 110))


@pytest.mark.parametrize("place", [0, 3, 7])
def test_an_error_comes_back_after_everybody_has_finished(place):
    finished = []

    def kernel(start, stop):
        if start == place:
            raise ZeroDivisionError(start)
        time.sleep(0.05)
        finished.append(start)

    with pytest.raises(ZeroDivisionError):
        parallel.run(kernel, BOUNDS)
    assert len(finished) == 2
    parallel.run(lambda start, stop: finished.append(start), BOUNDS)
    assert len(finished) == 5


def test_an_interrupt_waits_for_the_others():
    finished = []

    def kernel(start, stop):
        if start == 0:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1 + 0.02 * start)
        if start:
            finished.append(start)

    with pytest.raises(KeyboardInterrupt):
        parallel.run(kernel, BOUNDS)
    assert sorted(finished) == [3, 7]


def test_a_run_inside_a_run():
    seen = []
    parallel.run(lambda start, stop: parallel.run(lambda a, b: seen.append((start, a)), BOUNDS), BOUNDS)
    assert sorted(seen) == [(a, b) for a in (0, 3, 7) for b in (0, 3, 7)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own():
    parallel.run(lambda start, stop: None, BOUNDS)  # there are idle ones now
    child = os.fork()
    if child == 0:
        seen = []
        parallel.run(lambda start, stop: seen.append(start), BOUNDS)
        os._exit(len(seen))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3


SCRIPT = """
import sys
import threading
from threadpoolctl import threadpool_info, threadpool_limits
from enmf import parallel

def blas():
    return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}

before = blas()
with parallel.limit(3) as threads:
    assert threads == parallel.count() == 3 and blas() == {1}
    with parallel.limit(None) as inner:
        assert inner == 3 and blas() == {1}
    with parallel.blas_threads():
        assert blas() == {3}
    assert blas() == {1}
assert blas() == before

with threadpool_limits(2, user_api="blas"), parallel.limit(None) as threads:
    assert threads <= 2

# two that overlap, the first one leaving first: the last one restores what was there
entered, leave = threading.Event(), threading.Event()
def first():
    with parallel.limit(2):
        entered.set()
        leave.wait(10)
thread = threading.Thread(target=first)
thread.start()
entered.wait(10)
with parallel.limit(None):
    leave.set()
    thread.join()
    assert blas() == {1}
assert blas() == before
try:
    with parallel.limit(2):
        raise KeyError
except KeyError:
    assert blas() == before

# scipy's BLAS, which comes later
assert "scipy.linalg" not in sys.modules
with parallel.limit(2):
    import scipy.linalg
    parallel.look_again()
    assert blas() == {1}
    with parallel.blas_threads():
        assert blas() == {2}
    assert blas() == {1}
assert blas() == before
"""


def test_blas_is_held_inside_and_as_it_was_outside():
    """In a process of its own: the tests themselves run inside a limit."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


# Whole fits ----------------------------------------------------------------------------------------------------------


def problem_of(seed):
    """Large enough for two threads, with and without bursts of iterations."""
    return np.random.default_rng(seed).random((500 if seed % 2 else 60, 300 if seed % 2 else 40))


def fit(seed, n_threads=2):
    result = enmf.factorize(problem_of(seed), 5, random_state=seed, max_iter=15, tol=0.0, n_threads=n_threads)
    return result.U, result.V


def answer(queue, seed):
    queue.put(fit(seed))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("seed", [0, 1])
def test_a_forked_child_makes_the_fit_of_its_parent(seed):
    expected = fit(seed)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=answer, args=(queue, seed))
    child.start()
    try:
        found = queue.get(timeout=60)
        child.join(60)
        assert child.exitcode == 0
    finally:
        if child.is_alive():
            child.kill()
    for one, other in zip(found, expected):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(fit(seed), expected):  # the parent has kept its threads
        np.testing.assert_array_equal(one, other)


def test_fits_of_eight_threads_at_once_are_those_made_alone():
    alone = [fit(seed) for seed in range(8)]
    ready, found = threading.Barrier(8), [None] * 8

    def make(seed):
        ready.wait(30)
        found[seed] = fit(seed)

    threads = [threading.Thread(target=make, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for pair, expected in zip(found, alone):
        for one, other in zip(pair, expected):
            np.testing.assert_array_equal(one, other)


ENDING = """
import threading
import numpy as np
import enmf
from enmf import parallel

enmf.factorize(np.random.default_rng(0).random((500, 300)), 5, max_iter=5, tol=0, n_threads=2)
parallel.run(lambda start, stop: None, np.arange(4))
assert sum(thread.name == "enmf" for thread in threading.enumerate()) >= 2
"""


def test_an_interpreter_ends_quietly_with_idle_threads():
    done = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def counted_during(kernel):
    """How far another Python thread counts, a hundred times a millisecond at most, while the kernel runs."""
    count, done = 0, threading.Event()
    began = threading.Event()

    def go():
        nonlocal count
        began.set()
        while not done.is_set():
            count += 1
            time.sleep(1e-5)

    thread = threading.Thread(target=go)
    thread.start()
    began.wait(10)
    first, seconds = count, time.perf_counter()
    try:
        kernel()
        return count - first, time.perf_counter() - seconds
    finally:
        done.set()
        thread.join()


def long_sweep():
    rng = np.random.default_rng(0)
    F, B = rng.random((40, 3000)), rng.random((40, 3000))
    G = B @ B.T
    return lambda: kernels.sweep.sweep(0, 3000, F, B, G, np.inf, 600, 0.0, np.zeros(40, dtype=bool))


def long_product():
    rng = np.random.default_rng(0)
    X = sp.random_array((8000, 1000), density=0.3, format="csr", rng=rng)
    C, out = rng.random((1000, 300)), np.empty((300, 8000))
    return lambda: kernels.sparse.times(0, 8000, X.indptr[None], X.indices, X.data, C, out)


def long_burst():
    state = State(Problem(DenseMatrix(problem_of(0))), *(np.ones((n, 5)) for n in (60, 40)))
    burst = state.X.burst(5)
    arrays = [[np.ones((5, n)), np.empty((5, n)), np.full((5, 5), n + 0.0), *np.empty((2, 5, n))] for n in (60, 40)]
    for side in (0, 1):
        burst.factor(side, *arrays[side], 1, False)
    now = burst.state
    now.most = now.patience = 10**9
    now.seconds, now.least_value, now.size = 0.2, -np.inf, 1.0
    burst.prepare(1)
    return lambda: burst.work(0, 1)


@pytest.mark.parametrize("make", [long_sweep, long_product, long_burst])
def test_other_threads_go_on_while_a_kernel_runs(make):
    """Two short waits for the GIL would be all that a kernel allowed which held it."""
    count, seconds = counted_during(make())
    assert seconds > 0.02  # else this says nothing
    assert count > 5
