"""Row problems of a matrix with missing entries: every row i of the factor F has its own normal equations.

    G_i = [G0] + sum_e a_e c_e c_eᵀ + ridge_i I        b_i = [B0_i] + sum_e t_e c_e

over the entries e that are stored for row i, where c_e is the row of the other factor C at the column of e. A row
that is described by its observed entries has a = weight, t = weight * x and no base. A row that is described by its
missing entries has the base G0 = CᵀC, B0 = X C of the matrix with zeros at these entries, and a = -1, t = 0 at them
(paper, appendix "Exterior NMC algorithm": the gradient of the row is F_i G_i - b_i). The row-wise r x r problems are
those of masked alternating methods (Lin and Boutros 2018); here they are formed, used immediately and never stored.

All kernels begin with the same arguments: start, stop, indptr, indices, weights (a), targets (t), from_base, C (m x r),
G0 (r x r), B0 (r x n), ridge (n). F is r x n.
"""

from __future__ import annotations

import numpy as np

from enmf.kernels.lanes import SUMS_MAY_BE_REORDERED, compiled
from enmf.kernels.nnls import nnls

WIDTH = 64  # entries gathered before their outer products are summed: r x 64 numbers stay in the cache
CANCELLED = 64.0  # a diagonal entry of G0 that has shrunk to this many rounding units counts as zero


@compiled(SUMS_MAY_BE_REORDERED)
def _normal(i, indptr, indices, weights, targets, from_base, C, G0, B0, ridge, G, b, gathered, weighted, t):  # type: ignore[no-untyped-def]
    """Fill G (r x r) and b (r) with the normal equations of row i; the other arrays are work space."""
    r = C.shape[1]
    zero = C.dtype.type(0)
    based = from_base[i]
    for k in range(r):
        b[k] = B0[k, i] if based else zero
        for j in range(k + 1):
            G[k, j] = G0[k, j] if based else zero
    e = indptr[i]
    last = indptr[i + 1]
    while e < last:
        width = min(WIDTH, last - e)
        padded = (width + 7) // 8 * 8  # whole vectors; the padding is zero
        for q in range(width):
            row = C[indices[e + q]]
            a = weights[e + q]
            t[q] = targets[e + q]
            for k in range(r):
                gathered[k, q] = row[k]
                weighted[k, q] = a * row[k]
        for q in range(width, padded):
            t[q] = zero
            for k in range(r):
                gathered[k, q] = zero
                weighted[k, q] = zero
        k = 0
        while k + 4 <= r:
            w0 = weighted[k]
            w1 = weighted[k + 1]
            w2 = weighted[k + 2]
            w3 = weighted[k + 3]
            for j in range(k + 4):
                line = gathered[j]
                g0 = zero
                g1 = zero
                g2 = zero
                g3 = zero
                for q in range(padded):
                    x = line[q]
                    g0, g1, g2, g3 = g0 + w0[q] * x, g1 + w1[q] * x, g2 + w2[q] * x, g3 + w3[q] * x
                G[k, j] += g0
                G[k + 1, j] += g1
                G[k + 2, j] += g2
                G[k + 3, j] += g3
            k += 4
        while k < r:
            w0 = weighted[k]
            for j in range(k + 1):
                line = gathered[j]
                g0 = zero
                for q in range(padded):
                    g0 += w0[q] * line[q]
                G[k, j] += g0
            k += 1
        for k in range(r):
            line = gathered[k]
            g0 = zero
            for q in range(padded):
                g0 += t[q] * line[q]
            b[k] += g0
        e += width
    rounding = CANCELLED * np.finfo(C.dtype).eps
    for k in range(r):
        for j in range(k):
            G[j, k] = G[k, j]
        if based and G[k, k] <= rounding * G0[k, k]:
            G[k, k] = zero
        G[k, k] += ridge[i]


@compiled(SUMS_MAY_BE_REORDERED)
def sweep(  # type: ignore[no-untyped-def]
    start, stop, indptr, indices, weights, targets, from_base, C, G0, B0, ridge, F, wall, max_sweeps, progress
):
    """Up to `max_sweeps` coordinate sweeps for the rows start..stop, in place (compare `enmf.kernels.sweep`).

    A finite `wall` is soft, and relative to the mean diagonal of the row's own G. A row stops when a sweep changes it
    by less than `progress` times the first. Components that the entries of the row do not determine stay unchanged.
    """
    r = C.shape[1]
    G = np.zeros((r, r), C.dtype)
    b = np.zeros(r, C.dtype)
    u = np.zeros(r, C.dtype)
    gathered = np.zeros((r, WIDTH), C.dtype)
    weighted = np.zeros((r, WIDTH), C.dtype)
    t = np.zeros(WIDTH, C.dtype)
    zero = C.dtype.type(0)
    hard = np.isinf(wall)
    for i in range(start, stop):
        if indptr[i] == indptr[i + 1] and not from_base[i] and ridge[i] == zero:
            continue
        _normal(i, indptr, indices, weights, targets, from_base, C, G0, B0, ridge, G, b, gathered, weighted, t)
        softness = zero
        for k in range(r):
            u[k] = F[k, i]
            softness += G[k, k]
        for k in range(r):  # b becomes the descent direction b - G u, and is updated with u from here on
            row = G[k]
            for j in range(r):
                b[j] -= u[k] * row[j]
        if not hard:
            softness *= C.dtype.type(wall) / r
        first_change = 0.0
        for s in range(max_sweeps):
            change = 0.0
            for k in range(r):
                g = G[k, k]
                if g <= zero:
                    continue
                z = b[k] + g * u[k]
                if z >= zero:
                    new = z / g
                elif hard:
                    new = zero
                else:
                    new = z / (g + softness)
                step = new - u[k]
                if step != zero:
                    change += np.float64(step) * np.float64(step)
                    u[k] = new
                    row = G[k]
                    for j in range(r):
                        b[j] -= step * row[j]
            if s == 0:
                first_change = change
            if change <= progress * progress * first_change:
                break
        for k in range(r):
            F[k, i] = u[k]


@compiled(SUMS_MAY_BE_REORDERED)
def row_steps(  # type: ignore[no-untyped-def]
    start, stop, indptr, indices, weights, targets, from_base, C, G0, B0, ridge, F, max_steps, epsilon
):
    """Masked projected gradient steps for the rows start..stop, in place (paper, Algorithm 2 and eq. 8 to 11).

    Step size and gradient use only the observed entries: d = ||g||² / (g G_i gᵀ). Negative entries of F stay unchanged;
    an entry at zero with a positive gradient is left out of g.
    """
    r = C.shape[1]
    G = np.zeros((r, r), C.dtype)
    b = np.zeros(r, C.dtype)
    u = np.zeros(r, C.dtype)
    d = np.zeros(r, C.dtype)
    gathered = np.zeros((r, WIDTH), C.dtype)
    weighted = np.zeros((r, WIDTH), C.dtype)
    t = np.zeros(WIDTH, C.dtype)
    zero = C.dtype.type(0)
    for i in range(start, stop):
        _normal(i, indptr, indices, weights, targets, from_base, C, G0, B0, ridge, G, b, gathered, weighted, t)
        for k in range(r):
            u[k] = F[k, i]
        first_norm = zero
        for s in range(max_steps):
            norm = zero
            for k in range(r):
                slope = -b[k]
                for j in range(r):
                    slope += G[k, j] * u[j]
                if u[k] < zero or (u[k] == zero and slope > zero):
                    slope = zero
                d[k] = slope
                norm += slope * slope
            if s == 0:
                first_norm = norm
            if norm <= epsilon * epsilon * first_norm:
                break
            curvature = zero
            for k in range(r):
                for j in range(r):
                    curvature += d[k] * G[k, j] * d[j]
            if curvature <= zero:
                break
            step = norm / curvature
            for k in range(r):
                if u[k] >= zero:
                    u[k] = max(u[k] - step * d[k], zero)
        for k in range(r):
            F[k, i] = u[k]


@compiled()
def solve(start, stop, indptr, indices, weights, targets, from_base, C, G0, B0, ridge, F):  # type: ignore[no-untyped-def]
    """Nonnegative least squares to optimality for the rows start..stop of F, from the support of F; all float64."""
    r = C.shape[1]
    G = np.zeros((r, r))
    b = np.zeros(r)
    x = np.zeros((r, 1))
    gathered = np.zeros((r, WIDTH))
    weighted = np.zeros((r, WIDTH))
    t = np.zeros(WIDTH)
    for i in range(start, stop):
        _normal(i, indptr, indices, weights, targets, from_base, C, G0, B0, ridge, G, b, gathered, weighted, t)
        for k in range(r):
            x[k, 0] = F[k, i]
        nnls(0, 1, G, b.reshape((r, 1)), x)
        for k in range(r):
            F[k, i] = x[k, 0]


@compiled(SUMS_MAY_BE_REORDERED)
def residual_times(start, stop, indptr, indices, weights, targets, from_base, F, C, D, out, errors):  # type: ignore[no-untyped-def]
    """out[:, i] = sum_e (t_e - a_e p_e) D_e with p_e = F_i . C_e, and what the entries add to the squared error.

    F (n x r), C and D (m x r) are in C order, out is r x n. For a row of observed entries errors[i] is sum a (x - p)²,
    accurate however small; for a row with a base it is what the missing entries add to the error of the base.
    """
    r = C.shape[1]
    acc = np.zeros(r, C.dtype)
    for i in range(start, stop):
        left = F[i]
        total = 0.0
        for k in range(r):
            acc[k] = 0
        based = from_base[i]
        for e in range(indptr[i], indptr[i + 1]):
            right = C[indices[e]]
            p = C.dtype.type(0)
            for k in range(r):
                p += left[k] * right[k]
            a = weights[e]
            d = targets[e] - a * p
            if based:
                total += np.float64(a * p * p - 2 * targets[e] * p)
            else:
                total += np.float64(d) * np.float64(d) / np.float64(a)
            source = D[indices[e]]
            for k in range(r):
                acc[k] += d * source[k]
        errors[i] = total
        for k in range(r):
            out[k, i] = acc[k]


@compiled(SUMS_MAY_BE_REORDERED)
def pair_products(start, stop, rows, columns, U, V, out):  # type: ignore[no-untyped-def]
    """out[e] = U[rows[e]] . V[columns[e]] for start <= e < stop; U and V are in C order."""
    r = U.shape[1]
    for e in range(start, stop):
        left = U[rows[e]]
        right = V[columns[e]]
        p = U.dtype.type(0)
        for k in range(r):
            p += left[k] * right[k]
        out[e] = p
