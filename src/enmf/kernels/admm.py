"""Elementwise parts of the rotation's ADMM (paper, eq. 7), fused so that each array is read once.

All arrays are flat views of equal length. Sums go to one row of `partial` per CHUNK of entries, so that they do not
depend on how a range is split.
"""

from __future__ import annotations

from enmf.kernels.lanes import SUMS_MAY_BE_REORDERED, compiled

CHUNK = 8192


@compiled(SUMS_MAY_BE_REORDERED)
def split(start, stop, WR, Y, Z, ZY, threshold):  # type: ignore[no-untyped-def]
    """B = WR - Y;  Z = B above 0, 0 down to -threshold, B + threshold below;  ZY = Z + Y."""
    turned, dual, target, both = WR[start:stop], Y[start:stop], Z[start:stop], ZY[start:stop]
    zero = turned.dtype.type(0)
    for i in range(len(turned)):
        b = turned[i] - dual[i]
        z = b if b > zero else min(b + threshold, zero)
        target[i] = z
        both[i] = z + dual[i]


@compiled(SUMS_MAY_BE_REORDERED)
def update_dual(start, stop, WR, before, Y, Z, partial):  # type: ignore[no-untyped-def]
    """Y += Z - WR. Sums of (Z - WR)², (WR - before)², WR and |WR| (start is a multiple of CHUNK)."""
    for first in range(start, stop, CHUNK):
        primal = 0.0
        moved = 0.0
        total = 0.0
        size = 0.0
        last = min(first + CHUNK, stop)
        turned, former, dual, target = WR[first:last], before[first:last], Y[first:last], Z[first:last]
        for i in range(len(turned)):
            residual = target[i] - turned[i]
            dual[i] += residual
            primal += residual * residual
            step = turned[i] - former[i]
            moved += step * step
            total += turned[i]
            size += abs(turned[i])
        row = partial[first // CHUNK]
        row[0] = primal
        row[1] = moved
        row[2] = total
        row[3] = size
