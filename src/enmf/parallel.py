"""The only module that manages threads.

Everything runs on a few Python threads: compiled kernels, which release the GIL, and matrix products (`matmul`),
each thread on a contiguous range. BLAS itself is held at one thread inside `limit`: its own threads keep spinning after
a product, and the sweep that followed then took twice as long. Ours sleep between calls, so threads do not compete for
cores. Decompositions of large matrices, which only BLAS can divide, get its threads back (`lapack`). Nothing leaks:
outside `limit` everything is as it was.

A range is never split in a way that changes arithmetic, so results do not depend on the number of threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

LEAST_WORK = 8_000_000  # flops of a range, a quarter of a millisecond: waking a thread takes at worst half of it
LONGEST_CALL = 4_000_000_000  # flops of a call, about a tenth of a second: Ctrl-C is answered at its end
PRODUCT_BLOCK = 64  # pieces of a product are multiples of it, or of more where its shorter side is not narrow:
WIDE_BLOCK, NARROW = 512, 256  # each piece packs the other operand anew
MOST_PIECES = 64  # of a product, whatever the number of threads
LARGE_SIDE = 1000  # decompositions of larger matrices gain from BLAS's threads
INNER_PARTS = 8  # parts of a long inner dimension, whatever the number of threads
INNER_LENGTH = 1024  # least length of such a part
WHOLE = np.array([0, 1])  # bounds of an undivided range

Answer = TypeVar("Answer")

_count: ContextVar[int | None] = ContextVar("enmf_threads", default=None)
_idle: list[_Worker] = []


def _available_cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1


class _Blas:
    """The threads of BLAS, which belong to the whole process: held at one while any thread is inside `limit`."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._holders = 0
        self._allowed = 1  # before the first entry into `limit`
        self._held: list[Any] = []  # what gives the threads back, the last one first

    @staticmethod
    @cache
    def _controller() -> ThreadpoolController:
        return ThreadpoolController()

    def _limit(self, threads: int) -> Any:
        return self._controller().limit(limits=threads, user_api="blas")

    def allowed(self) -> int:
        """Threads that BLAS may use outside `limit`."""
        with self._lock:
            if self._holders:
                return self._allowed
            blas = [lib["num_threads"] for lib in self._controller().info() if lib["user_api"] == "blas"]
            return max(1, min([_available_cores(), *blas]))

    def hold(self) -> None:
        with self._lock:
            if self._holders == 0:
                self._allowed = self.allowed()
                self._held.append(self._limit(1))
            self._holders += 1

    def release(self) -> None:
        with self._lock:
            self._holders -= 1
            while self._held and self._holders == 0:
                self._held.pop().restore_original_limits()

    def look_again(self) -> None:
        with self._lock:
            self._controller.cache_clear()
            if self._holders:
                self._held.append(self._limit(1))

    @contextmanager
    def given(self, threads: int) -> Iterator[None]:
        with self._limit(threads):
            yield


_blas = _Blas()


def count() -> int:
    """Number of threads in use: by default as many as BLAS may use (limits of joblib or threadpoolctl apply)."""
    current = _count.get()
    return current if current is not None else _blas.allowed()


@contextmanager
def limit(n_threads: int | None) -> Iterator[int]:
    """Run the body with `n_threads` threads; None keeps the current limit."""
    threads = count() if n_threads is None else n_threads
    token = _count.set(threads)
    _blas.hold()
    try:
        yield threads
    finally:
        _blas.release()
        _count.reset(token)


def look_again() -> None:
    """Hold also a BLAS that an import has brought since the first fit: scipy's is not numpy's."""
    _blas.look_again()


@contextmanager
def blas_threads() -> Iterator[None]:
    """In the body BLAS uses its own threads (other libraries, LAPACK); do not call `matmul` there."""
    with _blas.given(count()):
        yield


def lapack(function: Callable[..., Any], *matrices: np.ndarray) -> Any:
    """A decomposition, with the threads of BLAS where they pay off."""
    if count() == 1 or min(matrices[0].shape) < LARGE_SIDE:
        return function(*matrices)
    with blas_threads():
        return function(*matrices)


@contextmanager
def share(tasks: int) -> Iterator[tuple[int, int]]:
    """Divide the caller's threads among independent tasks: how many run at once, and the threads of each.

    The tasks run on threads that do not inherit the caller's limit: each of them has to enter `limit` with the second
    number. BLAS is held from here on: OpenBLAS obeys only the first thread that ever set its number of threads, and no
    thread of a pool may become that one.
    """
    with limit(None) as available:
        at_once = max(1, min(available, tasks))
        yield at_once, available // at_once


class _Worker:
    """A thread that does one job after another, handed over by two locks: less overhead than an executor's futures."""

    def __init__(self) -> None:
        self._job: tuple[Callable[..., Any], int, int, tuple[Any, ...]] | None = None
        self._problem: BaseException | None = None
        self._asked, self._done = threading.Lock(), threading.Lock()
        self._asked.acquire()
        self._done.acquire()
        threading.Thread(target=self._work, name="enmf", daemon=True).start()

    def _work(self) -> None:
        while True:
            self._asked.acquire()
            assert self._job is not None
            kernel, start, stop, arguments = self._job
            try:
                kernel(start, stop, *arguments)
            except BaseException as problem:
                self._problem = problem
            self._job = None
            del kernel, arguments  # a waiting thread keeps no arrays alive
            self._done.release()

    def begin(self, kernel: Callable[..., Any], start: int, stop: int, arguments: tuple[Any, ...]) -> None:
        self._job = kernel, start, stop, arguments
        self._asked.release()

    def finish(self) -> BaseException | None:
        """Wait for the end of the job, whatever happens; returns what it raised, or what was raised while waiting."""
        interrupt = None
        while True:
            try:
                self._done.acquire()
                break
            except KeyboardInterrupt as problem:
                interrupt = problem
        raised, self._problem = self._problem, None
        return interrupt or raised


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # a forked child has no threads


def run(kernel: Callable[..., Any], bounds: np.ndarray, *arguments: Any) -> None:
    """Call kernel(start, stop, *arguments) for the consecutive ranges in `bounds`, one thread each.

    The caller's thread takes the first range. An interrupt waits for the others: no thread writes into an array after
    this function has ended. Where calls would last long, `bounds` has a row for each thread, with its own ranges.
    """
    if bounds.ndim == 2:
        _run_in_turns(kernel, bounds, arguments)
        return
    if len(bounds) == 2:
        kernel(int(bounds[0]), int(bounds[1]), *arguments)
        return
    starts, stops = bounds[:-1].tolist(), bounds[1:].tolist()
    others: list[_Worker] = []
    try:
        for start, stop in zip(starts[1:], stops[1:]):
            try:
                worker = _idle.pop()
            except IndexError:
                worker = _Worker()
            worker.begin(kernel, start, stop, arguments)
            others.append(worker)
        kernel(starts[0], stops[0], *arguments)
    finally:
        problems = [worker.finish() for worker in others]
        _idle.extend(others)
    for problem in problems:
        if problem is not None:
            raise problem


def _run_in_turns(kernel: Callable[..., Any], bounds: np.ndarray, arguments: tuple[Any, ...]) -> None:
    """Every thread goes through its ranges; if one fails or is interrupted, the others begin no further range."""
    ended = False

    def some(thread: int, _: int) -> None:
        nonlocal ended
        borders = bounds[thread].tolist()
        try:
            for start, stop in pairwise(borders):
                if ended:
                    return
                kernel(start, stop, *arguments)
        except BaseException:
            ended = True
            raise

    run(some, np.arange(len(bounds) + 1))


def product(start: int, stop: int, A: np.ndarray, B: np.ndarray, out: np.ndarray) -> None:
    """out = A B, a kernel for one thread."""
    np.matmul(A, B, out=out)


def matmul(A: np.ndarray, B: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """A @ B, in ranges of the longer side of the result; a long inner dimension is summed in parts.

    The result is stored like A: in Fortran order if A is. Factors that live elsewhere know their own product.
    """
    if not (isinstance(A, np.ndarray) and isinstance(B, np.ndarray)):
        return A @ B
    if out is None:
        shape, dtype = (A.shape[0], B.shape[1]), np.result_type(A, B)
        if A.flags.f_contiguous and not A.flags.c_contiguous:
            return matmul(B.T, A.T, np.empty(shape[::-1], dtype)).T
        out = np.empty(shape, dtype)
    (n, inner), m = A.shape, B.shape[1]
    if 2.0 * n * m * inner <= LEAST_WORK:
        run(product, WHOLE, A, B, out)
        return out
    parts = min(INNER_PARTS, inner // INNER_LENGTH)
    if parts > 1 and inner > 4 * max(n, m):
        partial = np.empty((parts, n, m), out.dtype)
        borders = np.arange(parts + 1) * inner // parts

        def part(start: int, stop: int) -> None:
            for i in range(start, stop):
                inside = slice(borders[i], borders[i + 1])
                np.matmul(A[:, inside], B[inside], out=partial[i])

        run(part, even_bounds(parts, 2.0 * n * m * inner / parts))
        return np.sum(partial, axis=0, out=out)

    # always the same pieces: BLAS adds up in another order at the edges of a range, and for A Aᵀ as a whole
    length, flops = max(n, m), 2.0 * n * m * inner
    block = PRODUCT_BLOCK if min(n, m) <= NARROW else WIDE_BLOCK
    blocks = -(-length // block)
    pieces = 1 << (min(MOST_PIECES, blocks, int(flops / LEAST_WORK)).bit_length() - 1)
    edges = np.minimum(np.arange(pieces + 1) * blocks // pieces * block, length).tolist()

    def rows(start: int, stop: int) -> None:
        for first, last in pairwise(edges[start : stop + 1]):
            np.matmul(A[first:last], B, out=out[first:last])

    def columns(start: int, stop: int) -> None:
        for first, last in pairwise(edges[start : stop + 1]):
            np.matmul(A, B[:, first:last], out=out[:, first:last])

    run(rows if n >= m else columns, even_bounds(pieces, flops / pieces))
    return out


def together(task: Callable[[int], Answer], count: int, n_threads: int | None) -> list[Answer]:
    """task(0), ..., task(count - 1), as many at a time as there are threads; each uses one for BLAS and kernels."""
    with limit(n_threads) as workers, limit(1), ThreadPoolExecutor(max_workers=workers) as pool:
        # the number of threads is a context variable: every task needs a copy of this context
        return _answers(pool, [pool.submit(copy_context().run, task, index) for index in range(count)])


def each(function: Callable[..., Answer], calls: Sequence[tuple[Any, ...]], at_once: int) -> list[Answer]:
    """function(*arguments) for each of the calls, in their order, `at_once` of them at a time (see `share`)."""
    if at_once == 1:
        return [function(*arguments) for arguments in calls]
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        return _answers(pool, [pool.submit(function, *arguments) for arguments in calls])


def _answers(pool: ThreadPoolExecutor, waiting: list[Future[Answer]]) -> list[Answer]:
    try:
        return [future.result() for future in waiting]
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)  # Ctrl-C: start no further task
        raise


def even_bounds(length: int, work_per_item: float, block: int = 1) -> np.ndarray:
    """Bounds of equal ranges of 0..length, multiples of `block`; fewer ranges if there is little work.

    `work_per_item` is in flops.
    """
    blocks = -(-length // block)
    threads, calls = _division(length * work_per_item, blocks)
    if threads * calls == 1:
        return np.array([0, length])
    borders = (np.arange(threads * calls + 1) * blocks // (threads * calls)) * block
    borders[-1] = length
    return _by_thread(borders, calls)


def balanced_bounds(indptr: np.ndarray, work_per_entry: float) -> np.ndarray:
    """Bounds of row ranges with equally many stored entries (CSR `indptr`), which cost more than dense ones."""
    entries = int(indptr[-1])
    threads, calls = _division(8.0 * entries * work_per_entry, len(indptr) - 1)
    if threads * calls == 1:
        return np.array([0, len(indptr) - 1])
    shares = np.arange(threads * calls + 1) * (entries / (threads * calls))
    borders = np.searchsorted(indptr, shares, side="left")
    borders[0], borders[-1] = 0, len(indptr) - 1
    return _by_thread(np.maximum.accumulate(borders), calls)


def _division(flops: float, most: int) -> tuple[int, int]:
    """How many threads share the work, and how many calls each of them makes: several if one would last long."""
    useful = int(flops / LEAST_WORK)
    threads = max(1, min(count(), most, useful))
    return threads, max(1, min(most // threads, -int(-flops // (LONGEST_CALL * threads))))


def _by_thread(borders: np.ndarray, calls: int) -> np.ndarray:
    """A row of borders for each thread, if it makes several calls."""
    if calls == 1:
        return borders
    return np.array([borders[first : first + calls + 1] for first in range(0, len(borders) - 1, calls)])
