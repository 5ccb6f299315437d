"""Coordinate sweeps for min_F 1/2 <F, F G> - <F, B> with or without F >= 0; rows of F are independent.

With F = U, G = VᵀV and B = X V this is the U half of HALS (Cichocki and Phan 2009):
    u_k <- max(0, u_k + (b_k - sum_j G_kj u_j) / G_kk)        for k = 1..r
A soft wall delta replaces the projection when delta is finite:
    z = G_kk u_k + b_k - sum_j G_kj u_j ;   u_k <- z / G_kk if z >= 0 else z / (G_kk + delta)
"""

from __future__ import annotations

import numpy as np

from enmf.kernels.lanes import PANEL, REST, SUMS_MAY_BE_REORDERED, block_arrays, compiled, load, store


@compiled(SUMS_MAY_BE_REORDERED)
def sweep(start, stop, F, B, G, wall, max_sweeps, progress, skip):  # type: ignore[no-untyped-def]
    """Up to `max_sweeps` sweeps over the columns start..stop of F (r x n), in place.

    A block of columns stops early when a sweep changes it by less than `progress` times the first sweep.
    Components with skip[k] stay unchanged. So do those with G_kk = 0 (or too small for an inverse), which the data do
    not determine, except where a penalty (b < 0) sends them to zero.
    """
    work, right, line, H = block_arrays(G)
    most = work.shape[1]
    for first in range(start, stop, most):
        width = min(most, stop - first)
        lanes = -(-width // REST) * REST
        load(F, first, width, lanes, work)
        load(B, first, width, lanes, right)
        sweep_block(work, right, line, H, lanes, wall, max_sweeps, progress, skip)
        store(work, F, first, width)


@compiled(SUMS_MAY_BE_REORDERED)
def sweep_block(work, right, line, H, lanes, wall, max_sweeps, progress, skip):  # type: ignore[no-untyped-def]
    """The sweeps of one block of columns, the first `lanes` of `work`, in place; components are padded with zeros."""
    r = len(skip)
    height = len(work)
    zero = work.dtype.type(0)
    least = work.dtype.type(1e-37 if work.itemsize == 4 else 1e-300)
    hard = np.isinf(wall)
    first_change = 0.0
    for s in range(max_sweeps):
        change = 0.0
        for panel in range(0, height, PANEL):
            for p in range(PANEL):
                for c in range(lanes):
                    line[p, c] = right[panel + p, c]
            # the contribution of the components outside the panel, four by four
            l0, l1, l2, l3 = line[0], line[1], line[2], line[3]
            for j in range(0, height, PANEL):
                if j == panel:
                    continue
                a0, a1, a2, a3 = H[panel, j], H[panel, j + 1], H[panel, j + 2], H[panel, j + 3]
                b0, b1, b2, b3 = H[panel + 1, j], H[panel + 1, j + 1], H[panel + 1, j + 2], H[panel + 1, j + 3]
                c0, c1, c2, c3 = H[panel + 2, j], H[panel + 2, j + 1], H[panel + 2, j + 2], H[panel + 2, j + 3]
                d0, d1, d2, d3 = H[panel + 3, j], H[panel + 3, j + 1], H[panel + 3, j + 2], H[panel + 3, j + 3]
                w0, w1, w2, w3 = work[j], work[j + 1], work[j + 2], work[j + 3]
                for c in range(lanes):
                    x0, x1, x2, x3 = w0[c], w1[c], w2[c], w3[c]
                    l0[c] -= a0 * x0 + a1 * x1 + a2 * x2 + a3 * x3
                    l1[c] -= b0 * x0 + b1 * x1 + b2 * x2 + b3 * x3
                    l2[c] -= c0 * x0 + c1 * x1 + c2 * x2 + c3 * x3
                    l3[c] -= d0 * x0 + d1 * x1 + d2 * x2 + d3 * x3
            for p in range(PANEL):
                k = panel + p
                if k >= r or skip[k]:
                    continue
                g = H[k, k]
                if g <= least:
                    for c in range(lanes):
                        if right[k, c] < zero:
                            work[k, c] = zero
                    continue
                for j in range(panel, panel + PANEL):
                    if j != k:
                        h = H[k, j]
                        for c in range(lanes):
                            line[p, c] -= h * work[j, c]
                up = work.dtype.type(1) / g
                moved = zero
                if hard:
                    for c in range(lanes):
                        new = max(line[p, c] * up, zero)
                        step = new - work[k, c]
                        moved += step * step
                        work[k, c] = new
                else:
                    down = work.dtype.type(1.0 / (g + wall))
                    for c in range(lanes):
                        new = line[p, c] * (up if line[p, c] >= zero else down)
                        step = new - work[k, c]
                        moved += step * step
                        work[k, c] = new
                change += moved
        if s == 0:
            first_change = change
        if change <= progress * progress * first_change:
            break


@compiled(SUMS_MAY_BE_REORDERED)
def extrapolate_line(now, before, beta):  # type: ignore[no-untyped-def]
    """now <- max(0, now + beta (now - before)), and `before` <- now, for the first len(before) entries."""
    zero = now.dtype.type(0)
    for i in range(len(before)):
        new = now[i]
        now[i] = max(new + beta * (new - before[i]), zero)
        before[i] = new


@compiled(SUMS_MAY_BE_REORDERED)
def extrapolate_columns(start, stop, F, old, beta):  # type: ignore[no-untyped-def]
    """F <- max(0, F + beta (F - old)), and `old` <- F, for the columns start..stop of F (r x n)."""
    for k in range(len(F)):
        extrapolate_line(F[k][start:stop], old[k][start:stop], beta)
