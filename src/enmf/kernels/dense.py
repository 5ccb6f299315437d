"""Loops over the entries of a dense matrix in C order."""

from __future__ import annotations

import numpy as np

from enmf.kernels.lanes import SUMS_MAY_BE_REORDERED, compiled


@compiled(SUMS_MAY_BE_REORDERED)
def survey(start, stop, A, squares, nonzeros):  # type: ignore[no-untyped-def]
    """squares[i] = sum of the squares of row i in double precision, nonzeros[i] = number of its nonzero entries."""
    for i in range(start, stop):
        row = A[i]
        total = 0.0
        count = 0
        for j in range(len(row)):
            value = np.float64(row[j])
            total += value * value
            count += row[j] != 0
        squares[i] = total
        nonzeros[i] = count
