"""Several matrices with the same columns, one below the other, each times a weight."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from enmf.matrix.base import Matrix
from enmf.matrix.dense import DenseMatrix
from enmf.matrix.sparse import SparseMatrix
from enmf.matrix.structure import check_structure


def stacked(blocks: Sequence[tuple[Matrix, float]]) -> Matrix:
    """One matrix of all rows, each block times its weight: sparse if all of them are, else dense."""
    if len(blocks) == 1 and blocks[0][1] == 1.0:
        return blocks[0][0]
    raw = [(X.raw(), weight) for X, weight in blocks]
    if all(sp.issparse(array) for array, _ in raw):
        return SparseMatrix(sp.csr_array(sp.vstack([array * weight for array, weight in raw], "csr")))
    dense = [(array.toarray() if sp.issparse(array) else array) * weight for array, weight in raw]
    return DenseMatrix(np.ascontiguousarray(np.vstack(dense)))


def kept(X: Matrix) -> Matrix:
    """X with entries of its own, in double precision: what the caller does to the array later does not matter."""
    array = X.raw()
    if sp.issparse(array):
        return SparseMatrix(sp.csr_array(array.astype(np.float64, copy=True)))
    return DenseMatrix(np.array(array, np.float64, order="C"))


def numbers(X: Matrix) -> int:
    """How many numbers the rows of X take, those of their places included."""
    array = X.raw()
    return 2 * array.nnz + X.shape[0] if sp.issparse(array) else int(array.size)


def rows_in(array: np.ndarray) -> Matrix:
    """A plain array of double precision as a matrix."""
    return DenseMatrix(array)


def part(X: Matrix, first: int, last: int) -> Matrix:
    """Rows `first` to `last` (left out) of X."""
    if first == 0 and last >= X.shape[0]:
        return X
    array = X.raw()[first:last]
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
