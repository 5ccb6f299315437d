"""Least squares on passive sets, for block principal pivoting (Kim and Park 2011).

Rows that share a passive set form a group and share one Cholesky factor. The rows of a group are consecutive in
`order`; `borders` holds the positions where groups begin.
"""

from __future__ import annotations

import numpy as np

from enmf.kernels.lanes import compiled
from enmf.kernels.nnls import factor_passive, solve_passive


@compiled()
def solve_groups(start, stop, G, B, passive, order, borders, F, D, failed):  # type: ignore[no-untyped-def]
    """For the groups start..stop: F = G_PP⁻¹ B_P on the passive set P, 0 elsewhere, and D = F G - B (n x r, C order).

    A group whose G_PP is singular is marked in `failed` (one flag per row).
    """
    r = G.shape[0]
    members = np.empty(r, np.int64)
    L = np.empty((r, r))
    z = np.empty(r)
    for group in range(start, stop):
        first = order[borders[group]]
        count = 0
        for k in range(r):
            if passive[first, k]:
                members[count] = k
                count += 1
        singular = factor_passive(G, members, count, L) >= 0
        for index in range(borders[group], borders[group + 1]):
            i = order[index]
            if singular:
                failed[i] = True
                continue
            solve_passive(L, B[i], members, count, z)
            for k in range(r):
                F[i, k] = 0.0
                D[i, k] = -B[i, k]
            for p in range(count):
                F[i, members[p]] = z[p]
                for k in range(r):
                    D[i, k] += z[p] * G[members[p], k]
            for p in range(count):
                D[i, members[p]] = 0.0
