"""The last stretch to the orthant: damped Gauss-Newton steps on the transform itself.

    minimize  f(A) = 1/2 ||min(0, U A)||² + 1/2 ||min(0, V A⁻ᵀ)||²        over invertible A

In the coordinates A (I + D) both halves are linear in D to first order, P (I + D) and Q (I - Dᵀ) with P = U A and
Q = V A⁻ᵀ, and only their negative entries count: a least-squares problem for D, with Levenberg-Marquardt damping,
solved by conjugate gradients that need only products with P and Q. The ADMM is slow where the solution is unique;
there these steps converge quadratically from a start in the right basin, which the ADMM provides.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

ROUNDING = 1e-14  # norm of the negative part over that of the whole, below which the point is nonnegative

PATIENCE = 10  # steps within which f must halve; otherwise the basin is the wrong one


def refine(U: np.ndarray, V: np.ndarray, A: np.ndarray, max_iter: int = 100) -> tuple[np.ndarray, int]:
    """A better A, with balanced columns of (U A, V A⁻ᵀ), and the number of steps; f never increases between steps."""
    A = balanced(U, V, A)
    P, Q = U @ A, V @ np.linalg.inv(A).T
    whole = _squares(P) + _squares(Q)
    value, damping, identity = _below(P, Q), 1e-2, np.eye(len(A))
    earlier = np.inf
    for step in range(max_iter):
        if step % PATIENCE == 0:
            if value > 0.5 * earlier:
                return A, step
            earlier = value
        if value <= ROUNDING**2 * whole:
            return A, step
        gradient = P.T @ np.minimum(P, 0) - np.minimum(Q, 0).T @ Q
        improved = False
        while damping < 1e6 and not improved:
            D = -_solve(P, Q, gradient, damping)
            trial = A @ (identity + D)
            if np.linalg.cond(trial) < 1e12:
                P_trial, Q_trial = U @ trial, V @ np.linalg.inv(trial).T
                improved = _below(P_trial, Q_trial) < value
            damping = max(damping / 4.0, 1e-10) if improved else 4.0 * damping
        if not improved:
            return A, step
        A = balanced(U, V, trial)
        P, Q = U @ A, V @ np.linalg.inv(A).T
        value = _below(P, Q)
    return A, max_iter


def balanced(U: np.ndarray, V: np.ndarray, A: np.ndarray) -> np.ndarray:
    """A with its columns scaled such that those of U A and V A⁻ᵀ are equally long.

    The scale of a column changes no sign, but it changes how much a negative entry counts: without balancing, the
    distance could be lowered by shrinking the factor that has negative entries.
    """
    u, v = np.linalg.norm(U @ A, axis=0), np.linalg.norm(V @ np.linalg.inv(A).T, axis=0)
    ratio = np.divide(v, u, out=np.ones_like(u), where=(u > 0) & (v > 0))
    return A * np.sqrt(ratio)


def _solve(P: np.ndarray, Q: np.ndarray, gradient: np.ndarray, damping: float) -> np.ndarray:
    """(H + damping) D = gradient by conjugate gradients; H is the Gauss-Newton matrix, its mean diagonal the unit."""
    negative_P, negative_Q = (P < 0).astype(float), (Q < 0).astype(float)
    r = len(gradient)
    shift = damping * (_squares(P[negative_P.any(axis=1)]) + _squares(Q[negative_Q.any(axis=1)])) / r**2

    def times(d: np.ndarray) -> np.ndarray:
        D = d.reshape(r, r)
        return (P.T @ (negative_P * (P @ D)) + (negative_Q * (Q @ D.T)).T @ Q + shift * D).ravel()

    H = LinearOperator((r * r, r * r), matvec=times, dtype=np.float64)
    D, _ = cg(H, gradient.ravel(), rtol=1e-4, atol=0.0, maxiter=100 + 8 * r)
    return D.reshape(r, r)


def _squares(F: np.ndarray) -> float:
    return float(np.vdot(F, F))


def _below(P: np.ndarray, Q: np.ndarray) -> float:
    return _squares(np.minimum(P, 0)) + _squares(np.minimum(Q, 0))
