"""What going on would gain: an outlook from the errors of a descent so far.

Let e(k) be the smallest error after k iterations. The gains of the last two doublings of the iterations are
    g' = e(k/4) - e(k/2),    g = e(k/2) - e(k),
and if every further doubling gains q = g / g' of what the one before it did, then in all
    g q + g q² + ... = g q / (1 - q)
is left. q is taken to be at least SLOWEST, and g at least a share of g': descents of factorizations often crawl through
a plateau after a quick beginning, and then leave it. An outlook in the middle of a long plateau can still be too small;
one in the linear convergence near a minimum is far too large, which costs a few iterations.

A run without a tolerance ends when the outlook is small. It is judged at fixed iterations, eight in a doubling, so that
the end depends neither on the clock nor on where a burst of iterations ended. What it then says is left is up to three
times as much: the whole of g' may come again (faces leave a second plateau after hundreds of iterations).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from enmf.run.trace import TraceRow

FIRST = 8  # iterations before the first outlook: with 4, spectrograms and single cells end 0.03 to 0.04 % too early
PER_DOUBLING = 8  # outlooks in a doubling of the iterations
SLOWEST = 2.0 / 3.0  # least share of a doubling's gain expected of the next: errors that fall with k^-0.58
COMES_BACK = 1.0 / 3.0  # share of the gain before the last that may come again after a pause, for a run to go on
SUREST = 1e-4  # least share that a run which ends by its outlook is said to leave: no outlook is better than that
FASTEST = 0.9  # largest such share: gains that do not shrink at all leave ten times the last one


class Prospect:
    """The smallest error of every iteration of a descent, and what it lets expect."""

    def __init__(self) -> None:
        self.lowest: list[float] = []
        self.row: TraceRow | None = None  # of the trace, where the last one is

    @property
    def iteration(self) -> int:
        """The last iteration."""
        return max(len(self.lowest) - 1, 0)

    def add(self, errors: Iterable[float]) -> None:
        """The errors of the next iterations."""
        least = self.lowest[-1] if self.lowest else math.inf
        for error in errors:
            least = min(least, error)
            self.lowest.append(least)

    def left(self, comes_back: float = COMES_BACK) -> float:
        """The share of the error that going on is expected to gain; infinite if it is too early to tell."""
        k = self.iteration
        if k < FIRST:
            return math.inf
        now, half, quarter = self.lowest[k], self.lowest[k // 2], self.lowest[k // 4]
        if now <= 0.0:
            return 0.0
        last, before = half - now, quarter - half
        q = min(max(last / before, SLOWEST), FASTEST) if before > 0.0 else FASTEST
        return max(last, comes_back * before) / now * q / (1.0 - q)


def judge_outlooks(outlook: Any, settled: float, rival: float) -> None:
    """Let the kernel of bursts judge by the same rule (`Outlook` in src/kernels/burst.h)."""
    outlook.first, outlook.per_doubling = FIRST, PER_DOUBLING
    outlook.slowest, outlook.fastest, outlook.comes_back = SLOWEST, FASTEST, COMES_BACK
    outlook.settled, outlook.rival, outlook.judges = settled, rival, True


def next_outlook(iteration: int) -> int:
    """The first iteration after this one at which a run is judged by its prospect."""
    if iteration < FIRST:
        return FIRST
    step = max((1 << (iteration.bit_length() - 1)) // PER_DOUBLING, 2)  # the step after one is never into another
    return (iteration // step + 1) * step


def is_outlook(iteration: int) -> bool:
    return iteration >= FIRST and next_outlook(iteration - 1) == iteration
