"""Factors, their rank and their penalties: starts, factors to certify or compare, factors given to an estimator;
penalties and ridges in the units of the problem.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from enmf.matrix.base import Matrix
from enmf.problem.problem import Penalty, Problem, SidePenalty
from enmf.problem.scale import SIZES
from enmf.problem.validation.convert import canonical, unmasked, without_na
from enmf.problem.validation.entries import SQUARES
from enmf.problem.validation.numbers import check_choice, check_count, check_number, warn_outside

UNIT, LEAN = 30, 60  # powers of two by which the product of a start may differ from X, and its factors from each other


def check_rank(rank: Any, X: Matrix, name: str = "rank") -> int:
    """A positive integer, with a warning above min(n, m)."""
    rank = check_count(name, rank, low=1)
    side = min(X.shape)
    if rank > side and not X.signed:
        warn_outside(
            f"{name} {rank} is above min(n, m) = {side}: rank {side} already reproduces X exactly, "
            f"so {rank - side} components are not needed"
        )
    return rank


def check_ranks(ranks: Any, X: Matrix) -> list[int]:
    """Distinct ranks below min(n, m), in increasing order."""
    try:
        given = list(ranks)
    except TypeError:
        raise TypeError(f"ranks must be several integers, such as range(2, 21), got {ranks!r}") from None
    side = min(X.shape)
    for rank in given:
        check_number("rank", rank, low=1, integer=True)
        if rank >= side:
            raise ValueError(f"rank {rank} is not below min(n, m) = {side}, where X = X I is exact: try smaller ranks")
    if not given:
        raise ValueError("ranks is empty: give at least one rank")
    return sorted({int(rank) for rank in given})


def check_init(
    init: Any, names: list[str], problem: Problem, rank: int, *, best_U: bool = False
) -> str | tuple[Any, np.ndarray]:
    """A start: one of `names` or a pair of factors. With `best_U`, U may be None, which means the best U for V."""
    if isinstance(init, str):
        return check_choice("init", init, names)
    try:
        U, V = init
    except (TypeError, ValueError):
        raise TypeError("init must be a name or a pair (U, V) of factors") from None
    if U is None and best_U:
        return U, _check_start(V, problem, 1, rank)
    return _in_unit_of(problem.X, _check_start(U, problem, 0, rank), _check_start(V, problem, 1, rank))


def _check_start(F: Any, problem: Problem, side: int, rank: int) -> np.ndarray:
    """A factor to start from, not all zero unless X is."""
    X, name, known = problem.X, f"init {'UV'[side]}", problem.structure.of(side)
    F = check_factor(F, name, X, side, rank, problem.scale, known is not None and known.signed)
    if not F.any() and X.squared_norm() > 0:
        raise ValueError(f"{name} is full of zeros, which no method can leave. Give it positive entries")
    return F


def _in_unit_of(X: Matrix, U: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scale factors whose size differs greatly from that of X, or from each other, by powers of two."""
    mean_square = X.squared_norm() / (X.shape[0] * X.shape[1])
    if mean_square == 0.0:
        return U, V
    large_U, large_V = _log2(U), _log2(V)
    excess = large_U + large_V - math.log2(mean_square) / 2.0
    lean = (large_U - large_V) / 2.0
    excess, lean = excess * (abs(excess) > UNIT), lean * (abs(lean) > LEAN)
    return _times_power(U, -lean - excess / 2.0), _times_power(V, lean - excess / 2.0)


def _times_power(F: np.ndarray, power: float) -> np.ndarray:
    return F if power == 0.0 else np.ldexp(F, round(power))


def _log2(F: np.ndarray) -> float:
    return math.log2(float(np.abs(F).max(initial=0.0)) or 1.0)


def check_columns(V: Any) -> int:
    """The number of columns of a factor; 0 if it is none, which `check_factor` reports."""
    shape = np.shape(V)
    return shape[1] if len(shape) == 2 else 0


def check_factors(
    U: Any, V: Any, X: Matrix, rank: int | None, scale: float, signed_U: bool = False, signed_V: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """The user's factors, n x r and m x r, finite and nonnegative unless signed: copies, scaled to the problem."""
    U = check_factor(U, "U", X, 0, rank, scale, signed_U)
    V = check_factor(V, "V", X, 1, U.shape[1], scale, signed_V)
    if _log2(U) + _log2(V) > math.log2(SQUARES[1]):
        raise ValueError(
            "the entries of U Vᵀ are too large compared with those of X: their squares leave the range of double "
            "precision"
        )
    return U, V


def check_factor(
    F: Any, name: str, X: Matrix, side: int, rank: int | None, scale: float, signed: bool = False
) -> np.ndarray:
    """The factor for one side of X (0: rows, 1: columns): a copy, scaled to the problem."""
    with np.errstate(over="ignore"):  # the overflow is reported below
        F = as_numbers(F, name).astype(X.dtype, order="F")
    if F.ndim != 2 or F.shape[0] != X.shape[side] or rank not in (None, F.shape[1]):
        wanted = f"({X.shape[side]}, {'r' if rank is None else rank})"
        raise ValueError(f"{name} must have shape {wanted} for X of shape {X.shape}, got {F.shape}")
    _check_finite(F, name)
    if F.size and not signed and F.min() < 0:
        raise ValueError(f"{name} has {int((F < 0).sum())} negative entries; the smallest is {F.min():.3g}")
    return F / np.asarray(math.sqrt(scale), F.dtype)


def check_given(F: Any, letter: str, shape: tuple[Any, Any], dtype: np.dtype) -> np.ndarray:
    """W or H given to an estimator, with scikit-learn's error messages. None in `shape` allows any length."""
    whom = f"NMF (input {letter})"
    F = as_numbers(F, letter)
    if F.ndim != 2:
        raise ValueError(f"Expected 2D array, got {F.ndim}D array passed to {whom}: shape {F.shape}")
    for which, wanted, length in zip(("first", "second"), shape, F.shape):
        if wanted not in (None, length):
            raise ValueError(
                f"Array with wrong {which} dimension passed to {whom}. Expected {wanted}, but got {length}."
            )
    _check_finite(F, letter)
    if F.size and F.min() < 0:
        raise ValueError(
            f"Negative values in data passed to {whom}: {int((F < 0).sum())} entries; the smallest is {F.min():.3g}"
        )
    if not F.any():
        raise ValueError(f"Array passed to {whom} is full of zeros.")
    return np.array(F, dtype=dtype)


def check_pair(pair: Any, name: str = "", X: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Factors (U, V) of any sign in double precision: a pair, anything with `.U` and `.V`, or, with X, an estimator."""
    if hasattr(pair, "U") and hasattr(pair, "V"):
        pair = (pair.U, pair.V)
    elif hasattr(pair, "transform") and hasattr(pair, "components_"):
        if X is None:
            raise ValueError(f"{name or 'the factors'}: a fitted estimator keeps no W; pass X too, to compute it")
        pair = (pair.transform(X), np.asarray(pair.components_).T)
    where = f" of {name}" if name else ""
    try:
        U, V = pair
    except (TypeError, ValueError):
        kind = type(pair).__name__ + (", which is not fitted" if hasattr(pair, "fit") else "")
        raise TypeError(f"factors{where} must be a pair (U, V), a Result or a fitted estimator, got {kind}") from None
    U, V = _check_any_sign(U, f"U{where}"), _check_any_sign(V, f"V{where}")
    if U.shape[1] != V.shape[1]:
        raise ValueError(
            f"U and V{where} must have the same number of columns, got {U.shape} and {V.shape}"
            + (". Pass V = H.T for a scikit-learn H" if U.shape[1] == V.shape[0] else "")
        )
    return U, V


def _check_any_sign(F: Any, name: str) -> np.ndarray:
    F = np.array(as_numbers(F, name), dtype=np.float64)
    if F.ndim != 2 or 0 in F.shape:
        raise ValueError(f"{name} must be a matrix with 2 dimensions and not empty, got shape {F.shape}")
    _check_finite(F, name)
    return F


def check_same_sides(
    first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray], *, same_rank: bool = False
) -> None:
    """Refuse two pairs of factors that belong to matrices of different shapes."""
    (n, r), (m, _) = first[0].shape, first[1].shape
    if (len(second[0]), len(second[1])) != (n, m):
        raise ValueError(
            f"the two pairs of factors belong to matrices of different shapes, ({n}, {m}) and "
            f"({len(second[0])}, {len(second[1])})"
        )
    if same_rank and second[0].shape[1] != r:
        raise ValueError(f"the two pairs of factors have different ranks, {r} and {second[0].shape[1]}")


def as_numbers(F: Any, name: str) -> np.ndarray:
    """A factor as an array of real numbers; sparse ones become dense."""
    if sp.issparse(F):
        F = canonical(F, name).toarray()
    array = unmasked(F, name)
    if array.dtype == object:
        try:
            array = without_na(array).astype(np.float64)
        except (TypeError, ValueError):
            raise TypeError(f"{name} must be an array of numbers, got {type(F).__name__} of objects") from None
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} has dtype {array.dtype}")
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be an array of numbers, got {type(F).__name__} of dtype {array.dtype}")
    return array


def _check_finite(F: np.ndarray, name: str) -> None:
    bad = int((~np.isfinite(F)).sum())
    if bad:
        raise ValueError(f"{name} has {bad} entries that are NaN or infinite")


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


def check_scale(scale: Any, problem: Problem) -> None:
    """The scale of the result, which a penalty leaves no choice about."""
    check_choice("scale", scale, list(SIZES))
    if scale != "balanced" and problem.fixes_scale:
        raise ValueError(
            f"scale={scale!r} cannot be combined with a penalty or simplex, which decide on the scale of the columns: "
            "without scale, divide V by the size that it shall not have and multiply U by it"
        )
    if scale != "balanced" and problem.structure.symmetric:
        raise ValueError(f"scale={scale!r} cannot be combined with symmetric: U and V would differ")
    if scale in ("sum", "max") and problem.structure.V.signed:
        raise ValueError(
            f"scale={scale!r} cannot be combined with nonnegative='U': the {scale} of a column of V that "
            "may be negative is no size; 'norm' is one"
        )
    if scale != "balanced" and problem.structure.count:
        raise ValueError(f"scale={scale!r} cannot be combined with fixed components, which have their own scale")


def with_ridge(problem: Problem, ridge: Any, scaling: str) -> Problem:
    """The problem with ridge weights for its rows and columns, in its units.

    The objective is divided by scale^degree and by the unit of the weights: the ridge, which has the unit of X (of
    x^(beta - 1)), is divided by scale^(degree - 1); the number of entries of a row (the sum of their weights) already
    has the unit of the weights.
    """
    check_choice("ridge_scaling", scaling, ["entries", "none"])
    pair = tuple(ridge) if isinstance(ridge, (tuple, list)) else (ridge, ridge)
    if len(pair) != 2:
        raise ValueError(f"ridge must be a number or a pair (for U, for V), got {ridge!r}")
    found, unit = [], problem.scale ** (problem.loss.degree - 1.0)
    for side, value in enumerate(pair):
        check_number("ridge", value, low=0.0, finite=True)
        own, totals = _bearable("ridge", float(value) / unit, problem), problem.X.totals(side)
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
