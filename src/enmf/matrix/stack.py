"""Several matrices with the same columns, one below the other, each times a weight."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from enmf.matrix.base import Matrix
from enmf.matrix.dense import DenseMatrix
from enmf.matrix.sparse import SparseMatrix
from enmf.matrix.stacked import StackedMatrix
from enmf.matrix.structure import check_structure

LONG = 64  # rows of dense blocks, on average, whose products are worth a call of their own


def stacked(blocks: Sequence[tuple[Matrix, float]]) -> Matrix:
    """One matrix of all rows, each block times its weight: sparse if all of them are, else dense.

    Long dense blocks stay where they are: a copy of them takes longer than a product with them.
    """
    kind = np.result_type(*(np.float64 if weight != 1.0 else X.dtype for X, weight in blocks))
    raw = [(X.raw().astype(kind, copy=False), weight) for X, weight in blocks]
    arrays = [array if weight == 1.0 else array * weight for array, weight in raw]
    if all(sp.issparse(array) for array in arrays):
        return SparseMatrix(sp.csr_array(arrays[0] if len(arrays) == 1 else sp.vstack(arrays, "csr")))
    dense = [array.toarray() if sp.issparse(array) else array for array in arrays]
    if len(dense) > 1 and sum(map(len, dense)) >= LONG * len(dense):
        return StackedMatrix([DenseMatrix(array) for array in dense])
    return DenseMatrix(dense[0] if len(dense) == 1 else np.vstack(dense))


def kept(X: Matrix, dtype: type[np.floating]) -> Matrix:
    """X with entries of its own, of this precision: what the caller does to the array later does not matter."""
    array = X.raw()
    if sp.issparse(array):
        return SparseMatrix(sp.csr_array(array.astype(dtype, copy=True)))
    return DenseMatrix(np.array(array, dtype, order="C"))


def size(X: Matrix) -> int:
    """How many bytes the rows of X take, those of their places included."""
    array = X.raw()
    if sp.issparse(array):
        return int(array.data.nbytes + array.indices.nbytes + array.indptr.nbytes)
    return int(array.nbytes)


def rows_in(array: np.ndarray) -> Matrix:
    """A plain array of double precision as a matrix."""
    return DenseMatrix(array)


def part(X: Matrix, first: int, last: int) -> Matrix:
    """Rows `first` to `last` (left out) of X, in double precision."""
    if isinstance(X, StackedMatrix):
        pieces = [
            table.raw()[max(first - rows.start, 0) : max(last - rows.start, 0)]
            for table, rows in zip(X.tables, X.parts)
        ]
        return DenseMatrix(np.vstack(pieces).astype(np.float64, copy=False))
    if first == 0 and last >= X.shape[0] and X.dtype == np.float64:
        return X
    array = X.raw()[first:last].astype(np.float64, copy=False)
    return SparseMatrix(array) if sp.issparse(array) else DenseMatrix(np.ascontiguousarray(array))


def to_arrays(X: Matrix) -> dict[str, np.ndarray]:
    """The entries of X as plain arrays."""
    array = X.raw()
    if not sp.issparse(array):
        return {"dense": array}
    return {"data": array.data, "indices": array.indices, "indptr": array.indptr, "shape": np.array(array.shape)}


def from_arrays(arrays: dict[str, np.ndarray]) -> Matrix:
    """What `to_arrays` was given."""
    if "dense" in arrays:
        return DenseMatrix(np.ascontiguousarray(arrays["dense"]))
    parts = arrays["data"], arrays["indices"], arrays["indptr"]
    csr = sp.csr_array(parts, shape=tuple(int(side) for side in arrays["shape"]))
    check_structure(csr)
    return SparseMatrix(csr)
