"""The U half of a HALS iteration in one pass over a dense X.

A row of U needs X V of that row only, and Xᵀ U is a sum over rows. So a block of rows is read once, from memory into
the cache, for X_b V, the sweeps of U_b, X_bᵀ U_b and U_bᵀ U_b; a thread is woken once instead of four times. This pays
where products are bound by memory: tall or small X, small ranks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from enmf import parallel
from enmf.iterate import Iterate
from enmf.kernels.sweep import BLOCK, sweep
from enmf.matrix import DenseMatrix

LARGEST_RANK = 32  # above, products are bound by arithmetic
CACHED = 1 << 19  # bytes of a block of rows
CHUNKS = 8  # partial sums, whatever the number of threads


def applies(it: Iterate) -> bool:
    """Whether X can be passed over in blocks of rows, and that is worth it."""
    return (
        isinstance(it.X, DenseMatrix)
        and it.X.array.flags.c_contiguous
        and isinstance(it.U, np.ndarray)
        and it.rank <= LARGEST_RANK
        and not it.penalty
    )


def update_U(
    it: Iterate, max_sweeps: int = 1, progress: float = 0.0, finish: Callable[[slice], None] | None = None
) -> None:
    """Sweeps on U, in place; afterwards X V, Xᵀ U and Uᵀ U are at hand. `finish` changes rows of U after the sweeps."""
    assert isinstance(it.X, DenseMatrix)
    X, F, VT, G = it.X.array, it.U.T, it.V.T, np.ascontiguousarray(it.VtV)
    (n, m), r = X.shape, it.rank
    known = it.has_XV
    B = it.XV.T if known else np.empty((r, n), X.dtype)
    height = max(1, CACHED // (BLOCK * m * X.itemsize)) * BLOCK
    chunks = max(1, min(CHUNKS, n // max(height, 4 * BLOCK)))
    borders = np.arange(chunks + 1) * -(-n // (chunks * BLOCK)) * BLOCK
    borders = np.minimum(borders, n)
    XtU, UtU = np.zeros((chunks, r, m), X.dtype), np.zeros((chunks, r, r), X.dtype)
    skip = np.zeros(r, dtype=np.bool_)

    def work(first: int, last: int) -> None:
        wide, small = np.empty((r, m), X.dtype), np.empty((r, r), X.dtype)
        for chunk in range(first, last):
            for start in range(borders[chunk], borders[chunk + 1], height):
                stop = min(start + height, borders[chunk + 1])
                rows = slice(start, stop)
                if not known:
                    np.matmul(VT, X[rows].T, out=B[:, rows])
                sweep(start, stop, F, B, G, np.inf, max_sweeps, progress, skip)
                if finish is not None:
                    finish(rows)
                XtU[chunk] += np.matmul(F[:, rows], X[rows], out=wide)
                UtU[chunk] += np.matmul(F[:, rows], F[:, rows].T, out=small)

    parallel.run(work, parallel.even_bounds(chunks, (4.0 * n * m * r + 4.0 * n * r * r) / chunks))
    it.X.passes += 1
    it.U_follows(B.T, XtU.sum(axis=0).T, UtU.sum(axis=0))
