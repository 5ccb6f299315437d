"""X = A Bᵀ kept as its two thin factors: products cost O((n + m) l r) and no pass over data.

A half-step sees it through Aᵀ U and Bᵀ V (l x r): X V = A (Bᵀ V). A block of rows of A gives its part of X V, its rows
of U are swept, and its part of Aᵀ U is added while all of them are in the cache (src/kernels/onepass.h); likewise B and
V. No array of the size of U is allocated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from enmf import parallel
from enmf.kernels import onepass
from enmf.matrix.base import Matrix
from enmf.matrix.factor import inner
from enmf.matrix.sweeps import Parts, Sweep, one_pass_options, product_then_sweep
from enmf.parallel import matmul

LARGE_RANK = 128  # above it products and sweeps are long enough for separate calls


class LowRankMatrix(Matrix):
    holds_data = False
    fused = True

    def __init__(self, A: np.ndarray, B: np.ndarray) -> None:
        super().__init__((A.shape[0], B.shape[0]), A.dtype)
        self.A, self.B = A, B

    @property
    def cost_per_column(self) -> float:
        return 2.0 * (self.A.size + self.B.size)

    def image(self, half: Any) -> np.ndarray:
        """Aᵀ U or Bᵀ V  # l x r"""
        if "image" not in half.own:
            half.own["image"] = matmul((self.B if half.side else self.A).T, half.F)
        return half.own["image"]

    def half_step(self, half: Any, how: Sweep) -> None:
        if half.F.shape[1] > LARGE_RANK:
            product_then_sweep(half, how)
            return
        A = self.B if half.side else self.A
        M, G, F = self.image(half.other), half.other.gram, half.F
        (n, width), r = A.shape, F.shape[1]
        parts = Parts(n, width, r, A.dtype)
        bounds = parallel.even_bounds(parts.count, (4.0 * width + 2.0 * r * (how.sweeps + 1)) * r * n / parts.count)
        options = one_pass_options(G, how)
        parallel.run(
            onepass.core_step, bounds, A.T, parts.height, F.T, np.ascontiguousarray(M.T), *options, *parts.sums
        )
        AtU, gram = parts.added()
        half.changed(image=AtU.T, gram=gram)

    def squared_error(self, state: Any) -> float:
        rows, columns = state.halves
        value = self.squared_norm() - 2.0 * inner(self.image(rows), self.image(columns))
        value += inner(rows.gram, columns.gram)
        return value if self.keeps_digits(value) else self.squared_residual(rows.F, columns.F)

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
