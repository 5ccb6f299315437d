"""X in blocks of rows that are never in memory all at once, or not on this machine; Dask runs the work.

    X V = [X_1 V; ...; X_B V]          Xᵀ U = X_1ᵀ U_1 + ... + X_Bᵀ U_B          Xᵀ X Q = sum of X_bᵀ (X_b Q)

A product is one task a block, and a tree of additions in fixed order, so that the sum does not depend on who computed
what. With an active Dask client the tasks go to its workers, V travels to them and the sum of m x r numbers comes back;
without one they run on threads of this process, a few blocks in memory at a time. U and X V (n x r) live with the
caller. Blocks that fit into the memory at hand are read once and kept, others are read anew in each pass.

A task is a pure function of a block and of what was sent with it: Dask repeats it elsewhere when a worker dies, and a
pass whose inputs were lost with the worker is repeated here.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from enmf import parallel
from enmf.matrix.base import Matrix, product_cost
from enmf.matrix.dense import DenseMatrix
from enmf.matrix.sparse import SparseMatrix

FAN_IN = 8  # partial sums added in one task
ATTEMPTS = 5  # of a pass whose inputs were lost with a worker
BLOCK_BYTES = 64 << 20  # of a block, where we may choose
NO_WORKERS = 60.0  # seconds without any worker after which a run ends; Dask's setting enmf.no-workers-timeout wins


class WorkersLost(RuntimeError):
    """No worker is left to go on with. `U` and `V` are the last factors of the run, None before the first ones."""

    U: np.ndarray | None = None
    V: np.ndarray | None = None


@dataclass(frozen=True)
class Preparation:
    """What is done to a block after reading it: dtype, negatives from rounding to zero, division by the scale."""

    dtype: np.dtype
    scale: float = 1.0
    clip: bool = False

    def apply(self, raw: Any) -> Any:
        block = as_block(raw)
        block = block.astype(self.dtype, copy=False)
        if self.clip or self.scale != 1.0:
            block = block.copy()
            values = block.data if sp.issparse(block) else block
            if self.clip:
                np.maximum(values, 0, out=values)
            values /= np.asarray(self.scale, np.float64)
        return block


@dataclass(frozen=True)
class Survey:
    """What one look at a block tells."""

    shape: tuple[int, int]
    dtype: np.dtype
    sparse: bool
    nbytes: int
    nonzeros: int
    largest: float
    smallest: float
    bad: tuple[str, int, int, int] | None  # NaN or infinity: which, how many, first row (of the block), column
    negative: tuple[int, int, int] | None  # how many, first row, column
    row_squares: np.ndarray


def as_block(raw: Any) -> Any:
    """An ndarray or a canonical CSR array."""
    if sp.issparse(raw):
        block = sp.csr_array(raw)
        if not block.has_canonical_format:
            block = block.copy()
            block.sum_duplicates()
        return block
    block = np.asarray(raw)
    if block.ndim != 2:
        raise ValueError(f"a block of X must have 2 dimensions, got shape {block.shape}")
    return block if block.flags.c_contiguous or block.flags.f_contiguous else np.ascontiguousarray(block)


def look(block: Any) -> Survey:
    """Survey a block as it is."""
    values = block.data if sp.issparse(block) else block
    numbers = values.dtype.kind in "biuf"
    low, high = (float(values.min()), float(values.max())) if numbers and values.size else (0.0, 0.0)
    bad = negative = None
    if not (np.isfinite(low) and np.isfinite(high)):
        nan = np.isnan(values)
        kind, where = ("NaN", nan) if nan.any() else ("infinite", np.isinf(values))
        bad = (kind, int(where.sum()), *_first(block, where))
    elif low < 0:
        negative = (int((values < 0).sum()), *_first(block, values < 0))
    fine = numbers and bad is None and values.size > 0
    wide = block if block.dtype.kind == "f" else block.astype(np.float64) if numbers else block
    with np.errstate(over="ignore"):  # such values are scaled first, and looked at again
        row_squares = _matrix(wide).row_squares() if fine else np.zeros(block.shape[0])
    return Survey(
        shape=block.shape,
        dtype=block.dtype,
        sparse=sp.issparse(block),
        nbytes=sum(a.nbytes for a in (block.data, block.indices, block.indptr)) if sp.issparse(block) else block.nbytes,
        nonzeros=int(np.count_nonzero(values)) if numbers else 0,
        largest=high,
        smallest=low,
        bad=bad,
        negative=negative,
        row_squares=row_squares,
    )


def _first(block: Any, where: np.ndarray) -> tuple[int, int]:
    first = int(np.argmax(where))
    if sp.issparse(block):
        return int(np.searchsorted(block.indptr, first, side="right")) - 1, int(block.indices[first])
    return divmod(first, where.shape[1])


def _matrix(block: Any) -> DenseMatrix | SparseMatrix:
    return SparseMatrix(block) if sp.issparse(block) else DenseMatrix(block)


# What a task does with its block -------------------------------------------------------------------------------------


def _times(block: Any, V: np.ndarray) -> np.ndarray:
    return _matrix(block)._times(V)


def _transpose_times(block: Any, U: np.ndarray) -> np.ndarray:
    if sp.issparse(block):  # one scattered sum: no transposed copy of the block is made
        return np.asfortranarray(block.T @ np.ascontiguousarray(U, dtype=block.dtype))
    return _matrix(block)._transpose_times(U)


def _gram_times(block: Any, Q: np.ndarray) -> np.ndarray:
    return _transpose_times(block, _times(block, Q))


def _gram(block: Any) -> np.ndarray:
    """X_bᵀ X_b in double precision."""
    wide = block.astype(np.float64, copy=False)
    product = wide.T @ wide
    return product.toarray() if sp.issparse(product) else product


def _cross(block: Any, other: Any) -> np.ndarray:
    """X_b X_cᵀ in double precision."""
    product = block.astype(np.float64, copy=False) @ other.astype(np.float64, copy=False).T
    return product.toarray() if sp.issparse(product) else product


def _residual(block: Any, V: np.ndarray, U: np.ndarray) -> float:
    return _matrix(block)._squared_residual(U, V)


def _pick(block: Any, index: np.ndarray) -> Any:
    return block[index]


def _add(parts: list[Any]) -> Any:
    """Sum in the order given. The parts are results of other tasks, which must not change."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def task(
    function: Callable[..., Any], preparation: Preparation | None, threads: int | None, block: Any, *more: Any
) -> Any:
    """One task: read the block where it is not in memory yet, make it ready, call the function."""
    raw = block.load() if hasattr(block, "load") else block
    ready = as_block(raw) if preparation is None else preparation.apply(raw)
    with parallel.limit(threads):
        return function(ready, *more)


def _same(block: Any) -> Any:
    return block


class Engine:
    """Runs one task a block: on the workers of a Dask client, or on threads of this process."""

    def __init__(self, memory_limit: int | None = None) -> None:
        self.client = active_client()
        self.memory = memory_limit if memory_limit is not None else _half_of_memory()

    def block_bytes(self) -> int:
        """Size of a block such that those in work at one time take a quarter of the memory at most."""
        if self.client is not None:
            return BLOCK_BYTES
        return max(1 << 16, min(BLOCK_BYTES, self.memory // (8 * parallel.count())))

    def holds(self, nbytes: int) -> bool:
        """Whether blocks of this size altogether may stay in memory."""
        if self.client is None:
            return 2 * nbytes <= self.memory
        limits = [worker["memory_limit"] for worker in self.client.scheduler_info(n_workers=-1)["workers"].values()]
        return not all(limits) or 2 * nbytes <= sum(limits)

    def keep(self, blocks: Sequence[Any], preparation: Preparation) -> list[Any]:
        """The prepared blocks, held in memory from now on: here, or with the workers."""
        if self.client is None:
            return self.map(_same, blocks, preparation)
        return list(self.client.persist(self._tasks(_same, blocks, preparation, (), None, None), optimize_graph=False))

    def map(
        self,
        function: Callable[..., Any],
        blocks: Sequence[Any],
        preparation: Preparation | None,
        *shared: Any,
        pieces: Sequence[Any] | None = None,
        total: bool = False,
    ) -> Any:
        """function(block, *shared, piece) for every block: a list, or with `total` the sum."""
        if self.client is None:
            with parallel.share(len(blocks)) as (at_once, threads):
                tasks = self._tasks(function, blocks, preparation, shared, pieces, threads, total)
                return _computed(tasks, at_once, total)
        for attempt in range(ATTEMPTS):
            try:
                return self._on_workers(function, blocks, preparation, shared, pieces, total)
            except _lost_inputs():
                if attempt == ATTEMPTS - 1:
                    raise WorkersLost("workers were lost faster than a pass over X could be repeated") from None
                time.sleep(0.1 * 2**attempt)  # until the scheduler has noticed
        raise AssertionError  # not reached

    def _tasks(
        self,
        function: Callable[..., Any],
        blocks: Sequence[Any],
        preparation: Preparation | None,
        shared: Sequence[Any],
        pieces: Sequence[Any] | None,
        threads: int | None,
        total: bool = False,
    ) -> list[Any]:
        import dask

        work, add = dask.delayed(task, pure=False), dask.delayed(_add, pure=False)
        tasks = [
            work(function, preparation, threads, block, *shared, *(() if pieces is None else (pieces[i],)))
            for i, block in enumerate(blocks)
        ]
        while total and len(tasks) > 1:
            tasks = [add(tasks[i : i + FAN_IN]) for i in range(0, len(tasks), FAN_IN)]
        return tasks

    def _on_workers(
        self,
        function: Callable[..., Any],
        blocks: Sequence[Any],
        preparation: Preparation | None,
        shared: Sequence[Any],
        pieces: Sequence[Any] | None,
        total: bool,
    ) -> Any:
        from distributed import KilledWorker

        self._wait_for_workers()
        sent = [self.client.scatter(array, hash=False) for array in shared]
        if pieces is not None:
            pieces = self.client.scatter(list(pieces), hash=False)
        futures = self.client.compute(self._tasks(function, blocks, preparation, sent, pieces, None, total))
        try:
            self._wait_for(futures)
            found = self.client.gather(futures)
        except KilledWorker as problem:
            raise WorkersLost(f"a task ended the worker that ran it, again and again: {problem}") from None
        return found[0] if total else found

    def _wait_for(self, futures: list[Any]) -> None:
        """Wait, and look now and then whether anybody is working."""
        from distributed import wait

        while True:
            try:
                wait(futures, timeout=2.0)
                return
            except TimeoutError:
                self._wait_for_workers()

    def _wait_for_workers(self) -> None:
        """Return at once where there is a worker; without one, wait for its return, not forever."""
        import dask

        patience = float(dask.config.get("enmf.no-workers-timeout", NO_WORKERS))
        began = time.monotonic()
        while True:
            try:
                if self.client.status == "running" and self.client.nthreads():
                    return
            except OSError:
                pass  # the scheduler does not answer
            if time.monotonic() - began >= patience:
                raise WorkersLost(f"no Dask worker is left, and none came back within {patience:g} seconds")
            time.sleep(min(0.5, patience))


def _computed(tasks: list[Any], at_once: int, total: bool) -> Any:
    import dask

    how = {"scheduler": "sync"} if at_once == 1 else {"scheduler": "threads", "num_workers": at_once}
    found = list(dask.compute(*tasks, **how))
    return found[0] if total else found


def active_client() -> Any:
    """The Dask client in use, or None."""
    import sys

    if "distributed" not in sys.modules:  # nobody can have made a client
        return None
    from distributed import get_client

    try:
        return get_client()
    except ValueError:
        return None


def _lost_inputs() -> tuple[type[BaseException], ...]:
    from concurrent.futures import CancelledError

    from distributed.client import FutureCancelledError
    from distributed.comm import CommClosedError  # a worker that died while arrays were sent to it

    return CancelledError, FutureCancelledError, CommClosedError


def _half_of_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):  # not on Windows
        return 4 << 30


class ChunkedMatrix(Matrix):
    """Blocks of rows behind the interface of `Matrix`. `surveys` belong to the prepared blocks; none is empty."""

    def __init__(
        self, blocks: Sequence[Any], surveys: Sequence[Survey], preparation: Preparation, engine: Engine
    ) -> None:
        heights = [survey.shape[0] for survey in surveys]
        super().__init__((sum(heights), surveys[0].shape[1]), preparation.dtype)
        self.blocks, self.preparation, self.engine = list(blocks), preparation, engine
        self.sparse = any(survey.sparse for survey in surveys)
        borders = np.concatenate([[0], np.cumsum(heights)]).tolist()
        self.rows = [slice(a, b) for a, b in itertools.pairwise(borders)]
        self._nonzeros = sum(survey.nonzeros for survey in surveys)
        self._row_squares = np.concatenate([survey.row_squares for survey in surveys])
        nbytes = sum(survey.nbytes for survey in surveys)
        self.kept = engine.holds(nbytes)
        if self.kept:
            self.blocks = engine.keep(blocks, preparation)
            self.preparation = Preparation(preparation.dtype)  # what is kept is ready

    @property
    def cost_per_column(self) -> float:
        return product_cost(*self.shape, self._nonzeros)

    def raw(self) -> Any:
        raise TypeError("X is not in memory: this method or start needs it whole. Choose another one, such as 'enmf'")

    def _run(self, function: Callable[..., Any], *shared: Any, **how: Any) -> Any:
        return self.engine.map(function, self.blocks, self.preparation, *shared, **how)

    def _cut(self, U: np.ndarray) -> list[np.ndarray]:
        return [U[rows] for rows in self.rows]

    def _times(self, V: np.ndarray) -> np.ndarray:
        found = self._run(_times, V)
        out = np.empty((self.shape[0], V.shape[1]), found[0].dtype, order="F")
        for rows, part in zip(self.rows, found):
            out[rows] = part
        return out

    def _transpose_times(self, U: np.ndarray) -> np.ndarray:
        return np.asfortranarray(self._run(_transpose_times, pieces=self._cut(U), total=True))

    def gram_times(self, Q: np.ndarray) -> np.ndarray:
        """Both products on a block while it is at hand: X is read once, and nothing of length n travels."""
        self.passes += 2
        return np.asfortranarray(self._run(_gram_times, Q, total=True))

    def _compute_squared_norm(self) -> float:
        return float(self._row_squares.sum())

    def row_squares(self) -> np.ndarray:
        return self._row_squares

    def _rows(self, index: np.ndarray, weight: np.ndarray) -> Matrix:
        inside = [index[(index >= rows.start) & (index < rows.stop)] - rows.start for rows in self.rows]
        found = [part for part in self._run(_pick, pieces=inside) if part.shape[0]]
        if self.sparse:
            stacked = sp.csr_array(sp.vstack(found, "csr"))
            return SparseMatrix(sp.csr_array(sp.diags_array(weight) @ stacked))
        return DenseMatrix(np.vstack(found) * weight[:, None])

    def _squared_residual(self, U: np.ndarray, V: np.ndarray) -> float:
        return float(sum(self._run(_residual, V, pieces=self._cut(U))))

    def gram(self) -> np.ndarray:
        n, m = self.shape
        if m <= n:
            self.passes += 1
            return self._run(_gram, total=True)
        self.passes += len(self.blocks)  # every block meets every other one
        gram = np.empty((n, n))
        for rows, other in zip(self.rows, self.blocks):
            beside = self.engine.map(_same, [other], self.preparation)[0]
            gram[:, rows] = np.vstack(self._run(_cross, beside))
        return gram
