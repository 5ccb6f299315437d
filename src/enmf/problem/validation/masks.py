"""X with missing or weighted entries: NaN, boolean masks, unstored entries, weights; and places in X."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from enmf.matrix.base import Matrix
from enmf.matrix.dense import DenseMatrix
from enmf.matrix.masked import MaskedMatrix, from_dense, from_observed, from_sparse
from enmf.matrix.sparse import SparseMatrix
from enmf.problem.problem import Problem, Units
from enmf.problem.validation import convert
from enmf.problem.validation.arrays import check_problem
from enmf.problem.validation.entries import EntryError, checked_entries, within_range
from enmf.problem.validation.factors import check_rank
from enmf.problem.validation.numbers import check_choice, warn_outside

MISSING = ("nan", "unstored", "none")
OBSERVED = "Observed entries must be numbers; say with missing= or mask= which ones are missing."


def check_masked_problem(
    X: Any, missing: Any = None, mask: Any = None, weights: Any = None, dtype: Any = None
) -> Problem:
    """Turn the user's X and their statement of what is missing into a `MaskedMatrix`.

    `missing` is one of MISSING or a boolean matrix, True where an entry is missing; `mask` is a boolean matrix, True
    where an entry is observed.
    """
    convert.refuse_containers(X)
    if missing is not None and mask is not None:
        raise ValueError("give either missing or mask, not both: a mask says which entries are observed")
    if isinstance(missing, str):
        check_choice("missing", missing, list(MISSING))
    check = _check_sparse_masked if sp.issparse(X) else _check_dense_masked
    problem = check(X, missing, mask, weights, dtype)
    within_range(problem.X, problem.units.error(problem.loss))
    return problem


def check_masked_or_complete(
    X: Any, missing: Any = None, mask: Any = None, weights: Any = None, ridge: Any = 0.0
) -> Problem:
    """A masked problem if there is a ridge, weights or missing entries (also NaN in a dense X), else a complete one."""
    ridged = bool(np.any(np.asarray(ridge) != 0.0))
    if missing is None and mask is None and weights is None and not ridged:
        try:
            return check_problem(X)
        except EntryError as bad:
            if bad.kind not in ("NaN", "masked") or sp.issparse(X):
                raise
    masked = check_masked_problem(X, missing, mask, weights)
    return masked.whole if masked.whole is not None and not ridged else masked


def check_masked_rank(rank: Any, X: Any, ridged: bool, name: str = "rank") -> int:
    """Like `check_rank`; at most the number of observations, with a warning if they cannot determine the factors."""
    rank = check_rank(rank, X, name)
    if rank > X.observed:
        raise ValueError(f"{name} {rank} is above the number of observed entries, {X.observed}")
    numbers = rank * sum(X.shape)
    if not ridged and rank <= min(X.shape) and X.observed < X.shape[0] * X.shape[1] and numbers > X.observed:
        warn_outside(
            f"{name} {rank} means {numbers} unknowns for {X.observed} observed entries: the missing ones are not "
            f"determined. Use a smaller {name} or a ridge"
        )
    return rank


def check_places(rows: Any, columns: Any, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Row and column indices within the matrix, broadcast together and flattened; and their common shape."""
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


def _check_dense_masked(X: Any, missing: Any, mask: Any, weights: Any, dtype: Any) -> Problem:
    array = convert.check_dense(X, dtype)
    if isinstance(missing, str) and missing == "unstored":
        raise ValueError("missing='unstored' is for sparse X; in a dense X missing entries are NaN (missing='nan')")
    if isinstance(missing, str) and missing == "none":
        convert.refuse_masked(X, "missing='none' says that nothing is missing")
    if mask is not None:
        holes = ~_as_dense(_check_pattern("mask", mask, array.shape))
    elif missing is None or isinstance(missing, str):
        holes = np.isnan(array) if missing != "none" else np.zeros(array.shape, dtype=np.bool_)
    else:
        holes = _as_dense(_check_pattern("missing", missing, array.shape))
    hidden = convert.hidden_entries(X)
    if hidden is not None:
        holes = holes | hidden
    w = None
    if weights is not None:
        w = _as_dense(_check_weights(weights, array.shape, array.dtype, ~holes))
        holes = holes | (w == 0)
    _check_some_observed(array.size - int(holes.sum()), array.shape)
    whole = not holes.any()
    filled = array if whole else np.where(holes, array.dtype.type(0), array)
    filled, scale = checked_entries(filled, OBSERVED)
    if w is None:
        return _problem(from_dense(filled, holes), scale, DenseMatrix(filled) if whole else None)
    rows, columns = np.nonzero(~holes)
    observed = sp.csr_array((filled[rows, columns], (rows, columns)), shape=filled.shape)
    return _weighted(lambda data: from_observed(observed, data), w[rows, columns], scale)


def _check_sparse_masked(X: Any, missing: Any, mask: Any, weights: Any, dtype: Any) -> Problem:
    if missing is None and mask is None:
        raise ValueError(
            "X is sparse: say what its unstored entries are. missing='unstored' means that they are missing (ratings), "
            "missing='none' that they are zeros; missing= or mask= with a boolean matrix name the entries themselves"
        )
    csr = convert.check_sparse(X, dtype)
    if csr.nnz < X.nnz:
        raise ValueError(f"X stores {X.nnz - csr.nnz} entries more than once; keep one value for each")
    if mask is not None:
        csr = _picked(csr, sp.csr_array(_check_pattern("mask", mask, csr.shape)))
    if mask is not None or (isinstance(missing, str) and missing == "unstored"):
        w = None if weights is None else _weights_of(csr, weights)
        if w is not None:
            csr, w = _only(csr, w > 0), w[w > 0]
        _check_some_observed(csr.nnz, csr.shape)
        csr, scale = checked_entries(csr, OBSERVED)
        if w is not None:
            return _weighted(lambda data: from_observed(csr, data), w, scale)
        whole = csr.nnz == csr.shape[0] * csr.shape[1]
        return _problem(from_observed(csr), scale, SparseMatrix(csr) if whole else None)

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
    csr, scale = checked_entries(csr, OBSERVED)
    whole = gaps.nnz == 0 and weights is None
    # unstored entries have weight 1, which fixes the unit of the weights
    return _problem(from_sparse(csr, gaps, of_stored), scale, SparseMatrix(csr) if whole else None)


def _problem(X: MaskedMatrix, scale: float, whole: Matrix | None) -> Problem:
    units = Units(scale)
    return Problem(X, units=units, whole=None if whole is None else Problem(whole, units=units))


def _weighted(make: Callable[[np.ndarray], MaskedMatrix], weights: np.ndarray, scale: float) -> Problem:
    """The problem with weights of mean 1, so that the KKT residual does not depend on their unit."""
    unit = float(weights.mean(dtype=np.float64))
    return Problem(make(weights / np.asarray(unit, weights.dtype)), units=Units(scale, unit))


def _check_some_observed(count: int, shape: tuple[int, int]) -> None:
    if count == 0:
        raise ValueError(
            f"all {shape[0] * shape[1]} entries of X are missing (or have weight 0): there is nothing to learn from"
        )


def _check_pattern(name: str, pattern: Any, shape: tuple[int, int]) -> Any:
    """A boolean matrix of the shape of X, dense or sparse."""
    pattern = convert.canonical(pattern, name) if sp.issparse(pattern) else convert.unmasked(pattern, name)
    kind = pattern.dtype
    if kind != np.bool_:
        hint = ". For 0 and 1 use astype(bool)" if kind.kind in "iuf" else ""
        raise TypeError(f"{name} must be a boolean matrix, got dtype {kind}{hint}")
    if pattern.shape != shape:
        raise ValueError(f"{name} must have the shape of X, {shape}, got {pattern.shape}")
    return _only(pattern, pattern.data) if sp.issparse(pattern) else pattern


def _check_weights(weights: Any, shape: tuple[int, int], dtype: np.dtype, observed: np.ndarray | None) -> Any:
    """Nonnegative, finite weights of the shape of X; dense weights are checked only where X is observed."""
    weights = convert.canonical(weights, "weights") if sp.issparse(weights) else convert.unmasked(weights, "weights")
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
    """The position of each stored entry as one number, in increasing order."""
    rows = np.repeat(np.arange(csr.shape[0], dtype=np.int64), np.diff(csr.indptr))
    return rows * csr.shape[1] + csr.indices


def _inside(csr: sp.csr_array, pattern: sp.csr_array) -> np.ndarray:
    """For each stored entry of `csr`, whether `pattern` stores it as well."""
    return np.isin(_places(csr), _places(pattern))


def _only(csr: sp.csr_array, keep: np.ndarray) -> sp.csr_array:
    """The stored entries selected by `keep`; stored zeros stay stored."""
    if keep.all():
        return csr
    kept = np.concatenate([[0], np.cumsum(keep)])
    return sp.csr_array((csr.data[keep], csr.indices[keep], kept[csr.indptr]), shape=csr.shape)


def _picked(csr: sp.csr_array, pattern: sp.csr_array) -> sp.csr_array:
    """The entries of `csr` on the pattern, zero where it stores nothing."""
    inside = _inside(csr, pattern)
    data = np.zeros(pattern.nnz, csr.dtype)
    data[np.searchsorted(_places(pattern), _places(csr)[inside])] = csr.data[inside]
    return sp.csr_array((data, pattern.indices, pattern.indptr), shape=csr.shape)


def _as_dense(pattern: Any) -> np.ndarray:
    return pattern.toarray() if sp.issparse(pattern) else pattern
