"""A half-step of HALS (the update of one factor) in one pass over a dense X (n x m, C order, n much larger than m).

For a block of rows of X, while it is in the cache:  P = X_b V,  sweeps of U_b for U_b VᵀV - P,  and then
its part of Xᵀ U and Uᵀ U. Two passes become one, and P is never stored.
"""

from __future__ import annotations

import numpy as np

from enmf.kernels.lanes import REST, SUMS_MAY_BE_REORDERED, block_arrays, compiled, load, store
from enmf.kernels.sweep import extrapolate_line, sweep_block


@compiled(SUMS_MAY_BE_REORDERED)
def half_step(  # type: ignore[no-untyped-def]
    start, stop, X, height, F, V, G, shift, max_sweeps, progress, skip, old, beta, XtU, UtU
):
    """Sweep F = Uᵀ (r x n) in place, and add up XtU[p] = (Xᵀ U)ᵀ and UtU[p] for the parts p = start..stop of the rows.

    A part has `height` rows of X, a multiple of the lanes. V is Vᵀ; the components of V, XtU and UtU are
    padded with zeros. `shift` is subtracted from X V (the penalty on the sum of U). If `old` (r x n) is not empty, F is
    the extrapolated max(0, new + beta (new - old)) afterwards, and `old` is the new factor.
    """
    n = X.shape[0]
    r = F.shape[0]
    work, right, line, H = block_arrays(G)
    most = work.shape[1]
    zero = F.dtype.type(0)
    for part in range(start, stop):
        cross, gram = XtU[part], UtU[part]
        cross[:] = zero
        gram[:] = zero
        last = min(n, (part + 1) * height)
        for first in range(part * height, last, most):
            width = min(most, last - first)
            lanes = -(-width // REST) * REST
            block = X[first : first + width]
            _inner_products(V, block, right)
            load(F, first, width, lanes, work)
            for k in range(r):
                for c in range(width):
                    right[k, c] -= shift
                for c in range(width, lanes):
                    right[k, c] = zero
            sweep_block(work, right, line, H, lanes, np.inf, max_sweeps, progress, skip)
            if len(old) > 0:
                for k in range(r):
                    extrapolate_line(work[k], old[k][first : first + width], beta)
            store(work, F, first, width)
            _add_products(work, block, cross)
            _add_gram(work, lanes, gram)


@compiled(SUMS_MAY_BE_REORDERED)
def _inner_products(V, X, P):  # type: ignore[no-untyped-def]
    """P[k, c] = V[k] . X[c], four by four."""
    rows, m = V.shape
    width = X.shape[0]
    zero = X.dtype.type(0)
    for c in range(0, width - 3, 4):
        x0, x1, x2, x3 = X[c], X[c + 1], X[c + 2], X[c + 3]
        for k in range(0, rows, 4):
            v0, v1, v2, v3 = V[k], V[k + 1], V[k + 2], V[k + 3]
            a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = zero
            c0 = c1 = c2 = c3 = d0 = d1 = d2 = d3 = zero
            for j in range(m):
                p0, p1, p2, p3 = x0[j], x1[j], x2[j], x3[j]
                q0, q1, q2, q3 = v0[j], v1[j], v2[j], v3[j]
                a0, a1, a2, a3 = a0 + q0 * p0, a1 + q0 * p1, a2 + q0 * p2, a3 + q0 * p3
                b0, b1, b2, b3 = b0 + q1 * p0, b1 + q1 * p1, b2 + q1 * p2, b3 + q1 * p3
                c0, c1, c2, c3 = c0 + q2 * p0, c1 + q2 * p1, c2 + q2 * p2, c3 + q2 * p3
                d0, d1, d2, d3 = d0 + q3 * p0, d1 + q3 * p1, d2 + q3 * p2, d3 + q3 * p3
            P[k, c], P[k, c + 1], P[k, c + 2], P[k, c + 3] = a0, a1, a2, a3
            P[k + 1, c], P[k + 1, c + 1], P[k + 1, c + 2], P[k + 1, c + 3] = b0, b1, b2, b3
            P[k + 2, c], P[k + 2, c + 1], P[k + 2, c + 2], P[k + 2, c + 3] = c0, c1, c2, c3
            P[k + 3, c], P[k + 3, c + 1], P[k + 3, c + 2], P[k + 3, c + 3] = d0, d1, d2, d3
    for c in range(width // 4 * 4, width):
        for k in range(rows):
            total = zero
            for j in range(m):
                total += V[k, j] * X[c, j]
            P[k, c] = total


@compiled(SUMS_MAY_BE_REORDERED)
def _add_products(U, X, T):  # type: ignore[no-untyped-def]
    """T[k] += sum_c U[k, c] X[c], four by four."""
    rows, m = T.shape
    width = X.shape[0]
    for k in range(0, rows, 4):
        t0, t1, t2, t3 = T[k], T[k + 1], T[k + 2], T[k + 3]
        for c in range(0, width - 3, 4):
            x0, x1, x2, x3 = X[c], X[c + 1], X[c + 2], X[c + 3]
            a0, a1, a2, a3 = U[k, c], U[k, c + 1], U[k, c + 2], U[k, c + 3]
            b0, b1, b2, b3 = U[k + 1, c], U[k + 1, c + 1], U[k + 1, c + 2], U[k + 1, c + 3]
            c0, c1, c2, c3 = U[k + 2, c], U[k + 2, c + 1], U[k + 2, c + 2], U[k + 2, c + 3]
            d0, d1, d2, d3 = U[k + 3, c], U[k + 3, c + 1], U[k + 3, c + 2], U[k + 3, c + 3]
            for j in range(m):
                p0, p1, p2, p3 = x0[j], x1[j], x2[j], x3[j]
                t0[j] += a0 * p0 + a1 * p1 + a2 * p2 + a3 * p3
                t1[j] += b0 * p0 + b1 * p1 + b2 * p2 + b3 * p3
                t2[j] += c0 * p0 + c1 * p1 + c2 * p2 + c3 * p3
                t3[j] += d0 * p0 + d1 * p1 + d2 * p2 + d3 * p3
        for c in range(width // 4 * 4, width):
            for q in range(k, k + 4):
                u = U[q, c]
                for j in range(m):
                    T[q, j] += u * X[c, j]


@compiled(SUMS_MAY_BE_REORDERED)
def _add_gram(U, lanes, S):  # type: ignore[no-untyped-def]
    """S += U Uᵀ, the lower triangle in panels of four (entries of a panel above the diagonal are filled, too)."""
    rows = len(U)
    zero = U.dtype.type(0)
    for i in range(rows):
        u = U[i]
        for k in range(0, i // 4 * 4 + 4, 4):
            v0, v1, v2, v3 = U[k], U[k + 1], U[k + 2], U[k + 3]
            s0 = s1 = s2 = s3 = zero
            for c in range(lanes):
                x = u[c]
                s0, s1, s2, s3 = s0 + x * v0[c], s1 + x * v1[c], s2 + x * v2[c], s3 + x * v3[c]
            s = S[i]
            s[k], s[k + 1], s[k + 2], s[k + 3] = s[k] + s0, s[k + 1] + s1, s[k + 2] + s2, s[k + 3] + s3


@compiled()
def add_parts(XtU, UtU):  # type: ignore[no-untyped-def]
    """Add all parts into the first one, in order; Uᵀ U gets both triangles."""
    for part in range(1, len(XtU)):
        XtU[0] += XtU[part]
        UtU[0] += UtU[part]
    for i in range(UtU.shape[1]):
        for k in range(i):
            UtU[0, k, i] = UtU[0, i, k]
