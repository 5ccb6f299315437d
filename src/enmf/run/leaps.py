"""Leaps: where a descent crawls along a valley, it goes straight on.

On data that are nearly of low rank a descent takes thousands of iterations in hardly changing directions, and momentum
shortens that only by a factor. So after BEGIN iterations, and then every STRIDE of them, a pair further on in the
direction of the last STRIDE is tried: `size` times as far, and twice as far again as long as it pays. JUDGED iterations
from there tell, whose error must be below that of the pair itself. A leap that does not pay costs these few iterations.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from enmf.matrix.factor import copied, fortran, here
from enmf.run.loop import descend

if TYPE_CHECKING:
    from enmf.run.walk import Walk

BEGIN = 256  # iterations of a descent that is a long one; shorter ones need their momentum, which a leap ends
STRIDE = 64  # iterations whose direction is that of a leap; with 16 and 128 descents are longer by a third
JUDGED = 4  # iterations after which a leap is judged
SHORTEST = 0.5  # leap that is tried, in strides


def descend_by_leaps(walk: Walk, more_follows: bool = False) -> None:
    """A descent (`enmf.run.loop.descend`) that leaps where it is a long one.

    If more follows, the status is left open: the descent that follows ends where this one has ended, and does all that
    a short one has to do.
    """
    most, size, leaps = walk.max_iter, 1.0, walk.max_iter > BEGIN and _may_leap(walk)
    if more_follows and not leaps:
        return
    while True:
        done = walk.prospect.iteration
        before = (copied(walk.state.U), copied(walk.state.V)) if leaps and done >= BEGIN else None
        walk.max_iter = min(max(done + STRIDE, BEGIN), most) if leaps else most
        descend(walk)
        if walk.status != "max_iter" or walk.max_iter == most:
            break
        if before is not None:
            size = _leap(walk, before, size)
    walk.max_iter = most
    if more_follows:
        walk.status = None


stride = partial(descend_by_leaps, more_follows=True)


def _may_leap(walk: Walk) -> bool:
    """Whether any nonnegative pair will do, and its rows are in this process."""
    problem = walk.problem
    free = not problem.structure and not problem.penalty and problem.X.complete
    return free and problem.loss.degree == 2.0 and here(walk.state.U) is not None


def _leap(walk: Walk, before: tuple[Any, Any], size: float) -> float:
    """Leap from the pair of a walk in the direction away from an earlier one; returns the size to begin with next."""
    monitor, pair = walk.monitor, (walk.state.U, walk.state.V)
    progress = monitor.progress
    while not monitor.out_of_time():
        other = walk.anew(walk.rng, JUDGED)
        other.begin_at(*(_beyond(F, old, size) for F, old in zip(pair, before)))
        with monitor.restarting():
            descend(other)
        value = other.state.value()
        if not value < walk.state.value():
            break
        walk.land(other)
        progress = value, walk.prospect.iteration
        size *= 2.0
    monitor.progress = progress
    return max(size / 4.0, SHORTEST)


def _beyond(F: np.ndarray, old: np.ndarray, size: float) -> np.ndarray:
    return fortran(np.maximum(F + np.asarray(size, F.dtype) * (F - old), 0))
