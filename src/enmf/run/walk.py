"""A run in progress: what its phases pass on to each other."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from enmf.problem.state import State
from enmf.problem.validation.numbers import warn_outside
from enmf.run.prospect import Prospect

if TYPE_CHECKING:
    from enmf.linalg.rotation import Rotation
    from enmf.linalg.svd import Spectrum
    from enmf.matrix.base import Matrix
    from enmf.problem.problem import Problem
    from enmf.run.method import Method
    from enmf.run.monitor import Monitor
    from enmf.run.options import RunOptions, Start


LARGE_U = 1 << 29  # bytes of U above which bringing it to the caller is worth a warning


@dataclass
class Walk:
    """The run so far. A phase reads what earlier ones left and stores what it found; a status ends the phases."""

    problem: Problem
    rank: int
    method: Method
    monitor: Monitor
    rng: np.random.Generator
    max_iter: int  # of the coming descent
    spectrum: Spectrum | None = None
    rotation: Rotation | None = None
    single: Matrix | None = None  # X in single precision, for the first iterations of a descent
    plan: Any = None  # what the exterior method decided (`enmf.exterior.plan.Plan`)
    status: str | None = None
    prospect: Prospect = field(default_factory=Prospect, repr=False)  # errors of the descent so far
    preliminary: bool = False  # whether another descent follows that of this walk
    met_rivals: bool = False  # whether further starts have been tried
    left: float = math.inf  # share of the error that going on with the last descent is expected to gain
    rival: float = math.inf  # the error that the coming descent has to beat, that of an earlier start
    _state: State | None = field(default=None, repr=False)

    @property
    def state(self) -> State:
        assert self._state is not None, "the start must leave a state"
        return self._state

    @property
    def settles(self) -> bool:
        """Whether the prospect ends a descent."""
        return self.preliminary or self.monitor.stopping.settles

    def settle_rows(self) -> None:
        """Bring U and X V to the caller for a method that needs all rows; otherwise they stay with the blocks of X."""
        if "all rows" in self.method.needs:
            self.problem = self.gathered()

    def gathered(self) -> Problem:
        """The problem with all rows of U and X V in this process."""
        X = self.problem.X
        here = self.problem.gathered()
        nbytes = X.shape[0] * self.rank * X.dtype.itemsize
        if here.X is not X and nbytes > LARGE_U:
            warn_outside(
                f"this start or method brings U and X V ({X.shape[0]} x {self.rank}, {nbytes / 1e9:.1f} GB each) to "
                "the caller. 'enmf' with its default options leaves them with the blocks of X"
            )
        return here

    def begin_at(self, U: Any, V: Any) -> None:
        """Make these factors the state."""
        self._state, self.prospect = State(self.problem, U, V), Prospect()

    def inside(self, start: Start, problem: Problem, options: RunOptions) -> Walk:
        """A walk through a start of another problem, within this one."""
        fresh: dict[str, Any] = {"plan": None, "spectrum": None, "single": None}
        inside = replace(self, problem=problem, rank=options.rank, monitor=self.monitor.within(problem), **fresh)
        for phase in start.phases(problem, options):
            phase(inside)
        return inside

    def in_single(self) -> Walk | None:
        """This walk, with X in single precision; None if it has none."""
        if self.single is None:
            return None
        rough = replace(self, problem=replace(self.problem, X=self.single), preliminary=True)
        rough.begin_at(self.state.U, self.state.V)
        return rough

    def go_on(self, rough: Walk) -> None:
        """Continue where a preliminary descent ended."""
        self.begin_at(rough.state.U, rough.state.V)
        self.prospect = rough.prospect

    def go_on_after(self, errors: list[float]) -> None:
        """Let the prospect of the coming descent count the errors of a trial that led to this state: what is a pause
        in a long descent looks like the end of one that has just begun."""
        self.prospect.add(errors)
        self.max_iter += self.prospect.iteration

    def land(self, other: Walk) -> None:
        """Go on with the pair of another walk; what is expected of this descent stays."""
        self._state = other.state

    def take(self, other: Walk) -> None:
        """Replace the result by that of another walk through the same problem."""
        self._state, self.status, self.rotation = other._state, other.status, other.rotation
        self.left, self.prospect = other.left, other.prospect

    def anew(self, rng: np.random.Generator, max_iter: int | None = None) -> Walk:
        """A new walk through the same problem, which keeps what is known about X and has this one's error to beat."""
        most = self.monitor.stopping.max_iter if max_iter is None else min(max_iter, self.monitor.stopping.max_iter)
        fresh: dict[str, Any] = {
            "rotation": None,
            "status": None,
            "left": math.inf,
            "prospect": Prospect(),
            "_state": None,
        }
        return replace(self, rng=rng, max_iter=most, rival=self.state.error(), **fresh)
