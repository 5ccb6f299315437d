"""When a run ends: limits, and one small rule per word (what the words promise: `enmf.certificate.words`).

After every iteration the rules are asked in the order of RULES; the first one that answers ends the run. A new rule
takes a function here, a line in RULES, and its word in STATUSES; its own limit, if any, is a field of `Stopping`, which
`factorize` and `complete` then accept as an option (its range: `enmf.run.checks`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from enmf.certificate.words import SETTLED, STATUSES, TOL, effective_tol
from enmf.losses.base import Loss

if TYPE_CHECKING:
    from enmf.run.monitor import Monitor

__all__ = ["DEFAULTS", "RULES", "STATUSES", "Moment", "Stopping"]


@dataclass(frozen=True)
class Stopping:
    """Limits of a run. All defaults of the package come from here."""

    tol: float | None = None  # KKT residual; None: the run ends when going on promises little (`enmf.run.prospect`)
    max_iter: int = 10_000
    time_limit: float | None = None
    target_error: float | None = None
    patience: int = 100  # iterations without progress after which a run counts as stalled
    sure: float = Loss.sure  # without a tolerance, the KKT residual at which the run ends whatever its prospect
    began: float | None = None  # time.perf_counter() from which time_limit counts; None: from the Monitor's beginning

    @property
    def settles(self) -> bool:
        """Whether the prospect ends the run."""
        return self.tol is None

    @property
    def least_kkt(self) -> float:
        """The KKT residual at which the run ends whatever its prospect."""
        return self.sure if self.tol is None else self.tol

    @property
    def stationary_kkt(self) -> float:
        """The KKT residual up to which its certificate says "stationary"."""
        return TOL if self.tol is None else self.tol


DEFAULTS = Stopping()
OTHERS = ("tol", "max_iter", "time_limit", "target_error", "patience", "sure", "began")  # have parameters, or are ours
FURTHER = tuple(name for name in Stopping.__dataclass_fields__ if name not in OTHERS)  # options of `factorize`


class Moment(NamedTuple):
    """A run after an iteration."""

    iteration: int
    max_iter: int
    error: float
    kkt: float  # nan if it was not measured
    objective: float
    penalized: bool = False
    left: float = math.inf  # what going on is expected to gain, as a share of the error; infinite: not judged now
    rival: float = math.inf  # the error of an earlier start that this one has to beat


Rule = Callable[["Monitor", Moment], str | None]


def interrupted(run: Monitor, now: Moment) -> str | None:
    return "interrupted" if run.interrupted else None


def not_finite(run: Monitor, now: Moment) -> str | None:
    return None if math.isfinite(now.objective) else "stalled"


def proven(run: Monitor, now: Moment) -> str | None:
    return None if now.penalized else run.proven(now.error)


def stationary(run: Monitor, now: Moment) -> str | None:
    return "converged" if now.kkt <= effective_tol(run.stopping.least_kkt, now.error, run.whole) else None


def settled(run: Monitor, now: Moment) -> str | None:
    # going on promises too little, or too little to beat a rival
    promising = now.left > SETTLED and now.error * (1.0 - min(now.left, 1.0)) <= now.rival
    return None if math.isinf(now.left) or promising else "settled"


def target(run: Monitor, now: Moment) -> str | None:
    return "target_reached" if run.arrived(now.error) else None


def time_is_up(run: Monitor, now: Moment) -> str | None:
    return "timeout" if run.time_left() <= 0 else None


def enough_iterations(run: Monitor, now: Moment) -> str | None:
    return "max_iter" if now.iteration >= now.max_iter else None


def stalled(run: Monitor, now: Moment) -> str | None:
    quiet = run.iterations_without_progress(now.iteration, now.objective)
    return "stalled" if quiet >= run.stopping.patience and run.stopping.least_kkt > 0 else None


RULES: tuple[Rule, ...] = (
    *(interrupted, not_finite, proven, stationary, target, settled, time_is_up, enough_iterations, stalled),
)
