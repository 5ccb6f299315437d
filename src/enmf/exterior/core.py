"""The core: a few weighted rows of the SVD's factors that stand in for all of them.

X ~ A Bᵀ (n x l, m x l). Rotation, feasibility and the first descent have r x r and r x l unknown relations, which a
sample of the rows determines: rows I of A and J of B, drawn with probability p proportional to their squared norm and
divided by sqrt(count * p), so that sums of squares keep their expectation. Positive weights change no sign: a row is
nonnegative with or without its weight. The phases then cost nothing that grows with n or m, and several starts can be
tried. `lift` brings factors of the core back to all rows.
"""

from __future__ import annotations

import numpy as np

from enmf.iterate import Iterate
from enmf.matrix import LowRankMatrix
from enmf.matrix.base import draw
from enmf.matrix.rows import RowBlocks, by_rows
from enmf.parallel import matmul
from enmf.solvers.base import coordinate_sweeps

ROWS_PER_COLUMN = 60  # rows of a sample for each column of what it stands for
LIFT_SWEEPS = 5


def sample_rows(F: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """At most `count` weighted rows of F, or F itself where that has less than twice as many."""
    if isinstance(F, RowBlocks):
        return F.gather() if len(F) < 2 * count else F.fetch_sample(count, rng)
    if len(F) < 2 * count:
        return F
    squares = np.einsum("ij,ij->i", F, F, dtype=np.float64)
    index, weight = draw(squares, count, rng)
    return np.asfortranarray(F[index] * weight[:, None].astype(F.dtype))


def lift(it: Iterate, whole: LowRankMatrix) -> tuple[np.ndarray, np.ndarray]:
    """Factors of the whole low-rank matrix from factors of its core: U for the V of the core, then V for that U."""
    core = it.X
    assert isinstance(core, LowRankMatrix)
    if core.shape == whole.shape:
        return it.U, it.V
    across = LowRankMatrix(whole.A, core.B)
    U = _least_squares(matmul(it.V.T, it.V), across.times(it.V))
    V = _least_squares(matmul(U.T, U), whole.transpose_times(U))
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


def make_core(A: np.ndarray, B: np.ndarray, dtype: np.dtype, rng: np.random.Generator) -> LowRankMatrix:
    """The core of A Bᵀ."""
    count = ROWS_PER_COLUMN * A.shape[1]
    few_A, few_B = (np.asfortranarray(sample_rows(F, count, rng), dtype) for F in (A, B))
    return LowRankMatrix(few_A, few_B)
