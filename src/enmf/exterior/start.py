"""The start of eNMF as a whole: the phases before the descent, and further starts where they are worth their time.

Starts end in different minima, and only a descent tells them apart: on twelve small sets the errors after forty
iterations rank them well, those after twenty do not. So all further starts are tried for that long, and the most
promising ones go on. They begin when the first descent has ended, or, where that takes hundreds of iterations, in the
middle of it: the best pair then goes on, and only one descent is long.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from enmf.certificate.words import LIMITED
from enmf.exterior import plan as planned
from enmf.exterior.pipeline import SAME, Journey, know_spectrum, look_at_bound, padded, trivial
from enmf.exterior.plan import MEASURED, ExteriorOptions, Policy
from enmf.linalg.parts import larger_parts
from enmf.run.loop import descend, descend_in_single
from enmf.run.options import Start
from enmf.run.trace import Phase as Cost
from enmf.starts.random import random

if TYPE_CHECKING:
    from enmf.problem.problem import Problem
    from enmf.run.options import Phase, RunOptions
    from enmf.run.walk import Walk

USUAL = ExteriorOptions()
TRIAL = 40  # iterations after which further starts are compared
FINALISTS = 2  # of them go on
PAUSE = 256  # iterations after which a descent is a long one, and further starts are worth their time before its end
RIVALS = 6  # of them, whose trials take about as long as the descent so far
USUAL_DESCENT = 60  # iterations of a descent from afar, at least; that of an exterior start began near its end
BETTER = 1.0 - 1e-5  # squared error of a further start over that of the best one, if it is another minimum
LONGER = 2  # times the iterations of the first descent that a further start has to show that it is better


@dataclass(frozen=True)
class ExteriorStart(Start):
    """The start of eNMF: phases 1 to 3 before the descent, further starts after it."""

    options: ExteriorOptions = USUAL
    policy: Policy = MEASURED

    def phases(self, problem: Problem, options: RunOptions) -> Sequence[Phase]:
        if options.rank >= min(problem.X.shape) and not problem.penalty and not problem.X.signed:
            return [trivial]
        journey = Journey(self.options, self.policy).phases()
        pause = [self.pause] if self._may_restart(problem, options) else []
        return [self.prepare, *journey, look_at_bound, descend_in_single, *pause]

    def prepare(self, walk: Walk) -> None:
        """Set the displayed order of the phases, where rows live, and the bound, if already known."""
        walk.monitor.phases.update(dict.fromkeys(("svd", "rotation", "feasibility", "descent"), Cost()))
        walk.settle_rows()
        if not self.options.sample or self.options.feasibility != "path":
            walk.problem = walk.gathered()
        if walk.spectrum is not None:
            walk.monitor.lower_bound = walk.spectrum.lower_bound(walk.rank)

    def afterwards(self, problem: Problem, options: RunOptions) -> Sequence[Phase]:
        return [self.restart] if self._may_restart(problem, options) else []

    def _may_restart(self, problem: Problem, options: RunOptions) -> bool:
        return not (problem.penalty or options.rank >= min(problem.X.shape) or self.options.restarts == 0)

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
        know_spectrum(walk, self.options.svd, self.policy)
        bound = walk.monitor.lower_bound  # of an exact SVD; others have none yet
        known = walk.spectrum is not None and walk.spectrum.kind == "exact"
        ratio = walk.state.error() / max(bound, 1e-8 * walk.monitor.whole) if known else 0.0
        trial = TRIAL * walk.method.step_flops(walk.state)
        count, turned = planned.plan_restarts(trial, ratio, self.options, self.policy, walk.plan)
        self._compete(walk, count, turned, LONGER * max(walk.monitor.phases["descent"].iterations, USUAL_DESCENT))
        if walk.status == "max_iter":  # of a restart, not of the user: it is worth going on
            walk.max_iter, walk.rival = walk.monitor.stopping.max_iter, math.inf
            with walk.monitor.restarting():
                descend(walk)

    def _compete(self, walk: Walk, count: int, turned: bool, most: int) -> None:
        """Further starts descend for a while, the most promising ones for up to `most` iterations; the best pair of all
        is that of the walk."""
        promising: list[Walk] = []
        with walk.monitor.restarting():
            for number, child in enumerate(np.random.default_rng(SAME).spawn(count)):
                if walk.monitor.out_of_time():
                    return
                other = walk.anew(child, TRIAL)
                for phase in (*self._another(number, turned), descend):
                    phase(other)
                promising = sorted([*promising, other], key=lambda one: one.state.value())[
                    : count if turned else FINALISTS
                ]
            for other in promising:
                if other.status == "max_iter" and not walk.monitor.out_of_time():
                    other.max_iter, other.rival = most, walk.state.error()
                    descend(other)
                if other.state.value() < BETTER * walk.state.value():
                    walk.take(other)

    def _another(self, number: int, turned: bool) -> Sequence[Phase]:
        """The phases of a further start."""
        if turned:
            return Journey(replace(self.options, rotation="random"), self.policy).phases()
        return [begin_at_parts if number == 0 else begin_at_random]


def begin_at_random(walk: Walk) -> None:
    walk.begin_at(*random(walk.problem.X, walk.rank, walk.rng))


def begin_at_parts(walk: Walk) -> None:
    """The larger parts of the singular pairs, where the SVD is known."""
    if walk.spectrum is None or not walk.problem.X.stays:
        begin_at_random(walk)
    else:
        walk.begin_at(*padded(*larger_parts(*walk.spectrum.factors(walk.rank)), walk.rank))
