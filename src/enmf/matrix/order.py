"""The order of the numbers of an array in memory."""

from __future__ import annotations

import numpy as np

from enmf import parallel
from enmf.kernels import dense as kernels

MOVED = 20.0  # flops that take as long as moving a number to another order


def rowwise(A: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A in C order: the numbers of a row side by side."""
    if A.dtype != dtype or A.flags.c_contiguous or not A.flags.f_contiguous:
        return np.ascontiguousarray(A, dtype)
    out = np.empty(A.shape, dtype)
    parallel.run(kernels.transpose, parallel.even_bounds(len(A), MOVED * A.shape[1]), A.T, out)
    return out
