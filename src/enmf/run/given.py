"""Starts that are one phase: given factors, or a function that makes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from enmf.problem.problem import Problem
from enmf.run.walk import Walk

MakeStart = Callable[[Any, int, np.random.Generator], tuple[Any, Any]]


class _OnePhase:
    def phases(self, problem: Problem, options: Any) -> Sequence[Callable[[Walk], None]]:
        return [self.begin]

    def afterwards(self, problem: Problem, options: Any) -> Sequence[Callable[[Walk], None]]:
        return []

    def begin(self, walk: Walk) -> None:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Given(_OnePhase):
    """Factors to start from; a U of None begins as the best one for V."""

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
class Made(_OnePhase):
    """Factors made by make(X, rank, rng)."""

    make: MakeStart

    def begin(self, walk: Walk) -> None:
        with walk.monitor.phase("init"):
            U, V = self.make(walk.gathered().X, walk.rank, walk.rng)
        walk.settle_rows()
        walk.begin_at(U, V)
