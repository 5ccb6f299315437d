"""X - A Bᵀ by products with X, A and B: what known components leave over. Nothing of its size is stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from enmf.matrix.base import Matrix, once
from enmf.parallel import matmul


class LessMatrix(Matrix):
    """X less a matrix of low rank; its entries have any sign. Passes are those over X."""

    signed = True

    def __init__(self, X: Matrix, A: np.ndarray, B: np.ndarray) -> None:
        super().__init__(X.shape, X.dtype)
        self.X, self.A, self.B, self.ledger = X, A, B, X.ledger

    @property
    def cost_per_column(self) -> float:
        return self.X.cost_per_column + 2.0 * (self.A.size + self.B.size)

    def _times(self, V: np.ndarray) -> np.ndarray:
        return np.asfortranarray(self.X._times(V) - matmul(self.A, matmul(self.B.T, V)))

    def _transpose_times(self, U: np.ndarray) -> np.ndarray:
        return np.asfortranarray(self.X._transpose_times(U) - matmul(self.B, matmul(self.A.T, U)))

    def _gram_times_in_double(self, Q: np.ndarray) -> np.ndarray:
        raise TypeError("what known components leave over has no bound of its own")

    def _compute_squared_norm(self) -> float:
        return float(self.row_squares().sum())

    def row_squares(self) -> np.ndarray:
        return self._row_squares

    @once
    def _row_squares(self) -> np.ndarray:
        A, B = self.A.astype(np.float64), self.B.astype(np.float64)
        XB = self.X._times(self.B).astype(np.float64)
        squares = self.X.row_squares() + np.einsum("ik,ik->i", A @ (B.T @ B) - 2.0 * XB, A)
        return np.maximum(squares, 0.0)

    def _rows(self, index: np.ndarray, weight: np.ndarray) -> Matrix:
        return LessMatrix(self.X._rows(index, weight), self.A[index] * weight[:, None], self.B)

    def raw(self) -> Any:
        X = self.X.raw()
        return (X.toarray() if sp.issparse(X) else X) - self.A @ self.B.T

    def gram(self) -> np.ndarray:
        """XXᵀ - X B Aᵀ - A (X B)ᵀ + A BᵀB Aᵀ, or the same with rows and columns exchanged."""
        wide = self.shape[0] <= self.shape[1]
        A, B = (self.A, self.B) if wide else (self.B, self.A)
        across = (self.X._times if wide else self.X._transpose_times)(B).astype(np.float64) @ A.T
        gram = self.X.gram()
        gram -= across
        gram -= across.T
        gram += A @ (B.T @ B).astype(np.float64) @ A.T
        return gram

    def _squared_residual(self, U: np.ndarray, V: np.ndarray, share: float) -> float:
        return self.X._squared_residual(np.hstack([self.A, U]), np.hstack([self.B, V]), share)
