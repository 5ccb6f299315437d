"""When a run ends, and what each word promises.

global_optimum   error <= (1 + PROVEN) bound: no factorization of this rank, nonnegative or not, has an error that is
                 smaller by more than the share PROVEN. The bound is rigorous (`enmf.linalg.svd`); error = bound = 0
                 is the case of an X reproduced to the last digit.
exact            error <= exactness(dtype) ||X||: U Vᵀ is X up to this share of it. A closer one may exist, by no more
                 than that.
converged        KKT residual <= tol (`effective_tol` where the error is small): stationary, which says nothing about
                 other minima
target_reached   error <= target_error
max_iter, timeout
stalled          the objective has stopped falling (rounding) before the KKT residual came below tol
interrupted      Ctrl-C, or the callback asked to stop

The first two speak of the error, so no run with a penalty ends with them: its aim is another one.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np

from enmf.distributed.rows import RowBlocks
from enmf.matrix.base import Matrix
from enmf.run.trace import Phase, Trace, TraceRow

STATUSES = ("global_optimum", "exact", "converged", "target_reached", "max_iter", "timeout", "stalled", "interrupted")
PROVEN = 1e-6  # share of the bound by which the error of a "global_optimum" may exceed it
EXACT = 1e-8  # share of ||X|| up to which the error of a double precision factorization is called exact
GRACE = 0.1  # share of the time limit by which what is worth it may be late
SMALL_ERROR = 0.01  # relative error below which the tolerance shrinks with the error


@dataclass(frozen=True)
class Stopping:
    """Limits of a run."""

    tol: float = 1e-5
    max_iter: int = 2000
    time_limit: float | None = None
    target_error: float | None = None
    patience: int = 100  # iterations without progress until a run counts as stalled
    began: float | None = None  # time.perf_counter() from which time_limit counts; None: from the Monitor's beginning


@dataclass(frozen=True)
class Progress:
    """What a callback sees: the row of the trace, and the factors (read only) as they are now.

    A U that lives with the blocks of X is a `RowBlocks`: `gather()` brings it here.
    """

    row: TraceRow
    U: np.ndarray
    V: np.ndarray
    lower_bound: float

    def __getattr__(self, name: str) -> Any:
        if name in TraceRow._fields:
            return getattr(self.row, name)
        raise AttributeError(name)


class Monitor:
    """Clock, trace, callback and interrupts of one run."""

    def __init__(
        self,
        stopping: Stopping,
        X: Matrix,
        callback: Callable[[Progress], object] | None = None,
        unit: float = 1.0,
    ) -> None:
        self.stopping = stopping
        self.X = X
        self.whole = math.sqrt(X.squared_norm())
        self.unit = unit  # errors of the run times this are errors in the user's units
        self.callback = callback
        self.trace = Trace()
        self.phases: dict[str, Phase] = {}
        self.lower_bound = 0.0
        self.interrupted = False
        self.latest: tuple[np.ndarray | None, np.ndarray] | None = None  # last factors of the descent on X, here
        self._exact = exactness(X.dtype) * self.whole
        self._precision = float(np.finfo(X.dtype).eps)
        self._first_pass = X.passes
        self._start = time.perf_counter()
        self._measuring = 0.0
        self._best = math.inf
        self._best_at = 0
        self._restarting = False

    def seconds(self) -> float:
        """Time of the run, without the time spent on measuring it."""
        return time.perf_counter() - self._start - self._measuring

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """The clock stands still and passes are not counted: error and KKT residual are not part of a method."""
        began, passes = time.perf_counter(), self.X.passes
        try:
            yield
        finally:
            self.X.passes = passes
            self._measuring += time.perf_counter() - began

    def _time_left(self) -> float:
        limit = self.stopping.time_limit
        began = self._start if self.stopping.began is None else self.stopping.began
        return math.inf if limit is None else limit - (time.perf_counter() - began)

    def _timed_out(self) -> bool:
        return self._time_left() <= 0

    def affords(self, passes: float) -> bool:
        """Whether so many passes end about in time, by those of this run so far."""
        phase = self.phases.get("descent", Phase())
        known = phase if phase.passes else sum(self.phases.values(), Phase())
        left = self._time_left() + GRACE * (self.stopping.time_limit or 0.0)
        return passes == 0 or passes * known.seconds / max(known.passes, 1) < left

    def out_of_time(self) -> bool:
        """Asked between iterations of phases that cannot return factors yet."""
        return self.interrupted or self._timed_out()

    def arrived(self, error: float) -> bool:
        """Whether an error (in units of the run) is as small as was asked for."""
        target = self.stopping.target_error
        return target is not None and error * self.unit <= target

    @contextmanager
    def restarting(self) -> Iterator[None]:
        """All phases of a further start, and its descent, are the phase "restart"."""
        self._restarting = True
        try:
            yield
        finally:
            self._restarting = False

    @contextmanager
    def phase(self, name: str) -> Iterator[_PhaseCounter]:
        """Add the cost of the body to the phase of that name."""
        name = "restart" if self._restarting else name
        counter = _PhaseCounter()
        began, before = self.seconds(), self.X.passes
        try:
            yield counter
        finally:
            spent = Phase(self.seconds() - began, self.X.passes - before, counter.iterations)
            self.phases[name] = self.phases.get(name, Phase()) + spent

    def record(self, iteration: int, phase: str, error: float, kkt: float, U: np.ndarray, V: np.ndarray) -> None:
        """Add a row to the trace and show it to the callback."""
        phase = "restart" if self._restarting and phase == "descent" else phase
        row = TraceRow(iteration, phase, self.seconds(), error * self.unit, kkt, self.X.passes - self._first_pass)
        self.trace.append(row)
        if phase == "descent":
            self.latest = None if isinstance(U, RowBlocks) else U, V  # rows that are not needed shall not be kept
        if self.callback is None:
            return
        try:
            if self.callback(Progress(row, _view(U), _view(V), self.lower_bound * self.unit)):
                self.interrupted = True
        except KeyboardInterrupt:
            self.interrupted = True

    def verdict(
        self, iteration: int, max_iter: int, error: float, kkt: float, objective: float, penalized: bool = False
    ) -> str | None:
        """The status with which a run on X ends here, or None to go on."""
        limits = self.stopping
        if self.interrupted:
            return "interrupted"
        if not math.isfinite(objective):
            return "stalled"
        if not penalized and (proven := self.proven(error)):
            return proven
        if kkt <= effective_tol(limits.tol, error, self.whole):
            return "converged"
        if self.arrived(error):
            return "target_reached"
        if self._timed_out():
            return "timeout"
        if iteration >= max_iter:
            return "max_iter"
        if self._stalled(iteration, objective):
            return "stalled"
        return None

    def proven(self, error: float) -> str | None:
        """The word for an error that cannot be improved, or hardly so."""
        if error <= (1.0 + PROVEN) * self.lower_bound:
            return "global_optimum"
        return "exact" if error <= self._exact else None

    def _stalled(self, iteration: int, objective: float) -> bool:
        if iteration == 0 or objective < self._best * (1.0 - 8.0 * self._precision):
            self._best, self._best_at = objective, iteration
        return iteration - self._best_at >= self.stopping.patience and self.stopping.tol > 0


def _view(F: np.ndarray) -> np.ndarray:
    if isinstance(F, RowBlocks):
        return F.copy()
    view = F.view()
    view.flags.writeable = False
    return view


class _PhaseCounter:
    iterations = 0


def effective_tol(tol: float, error: float, whole: float) -> float:
    """The KKT residual at which a run has converged: it shrinks with the error where that is small."""
    return tol * min(1.0, error / (SMALL_ERROR * whole)) if whole > 0 else tol


def exactness(dtype: np.dtype) -> float:
    """Relative error up to which a factorization is exact: EXACT, or what single precision can tell from zero."""
    return max(EXACT, 4.0 * float(np.finfo(dtype).eps))


@contextmanager
def interruptible(monitor: Monitor) -> Iterator[None]:
    """The first Ctrl-C asks the run to end after the current iteration, the second one raises KeyboardInterrupt."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # somebody else's handler decides
        yield
        return

    def ask(number: int, frame: FrameType | None) -> None:
        if monitor.interrupted:
            signal.default_int_handler(number, frame)
        monitor.interrupted = True

    signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
