"""Penalties and ridges, in the units of the scaled problem."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from enmf.problem.state import Penalty
from enmf.problem.validation.arrays import Problem
from enmf.problem.validation.masks import MaskedProblem
from enmf.problem.validation.numbers import check_choice, check_number

STRONGEST = {np.dtype(np.float32): 1e15, np.dtype(np.float64): 1e60}  # penalty beside X of order 1: sums keep digits


def check_penalty(problem: Problem, **weights: float) -> Penalty:
    """Penalty weights for the user's X, in the units of the scaled problem."""
    for name, value in weights.items():
        check_number(name, value, low=0.0, finite=True)
    root = math.sqrt(problem.scale)
    units = {name: root**3 if name.startswith("l1") else problem.scale for name in weights}
    own = {name: float(value) / units[name] for name, value in weights.items()}
    return Penalty(**{name: _bearable("penalty", value, problem.X.dtype) for name, value in own.items()})


def check_ridge(problem: MaskedProblem, ridge: Any, scaling: str) -> tuple[np.ndarray, np.ndarray]:
    """Ridge weights of the rows and columns, in the units of the scaled problem.

    The objective is divided by scale² and by the unit of the weights: the ridge, which has the unit of X, is divided by
    one scale; the number of entries of a row (the sum of their weights) already has the unit of the weights.
    """
    check_choice("ridge_scaling", scaling, ["entries", "none"])
    pair = tuple(ridge) if isinstance(ridge, (tuple, list)) else (ridge, ridge)
    if len(pair) != 2:
        raise ValueError(f"ridge must be a number or a pair (for U, for V), got {ridge!r}")
    found = []
    for value, side in zip(pair, (problem.X.rows, problem.X.columns)):
        check_number("ridge", value, low=0.0, finite=True)
        own = _bearable("ridge", float(value) / problem.scale, problem.X.dtype)
        found.append(own * side.totals if scaling == "entries" else np.full(side.length, own / problem.weight_unit))
    return found[0], found[1]


def _bearable(name: str, value: float, dtype: np.dtype) -> float:
    if value > STRONGEST[dtype]:
        raise ValueError(
            f"the {name} is {value:.0e} times as strong as the largest entries of X: all components would be zero. "
            "Decrease it, or bring X to order 1 first"
        )
    return value
