"""Hierarchical alternating least squares and its two accelerations.

hals    u_k <- max(0, u_k + (X v_k - U Vᵀ v_k) / ||v_k||²), one sweep over k for U, then for V
        Cichocki and Phan 2009; the paper's descent stage (section 4.3).
a-hals  several sweeps per product with X, while they are cheap and still make progress
        Gillis and Glineur 2012.
e-hals  a-hals with extrapolation  U_y = max(0, U_new + beta (U_new - U_old))  and restart when the error grows
        Ang and Gillis 2019. The state is the extrapolated pair: it is nonnegative and its products are already
        known, so the error that triggers a restart costs nothing.

With missing entries each row has its own problem; hals is then the sequential coordinate descent of Lin and
Boutros 2018 ("masked-scd"), and e-hals the descent of eNMC ("masked-e-scd").
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from enmf.matrix.factor import copied
from enmf.matrix.sweeps import Momentum, Sweep
from enmf.problem.state import Half, State
from enmf.run.method import Method


class Sweeping(Method):
    """Coordinate sweeps of both factors in turn."""

    progress: float
    needs = frozenset({"half-step"})
    bursts = True

    def most_sweeps(self, half: Half) -> int:
        """Largest number of sweeps of this half."""
        raise NotImplementedError

    def begin(self, state: State) -> Any:
        """The half-steps of both halves."""
        return [Sweep(self.most_sweeps(half), self.progress) for half in state.halves]

    def step(self, state: State, memory: Any, objective: float) -> None:
        for half, how in zip(state.halves, memory):
            half.sweep(how)

    def enter_burst(self, memory: Any, burst: Any) -> tuple[int, int]:
        burst.progress = self.progress
        return memory[0].sweeps, memory[1].sweeps

    def step_flops(self, state: State) -> float:
        return state.problem.loss.step_flops(state.X, state.rank)


@dataclass(frozen=True)
class HALS(Sweeping):
    """A fixed number of sweeps per product.

    Parameters
    ----------
    sweeps : int
        Largest number of sweeps per product.
    progress : float
        Sweeps end when one changes the factor (each row, with missing entries) by less than this share of the first.
    """

    sweeps: int = 1
    progress: float = 0.0

    def most_sweeps(self, half: Half) -> int:
        return self.sweeps


@dataclass(frozen=True)
class AcceleratedHALS(Sweeping):
    """Up to 1 + alpha * (cost of the product / cost of a sweep) sweeps per product.

    Parameters
    ----------
    alpha : float
        Share of the product's cost that may be spent on further sweeps.
    progress : float
        Sweeps end when one changes the factor (each row, with missing entries) by less than this share of the first.
    max_sweeps : int, optional
        Largest number of sweeps, regardless of their cost.
    """

    alpha: float = 0.5
    progress: float = 0.1
    max_sweeps: int | None = None

    def most_sweeps(self, half: Half) -> int:
        if self.max_sweeps is not None:
            return self.max_sweeps
        before = half.loss.preparation(half)
        return 1 + int(self.alpha * (1.0 + before / (2.0 * len(half.F) * max(half.F.shape[1], 1))))


@dataclass
class Extrapolation:
    """The memory of e-hals."""

    sweeps: list[int]
    beta: float
    last_beta: float
    cap: float = 1.0
    best: float = np.inf
    plain: tuple[Any, Any] | None = None  # the pair before extrapolation


@dataclass(frozen=True)
class ExtrapolatedHALS(AcceleratedHALS):
    """a-hals with extrapolation; beta grows while the objective falls and shrinks at a restart.

    Parameters
    ----------
    beta : float
        Initial extrapolation weight.
    growth, cap_growth, shrink : float
        gamma, gamma_bar and eta of Ang and Gillis (2019).
    """

    beta: float = 0.5
    growth: float = 1.05
    cap_growth: float = 1.01
    shrink: float = 1.5

    monotone = False
    judges = True

    def begin(self, state: State) -> Extrapolation:
        return Extrapolation([self.most_sweeps(half) for half in state.halves], self.beta, self.beta)

    def rescaled(self, state: State, memory: Extrapolation) -> Extrapolation:
        return replace(memory, plain=None)

    def step(self, state: State, memory: Extrapolation, objective: float) -> None:
        if memory.plain is None:
            memory.plain = copied(state.U), copied(state.V)
        elif (
            objective > memory.best
        ):  # restart if in doubt: it costs one product, momentum beyond the minimum much more
            state.replace(*(copied(F) for F in memory.plain))
            memory.cap = memory.last_beta
            memory.beta /= self.shrink
        else:
            memory.last_beta = memory.beta
            memory.beta = min(memory.cap, self.growth * memory.beta)
            memory.cap = min(1.0, self.cap_growth * memory.cap)
        memory.best = objective
        for half, sweeps, old in zip(state.halves, memory.sweeps, memory.plain):
            half.sweep(Sweep(sweeps, self.progress, np.inf, Momentum(old, memory.beta)))

    def enter_burst(self, memory: Extrapolation, burst: Any) -> tuple[int, int]:
        burst.progress, burst.extrapolates = self.progress, True
        burst.growth, burst.cap_growth, burst.shrink = self.growth, self.cap_growth, self.shrink
        burst.beta, burst.last_beta, burst.cap, burst.judged = memory.beta, memory.last_beta, memory.cap, memory.best
        burst.begun = memory.plain is not None
        return memory.sweeps[0], memory.sweeps[1]

    def leave_burst(self, memory: Extrapolation, burst: Any, plain: Any) -> None:
        memory.beta, memory.last_beta, memory.cap, memory.best = burst.beta, burst.last_beta, burst.cap, burst.judged
        memory.plain = plain[0], plain[1]


@dataclass(frozen=True)
class R1D(HALS):
    """HALS from rank-one downdates of X (`enmf.starts.r1d`), if no other start is given."""

    own_start = "r1d"
