"""What a run is asked to do, decided before it begins; and the starts that consist of one phase."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from enmf.run.stopping import DEFAULTS, Stopping

if TYPE_CHECKING:
    from enmf.problem.problem import Problem
    from enmf.run.method import Method
    from enmf.run.monitor import Progress
    from enmf.run.walk import Walk

Phase = Callable[["Walk"], None]
MakeStart = Callable[[Any, int, np.random.Generator], tuple[Any, Any]]


class Start:
    """Where the factors of a descent come from: phases that leave a state, and phases around the descent."""

    def phases(self, problem: Problem, options: RunOptions) -> Sequence[Phase]:
        return [self.begin]

    def beforehand(self, problem: Problem, options: RunOptions) -> Sequence[Phase]:
        """What comes between the start and the descent, and is no part of a start within another one."""
        return []

    def afterwards(self, problem: Problem, options: RunOptions) -> Sequence[Phase]:
        return []

    def begin(self, walk: Walk) -> None:
        """The only phase of a start that has a single one."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Given(Start):
    """Given factors; a U of None starts as the best one for V."""

    U: Any
    V: np.ndarray

    def begin(self, walk: Walk) -> None:
        walk.settle_rows()
        if self.U is not None:
            walk.begin_at(self.U, self.V)
            return
        with walk.monitor.phase("init"):
            walk.begin_at(walk.problem.X.zeros(walk.rank), self.V)
            rows = walk.state.halves[0]
            rows.replace(walk.problem.loss.solve(rows))


@dataclass(frozen=True)
class Made(Start):
    """Factors made by make(X, rank, rng)."""

    make: MakeStart

    def begin(self, walk: Walk) -> None:
        with walk.monitor.phase("init"):
            U, V = self.make(walk.gathered().X, walk.rank, walk.rng)
        walk.settle_rows()
        walk.begin_at(U, V)


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What the user asks for and the run obeys, whatever the method."""

    stopping: Stopping = DEFAULTS
    n_threads: int | None = None
    callback: Callable[[Progress], object] | None = None
    verbose: bool | int = False
    checkpoint: str | os.PathLike[str] | None = None
    bound: bool = True  # compute the Eckart-Young bound also if that takes passes over X
    exact_U: bool = False  # finish with the best U for the final V
    scale: str = "balanced"  # of the factors that are returned (`enmf.problem.scale`)


@dataclass(frozen=True)
class RunOptions(Wishes):
    """All that `run` needs to know besides the problem; already validated."""

    rank: int
    method: Method
    start: Start
    name: str = ""  # of the method, for people and checkpoints
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    settings: dict[str, Any] = field(default_factory=dict)  # what the user asked for, as plain values
