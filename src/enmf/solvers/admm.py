"""Two alternating direction methods (ADMM).

ao-admm   Huang, Sidiropoulos and Liavas 2016: alternate between the factors; each nonnegative least squares problem is
          approached by a few ADMM iterations with one Cholesky factor, warm-started with its dual:
              T = (B + rho (F + Y)) (G + rho I)⁻¹ ;  F = max(0, T - Y) ;  Y = Y + F - T ,   rho = trace(G) / r
nmf-admm  ADMM on the whole problem (compare Hajinezhad et al. 2016): minimize 1/2 ||X - P Qᵀ||² with P = U, Q = V and
          U, V >= 0; P and Q are unconstrained, the duals Y, W scaled by rho:
              P = (X Q + rho (U - Y)) (QᵀQ + rho I)⁻¹ ;  Q = (Xᵀ P + rho (V - W)) (PᵀP + rho I)⁻¹
              U = max(0, P + Y) ;  V = max(0, Q + W) ;  Y = Y + P - U ;  W = W + Q - V
          The result is the pair (U, V), which is feasible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from enmf.parallel import matmul
from enmf.problem.state import State
from enmf.run.method import Method


@dataclass(frozen=True)
class AOADMM(Method):
    """Alternating optimization with inner ADMM.

    Parameters
    ----------
    inner : int
        Largest number of ADMM iterations per product with X.
    epsilon : float
        ADMM ends when the squared primal and dual residuals are below this share of the squared norms.
    """

    inner: int = 5
    epsilon: float = 1e-6

    monotone = False

    def begin(self, state: State) -> list[np.ndarray | None]:
        """The duals of U and of V."""
        return [None, None]

    def rescaled(self, state: State, memory: Any) -> Any:
        return self.begin(state)

    def step(self, state: State, memory: list[np.ndarray | None], objective: float) -> None:
        for half in state.halves:
            F, memory[half.side] = self._solve(half.F, memory[half.side], *half.normal())
            half.replace(F)

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


@dataclass
class Split:
    """The memory of nmf-admm: unconstrained copies and duals of both factors, and their penalty parameters."""

    copies: list[np.ndarray]
    duals: list[np.ndarray]
    rho: list[np.ndarray]


@dataclass(frozen=True)
class NMFADMM(Method):
    """ADMM on the whole problem.

    Parameters
    ----------
    rho : float
        Penalty parameter of a factor, relative to the norm of the Gram matrix of the other one at the start. Small
        values diverge, large ones are slow.
    """

    rho: float = 1.0

    needs = frozenset({"normal equations", "products", "all rows"})  # it multiplies X by the copies
    monotone = False

    def begin(self, state: State) -> Split:
        rho = [self.rho * float(np.linalg.norm(half.other.gram, 2)) for half in state.halves]
        return Split(
            [half.F.copy() for half in state.halves],
            [np.zeros_like(half.F) for half in state.halves],
            [np.asarray(weight, state.V.dtype) for weight in rho],
        )

    def rescaled(self, state: State, memory: Split) -> Split:
        return self.begin(state)

    def step(self, state: State, memory: Split, objective: float) -> None:
        eye = np.eye(state.rank, dtype=state.V.dtype)
        for half in state.halves:
            side, C = half.side, memory.copies[1 - half.side]
            product, _ = state.X.product(side, C)
            G, B = half.penalty.normal(C.T @ C, product)
            rho = memory.rho[side]
            memory.copies[side] = _solve_right(B + rho * (half.F - memory.duals[side]), G + rho * eye)
        for half in state.halves:
            P, Y = memory.copies[half.side], memory.duals[half.side]
            half.replace(np.asfortranarray(np.maximum(P + Y, 0)))
            memory.duals[half.side] = Y + P - half.F


def _solve_right(B: np.ndarray, G: np.ndarray) -> np.ndarray:
    """B G⁻¹ for a symmetric positive definite G; B G⁺ where G is singular."""
    try:
        return np.linalg.solve(G, B.T).T
    except np.linalg.LinAlgError:
        return B @ np.linalg.pinv(G, hermitian=True)
