"""A block of rows: its preparation, and a survey of its entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from enmf.matrix.dense import DenseMatrix
from enmf.matrix.sparse import SparseMatrix
from enmf.matrix.structure import as_csr


@dataclass(frozen=True)
class Preparation:
    """What is done to a block after reading it: dtype, negatives due to rounding set to zero, division by the scale."""

    dtype: np.dtype
    scale: float = 1.0
    clip: bool = False

    def apply(self, raw: Any) -> Any:
        block = as_block(raw)
        block = block.astype(self.dtype, copy=False)
        if self.clip or self.scale != 1.0:
            block = block.copy()
            values = block.data if sp.issparse(block) else block
            if self.clip:
                np.maximum(values, 0, out=values)
            values /= np.asarray(self.scale, np.float64)
        return block


@dataclass(frozen=True)
class Survey:
    """What a single scan of a block finds."""

    shape: tuple[int, int]
    dtype: np.dtype
    sparse: bool
    nbytes: int
    nonzeros: int
    largest: float
    smallest: float
    bad: tuple[str, int, int, int] | None  # NaN or infinity: which, how many, first row (of the block), column
    negative: tuple[int, int, int] | None  # how many, first row, column
    squared_norm: float


def as_block(raw: Any) -> Any:
    """An ndarray or a canonical CSR array."""
    if sp.issparse(raw):
        block = as_csr(raw)
        if not block.has_canonical_format:
            block = block.copy()
            block.sum_duplicates()
        return block
    if np.ma.isMaskedArray(raw) and np.ma.is_masked(raw):
        raise ValueError(f"a block of X has {np.ma.count_masked(raw)} masked entries. Fill them first: X.filled(...)")
    block = np.require(raw, requirements="A")  # as it came from another process or a file, it may not be aligned
    if block.ndim != 2:
        raise ValueError(f"a block of X must have 2 dimensions, got shape {block.shape}")
    return block if block.flags.c_contiguous or block.flags.f_contiguous else np.ascontiguousarray(block)


def look(block: Any) -> Survey:
    """Survey a block as it is."""
    values = block.data if sp.issparse(block) else block
    numbers = values.dtype.kind in "biuf"
    low, high = (float(values.min()), float(values.max())) if numbers and values.size else (0.0, 0.0)
    bad = negative = None
    if not (np.isfinite(low) and np.isfinite(high)):
        nan = np.isnan(values)
        kind, where = ("NaN", nan) if nan.any() else ("infinite", np.isinf(values))
        bad = (kind, int(where.sum()), *_first(block, where))
    elif low < 0:
        negative = (int((values < 0).sum()), *_first(block, values < 0))
    fine = numbers and bad is None and values.size > 0
    wide = block.astype(np.float64) if numbers and block.dtype not in (np.float32, np.float64) else block
    with np.errstate(over="ignore"):  # such values are scaled first and surveyed again
        squared_norm = float(as_matrix(wide).row_squares().sum()) if fine else 0.0
    return Survey(
        shape=block.shape,
        dtype=block.dtype,
        sparse=sp.issparse(block),
        nbytes=sum(a.nbytes for a in (block.data, block.indices, block.indptr)) if sp.issparse(block) else block.nbytes,
        nonzeros=int(np.count_nonzero(values)) if numbers else 0,
        largest=high,
        smallest=low,
        bad=bad,
        negative=negative,
        squared_norm=squared_norm,
    )


def _first(block: Any, where: np.ndarray) -> tuple[int, int]:
    first = int(np.argmax(where))
    if sp.issparse(block):
        return int(np.searchsorted(block.indptr, first, side="right")) - 1, int(block.indices[first])
    return divmod(first, where.shape[1])


def as_matrix(block: Any) -> DenseMatrix | SparseMatrix:
    return SparseMatrix(block) if sp.issparse(block) else DenseMatrix(block)
