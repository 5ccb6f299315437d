"""What the user knows about the factors: the words for it, and the one door through which it enters a problem."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from enmf.matrix.factor import row_blocks
from enmf.problem.problem import Problem
from enmf.problem.refusals import refuse
from enmf.problem.structure import Side, Structure
from enmf.problem.validation.convert import canonical, unmasked
from enmf.problem.validation.entries import SAFE_RANGE, within_range
from enmf.problem.validation.factors import as_numbers, check_factor
from enmf.problem.validation.numbers import check_choice, check_flag


@dataclass(frozen=True, kw_only=True)
class Known:
    """What a user can say about the factors, unchanged; the words are parameters of `enmf.factorize`."""

    fixed: Any = None
    support_U: Any = None
    support_V: Any = None
    row_weights: Any = None
    column_weights: Any = None
    smooth: Any = None
    total_variation: Any = None
    grid: Any = None
    nonnegative: str = "both"
    negative: str = "refuse"
    symmetric: bool = False
    simplex: str | None = None
    guide: Any = None
    guide_weight: float = 1.0

    @property
    def keeps_negative(self) -> bool:
        """Whether X may have negative entries."""
        check_choice("nonnegative", self.nonnegative, ["both", "V", "U"])
        check_choice("negative", self.negative, ["refuse", "keep"])
        return self.negative == "keep" or self.nonnegative != "both"

    @classmethod
    def of(cls, given: dict[str, Any]) -> Known:
        """From the local names of a public function that are called as the fields."""
        return cls(**{word.name: given[word.name] for word in fields(cls) if word.name in given})

    def words(self) -> list[str]:
        """Those that say something."""
        return [word.name for word in fields(self) if not _same(getattr(self, word.name), word.default)]


def _same(value: Any, default: Any) -> bool:
    return value is default or (isinstance(value, (str, float)) and value == default)


NOTHING_KNOWN = Known()
UNEQUAL = 100  # rounding units of the largest entry by which x_ij and x_ji of a symmetric X may differ


def with_structure(problem: Problem, rank: int, known: Known = NOTHING_KNOWN) -> Problem:
    """The problem with what is known about its factors, checked and in its units."""
    words = known.words()
    if not words:
        return problem
    refuse(words, _about(problem))
    problem = _weighted(problem, known)
    V, given = _fixed(known.fixed, problem, rank)
    support_U = _joined(known.support_U, "support_U", problem.structure.tables, (rank,))
    zeros = [
        _zeros(support, name, problem.X.shape[side], rank)
        for side, (name, support) in enumerate((("support_U", support_U), ("support_V", known.support_V)))
    ]
    if given is not None and zeros[1] is not None:
        _agree(given, zeros[1])
    if problem.loss.rising:
        _check_reached(problem, zeros, V, rank, words)
    check_flag("symmetric", known.symmetric)
    if known.symmetric:
        _check_symmetric(problem)
    signed = known.nonnegative == "V", known.nonnegative == "U"
    for name, side, zero in zip("UV", signed, zeros):
        if side and zero is not None:
            raise ValueError(f"support_{name} is for a nonnegative factor, and {name} may be negative")
    structure = replace(
        problem.structure,
        U=Side(zeros[0], signed=signed[0], total=_total(problem, known)),
        V=Side(zeros[1], V, signed[1]),
        given=given,
        symmetric=bool(known.symmetric),
    )
    return replace(problem, structure=structure)


def _total(problem: Problem, known: Known) -> float | None:
    """What the rows of U sum to, in the units of the problem, if they have to."""
    if known.simplex is None:
        return None
    check_choice("simplex", known.simplex, ["U"])
    return 1.0 / math.sqrt(problem.scale)


def _about(problem: Problem) -> list[str]:
    """What of the problem a word may not go with, in the words of `enmf.problem.refusals`."""
    said = {
        "blocks": not problem.X.has_rows,
        "missing": not problem.X.complete,
        "other losses": not problem.loss.bounded,
        "itakura-saito": problem.loss.degree == 0.0,
    }
    return [name for name, holds in said.items() if holds]


def _joined(values: Any, name: str, tables: tuple[int, ...], more: tuple[int, ...] = ()) -> Any:
    """What is said of the rows of all tables, from a list of what is said of each: once, or of each of its rows."""
    if not tables or not isinstance(values, (list, tuple)) or len(values) != len(tables):
        return values
    found = []
    for number, (each, rows) in enumerate(zip(values, tables)):
        array = unmasked(each.toarray() if sp.issparse(each) else each, f"{name} of table {number}")
        if array.shape not in (more, (rows, *more)):
            shapes = " or ".join(str(shape) for shape in (more, (rows, *more)))
            raise ValueError(f"{name} of table {number} must have shape {shapes}, got {array.shape}")
        found.append(np.broadcast_to(array, (rows, *more)))
    return np.concatenate(found)


def _check_symmetric(problem: Problem) -> None:
    X = problem.X
    n, m = X.shape
    if n != m:
        raise ValueError(f"symmetric=True needs a square X, got shape {(n, m)}")
    raw = X.raw()
    difference = abs(raw - raw.T)
    largest, size = float(difference.max()), float(abs(raw).max())
    if largest > UNEQUAL * np.finfo(X.dtype).eps * size:
        count = int(difference.nnz if sp.issparse(raw) else np.count_nonzero(difference)) // 2
        raise ValueError(
            f"symmetric=True needs X equal to its transpose: {count} pairs of entries differ, by up to "
            f"{largest * problem.scale:.3g}. Pass (X + X.T) / 2, or leave symmetric out"
        )


# Fixed components and zeros -------------------------------------------------------------------------------------------


def _fixed(H: Any, problem: Problem, rank: int) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The fixed columns of V in the units of the problem, and as they were given."""
    if H is None:
        return None, None
    X, H = problem.X, as_numbers(H, "fixed").astype(np.float64)
    if H.ndim != 2 or H.shape[1] != X.shape[1] or not 1 <= len(H) <= rank:
        raise ValueError(
            f"fixed must have shape (k, {X.shape[1]}): up to {rank} known components in rows, one number for each "
            f"column of X; got {H.shape}"
            + (". Pass fixed.T" if H.ndim == 2 and H.shape[0] == X.shape[1] and H.shape[1] <= rank else "")
        )
    _check_sizes(H, problem)
    given = H.T.astype(X.dtype, order="F")
    V = problem.structure.own(check_factor(given, "fixed", X, 1, len(H), problem.scale), 1)
    empty = ~V.any(axis=0)
    if empty.any():
        raise ValueError(
            f"fixed has {int(empty.sum())} components that are zero, the first is row {int(empty.argmax())}"
        )
    return V, given


def _check_sizes(H: np.ndarray, problem: Problem) -> None:
    """Refuse fixed components whose squares, or those of their U, would leave the range of numbers."""
    X, (low, high) = problem.X, SAFE_RANGE[problem.X.dtype]
    typical = (X.squared_norm() / (X.shape[0] * X.shape[1])) ** 0.25 or 1.0
    sizes = H.max(axis=1) / math.sqrt(problem.scale) / typical
    wrong = (sizes > 0) & np.isfinite(sizes) & ((sizes < low) | (sizes > high))
    if wrong.any():
        first = int(wrong.argmax())
        raise ValueError(
            f"fixed has {int(wrong.sum())} components that are too large or too small for X, the first is row {first} "
            f"with a largest entry of {H[first].max():.0e}. Multiply them by a number that brings them near "
            f"{typical * math.sqrt(problem.scale):.0e}: U takes it up"
        )


def _check_reached(
    problem: Problem, zeros: list[np.ndarray | None], V: np.ndarray | None, rank: int, words: list[str]
) -> None:
    """Refuse an X that is positive where no component can be, for a loss that is infinite there."""
    X = problem.X
    free = [np.ones((length, rank), np.float32) if no is None else ~no for length, no in zip(X.shape, zeros)]
    if V is not None:
        free[1] = free[1] * np.pad(V > 0, ((0, 0), (0, rank - V.shape[1])), constant_values=True)
    if (free[0].all(axis=0) & free[1].all(axis=0)).any():
        return
    left, right = (np.asarray(F, np.float32) for F in free)
    raw, count, place = X.raw(), 0, (0, 0)
    raw = sp.csr_array(raw) if sp.issparse(raw) else raw
    for rows in row_blocks(*X.shape):
        block = raw[rows].toarray() if sp.issparse(raw) else raw[rows]
        wrong = (block > 0) & (left[rows] @ right.T == 0)
        if count == 0 and wrong.any():
            i, j = np.unravel_index(wrong.argmax(), wrong.shape)
            place = rows.start + int(i), int(j)
        count += int(np.count_nonzero(wrong))
    if count:
        why = " and ".join(word for word in words if word in ("fixed", "support_U", "support_V"))
        raise ValueError(
            f"the loss {problem.loss.name!r} is infinite where X is positive and the model is zero: because of {why}, "
            f"{count} positive entries of X, the first at row {place[0]}, column {place[1]}, belong to no component. "
            "Allow one there, leave these rows or columns out, or use 'frobenius'"
        )


def _zeros(support: Any, name: str, length: int, rank: int) -> np.ndarray | None:
    """Where a factor is zero, from a boolean matrix that is True where it may be positive."""
    if support is None:
        return None
    if sp.issparse(support):
        support = canonical(support, name).toarray()
    array = unmasked(support, name)
    if array.dtype != np.bool_:
        raise TypeError(f"{name} must be boolean, True where {name[-1]} may be positive; got dtype {array.dtype}")
    if array.shape != (length, rank):
        raise ValueError(f"{name} must have shape ({length}, {rank}), one column for each component, got {array.shape}")
    empty = ~array.any(axis=0)
    if empty.any():
        raise ValueError(
            f"{name} leaves {int(empty.sum())} components nothing: column {int(empty.argmax())} is all False"
        )
    return None if array.all() else np.asfortranarray(~array)


def _agree(given: np.ndarray, zeros: np.ndarray) -> None:
    wrong = int(np.count_nonzero(given[zeros[:, : given.shape[1]]]))
    if wrong:
        raise ValueError(f"support_V says that {wrong} entries of the fixed components are zero, and they are not")


def check_obeyed(structure: Structure, U: np.ndarray, V: np.ndarray) -> None:
    """Refuse factors, in the units of the problem, that do not obey what is known about them."""
    for name, F, known in zip("UV", (U, V), (structure.U, structure.V)):
        wrong = 0 if known.zeros is None else int(np.count_nonzero(F[known.zeros]))
        if wrong:
            raise ValueError(f"{wrong} entries of {name} are not zero where support_{name} says so")
    fixed = structure.V.fixed
    if fixed is not None and not np.allclose(V[:, : fixed.shape[1]], fixed, rtol=1e-5, atol=0.0):
        raise ValueError("the first columns of V are not the fixed components, which are rows of fixed")
    if structure.symmetric and not np.allclose(U, V, rtol=1e-5, atol=1e-5 * float(np.abs(U).max(initial=0.0))):
        raise ValueError("symmetric=True needs U equal to V")


# Weights --------------------------------------------------------------------------------------------------------------


def _weighted(problem: Problem, known: Known) -> Problem:
    """The problem of D_r X D_c: the loss times the weights is the loss of the scaled matrix."""
    given = _joined(known.row_weights, "row_weights", problem.structure.tables), known.column_weights
    if all(weights is None for weights in given):
        return problem
    X = problem.X
    scales, unit = [], 1.0
    for side, (name, weights) in enumerate(zip(("row_weights", "column_weights"), given)):
        scale = None if weights is None else _scale(check_weights(weights, name, X.shape[side]), name, problem)
        scales.append(scale)
        unit *= 1.0 if scale is None else _size(scale)
    moderate = [None if scale is None else scale / _size(scale) for scale in scales]
    signed, X = X.signed, within_range(X.scaled(*moderate), problem.scale * unit, "the weighted X")
    X.signed = signed
    structure = replace(problem.structure, scales=(scales[0], scales[1]))
    return replace(problem, X=X, structure=structure, units=replace(problem.units, scale=problem.scale * unit))


def _scale(weights: np.ndarray, name: str, problem: Problem) -> np.ndarray:
    """What X is multiplied by, w^(1/d); numbers that are too far apart would leave X no digits."""
    with np.errstate(over="ignore", under="ignore"):
        scale = weights ** (1.0 / problem.loss.degree)
    low, high = SAFE_RANGE[problem.X.dtype]
    if not scale.max() * low <= scale.min() * high or scale.max() == np.inf:
        raise ValueError(
            f"{name} are too far apart: they act by scaling X, for this loss by numbers from {scale.min():.0e} to "
            f"{scale.max():.0e}, which leaves the range of {problem.X.dtype}"
        )
    return scale


def _size(scale: np.ndarray) -> float:
    """The power of four near the largest one: exact to divide by, and so is its root."""
    return float(4.0 ** np.floor(np.log2(scale.max()) / 2.0))


def check_weights(weights: Any, name: str, length: int) -> np.ndarray:
    """Positive numbers, one for each row or column of X."""
    array = unmasked(weights, name)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be numbers, got dtype {array.dtype}")
    if array.shape != (length,):
        raise ValueError(
            f"{name} must have {length} numbers, one for each {name.split('_')[0]}, got shape {array.shape}"
        )
    array = array.astype(np.float64)
    wrong = ~(np.isfinite(array) & (array > 0))
    if wrong.any():
        raise ValueError(
            f"{name} must be positive and finite: {int(wrong.sum())} of {length} are not, the first is "
            f"{array[wrong][0]} at {int(np.argmax(wrong))}. Leave out what has no weight"
        )
    return array
