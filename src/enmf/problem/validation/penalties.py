"""Penalties and ridges, in the units of the scaled problem."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from enmf.problem.problem import Penalty, Problem, SidePenalty
from enmf.problem.validation.numbers import check_choice, check_number

WEIGHTS = ("l1_U", "l2_U", "l1_V", "l2_V")
STRONGEST = {np.dtype(np.float32): 1e15, np.dtype(np.float64): 1e60}  # for an X of order 1: sums keep digits


def with_penalty(problem: Problem, weights: dict[str, float]) -> Problem:
    """The problem with the user's penalty weights (names of WEIGHTS), converted to its units."""
    for name, value in weights.items():
        check_number(name, value, low=0.0, finite=True)
    unit, root = problem.units.value(problem.loss), math.sqrt(problem.scale)
    own = {
        name: _bearable("penalty", float(value) * (root if name.startswith("l1") else problem.scale) / unit, problem)
        for name, value in weights.items()
    }
    sides = [SidePenalty(own.get(f"l1_{name}", 0.0), own.get(f"l2_{name}", 0.0)) for name in "UV"]
    return replace(problem, penalty=Penalty(*sides))


def with_ridge(problem: Problem, ridge: Any, scaling: str) -> Problem:
    """The problem with ridge weights for its rows and columns, in its units.

    The objective is divided by scale² and by the unit of the weights: the ridge, which has the unit of X, is divided by
    one scale; the number of entries of a row (the sum of their weights) already has the unit of the weights.
    """
    check_choice("ridge_scaling", scaling, ["entries", "none"])
    pair = tuple(ridge) if isinstance(ridge, (tuple, list)) else (ridge, ridge)
    if len(pair) != 2:
        raise ValueError(f"ridge must be a number or a pair (for U, for V), got {ridge!r}")
    found = []
    for side, value in enumerate(pair):
        check_number("ridge", value, low=0.0, finite=True)
        own, totals = _bearable("ridge", float(value) / problem.scale, problem), problem.X.totals(side)
        weights = own * totals if scaling == "entries" else np.full(len(totals), own / problem.units.weight)
        found.append(SidePenalty(l2=weights))
    return replace(problem, penalty=Penalty(*found))


def _bearable(name: str, value: float, problem: Problem) -> float:
    if value > STRONGEST[problem.X.dtype]:
        raise ValueError(
            f"the {name} is {value:.0e} times as strong as the largest entries of X: all components would be zero. "
            "Decrease it, or scale X to order 1 first"
        )
    return value
