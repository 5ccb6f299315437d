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

from enmf.certificate.words import STATUSES, TOL, effective_tol

if TYPE_CHECKING:
    from enmf.run.monitor import Monitor

__all__ = ["DEFAULTS", "RULES", "STATUSES", "Moment", "Stopping"]


@dataclass(frozen=True)
class Stopping:
    """Limits of a run. All defaults of the package come from here."""

    tol: float = TOL
    max_iter: int = 2000
    time_limit: float | None = None
    target_error: float | None = None
    patience: int = 100  # iterations without progress after which a run counts as stalled
    began: float | None = None  # time.perf_counter() from which time_limit counts; None: from the Monitor's beginning


DEFAULTS = Stopping()
OTHERS = ("tol", "max_iter", "time_limit", "target_error", "patience", "began")  # have parameters, or are ours
FURTHER = tuple(name for name in Stopping.__dataclass_fields__ if name not in OTHERS)  # options of `factorize`


class Moment(NamedTuple):
    """A run after an iteration."""

    iteration: int
    max_iter: int
    error: float
    kkt: float  # nan if it was not measured
    objective: float
    penalized: bool = False


Rule = Callable[["Monitor", Moment], str | None]


def interrupted(run: Monitor, now: Moment) -> str | None:
    return "interrupted" if run.interrupted else None


def not_finite(run: Monitor, now: Moment) -> str | None:
    return None if math.isfinite(now.objective) else "stalled"


def proven(run: Monitor, now: Moment) -> str | None:
    return None if now.penalized else run.proven(now.error)


def stationary(run: Monitor, now: Moment) -> str | None:
    return "converged" if now.kkt <= effective_tol(run.stopping.tol, now.error, run.whole) else None


def target(run: Monitor, now: Moment) -> str | None:
    return "target_reached" if run.arrived(now.error) else None


def time_is_up(run: Monitor, now: Moment) -> str | None:
    return "timeout" if run.time_left() <= 0 else None


def enough_iterations(run: Monitor, now: Moment) -> str | None:
    return "max_iter" if now.iteration >= now.max_iter else None


def stalled(run: Monitor, now: Moment) -> str | None:
    quiet = run.iterations_without_progress(now.iteration, now.objective)
    return "stalled" if quiet >= run.stopping.patience and run.stopping.tol > 0 else None


RULES: tuple[Rule, ...] = (interrupted, not_finite, proven, stationary, target, time_is_up, enough_iterations, stalled)
