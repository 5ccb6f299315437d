"""adm: alternating directions for a matrix with missing entries (Xu, Yin, Wen and Zhang 2012).

Unconstrained copies P, Q of the factors and the completed matrix Z:
    P = (Z Q + alpha (U - Y)) (QᵀQ + alpha I + p)⁻¹ ;  Q = (Zᵀ P + beta (V - T)) (PᵀP + beta I + q)⁻¹
    Z = P Qᵀ + R(P, Q) ;  U = max(0, P + Y) ;  V = max(0, Q + T)
    Y += gamma (P - U) ;  T += gamma (Q - V)
with duals scaled by alpha and beta. Z is never formed: Z C = P (Qᵀ C) + R C.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from enmf.problem.state import State
from enmf.run.method import Method


@dataclass
class Copies:
    """The memory of adm."""

    P: np.ndarray
    Q: np.ndarray
    Y: np.ndarray
    T: np.ndarray
    alpha: float
    beta: float


@dataclass(frozen=True)
class ADM(Method):
    """Alternating directions on the whole problem.

    Parameters
    ----------
    rho : float
        alpha and beta relative to the mean diagonal of QᵀQ and PᵀP at the start (the original gives them in the units
        of its test problems).
    gamma : float
        Step length of the duals.
    """

    rho: float = 0.1
    gamma: float = 1.618

    needs = frozenset({"residual", "products", "all rows"})  # it multiplies X by P and Q
    monotone = False

    def begin(self, state: State) -> Copies:
        rows, columns = state.halves
        alpha, beta = (self.rho * float(np.trace(half.gram)) / state.rank for half in (columns, rows))
        return Copies(rows.F.copy(), columns.F.copy(), np.zeros_like(rows.F), np.zeros_like(columns.F), alpha, beta)

    def step(self, state: State, memory: Copies, objective: float) -> None:
        X: Any = state.X
        P, Q, U, V = memory.P, memory.Q, state.U, state.V
        heaviest = X.heaviest()  # with R divided by it, Z majorizes the weighted error
        ridge_U, ridge_V = (half.penalty.per_row(len(half.F)) / heaviest for half in state.halves)
        alpha, beta, gamma, step = (
            np.asarray(c, U.dtype) for c in (memory.alpha, memory.beta, self.gamma, 1.0 / heaviest)
        )
        RQ, _ = X.residual_times(X.rows, P, Q)
        P_new = solve_rows(Q.T @ Q, P @ (Q.T @ Q) + step * RQ + alpha * (U - memory.Y), alpha + ridge_U)
        RtP, _ = X.residual_times(X.columns, Q, P, P_new)
        Q_new = solve_rows(P_new.T @ P_new, Q @ (P.T @ P_new) + step * RtP + beta * (V - memory.T), beta + ridge_V)
        state.replace(*(np.asfortranarray(np.maximum(F, 0)) for F in (P_new + memory.Y, Q_new + memory.T)))
        memory.Y = memory.Y + gamma * (P_new - state.U)
        memory.T = memory.T + gamma * (Q_new - state.V)
        memory.P, memory.Q = P_new, Q_new


def solve_rows(G: np.ndarray, B: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """F with F_i (G + shift_i I) = B_i: one eigendecomposition serves all shifts. Null directions get 0."""
    values, Q = np.linalg.eigh(G)
    values = np.maximum(values, 0)
    total = values + np.broadcast_to(shift, len(B))[:, None].astype(G.dtype)
    smallest = np.finfo(G.dtype).eps * len(G) * max(float(values.max(initial=0.0)), np.finfo(G.dtype).tiny)
    turned = B @ Q
    np.divide(turned, total, out=turned, where=total > smallest)
    turned[total <= smallest] = 0
    return np.asfortranarray(turned @ Q.T)
