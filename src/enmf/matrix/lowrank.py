"""X = A Bᵀ kept as its two thin factors: products cost O((n + m) l r) and no pass over data."""

from __future__ import annotations

import numpy as np

from enmf.matrix.base import Matrix
from enmf.parallel import matmul


class LowRankMatrix(Matrix):
    holds_data = False

    def __init__(self, A: np.ndarray, B: np.ndarray) -> None:
        super().__init__((A.shape[0], B.shape[0]), A.dtype)
        self.A, self.B = A, B

    @property
    def cost_per_column(self) -> float:
        return 2.0 * (self.A.size + self.B.size)

    def _times(self, V: np.ndarray) -> np.ndarray:
        return matmul(matmul(V.T, self.B), self.A.T).T

    def _transpose_times(self, U: np.ndarray) -> np.ndarray:
        return matmul(matmul(U.T, self.A), self.B.T).T

    def _compute_squared_norm(self) -> float:
        A, B = self.A.astype(np.float64, copy=False), self.B.astype(np.float64, copy=False)
        return float(np.vdot(matmul(A.T, A), matmul(B.T, B)))

    def row_squares(self) -> np.ndarray:
        A, B = self.A.astype(np.float64, copy=False), self.B.astype(np.float64, copy=False)
        return np.einsum("ij,ij->i", A @ (B.T @ B), A)

    def _rows(self, index: np.ndarray, weight: np.ndarray) -> LowRankMatrix:
        return LowRankMatrix(self.A[index] * weight[:, None], self.B)

    def _squared_residual(self, U: np.ndarray, V: np.ndarray, share: float) -> float:
        """[A, U] [B, -V]ᵀ has the norm of the product of two small triangular matrices."""
        _, left = np.linalg.qr(np.hstack([self.A, U]).astype(np.float64))
        _, right = np.linalg.qr(np.hstack([self.B, -V]).astype(np.float64))
        return float(np.linalg.norm(left @ right.T) ** 2)

    def gram(self) -> np.ndarray:
        A, B = (self.A, self.B) if self.shape[0] <= self.shape[1] else (self.B, self.A)
        A, B = A.astype(np.float64, copy=False), B.astype(np.float64, copy=False)
        return A @ (B.T @ B) @ A.T
