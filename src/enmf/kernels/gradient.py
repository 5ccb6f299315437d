"""The gradient D = F G - B of one factor, measured without storing it (F: r x n, G: r x r, B: r x n).

With F = Uᵀ, G = VᵀV and B = (X V)ᵀ this is the gradient of 1/2 ||X - U Vᵀ||² with respect to U.
The projected gradient is D where F > 0 and min(D, 0) where F = 0.
"""

from __future__ import annotations

import numpy as np

from enmf.kernels.lanes import BLOCK, SUMS_MAY_BE_REORDERED, compiled, load

# columns of the table of partial results, after the r sums of squares
LARGEST_PRODUCT, SUM_PRODUCT, SMALLEST_GRADIENT = 0, 1, 2
EXTRAS = 3


@compiled(SUMS_MAY_BE_REORDERED)
def measure(start, stop, F, B, G, partial):  # type: ignore[no-untyped-def]
    """Fill partial[b] for each block b of BLOCK columns in start..stop (start is a multiple of BLOCK):
    r sums of squares of the projected gradient (one per component), then max(D*F), sum(D*F) and min(D)."""
    r = F.shape[0]
    zero = F.dtype.type(0)
    work = np.zeros((r, BLOCK), F.dtype)
    line = np.zeros(BLOCK, F.dtype)
    largest = np.zeros(BLOCK)  # one per column, so that the extremes of many columns are found at once
    smallest = np.zeros(BLOCK)
    for first in range(start, stop, BLOCK):
        width = min(BLOCK, stop - first)
        out = partial[first // BLOCK]
        largest[:] = -np.inf
        smallest[:] = np.inf
        along = 0.0
        load(F, first, width, BLOCK, work)
        for k in range(r):
            line[:] = zero
            for j in range(r):
                g, other = G[k, j], work[j]
                for c in range(BLOCK):
                    line[c] += g * other[c]
            squares = 0.0
            mine, right = work[k], B[k][first : first + width]
            for c in range(width):
                d = np.float64(line[c] - right[c])
                f = mine[c]
                product = d * f
                along += product
                smallest[c] = min(smallest[c], d)
                largest[c] = max(largest[c], product)
                projected = d if f > zero else min(d, 0.0)
                squares += projected * projected
            out[k] = squares
        out[r + LARGEST_PRODUCT] = largest.max()
        out[r + SUM_PRODUCT] = along
        out[r + SMALLEST_GRADIENT] = smallest.min()
