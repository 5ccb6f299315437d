"""A pair of factors together with the products of X that belong to it.

A product is computed when it is first asked for and kept until its factor changes. So the product that a step needs
next also serves the error and the KKT residual of the step before: measuring costs no pass over X.
"""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass

import numpy as np

from enmf import parallel
from enmf.distributed.rows import RowBlocks, by_rows, inner
from enmf.kernels import gradient
from enmf.kernels.sweep import BLOCK
from enmf.matrix.base import Matrix, Momentum
from enmf.matrix.dense import DenseMatrix

__all__ = ["GradientMeasure", "Iterate", "Penalty", "inner", "measure_gradient", "penalized"]


APART = 1e12  # squared ratio of the norms of two columns of a component from which they are balanced


@dataclass(frozen=True)
class Penalty:
    """l1 sum(F) + l2/2 ||F||² for each factor, added to 1/2 ||X - U Vᵀ||²."""

    l1_U: float = 0.0
    l2_U: float = 0.0
    l1_V: float = 0.0
    l2_V: float = 0.0

    def __bool__(self) -> bool:
        return any((self.l1_U, self.l2_U, self.l1_V, self.l2_V))


@dataclass(frozen=True)
class GradientMeasure:
    """Sizes of the gradient D of one factor F."""

    squares: np.ndarray  # r: sum of squares of the projected gradient, one a component
    largest_product: float  # max(D * F)
    sum_product: float  # sum(D * F)
    smallest: float  # min(D)


class Iterate:
    """Factors U (n x r) and V (m x r), in Fortran order, of the matrix X."""

    def __init__(self, X: Matrix, U: np.ndarray, V: np.ndarray, penalty: Penalty | None = None) -> None:
        self.X = X
        self.penalty = penalty or Penalty()
        self.U = X.own(U)
        self.V = np.asfortranarray(V, dtype=X.dtype)
        self.U_changed()
        self.V_changed()

    @property
    def rank(self) -> int:
        return self.U.shape[1]

    def rounding(self, squared_error: float) -> float:
        """Differences from this squared error up to this size are rounding (see `squared_error`)."""
        whole = self.X.squared_norm()
        scale = whole if squared_error > _safe_share(self.X.dtype) * whole else squared_error
        return float(np.finfo(self.X.dtype).eps) * scale

    def set_U(self, U: np.ndarray) -> None:
        self.U = U
        self.U_changed()

    def set_V(self, V: np.ndarray) -> None:
        self.V = V
        self.V_changed()

    def U_changed(self) -> None:
        self._XtU: np.ndarray | None = None
        self._UtU: np.ndarray | None = None

    def V_changed(self) -> None:
        self._XV: np.ndarray | None = None
        self._VtV: np.ndarray | None = None

    @property
    def XV(self) -> np.ndarray:  # n x r
        if self._XV is None:
            self._XV = self.X.times(self.V)
        return self._XV

    def prepare(self, kkt: bool) -> None:
        """Make X V, which the next step needs, so that measuring costs nothing. Rows that live elsewhere: one message
        brings what the error and, with `kkt`, the KKT residual need of them, <X V, U> and the gradient of U."""
        XV, U = self.XV, self.U
        if not isinstance(XV, RowBlocks):
            return
        if not kkt:
            XV.inner(U)
            return
        found = U.home.collect(_meet_part, XV, U, self.VtV)
        who = weakref.ref(U.value)
        XV.value.inner = who, sum(cross for cross, _ in found)
        XV.value.gradient = who, self.VtV, _together([measure for _, measure in found])

    @property
    def XtU(self) -> np.ndarray:  # m x r
        if self._XtU is None:
            self._XtU = self.X.transpose_times(self.U)
        return self._XtU

    @property
    def UtU(self) -> np.ndarray:  # r x r
        if self._UtU is None:
            self._UtU = parallel.matmul(self.U.T, self.U)
        return self._UtU

    @property
    def VtV(self) -> np.ndarray:  # r x r
        if self._VtV is None:
            self._VtV = parallel.matmul(self.V.T, self.V)
        return self._VtV

    @property
    def one_pass(self) -> bool:
        """Whether U can be swept in the pass that makes X V, and Xᵀ U in the same."""
        return self._XV is None and self.X.allows_one_pass

    def sweep_U_with_products(
        self, max_sweeps: int, progress: float, momentum: Momentum | None, wall: float = np.inf
    ) -> bool:
        """Sweeps of U, in place, together with the products that belong to the new U, in one pass; False: not here."""
        if not (self.one_pass and isinstance(self.X, DenseMatrix) and wall == np.inf):
            return False
        G = _ridged(self.VtV, self.penalty.l2_U)
        products = self.X.half_step(self.U, self.V, G, self.penalty.l1_U, max_sweeps, progress, momentum)
        self.U_changed()
        self._XtU, self._UtU = products
        return True

    def sweep_V_with_products(
        self, max_sweeps: int, progress: float, momentum: Momentum | None, wall: float = np.inf
    ) -> bool:
        """The same for V."""
        return False

    def arrange(self, order: np.ndarray, scale: np.ndarray) -> None:
        """Columns in this order, U times `scale` and V over it, products at hand included."""
        up, down = (np.asarray(f, self.U.dtype)[order] for f in (scale, 1.0 / scale))
        pick = np.ix_(order, order)
        XV, XtU, UtU, VtV = self._XV, self._XtU, self._UtU, self._VtV
        self.set_U(_arranged(self.U, order, up))
        self.set_V(_arranged(self.V, order, down))
        self._XV = None if XV is None else _arranged(XV, order, down)
        self._XtU = None if XtU is None else _arranged(XtU, order, up)
        self._UtU = None if UtU is None else UtU[pick] * np.outer(up, up)
        self._VtV = None if VtV is None else VtV[pick] * np.outer(down, down)

    def even_out(self) -> bool:
        """Balance components whose columns have grown far apart, by exact powers of two; whether there were any.

        The columns of a superfluous component can do so by a factor of 10⁸ a step, to the end of the number range. A
        penalty fixes their scale itself.
        """
        u, v = self.UtU.diagonal(), self.VtV.diagonal()
        if self.penalty or ((u <= APART * v).all() and (v <= APART * u).all()):  # as a rule: a few microseconds
            return False
        u, v = u.astype(np.float64), v.astype(np.float64)
        apart = (u > 0) & (v > 0) & ((u > APART * v) | (v > APART * u))
        if not apart.any():
            return False
        exponent = np.zeros(len(u))
        exponent[apart] = np.round((np.log2(v[apart]) - np.log2(u[apart])) / 4.0)
        self.arrange(np.arange(self.rank), 2.0**exponent)
        return True

    def fit_scale(self) -> None:
        """U Vᵀ times the factor that brings it nearest to X, shared evenly; 0 where it points away from X."""
        along = float(self.inner_with_X().sum())
        size = self.squared_error() - self.X.squared_norm() + 2.0 * along  # ||U Vᵀ||², over the observed entries
        root = np.full(self.rank, math.sqrt(max(along / size, 0.0)), self.U.dtype)
        self.set_U(_arranged(self.U, np.arange(self.rank), root))
        self.set_V(_arranged(self.V, np.arange(self.rank), root))

    def normal_U(self) -> tuple[np.ndarray, np.ndarray]:
        """G (r x r) and B (n x r) such that the gradient with respect to U is U G - B, penalty included."""
        return penalized(self.VtV, self.XV, self.penalty.l1_U, self.penalty.l2_U)

    def normal_V(self) -> tuple[np.ndarray, np.ndarray]:
        """G (r x r) and B (m x r) such that the gradient with respect to V is V G - B, penalty included."""
        XtU = self.XtU  # first: with blocks it brings Uᵀ U along
        return penalized(self.UtU, XtU, self.penalty.l1_V, self.penalty.l2_V)

    def squared_error(self) -> float:
        """||X - U Vᵀ||². From the products at hand when that keeps enough digits, else from the residual."""
        whole = self.X.squared_norm()
        at_hand = (self.XtU, self.V) if self._XV is None and self._XtU is not None else (self.XV, self.U)
        cross = inner(*at_hand)
        value = whole - 2.0 * cross + inner(self.UtU, self.VtV)
        return value if self.keeps_digits(value) else self.X.squared_residual(self.U, self.V)

    def keeps_digits(self, squared_error: float) -> bool:
        """Whether a squared error that is a difference of sums of this size has enough of them."""
        return squared_error >= _safe_share(self.X.dtype) * self.X.squared_norm()

    def inner_with_X(self) -> np.ndarray:
        """<X, u_j v_jᵀ> of every component."""
        XV, U = self.XV, self.U
        return U.home.total(_along, XV, U) if isinstance(U, RowBlocks) else _along(None, XV, U)

    def squared_penalty(self) -> float:
        """Twice the penalty, so that squared_error() + squared_penalty() is twice the objective."""
        p = self.penalty
        if not p:
            return 0.0
        linear = p.l1_U * float(self.U.sum(dtype=np.float64)) + p.l1_V * float(self.V.sum(dtype=np.float64))
        return 2.0 * linear + p.l2_U * float(np.trace(self.UtU)) + p.l2_V * float(np.trace(self.VtV))

    def measure_U(self) -> GradientMeasure:
        return measure_gradient(self.U, *self.normal_U())

    def measure_V(self) -> GradientMeasure:
        return measure_gradient(self.V, *self.normal_V())

    def measuring_flops(self) -> float:
        """Rough cost of a KKT residual when the products are at hand."""
        return 2.0 * (self.X.shape[0] + self.X.shape[1]) * self.rank**2


def penalized(G: np.ndarray, B: np.ndarray, l1: float, l2: float) -> tuple[np.ndarray, np.ndarray]:
    """Normal equations with the penalty l1 sum(F) + l2/2 ||F||² of the factor F."""
    return _ridged(G, l2), B - np.asarray(l1, B.dtype) if l1 else B


def _ridged(G: np.ndarray, l2: float) -> np.ndarray:
    return G + np.asarray(l2, G.dtype) * np.eye(len(G), dtype=G.dtype) if l2 else G


@by_rows
def _arranged(F: np.ndarray, order: np.ndarray, factor: np.ndarray) -> np.ndarray:
    out = F.T[order].T  # in Fortran order, and the only copy
    out *= factor
    return out


def _along(_: object, XV: np.ndarray, U: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->j", XV, U, dtype=np.float64)


def _safe_share(dtype: np.dtype) -> float:
    """Share of ||X||² below which ||X||² - 2<XV,U> + <UᵀU,VᵀV> has lost too many digits."""
    return 1e-11 if dtype == np.float64 else 1e-5


def measure_gradient(F: np.ndarray, G: np.ndarray, B: np.ndarray) -> GradientMeasure:
    """Measure F G - B for a factor F (n x r, Fortran order)."""
    if isinstance(F, RowBlocks):
        known = B.value.gradient
        if known is not None and known[0]() is F.value and known[1] is G:
            return known[2]
        return _together(F.home.collect(_measure_part, F, G, B))
    n, r = F.shape
    partial = np.empty((-(-n // BLOCK), r + gradient.EXTRAS))
    bounds = parallel.even_bounds(n, 2.0 * r * r, BLOCK)
    parallel.run(gradient.measure, bounds, F.T, B.T, np.ascontiguousarray(G), partial)
    extras = partial[:, r:]
    return GradientMeasure(
        squares=partial[:, :r].sum(axis=0),
        largest_product=float(extras[:, gradient.LARGEST_PRODUCT].max()),
        sum_product=float(extras[:, gradient.SUM_PRODUCT].sum()),
        smallest=float(extras[:, gradient.SMALLEST_GRADIENT].min()),
    )


def _meet_part(_: object, XV: np.ndarray, U: np.ndarray, VtV: np.ndarray) -> tuple[float, GradientMeasure]:
    return inner(XV, U), measure_gradient(U, VtV, XV)


def _together(parts: list[GradientMeasure]) -> GradientMeasure:
    return GradientMeasure(
        squares=np.sum([part.squares for part in parts], axis=0),
        largest_product=max(part.largest_product for part in parts),
        sum_product=sum(part.sum_product for part in parts),
        smallest=min(part.smallest for part in parts),
    )


def _measure_part(_: object, F: np.ndarray, G: np.ndarray, B: np.ndarray) -> GradientMeasure:
    return measure_gradient(F, G, B)
