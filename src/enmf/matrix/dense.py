"""X in an ndarray, C or Fortran order."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from enmf import parallel
from enmf.matrix.base import Matrix, dense_squared_residual, product_cost, row_blocks


class DenseMatrix(Matrix):
    def __init__(self, array: np.ndarray) -> None:
        super().__init__(array.shape, array.dtype)
        self.array = array

    @cached_property
    def cost_per_column(self) -> float:
        nonzeros = sum(int(np.count_nonzero(self.array[rows])) for rows in row_blocks(*self.shape))
        return product_cost(*self.shape, nonzeros)

    def raw(self) -> np.ndarray:
        return self.array

    def _times(self, V: np.ndarray) -> np.ndarray:
        return parallel.matmul(np.asfortranarray(V).T, self.array.T).T

    def _transpose_times(self, U: np.ndarray) -> np.ndarray:
        return parallel.matmul(np.asfortranarray(U).T, self.array).T

    def _compute_squared_norm(self) -> float:
        total = 0.0
        for rows in row_blocks(*self.shape):
            flat = self.array[rows].astype(np.float64, copy=False).ravel(order="K")
            total += float(flat @ flat)
        return total

    def row_squares(self) -> np.ndarray:
        return np.einsum("ij,ij->i", self.array, self.array, dtype=np.float64)

    def _rows(self, index: np.ndarray, weight: np.ndarray) -> DenseMatrix:
        return DenseMatrix(self.array[index] * weight[:, None])

    def _squared_residual(self, U: np.ndarray, V: np.ndarray) -> float:
        V64 = V.astype(np.float64, copy=False)
        slices = row_blocks(*self.shape)
        work = np.empty((slices[0].stop, self.shape[1]))  # one for all: fresh memory costs as much as the product
        return sum(dense_squared_residual(self.array[rows], U[rows], V64, work) for rows in slices)

    def gram(self) -> np.ndarray:
        self.passes += 1
        A = self.array if self.shape[0] <= self.shape[1] else self.array.T
        if A.dtype == np.float64:
            with parallel.blas_threads():  # a symmetric product, half the work
                return A @ A.T
        gram = np.zeros((A.shape[0], A.shape[0]))
        for columns in row_blocks(A.shape[1], A.shape[0]):
            block = A[:, columns].astype(np.float64)
            gram += block @ block.T
        return gram
