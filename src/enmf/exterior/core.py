"""The core: the SVD's factors, or a few weighted rows that stand in for all of them.

X ~ A Bᵀ (n x l, m x l). Products with A Bᵀ take no pass over X. Where they are still dear (a tall and narrow X, or a
very sparse one), a sample of the rows has to do, since rotation, feasibility and the first descent have r x r and r x l
unknowns: rows I of A and J of B, drawn with probability p proportional to their squared norm and divided by
sqrt(count * p), so that sums of squares keep their expectation. Positive weights change no sign: a row is nonnegative
with or without its weight. The cost of the phases then does not grow with n or m, and several starts can be tried.
`lift` brings factors of the core back to all rows of X.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from enmf.matrix.base import Matrix, sample
from enmf.matrix.factor import by_rows, gather
from enmf.matrix.lowrank import LowRankMatrix
from enmf.matrix.sweeps import Sweep, coordinate_sweeps
from enmf.parallel import matmul
from enmf.problem.state import State

if TYPE_CHECKING:
    from enmf.exterior.plan import Policy

SWEEPS = 5  # from the clipped least-squares solution of all rows
RIDGE = 1e-6  # of the mean Gram diagonal: gives a singular Gram matrix an inverse of few digits
LARGEST = 1 << 24  # numbers of a factor that is brought together: 128 MB


def make_core(
    whole: LowRankMatrix, dtype: np.dtype, affordable: float, rng: np.random.Generator, policy: Policy
) -> LowRankMatrix:
    """A Bᵀ itself if a product with it costs at most `affordable`, else a core with `core_rows` rows per column."""
    if whole.cost_per_column <= affordable and fit_here(whole.A, whole.B):
        return LowRankMatrix(*(np.asfortranarray(gather(F), dtype) for F in (whole.A, whole.B)))
    count = policy.core_rows * whole.A.shape[1]
    few_A, few_B = (np.asfortranarray(sample(F, count, rng), dtype) for F in (whole.A, whole.B))
    return LowRankMatrix(few_A, few_B)


def fit_here(*factors: Any) -> bool:
    """Whether factors are so small that all their rows can be brought together, wherever they live."""
    return all(math.prod(F.shape) <= LARGEST for F in factors)


def lift(state: State, core: LowRankMatrix, B: np.ndarray, X: Matrix) -> tuple[Any, Any]:
    """Factors of X from factors of the core of A Bᵀ: V for the U of the core, then U and V for X itself, two passes."""
    if core.shape == X.shape:
        return lift_rows(state.V, X)
    across = LowRankMatrix(core.A, B).transpose_times(state.U)
    return lift_rows(_least_squares(matmul(state.U.T, state.U), across), X)


def lift_rows(V: np.ndarray, X: Matrix) -> tuple[Any, Any]:
    """Factors of X from a V that was found without all of its rows: U and V for X itself, two passes."""
    V = np.asfortranarray(V, X.dtype)
    U = _least_squares(matmul(V.T, V), X.times(V))
    XtU, gram = X.product(1, U)
    return U, _least_squares(matmul(U.T, U) if gram is None else gram, XtU)


@by_rows
def _least_squares(G: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A nearly optimal F >= 0 for 1/2 <F, F G> - <F, B>: the clipped solution, then some sweeps."""
    r = len(G)
    ridge = RIDGE * float(np.trace(G)) / r
    if ridge == 0.0:
        return np.zeros_like(B)
    inverse = np.linalg.inv(G.astype(np.float64) + ridge * np.eye(r)).astype(B.dtype)  # few digits: sweeps follow
    F = matmul(np.asfortranarray(B), inverse)
    np.maximum(F, 0, out=F)
    coordinate_sweeps(F, G.astype(B.dtype, copy=False), B, Sweep(SWEEPS))  # the core may be in single precision
    return F
