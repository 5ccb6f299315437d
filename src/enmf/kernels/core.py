"""A half-step of HALS (the update of one factor) on a low-rank matrix A Bᵀ (A: n x l) in one run over the rows.

For a block of rows, as lanes:  P = A_b M  with  M = Bᵀ V (l x r),  sweeps of U_b for U_b VᵀV - P, and then its part of
Aᵀ U and Uᵀ U. All operands are in lanes of 1 KB, as in a sweep, so that products with few columns, which are too short
for a call of BLAS, still run at its speed.
"""

from __future__ import annotations

import numpy as np

from enmf.kernels.lanes import REST, SUMS_MAY_BE_REORDERED, block_arrays, compiled, load, store
from enmf.kernels.sweep import extrapolate_line, sweep_block


@compiled(SUMS_MAY_BE_REORDERED)
def core_step(  # type: ignore[no-untyped-def]
    start, stop, A, height, F, M, G, wall, max_sweeps, progress, old, beta, AtU, UtU
):
    """Sweep F = Uᵀ (r x n) in place, and add up AtU[p] = Uᵀ A and UtU[p] for the parts p = start..stop of the rows.

    A is Aᵀ (l x n); a part has `height` of its columns. M is (Bᵀ V)ᵀ; M, AtU and UtU are padded with zeros to
    multiples of four. `wall`, `max_sweeps` and `progress` are as in `sweep`. If `old` (r x n) is not empty, F is
    extrapolated as in `half_step`.
    """
    r, n = F.shape
    work, right, line, H = block_arrays(G)
    most = work.shape[1]
    block = np.zeros((M.shape[1], most), F.dtype)
    skip = np.zeros(r, np.bool_)
    zero = F.dtype.type(0)
    for part in range(start, stop):
        cross, gram = AtU[part], UtU[part]
        cross[:] = zero
        gram[:] = zero
        last = min(n, (part + 1) * height)
        for first in range(part * height, last, most):
            width = min(most, last - first)
            lanes = -(-width // REST) * REST
            load(A, first, width, lanes, block)
            load(F, first, width, lanes, work)
            _combine(M, block, lanes, right)
            sweep_block(work, right, line, H, lanes, wall, max_sweeps, progress, skip)
            if len(old) > 0:
                for k in range(r):
                    extrapolate_line(work[k], old[k][first : first + width], beta)
            store(work, F, first, width)
            _add_inner(work, block, lanes, cross)
            _add_inner(work, work, lanes, gram)


@compiled(SUMS_MAY_BE_REORDERED)
def _combine(M, A, lanes, P):  # type: ignore[no-untyped-def]
    """P = M A, four by four."""
    zero = A.dtype.type(0)
    for k in range(0, len(M), 4):
        p0, p1, p2, p3 = P[k], P[k + 1], P[k + 2], P[k + 3]
        for c in range(lanes):
            p0[c] = p1[c] = p2[c] = p3[c] = zero
        for j in range(0, len(A), 4):
            a0, a1, a2, a3 = M[k, j], M[k, j + 1], M[k, j + 2], M[k, j + 3]
            b0, b1, b2, b3 = M[k + 1, j], M[k + 1, j + 1], M[k + 1, j + 2], M[k + 1, j + 3]
            c0, c1, c2, c3 = M[k + 2, j], M[k + 2, j + 1], M[k + 2, j + 2], M[k + 2, j + 3]
            d0, d1, d2, d3 = M[k + 3, j], M[k + 3, j + 1], M[k + 3, j + 2], M[k + 3, j + 3]
            x0, x1, x2, x3 = A[j], A[j + 1], A[j + 2], A[j + 3]
            for c in range(lanes):
                y0, y1, y2, y3 = x0[c], x1[c], x2[c], x3[c]
                p0[c] += a0 * y0 + a1 * y1 + a2 * y2 + a3 * y3
                p1[c] += b0 * y0 + b1 * y1 + b2 * y2 + b3 * y3
                p2[c] += c0 * y0 + c1 * y1 + c2 * y2 + c3 * y3
                p3[c] += d0 * y0 + d1 * y1 + d2 * y2 + d3 * y3


@compiled(SUMS_MAY_BE_REORDERED)
def _add_inner(U, A, lanes, T):  # type: ignore[no-untyped-def]
    """T += U Aᵀ, four by four."""
    zero = A.dtype.type(0)
    for k in range(0, len(U), 4):
        u0, u1, u2, u3 = U[k], U[k + 1], U[k + 2], U[k + 3]
        for j in range(0, len(A), 4):
            v0, v1, v2, v3 = A[j], A[j + 1], A[j + 2], A[j + 3]
            a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = zero
            c0 = c1 = c2 = c3 = d0 = d1 = d2 = d3 = zero
            for c in range(lanes):
                p0, p1, p2, p3 = v0[c], v1[c], v2[c], v3[c]
                q0, q1, q2, q3 = u0[c], u1[c], u2[c], u3[c]
                a0, a1, a2, a3 = a0 + q0 * p0, a1 + q0 * p1, a2 + q0 * p2, a3 + q0 * p3
                b0, b1, b2, b3 = b0 + q1 * p0, b1 + q1 * p1, b2 + q1 * p2, b3 + q1 * p3
                c0, c1, c2, c3 = c0 + q2 * p0, c1 + q2 * p1, c2 + q2 * p2, c3 + q2 * p3
                d0, d1, d2, d3 = d0 + q3 * p0, d1 + q3 * p1, d2 + q3 * p2, d3 + q3 * p3
            t0, t1, t2, t3 = T[k], T[k + 1], T[k + 2], T[k + 3]
            t0[j], t0[j + 1], t0[j + 2], t0[j + 3] = t0[j] + a0, t0[j + 1] + a1, t0[j + 2] + a2, t0[j + 3] + a3
            t1[j], t1[j + 1], t1[j + 2], t1[j + 3] = t1[j] + b0, t1[j + 1] + b1, t1[j + 2] + b2, t1[j + 3] + b3
            t2[j], t2[j + 1], t2[j + 2], t2[j + 3] = t2[j] + c0, t2[j + 1] + c1, t2[j + 2] + c2, t2[j + 3] + c3
            t3[j], t3[j + 1], t3[j + 2], t3[j + 3] = t3[j] + d0, t3[j + 1] + d1, t3[j + 2] + d2, t3[j + 3] + d3
