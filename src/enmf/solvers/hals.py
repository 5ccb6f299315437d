"""Hierarchical alternating least squares and its two accelerations.

hals    u_k <- max(0, u_k + (X v_k - U Vᵀ v_k) / ||v_k||²), one sweep over k for U, then for V
        Cichocki and Phan 2009; the paper's descent stage (section 4.3).
a-hals  several sweeps for each product with X, while they are cheap and still make progress
        Gillis and Glineur 2012.
e-hals  a-hals with extrapolation  U_y = max(0, U_new + beta (U_new - U_old))  and restart when the error grows
        Ang and Gillis 2019. The iterate is the extrapolated pair: it is nonnegative and its products are the ones at
        hand, so the error that decides about a restart costs nothing.
"""

from __future__ import annotations

import numpy as np

from enmf.matrix.base import Momentum
from enmf.problem.state import Iterate
from enmf.run.method import Method, sweep_U, sweep_V


class HALS(Method):
    """One coordinate sweep for each product."""

    name = "hals"
    one_pass = True
    in_blocks = True

    def step(self, it: Iterate, objective: float) -> None:
        sweep_U(it)
        sweep_V(it)


class AcceleratedHALS(Method):
    """Up to 1 + alpha * (cost of the product / cost of a sweep) sweeps for each product.

    Parameters
    ----------
    alpha : float
        Share of the product's cost that may be spent on further sweeps.
    progress : float
        Sweeps end when one changes the factor by less than this share of the first.
    """

    name = "a-hals"
    one_pass = True
    in_blocks = True

    def __init__(self, alpha: float = 0.5, progress: float = 0.1) -> None:
        self.alpha = alpha
        self.progress = progress

    def sweeps(self, it: Iterate) -> tuple[int, int]:
        """Largest number of sweeps for U and for V."""
        n, m = it.X.shape
        product = it.X.cost_per_column  # a column
        return tuple(  # type: ignore[return-value]
            1 + int(self.alpha * (1.0 + product / (2.0 * length * max(it.rank, 1)))) for length in (n, m)
        )

    def step(self, it: Iterate, objective: float) -> None:
        sweeps_U, sweeps_V = self.sweeps(it)
        self.update_U(it, sweeps_U)
        self.update_V(it, sweeps_V)

    def update_U(self, it: Iterate, sweeps: int, momentum: Momentum | None = None) -> None:
        sweep_U(it, sweeps, self.progress, momentum)

    def update_V(self, it: Iterate, sweeps: int, momentum: Momentum | None = None) -> None:
        sweep_V(it, sweeps, self.progress, momentum)


class ExtrapolatedHALS(AcceleratedHALS):
    """a-hals with extrapolation; beta grows while the objective falls and shrinks at a restart.

    Parameters
    ----------
    beta : float
        First extrapolation weight.
    growth, cap_growth, shrink : float
        gamma, gamma_bar and eta of Ang and Gillis (2019).
    """

    name = "e-hals"
    monotone = False

    def __init__(
        self,
        alpha: float = 0.5,
        progress: float = 0.1,
        beta: float = 0.5,
        growth: float = 1.05,
        cap_growth: float = 1.01,
        shrink: float = 1.5,
    ) -> None:
        super().__init__(alpha, progress)
        self.beta = beta
        self.growth, self.cap_growth, self.shrink = growth, cap_growth, shrink
        self._cap = 1.0
        self._last_beta = beta
        self._best = np.inf
        self._plain: tuple[np.ndarray, np.ndarray] | None = None  # the pair before extrapolation

    def step(self, it: Iterate, objective: float) -> None:
        if self._plain is None:
            self._plain = it.U.copy(order="F"), it.V.copy(order="F")
        elif (
            objective > self._best
        ):  # in doubt, too: a restart costs one product, momentum beyond the minimum much more
            self._restart(it)
        else:
            self._last_beta = self.beta
            self.beta = min(self._cap, self.growth * self.beta)
            self._cap = min(1.0, self.cap_growth * self._cap)
        self._best = objective

        U, V = self._plain
        sweeps_U, sweeps_V = self.sweeps(it)
        self.update_U(it, sweeps_U, Momentum(U, self.beta))
        self.update_V(it, sweeps_V, Momentum(V, self.beta))

    def forget(self) -> None:
        self._plain = None

    def _restart(self, it: Iterate) -> None:
        """Fall back to the last pair before extrapolation."""
        assert self._plain is not None
        U, V = self._plain
        it.set_U(U.copy(order="F"))
        it.set_V(V.copy(order="F"))
        self._cap = self._last_beta
        self.beta /= self.shrink
