"""Bursts: on a small X, several iterations of the loop in one call of a kernel (`src/kernels/burst.h`).

A step on a small table takes microseconds, and as much again would pass between its kernels. A burst takes the steps of
the coming iterations and measures them as the loop does. It ends before an iteration that the loop has to judge: one
that may be the last, that has lost its digits, or whose columns have to be evened out. So the loop remains the only one
that decides, and a burst is short enough for clocks, limits and Ctrl-C to be honoured between bursts. A callback sees
every iteration, so a run that has one goes step by step.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from enmf import parallel
from enmf.certificate.words import SETTLED, SMALL_ERROR
from enmf.matrix.base import safe_share
from enmf.run.prospect import judge_outlooks

if TYPE_CHECKING:
    from enmf.problem.state import State
    from enmf.run.loop import Best
    from enmf.run.method import Method
    from enmf.run.monitor import Monitor
    from enmf.run.prospect import Prospect

SECONDS = 0.02  # of a burst
LEAST_WORK = 500_000  # flops of a thread in an iteration: ten microseconds, for a few waits of a tenth of one
LARGEST = 1e150  # a limit beyond it is met at once
SLACK = 1e-6  # relative: an error this close to a limit is left to the loop


class Bursts:
    """The bursts of one descent or stage."""

    def __init__(self, state: State, method: Method, monitor: Monitor, kernel: Any) -> None:
        self.state, self.method, self.monitor, self.kernel = state, method, monitor, kernel
        self.products = [np.empty(half.F.shape, half.F.dtype, order="F") for half in state.halves]
        self.plain, self.best = ([np.empty_like(F) for F in self.products] for _ in range(2))
        useful = int(method.step_flops(state) / LEAST_WORK)
        self.threads = np.arange(max(1, min(parallel.count(), useful)) + 1)
        self.pause = 0  # iterations until the next attempt
        self.failures = 0
        X, now = state.X, kernel.state
        now.squared_norm, now.size = X.squared_norm(), math.sqrt(X.squared_norm())
        now.precision = float(np.finfo(X.dtype).eps)
        now.patience = 1 << 60
        self.kept: Best | None = None
        self.prospect: Prospect | None = None

    def judge(self, interval: int, evening: int, best: Best, prospect: Prospect, rival: float | None) -> None:
        """These are bursts of a descent, which measures KKT residuals, evens out columns and keeps the best pair; its
        prospect may end it where there is a `rival` to beat, an infinite one included."""
        monitor, now = self.monitor, self.kernel.state
        stopping = monitor.stopping
        now.interval, now.evening, now.apart = interval, evening, self.state.apart
        now.tol, now.tol_from = stopping.least_kkt, max(SMALL_ERROR * monitor.whole, np.finfo(float).tiny)
        now.patience = stopping.patience if stopping.least_kkt > 0 else 1 << 60
        now.keeps_all = not self.method.monotone
        self.kept, self.prospect = best, prospect
        if rival is not None:
            judge_outlooks(now.outlook, SETTLED, rival)

    def take(self, iteration: int, most: int, memory: Any, phase: str) -> int:
        """Take up to `most` steps from this iteration on, and record what they begin with; returns how many.

        Where bursts end depends on the clock, but not what they compute: the loop takes no step between them.
        """
        if self.pause > 0:
            self.pause -= 1
            return 0
        taken = 0
        while taken < most and not self.monitor.out_of_time():
            taken += self._take(iteration + taken, most - taken, memory, phase)
            if self.kernel.state.due:
                break
        self.failures = 0 if taken else self.failures + 1
        self.pause = min((1 << self.failures) - 1, 64)
        return taken

    def _take(self, iteration: int, most: int, memory: Any, phase: str) -> int:
        now, monitor, state = self.kernel.state, self.monitor, self.state
        sweeps = self.method.enter_burst(memory, now)
        limit = 0.0 if self.kept is None else min(monitor.largest_limit(), LARGEST)
        now.least_value = 0.5 * ((1.0 + SLACK) * max(limit, math.sqrt(safe_share(state.X.dtype)) * now.size)) ** 2
        now.iteration, now.most, now.passes = iteration, most, 0
        now.seconds = min(SECONDS, monitor.time_left())
        now.lowest, now.lowest_at = monitor.progress if iteration else (math.inf, 0)
        now.best = self.kept.objective if self.kept is not None else -math.inf
        if self.prospect is not None and now.outlook.judges:
            now.outlook.lowest = self.prospect.lowest
        grams = self._enter(memory, sweeps)
        began, before = monitor.seconds(), monitor.passes
        self.kernel.prepare(len(self.threads) - 1)
        parallel.run(self.kernel.work, self.threads)
        values = now.values
        if not values:
            return 0
        self._leave(grams)
        self.method.leave_burst(memory, now, self.plain)
        error = state.problem.loss.error
        numbers = range(iteration, iteration + len(values))
        seconds = [began + passed for passed in now.times]
        passes = [before + count for count in now.passed]
        errors = list(map(error, values))
        monitor.record_many(phase, now.measuring, numbers, seconds, errors, now.residuals, passes)
        if self.prospect is not None:
            self.prospect.add(errors)
        state.X.passes += now.passes
        monitor.progress = now.lowest, now.lowest_at
        if self.kept is not None and now.best < self.kept.objective:
            self.kept.objective, self.kept.pair = now.best, (self.best[0], self.best[1])
        return len(values)

    def _enter(self, memory: Any, sweeps: tuple[int, int]) -> list[np.ndarray]:
        """Hand the factors and what is known about them to the kernel; returns the Gram matrices it will change."""
        grams = []
        known_plain = getattr(memory, "plain", None)
        for half in self.state.halves:
            side = half.side
            known = half.knows_product
            if known and half.product is not self.products[side]:
                np.copyto(self.products[side], half.product)
            if known_plain is not None and known_plain[side] is not self.plain[side]:
                np.copyto(self.plain[side], known_plain[side])
            grams.append(np.array(half.gram, order="C"))
            F, product, plain, best = (A.T for A in (half.F, self.products[side], self.plain[side], self.best[side]))
            self.kernel.factor(side, F, product, grams[-1], plain, best, sweeps[side], known)
        return grams

    def _leave(self, grams: list[np.ndarray]) -> None:
        for half in self.state.halves:
            known = {"gram": grams[half.side]}
            if self.kernel.knows_product(1 - half.side):
                known["across"] = self.products[1 - half.side]
            half.changed(**known)


def bursts_of(state: State, method: Method, monitor: Monitor) -> Bursts | None:
    """Bursts, where the steps are short, nobody watches them, and the method has such a kernel."""
    problem = state.problem
    if (
        monitor.callback is not None
        or state.penalized
        or problem.structure
        or not (method.bursts and problem.loss.bursts)
    ):
        return None
    kernel = state.X.burst(state.rank)
    return None if kernel is None else Bursts(state, method, monitor, kernel)
