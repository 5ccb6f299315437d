"""Clock, trace, callback, interrupts and progress display of one run. The clock stops while the run is measured."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import repeat
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from enmf.certificate.words import PROVEN, exactness
from enmf.matrix.factor import here, snapshot
from enmf.run.stopping import RULES, Moment, Stopping
from enmf.run.trace import Phase, Trace, TraceRow

if TYPE_CHECKING:
    from enmf.problem.problem import Problem

GRACE = 0.1  # share of the time limit by which worthwhile work may exceed it


@dataclass(frozen=True)
class Progress:
    """What a callback sees: the row of the trace, and the current factors (read only).

    A U that lives with the blocks of X is a `RowBlocks`: `gather()` brings it to the caller.
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
    """Records what happens in one run of a problem and decides whether it ends."""

    def __init__(
        self, problem: Problem, stopping: Stopping, callback: Callable[[Progress], object] | None = None
    ) -> None:
        X, loss = problem.X, problem.loss
        self.X, self.stopping, self.callback = X, stopping, callback
        self.whole = loss.whole(X)
        self.unit = problem.units.error(loss)  # error of the run times this: error in the user's units
        self.trace = Trace()
        self.phases: dict[str, Phase] = {}
        self.lower_bound = 0.0
        self.interrupted = False
        self.latest: tuple[np.ndarray | None, np.ndarray] | None = None  # last factors of the descent on X
        self._exact = exactness(X.dtype) * self.whole
        self._precision = float(np.finfo(X.dtype).eps)
        self._first_pass = X.passes
        self._start = time.perf_counter()
        self._measuring = 0.0
        self.progress = math.inf, 0  # the last objective that was progress, and its iteration
        self._restarting = False
        self._outer: Monitor | None = None  # of the run that this is a part of

    def seconds(self) -> float:
        """Time of the run, without the time spent on measuring it."""
        return time.perf_counter() - self._start - self._measuring

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """The clock stands still and passes are not counted: error and KKT residual are not part of a method."""
        began, ledger = time.perf_counter(), self.X.ledger
        passes = ledger.passes
        try:
            yield
        finally:
            ledger.passes = passes
            self._measuring += time.perf_counter() - began

    @property
    def passes(self) -> int:
        """Passes over X since the beginning of the run."""
        return self.X.passes - self._first_pass

    def time_left(self) -> float:
        limit = self.stopping.time_limit
        began = self._start if self.stopping.began is None else self.stopping.began
        return math.inf if limit is None else limit - (time.perf_counter() - began)

    def affords(self, passes: float) -> bool:
        """Whether this many passes would end about in time, judging by the passes of this run so far."""
        phase = self.phases.get("descent", Phase())
        known = phase if phase.passes else sum(self.phases.values(), Phase())
        left = self.time_left() + GRACE * (self.stopping.time_limit or 0.0)
        return passes == 0 or passes * known.seconds / max(known.passes, 1) < left

    def out_of_time(self) -> bool:
        """Whether time is up; asked between iterations of phases that cannot return factors yet."""
        outer = self._outer is not None and self._outer.interrupted
        return self.interrupted or outer or self.time_left() <= 0

    def arrived(self, error: float) -> bool:
        """Whether an error (in units of the run) has reached the target."""
        target = self.stopping.target_error
        return target is not None and error * self.unit <= target

    def proven(self, error: float) -> str | None:
        """The status for an error that cannot be improved, or hardly; None otherwise."""
        if error <= (1.0 + PROVEN) * self.lower_bound:
            return "global_optimum"
        return "exact" if error <= self._exact else None

    def largest_limit(self) -> float:
        """The error (in units of the run) below which it may be over: on target, exact, or at the bound."""
        target = self.stopping.target_error
        return max((1.0 + PROVEN) * self.lower_bound, self._exact, 0.0 if target is None else target / self.unit)

    def iterations_without_progress(self, iteration: int, objective: float) -> int:
        if iteration == 0 or objective < self.progress[0] * (1.0 - 8.0 * self._precision):
            self.progress = objective, iteration
        return iteration - self.progress[1]

    def verdict(self, now: Moment) -> str | None:
        """The status with which the run ends now, or None to continue."""
        for rule in RULES:
            status = rule(self, now)
            if status is not None:
                return status
        return None

    def within(self, problem: Problem) -> Monitor:
        """The same clock, limits and phases for another problem that is solved on the way; its trace is its own."""
        other = Monitor(problem, replace(self.stopping, target_error=None))
        other.phases, other._start, other._restarting, other._outer = self.phases, self._start, self._restarting, self
        return other

    @contextmanager
    def restarting(self) -> Iterator[None]:
        """Count all phases of a further start or of a leap, and its descent, as the phase "restart"."""
        before, self._restarting = self._restarting, True
        try:
            yield
        finally:
            self._restarting = before

    @contextmanager
    def phase(self, name: str) -> Iterator[_PhaseCounter]:
        """Add the cost of the body to the named phase."""
        name = "restart" if self._restarting else name
        counter = _PhaseCounter()
        began, before = self.seconds(), self.X.passes
        try:
            yield counter
        finally:
            spent = Phase(self.seconds() - began, self.X.passes - before, counter.iterations)
            self.phases[name] = self.phases.get(name, Phase()) + spent

    def record(self, iteration: int, phase: str, error: float, kkt: float, U: Any, V: Any) -> None:
        """Add a row to the trace and show it to the callback."""
        phase = "restart" if self._restarting and phase == "descent" else phase
        row = TraceRow(iteration, phase, self.seconds(), error * self.unit, kkt, self.passes)
        self.trace.append(row)
        if phase == "descent":
            self.latest = here(U), V  # None for rows elsewhere: they are not kept alive for this
        if self.callback is None:
            return
        try:
            if self.callback(Progress(row, snapshot(U), snapshot(V), self.lower_bound * self.unit)):
                self.interrupted = True
        except KeyboardInterrupt:
            self.interrupted = True

    def record_many(self, phase: str, measuring: float, *columns: Iterable[Any]) -> None:
        """Add a row for each of several iterations: numbers, seconds, errors, KKT residuals, passes of the run so far.

        Nobody watches them; the clock stood still while they were measured.
        """
        self._measuring += measuring
        phase = "restart" if self._restarting and phase == "descent" else phase
        iterations, seconds, errors, residuals, passes = columns
        in_units = [error * self.unit for error in errors]
        self.trace.extend(map(TraceRow, iterations, repeat(phase), seconds, in_units, residuals, passes))


class _PhaseCounter:
    iterations = 0


@contextmanager
def interruptible(monitor: Monitor) -> Iterator[None]:
    """The first Ctrl-C asks the run to end after the current iteration, the second one raises KeyboardInterrupt."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # a foreign handler stays in charge
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


@contextmanager
def display(
    verbose: bool | int, callback: Callable[[Progress], object] | None
) -> Iterator[Callable[[Progress], object] | None]:
    """The callback of the run: the user's, preceded by the display if `verbose` is set."""
    if not verbose:
        yield callback
        return
    from rich.console import Console

    console = Console(stderr=True)
    last = 0.0

    def show(progress: Progress) -> object:
        nonlocal last
        if progress.seconds - last >= 0.1 or progress.row.iteration == 0:
            last = progress.seconds
            status.update(describe(progress))
            if not console.is_terminal:
                console.print(describe(progress))
        return callback(progress) if callback is not None else None

    with console.status("enmf: singular value decomposition") as status:
        yield show


def describe(progress: Progress) -> str:
    """One line: phase, iteration, seconds, error, distance to the bound, KKT residual."""
    row = progress.row
    text = f"enmf: {row.phase} {row.iteration:5d}  {row.seconds:7.1f} s  error {row.error:.6g}"
    if progress.lower_bound > 0:
        text += f"  ({row.error / progress.lower_bound:.5f} x bound)"
    if not math.isnan(row.kkt):
        text += f"  kkt {row.kkt:.1e}"
    return text
