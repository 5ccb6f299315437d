"""Nonnegative least squares with one Gram matrix and many right-hand sides, solved to optimality.

    minimize 1/2 xᵀ G x - bᵀ x  over x >= 0      for each column b of B

Active set method of Lawson and Hanson (1974, chapter 23), started from the support of the given x: coordinate sweeps
find most of the support, the active set makes it exact. Works in double precision.
"""

from __future__ import annotations

import numpy as np

from enmf.kernels.compiler import compiled


@compiled()
def factor_passive(G, members, count, L):  # type: ignore[no-untyped-def]
    """Cholesky factor L of G on the members; returns the position of a member that depends on the previous ones (its
    pivot vanishes), or -1."""
    for p in range(count):
        i = members[p]
        for q in range(p + 1):
            total = G[i, members[q]]
            for k in range(q):
                total -= L[p, k] * L[q, k]
            if p == q:
                if total <= 1e-13 * G[i, i]:
                    return p
                L[p, p] = np.sqrt(total)
            else:
                L[p, q] = total / L[q, q]
    return -1


@compiled()
def solve_passive(L, b, members, count, z):  # type: ignore[no-untyped-def]
    """z[:count] = solution of L Lᵀ z = b on the members."""
    for p in range(count):
        total = b[members[p]]
        for k in range(p):
            total -= L[p, k] * z[k]
        z[p] = total / L[p, p]
    for p in range(count - 1, -1, -1):
        total = z[p]
        for k in range(p + 1, count):
            total -= L[k, p] * z[k]
        z[p] = total / L[p, p]


@compiled()
def _remove(members, count, position, inside):  # type: ignore[no-untyped-def]
    inside[members[position]] = False
    for q in range(position, count - 1):
        members[q] = members[q + 1]
    return count - 1


@compiled()
def nnls(start, stop, G, B, F):  # type: ignore[no-untyped-def]
    """Solve for the columns start..stop of F (r x n), whose values are the starting points; all float64."""
    r = G.shape[0]
    members = np.empty(r, np.int64)
    inside = np.zeros(r, np.bool_)
    barred = np.zeros(r, np.bool_)  # found dependent on the others for this column
    x = np.empty(r)
    b = np.empty(r)
    z = np.empty(r)
    L = np.empty((r, r))
    for c in range(start, stop):
        count = 0
        largest = 0.0
        for k in range(r):
            b[k] = B[k, c]
            largest = max(largest, abs(b[k]))
            inside[k] = F[k, c] > 0 and G[k, k] > 0
            barred[k] = False
            x[k] = F[k, c] if inside[k] else 0.0
            if inside[k]:
                members[count] = k
                count += 1
        tolerance = 1e-13 * largest
        for _ in range(10 * r + 50):
            dependent = factor_passive(G, members, count, L)
            if dependent >= 0:
                if dependent == count - 1 and x[members[dependent]] == 0.0:
                    # the newest member: the others already span it, so it cannot help; try the next best
                    barred[members[dependent]] = True
                    count = _remove(members, count, dependent, inside)
                else:
                    # the start has dependent members, and it is unknown which to keep: begin with an empty set
                    count = 0
                    for k in range(r):
                        x[k] = 0.0
                        inside[k] = False
                continue
            solve_passive(L, b, members, count, z)
            step = 1.0
            blocked = False  # also if the step toward a tiny negative z rounds to 1
            for p in range(count):
                if z[p] <= 0:
                    k = members[p]
                    blocked = True
                    step = min(step, x[k] / (x[k] - z[p])) if x[k] > 0 else 0.0
            if blocked:
                for p in range(count):
                    x[members[p]] += step * (z[p] - x[members[p]])
                for p in range(count - 1, -1, -1):
                    if z[p] <= 0 and x[members[p]] <= 1e-15 * abs(z[p]):
                        x[members[p]] = 0.0
                        count = _remove(members, count, p, inside)
                        barred[:] = False
                continue
            for p in range(count):
                x[members[p]] = z[p]
            best = -1
            most = tolerance
            for k in range(r):
                if inside[k] or barred[k] or G[k, k] <= 0:
                    continue
                slope = b[k]
                for p in range(count):
                    slope -= G[k, members[p]] * z[p]
                if slope > most:
                    most = slope
                    best = k
            if best < 0:
                break
            members[count] = best
            inside[best] = True
            count += 1
        for k in range(r):
            F[k, c] = x[k] if inside[k] else 0.0
