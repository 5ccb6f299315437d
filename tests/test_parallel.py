"""Products on our own threads, and the threads of BLAS, which belong to others too."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enmf import parallel


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
