"""Descent methods on the observed entries: the paper's opponents and the one that ends eNMC.

masked-scd    sequential coordinate descent, several sweeps of each row's own r x r problem
              Lin and Boutros 2018.
masked-mu     multiplicative updates  u <- u * ((W o X) V) / ((W o U Vᵀ) V + p u)
              Lin and Boutros 2018.
adm           alternating directions with unconstrained copies P, Q of the factors and the completed matrix Z
              Xu, Yin, Wen and Zhang 2012:
                  P = (Z Q + alpha (U - Y)) (QᵀQ + alpha I + p)⁻¹ ;  Q = (Zᵀ P + beta (V - T)) (PᵀP + beta I + q)⁻¹
                  Z = P Qᵀ + R(P, Q) ;  U = max(0, P + Y) ;  V = max(0, Q + T)
                  Y += gamma (P - U) ;  T += gamma (Q - V)
              with duals scaled by alpha and beta. Z is never formed: Z C = P (Qᵀ C) + R C.
masked-e-scd  masked-scd with few sweeps and extrapolation (Ang and Gillis 2019), the descent of eNMC
"""

from __future__ import annotations

import numpy as np

from enmf.matrix.base import Momentum
from enmf.problem.masked import MaskedIterate
from enmf.problem.state import Iterate
from enmf.run.method import Method, extrapolate
from enmf.solvers.hals import ExtrapolatedHALS


def masked(it: Iterate) -> MaskedIterate:
    assert isinstance(it, MaskedIterate)
    return it


class MaskedSCD(Method):
    """Coordinate sweeps, both factors in turn.

    Parameters
    ----------
    sweeps : int
        Largest number of sweeps for each row problem.
    progress : float
        Sweeps of a row end when one changes it by less than this share of the first.
    """

    name = "masked-scd"
    reuses_products = False

    def __init__(self, sweeps: int = 50, progress: float = 1e-4) -> None:
        self.sweeps, self.progress = sweeps, progress

    def step(self, it: Iterate, objective: float) -> None:
        masked(it).sweep_U(self.sweeps, self.progress)
        masked(it).sweep_V(self.sweeps, self.progress)

    def step_flops(self, it: Iterate) -> float:
        return _row_problem_flops(it)


class MaskedExtrapolated(ExtrapolatedHALS):
    """Coordinate sweeps with extrapolation; the error at the extrapolated pair decides on restarts, so it is charged.

    Parameters
    ----------
    max_sweeps : int
        Largest number of sweeps for each row problem.
    progress : float
        Sweeps of a row end when one changes it by less than this share of the first.
    **extrapolation
        beta, growth, cap_growth, shrink of `e-hals`.
    """

    name = "masked-e-scd"
    one_pass = False

    def __init__(self, max_sweeps: int = 10, progress: float = 0.01, **extrapolation: float) -> None:
        super().__init__(progress=progress, **extrapolation)
        self.max_sweeps = max_sweeps

    def sweeps(self, it: Iterate) -> tuple[int, int]:
        return self.max_sweeps, self.max_sweeps

    def update_U(self, it: Iterate, sweeps: int, momentum: Momentum | None = None) -> None:
        masked(it).sweep_U(sweeps, self.progress)
        if momentum is not None:
            extrapolate(it.U, momentum)

    def update_V(self, it: Iterate, sweeps: int, momentum: Momentum | None = None) -> None:
        masked(it).sweep_V(sweeps, self.progress)
        if momentum is not None:
            extrapolate(it.V, momentum)

    def step_flops(self, it: Iterate) -> float:
        return _row_problem_flops(it)


class MaskedMU(Method):
    """One multiplicative update of each factor.

    Parameters
    ----------
    drop : float
        Entries below this share of the mean entry that still shrink become zero, as in `mu`.
    """

    name = "masked-mu"

    def __init__(self, drop: float = 1e-12) -> None:
        self.drop = drop

    def step(self, it: Iterate, objective: float) -> None:
        it = masked(it)
        ridge = it.penalty
        it.set_U(self._update(it.U, it.X.times(it.V), it.RV, ridge.rows))
        it.set_V(self._update(it.V, it.X.transpose_times(it.U), it.RtU, ridge.columns))

    def _update(self, F: np.ndarray, XC: np.ndarray, RC: np.ndarray, ridge: np.ndarray) -> np.ndarray:
        denominator = XC - RC + ridge[:, None].astype(F.dtype) * F
        factor = np.ones_like(F)
        np.divide(XC, denominator, out=factor, where=(denominator > 0) & (XC >= 0))
        new = F * factor
        new[(new < self.drop * F.mean()) & (factor < 1)] = 0
        return np.asfortranarray(new)


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

    name = "adm"
    monotone = False
    reuses_products = False  # its products are those of P and Q

    def __init__(self, rho: float = 0.1, gamma: float = 1.618) -> None:
        self.rho, self.gamma = rho, gamma
        self._state: tuple[np.ndarray, ...] | None = None

    def step(self, it: Iterate, objective: float) -> None:
        it = masked(it)
        X = it.X
        if self._state is None:
            self._alpha = self.rho * float(np.trace(it.VtV)) / it.rank
            self._beta = self.rho * float(np.trace(it.UtU)) / it.rank
            self._state = it.U.copy(), it.V.copy(), np.zeros_like(it.U), np.zeros_like(it.V)
        P, Q, Y, T = self._state
        U, V = it.U, it.V
        heaviest = float(max(X.rows.weights.max(initial=0.0), 1.0))  # R over it: Z then majorizes the weighted error
        alpha, beta = (np.asarray(c, U.dtype) for c in (self._alpha, self._beta))
        step = np.asarray(1.0 / heaviest, U.dtype)
        RQ, _ = X.residual_times(X.rows, P, Q)
        P_new = solve_rows(Q.T @ Q, P @ (Q.T @ Q) + step * RQ + alpha * (U - Y), alpha + it.penalty.rows / heaviest)
        RtP, _ = X.residual_times(X.columns, Q, P, P_new)
        Q_new = solve_rows(
            P_new.T @ P_new, Q @ (P.T @ P_new) + step * RtP + beta * (V - T), beta + it.penalty.columns / heaviest
        )
        it.set_U(np.asfortranarray(np.maximum(P_new + Y, 0)))
        it.set_V(np.asfortranarray(np.maximum(Q_new + T, 0)))
        gamma = np.asarray(self.gamma, U.dtype)
        self._state = P_new, Q_new, Y + gamma * (P_new - it.U), T + gamma * (Q_new - it.V)


def solve_rows(G: np.ndarray, B: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """F with F_i (G + shift_i I) = B_i: one eigendecomposition serves all shifts. Directions without weight get 0."""
    values, Q = np.linalg.eigh(G)
    values = np.maximum(values, 0)
    total = values + np.broadcast_to(shift, len(B))[:, None].astype(G.dtype)
    smallest = np.finfo(G.dtype).eps * len(G) * max(float(values.max(initial=0.0)), np.finfo(G.dtype).tiny)
    turned = B @ Q
    np.divide(turned, total, out=turned, where=total > smallest)
    turned[total <= smallest] = 0
    return np.asfortranarray(turned @ Q.T)


def _row_problem_flops(it: Iterate) -> float:
    return 2.0 * it.rank * it.X.cost_per_column * max(1.0, it.rank / 8.0)


METHODS: dict[str, type[Method]] = {method.name: method for method in (MaskedSCD, MaskedExtrapolated, MaskedMU, ADM)}
