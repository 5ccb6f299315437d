"""Elementwise parts of the rotation's ADMM (paper, eq. 7), fused so that each array is read once.

All arrays are flat views of equal length. Sums go to one row of `partial` for each CHUNK of entries, so that they do
not depend on how a range is split.
"""

from __future__ import annotations

from enmf.kernels.compiler import SUMS_MAY_BE_REORDERED, compiled

CHUNK = 8192


@compiled(SUMS_MAY_BE_REORDERED)
def split(start, stop, WR, Y, Z, ZY, threshold):  # type: ignore[no-untyped-def]
    """B = WR - Y;  Z = B above 0, 0 down to -threshold, B + threshold below;  ZY = Z + Y."""
    for i in range(start, stop):
        b = WR[i] - Y[i]
        z = b if b > 0 else min(b + threshold, 0.0)
        Z[i] = z
        ZY[i] = z + Y[i]


@compiled(SUMS_MAY_BE_REORDERED)
def update_dual(start, stop, WR, before, Y, Z, partial):  # type: ignore[no-untyped-def]
    """Y += Z - WR. Sums of (Z - WR)², (WR - before)², WR and |WR| (start is a multiple of CHUNK)."""
    for first in range(start, stop, CHUNK):
        primal = 0.0
        moved = 0.0
        total = 0.0
        size = 0.0
        for i in range(first, min(first + CHUNK, stop)):
            residual = Z[i] - WR[i]
            Y[i] += residual
            primal += residual * residual
            step = WR[i] - before[i]
            moved += step * step
            total += WR[i]
            size += abs(WR[i])
        row = partial[first // CHUNK]
        row[0] = primal
        row[1] = moved
        row[2] = total
        row[3] = size
