"""The gradient D = F G - B of one factor, measured without storing it (F: r x n, G: r x r, B: r x n).

With F = Uᵀ, G = VᵀV and B = (X V)ᵀ this is the gradient of 1/2 ||X - U Vᵀ||² with respect to U.
The projected gradient is D where F > 0 and min(D, 0) where F = 0.
"""

from __future__ import annotations

import numpy as np

from enmf.kernels.compiler import SUMS_MAY_BE_REORDERED, compiled
from enmf.kernels.sweep import BLOCK

# columns of the table of partial results, after the r sums of squares
LARGEST_PRODUCT, SUM_PRODUCT, SMALLEST_GRADIENT = 0, 1, 2
EXTRAS = 3


@compiled(SUMS_MAY_BE_REORDERED)
def measure(start, stop, F, B, G, partial):  # type: ignore[no-untyped-def]
    """Fill partial[b] for each block b of BLOCK columns in start..stop (start is a multiple of BLOCK):
    r sums of squares of the projected gradient (one a component), then max(D*F), sum(D*F) and min(D)."""
    r = F.shape[0]
    work = np.zeros((r, BLOCK), F.dtype)
    line = np.zeros(BLOCK, F.dtype)
    for first in range(start, stop, BLOCK):
        width = min(BLOCK, stop - first)
        out = partial[first // BLOCK]
        out[r + LARGEST_PRODUCT] = -np.inf
        out[r + SUM_PRODUCT] = 0.0
        out[r + SMALLEST_GRADIENT] = np.inf
        for k in range(r):
            for c in range(width):
                work[k, c] = F[k, first + c]
            for c in range(width, BLOCK):
                work[k, c] = 0
        for k in range(r):
            for c in range(BLOCK):
                line[c] = 0
            for j in range(r):
                g = G[k, j]
                for c in range(BLOCK):
                    line[c] += g * work[j, c]
            total = 0.0
            for c in range(width):
                d = np.float64(line[c] - B[k, first + c])
                f = work[k, c]
                out[r + SMALLEST_GRADIENT] = min(out[r + SMALLEST_GRADIENT], d)
                product = d * f
                out[r + LARGEST_PRODUCT] = max(out[r + LARGEST_PRODUCT], product)
                out[r + SUM_PRODUCT] += product
                if f > 0 or d < 0:
                    total += d * d
            out[k] = total
