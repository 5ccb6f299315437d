"""The core: a few weighted rows of the SVD's factors that stand in for all of them.

X ~ A Bᵀ (n x l, m x l). Rotation, feasibility and the first descent have r x r and r x l unknowns, which a sample of
the rows determines: rows I of A and J of B, drawn with probability p proportional to their squared norm and divided by
sqrt(count * p), so that sums of squares keep their expectation. Positive weights change no sign: a row is nonnegative
with or without its weight. The cost of the phases then does not grow with n or m, and several starts can be tried.
`lift` brings factors of the core back to all rows of X.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from enmf.exterior.plan import MEASURED, Policy
from enmf.matrix.base import Matrix, sample
from enmf.matrix.factor import by_rows
from enmf.matrix.lowrank import LowRankMatrix
from enmf.matrix.sweeps import Sweep, coordinate_sweeps
from enmf.parallel import matmul
from enmf.problem.state import State


def make_core(
    whole: LowRankMatrix, dtype: np.dtype, rng: np.random.Generator, policy: Policy = MEASURED
) -> LowRankMatrix:
    """The core of A Bᵀ, with `rows` rows per column."""
    count = policy.core_rows * whole.A.shape[1]
    few_A, few_B = (np.asfortranarray(sample(F, count, rng), dtype) for F in (whole.A, whole.B))
    return LowRankMatrix(few_A, few_B)


def lift(state: State, core: LowRankMatrix, B: np.ndarray, X: Matrix, policy: Policy = MEASURED) -> tuple[Any, Any]:
    """Factors of X from factors of the core of A Bᵀ: V for the U of the core, then U and V for X itself, two passes.

    If the core has all rows, its factors are already those of X.
    """
    if core.shape == X.shape:
        return state.U, state.V
    how = policy.lift_sweeps, policy.lift_ridge
    across = LowRankMatrix(core.A, B).transpose_times(state.U)
    V = _least_squares(matmul(state.U.T, state.U), across, *how).astype(X.dtype)
    U = _least_squares(matmul(V.T, V), X.times(V), *how)
    XtU, gram = X.product(1, U)
    return U, _least_squares(matmul(U.T, U) if gram is None else gram, XtU, *how)


@by_rows
def _least_squares(G: np.ndarray, B: np.ndarray, sweeps: int, share: float) -> np.ndarray:
    """A nearly optimal F >= 0 for 1/2 <F, F G> - <F, B>: the clipped solution, then some sweeps."""
    r = len(G)
    ridge = share * float(np.trace(G)) / r
    if ridge == 0.0:
        return np.zeros_like(B)
    inverse = np.linalg.inv(G.astype(np.float64) + ridge * np.eye(r)).astype(B.dtype)  # few digits: sweeps follow
    F = matmul(np.asfortranarray(B), inverse)
    np.maximum(F, 0, out=F)
    coordinate_sweeps(F, G.astype(B.dtype, copy=False), B, Sweep(sweeps))  # the core may be in single precision
    return F
