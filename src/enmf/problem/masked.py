"""A pair of factors of a matrix with missing entries.

    f(U, V) = 1/2 sum w_ij (x_ij - u_i . v_j)² over the observed (i, j)
              + 1/2 sum_i p_i ||u_i||² + 1/2 sum_j q_j ||v_j||²

The residual R = W o (X - U Vᵀ) gives everything that is measured: the gradient with respect to U is p U - R V. A
product with R is kept until a factor changes, so the error that decides about a step also serves the trace.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from enmf.kernels import masked as kernels
from enmf.matrix.masked import MaskedMatrix, Side
from enmf.problem.state import GradientMeasure, Iterate, _safe_share, inner, measure_gradient


@dataclass(frozen=True)
class Ridge:
    """p_i and q_j: weights of the squared norms of the rows of U and of V."""

    rows: np.ndarray  # n
    columns: np.ndarray  # m

    def __bool__(self) -> bool:
        return bool(self.rows.any() or self.columns.any())


class MaskedIterate(Iterate):
    """Factors U (n x r) and V (m x r), in Fortran order, of the observed part of X."""

    X: MaskedMatrix
    penalty: Ridge  # type: ignore[assignment]

    def __init__(self, X: MaskedMatrix, U: np.ndarray, V: np.ndarray, ridge: Ridge) -> None:
        super().__init__(X, U, V)
        self.penalty = ridge

    def U_changed(self) -> None:
        self._UtU = None
        self._forget()

    def V_changed(self) -> None:
        self._VtV = None
        self._forget()

    def _forget(self) -> None:
        """Both products hang on both factors here."""
        self._RV: np.ndarray | None = None
        self._RtU: np.ndarray | None = None
        self._squared = 0.0

    @property
    def XV(self) -> np.ndarray:
        """What the loop computes ahead of a step that judges its progress: here R V, with the error."""
        return self.RV

    @property
    def RV(self) -> np.ndarray:  # n x r
        if self._RV is None:
            self._RV, errors = self.X.residual_times(self.X.rows, self.U, self.V)
            self._squared = float(errors.sum())
        return self._RV

    @property
    def RtU(self) -> np.ndarray:  # m x r
        if self._RtU is None:
            self._RtU, _ = self.X.residual_times(self.X.columns, self.V, self.U)
        return self._RtU

    def arrange(self, order: np.ndarray, scale: np.ndarray) -> None:
        up, down = (np.asarray(f, self.U.dtype)[order] for f in (scale, 1.0 / scale))
        self.set_U(np.asfortranarray(self.U[:, order] * up))
        self.set_V(np.asfortranarray(self.V[:, order] * down))

    def normal_U(self) -> tuple[np.ndarray, np.ndarray]:
        raise TypeError("with missing entries every row has its own normal equations")

    normal_V = normal_U

    def squared_error(self) -> float:
        """sum of w (x - u . v)² over the observed entries."""
        _ = self.RV
        if self.X.base is None:
            return self._squared
        # the products of the base add and take away numbers of this size
        size = max(self.X.squared_norm(), inner(self.UtU, self.VtV))
        lost = self._squared < _safe_share(self.X.dtype) * size
        return self.X.squared_residual(self.U, self.V) if lost else self._squared

    def inner_with_X(self) -> np.ndarray:
        return np.einsum("ij,ij->j", self.X.times(self.V), self.U, dtype=np.float64)

    def squared_penalty(self) -> float:
        if not self.penalty:
            return 0.0
        return sum(
            float(weights @ np.einsum("ik,ik->i", F, F, dtype=np.float64))
            for F, weights in ((self.U, self.penalty.rows), (self.V, self.penalty.columns))
        )

    def measure_U(self) -> GradientMeasure:
        return self._measure(self.U, self.RV, self.penalty.rows)

    def measure_V(self) -> GradientMeasure:
        return self._measure(self.V, self.RtU, self.penalty.columns)

    def _measure(self, F: np.ndarray, RC: np.ndarray, ridge: np.ndarray) -> GradientMeasure:
        right = RC - ridge[:, None].astype(F.dtype) * F
        return measure_gradient(F, np.zeros((self.rank, self.rank), F.dtype), np.asfortranarray(right))

    def measuring_flops(self) -> float:
        return 3.0 * self.rank * self.X.cost_per_column

    def sides(self) -> tuple[tuple[Side, np.ndarray], tuple[Side, np.ndarray]]:
        """Pattern and ridge, for U and for V."""
        return (self.X.rows, self.penalty.rows), (self.X.columns, self.penalty.columns)

    def sweep_U(self, max_sweeps: int = 1, progress: float = 0.0, wall: float = np.inf) -> None:
        self._on_U(kernels.sweep, float(wall), max_sweeps, float(progress))

    def sweep_V(self, max_sweeps: int = 1, progress: float = 0.0, wall: float = np.inf) -> None:
        self._on_V(kernels.sweep, float(wall), max_sweeps, float(progress))

    def row_steps_U(self, max_steps: int, epsilon: float) -> None:
        self._on_U(kernels.row_steps, max_steps, float(epsilon))

    def row_steps_V(self, max_steps: int, epsilon: float) -> None:
        self._on_V(kernels.row_steps, max_steps, float(epsilon))

    def _on_U(self, kernel: object, *arguments: object) -> None:
        self.X.run(kernel, self.X.rows, self.U, self.V, self.penalty.rows, *arguments)  # type: ignore[arg-type]
        self.U_changed()

    def _on_V(self, kernel: object, *arguments: object) -> None:
        self.X.run(kernel, self.X.columns, self.V, self.U, self.penalty.columns, *arguments)  # type: ignore[arg-type]
        self.V_changed()
