"""X in an ndarray, C or Fortran order."""

from __future__ import annotations

from typing import Any

import numpy as np

from enmf import parallel
from enmf.kernels import dense as kernels
from enmf.kernels import onepass
from enmf.matrix.base import Matrix, dense_squared_residual, once, product_cost
from enmf.matrix.factor import row_blocks
from enmf.matrix.order import rowwise
from enmf.matrix.sweeps import Parts, Sweep, new_burst, one_pass_options, product_then_sweep

CLEAR_SHARE = 1e-4  # of ||X||²: differences with five digits in single precision, whose sum of squares has eight
RESIDUAL_BLOCK = 1 << 17  # entries of a residual that are computed and summed together: they stay in the cache


class DenseMatrix(Matrix):
    has_entries = True
    has_rows = True

    def by_rows(self, side: int) -> np.ndarray:
        return self._across if side else self._along

    def __init__(self, array: np.ndarray) -> None:
        super().__init__(array.shape, array.dtype)
        self.array = array
        self.fused = self.allows_one_pass

    @once
    def _survey(self) -> tuple[np.ndarray, int]:
        """Squared norms of the rows and the number of nonzero entries, from one pass over X."""
        n, m = self.shape
        squares, nonzeros = np.empty(n), np.empty(n, np.int64)
        if self.array.flags.c_contiguous:
            parallel.run(kernels.survey, parallel.even_bounds(n, 2.0 * m), self.array, squares, nonzeros)
        else:
            for rows in row_blocks(n, m):
                block = np.ascontiguousarray(self.array[rows])
                kernels.survey(0, len(block), block, squares[rows], nonzeros[rows])
        return squares, int(nonzeros.sum())

    @property
    def cost_per_column(self) -> float:
        return product_cost(*self.shape, self._survey[1])

    def raw(self) -> np.ndarray:
        return self.array

    def pick(self, index: np.ndarray) -> Any:
        return self.raw() if len(index) == self.shape[0] else super().pick(index)

    def _times(self, V: np.ndarray) -> np.ndarray:
        return parallel.matmul(np.asfortranarray(V).T, self.array.T).T

    def _transpose_times(self, U: np.ndarray) -> np.ndarray:
        return parallel.matmul(np.asfortranarray(U).T, self.array).T

    def _gram_times_in_double(self, Q: np.ndarray) -> np.ndarray:
        out = np.zeros(Q.shape)
        for rows in row_blocks(*self.shape):
            block = self.array[rows].astype(np.float64)
            out += parallel.matmul(block.T, parallel.matmul(block, Q))
        return out

    @property
    def allows_one_pass(self) -> bool:
        return self.narrow and self.array.flags.c_contiguous

    def half_step(self, half: Any, how: Sweep) -> None:
        """If rows are short, X is read once for X V, the sweeps of U, and the products Xᵀ U and Uᵀ U that follow."""
        if half.side == 1 or half.knows_product or how.wall != np.inf or not self.allows_one_pass:
            product_then_sweep(half, how)
            return
        self.passes += 1
        U, (n, m), r = half.F, self.shape, half.F.shape[1]
        G, _ = half.penalty.normal(half.other.gram, None)
        parts = Parts(n, m, r, self.dtype)
        bounds = parallel.even_bounds(parts.count, (4.0 * m + 2.0 * r * how.sweeps) * r * n / parts.count)
        V, shift, options = half.other.F, float(half.penalty.l1), one_pass_options(G, how)
        parallel.run(onepass.half_step, bounds, self.array, parts.height, U.T, V.T, shift, *options, *parts.sums)
        XtU, gram = parts.added()
        half.changed(across=XtU.T, gram=gram)

    def burst(self, rank: int) -> Any:
        kernel = new_burst(self, rank)
        if kernel is not None:
            kernel.dense(self._along, self._across)
        return kernel

    @once
    def _along(self) -> np.ndarray:
        """X in C order."""
        return rowwise(self.array, self.array.dtype)

    @once
    def _across(self) -> np.ndarray:
        """Xᵀ in C order."""
        return rowwise(self.array.T, self.array.dtype)

    def _compute_squared_norm(self) -> float:
        return float(self._survey[0].sum())

    def row_squares(self) -> np.ndarray:
        return self._survey[0]

    def scaled(self, rows: np.ndarray | None, columns: np.ndarray | None) -> DenseMatrix:
        array = self.array if rows is None else self.array * rows[:, None].astype(self.dtype)
        return DenseMatrix(array if columns is None else array * columns.astype(self.dtype))

    def _rows(self, index: np.ndarray, weight: np.ndarray) -> DenseMatrix:
        return DenseMatrix(self.array[index] * weight[:, None])

    def _squared_residual(self, U: np.ndarray, V: np.ndarray, share: float) -> float:
        if self.array.dtype == np.float32:  # differences in single precision are enough, unless they cancel
            rough = self._sum_of_squares(U, V.astype(np.float32, copy=False))
            if rough > CLEAR_SHARE * self.squared_norm():
                return rough
        return self._sum_of_squares(U, V.astype(np.float64, copy=False))

    def _sum_of_squares(self, U: np.ndarray, V: np.ndarray) -> float:
        """||X - U Vᵀ||², the differences in the precision of V."""
        slices = row_blocks(*self.shape, RESIDUAL_BLOCK)
        sums = np.empty(len(slices))

        def some(start: int, stop: int) -> None:
            # for all blocks: fresh memory costs as much as the product
            work = np.empty((slices[0].stop, self.shape[1]), V.dtype)
            for i in range(start, stop):
                sums[i] = dense_squared_residual(self.array[slices[i]], U[slices[i]], V, work)

        flops = 2.0 * slices[0].stop * self.shape[1] * (V.shape[1] + 4)
        parallel.run(some, parallel.even_bounds(len(slices), flops))
        return float(sums.sum())

    def gram(self) -> np.ndarray:
        self.passes += 1
        A = self.array if self.shape[0] <= self.shape[1] else self.array.T
        if A.dtype == np.float64:
            return parallel.matmul(A, A.T)
        gram = np.zeros((A.shape[0], A.shape[0]))
        for columns in row_blocks(A.shape[1], A.shape[0]):
            block = A[:, columns].astype(np.float64)
            gram += block @ block.T
        return gram
