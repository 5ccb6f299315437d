"""1/2 ||X - U Vᵀ||², over all entries or over the observed ones, each times its weight.

The gradient with respect to U is U VᵀV - X V, or -R V with R = W o (X - U Vᵀ) where entries are missing. How X is
stored decides how a half-step is done (`Matrix.half_step`), not what it does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from enmf.losses.base import NEEDS, Loss
from enmf.matrix import known, sweeps
from enmf.matrix.base import Matrix, safe_share
from enmf.matrix.factor import arranged
from enmf.matrix.sweeps import GradientMeasure, RowSteps, Sweep

TEN_DIGITS = 1e-5  # share of ||X||² above which a difference of sums of that size has ten digits


@dataclass(frozen=True)
class Frobenius(Loss):
    """1/2 ||X - U Vᵀ||²; its error is ||X - U Vᵀ||."""

    name = "frobenius"
    bounded = True
    bursts = True
    settles = True
    shares_products = True
    degree = 2.0
    power = 0.5

    def offers(self, X: Matrix | None = None) -> frozenset[str]:
        complete = X is None or X.complete
        lacking = {"single entries", "residual" if complete else "normal equations"}
        return frozenset(NEEDS) - lacking - ({"terms"} if X is not None and X.signed else set())

    def preparation(self, half: Any) -> float:
        return half.X.cost_per_column

    def terms(self, half: Any) -> tuple[Any, Any]:
        return half.X.terms(half)

    def explained(self, state: Any, value: float) -> float:
        whole = 0.5 * self.mass(state.X)
        return 1.0 - value / whole if whole > 0 else 1.0

    def half_step(self, half: Any, how: Sweep) -> None:
        self.sweeper(half)(how)

    def gradient_steps(self, half: Any, how: RowSteps) -> None:
        """Projected gradient steps of the rows of half.F, in place."""
        if not half.X.complete:
            half.X.gradient_steps(half, how)
            return
        G, B = half.normal()
        sweeps.gradient_steps(half.F, G, B, how)
        half.changed()

    def value(self, state: Any) -> float:
        return 0.5 * state.X.squared_error(state)

    def error(self, value: float) -> float:
        return math.sqrt(max(2.0 * value, 0.0))

    def whole(self, X: Matrix) -> float:
        return math.sqrt(X.squared_norm())

    def mass(self, X: Matrix) -> float:
        return X.squared_norm()

    def improve_scale(self, state: Any) -> None:
        """Multiply U Vᵀ by the factor that brings it nearest to X, shared evenly; 0 if it points away from X."""
        whole, squared = state.X.squared_norm(), state.X.squared_error(state)
        if squared <= whole:
            return
        along = float(state.inner_with_X().sum())
        size = squared - whole + 2.0 * along  # ||U Vᵀ||², over the observed entries
        root = np.full(state.rank, math.sqrt(max(along / size, 0.0)), state.V.dtype)
        for half in state.halves:
            half.replace(arranged(half.F, np.arange(state.rank), root))

    def prepare(self, state: Any, kkt: bool) -> None:
        state.X.prepare(state, kkt)

    def rounding(self, X: Matrix, value: float) -> float:
        whole = X.squared_norm()
        scale = whole if 2.0 * value > safe_share(X.dtype) * whole else 2.0 * value
        return 0.5 * float(np.finfo(X.dtype).eps) * scale

    def accurate_value(self, state: Any) -> float:
        """From the known products if they give ten digits, else from the residual itself."""
        X = state.X
        if X.dtype == np.float64:
            squared = X.squared_error(state)
            if squared > TEN_DIGITS * X.squared_norm():
                return 0.5 * squared
        return 0.5 * X.squared_residual(state.U, state.V, TEN_DIGITS)

    def sweeper(self, half: Any) -> Callable[[Sweep], None]:
        if half.known is not None:
            return partial(known.sweep_known, half)
        return partial(half.X.half_step if half.X.fused else sweeps.product_then_sweep, half)  # no extra frame

    def measure(self, half: Any) -> GradientMeasure:
        if half.known is not None:
            return known.measure_known(half, *half.X.gradient(half))
        return sweeps.measure_gradient(half.F, *half.X.gradient(half))

    def solve(self, half: Any) -> Any:
        if half.known is not None:
            return known.solve_known(half)
        if half.X.complete:
            return sweeps.solve_nnls(*half.normal())
        return half.X.solve_rows(half.other.F, half.penalty.per_row(len(half.F)))

    def has_bound(self, X: Matrix) -> bool:
        return X.complete
