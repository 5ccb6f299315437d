"""The one place that arranges threads.

BLAS brings its own threads; our compiled kernels release the GIL and run on a pool of Python threads, each on a
contiguous range of rows. Pool threads sleep between calls, so the two never fight for a core (OpenMP workers spin after
each region and double the time of the product that follows). Nothing is exported or set globally: inside
`limit(n)` both sides use n threads, outside everything is as it was.

A range is never split in a way that changes arithmetic, so results do not depend on the number of threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

Answer = TypeVar("Answer")

_count: ContextVar[int | None] = ContextVar("enmf_threads", default=None)
_pool: ThreadPoolExecutor | None = None
_pool_size = 0
_lock = threading.Lock()


def _available_cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1


def _default_count() -> int:
    """As many threads as BLAS may use now (so a limit set by joblib or threadpoolctl holds for us too)."""
    blas = [lib["num_threads"] for lib in ThreadpoolController().info() if lib["user_api"] == "blas"]
    return max(1, min([_available_cores(), *blas]))


def count() -> int:
    """Number of threads our kernels use here."""
    current = _count.get()
    return current if current is not None else _default_count()


@contextmanager
def limit(n_threads: int | None) -> Iterator[int]:
    """Run the body with `n_threads` threads for BLAS and for our kernels; None keeps what BLAS is allowed now."""
    if n_threads is None:
        token = _count.set(count())
        try:
            yield count()
        finally:
            _count.reset(token)
        return
    token = _count.set(n_threads)
    try:
        with ThreadpoolController().limit(limits=n_threads, user_api="blas"):
            yield n_threads
    finally:
        _count.reset(token)


@contextmanager
def share(tasks: int) -> Iterator[tuple[int, int]]:
    """Divide the threads of the caller among independent tasks: how many run at once, and the threads of each.

    BLAS keeps to that number in the body. The tasks run on threads that know nothing of the caller's limit: each of
    them has to enter `inside` with the second number.
    """
    available = count()
    at_once = max(1, min(available, tasks))
    with ThreadpoolController().limit(limits=available // at_once, user_api="blas"):
        yield at_once, available // at_once


@contextmanager
def inside(threads: int | None) -> Iterator[None]:
    """The body's kernels use that many threads (None: as many as BLAS may); BLAS itself is left alone."""
    token = _count.set(threads if threads is not None else _default_count())
    try:
        yield
    finally:
        _count.reset(token)


def _workers(size: int) -> ThreadPoolExecutor:
    global _pool, _pool_size
    with _lock:
        if _pool is None or _pool_size < size:
            _pool = ThreadPoolExecutor(max_workers=size, thread_name_prefix="enmf")
            _pool_size = size
        return _pool


def _forget_pool() -> None:
    """A forked child has no threads: make a new pool when one is needed."""
    global _pool, _pool_size, _lock
    _pool, _pool_size, _lock = None, 0, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


def run(kernel: Callable[..., Any], bounds: np.ndarray, *arguments: Any) -> None:
    """Call kernel(start, stop, *arguments) for the consecutive ranges in `bounds`, one thread each.

    The caller's thread takes the first range. An interrupt waits for the others: nobody writes into an array after
    this function has ended.
    """
    starts, stops = bounds[:-1].tolist(), bounds[1:].tolist()
    if len(starts) == 1:
        kernel(starts[0], stops[0], *arguments)
        return
    pool = _workers(len(starts) - 1)
    others = [pool.submit(kernel, a, b, *arguments) for a, b in zip(starts[1:], stops[1:])]
    try:
        kernel(starts[0], stops[0], *arguments)
    finally:
        wait(others)
    for future in others:
        future.result()


def together(task: Callable[[int], Answer], count: int, n_threads: int | None) -> list[Answer]:
    """task(0), ..., task(count - 1), as many at a time as there are threads; each has one for BLAS and kernels."""
    with limit(n_threads) as workers, limit(1), ThreadPoolExecutor(max_workers=workers) as pool:
        # the number of threads is a context variable: every task needs a copy of this context
        waiting = [pool.submit(copy_context().run, task, index) for index in range(count)]
        try:
            return [future.result() for future in waiting]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # Ctrl-C: begin no further task
            raise


def even_bounds(length: int, work_per_item: float, block: int = 1) -> np.ndarray:
    """Borders of equal ranges of 0..length, multiples of `block`; fewer ranges when there is little work.

    `work_per_item` is in flops; handing a range to another thread costs about 50 microseconds.
    """
    blocks = -(-length // block)
    useful = max(1, int(length * work_per_item / 200_000))
    parts = max(1, min(count(), blocks, useful))
    borders = (np.arange(parts + 1) * blocks // parts) * block
    borders[-1] = length
    return borders


def balanced_bounds(indptr: np.ndarray, work_per_entry: float) -> np.ndarray:
    """Borders of row ranges with equally many stored entries (CSR `indptr`)."""
    entries = int(indptr[-1])
    useful = max(1, int(entries * work_per_entry / 200_000))
    parts = max(1, min(count(), len(indptr) - 1, useful))
    borders = np.searchsorted(indptr, np.arange(parts + 1) * (entries / parts), side="left")
    borders[0], borders[-1] = 0, len(indptr) - 1
    return np.maximum.accumulate(borders)
