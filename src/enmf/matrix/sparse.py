"""X in scipy's CSR form; unstored entries are zeros. Products run threaded in both orientations."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from enmf import parallel
from enmf.kernels import sparse as kernels
from enmf.matrix.base import Matrix, dense_squared_residual, product_cost, row_blocks


class SparseMatrix(Matrix):
    def __init__(self, csr: sp.csr_array) -> None:
        super().__init__(csr.shape, csr.dtype)
        self.csr = csr
        self._transposed: sp.csr_array | None = None

    @property
    def transposed(self) -> sp.csr_array:
        """Xᵀ in CSR form: the one copy of the data that is kept, so that both products run along rows."""
        if self._transposed is None:
            self._transposed = sp.csr_array(self.csr.T)
        return self._transposed

    @property
    def cost_per_column(self) -> float:
        return product_cost(*self.shape, self.csr.nnz)

    def raw(self) -> sp.csr_array:
        return self.csr

    def _times(self, V: np.ndarray) -> np.ndarray:
        return _product(self.csr, V)

    def _transpose_times(self, U: np.ndarray) -> np.ndarray:
        return _product(self.transposed, U)

    def _compute_squared_norm(self) -> float:
        data = self.csr.data.astype(np.float64, copy=False)
        return float(data @ data)

    def row_squares(self) -> np.ndarray:
        squares = np.zeros(self.shape[0])
        filled = np.flatnonzero(np.diff(self.csr.indptr))
        data = self.csr.data.astype(np.float64, copy=False)
        if len(filled):
            squares[filled] = np.add.reduceat(data * data, self.csr.indptr[filled])
        return squares

    def _rows(self, index: np.ndarray, weight: np.ndarray) -> SparseMatrix:
        picked = self.csr[index]
        picked.data *= np.repeat(weight, np.diff(picked.indptr))
        return SparseMatrix(picked)

    def _squared_residual(self, U: np.ndarray, V: np.ndarray) -> float:
        U64, V64 = (np.ascontiguousarray(F, dtype=np.float64) for F in (U, V))
        partial = np.empty(self.shape[0])
        indptr, indices, data = self.csr.indptr, self.csr.indices, self.csr.data
        bounds = parallel.balanced_bounds(indptr, 2.0 * U.shape[1])
        parallel.run(kernels.residual, bounds, indptr, indices, data, U64, V64, partial)
        product = float(np.vdot(U64.T @ U64, V64.T @ V64))
        total = float(partial.sum()) + product
        if total > 1e-11 * self.squared_norm() or self.shape[0] * self.shape[1] > 1e9:
            return max(total, 0.0)
        # Nearly exact: the sum above has cancelled, so look at the entries themselves, a few rows at a time.
        return sum(dense_squared_residual(self.csr[rows].toarray(), U64[rows], V64) for rows in row_blocks(*self.shape))

    def gram(self) -> np.ndarray:
        self.passes += 1
        A = self.csr if self.shape[0] <= self.shape[1] else self.transposed
        A = A.astype(np.float64, copy=False)
        return (A @ A.T).toarray()


def _product(csr: sp.csr_array, C: np.ndarray) -> np.ndarray:
    C = np.ascontiguousarray(C, dtype=csr.dtype)
    out = np.empty((C.shape[1], csr.shape[0]), dtype=csr.dtype)
    bounds = parallel.balanced_bounds(csr.indptr, 2.0 * C.shape[1])
    parallel.run(kernels.times, bounds, csr.indptr, csr.indices, csr.data, C, out)
    return out.T
