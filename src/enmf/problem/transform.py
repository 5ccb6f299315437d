"""The best U for given components: what `transform` gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from enmf.problem.problem import Problem
from enmf.problem.state import State


def best_pair(problem: Problem, H: np.ndarray) -> tuple[Any, np.ndarray]:
    """argmin over U >= 0 of loss and penalty for V = Hᵀ, and V, both in the units of the problem."""
    X = problem.X
    V = np.asfortranarray(H.T.astype(X.dtype) / problem.units.factor(X.dtype))
    return problem.loss.solve(State(problem, X.zeros(len(H)), V).halves[0]), V


def best_U(problem: Problem, H: np.ndarray) -> Any:
    """The same U in the user's units."""
    U, _ = best_pair(problem, H)
    return problem.X.public(U * problem.units.factor(problem.X.dtype))
