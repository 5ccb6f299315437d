"""Coordinate sweeps for min_F 1/2 <F, F G> - <F, B> with or without F >= 0, one row of F after the other.

With F = U, G = VᵀV and B = X V this is the U half of HALS (Cichocki and Phan 2009):
    u_k <- max(0, u_k + (b_k - sum_j G_kj u_j) / G_kk)        for k = 1..r
A soft wall delta replaces the projection when delta is finite:
    z = G_kk u_k + b_k - sum_j G_kj u_j ;   u_k <- z / G_kk if z >= 0 else z / (G_kk + delta)
"""

from __future__ import annotations

import numpy as np

from enmf.kernels.compiler import SUMS_MAY_BE_REORDERED, compiled

BLOCK = 64  # columns handled together: r x 64 numbers stay in the cache, 64 lanes vectorise


@compiled(SUMS_MAY_BE_REORDERED)
def sweep(start, stop, F, B, G, wall, max_sweeps, progress, skip):  # type: ignore[no-untyped-def]
    """Up to `max_sweeps` sweeps over the columns start..stop of F (r x n), in place.

    A block of columns stops early when a sweep changed it by less than `progress` times the first sweep.
    Components with skip[k] stay as they are. So do those with G_kk = 0, about which nothing can be said, except where a
    penalty (b < 0) sends them to zero.
    """
    r = F.shape[0]
    work = np.zeros((r, BLOCK), F.dtype)
    right = np.zeros((r, BLOCK), F.dtype)
    line = np.zeros(BLOCK, F.dtype)
    zero = F.dtype.type(0)
    hard = np.isinf(wall)
    for first in range(start, stop, BLOCK):
        width = min(BLOCK, stop - first)
        for k in range(r):
            for c in range(width):
                work[k, c] = F[k, first + c]
                right[k, c] = B[k, first + c]
            for c in range(width, BLOCK):
                work[k, c] = zero
                right[k, c] = zero
        first_change = 0.0
        for s in range(max_sweeps):
            change = 0.0
            for k in range(r):
                g = G[k, k]
                if skip[k]:
                    continue
                if g <= zero:
                    for c in range(BLOCK):
                        if right[k, c] < zero:
                            work[k, c] = zero
                    continue
                for c in range(BLOCK):
                    line[c] = right[k, c] + g * work[k, c]
                j = 0
                while j + 4 <= r:
                    g0 = G[k, j]
                    g1 = G[k, j + 1]
                    g2 = G[k, j + 2]
                    g3 = G[k, j + 3]
                    for c in range(BLOCK):
                        line[c] -= g0 * work[j, c] + g1 * work[j + 1, c] + g2 * work[j + 2, c] + g3 * work[j + 3, c]
                    j += 4
                while j < r:
                    g0 = G[k, j]
                    for c in range(BLOCK):
                        line[c] -= g0 * work[j, c]
                    j += 1
                up = F.dtype.type(1) / g
                moved = zero
                if hard:
                    for c in range(BLOCK):
                        new = max(line[c] * up, zero)
                        step = new - work[k, c]
                        moved += step * step
                        work[k, c] = new
                else:
                    down = F.dtype.type(1.0 / (g + wall))
                    for c in range(BLOCK):
                        new = line[c] * (up if line[c] >= zero else down)
                        step = new - work[k, c]
                        moved += step * step
                        work[k, c] = new
                change += moved
            if s == 0:
                first_change = change
            if change <= progress * progress * first_change:
                break
        for k in range(r):
            for c in range(width):
                F[k, first + c] = work[k, c]
