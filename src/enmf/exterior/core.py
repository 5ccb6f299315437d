"""The core: a few weighted rows of the SVD's factors that stand in for all of them.

X ~ A Bᵀ (n x l, m x l). Rotation, feasibility and the first descent have r x r and r x l unknown relations, which a
sample of the rows determines: rows I of A and J of B, drawn with probability p proportional to their squared norm and
divided by sqrt(count * p), so that sums of squares keep their expectation. Positive weights change no sign: a row is
nonnegative with or without its weight. The phases then cost nothing that grows with n or m, and several starts can be
tried. `lift` brings factors of the core back to all rows of X.
"""

from __future__ import annotations

import numpy as np

from enmf import parallel
from enmf.distributed.rows import RowBlocks, by_rows, inner
from enmf.kernels.core import core_step
from enmf.kernels.sweep import LANE_BYTES, padded
from enmf.matrix.base import Matrix, Momentum, draw
from enmf.matrix.dense import PARTS
from enmf.matrix.lowrank import LowRankMatrix
from enmf.parallel import matmul
from enmf.problem.state import Iterate
from enmf.run.method import coordinate_sweeps

ROWS_PER_COLUMN = 120  # rows of a sample for each column of what it stands for
LIFT_SWEEPS = 5
LARGE_RANK = 128  # above it products and sweeps are long enough for calls of their own


def sample_rows(F: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """At most `count` weighted rows of F, or F itself where that has less than twice as many."""
    if isinstance(F, RowBlocks):
        return F.gather() if len(F) < 2 * count else F.fetch_sample(count, rng)
    if len(F) < 2 * count:
        return F
    squares = np.einsum("ij,ij->i", F, F, dtype=np.float64)
    index, weight = draw(squares, count, rng)
    return np.asfortranarray(F[index] * weight[:, None].astype(F.dtype))


def lift(it: Iterate, B: np.ndarray, X: Matrix) -> tuple[np.ndarray, np.ndarray]:
    """Factors of X from factors of the core of A Bᵀ: V for the U of the core, then U and V for X itself, two passes.

    Where the core has all rows its factors are those of X already.
    """
    core = it.X
    assert isinstance(core, LowRankMatrix)
    if core.shape == X.shape:
        return it.U, it.V
    V = _least_squares(matmul(it.U.T, it.U), LowRankMatrix(core.A, B).transpose_times(it.U)).astype(X.dtype)
    U = _least_squares(matmul(V.T, V), X.times(V))
    V = _least_squares(matmul(U.T, U), X.transpose_times(U))
    return U, V


@by_rows
def _least_squares(G: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A nearly optimal F >= 0 for 1/2 <F, F G> - <F, B>: the clipped solution, then some sweeps."""
    r = len(G)
    ridge = 1e-6 * float(np.trace(G)) / r
    if ridge == 0.0:
        return np.zeros_like(B)
    inverse = np.linalg.inv(G.astype(np.float64) + ridge * np.eye(r)).astype(B.dtype)  # of few digits: swept below
    F = matmul(np.asfortranarray(B), inverse)
    np.maximum(F, 0, out=F)
    coordinate_sweeps(F, G, B, max_sweeps=LIFT_SWEEPS)
    return F


class CoreIterate(Iterate):
    """Factors of a core A Bᵀ, which is seen through Aᵀ U and Bᵀ V (l x r): X V = A (Bᵀ V).

    A block of rows of A gives its part of X V, its rows of U are swept, and its part of Aᵀ U is added while all of them
    are in the cache (`enmf.kernels.core`); B and V alike. No array of the size of U but U itself is made.
    """

    X: LowRankMatrix

    def U_changed(self) -> None:
        super().U_changed()
        self._AtU: np.ndarray | None = None

    def V_changed(self) -> None:
        super().V_changed()
        self._BtV: np.ndarray | None = None

    @property
    def AtU(self) -> np.ndarray:
        if self._AtU is None:
            self._AtU = matmul(self.X.A.T, self.U)
        return self._AtU

    @property
    def BtV(self) -> np.ndarray:
        if self._BtV is None:
            self._BtV = matmul(self.X.B.T, self.V)
        return self._BtV

    def sweep_U_with_products(
        self, max_sweeps: int, progress: float, momentum: Momentum | None, wall: float = np.inf
    ) -> bool:
        if self.rank > LARGE_RANK:
            return False
        products = _swept(self.X.A, self.U, self.BtV, self.VtV, wall, max_sweeps, progress, momentum)
        self.U_changed()
        self._AtU, self._UtU = products
        return True

    def sweep_V_with_products(
        self, max_sweeps: int, progress: float, momentum: Momentum | None, wall: float = np.inf
    ) -> bool:
        if self.rank > LARGE_RANK:
            return False
        products = _swept(self.X.B, self.V, self.AtU, self.UtU, wall, max_sweeps, progress, momentum)
        self.V_changed()
        self._BtV, self._VtV = products
        return True

    def squared_error(self) -> float:
        value = self.X.squared_norm() - 2.0 * inner(self.AtU, self.BtV) + inner(self.UtU, self.VtV)
        return value if self.keeps_digits(value) else self.X.squared_residual(self.U, self.V)


def _swept(
    A: np.ndarray,
    U: np.ndarray,
    M: np.ndarray,
    G: np.ndarray,
    wall: float,
    max_sweeps: int,
    progress: float,
    momentum: Momentum | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Coordinate sweeps of U (in place) for U G - A M, extrapolation, then Aᵀ U and Uᵀ U."""
    (n, width), r, dtype = A.shape, U.shape[1], A.dtype
    rows, columns, lanes = padded(r), padded(width), LANE_BYTES // A.itemsize
    Mt = np.zeros((rows, columns), dtype)
    Mt[:r, :width] = M.T
    height = -(-n // (PARTS * lanes)) * lanes
    parts = -(-n // height)
    AtU, UtU = np.empty((parts, rows, columns), dtype), np.empty((parts, rows, rows), dtype)
    old, beta = momentum or (np.empty((0, 0), dtype, order="F"), 0.0)
    options = (float(wall), max_sweeps, float(progress), old.T, dtype.type(beta))
    bounds = parallel.even_bounds(parts, (4.0 * width + 2.0 * r * (max_sweeps + 1)) * r * n / parts)
    parallel.run(core_step, bounds, A.T, height, U.T, Mt, np.ascontiguousarray(G), *options, AtU, UtU)
    return AtU.sum(axis=0)[:r, :width].T, UtU.sum(axis=0)[:r, :r]


def make_core(A: np.ndarray, B: np.ndarray, dtype: np.dtype, rng: np.random.Generator) -> LowRankMatrix:
    """The core of A Bᵀ."""
    count = ROWS_PER_COLUMN * A.shape[1]
    few_A, few_B = (np.asfortranarray(sample_rows(F, count, rng), dtype) for F in (A, B))
    return LowRankMatrix(few_A, few_B)
