"""Entries of X: finite, nonnegative, and scaled so that their squares stay within the range of numbers."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from enmf.matrix.base import Matrix
from enmf.matrix.factor import row_blocks
from enmf.problem.validation.numbers import warn_outside

# Entries outside these ranges are scaled to order 1 by an exact power of 4, so that no square overflows or underflows.
SAFE_RANGE = {np.dtype(np.float32): (1e-9, 1e9), np.dtype(np.float64): (1e-70, 1e70)}
SQUARES = 1e-150, 1e150  # range of ||X|| in which its square, and what is computed from it, are normal doubles
TINY_NEGATIVE = 100  # negative entries up to this many rounding units of the largest entry are treated as zeros

_M = TypeVar("_M", bound=Matrix)


class EntryError(ValueError):
    """Unusable entries of X: their kind, their number, and the place of the first one."""

    def __init__(self, message: str, kind: str, count: int, place: tuple[int, int]) -> None:
        super().__init__(message)
        self.kind, self.count, self.place = kind, count, place


def checked_entries(array: Any, advice: str | None = None, negative: bool = False) -> tuple[Any, float]:
    """The array with finite, nonnegative entries in the safe range, and the scale it was divided by.

    `advice` replaces the usual advice for NaN; `negative` entries stay if asked for.
    """
    values = array.data if sp.issparse(array) else array
    largest, smallest = _extremes(values)
    _check_finite_entries(array, values, largest, advice)
    if negative:
        largest = max(largest, -smallest)
    elif smallest < 0:
        array = _without_negatives(array, smallest, largest)
    scale = power_of_four(largest, array.dtype)
    return (array if scale == 1.0 else _divided(array, scale)), scale


def within_range(X: _M, scale: float, name: str = "X") -> _M:
    """X itself; an error if ||X||², in the user's units, overflows or underflows."""
    norm = math.sqrt(X.squared_norm())
    size = math.log10(norm) + math.log10(scale) if norm > 0 else 0.0
    if not math.log10(SQUARES[0]) <= size <= math.log10(SQUARES[1]):
        raise ValueError(
            f"the entries of {name} are too {'large' if size > 0 else 'small'}: its norm is about 1e{size:+.0f}, and "
            f"the square of that leaves the range of double precision. Divide X by {scale:.0e} first"
        )
    return X


def _extremes(values: np.ndarray) -> tuple[float, float]:
    """The largest and the smallest entry, NaN if any entry is; both are 0 for a sparse matrix without entries."""
    if values.size == 0:
        return 0.0, 0.0
    return float(values.max()), float(values.min())


def _check_finite_entries(array: Any, values: np.ndarray, largest: float, advice: str | None = None) -> None:
    """Refuse NaN and infinite entries; the message counts them and locates the first one."""
    if np.isfinite(largest) and np.isfinite(values.min() if values.size else 0.0):
        return
    nan = np.isnan(values)
    what, where = ("NaN", nan) if nan.any() else ("infinite", np.isinf(values))
    count = int(where.sum())
    hint = (
        "If NaN marks a missing value, use enmf.complete or ENMC, or fill it first (for example with sklearn.impute); "
        "factorize and ENMF need a complete matrix."
        if what == "NaN"
        else "Clip or remove them first."
    )
    if advice is not None and what == "NaN":
        hint = advice
    row, column = first_place(array, where)
    raise EntryError(
        f"Input X contains {'NaN' if what == 'NaN' else 'infinity'}: {count} of {values.size} entries are {what}, "
        f"the first at row {row}, column {column}. {hint}",
        what,
        count,
        (row, column),
    )


def _without_negatives(array: Any, smallest: float, largest: float) -> Any:
    """Rounding noise below zero becomes zero, with a warning; real negative entries are an error."""
    values = array.data if sp.issparse(array) else array
    negative = values < 0
    count = int(negative.sum())
    if -smallest > TINY_NEGATIVE * np.finfo(values.dtype).eps * max(largest, 0.0):
        row, column = first_place(array, negative)
        raise EntryError(
            f"Negative values in data passed to enmf: X has {count} negative entries, the smallest is {smallest:.6g}, "
            f"the first at row {row}, column {column}. NMF needs X >= 0: use MinMaxScaler instead of StandardScaler, "
            f"avoid log-ratios and overflowing integer types, or shift the data. negative='keep' takes X as it is, and "
            f"with nonnegative='V' U may be negative, too",
            "negative",
            count,
            (row, column),
        )
    warn_outside(
        f"{count} entries of X are negative by rounding only (the smallest is {smallest:.3g}); they are treated as zero"
    )
    array = _copied(array)
    values = array.data if sp.issparse(array) else array
    np.maximum(values, 0, out=values)
    return array


def first_place(array: Any, where: np.ndarray) -> tuple[int, int]:
    """Row and column of the first entry of a dense or CSR array for which `where` holds."""
    first = int(np.argmax(where))
    if sp.issparse(array):
        row = int(np.searchsorted(array.indptr, first, side="right")) - 1
        return row, int(array.indices[first])
    return divmod(first, where.shape[1])  # argmax counts in C order


def power_of_four(largest: float, dtype: np.dtype) -> float:
    """The scale of X: 1 if its largest entry is in the safe range."""
    low, high = SAFE_RANGE[np.dtype(dtype)]
    if largest == 0.0 or low <= largest <= high:
        return 1.0
    return float(4.0 ** np.floor(np.log2(largest) / 2.0))


def _divided(array: Any, scale: float) -> Any:
    """array / scale, exactly: in two steps, as a single one could overflow or underflow."""
    array = _copied(array)
    values = array.data if sp.issparse(array) else array
    half = 2.0 ** np.round(np.log2(scale) / 2.0)
    parts = [values] if values.ndim == 1 else [values[rows] for rows in row_blocks(*values.shape)]
    for part in parts:
        part /= half
        part /= scale / half
    return array


def _copied(array: Any) -> Any:
    """A copy with the same memory order: products in another order round differently."""
    return array.copy() if sp.issparse(array) else array.copy(order="K")
