"""One factor to optimality for the other one fixed: min ||X - U Vᵀ|| over U >= 0."""

from __future__ import annotations

import numpy as np

from enmf import parallel
from enmf.kernels import nnls as kernel
from enmf.matrix.base import row_blocks
from enmf.matrix.factor import by_rows
from enmf.matrix.sweeps import Sweep, coordinate_sweeps

SWEEPS = 20  # coordinate sweeps that find the support
AT_ONCE = 1 << 22  # numbers of F that are solved for in double precision at a time


@by_rows
def solve_nnls(G: np.ndarray, B: np.ndarray) -> np.ndarray:
    """argmin over F >= 0 of 1/2 <F, F G> - <F, B>, row by row (F, B: n x r; G: r x r), exact to rounding.

    The answer depends on G and B alone, not on a start, so that `transform` gives what `fit_transform` gave.
    """
    G64 = np.ascontiguousarray(G, dtype=np.float64)
    out = np.empty(B.shape, B.dtype, order="F")
    for rows in row_blocks(len(B), B.shape[1], AT_ONCE):
        out[rows] = _solve(G64, np.asfortranarray(B[rows], dtype=np.float64))
    return out


def _solve(G: np.ndarray, B: np.ndarray) -> np.ndarray:
    F = np.zeros(B.shape, order="F")
    coordinate_sweeps(F, G, B, Sweep(SWEEPS, 1e-4))
    parallel.run(kernel.nnls, parallel.even_bounds(len(B), len(G) ** 3 / 3.0), G, B.T, F.T)
    return F
