"""anls-bpp: alternating nonnegative least squares by block principal pivoting (Kim and Park 2011).

Each row has a passive set P (entries free to be positive). With x = G_PP⁻¹ b_P on P and y = G x - b outside, exchange
the infeasible indices {k in P: x_k < 0} and {k outside: y_k < 0} all at once; if their number has not fallen for three
exchanges, exchange only the largest one (Murty's rule, which is finite). Rows with equal passive sets are solved
together. Rows whose Gram matrix is singular on P, or that do not terminate, are left to the active set method of
src/kernels/nnls.h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from enmf import parallel
from enmf.kernels import nnls as active_set
from enmf.kernels import pivoting
from enmf.matrix.factor import by_rows
from enmf.problem.state import State
from enmf.run.method import Method

PATIENCE = 3  # full exchanges allowed without a decrease in the number of infeasible indices


@dataclass(frozen=True)
class ANLSBPP(Method):
    """Each factor to optimality in turn."""

    needs = frozenset({"normal equations"})

    def step(self, state: State, memory: Any, objective: float) -> None:
        for half in state.halves:
            half.replace(block_pivoting(*half.normal(), half.F))

    def step_flops(self, state: State) -> float:
        return super().step_flops(state) + 2.0 * sum(state.X.shape) * state.rank**3 / 3.0


@by_rows
def block_pivoting(G: np.ndarray, B: np.ndarray, start: np.ndarray | None = None) -> np.ndarray:
    """argmin over F >= 0 of 1/2 <F, F G> - <F, B>, row by row, exact to rounding (F, B: n x r; G: r x r).

    The support of `start` gives the first passive sets.
    """
    n, r = B.shape
    G64, B64 = np.ascontiguousarray(G, dtype=np.float64), np.ascontiguousarray(B, dtype=np.float64)
    usable = np.diag(G64) > 0
    passive = np.zeros((n, r), dtype=np.bool_) if start is None else np.ascontiguousarray((start > 0) & usable)
    F, D = np.zeros((n, r)), -B64
    failed = np.zeros(n, dtype=np.bool_)
    fewest, patience = np.full(n, r + 1), np.full(n, PATIENCE)
    rows = np.arange(n)
    tolerance = 1e-12 * np.abs(B64).max(axis=1, initial=0.0)
    for _ in range(100 + 10 * r):
        _solve(G64, B64, passive, rows, F, D, failed)
        rows = rows[~failed[rows]]
        infeasible = np.where(passive[rows], F[rows] < 0, D[rows] < -tolerance[rows, None]) & usable
        count = infeasible.sum(axis=1)
        rows, infeasible, count = rows[count > 0], infeasible[count > 0], count[count > 0]
        if len(rows) == 0:
            break
        better = count < fewest[rows]
        fewest[rows[better]], patience[rows[better]] = count[better], PATIENCE
        patience[rows[~better]] -= 1
        single = patience[rows] < 0
        if single.any():
            last = r - 1 - infeasible[single][:, ::-1].argmax(axis=1)
            infeasible[single] = np.arange(r) == last[:, None]
        passive[rows] ^= infeasible
    _finish_by_active_set(G64, B64, F, np.union1d(rows, np.flatnonzero(failed)))
    return np.asfortranarray(np.maximum(F, 0), dtype=B.dtype)


def _solve(
    G: np.ndarray,
    B: np.ndarray,
    passive: np.ndarray,
    rows: np.ndarray,
    F: np.ndarray,
    D: np.ndarray,
    failed: np.ndarray,
) -> None:
    """Least squares for the rows, grouped by passive set."""
    if len(rows) == 0:
        return
    keys = np.packbits(passive[rows], axis=1)
    by_set = np.lexsort(keys.T)
    ordered = keys[by_set]
    new = np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1))
    borders = np.append(np.flatnonzero(new), len(rows))
    bounds = parallel.even_bounds(len(borders) - 1, len(G) ** 3 / 3.0 * len(rows) / len(borders))
    parallel.run(pivoting.solve_groups, bounds, G, B, passive, rows[by_set], borders, F, D, failed)


def _finish_by_active_set(G: np.ndarray, B: np.ndarray, F: np.ndarray, rows: np.ndarray) -> None:
    if len(rows):
        part = np.zeros((G.shape[0], len(rows)))
        active_set.nnls(0, len(rows), G, np.ascontiguousarray(B[rows].T), part)
        F[rows] = part.T
