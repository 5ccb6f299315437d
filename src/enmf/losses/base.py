"""The interface of a loss D(X | U Vᵀ).

No code outside a loss knows its formula: methods take half-steps, the loop asks for the value, the KKT residual for the
sizes of the gradient, units for the degree. A loss has frozen options and no state; what it stores about a pair of
factors is in `half.own` (depends on one factor) and `state.joint` (depends on both), which are cleared when a factor
changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

if TYPE_CHECKING:
    from enmf.matrix.base import Matrix
    from enmf.matrix.sweeps import EntrySteps, GradientMeasure, RowSteps, Sweep

# What a method may need, in the words of the refusal.
NEEDS = {
    "half-step": "coordinate sweeps of one factor",
    "terms": "the positive and the negative part of the gradient",
    "normal equations": "one Gram matrix for all rows",
    "gradient steps": "projected gradient steps of single rows",
    "products": "products of X with its own factors",
    "residual": "products with the residual over the observed entries",
    "single entries": "Newton steps of single entries of a factor",
    "all rows": "all rows of U in this process",
}


class Loss(ABC):
    """D(X | U Vᵀ); `half` and `state` are those of `enmf.problem.state`. A new loss implements the abstract methods."""

    name: ClassVar[str]
    bounded: ClassVar[bool] = False  # a bound over all factorizations is known, for complete X
    rising: ClassVar[bool] = False  # infinite where the model is zero and X is not
    bursts: ClassVar[bool] = False  # `enmf.run.bursts` knows it
    shares_products: ClassVar[bool] = False  # measuring takes the products that the next step begins with
    settles: ClassVar[bool] = False  # without a tolerance, runs end when going on promises little; else at TOL
    sure: ClassVar[float] = 1e-8  # KKT residual at which such a run ends whatever it promises: rounding, or nearly
    power: ClassVar[float] = 1.0  # the error is a multiple of this power of the value
    exponent: ClassVar[float] = 1.0  # of a multiplicative update
    scalings: ClassVar[tuple[float, ...]] = ()  # powers of row and column sums that X is divided by for its start

    @property
    @abstractmethod
    def degree(self) -> float:
        """D(c X | c M) = c^degree D(X | M): decides how everything scales with the unit of X."""

    @abstractmethod
    def value(self, state: Any) -> float:
        """D(X | U Vᵀ)."""

    @abstractmethod
    def mass(self, X: Matrix) -> float:
        """The size of X in the unit of the loss: makes the KKT residual scale-free, and errors relative."""

    def size(self, X: Matrix) -> float:
        """The size of X in its own unit: that of a component which explains X."""
        return self.mass(X) ** (1.0 / self.degree)

    @abstractmethod
    def half_step(self, half: Any, how: Sweep) -> None:
        """Sweep half.F in place with the other factor held fixed, then extrapolate; ends with half.changed()."""

    @abstractmethod
    def measure(self, half: Any) -> GradientMeasure:
        """Sizes of the gradient with respect to half.F, penalty included."""

    def in_memory(self) -> Loss:
        """The same loss for an X in this process."""
        return self

    def sweeper(self, half: Any) -> Callable[[Sweep], None]:
        """The half-step of this half."""
        return partial(self.half_step, half)

    def gradient_steps(self, half: Any, how: RowSteps) -> None:
        """Projected gradient steps of the rows of half.F, in place; for losses that offer "gradient steps"."""
        raise NotImplementedError

    def entry_steps(self, half: Any, how: EntrySteps) -> None:
        """Newton steps of the entries of half.F, in place; for losses that offer "single entries"."""
        raise NotImplementedError

    def terms(self, half: Any) -> tuple[Any, Any]:
        """The two nonnegative parts of the gradient, second minus first; for losses that offer "terms"."""
        raise NotImplementedError

    def preparation(self, half: Any) -> float:
        """Flops per component before the first sweep of a half-step that further sweeps can do without."""
        return 0.0

    def step_flops(self, X: Matrix, rank: int) -> float:
        """Rough cost of half-steps of both factors."""
        return X.half_step_flops(rank)

    def measuring_flops(self, X: Matrix, rank: int) -> float:
        """Rough cost of a KKT residual."""
        return X.measuring_flops(rank)

    def shares(self, state: Any) -> np.ndarray:
        """The share of every component in X: of ||X||², over the observed entries."""
        whole = state.X.squared_norm()
        return state.inner_with_X() / whole if whole > 0 else np.zeros(state.rank)

    def explained(self, state: Any, value: float) -> float:
        """The share of the loss of the simplest model that these factors, of this value, explain."""
        whole = self.mass(state.X)
        return 1.0 - value / whole if whole > 0 else 1.0

    def block_gap(self, half: Any) -> float:
        """What no other half.F can gain over this one, with the other factor held fixed; nan if no bound is known."""
        return float("nan")

    def offers(self, X: Matrix | None = None) -> frozenset[str]:
        """Which of NEEDS the loss offers for this kind of X; None: complete, in this process."""
        return frozenset({"half-step", "all rows"})

    def error(self, value: float) -> float:
        """What trace, bound and target call the error: a monotone function of the value, in a familiar unit."""
        return value

    def whole(self, X: Matrix) -> float:
        """The error to which errors are relative."""
        return self.error(self.mass(X))

    def prepare(self, state: Any, kkt: bool) -> None:  # noqa: B027 (most losses have nothing to do)
        """Compute what the next step needs and what also gives the value or, with `kkt`, the KKT residual."""

    def rounding(self, X: Matrix, value: float) -> float:
        """Size up to which differences from this value are rounding."""
        return float(np.finfo(X.dtype).eps) * abs(value)

    def accurate_value(self, state: Any) -> float:
        """The value, accurate to all digits that a certificate prints."""
        return self.value(state)

    def solve(self, half: Any) -> Any:
        """The optimal half.F for the other factor, by half-steps from 1."""
        return half.solve_by_sweeps()

    def improve_scale(self, state: Any) -> None:  # noqa: B027 (most losses have nothing to do)
        """Replace a pair that is worse than zero factors by its best multiple."""

    def has_bound(self, X: Matrix) -> bool:
        """Whether the singular values of X bound the error from below (Eckart-Young)."""
        return False
