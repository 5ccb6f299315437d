"""Row-wise projected gradient steps for min 1/2 <F, F G> - <F, B> over nonnegative entries of F (paper, Algorithm 2).

For row i (a column of the r x n array F), with D = F G - B and g = D on the entries that may move, 0 elsewhere:
    d = ||g||² / (g G gᵀ)                     eq. 10 and 11; g G gᵀ is ||g Vᵀ||², without the n x m product
    F_ij <- max(0, F_ij - d g_j)              eq. 8 and 9, for the entries that may move
"""

from __future__ import annotations

import numpy as np

from enmf.kernels.lanes import BLOCK, SUMS_MAY_BE_REORDERED, compiled, load, store


@compiled(SUMS_MAY_BE_REORDERED)
def row_steps(start, stop, F, B, G, fixed_step, max_steps, epsilon, literal):  # type: ignore[no-untyped-def]
    """Up to `max_steps` steps for the columns start..stop of F (r x n), in place; negative entries stay unchanged.

    fixed_step > 0 replaces the optimal step size. A block ends when ||g|| is below epsilon times its first value.
    `literal` follows the paper: g covers all nonnegative entries. Otherwise an entry at 0 with a positive gradient is
    left out of g, so that it does not shorten the step of the others.
    """
    r = F.shape[0]
    work = np.zeros((r, BLOCK), F.dtype)
    g = np.zeros((r, BLOCK), F.dtype)
    line = np.zeros(BLOCK, F.dtype)
    squares = np.zeros(BLOCK, F.dtype)
    curvature = np.zeros(BLOCK, F.dtype)
    zero = F.dtype.type(0)
    for first in range(start, stop, BLOCK):
        width = min(BLOCK, stop - first)
        load(F, first, width, BLOCK, work)
        first_norm = 0.0
        for s in range(max_steps):
            for c in range(BLOCK):
                squares[c] = zero
                curvature[c] = zero
            for k in range(r):
                for c in range(BLOCK):
                    line[c] = zero
                for j in range(r):
                    w = G[k, j]
                    for c in range(BLOCK):
                        line[c] += w * work[j, c]
                right = B[k][first : first + width]
                for c in range(width):
                    d = line[c] - right[c]
                    f = work[k, c]
                    if f < zero or (f == zero and d > zero and not literal):
                        d = zero
                    g[k, c] = d
                    squares[c] += d * d
            norm = 0.0
            for c in range(width):
                norm += squares[c]
            if s == 0:
                first_norm = norm
            if norm <= epsilon * epsilon * first_norm:
                break
            if fixed_step > 0:
                for c in range(BLOCK):
                    line[c] = fixed_step
            else:
                for k in range(r):
                    for c in range(BLOCK):
                        line[c] = zero
                    for j in range(r):
                        w = G[k, j]
                        for c in range(BLOCK):
                            line[c] += w * g[j, c]
                    for c in range(BLOCK):
                        curvature[c] += line[c] * g[k, c]
                for c in range(BLOCK):
                    line[c] = squares[c] / curvature[c] if curvature[c] > zero else zero
            for k in range(r):
                for c in range(width):
                    if work[k, c] >= zero:
                        work[k, c] = max(work[k, c] - line[c] * g[k, c], zero)
        store(work, F, first, width)
