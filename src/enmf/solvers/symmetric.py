"""symmetric: X ~ U Uᵀ by coordinate sweeps and an exact search along the way they went.

    W = some sweeps of  1/2 ||X - W Uᵀ||²  over W >= 0 from W = U,    D = W - U,    U <- U + t D

The gradient of 1/4 ||X - U Uᵀ||² is that of the convex 1/2 ||X - W Uᵀ||² at W = U, so D descends. Along it
    4 f(t) = ||M||² + 4 t <M, U Dᵀ> + t² (||S||² + 2 <M, D Dᵀ>) + 2 t³ <S, D Dᵀ> + t⁴ ||D Dᵀ||²,
    M = U Uᵀ - X,   S = U Dᵀ + D Uᵀ
is a polynomial from r x r products and X D, the only product with X of a step; its smallest value for 0 < t <= 1, where
U + t D >= 0, is found exactly. Both factors are equal all the time. Where a sweep has put an entry at zero, halving
would never get there: what is negligible is set to zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from enmf.matrix.factor import inner
from enmf.matrix.sweeps import Sweep, coordinate_sweeps
from enmf.parallel import matmul
from enmf.problem.state import State
from enmf.solvers.hals import AcceleratedHALS

AFRESH = 20  # steps after which X U is computed anew: its updates round


@dataclass
class Count:
    """The memory of a descent."""

    steps: int = 0


@dataclass(frozen=True)
class SymmetricHALS(AcceleratedHALS):
    """Sweeps of U against itself.

    Parameters
    ----------
    drop : float
        Entries below this share of the mean entry that sweeps set to zero become zero.
    """

    drop: float = 1e-6

    needs = frozenset({"half-step", "normal equations", "all rows"})
    bursts = False

    def begin(self, state: State) -> Count:
        return Count()

    def step(self, state: State, memory: Count, objective: float) -> None:
        rows, columns = state.halves
        U, (G, XU) = rows.F, rows.normal()
        W = U.copy(order="F")
        coordinate_sweeps(W, G, XU, Sweep(self.most_sweeps(rows), self.progress))
        D = W - U
        XD = state.X.times(D)
        t = _best_step(U, G, XU, D, XD)
        new = np.maximum(U + np.asarray(t, U.dtype) * D, 0)
        new[(W == 0) & (new < self.drop * U.mean())] = 0
        memory.steps += 1
        known = {} if memory.steps % AFRESH == 0 else {"across": np.asfortranarray(XU + np.asarray(t, U.dtype) * XD)}
        for half in (rows, columns):
            half.F = np.asfortranarray(new)
            half.changed(**known)


def _best_step(U: np.ndarray, G: np.ndarray, XU: np.ndarray, D: np.ndarray, XD: np.ndarray) -> float:
    """The t in 0 < t <= 1 with the smallest error; 0 if there is no descent."""
    UtD, DtD = matmul(U.T, D).astype(np.float64), matmul(D.T, D).astype(np.float64)
    first = 4.0 * (float(np.vdot(G, UtD)) - inner(XU, D))
    second = 2.0 * (float(np.vdot(G, DtD)) + float(np.vdot(UtD, UtD.T)))
    second += 2.0 * (float(np.vdot(UtD, UtD)) - inner(XD, D))
    third, fourth = 4.0 * float(np.vdot(UtD, DtD)), float(np.vdot(DtD, DtD))
    if not np.isfinite(fourth) or fourth == 0.0:
        return 0.0
    roots = np.roots([4.0 * fourth, 3.0 * third, 2.0 * second, first])
    tries = [1.0, *(float(root.real) for root in roots if abs(root.imag) < 1e-9 and 0.0 < root.real < 1.0)]
    values = [first * t + second * t**2 + third * t**3 + fourth * t**4 for t in tries]
    best = int(np.argmin(values))
    return tries[best] if values[best] < 0.0 else 0.0
