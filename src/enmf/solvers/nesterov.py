"""Two methods with Nesterov's acceleration.

nenmf  Guan, Tao, Luo and Yuan 2012: each nonnegative least squares problem by the optimal gradient method
           F = max(0, Y - (Y G - B) / L) ;  a' = (1 + sqrt(4 a² + 1)) / 2 ;  Y = F + (a - 1)/a' (F - F_old) ;  L = ||G||
       until the projected gradient has fallen to a tolerance, which shrinks tenfold when the start already satisfies it
fpgm   Xu and Yin 2013 (accelerated block proximal gradient): one extrapolated gradient step for each factor
           Fh = F + w (F - F_old) ;  F = max(0, Fh - (Fh G - B) / L) ;
           w = min((t_old - 1)/t, 0.9999 sqrt(L_old/L)),  t = (1 + sqrt(1 + 4 t_old²)) / 2
       and the same step without extrapolation whenever the objective has increased
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from enmf.parallel import matmul
from enmf.problem.state import Half, State
from enmf.run.method import Method
from enmf.solvers.als import AlternatingNNLS


def optimal_gradient_nnls(
    F: np.ndarray, G: np.ndarray, B: np.ndarray, tolerance: float, max_steps: int
) -> tuple[np.ndarray, int]:
    """min over F >= 0 of 1/2 <F, F G> - <F, B> from the given F; the solution and the number of steps.

    The acceleration restarts whenever it would go against the gradient, so that the objective never increases.
    """
    lipschitz = float(np.linalg.norm(G, 2))
    if lipschitz == 0.0:
        return F, 0
    size = np.asarray(1.0 / lipschitz, F.dtype)
    Y, a = F, 1.0
    for count in range(max_steps):
        D = matmul(Y, G) - B
        if count == 0 and _projected_norm(F, D) <= tolerance:
            return F, 0
        new = np.maximum(Y - size * D, 0)
        step = new - F
        if count > 0 and np.vdot(D.T, step.T) > 0:
            Y, a = F, 1.0
            D = matmul(Y, G) - B
            new = np.maximum(Y - size * D, 0)
            step = new - F
        if np.linalg.norm(new - Y) * lipschitz <= tolerance:
            return np.asfortranarray(new), count + 1
        a_new = (1.0 + np.sqrt(4.0 * a * a + 1.0)) / 2.0
        Y = new + np.asarray((a - 1.0) / a_new, F.dtype) * step
        F, a = new, a_new
    return np.asfortranarray(F), max_steps


def _projected_norm(F: np.ndarray, D: np.ndarray) -> float:
    projected = D[(D < 0) | (F > 0)].astype(np.float64, copy=False)
    return float(np.sqrt(projected @ projected))


@dataclass(frozen=True)
class NeNMF(AlternatingNNLS):
    """Alternating optimal gradient."""

    inner: int = 8

    solver = staticmethod(optimal_gradient_nnls)


@dataclass
class Acceleration:
    """The memory of fpgm."""

    best: float = np.inf
    t: float = 1.0
    old: tuple[np.ndarray, np.ndarray] | None = None  # the pair before the last step
    lipschitz: list[float | None] = field(default_factory=lambda: [None, None])


@dataclass(frozen=True)
class FPGM(Method):
    """Accelerated block proximal gradient."""

    monotone = False
    judges = True

    def begin(self, state: State) -> Acceleration:
        return Acceleration()

    def rescaled(self, state: State, memory: Acceleration) -> Acceleration:
        return Acceleration()

    def step(self, state: State, memory: Acceleration, objective: float) -> None:
        if memory.old is None:
            memory.old = state.U, state.V
        elif objective > memory.best + state.rounding(objective):  # back to the previous pair, without extrapolation
            state.replace(*memory.old)
            memory.t, memory.best = 1.0, np.inf
        else:
            memory.best = objective
        t = (1.0 + np.sqrt(1.0 + 4.0 * memory.t**2)) / 2.0
        momentum = (memory.t - 1.0) / t
        before, memory.old = memory.old, (state.U, state.V)
        for half, old in zip(state.halves, before):
            half.replace(_proximal_step(half, old, momentum, memory))
        memory.t = t


def _proximal_step(half: Half, old: np.ndarray, momentum: float, memory: Acceleration) -> np.ndarray:
    G, B = half.normal()
    F, lipschitz = half.F, float(np.linalg.norm(G, 2))
    if lipschitz == 0.0:
        return F
    before = memory.lipschitz[half.side] or lipschitz
    memory.lipschitz[half.side] = lipschitz
    weight = min(momentum, 0.9999 * float(np.sqrt(before / lipschitz)))
    ahead = F + np.asarray(weight, F.dtype) * (F - old)
    return np.asfortranarray(np.maximum(ahead - np.asarray(1.0 / lipschitz, F.dtype) * (matmul(ahead, G) - B), 0))
