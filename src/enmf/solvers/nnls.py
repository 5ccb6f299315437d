"""One factor to optimality for the other one fixed: min ||X - U Vᵀ|| over U >= 0."""

from __future__ import annotations

import numpy as np

from enmf import parallel
from enmf.kernels import nnls as kernel
from enmf.matrix.rows import by_rows
from enmf.solvers.base import coordinate_sweeps

SWEEPS = 20  # coordinate sweeps that find the support


@by_rows
def solve_nnls(G: np.ndarray, B: np.ndarray) -> np.ndarray:
    """argmin over F >= 0 of 1/2 <F, F G> - <F, B>, row by row (F, B: n x r; G: r x r), exact to rounding.

    The answer depends on G and B alone, not on a start, so that `transform` gives what `fit_transform` gave.
    """
    n, r = B.shape
    G64 = np.ascontiguousarray(G, dtype=np.float64)
    B64 = np.asfortranarray(B, dtype=np.float64)
    F = np.zeros((n, r), order="F")
    coordinate_sweeps(F, G64, B64, max_sweeps=SWEEPS, progress=1e-4)
    parallel.run(kernel.nnls, parallel.even_bounds(n, r**3 / 3.0), G64, B64.T, F.T)
    return F.astype(B.dtype, copy=False)
