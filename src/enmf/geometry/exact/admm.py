"""The generalized ADMM (paper, appendix A, Algorithm "rsr").

    minimize  sum_ij h([W3]_ij),  h(q) = max(0, -q)
    subject to  W1 = W R1,   W2 = [W11 L; W12 L⁻¹],   W3 = W2 R2ᵀ,   R1, R2 orthogonal,  L > 0 diagonal

with W = [U; V] and scaled duals M, N, P of the three constraints. (The paper writes R2 where this file has R2ᵀ, so
that A = R1 L R2ᵀ as in its eq. gen_2.) Every update has a closed form except that of L, one quartic per lambda. W is
first divided by its mean absolute entry: the weights rho, gamma and t then have no unit, and 1 works for all of them.
"""

from __future__ import annotations

import numpy as np

from enmf.linalg.rotation import negative_share, procrustes

NEWTON_STEPS = 40


class GeneralAdmm:
    """State of one run of Algorithm "rsr"; `A` is the transform reached."""

    def __init__(
        self, U: np.ndarray, V: np.ndarray, R: np.ndarray, rho: float = 1.0, gamma: float = 1.0, t: float = 1.0
    ) -> None:
        W = np.vstack([U, V])
        scale = np.abs(W).mean()
        self.W = W / scale if scale > 0 else W  # (n + m) x r
        self.n = len(U)
        self.iterations = 0
        self.rho, self.gamma, self.t = rho, gamma, t
        r = W.shape[1]
        self.R1, self.R2, self.lam = np.eye(r), R.T.copy(), np.ones(r)
        self.W2 = self.W.copy()
        self.M, self.N, self.P = (np.zeros_like(self.W) for _ in range(3))

    @property
    def A(self) -> np.ndarray:
        return (self.R1 * self.lam) @ self.R2.T

    def step(self) -> None:
        W, rho, gamma, t = self.W, self.rho, self.gamma, self.t
        scaling = self._scaling()
        B = self.W2 @ self.R2.T - self.P
        W3 = np.where(B > 0, B, np.minimum(B + 1.0 / t, 0.0))
        W1 = (rho * (W @ self.R1 - self.M) + gamma * scaling * (self.W2 + self.N)) / (rho + gamma * scaling**2)
        self.R1 = procrustes(W.T @ (W1 + self.M))
        self.W2 = (gamma * (W1 * scaling - self.N) + t * (W3 + self.P) @ self.R2) / (gamma + t)
        self.R2 = procrustes(self.W2.T @ (W3 + self.P)).T
        self._update_lambda(W1, self.W2 + self.N)
        self.M += W1 - W @ self.R1
        self.N += self.W2 - W1 * self._scaling()
        self.P += W3 - self.W2 @ self.R2.T
        self.iterations += 1

    def negative_share(self) -> float:
        """Negative share of the point (U A, V A⁻ᵀ) itself, not of W3."""
        return negative_share(self.W @ self.R1 * self._scaling() @ self.R2.T)

    def _scaling(self) -> np.ndarray:
        """lambda for the rows of U, 1 / lambda for those of V  # (n + m) x r"""
        return np.where((np.arange(len(self.W)) < self.n)[:, None], self.lam, 1.0 / self.lam)

    def _update_lambda(self, W1: np.ndarray, target: np.ndarray) -> None:
        n = self.n
        a, d = (W1[:n] ** 2).sum(axis=0), (W1[n:] ** 2).sum(axis=0)
        b, c = (target[:n] * W1[:n]).sum(axis=0), (target[n:] * W1[n:]).sum(axis=0)
        self.lam = positive_root(a, b, c, d, self.lam)


def positive_root(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The minimizer over x > 0 of a/2 x² - b x + d/2 x⁻² - c x⁻¹, that is a positive root of a x⁴ - b x³ + c x - d = 0.

    Newton's method on all columns at once, kept inside a bracket: the quartic is negative near 0 and positive far out
    (a, d > 0). The bracket grows from the start, so if there are several roots, the one next to it is found. A column
    with a = 0 or d = 0 has no finite minimizer and keeps its value.
    """
    x, solvable = start.copy(), (a > 0) & (d > 0)
    if not solvable.any():
        return x
    a, b, c, d = (np.where(solvable, coefficient, 1.0) for coefficient in (a, b, c, d))

    def quartic(x: np.ndarray) -> np.ndarray:
        return ((a * x - b) * x * x + c) * x - d

    low, high = x.copy(), x.copy()
    for _ in range(60):
        below, above = quartic(low) > 0, quartic(high) < 0
        if not (below | above).any():
            break
        low, high = np.where(below, low / 2, low), np.where(above, high * 2, high)
    y = x
    for _ in range(NEWTON_STEPS):
        value = quartic(y)
        low, high = np.where(value <= 0, y, low), np.where(value >= 0, y, high)
        slope = (4.0 * a * y - 3.0 * b) * y * y + c
        step = np.divide(value, slope, out=np.full_like(y, np.inf), where=slope > 0)
        after = y - step
        after = np.where((after > low) & (after < high), after, 0.5 * (low + high))
        done = (np.abs(after - y) <= 1e-14 * y).all()
        y = after
        if done:
            break
    return np.where(solvable, y, x)
