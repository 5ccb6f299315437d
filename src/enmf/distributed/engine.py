"""Who computes: the workers of an active Dask client, or threads of this process, which need no Dask.

A part of X belongs to a worker, which has the blocks and the rows of the factors in its memory and uses all its threads
for it. Only small arrays are sent to the workers, and one summand per part back. Up to HANDS workers are asked directly
(Dask's actors: a third of the delay of a task); with more of them, tasks do the work and a tree of tasks adds.

Tasks on a part go to its worker and to no other: a scheduler that balances the load would send the part along, and the
rows cannot follow. When a worker dies, its part is given to the one that has the fewest, where Dask makes its blocks;
the next task on it finds no rows and reports `Lost`, and the caller then sends the steps that make them.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from enmf import parallel
from enmf.distributed.blocks import Preparation, as_block
from enmf.distributed.kinds import half_of_memory
from enmf.distributed.parts import Hand, Instruction, Lost, Packed, Sent, add, drop, make_part, published, run
from enmf.distributed.sources import LazyBlock, futures_in, is_held
from enmf.matrix.factor import WorkersLost

FAN_IN = 8  # partial sums added in one task
HANDS = 8  # workers that are asked directly
ATTEMPTS = 5  # at a pass whose inputs were lost with a worker
BLOCK_BYTES = 64 << 20  # size of a block, if we may choose
BLOCKS = 3  # fewest per worker, unless they would be tiny: makes parts of about the same size
LARGE = 1 << 15  # bytes from which an array is sent separately from the task
PATIENCE = 2.0  # seconds between two checks of the workers
NO_WORKERS = 60.0  # seconds without any worker after which a run ends; Dask's enmf.no-workers-timeout overrides it

_runs = itertools.count()


@dataclass(frozen=True)
class Job:
    """The work of one part: rows to make, and the outcome to send back."""

    part: int
    program: Sequence[Instruction]
    outcome: Instruction


class Engine:
    """Runs tasks: one per block for the survey, one per part for everything else."""

    def __init__(self, memory_limit: int | None = None) -> None:
        self.client = active_client()
        self.memory = memory_limit if memory_limit is not None else half_of_memory()
        self.name = f"enmf-{os.getpid()}-{time.time_ns():x}-{next(_runs)}"
        self.parts: list[Any] = []  # Parts, or futures of them
        self._recipes: list[tuple[Any, ...]] = []  # arguments of `make_part`
        self._homes: list[str] = []  # worker of each part
        self._threads: list[int] = []  # of that worker
        self._lock = threading.RLock()  # runs at the same time share the workers: one asks them after the other
        self._hands: list[Any] = []  # the actor on each part, where there are few

    def block_bytes(self, whole: int) -> int:
        """Size of a block such that every worker gets a share of the `whole`, and the blocks being processed take at
        most a quarter of the memory."""
        most = self.memory // (8 * parallel.count()) if self.client is None else whole // (BLOCKS * self.slots())
        return max(1 << 16, min(BLOCK_BYTES, most))

    def holds(self, nbytes: int) -> bool:
        """Whether blocks of this total size may stay in memory."""
        if self.client is None:
            return 2 * nbytes <= self.memory
        limits = [worker["memory_limit"] for worker in self._workers().values()]
        return not all(limits) or 2 * nbytes <= sum(limits)

    def _workers(self) -> dict[str, Any]:
        return self.client.scheduler_info(n_workers=-1)["workers"]

    def slots(self) -> int:
        """Number of parts processed at the same time."""
        if self.client is None:
            return parallel.count()
        return max(1, len(self._workers()))

    def look(self, function: Callable[..., Any], blocks: Sequence[Any], preparation: Preparation | None) -> list[Any]:
        """function(block) for every block."""
        if self.client is None:
            with parallel.share(len(blocks)) as (at_once, threads):
                return _computed(_look, [(function, preparation, threads, block) for block in blocks], blocks, at_once)
        import dask

        work = dask.delayed(_look, pure=False)
        with self._answering():
            self._wait_for_workers()
            return self._repeated(lambda: self.client.compute([work(function, preparation, None, b) for b in blocks]))

    def place(
        self, blocks: Sequence[Sequence[Any]], heights: Sequence[Sequence[int]], preparation: Preparation, keep: bool
    ) -> None:
        """Make the parts from groups of blocks and assign each to a worker; `keep`: with the blocks in memory."""
        firsts = np.cumsum([0, *(sum(part) for part in heights)]).tolist()
        given = [[block if keep or not hasattr(block, "key") else LazyBlock.of(block) for block in p] for p in blocks]
        self._recipes = [(p, list(tall), first, preparation, keep) for p, tall, first in zip(given, heights, firsts)]
        if self.client is None:
            with parallel.share(len(given)) as (at_once, _):
                self.parts = _computed(make_part, self._recipes, list(itertools.chain(*given)), at_once)
            return
        with self._answering():
            self._homes = self._choose_homes(blocks)
            self.parts = [self._make(part) for part in range(len(given))]
        self.find_homes()

    def _make(self, part: int) -> Any:
        """A part in the memory of its worker; its inputs may be made elsewhere."""
        near = {"workers": [self._homes[part]], "allow_other_workers": True}
        return self._make_of(part, lambda block: self.client.compute(block, optimize_graph=False, **near))

    def _make_anew(self, part: int) -> Any:
        """A part made by a single task: once all workers were gone, the scheduler never resumes the tasks of blocks
        that were to be made near one of them."""
        return self._make_of(part, LazyBlock.of)

    def _make_of(self, part: int, make_block: Callable[[Any], Any]) -> Any:
        blocks, *more = self._recipes[part]
        ready = [block if not hasattr(block, "dask") else self._at_hand(block) or make_block(block) for block in blocks]
        return self.client.submit(make_part, ready, *more, workers=[self._homes[part]], pure=False)

    def _at_hand(self, block: Any) -> Any:
        """A block that workers already hold, or can make from what they hold; None if they hold nothing of it."""
        for future in futures_in(block):
            if future.key == block.key:
                return future
        return self.client.compute(block, optimize_graph=False) if is_held(block) else None

    def _choose_homes(self, blocks: Sequence[Sequence[Any]]) -> list[str]:
        """A worker for each part: the one that holds most of its blocks, among those without a part."""
        free: list[str] = []
        homes = []
        for part in blocks:
            held = [future for block in part for future in futures_in(block)]
            places = [place for who in (self.client.who_has(held).values() if held else ()) for place in who]
            free = free or list(self._workers())
            homes.append(max(free, key=places.count))
            free.remove(homes[-1])
        return homes

    def run(self, jobs: Sequence[Job], forget: Sequence[int], total: bool) -> Any:
        """The outcome of every part, or with `total` their sum; `Lost` if rows were not found."""
        if self.client is None:
            with parallel.share(len(jobs)) as (at_once, threads):
                fixed = [(self.name, job.part, Packed((job.program, job.outcome)), forget, threads) for job in jobs]
                found = parallel.each(run, [(*f, self.parts[j.part]) for f, j in zip(fixed, jobs)], at_once)
        else:
            with self._lock, self._answering():
                found = self._ask_workers(jobs, forget, total)
        if total or any(isinstance(one, Lost) for one in found):
            return add(found)
        return found

    def _ask_workers(self, jobs: Sequence[Job], forget: Sequence[int], total: bool) -> list[Any]:
        if self._hands:
            return self._ask_hands(jobs, forget)
        homes = [self._homes[job.part] for job in jobs]
        return self._repeated(lambda: self._submit(jobs, forget, total), homes)

    def _ask_hands(self, jobs: Sequence[Job], forget: Sequence[int]) -> list[Any]:
        asked = [self._ask(job, forget) for job in jobs]
        return [self._answer(job, future) for job, future in zip(jobs, asked)]

    def _ask(self, job: Job, forget: Sequence[int]) -> Any:
        work = Packed((job.program, job.outcome))
        try:
            return self._hands[job.part].run(self.name, job.part, work, list(forget))
        except (RuntimeError, ValueError):  # Dask already knows that the worker is gone
            return None

    def _answer(self, job: Job, future: Any) -> Any:
        """The answer of the hand; `Lost` if its worker is gone."""
        if future is None:
            return Lost((job.part,))
        while True:
            try:
                return future.result(timeout=PATIENCE)
            except TimeoutError as late:
                _forget_frames(late)
                if self._gone(job.part):
                    return Lost((job.part,))
            except Exception:
                for _ in range(20):  # until the scheduler has noticed
                    if self._gone(job.part):
                        return Lost((job.part,))
                    time.sleep(0.05)
                raise

    def _gone(self, part: int) -> bool:
        return self._homes[part] not in self._present()

    def _present(self) -> dict[str, int]:
        """The workers and their threads; none if the scheduler does not answer."""
        try:
            return dict(self.client.nthreads()) if self.client.status == "running" else {}
        except (OSError, AttributeError):  # a client that has just been closed has no scheduler
            return {}

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Turn what a client raises after losing its scheduler into `WorkersLost`."""
        try:
            yield
        except Exception as problem:
            if self.client.status == "running" or isinstance(problem, WorkersLost):
                raise
            raise WorkersLost(f"the Dask scheduler no longer answers ({problem})") from problem

    def _submit(self, jobs: Sequence[Job], forget: Sequence[int], total: bool) -> list[Any]:
        parcel = _Parcel()
        packed = [(parcel.pack_all(job.program), parcel.pack(job.outcome)) for job in jobs]
        sent = [self.client.scatter(array, hash=False, broadcast=False) for array in parcel.arrays]
        number = time.time_ns()
        futures = [
            self.client.submit(
                run,
                self.name,
                job.part,
                Packed(work),
                list(forget),
                self._threads[job.part],
                self.parts[job.part],
                *sent,
                workers=[self._homes[job.part]],
                pure=False,
                key=f"enmf-part-{number}-{job.part}",
            )
            for job, work in zip(jobs, packed)
        ]
        while total and len(futures) > FAN_IN:
            futures = [
                self.client.submit(add, futures[i : i + FAN_IN], pure=False) for i in range(0, len(futures), FAN_IN)
            ]
        return futures

    def _repeated(self, submit: Callable[[], list[Any]], homes: Sequence[str] = ()) -> list[Any]:
        """Submit, wait and gather; repeated if inputs were lost with a worker. `Lost` if a home is gone."""
        from distributed import KilledWorker

        for attempt in range(ATTEMPTS):
            try:
                futures = submit()
                if not self._wait_for(futures, homes):
                    return [Lost(tuple(part for part in range(len(self.parts)) if self._gone(part)))]
                return self.client.gather(futures, direct=True)
            except KilledWorker as problem:
                raise WorkersLost(f"a task repeatedly killed the worker that ran it: {problem}") from None
            except _lost_inputs():
                if attempt == ATTEMPTS - 1:
                    raise WorkersLost("workers were lost faster than a pass over X could be repeated") from None
                time.sleep(0.1 * 2**attempt)  # until the scheduler has noticed
        raise AssertionError  # not reached

    def find_homes(self) -> None:
        """Put every part into the memory of its worker, and ask for hands on them; at the start and after a loss."""
        if self.client is None:
            return
        with self._lock, self._answering():
            for attempt in range(ATTEMPTS):
                if self._settle():
                    return
                time.sleep(0.1 * 2**attempt)  # until the scheduler has noticed
        raise WorkersLost("workers were lost faster than the blocks of X could be made again")

    def _settle(self) -> bool:
        """Make the lost parts; returns whether all are now where they belong, with a hand on each."""
        self._wait_for_workers()
        workers = self._present()
        if not workers:
            return False
        self._house(workers)
        if not self._wait_for(self.parts, self._homes):
            self.parts = [part if part.status == "finished" else None for part in self.parts]
            return False
        self._raise_errors()
        where = self.client.who_has(self.parts)
        if not all(home in where.get(part.key, ()) for home, part in zip(self._homes, self.parts)):
            return False
        self._threads = [workers[home] for home in self._homes]
        return len(self.parts) > HANDS or self._take_hands()

    def _house(self, workers: dict[str, int]) -> None:
        """Assign a worker to each part whose own is gone; make the part there, and wherever it is missing."""
        self._hands = []
        for part, home in enumerate(self._homes):
            if home not in workers:
                self._homes[part] = min(workers, key=self._homes.count)
                self.parts[part] = None
            if self.parts[part] is None:
                self.parts[part] = self._make_anew(part)

    def _take_hands(self) -> bool:
        asked = [self._hand(number) for number in range(len(self.parts))]
        if not self._wait_for(asked, self._homes) or any(hand.status != "finished" for hand in asked):
            return False
        self._hands = self.client.gather(asked)
        return True

    def _raise_errors(self) -> None:
        """Raise what reading a block raised, if one cannot be read."""
        from distributed import KilledWorker

        for part in self.parts:
            if part.status == "error":
                try:
                    part.result()
                except KilledWorker as problem:
                    raise WorkersLost(f"reading X repeatedly killed the worker that did it: {problem}") from None

    def _hand(self, number: int) -> Any:
        return self.client.submit(
            Hand, self.parts[number], self._threads[number], actor=True, workers=[self._homes[number]], pure=False
        )

    def _wait_for(self, futures: list[Any], homes: Sequence[str] = ()) -> bool:
        """Wait, and check now and then that the work is in progress; False if one of these workers is gone, or if the
        scheduler assigns the work to no worker."""
        from distributed import wait

        busy = time.monotonic()
        while True:
            try:
                wait(futures, timeout=PATIENCE)
                return True
            except TimeoutError as late:
                _forget_frames(late)
                self._wait_for_workers()
                if not set(homes) <= set(self._present()):
                    return False
                if any(self.client.processing().values()):
                    busy = time.monotonic()
                elif time.monotonic() - busy >= no_workers_timeout():
                    return False

    def _wait_for_workers(self) -> None:
        """Return at once if there is a worker; otherwise wait for one, up to the timeout."""
        patience = no_workers_timeout()
        began = time.monotonic()
        while not self._present():
            if time.monotonic() - began >= patience or self.client.status == "closed":
                raise WorkersLost(f"no Dask worker is left, and none came back within {patience:g} seconds")
            time.sleep(min(0.5, patience))

    def publish(self, key: int, heights: Sequence[int], columns: int, dtype: Any) -> Any:
        """The rows of a step, which are stored with the parts, as a Dask array that outlives the run."""
        import dask
        import dask.array as da

        if self.client is None:
            arrays = [published(self.name, part, key) for part in range(len(heights))]
            return da.concatenate([da.from_array(array, chunks=array.shape) for array in arrays])
        with self._answering():
            futures = self._publish_all(len(heights), key)
        shapes = [(height, columns) for height in heights]
        blocks = [da.from_delayed(dask.delayed(future), shape, dtype) for future, shape in zip(futures, shapes)]
        return da.concatenate(blocks)

    def _publish_all(self, parts: int, key: int) -> list[Any]:
        futures: list[Any] = [None] * parts
        for _ in range(ATTEMPTS):  # load balancing may have moved a task to a worker without the rows
            futures = [future or self._publish(part, key) for part, future in enumerate(futures)]
            self._wait_for(futures)
            futures = [future if future.status == "finished" else None for future in futures]
            if all(futures):
                return futures
        raise WorkersLost("a worker was lost after the last iteration, and its rows of U with it")

    def _publish(self, part: int, key: int) -> Any:
        """If its worker is lost, the task runs elsewhere and raises an error there: better than waiting forever."""
        how = {"workers": [self._homes[part]], "allow_other_workers": True, "pure": False}
        return self.client.submit(published, self.name, part, key, **how)

    def release(self) -> None:
        """Forget all rows; may be called from anywhere and does not block."""
        if self.client is None:
            drop(self.name)
        elif self.client.status == "running":
            self.client.loop.add_callback(self.client._run, drop, self.name, on_error="ignore")


class _Parcel:
    """Large arrays of programs, each sent once."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self._index: dict[int, int] = {}

    def pack_all(self, program: Sequence[Instruction]) -> list[Instruction]:
        return [self.pack(one) for one in program]

    def pack(self, one: Instruction) -> Instruction:
        return Instruction(one.function, tuple(map(self._packed, one.arguments)), one.key, one.keep)

    def _packed(self, argument: Any) -> Any:
        if not isinstance(argument, np.ndarray) or argument.nbytes < LARGE:
            return argument
        if id(argument) not in self._index:
            self._index[id(argument)] = len(self.arrays)
            self.arrays.append(argument)
        return Sent(self._index[id(argument)])


def _forget_frames(problem: BaseException) -> None:
    """Dask keeps an exception in a frame that the exception refers to. Without this, all frames up to ours, and the
    rows in their variables, would live until the next garbage collection."""
    problem.__traceback__ = None


def _look(function: Callable[..., Any], preparation: Preparation | None, threads: int | None, block: Any) -> Any:
    """Read the block if it is not in memory yet, prepare it, call the function."""
    raw = block.load() if hasattr(block, "load") else block
    ready = as_block(raw) if preparation is None else preparation.apply(raw)
    with parallel.limit(threads):
        return function(ready)


def _computed(function: Callable[..., Any], calls: Sequence[Any], blocks: Sequence[Any], at_once: int) -> list[Any]:
    """function(*arguments) for each of the calls, on threads of this process; Dask computes its own blocks."""
    if not any(hasattr(block, "dask") for block in blocks):
        return parallel.each(function, calls, at_once)
    import dask

    work = dask.delayed(function, pure=False)
    tasks = [work(*arguments) for arguments in calls]
    how = {"scheduler": "sync"} if at_once == 1 else {"scheduler": "threads", "num_workers": at_once}
    return list(dask.compute(*tasks, **how, optimize_graph=False))


def no_workers_timeout() -> float:
    """Seconds, from Dask's setting enmf.no-workers-timeout: a number, or a string such as "5s"."""
    import dask
    from dask.utils import parse_timedelta

    given = dask.config.get("enmf.no-workers-timeout", NO_WORKERS)
    try:
        return float(parse_timedelta(given))
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"enmf.no-workers-timeout must be seconds or a string such as '5s', got {given!r}") from None


def active_client() -> Any:
    """The Dask client in use, or None."""
    import sys

    if "distributed" not in sys.modules:  # there cannot be a client
        return None
    from distributed import get_client

    try:
        return get_client()
    except ValueError:
        return None


def _lost_inputs() -> tuple[type[BaseException], ...]:
    from concurrent.futures import CancelledError

    from distributed.client import FutureCancelledError
    from distributed.comm import CommClosedError  # raised if a worker dies while arrays are sent to it

    return CancelledError, FutureCancelledError, CommClosedError
