"""The one door: every check and cast of user input, every message for bad input. Behind it nothing is checked again."""

from __future__ import annotations

import math
import numbers
import os
import re
import sys
import time
import warnings
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from enmf.distributed.blocks import Preparation, Survey, look
from enmf.distributed.chunked import ChunkedMatrix
from enmf.distributed.engine import Engine, half_of_memory
from enmf.distributed.sources import is_dask, is_lazy, is_mapped, open_blocks
from enmf.matrix.base import Matrix, row_blocks
from enmf.matrix.dense import DenseMatrix
from enmf.matrix.masked import MaskedMatrix, from_dense, from_observed, from_sparse
from enmf.matrix.sparse import SparseMatrix, as_csr
from enmf.problem.state import Penalty
from enmf.run.stopping import Stopping

# Entries outside these ranges are brought to order 1 by an exact power of 4, so that no square leaves the number range.
SAFE_RANGE = {np.dtype(np.float32): (1e-9, 1e9), np.dtype(np.float64): (1e-70, 1e70)}
SQUARES = 1e-150, 1e150  # ||X|| between these: its square, and what is computed from it, are ordinary double numbers
STRONGEST = {np.dtype(np.float32): 1e15, np.dtype(np.float64): 1e60}  # penalty beside X of order 1: sums keep digits
UNIT, LEAN = 30, 60  # powers of two by which the product of a start may miss X, and its factors differ in size
TINY_NEGATIVE = 100  # negative entries up to this many rounding units of the largest entry are taken for zeros


# What options may be, by name: those of the exterior phases, of the feasibility stages and of the descent methods.
_COUNT, _SOME, _SHARE = {"integer": True, "low": 0}, {"integer": True, "low": 1}, {"low": 0.0}
_POSITIVE, _GROWTH = {"above": 0.0}, {"low": 1.0}
NUMBERS: dict[str, dict[str, Any]] = {
    "power_iterations": {**_SHARE, "optional": True},
    "starts": {**_SOME, "optional": True},
    "rotation_iterations": {**_COUNT, "optional": True},
    "rotation_rho": _POSITIVE,
    "surrogate_iterations": {**_COUNT, "optional": True},
    "restarts": _COUNT,
    "softimpute_iterations": _COUNT,
    "softimpute_tol": _SHARE,
    "steps": _SOME,
    "softest": _POSITIVE,
    "hardest": _POSITIVE,
    "inner": _SOME,
    "epsilon": _SHARE,
    "alpha": _SHARE,
    "progress": _SHARE,
    "beta": {"low": 0.0, "high": 1.0},
    "growth": _GROWTH,
    "cap_growth": _GROWTH,
    "shrink": _GROWTH,
    "drop": _SHARE,
    "sigma": _POSITIVE,
    "delta": _POSITIVE,
    "first_tolerance": _SHARE,
    "patience": _SOME,
    "rho": _POSITIVE,
    "gamma": _POSITIVE,
    "sweeps": _SOME,
    "max_sweeps": _SOME,
}
FLAGS = ("adaptive_rho", "sample", "surrogate", "optimal_step", "literal")
OPTIONAL_FLAGS = ("surrogate",)


_M = TypeVar("_M", bound=Matrix)


class EntryError(ValueError):
    """Entries of X that cannot be used: what they are, how many, and where the first one is."""

    def __init__(self, message: str, kind: str, count: int, place: tuple[int, int]) -> None:
        super().__init__(message)
        self.kind, self.count, self.place = kind, count, place


@dataclass(frozen=True)
class Problem:
    """X ready for work. The user's X is `scale` times it; factors are to be multiplied by sqrt(scale)."""

    X: Matrix
    scale: float = 1.0


def check_problem(X: Any, dtype: Any = None, memory_limit: Any = None) -> Problem:
    """Turn the user's X into a `Matrix`: dense (ndarray, frame, memmap, nested lists), scipy sparse, or in blocks.

    float32 and float64 stay as they are; integers, booleans and float16 become float64, or `dtype`. Dask arrays, Zarr,
    HDF5 and folders of parts are read in blocks; so are memory maps with a `memory_limit`, or larger than half of the
    memory.
    """
    _refuse_containers(X)
    limit = check_memory_limit(memory_limit)
    _refuse_masked(X)
    if is_lazy(X) or (is_mapped(X) and (limit is not None or X.nbytes > half_of_memory())):
        return _check_chunked(X, dtype, limit)
    if sp.issparse(X):
        array: Any = _check_sparse(X, dtype)
        values = array.data
    else:
        array = _check_dense(X, dtype)
        values = array
    largest, smallest = _extremes(values)
    _check_values(array, values, largest)
    if smallest < 0:
        array = _without_negatives(array, smallest, largest)
    scale = _power_of_four(largest, array.dtype)
    if scale != 1.0:
        array = _divided(array, scale)
    return Problem(_within_range(SparseMatrix(array) if sp.issparse(array) else DenseMatrix(array), scale), scale)


def _within_range(X: _M, scale: float) -> _M:
    """X, of which ||X||² (in the user's units) is neither beyond the number range nor without digits."""
    norm = math.sqrt(X.squared_norm())
    size = math.log10(norm) + math.log10(scale) if norm > 0 else 0.0
    if not math.log10(SQUARES[0]) <= size <= math.log10(SQUARES[1]):
        raise ValueError(
            f"the entries of X are too {'large' if size > 0 else 'small'}: ||X|| is about 1e{size:+.0f}, and its "
            f"square leaves the range of double precision. Divide X by {scale:.0e} first"
        )
    return X


def _refuse_containers(X: Any) -> None:
    """What holds or promises a matrix and is none, with what to pass instead; nothing is imported to find out."""
    family, kind = type(X).__module__.partition(".")[0], type(X).__name__
    instead = None
    if family == "anndata":
        instead = "X.X or one of X.layers" if hasattr(X, "layers") else "X.to_memory(), which reads it from the file"
    elif family in ("dask", "dask_expr") and not hasattr(type(X), "chunks"):
        instead = "X.to_dask_array(lengths=True)" if hasattr(type(X), "to_dask_array") else "a Dask array"
    elif family in ("h5py", "zarr") and not hasattr(X, "shape"):
        instead = "one of its arrays, X[name]"
    elif family == "polars" and kind == "LazyFrame":
        instead = "X.collect()"
    if instead is not None:
        raise TypeError(f"X is a {kind} of {family}, not a matrix. Pass {instead}")


def check_values(X: Any, shape: tuple[int, int]) -> Any:
    """The numbers of X for looking at them, CSR or ndarray with NaN where they are missing; None if read in blocks."""
    if is_lazy(X):
        return None
    values = _check_sparse(X, None) if sp.issparse(X) else _check_dense(X, None)
    if values.shape != shape:
        raise ValueError(f"X has shape {values.shape}, the factors belong to a matrix of shape {shape}")
    return values


def names_in(X: Any) -> tuple[list[str] | None, list[str] | None]:
    """Names of the rows and of the columns of a pandas or polars frame, None where there are none."""
    if not hasattr(X, "columns"):
        return None, None
    return _names(getattr(X, "index", ())), _names(X.columns)


def _names(labels: Any) -> list[str] | None:
    """Labels as text; numbers counted from 0 are no names."""
    names = [str(label) for label in labels]
    return None if names == [str(k) for k in range(len(names))] else names


def check_memory_limit(limit: Any) -> int | None:
    """Bytes, from a number or a text such as "2GB"."""
    if limit is None:
        return None
    if isinstance(limit, str):
        limit = _parse_bytes(limit)
    check_number("memory_limit", limit, low=1)
    if not math.isfinite(limit):
        raise ValueError("memory_limit must be a finite number of bytes; None is no limit")
    return int(limit)


def _parse_bytes(text: str) -> float:
    """2GB = 2e9, 2GiB = 2 * 2**30, in any case of letters, B and a space may be left out."""
    found = re.fullmatch(r"\s*(\d*\.?\d+(?:e[+-]?\d+)?)\s*(?:([kmgtp])(i)?)?b?\s*", text.lower())
    if found is None:
        raise ValueError(f"memory_limit must be a number of bytes or a text such as '2GB', got {text!r}")
    number, prefix, binary = found.groups()
    return float(number) * (1024.0 if binary else 1000.0) ** (" kmgtp".index(prefix) if prefix else 0)


def _check_chunked(X: Any, dtype: Any, limit: int | None) -> Problem:
    """One look at every block; what is wrong is told with the block and the place."""
    engine = Engine(limit)
    blocks, columns = open_blocks(X, engine.block_bytes)
    if columns > 1:
        warn_outside(
            f"X is cut into {columns} chunks along its columns; every block of rows is put together from them, which "
            "moves all of X between the workers. Chunks of whole rows are cheaper: X.rechunk({1: -1})"
        )
    if not blocks:
        _check_size(tuple(X.shape))
    surveys = engine.look(look, blocks, None)
    wanted = _target_dtype(np.result_type(*(survey.dtype for survey in surveys)), dtype)
    filled = [(block, survey) for block, survey in zip(blocks, surveys) if survey.shape[0]]
    _check_size((sum(survey.shape[0] for _, survey in filled), max(survey.shape[1] for survey in surveys)))
    blocks, surveys = [list(column) for column in zip(*filled)]
    _check_blocks(surveys)
    largest, smallest = max(s.largest for s in surveys), min(s.smallest for s in surveys)
    clip = smallest < 0
    if clip:
        _check_negative_blocks(surveys, smallest, largest, wanted)
    preparation = Preparation(wanted, _power_of_four(largest, wanted), clip)
    if clip or preparation.scale != 1.0:
        surveys = engine.look(look, blocks, preparation)
    chunked = ChunkedMatrix(blocks, surveys, preparation, engine, is_dask(X))
    return Problem(_within_range(chunked, preparation.scale), preparation.scale)


def _check_blocks(surveys: list[Survey]) -> None:
    first = 0
    for number, survey in enumerate(surveys):
        rows = f"block {number} (rows {first} to {first + survey.shape[0] - 1})"
        if survey.shape[1] != surveys[0].shape[1]:
            raise ValueError(f"{rows} of X has {survey.shape[1]} columns, the blocks before {surveys[0].shape[1]}")
        if survey.bad is not None:
            kind, count, row, column = survey.bad
            raise ValueError(
                f"Input X contains {'NaN' if kind == 'NaN' else 'infinity'}: {count} entries of {rows} are {kind}, the "
                f"first at row {first + row}, column {column}. Fill or remove them first"
            )
        first += survey.shape[0]


def _check_negative_blocks(surveys: list[Survey], smallest: float, largest: float, dtype: np.dtype) -> None:
    """As `_without_negatives`: rounding noise is clipped when a block is read, real negative entries are an error."""
    count = sum(survey.negative[0] for survey in surveys if survey.negative)
    if -smallest <= TINY_NEGATIVE * np.finfo(dtype).eps * max(largest, 0.0):
        warn_outside(
            f"{count} entries of X are negative by rounding only (the smallest is {smallest:.3g}); they are taken as "
            "zero"
        )
        return
    first = 0
    for number, survey in enumerate(surveys):
        if survey.negative:
            _, row, column = survey.negative
            raise ValueError(
                f"Negative values in data passed to enmf: X has {count} negative entries, the smallest is "
                f"{smallest:.6g}, the first at row {first + row}, column {column}, in block {number} (rows {first} to "
                f"{first + survey.shape[0] - 1}). NMF needs X >= 0"
            )
        first += survey.shape[0]


MISSING = ("nan", "unstored", "none")


@dataclass(frozen=True)
class MaskedProblem:
    """X with missing entries, ready for work. The user's X is `scale` times it, the user's weights `weight_unit` times.

    `complete` is the same X where nothing is missing and nothing is weighted.
    """

    X: MaskedMatrix
    scale: float = 1.0
    weight_unit: float = 1.0
    complete: Problem | None = None


def check_masked_problem(
    X: Any, missing: Any = None, mask: Any = None, weights: Any = None, dtype: Any = None
) -> MaskedProblem:
    """Turn the user's X and what he says about missing entries into a `MaskedMatrix`.

    `missing` is a word of MISSING or a boolean matrix, True where an entry is missing; `mask` is a boolean matrix, True
    where an entry is observed.
    """
    _refuse_containers(X)
    if missing is not None and mask is not None:
        raise ValueError("give either missing or mask, not both: a mask says which entries are observed")
    if isinstance(missing, str):
        check_choice("missing", missing, list(MISSING))
    check = _check_sparse_masked if sp.issparse(X) else _check_dense_masked
    problem = check(X, missing, mask, weights, dtype)
    _within_range(problem.X, problem.scale * math.sqrt(problem.weight_unit))
    return problem


def check_masked_or_complete(
    X: Any, missing: Any = None, mask: Any = None, weights: Any = None, ridge: Any = 0.0
) -> Problem | MaskedProblem:
    """A masked problem where a ridge, weights or missing entries are given (NaN in a dense X too), else complete."""
    ridged = bool(np.any(np.asarray(ridge) != 0.0))
    if missing is None and mask is None and weights is None and not ridged:
        try:
            return check_problem(X)
        except EntryError as bad:
            if bad.kind not in ("NaN", "masked") or sp.issparse(X):
                raise
    masked = check_masked_problem(X, missing, mask, weights)
    return masked.complete if masked.complete is not None and not ridged else masked


def _check_dense_masked(X: Any, missing: Any, mask: Any, weights: Any, dtype: Any) -> MaskedProblem:
    array = _check_dense(X, dtype)
    if isinstance(missing, str) and missing == "unstored":
        raise ValueError("missing='unstored' is for sparse X; in a dense X missing entries are NaN (missing='nan')")
    if isinstance(missing, str) and missing == "none":
        _refuse_masked(X, "missing='none' says that nothing is missing")
    if mask is not None:
        holes = ~_as_dense(_check_pattern("mask", mask, array.shape))
    elif missing is None or isinstance(missing, str):
        holes = np.isnan(array) if missing != "none" else np.zeros(array.shape, dtype=np.bool_)
    else:
        holes = _as_dense(_check_pattern("missing", missing, array.shape))
    hidden = _hidden(X)
    if hidden is not None:
        holes = holes | hidden
    w = None
    if weights is not None:
        w = _as_dense(_check_weights(weights, array.shape, array.dtype, ~holes))
        holes = holes | (w == 0)
    _check_some_observed(array.size - int(holes.sum()), array.shape)
    whole = not holes.any()
    filled = array if whole else np.where(holes, array.dtype.type(0), array)
    filled, scale = _checked_values(filled)
    if w is None:
        return MaskedProblem(
            from_dense(filled, holes), scale, complete=Problem(DenseMatrix(filled), scale) if whole else None
        )
    rows, columns = np.nonzero(~holes)
    observed = sp.csr_array((filled[rows, columns], (rows, columns)), shape=filled.shape)
    return _weighted(lambda data: from_observed(observed, data), w[rows, columns], scale)


def _check_sparse_masked(X: Any, missing: Any, mask: Any, weights: Any, dtype: Any) -> MaskedProblem:
    if missing is None and mask is None:
        raise ValueError(
            "X is sparse: say what its unstored entries are. missing='unstored' means that they are missing (ratings), "
            "missing='none' that they are zeros; missing= or mask= with a boolean matrix name the entries themselves"
        )
    csr = _check_sparse(X, dtype)
    if csr.nnz < X.nnz:
        raise ValueError(f"X stores {X.nnz - csr.nnz} entries more than once; keep one value for each place")
    if mask is not None:
        csr = _picked(csr, sp.csr_array(_check_pattern("mask", mask, csr.shape)))
    if mask is not None or (isinstance(missing, str) and missing == "unstored"):
        w = None if weights is None else _weights_of(csr, weights)
        if w is not None:
            csr, w = _only(csr, w > 0), w[w > 0]
        _check_some_observed(csr.nnz, csr.shape)
        csr, scale = _checked_values(csr)
        if w is not None:
            return _weighted(lambda data: from_observed(csr, data), w, scale)
        complete = Problem(SparseMatrix(csr), scale) if csr.nnz == csr.shape[0] * csr.shape[1] else None
        return MaskedProblem(from_observed(csr), scale, complete=complete)

    gaps = sp.csr_array(csr.shape, dtype=np.bool_)
    if isinstance(missing, str):
        if missing == "nan":
            gaps = sp.csr_array(_only(csr, np.isnan(csr.data)), dtype=np.bool_)
    else:
        gaps = sp.csr_array(_check_pattern("missing", missing, csr.shape))
    of_stored = np.ones_like(csr.data) if weights is None else _weights_of(csr, weights)
    if (of_stored == 0).any():
        gaps = sp.csr_array(gaps + _only(csr, of_stored == 0).astype(np.bool_))
    known = ~_inside(csr, gaps)
    csr, of_stored = _only(csr, known), of_stored[known]
    _check_some_observed(csr.shape[0] * csr.shape[1] - gaps.nnz, csr.shape)
    csr, scale = _checked_values(csr)
    complete = Problem(SparseMatrix(csr), scale) if gaps.nnz == 0 and weights is None else None
    # unstored entries have weight 1, so the unit of the weights is given here
    return MaskedProblem(from_sparse(csr, gaps, of_stored), scale, complete=complete)


def _weighted(make: Any, weights: np.ndarray, scale: float) -> MaskedProblem:
    """Weights of mean 1: the KKT residual then does not depend on their unit."""
    unit = float(weights.mean(dtype=np.float64))
    return MaskedProblem(make(weights / np.asarray(unit, weights.dtype)), scale, unit)


def _checked_values(array: Any) -> tuple[Any, float]:
    """Observed values: finite, nonnegative, brought into the safe range; with the scale taken out."""
    values = array.data if sp.issparse(array) else array
    largest, smallest = _extremes(values)
    _check_values(array, values, largest, "Observed entries must be numbers; say with missing= or mask= which are not.")
    if smallest < 0:
        array = _without_negatives(array, smallest, largest)
    scale = _power_of_four(largest, array.dtype)
    return (array if scale == 1.0 else _divided(array, scale)), scale


def _check_some_observed(count: int, shape: tuple[int, int]) -> None:
    if count == 0:
        raise ValueError(
            f"all {shape[0] * shape[1]} entries of X are missing (or have weight 0): nothing can be learnt"
        )


def _check_pattern(name: str, pattern: Any, shape: tuple[int, int]) -> Any:
    """A boolean matrix of the shape of X, dense or sparse."""
    pattern = _canonical(pattern, name) if sp.issparse(pattern) else _unmasked(pattern, name)
    kind = pattern.dtype
    if kind != np.bool_:
        hint = ". For 0 and 1 use astype(bool)" if kind.kind in "iuf" else ""
        raise TypeError(f"{name} must be a boolean matrix, got dtype {kind}{hint}")
    if pattern.shape != shape:
        raise ValueError(f"{name} must have the shape of X, {shape}, got {pattern.shape}")
    return _only(pattern, pattern.data) if sp.issparse(pattern) else pattern


def _check_weights(weights: Any, shape: tuple[int, int], dtype: np.dtype, observed: np.ndarray | None) -> Any:
    """Nonnegative, finite weights of the shape of X; a dense one is looked at where X is observed only."""
    weights = _canonical(weights, "weights") if sp.issparse(weights) else _unmasked(weights, "weights")
    if weights.dtype.kind not in "biuf":
        raise TypeError(f"weights must be numbers, got dtype {weights.dtype}")
    if weights.shape != shape:
        raise ValueError(f"weights must have the shape of X, {shape}, got {weights.shape}")
    weights = weights.astype(dtype, copy=False)
    if sp.issparse(weights):
        if observed is not None:
            stored = np.zeros(shape, dtype=np.bool_)
            stored[sp.coo_array(weights).coords] = True
            _check_same_pattern(int((observed & ~stored).sum()), int((stored & ~observed).sum()))
        values = weights.data
    elif observed is None:
        values = weights
    else:
        weights = np.where(observed, weights, 0)
        values = weights
    for bad, what in ((~np.isfinite(values), "NaN or infinite"), (values < 0, "negative")):
        if bad.any():
            raise ValueError(f"weights has {int(bad.sum())} entries that are {what}; weights must be numbers >= 0")
    return weights


def _weights_of(csr: sp.csr_array, weights: Any) -> np.ndarray:
    """The weight of every stored entry of X, from a dense matrix or from a sparse one with the pattern of X."""
    w = _check_weights(weights, csr.shape, csr.dtype, None)
    if not sp.issparse(w):
        rows, columns = sp.coo_array(csr).coords
        return w[rows, columns]
    without, outside = int((~_inside(csr, w)).sum()), int((~_inside(w, csr)).sum())
    _check_same_pattern(without, outside)
    return w.data


def _check_same_pattern(without: int, outside: int) -> None:
    if without or outside:
        raise ValueError(
            f"weights must have the pattern of the observed entries: {without} observed entries have no weight, "
            f"{outside} weights belong to entries that are not observed"
        )


def _places(csr: sp.csr_array) -> np.ndarray:
    """One number for each stored entry, increasing."""
    rows = np.repeat(np.arange(csr.shape[0], dtype=np.int64), np.diff(csr.indptr))
    return rows * csr.shape[1] + csr.indices


def _inside(csr: sp.csr_array, pattern: sp.csr_array) -> np.ndarray:
    """For each stored entry of `csr`, whether `pattern` stores it too."""
    return np.isin(_places(csr), _places(pattern))


def _only(csr: sp.csr_array, keep: np.ndarray) -> sp.csr_array:
    """The stored entries with `keep`; stored zeros stay stored."""
    if keep.all():
        return csr
    kept = np.concatenate([[0], np.cumsum(keep)])
    return sp.csr_array((csr.data[keep], csr.indices[keep], kept[csr.indptr]), shape=csr.shape)


def _picked(csr: sp.csr_array, pattern: sp.csr_array) -> sp.csr_array:
    """The entries of `csr` on the pattern, zeros where it stores nothing."""
    inside = _inside(csr, pattern)
    data = np.zeros(pattern.nnz, csr.dtype)
    data[np.searchsorted(_places(pattern), _places(csr)[inside])] = csr.data[inside]
    return sp.csr_array((data, pattern.indices, pattern.indptr), shape=csr.shape)


def _as_dense(pattern: Any) -> np.ndarray:
    return pattern.toarray() if sp.issparse(pattern) else pattern


def check_ridge(problem: MaskedProblem, ridge: Any, scaling: str) -> tuple[np.ndarray, np.ndarray]:
    """Ridge weights of the rows and columns, in the units of the scaled problem.

    The objective divided by scale² and by the unit of the weights: the ridge, which has the unit of X, is divided by
    one scale; the number of entries (sum of weights) of a row brings its own unit.
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


def check_masked_rank(rank: Any, X: MaskedMatrix, ridged: bool, name: str = "rank") -> int:
    """As `check_rank`; not above the number of observations, with a warning where they cannot determine the factors."""
    rank = check_rank(rank, X, name)
    if rank > X.observed:
        raise ValueError(f"{name} {rank} is above the number of observed entries, {X.observed}")
    numbers = rank * sum(X.shape)
    if not ridged and rank <= min(X.shape) and X.observed < X.shape[0] * X.shape[1] and numbers > X.observed:
        warn_outside(
            f"{name} {rank} means {numbers} numbers to find from {X.observed} observed entries: the missing ones are "
            f"not determined. Use a smaller {name} or a ridge"
        )
    return rank


def check_places(rows: Any, columns: Any, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Row and column indices inside the matrix, broadcast against each other; flat, with the shape they had."""
    found = []
    for name, places, length in (("row", rows, shape[0]), ("column", columns, shape[1])):
        places = np.asarray(places)
        if places.dtype.kind not in "iu" and places.size:
            raise TypeError(f"{name} indices must be integers, got dtype {places.dtype}")
        if places.size and (places.min() < 0 or places.max() >= length):
            wrong = places.min() if places.min() < 0 else places.max()
            raise IndexError(f"{name} index {wrong} is outside 0..{length - 1}")
        found.append(places.astype(np.int64))
    wide = np.broadcast_arrays(*found)
    return wide[0].ravel(), wide[1].ravel(), wide[0].shape


def check_range(clip: Any) -> tuple[float, float] | None:
    """A pair (low, high) or None."""
    if clip is None:
        return None
    try:
        low, high = (float(end) for end in clip)
    except (TypeError, ValueError):
        raise TypeError(f"clip must be a pair (low, high) or None, got {clip!r}") from None
    if not low <= high:
        raise ValueError(f"clip must be a pair (low, high) with low <= high, got {clip!r}")
    return low, high


def check_rank(rank: Any, X: Matrix, name: str = "rank") -> int:
    """A positive integer; above min(n, m) with a warning."""
    rank = check_count(name, rank, low=1)
    side = min(X.shape)
    if rank > side:
        warn_outside(
            f"{name} {rank} is above min(n, m) = {side}: rank {side} already reproduces X exactly, "
            f"so {rank - side} components are not needed"
        )
    return rank


def check_ranks(ranks: Any, X: Matrix) -> list[int]:
    """Different ranks below the sides of X, in increasing order."""
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
    init: Any, names: list[str], X: Matrix, rank: int, scale: float, *, best_U: bool = False
) -> str | tuple[Any, np.ndarray]:
    """A start: one of these names, or a pair of factors; with `best_U`, U may be None: the best one for V."""
    if isinstance(init, str):
        return check_choice("init", init, names)
    try:
        U, V = init
    except (TypeError, ValueError):
        raise TypeError("init must be a name or a pair (U, V) of factors") from None
    if U is None and best_U:
        return U, _check_start(V, "init V", X, 1, rank, scale)
    U = _check_start(U, "init U", X, 0, rank, scale)
    return _in_unit_of(X, U, _check_start(V, "init V", X, 1, rank, scale))


def _in_unit_of(X: Matrix, U: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Factors of quite another size than X, or than each other, times powers of two that bring them near."""
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
    return math.log2(float(F.max(initial=0.0)) or 1.0)


def _check_start(F: Any, name: str, X: Matrix, side: int, rank: int, scale: float) -> np.ndarray:
    """A factor to start from."""
    F = check_factor(F, name, X, side, rank, scale)
    if not F.any() and X.squared_norm() > 0:
        raise ValueError(f"{name} is full of zeros, and nothing can grow from there. Give it positive entries")
    return F


def check_factors(U: Any, V: Any, X: Matrix, rank: int | None, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Custom factors: n x r and m x r, finite and nonnegative. Returns copies, scaled to the problem."""
    U = check_factor(U, "U", X, 0, rank, scale)
    V = check_factor(V, "V", X, 1, U.shape[1], scale)
    if _log2(U) + _log2(V) > math.log2(SQUARES[1]):
        raise ValueError("the entries of U Vᵀ are too large beside those of X: their squares leave the number range")
    return U, V


def check_factor(F: Any, name: str, X: Matrix, side: int, rank: int | None, scale: float) -> np.ndarray:
    """The factor that belongs to this side of X."""
    with np.errstate(over="ignore"):  # told below
        F = as_numbers(F, name).astype(X.dtype, order="F")
    if F.ndim != 2 or F.shape[0] != X.shape[side] or rank not in (None, F.shape[1]):
        wanted = f"({X.shape[side]}, {'r' if rank is None else rank})"
        raise ValueError(f"{name} must have shape {wanted} for X of shape {X.shape}, got {F.shape}")
    _check_finite(F, name)
    if F.size and F.min() < 0:
        raise ValueError(f"{name} has {int((F < 0).sum())} negative entries; the smallest is {F.min():.3g}")
    return F / np.asarray(math.sqrt(scale), F.dtype)


def check_given(F: Any, letter: str, shape: tuple[Any, Any], dtype: np.dtype) -> np.ndarray:
    """W or H given to an estimator, refused with scikit-learn's sentences. None in the shape: any number."""
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


def as_numbers(F: Any, name: str) -> np.ndarray:
    """A factor as an array of real numbers; sparse ones become dense."""
    if sp.issparse(F):
        F = _canonical(F, name).toarray()
    array = _unmasked(F, name)
    if array.dtype == object:
        try:
            array = _without_na(array).astype(np.float64)
        except (TypeError, ValueError):
            raise TypeError(f"{name} must be an array of numbers, got {type(F).__name__} of objects") from None
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} has dtype {array.dtype}")
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be an array of numbers, got {type(F).__name__} of dtype {array.dtype}")
    return array


def _unmasked(array: Any, name: str) -> np.ndarray:
    """An array of which numpy.ma hides nothing."""
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise ValueError(f"{name} has {int(np.ma.count_masked(array))} masked entries. Fill them: {name}.filled(...)")
    return np.asarray(array)


def _check_finite(F: np.ndarray, name: str) -> None:
    bad = int((~np.isfinite(F)).sum())
    if bad:
        raise ValueError(f"{name} has {bad} entries that are NaN or infinite")


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
            f"U and V{where} must have as many columns as each other, got {U.shape} and {V.shape}"
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
    """Two pairs of factors that belong to matrices of the same shape."""
    (n, r), (m, _) = first[0].shape, first[1].shape
    if (len(second[0]), len(second[1])) != (n, m):
        raise ValueError(
            f"the two pairs of factors belong to matrices of different shapes, ({n}, {m}) and "
            f"({len(second[0])}, {len(second[1])})"
        )
    if same_rank and second[0].shape[1] != r:
        raise ValueError(f"the two pairs of factors have different ranks, {r} and {second[0].shape[1]}")


def check_count(name: str, value: Any, *, low: int) -> int:
    check_number(name, value, low=low, integer=True)
    return int(value)


def check_limits(tol: Any, max_iter: Any, time_limit: Any, target_error: Any) -> Stopping:
    """The numbers that end a run. The time limit counts from here: ask for them before looking at X."""
    check_number("tol", tol, low=0.0)
    check_number("max_iter", max_iter, low=0, integer=True)
    check_number("time_limit", time_limit, low=0.0, optional=True)
    check_number("target_error", target_error, low=0.0, optional=True)
    return Stopping(float(tol), int(max_iter), time_limit, target_error, began=time.perf_counter())


def check_threads(n_threads: Any) -> int | None:
    check_number("n_threads", n_threads, low=1, integer=True, optional=True)
    return n_threads


def check_choice(name: str, value: Any, allowed: list[str]) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name}={value!r} is not known; choose one of {', '.join(map(repr, allowed))}")
    return value


def check_penalty(problem: Problem, **weights: float) -> Penalty:
    """Penalty weights of the user's X, in the units of the scaled problem."""
    for name, value in weights.items():
        check_number(name, value, low=0.0, finite=True)
    root = math.sqrt(problem.scale)
    units = {name: root**3 if name.startswith("l1") else problem.scale for name in weights}
    own = {name: float(value) / units[name] for name, value in weights.items()}
    return Penalty(**{name: _bearable("penalty", value, problem.X.dtype) for name, value in own.items()})


def _bearable(name: str, value: float, dtype: np.dtype) -> float:
    if value > STRONGEST[dtype]:
        raise ValueError(
            f"the {name} is {value:.0e} times as strong as the largest entries of X: all components would be zero. "
            "Decrease it, or bring X to order 1 first"
        )
    return value


def check_options(options: dict[str, Any]) -> None:
    """Options of the exterior phases and of descent methods: type and range, by name."""
    for name, value in options.items():
        if name in NUMBERS:
            check_number(name, value, finite=True, **NUMBERS[name])
        elif name in FLAGS:
            check_flag(name, value, optional=name in OPTIONAL_FLAGS)
    stage = options.get("feasibility_options")
    if stage is not None:
        if not isinstance(stage, dict):
            raise TypeError(f"feasibility_options must be a dict or None, got {stage!r}")
        check_options(stage)


def check_flag(name: str, value: Any, *, optional: bool = False) -> None:
    if not (isinstance(value, (bool, np.bool_)) or (optional and value is None)):
        raise TypeError(f"{name} must be True{', False or None' if optional else ' or False'}, got {value!r}")


def check_callback(callback: Any) -> Any:
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be a function of one argument or None, got {callback!r}")
    return callback


def check_path(name: str, path: Any) -> Any:
    if path is not None and not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{name} must be a path or None, got {path!r}")
    return path


def make_rng(random_state: Any) -> np.random.Generator:
    """A Generator from None, an integer, a RandomState, a SeedSequence or a Generator."""
    if isinstance(random_state, np.random.Generator):
        if isinstance(random_state.bit_generator.seed_seq, np.random.bit_generator.ISpawnableSeedSequence):
            return random_state
        return np.random.default_rng(random_state.integers(0, 2**31 - 1, size=4))  # one that has children
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1, size=4))
    if isinstance(random_state, numbers.Integral) and int(random_state) < 0:
        raise ValueError(f"random_state must not be negative, got {random_state}")
    if random_state is None or isinstance(random_state, (numbers.Integral, np.random.SeedSequence)):
        return np.random.default_rng(None if random_state is None else random_state)  # type: ignore[arg-type]
    raise TypeError(
        f"random_state must be None, an integer, numpy RandomState or Generator, got {type(random_state).__name__}"
    )


def check_number(
    name: str,
    value: Any,
    *,
    low: float = -math.inf,
    above: float = -math.inf,
    high: float = math.inf,
    integer: bool = False,
    optional: bool = False,
    finite: bool = False,
) -> None:
    """A number of at least `low` (or greater than `above`) and at most `high`."""
    if optional and value is None:
        return
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral if integer else numbers.Real):
        wanted = "an integer" if integer else "a number"
        raise TypeError(f"{name} must be {wanted}{' or None' if optional else ''}, got {value!r}")
    number: Any = value
    for fine, problem in (
        (number >= low, f"at least {low}"),  # not so where it is NaN
        (above == -math.inf or number > above, f"greater than {above}"),
        (number <= high, f"at most {high}"),
        (not finite or number < math.inf, "finite"),
    ):
        if not fine:
            raise ValueError(f"{name} must be {problem}, got {value}")


def _target_dtype(given: np.dtype, dtype: Any) -> np.dtype:
    if given.kind == "c":
        raise ValueError(f"Complex data not supported: X has dtype {given}. Factorize its magnitude, np.abs(X)")
    if given.kind not in "biuf":
        meaning = {"m": "time spans", "M": "dates"}.get(given.kind, "text")
        raise ValueError(f"X holds {meaning} (dtype {given}); it must hold numbers. Convert it with X.astype(float)")
    if dtype is not None:
        try:
            wanted = np.dtype(dtype)
        except (TypeError, ValueError):
            wanted = None
        if wanted not in SAFE_RANGE:
            raise TypeError(f"dtype must be float32 or float64, got {dtype if wanted is None else wanted}")
        return wanted
    return given if given in SAFE_RANGE else np.dtype(np.float64)


def _hidden(X: Any) -> np.ndarray | None:
    """Where the mask of numpy.ma hides entries of the matrix X; None where it hides none."""
    if isinstance(X, (list, tuple)) and any(isinstance(row, np.ma.MaskedArray) for row in X):
        X = np.ma.array(X)
    masked = isinstance(X, np.ma.MaskedArray) and X.ndim == 2 and np.ma.is_masked(X)
    return np.ma.getmaskarray(X) if masked else None


def _refuse_masked(X: Any, advice: str = "") -> None:
    """For what needs a complete matrix: values under a mask are not data."""
    hidden = _hidden(X)
    if hidden is None:
        return
    count, (row, column) = int(hidden.sum()), _place(X, hidden)
    raise EntryError(
        f"Input X is a masked array: {count} of {hidden.size} entries are masked, the first at row {row}, column "
        f"{column}. {advice or 'Use enmf.complete or ENMC, which take them as missing, or fill them: X.filled(0)'}",
        "masked",
        count,
        (row, column),
    )


def _check_dense(X: Any, dtype: Any) -> np.ndarray:
    if isinstance(X, np.matrix):
        raise TypeError("X is a numpy.matrix, which behaves unlike arrays; pass np.asarray(X)")
    array = np.asarray(X)
    if array.dtype == object:
        try:
            array = _without_na(array).astype(np.float64)
        except (TypeError, ValueError) as problem:
            raise type(problem)(
                f"X holds objects that are not numbers ({problem}); convert its columns to numbers first"
            ) from None
    if array.ndim != 2:
        hint = (
            ". Reshape your data: a single sample is X.reshape(1, -1), a single feature X.reshape(-1, 1)"
            if array.ndim == 1
            else ""
        )
        raise ValueError(f"X must be a matrix with 2 dimensions, got {array.ndim} (shape {array.shape}){hint}")
    _check_size(array.shape)
    array = array.astype(_target_dtype(array.dtype, dtype), copy=False)
    return array if array.flags.c_contiguous or array.flags.f_contiguous else np.ascontiguousarray(array)


def _without_na(array: np.ndarray) -> np.ndarray:
    """NaN for what pandas takes as missing: pd.NA, None."""
    import pandas

    return np.where(pandas.isna(array), np.nan, array)


def _check_sparse(X: Any, dtype: Any) -> sp.csr_array:
    if X.ndim != 2:
        raise ValueError(f"X must be a matrix with 2 dimensions, got {X.ndim} (shape {X.shape})")
    _check_size(X.shape)
    csr = _canonical(X, "X")
    return csr.astype(_target_dtype(csr.dtype, dtype), copy=False)


def _canonical(S: Any, name: str) -> sp.csr_array:
    """CSR with every place once and in order. The caller's arrays are shared where they are so already."""
    try:
        csr = as_csr(S)
    except ValueError as problem:
        raise ValueError(f"{name}: {problem}") from None
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    return csr


def _check_size(shape: tuple[int, ...]) -> None:
    if 0 in shape:
        what = "sample(s)" if shape[0] == 0 else "feature(s)"
        raise ValueError(f"X is empty: it has 0 {what} (shape={shape}) while a minimum of 1 is required.")


def _extremes(values: np.ndarray) -> tuple[float, float]:
    """Largest and smallest entry; nan where there is a nan. A sparse matrix without entries has 0 and 0."""
    if values.size == 0:
        return 0.0, 0.0
    return float(values.max()), float(values.min())


def _check_values(array: Any, values: np.ndarray, largest: float, advice: str | None = None) -> None:
    """NaN and infinities, with their number and the first place."""
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
    row, column = _place(array, where)
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
        row, column = _place(array, negative)
        raise EntryError(
            f"Negative values in data passed to enmf: X has {count} negative entries, the smallest is {smallest:.6g}, "
            f"the first at row {row}, column {column}. NMF needs X >= 0: use MinMaxScaler instead of StandardScaler, "
            f"avoid log-ratios and overflowing integer types, or shift the data",
            "negative",
            count,
            (row, column),
        )
    warn_outside(
        f"{count} entries of X are negative by rounding only (the smallest is {smallest:.3g}); they are taken as zero"
    )
    array = _copied(array)
    values = array.data if sp.issparse(array) else array
    np.maximum(values, 0, out=values)
    return array


def _place(array: Any, where: np.ndarray) -> tuple[int, int]:
    first = int(np.argmax(where))
    if sp.issparse(array):
        row = int(np.searchsorted(array.indptr, first, side="right")) - 1
        return row, int(array.indices[first])
    return divmod(first, where.shape[1])  # argmax counts in C order


def _power_of_four(largest: float, dtype: np.dtype) -> float:
    low, high = SAFE_RANGE[np.dtype(dtype)]
    if largest == 0.0 or low <= largest <= high:
        return 1.0
    return float(4.0 ** np.floor(np.log2(largest) / 2.0))


def _divided(array: Any, scale: float) -> Any:
    """array / scale, exactly; two factors where one would leave the number range."""
    array = _copied(array)
    values = array.data if sp.issparse(array) else array
    half = 2.0 ** np.round(np.log2(scale) / 2.0)
    parts = [values] if values.ndim == 1 else [values[rows] for rows in row_blocks(*values.shape)]
    for part in parts:
        part /= half
        part /= scale / half
    return array


def _copied(array: Any) -> Any:
    """A copy in the same order of memory: products of another order round differently."""
    return array.copy() if sp.issparse(array) else array.copy(order="K")


def warn_outside(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's code that called into this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("enmf"):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)
