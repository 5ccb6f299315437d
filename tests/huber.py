"""A second loss, to show that one is a file of its own: Huber's, which forgives large residuals.

    D = sum h(x - m),   h(t) = t²/2 where |t| <= delta, delta |t| - delta²/2 beyond

delta is a share of the root mean square of X, so that the loss has no unit of its own. For fixed weights
w = min(1, delta / |t|), 1/2 sum w t² plus a constant lies above the loss and touches it: a coordinate step that
minimizes it never increases the loss. Every row has a curvature of its own.
"""

from dataclasses import dataclass

import numpy as np

from enmf.losses.base import Loss
from enmf.matrix.sweeps import extrapolate, measure_gradient


@dataclass(frozen=True)
class Huber(Loss):
    share: float = 0.5

    name = "huber"
    degree = 2.0

    def delta(self, X):
        return self.share * np.sqrt(X.squared_norm() / X.raw().size)

    def mass(self, X):
        return X.squared_norm()

    def value(self, state):
        if "huber" not in state.joint:
            t, delta = np.abs(state.X.raw() - state.U @ state.V.T), self.delta(state.X)
            state.joint["huber"] = float(np.where(t <= delta, t * t / 2, delta * t - delta * delta / 2).sum())
        return state.joint["huber"]

    def residual(self, half):
        X = half.X.raw()
        return (X.T if half.side else X) - half.F @ half.other.F.T

    def half_step(self, half, how):
        F, C, penalty, delta = half.F, half.other.F, half.penalty, self.delta(half.X)
        R = self.residual(half)
        for _ in range(how.sweeps):
            W = np.minimum(1.0, delta / np.maximum(np.abs(R), 1e-300))
            for k in range(F.shape[1]):
                slope = (W * R) @ C[:, k] - penalty.l1 - penalty.l2 * F[:, k]
                curvature = W @ C[:, k] ** 2 + penalty.l2
                step = np.divide(slope, curvature, out=np.zeros_like(slope), where=curvature > 0)
                new = np.maximum(F[:, k] + step, 0)
                R -= np.outer(new - F[:, k], C[:, k])
                F[:, k] = new
        if how.momentum is not None:
            extrapolate(F, how.momentum)
        half.changed()

    def measure(self, half):
        F, delta = half.F, self.delta(half.X)
        slope = np.clip(self.residual(half), -delta, delta) @ half.other.F
        B = np.asfortranarray(slope - half.penalty.l1 - half.penalty.l2 * F)
        return measure_gradient(F, np.zeros((F.shape[1], F.shape[1])), B)
