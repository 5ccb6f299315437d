"""D_r X D_c for positive diagonal matrices D_r and D_c, by products with X: nothing of its size is stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from enmf.matrix.base import Matrix, dense_squared_residual, once
from enmf.matrix.factor import row_blocks


class ScaledMatrix(Matrix):
    """Row i of X times rows[i], column j times columns[j]; passes are those over X."""

    def __init__(self, X: Matrix, rows: np.ndarray, columns: np.ndarray) -> None:
        super().__init__(X.shape, X.dtype)
        self.X, self.ledger = X, X.ledger
        self.rows, self.columns = rows.astype(X.dtype), columns.astype(X.dtype)

    @property
    def cost_per_column(self) -> float:
        return self.X.cost_per_column

    def of(self, X: Matrix) -> ScaledMatrix:
        """The same scaling of another form of X."""
        return ScaledMatrix(X, self.rows, self.columns)

    def _times(self, V: np.ndarray) -> np.ndarray:
        return _scaled(self.X._times(_scaled(V, self.columns)), self.rows)

    def _transpose_times(self, U: np.ndarray) -> np.ndarray:
        return _scaled(self.X._transpose_times(_scaled(U, self.rows)), self.columns)

    def _compute_squared_norm(self) -> float:
        return float(self.row_squares().sum())

    def row_squares(self) -> np.ndarray:
        return self._row_squares

    @once
    def _row_squares(self) -> np.ndarray:
        X: Any = self.X.raw()
        n, m = self.shape
        out, weights = np.empty(n), self.columns.astype(np.float64) ** 2
        for some in row_blocks(n, -(-X.nnz // max(n, 1)) if sp.issparse(X) else m):
            block = X[some]
            out[some] = block.power(2) @ weights if sp.issparse(X) else np.square(block, dtype=np.float64) @ weights
        return out * self.rows.astype(np.float64) ** 2

    def raw(self) -> Any:
        return self._entries(slice(None))

    def _entries(self, some: Any) -> Any:
        block = self.X.raw()[some]
        if not sp.issparse(block):
            return self.rows[some, None] * block * self.columns
        return sp.csr_array(sp.diags_array(self.rows[some]) @ block @ sp.diags_array(self.columns))

    def _rows(self, index: np.ndarray, weight: np.ndarray) -> Matrix:
        return ScaledMatrix(self.X._rows(index, weight * self.rows[index]), np.ones(len(index)), self.columns)

    def gram(self) -> np.ndarray:
        self.passes += 1
        A = self.raw().astype(np.float64)
        A = A if self.shape[0] <= self.shape[1] else A.T
        gram = A @ A.T
        return gram.toarray() if sp.issparse(gram) else gram

    def _squared_residual(self, U: np.ndarray, V: np.ndarray, share: float) -> float:
        V64, total = V.astype(np.float64, copy=False), 0.0
        for some in row_blocks(*self.shape):
            block = self._entries(some)
            total += dense_squared_residual(block.toarray() if sp.issparse(block) else block, U[some], V64)
        return total


def _scaled(F: np.ndarray, factors: np.ndarray) -> np.ndarray:
    return F * factors[:, None].astype(F.dtype, copy=False)
