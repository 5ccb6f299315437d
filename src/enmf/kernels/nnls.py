"""Nonnegative least squares with one Gram matrix and many right-hand sides, solved to optimality.

    minimize 1/2 xᵀ G x - bᵀ x  over x >= 0      for each column b of B

Active set method of Lawson and Hanson (1974, chapter 23), started from the support of the given x: coordinate sweeps
find most of the support, the active set makes it exact. Works in double precision.
"""

from __future__ import annotations

import numpy as np

from enmf.kernels.lanes import compiled

DEPENDENT = 1e-13  # of its diagonal entry is left of the pivot of a member that depends on others
SIGNIFICANT = 1e-10  # of the numbers it is the difference of: no rounding


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
                if total <= DEPENDENT * G[i, i]:
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
def _exchange(G, b, members, count, position, L, x, w, inside, barred):  # type: ignore[no-untyped-def]
    """One member leaves, where the one at `position` depends on those before it (L is their factor, w work space):
    how many remain, and which one left.

    Along d = e_k - sum_p w_p e_p, for which G d = 0, the objective has the slope -bᵀd. Up to rounding it is zero where
    b = Aᵀy, but not with a penalty: then k may have to replace one of the others. So x goes along d to the bound if
    that gains something, else along -d, where k itself is at zero in the end unless another comes first.
    """
    k = members[position]
    gain = b[k]
    scale = abs(b[k])
    for p in range(position - 1, -1, -1):
        w[p] = L[position, p]
        for q in range(p + 1, position):
            w[p] -= L[q, p] * w[q]
        w[p] /= L[p, p]
        gain -= w[p] * b[members[p]]
        scale += abs(w[p] * b[members[p]]) + abs(G[k, members[p]]) * x[members[p]]
    leaves = -1
    step = 0.0
    if gain > SIGNIFICANT * scale:
        step = gain / (DEPENDENT * G[k, k])  # the curvature may be that large: the gain is certain up to here
        for p in range(position):
            if x[members[p]] < step * w[p]:
                leaves = p
                step = x[members[p]] / w[p]
    if leaves >= 0:
        barred[:] = False
    else:
        barred[k] = x[k] == 0.0
        leaves = position
        step = -x[k]
        for p in range(position):
            if x[members[p]] < step * w[p]:
                leaves = p
                step = x[members[p]] / w[p]
    for p in range(position):
        x[members[p]] = max(x[members[p]] - step * w[p], 0.0)
    x[k] = max(x[k] + step, 0.0)
    left = members[leaves]
    x[left] = 0.0
    return _remove(members, count, leaves, inside), left


@compiled()
def nnls(start, stop, G, B, F):  # type: ignore[no-untyped-def]
    """Solve for the columns start..stop of F (r x n), whose values are the starting points; all float64."""
    r = G.shape[0]
    members = np.empty(r, np.int64)
    inside = np.zeros(r, np.bool_)
    barred = np.zeros(r, np.bool_)  # depends on the members, and no gain from it
    usable = np.empty(r, np.bool_)  # else it stays at zero
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
            usable[k] = G[k, k] > 0
            inside[k] = F[k, c] > 0 and usable[k]
            barred[k] = False
            x[k] = F[k, c] if inside[k] else 0.0
            if inside[k]:
                members[count] = k
                count += 1
        tolerance = 1e-13 * largest
        settled = False  # the members are independent: those of the start need not be
        for _ in range(10 * r + 50):
            dependent = factor_passive(G, members, count, L)
            if dependent >= 0:
                borderline = settled and x[members[dependent]] > 0  # independent when it came, by rounding
                count, left = _exchange(G, b, members, count, dependent, L, x, z, inside, barred)
                usable[left] = not borderline
                continue
            settled = True
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
                if inside[k] or barred[k] or not usable[k]:
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
