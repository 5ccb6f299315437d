"""Products of a sparse matrix in CSR form with a block of columns: P = (S C)ᵀ.

`columns` is C (m x r, C order: the r numbers of a row lie together), `out` is r x n. Xᵀ U uses the same kernel on the
CSR form of Xᵀ.
"""

from __future__ import annotations

import numpy as np

from enmf.kernels.compiler import SUMS_MAY_BE_REORDERED, compiled

ROWS = 32  # rows of S gathered before they are written to `out` transposed


@compiled(SUMS_MAY_BE_REORDERED)
def times(start, stop, indptr, indices, data, columns, out):  # type: ignore[no-untyped-def]
    """out[:, i] = sum_e data[e] * columns[indices[e], :] over the stored entries e of row i, for start <= i < stop."""
    r = columns.shape[1]
    rows = np.empty((ROWS, r), out.dtype)
    for first in range(start, stop, ROWS):
        height = min(ROWS, stop - first)
        for i in range(height):
            row = rows[i]
            for k in range(r):
                row[k] = 0
            e, end = indptr[first + i], indptr[first + i + 1]
            while e + 4 <= end:  # four entries for each visit of the row of sums
                v0, v1, v2, v3 = data[e], data[e + 1], data[e + 2], data[e + 3]
                i0, i1, i2, i3 = indices[e], indices[e + 1], indices[e + 2], indices[e + 3]
                c0, c1, c2, c3 = columns[i0], columns[i1], columns[i2], columns[i3]
                for k in range(r):
                    row[k] += v0 * c0[k] + v1 * c1[k] + v2 * c2[k] + v3 * c3[k]
                e += 4
            while e < end:
                value = data[e]
                source = columns[indices[e]]
                for k in range(r):
                    row[k] += value * source[k]
                e += 1
        for k in range(r):
            line = out[k][first : first + height]
            for i in range(height):
                line[i] = rows[i, k]


@compiled(SUMS_MAY_BE_REORDERED)
def residual(start, stop, indptr, indices, data, U, V, partial):  # type: ignore[no-untyped-def]
    """partial[i] = sum over the stored entries e of row i of (data[e] - p)² - p², p = U[i] . V[indices[e]].

    U and V in C order. Adding ||U Vᵀ||² gives ||S - U Vᵀ||²: entries that are not stored contribute p².
    """
    r = U.shape[1]
    for i in range(start, stop):
        total = 0.0
        left = U[i]
        for e in range(indptr[i], indptr[i + 1]):
            right = V[indices[e]]
            p = 0.0
            for k in range(r):
                p += left[k] * right[k]
            value = np.float64(data[e])
            total += value * (value - 2.0 * p)
        partial[i] = total
