"""Penalties of the layers u_k v_kᵀ in the user's words, and the door through which they enter a problem."""

from __future__ import annotations

import math
import numbers
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from enmf.problem.layers import Guide, Smooth
from enmf.problem.problem import Problem
from enmf.problem.validation.numbers import check_number

if TYPE_CHECKING:
    from enmf.matrix.base import Matrix
    from enmf.problem.validation.structure import Known

ROUNDED = 1e-3  # differences below this share of a typical entry of X count as none in a total variation


def with_layers(problem: Problem, rank: int, known: Known) -> Problem:
    """The problem with penalties of its layers, checked and in its units."""
    words = [word for word in ("smooth", "total_variation", "guide") if getattr(known, word)]
    if known.grid is not None and not {"smooth", "total_variation"} & {*words}:
        raise ValueError("grid says where features have neighbours: give smooth or total_variation, too")
    if known.guide_weight != 1.0 and not known.guide:
        raise ValueError("guide_weight says how much a guide weighs: give guide, too")
    for name in ("smooth", "total_variation", "guide_weight"):
        check_number(name, getattr(known, name), low=0.0, finite=True, optional=True)
    if not words:
        return problem
    X = problem.X
    penalty = replace(problem.penalty, smooth=_smooth(X, known), guide=_guide(X, rank, known))
    return replace(problem, penalty=penalty)


def _smooth(X: Matrix, known: Known) -> Smooth | None:
    if not (known.smooth or known.total_variation):
        return None
    grid = _check_grid(known.grid, X.shape[1])
    if known.smooth:
        return Smooth(float(known.smooth), grid)
    typical = math.sqrt(X.squared_norm() / X.shape[1]) or 1.0  # ||u_k v_jk||, were there one component
    return Smooth(float(known.total_variation) * typical, grid, ROUNDED * typical)


def _guide(X: Matrix, rank: int, known: Known) -> Guide | None:
    if not known.guide:
        return None
    (n, m), sets = X.shape, known.guide
    if len(sets) > rank:
        raise ValueError(f"guide has {len(sets)} sets of features for {rank} components: at most one for each")
    elsewhere = np.zeros((m, rank))
    for name, features in sets.items():
        wrong = [j for j in features if not 0 <= j < m]
        if wrong or not features:
            what = f"column {wrong[0]}, and X has {m}" if wrong else "no features"
            raise ValueError(f"guide {name!r} has {what}")
        elsewhere[list(features)] = 1.0
    for k, features in enumerate(sets.values()):
        elsewhere[list(features), k] = 0.0
    typical = math.sqrt(X.squared_norm() / (n * m))
    return Guide(float(known.guide_weight) * typical, tuple(sets), tuple(map(tuple, sets.values())), elsewhere)


def guide_columns(guide: Any, names: list[str] | None) -> dict[str, list[int]] | None:
    """Sets of features by name of the set, as numbers of columns; names of columns stand for all that are called so."""
    if guide is None:
        return None
    sets = guide if isinstance(guide, dict) else dict(enumerate(guide)) if isinstance(guide, (list, tuple)) else None
    if sets is None or any(isinstance(each, str) or not np.iterable(each) for each in sets.values()):
        raise TypeError("guide must be a dict or a list of lists of features, such as {'sports': ['ball', 'game']}")
    found = {
        str(name): [j for each in features for j in _columns(each, names, name)] for name, features in sets.items()
    }
    return {name: list(dict.fromkeys(columns)) for name, columns in found.items()}  # each counts once


def _columns(feature: Any, names: list[str] | None, of: Any) -> list[int]:
    if isinstance(feature, numbers.Integral) and not isinstance(feature, bool):
        return [int(feature)]
    if not isinstance(feature, str):
        raise TypeError(f"guide {of!r}: a feature is the name or the number of a column, got {feature!r}")
    found = [j for j, name in enumerate(names or []) if name == feature]
    if not found:
        why = "no column of X is called so" if names else "the columns of X have no names; give their numbers"
        raise ValueError(f"guide {of!r} has the feature {feature!r}, and {why}")
    return found


def _check_grid(grid: Any, count: int) -> tuple[int, ...]:
    """The shape of the features; without one, a line."""
    if grid is None:
        return (count,)
    try:
        shape = tuple(grid)
    except TypeError:
        raise TypeError(f"grid must be a tuple of lengths such as (48, 42), got {grid!r}") from None
    for length in shape:
        check_number("every length of grid", length, low=1, integer=True)
    if math.prod(shape) != count:
        raise ValueError(f"grid {shape} has {math.prod(shape)} cells, X has {count} columns: they must be as many")
    return tuple(int(length) for length in shape)
