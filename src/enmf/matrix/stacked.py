"""Several matrices with the same columns, one below the other, each stored in its own way.

X V = [X_1 V; X_2 V; ...],    Xᵀ U = X_1ᵀ U_1 + X_2ᵀ U_2 + ...
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from enmf.matrix.base import Listed, Matrix, once
from enmf.matrix.dense import DenseMatrix
from enmf.matrix.sparse import SparseMatrix


def stack(tables: Sequence[Matrix]) -> Matrix:
    """One matrix of all tables: dense or sparse if all of them are."""
    arrays = [table.raw() for table in tables]
    sparse = [sp.issparse(array) for array in arrays]
    X: Matrix
    if all(sparse):
        X = SparseMatrix(sp.csr_array(sp.vstack(arrays, format="csr")))
    else:
        X = StackedMatrix(tables) if any(sparse) else DenseMatrix(np.vstack(arrays))
    X.signed = any(table.signed for table in tables)
    return X


class StackedMatrix(Matrix):
    """Dense and sparse tables with the same columns."""

    has_rows = True

    def __init__(self, tables: Sequence[Matrix]) -> None:
        edges = np.cumsum([0, *(table.shape[0] for table in tables)])
        super().__init__((int(edges[-1]), tables[0].shape[1]), tables[0].dtype)
        self.tables = tables
        self.parts = [slice(int(a), int(b)) for a, b in pairwise(edges)]

    @property
    def cost_per_column(self) -> float:
        return sum(table.cost_per_column for table in self.tables)

    def _times(self, V: np.ndarray) -> np.ndarray:
        out = np.empty((self.shape[0], V.shape[1]), V.dtype, order="F")
        for table, rows in zip(self.tables, self.parts):
            out[rows] = table._times(V)
        return out

    def _transpose_times(self, U: np.ndarray) -> np.ndarray:
        out = np.zeros((self.shape[1], U.shape[1]), U.dtype, order="F")
        for table, rows in zip(self.tables, self.parts):
            out += table._transpose_times(np.asfortranarray(U[rows]))
        return out

    def _gram_times_in_double(self, Q: np.ndarray) -> np.ndarray:
        return np.sum([table._gram_times_in_double(Q) for table in self.tables], axis=0)

    def _compute_squared_norm(self) -> float:
        return sum(table._compute_squared_norm() for table in self.tables)

    def row_squares(self) -> np.ndarray:
        return np.concatenate([table.row_squares() for table in self.tables])

    def scaled(self, rows: np.ndarray | None, columns: np.ndarray | None) -> Matrix:
        parts = (None if rows is None else rows[part] for part in self.parts)
        return StackedMatrix([table.scaled(part, columns) for table, part in zip(self.tables, parts)])

    def _rows(self, index: np.ndarray, weight: np.ndarray) -> Matrix:
        found = []
        for table, rows in zip(self.tables, self.parts):
            here = (index >= rows.start) & (index < rows.stop)
            if here.any():
                found.append(table._rows(index[here] - rows.start, weight[here]))
        return stack(found)

    def raw(self) -> sp.csr_array:
        return self._sparse.raw()

    @once
    def _sparse(self) -> SparseMatrix:
        """All of it in CSR form, for what needs its entries."""
        return SparseMatrix(sp.csr_array(sp.vstack([sp.csr_array(table.raw()) for table in self.tables])))

    def by_rows(self, side: int) -> Listed:
        return self._sparse.by_rows(side)

    def gram(self) -> np.ndarray:
        self.passes += 1
        if self.shape[0] <= self.shape[1]:
            return self._sparse.gram()
        arrays = (table.raw().astype(np.float64) for table in self.tables)
        products = (array.T @ array for array in arrays)
        return sum(product.toarray() if sp.issparse(product) else product for product in products)

    def _squared_residual(self, U: np.ndarray, V: np.ndarray, share: float) -> float:
        return sum(table._squared_residual(U[rows], V, share) for table, rows in zip(self.tables, self.parts))


def holds_tables(X: Any) -> bool:
    """Whether X is a list of matrices, not a matrix written as a list of rows."""
    if not isinstance(X, (list, tuple)) or not X:
        return False
    shapes = [getattr(table, "shape", None) for table in X]
    return all(isinstance(shape, tuple) and len(shape) == 2 for shape in shapes)
