"""Further starts, where they are worth their time.

Starts end in different minima, and only a descent tells them apart: on twelve small sets the errors after forty
iterations rank them well, those after twenty do not. So all further starts are tried for that long, and the most
promising ones go on. They begin when the first descent has ended, or, where that takes hundreds of iterations, in the
middle of it: the best pair then goes on, and only one descent is long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from enmf.certificate.words import LIMITED
from enmf.exterior import plan as planned
from enmf.exterior.plan import SAME, ExteriorOptions, Policy
from enmf.linalg.parts import larger_parts
from enmf.matrix.factor import padded
from enmf.run.loop import descend
from enmf.starts.random import random

if TYPE_CHECKING:
    from enmf.run.options import Phase
    from enmf.run.walk import Walk

TRIAL = 40  # iterations after which further starts are compared
FINALISTS = 2  # of them go on
PAUSE = 256  # iterations after which a descent is a long one, and further starts are worth their time before its end
RIVALS = 6  # of them, whose trials take about as long as the descent so far
USUAL_DESCENT = 60  # iterations of a descent from afar, at least; that of an exterior start began near its end
BETTER = 1.0 - 1e-5  # squared error of a further start over that of the best one, if it is another minimum
LONGER = 2  # times the iterations of the first descent that a further start has to show that it is better


@dataclass(frozen=True)
class FurtherStarts:
    """Starts beside the first one."""

    options: ExteriorOptions
    policy: Policy
    turned: Callable[[], Sequence[Phase]]  # the phases of an exterior start from a random rotation
    know_spectrum: Phase  # computes the SVD of a run that resumed without it
    long_descent: Phase  # one that may take thousands of iterations (`enmf.run.leaps`)

    def pause(self, walk: Walk) -> None:
        """Begin the descent; if it is long and its steps cost little, further starts join it before it goes on."""
        most, cost = walk.max_iter, PAUSE * walk.method.step_flops(walk.state)
        asked = self.options.restarts is not None
        if asked or walk.problem.structure or most <= PAUSE or cost > self.policy.pause_flops:
            return
        walk.max_iter = PAUSE
        descend(walk)
        if walk.status == "max_iter":
            walk.met_rivals = True
            planned.note_rivals(RIVALS, PAUSE, walk.plan)
            self._compete(walk, RIVALS, False, PAUSE)
        walk.status, walk.max_iter = None, most  # the descent goes on, or ends as it has just ended

    def restart(self, walk: Walk) -> None:
        """Try further starts after the descent; keeps the best pair of all.

        They are the same ones whatever the seed, as is the first start. A checkpoint belongs to the first descent: an
        interrupted run that resumes from it tries the same ones.
        """
        if walk.met_rivals or walk.status in LIMITED or walk.monitor.out_of_time():
            return
        self.know_spectrum(walk)
        bound = walk.monitor.lower_bound  # of an exact SVD; others have none yet
        known = walk.spectrum is not None and walk.spectrum.kind == "exact"
        ratio = walk.state.error() / max(bound, 1e-8 * walk.monitor.whole) if known else 0.0
        trial = TRIAL * walk.method.step_flops(walk.state)
        count, turned = planned.plan_restarts(trial, ratio, self.options, self.policy, walk.plan)
        self._compete(walk, count, turned, LONGER * max(walk.monitor.phases["descent"].iterations, USUAL_DESCENT))
        if walk.status == "max_iter":  # of a restart, not of the user: it is worth going on
            walk.max_iter, walk.rival = walk.monitor.stopping.max_iter, math.inf
            with walk.monitor.restarting():
                self.long_descent(walk)

    def _compete(self, walk: Walk, count: int, turned: bool, most: int) -> None:
        """Further starts descend for a while, the most promising ones for up to `most` iterations; the walk takes the
        best pair of all."""
        promising: list[Walk] = []
        finalists = count if turned else FINALISTS
        with walk.monitor.restarting():
            for number, child in enumerate(np.random.default_rng(SAME).spawn(count)):
                if walk.monitor.out_of_time():
                    return
                other = walk.anew(child, TRIAL)
                for phase in (*self._another(number, turned), descend):
                    phase(other)
                promising = sorted([*promising, other], key=lambda one: one.state.value())[:finalists]
            for other in promising:
                if other.status == "max_iter" and not walk.monitor.out_of_time():
                    other.max_iter, other.rival = most, walk.state.error()
                    self.long_descent(other)
                if other.state.value() < BETTER * walk.state.value():
                    walk.take(other)

    def _another(self, number: int, turned: bool) -> Sequence[Phase]:
        """The phases of a further start."""
        if turned:
            return self.turned()
        return [begin_at_parts if number == 0 else begin_at_random]


def begin_at_random(walk: Walk) -> None:
    walk.begin_at(*random(walk.problem.X, walk.rank, walk.rng))


def begin_at_parts(walk: Walk) -> None:
    """The larger parts of the singular pairs, where the SVD is known."""
    if walk.spectrum is None or not walk.problem.X.stays:
        begin_at_random(walk)
    else:
        walk.begin_at(*padded(*larger_parts(*walk.spectrum.factors(walk.rank)), walk.rank))
