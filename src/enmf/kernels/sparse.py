"""Products of a sparse matrix with a block of columns: P = (S C)ᵀ.

S is stored by blocks of its columns: `starts[b]` holds, for each row, where its entries in block b begin; `indices` and
`data` are their columns and values. A CSR matrix is one block. `columns` is C (m x r, C order: the r numbers of a row
are contiguous), `out` is r x n; both have the working precision, `data` may have a different one.
For Xᵀ U the rows of U that belong to a block stay in the cache while all rows of Xᵀ gather from them; with one long U
each entry would be fetched from memory.
"""

from __future__ import annotations

import numpy as np

from enmf.kernels.lanes import SUMS_MAY_BE_REORDERED, compiled

ROWS = 32  # rows of S that are transposed into `out` together


@compiled(SUMS_MAY_BE_REORDERED)
def times(start, stop, starts, indices, data, columns, out):  # type: ignore[no-untyped-def]
    """out[:, i] = sum_e data[e] * columns[indices[e], :] over the stored entries e of row i, for start <= i < stop."""
    r = columns.shape[1]
    one = out.dtype.type
    blocks = len(starts)
    most = ROWS if blocks == 1 else stop - start
    rows = np.empty((most, r), out.dtype)
    for first in range(start, stop, most):
        height = min(most, stop - first)
        rows[:height] = 0
        for b in range(blocks):
            at = starts[b]
            for i in range(height):
                row = rows[i]
                e, end = at[first + i], at[first + i + 1]
                while e + 4 <= end:  # four entries per visit of the row of sums
                    v0, v1, v2, v3 = one(data[e]), one(data[e + 1]), one(data[e + 2]), one(data[e + 3])
                    i0, i1, i2, i3 = indices[e], indices[e + 1], indices[e + 2], indices[e + 3]
                    c0, c1, c2, c3 = columns[i0], columns[i1], columns[i2], columns[i3]
                    for k in range(r):
                        row[k] += v0 * c0[k] + v1 * c1[k] + v2 * c2[k] + v3 * c3[k]
                    e += 4
                while e < end:
                    value = one(data[e])
                    source = columns[indices[e]]
                    for k in range(r):
                        row[k] += value * source[k]
                    e += 1
        for top in range(0, height, ROWS):
            part = min(ROWS, height - top)
            for k in range(r):
                line = out[k][first + top : first + top + part]
                for i in range(part):
                    line[i] = rows[top + i, k]


@compiled()
def transpose(start, stop, indptr, indices, data, height, starts, rows, values):  # type: ignore[no-untyped-def]
    """Xᵀ by blocks: block b has the entries of the rows b * height ... of X (CSR), sorted by column and row."""
    n = len(indptr) - 1
    m = starts.shape[1] - 1
    for b in range(start, stop):
        first, last = b * height, min(n, (b + 1) * height)
        at = starts[b]
        at[:] = 0
        for e in range(indptr[first], indptr[last]):
            at[indices[e]] += 1
        begin = indptr[first]
        for j in range(m + 1):
            count = at[j]
            at[j] = begin
            begin += count
        for i in range(first, last):
            for e in range(indptr[i], indptr[i + 1]):
                j = indices[e]
                place = at[j]
                rows[place] = i
                values[place] = data[e]
                at[j] = place + 1
        for j in range(m, 0, -1):  # every position has advanced to that of the next column
            at[j] = at[j - 1]
        at[0] = indptr[first]


@compiled(SUMS_MAY_BE_REORDERED)
def row_squares(start, stop, indptr, data, out):  # type: ignore[no-untyped-def]
    """out[i] = sum of squares of row i."""
    for i in range(start, stop):
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            value = np.float64(data[e])
            total += value * value
        out[i] = total


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
