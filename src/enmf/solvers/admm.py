"""Two methods by alternating directions (ADMM).

ao-admm   Huang, Sidiropoulos and Liavas 2016: alternate between the factors; each nonnegative least squares problem is
          approached by a few ADMM iterations with one Cholesky factor, warm-started with its dual:
              T = (B + rho (F + Y)) (G + rho I)⁻¹ ;  F = max(0, T - Y) ;  Y = Y + F - T ,   rho = trace(G) / r
nmf-admm  ADMM on the whole problem (compare Hajinezhad et al. 2016): minimize 1/2 ||X - P Qᵀ||² with P = U, Q = V and
          U, V >= 0; P and Q are unconstrained, the duals Y, W scaled by rho:
              P = (X Q + rho (U - Y)) (QᵀQ + rho I)⁻¹ ;  Q = (Xᵀ P + rho (V - W)) (PᵀP + rho I)⁻¹
              U = max(0, P + Y) ;  V = max(0, Q + W) ;  Y = Y + P - U ;  W = W + Q - V
          The pair (U, V) is what one gets: it is feasible.
"""

from __future__ import annotations

import numpy as np

from enmf.parallel import matmul
from enmf.problem.state import Iterate, penalized
from enmf.run.method import Method


class AOADMM(Method):
    """Alternating optimization with ADMM inside.

    Parameters
    ----------
    inner : int
        Largest number of ADMM iterations for each product with X.
    epsilon : float
        They end when the squared primal and dual residuals are below this share of the squared norms.
    """

    name = "ao-admm"
    monotone = False

    def __init__(self, inner: int = 5, epsilon: float = 1e-6) -> None:
        self.inner, self.epsilon = inner, epsilon
        self._dual_U: np.ndarray | None = None
        self._dual_V: np.ndarray | None = None

    def step(self, it: Iterate, objective: float) -> None:
        U, self._dual_U = self._solve(it.U, self._dual_U, *it.normal_U())
        it.set_U(U)
        V, self._dual_V = self._solve(it.V, self._dual_V, *it.normal_V())
        it.set_V(V)

    def forget(self) -> None:
        self._dual_U = self._dual_V = None

    def _solve(
        self, F: np.ndarray, dual: np.ndarray | None, G: np.ndarray, B: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        rho = float(np.trace(G)) / len(G)
        Y = np.zeros_like(F) if dual is None else dual
        if rho == 0.0:
            return F, Y
        inverse = np.linalg.inv(G + np.asarray(rho, G.dtype) * np.eye(len(G), dtype=G.dtype))
        for _ in range(self.inner):
            T = matmul(B + np.asarray(rho, B.dtype) * (F + Y), inverse)
            new = np.maximum(T - Y, 0)
            moved = float(np.linalg.norm(new - F))
            F = new
            Y += F - T
            primal = float(np.linalg.norm(F - T))
            if primal**2 <= self.epsilon * np.linalg.norm(F) ** 2 and moved**2 <= self.epsilon * np.linalg.norm(Y) ** 2:
                break
        return np.asfortranarray(F), Y


class NMFADMM(Method):
    """ADMM on the whole problem.

    Parameters
    ----------
    rho : float
        Penalty parameter of a factor, relative to the norm of the Gram matrix of the other one at the start. Small ones
        diverge, large ones are slow.
    """

    name = "nmf-admm"
    monotone = False
    reuses_products = False  # its products are those of P and Q

    def __init__(self, rho: float = 1.0) -> None:
        self.rho = rho
        self._state: tuple[np.ndarray, ...] | None = None

    def forget(self) -> None:
        self._state = None

    def step(self, it: Iterate, objective: float) -> None:
        if self._state is None:
            self._weights = tuple(self.rho * float(np.linalg.norm(G, 2)) for G in (it.VtV, it.UtU))
            self._state = it.U.copy(), it.V.copy(), np.zeros_like(it.U), np.zeros_like(it.V)
        _, Q, Y, W = self._state
        U, V, X = it.U, it.V, it.X
        rho_U, rho_V = (np.asarray(w, U.dtype) for w in self._weights)
        G, B = penalized(Q.T @ Q, X.times(Q), it.penalty.l1_U, it.penalty.l2_U)
        eye = np.eye(it.rank, dtype=U.dtype)
        P = _solve_right(B + rho_U * (U - Y), G + rho_U * eye)
        G, B = penalized(P.T @ P, X.transpose_times(P), it.penalty.l1_V, it.penalty.l2_V)
        Q = _solve_right(B + rho_V * (V - W), G + rho_V * eye)
        it.set_U(np.asfortranarray(np.maximum(P + Y, 0)))
        it.set_V(np.asfortranarray(np.maximum(Q + W, 0)))
        self._state = P, Q, Y + P - it.U, W + Q - it.V


def _solve_right(B: np.ndarray, G: np.ndarray) -> np.ndarray:
    """B G⁻¹ for a symmetric positive definite G; B G⁺ where G is singular."""
    try:
        return np.linalg.solve(G, B.T).T
    except np.linalg.LinAlgError:
        return B @ np.linalg.pinv(G, hermitian=True)
