"""What a run is asked to do, decided before it begins."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from enmf.problem.problem import Problem
from enmf.run.method import Method
from enmf.run.monitor import Progress
from enmf.run.stopping import DEFAULTS, Stopping
from enmf.run.walk import Walk

Phase = Callable[[Walk], None]


class Start(Protocol):
    """Where the factors of a descent come from: phases that leave a state, and phases after the descent."""

    def phases(self, problem: Problem, options: RunOptions) -> Sequence[Phase]: ...

    def afterwards(self, problem: Problem, options: RunOptions) -> Sequence[Phase]: ...


@dataclass(frozen=True)
class RunOptions:
    """All that `run` needs to know besides the problem; already validated."""

    rank: int
    method: Method
    start: Start
    name: str = ""  # of the method, for people and checkpoints
    stopping: Stopping = DEFAULTS
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    n_threads: int | None = None
    callback: Callable[[Progress], object] | None = None
    verbose: bool | int = False
    checkpoint: str | os.PathLike[str] | None = None
    bound: bool = True  # compute the Eckart-Young bound also where that takes passes over X
    exact_U: bool = False  # finish with the best U for the final V
    settings: dict[str, Any] = field(default_factory=dict)  # what the user asked for, as plain values
