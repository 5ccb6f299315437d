"""How kernels are compiled (without the GIL, cached on disk where a place can be found), and the lanes they work on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

BLOCK = 128  # columns handled together: r x 128 numbers stay in the cache, 128 lanes vectorise
LANE_BYTES = 1024  # the same for sweeps, which have BLOCK lanes in double precision and twice as many in single
RANGE = 2 * BLOCK  # ranges of sweeps are multiples of this, so that blocks are the same for any number of threads
REST = 16  # the number of lanes of a shorter last block is a multiple of this
PANEL = 4  # components handled together: what the others contribute is a small matrix product, and as fast as one
SUMS_MAY_BE_REORDERED = {"contract", "nsz", "reassoc"}


def compiled(fastmath: set[str] | bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Decorator for a kernel."""

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return njit(cache=True, nogil=True, fastmath=fastmath)(function)
        except RuntimeError:  # neither the package folder nor the user's cache folder can be written
            return njit(nogil=True, fastmath=fastmath)(function)

    return decorate


@compiled()
def padded(r):  # type: ignore[no-untyped-def]
    """r rounded up to a multiple of PANEL."""
    return -(-r // PANEL) * PANEL


@compiled()
def block_arrays(G):  # type: ignore[no-untyped-def]
    """Zeroed work space of `sweep_block`: factor, right-hand side, lines of a panel; and G padded with zeros."""
    r = len(G)
    height = padded(r)
    lanes = LANE_BYTES // G.itemsize
    work = np.zeros((height, lanes), G.dtype)
    right = np.zeros((height, lanes), G.dtype)
    line = np.zeros((PANEL, lanes), G.dtype)
    H = np.zeros((height, height), G.dtype)
    H[:r, :r] = G
    return work, right, line, H


# As far as the compiler knows, an index such as first + c may be negative, and numba checks it at every entry: loops
# over slices are four times as fast (docs/lessons/threads-and-kernels.md#offset-index).


@compiled()
def load(F, first, width, lanes, block):  # type: ignore[no-untyped-def]
    """Copy columns first..first + width of F to the left of `block`, and fill it with zeros up to `lanes`."""
    zero = F.dtype.type(0)
    for k in range(len(F)):
        source, target = F[k][first : first + width], block[k]
        for c in range(width):
            target[c] = source[c]
        for c in range(width, lanes):
            target[c] = zero


@compiled()
def store(block, F, first, width):  # type: ignore[no-untyped-def]
    """Copy the first `width` columns of `block` back to F."""
    for k in range(len(F)):
        source, target = block[k], F[k][first : first + width]
        for c in range(width):
            target[c] = source[c]
