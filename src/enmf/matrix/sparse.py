"""X in scipy's CSR form; unstored entries are zeros. Products run threaded in both orientations."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from enmf import parallel
from enmf.kernels import sparse as kernels
from enmf.matrix.base import Listed, Matrix, dense_squared_residual, once, product_cost
from enmf.matrix.factor import row_blocks
from enmf.matrix.order import rowwise
from enmf.matrix.sweeps import new_burst

BLOCK_ROWS = 8192  # most rows of X in a block of Xᵀ: as many rows of U stay in the cache
LEAST_BLOCKS = 8  # fewest blocks, so that several threads can build them
LEAST_ENTRIES = 8  # fewest entries of a row of Xᵀ per block, on average


class Blocks(NamedTuple):
    """A sparse matrix in blocks of its columns, as the kernels see it."""

    starts: np.ndarray  # blocks x (rows + 1)
    indices: np.ndarray
    data: np.ndarray
    indptr: np.ndarray  # entries before each row, in all blocks


class SparseMatrix(Matrix):
    has_rows = True

    def __init__(self, csr: sp.csr_array) -> None:
        super().__init__(csr.shape, csr.dtype)
        self.csr = csr

    @property
    def plain(self) -> Blocks:
        X = self.csr
        return Blocks(X.indptr[None], X.indices, X.data, X.indptr)

    @once
    def transposed(self) -> Blocks:
        """Xᵀ, the only copy of the data: it lets both products run along rows."""
        X = self.csr
        n, m = X.shape
        height = max(min(BLOCK_ROWS, -(-n // LEAST_BLOCKS)), LEAST_ENTRIES * n * m // max(X.nnz, 1), 1)
        blocks = max(1, -(-n // height))
        starts = np.empty((blocks, m + 1), X.indptr.dtype)
        rows, values = np.empty_like(X.indices), np.empty_like(X.data)
        bounds = parallel.even_bounds(blocks, 100.0 * X.nnz / blocks)
        parallel.run(kernels.transpose, bounds, X.indptr, X.indices, X.data, height, starts, rows, values)
        return Blocks(starts, rows, values, starts.sum(axis=0, dtype=np.int64) - starts[:, 0].sum(dtype=np.int64))

    def by_rows(self, side: int) -> Listed:
        S = self.transposed if side else self.plain
        return Listed(S.starts, S.indices, S.data, S.indptr, weights=np.empty(0, self.dtype), implied=True)

    @property
    def cost_per_column(self) -> float:
        return product_cost(*self.shape, self.csr.nnz)

    def raw(self) -> sp.csr_array:
        return self.csr

    def pick(self, index: np.ndarray) -> Any:
        return self.raw() if len(index) == self.shape[0] else super().pick(index)

    def _times(self, V: np.ndarray) -> np.ndarray:
        return _product(self.plain, V, self.dtype)

    def _transpose_times(self, U: np.ndarray) -> np.ndarray:
        return _product(self.transposed, U, self.dtype)

    def _gram_times_in_double(self, Q: np.ndarray) -> np.ndarray:
        double = np.dtype(np.float64)
        return _product(self.transposed, _product(self.plain, Q, double), double)

    def burst(self, rank: int) -> Any:
        kernel = new_burst(self, rank)
        if kernel is not None:
            for side, S in enumerate((self.plain, self.transposed)):
                kernel.sparse(side, S.starts, S.indices, S.data)
        return kernel

    def _compute_squared_norm(self) -> float:
        return float(self._row_squares.sum())  # not by BLAS: its threads would spin during the first phases

    def row_squares(self) -> np.ndarray:
        return self._row_squares

    @once
    def _row_squares(self) -> np.ndarray:  # samples are drawn by them, twice for text
        squares = np.empty(self.shape[0])
        indptr, data = self.csr.indptr, self.csr.data
        parallel.run(kernels.row_squares, parallel.balanced_bounds(indptr, 2.0), indptr, data, squares)
        return squares

    def scaled(self, rows: np.ndarray | None, columns: np.ndarray | None) -> SparseMatrix:
        data, X = self.csr.data, self.csr
        if rows is not None:
            data = data * np.repeat(rows.astype(self.dtype), np.diff(X.indptr))
        if columns is not None:
            data = data * columns.astype(self.dtype)[X.indices]
        return SparseMatrix(sp.csr_array((data, X.indices, X.indptr), shape=X.shape))

    def _rows(self, index: np.ndarray, weight: np.ndarray) -> SparseMatrix:
        picked = self.csr[index]
        picked.data *= np.repeat(weight, np.diff(picked.indptr))
        return SparseMatrix(picked)

    def _squared_residual(self, U: np.ndarray, V: np.ndarray, share: float) -> float:
        U64, V64 = (np.ascontiguousarray(F, dtype=np.float64) for F in (U, V))
        partial = np.empty(self.shape[0])
        indptr, indices, data = self.csr.indptr, self.csr.indices, self.csr.data
        bounds = parallel.balanced_bounds(indptr, 2.0 * U.shape[1])
        parallel.run(kernels.residual, bounds, indptr, indices, data, U64, V64, partial)
        product = float(np.vdot(U64.T @ U64, V64.T @ V64))
        total = float(partial.sum()) + product
        if total > share * self.squared_norm() or self.shape[0] * self.shape[1] > 1e9:
            return max(total, 0.0)
        # Nearly exact: the sum above has cancelled, so use the entries themselves, a few rows at a time.
        return sum(dense_squared_residual(self.csr[rows].toarray(), U64[rows], V64) for rows in row_blocks(*self.shape))

    def gram(self) -> np.ndarray:
        self.passes += 1
        A = self.csr if self.shape[0] <= self.shape[1] else self.csr.T
        A = A.astype(np.float64, copy=False)
        return (A @ A.T).toarray()


def _product(S: Blocks, C: np.ndarray, dtype: np.dtype) -> np.ndarray:
    C = rowwise(C, dtype)
    out = np.empty((C.shape[1], len(S.indptr) - 1), dtype)
    bounds = parallel.balanced_bounds(S.indptr, 2.0 * C.shape[1])
    parallel.run(kernels.times, bounds, S.starts, S.indices, S.data, C, out)
    return out.T
