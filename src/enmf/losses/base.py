"""What a loss D(X | U Vᵀ) offers to everybody else.

Nobody outside a loss knows its formula: methods take half-steps, the loop asks for the value, the KKT residual for the
sizes of the gradient, units for the degree. A loss is frozen options and no state; what it remembers about a pair of
factors it keeps in `half.own` (hangs on one factor) and `state.joint` (hangs on both), which are emptied for it when a
factor changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

if TYPE_CHECKING:
    from enmf.matrix.base import Matrix
    from enmf.matrix.measure import GradientMeasure
    from enmf.matrix.sweeps import RowSteps, Sweep

# What a method may need, in words for those who are refused.
NEEDS = {
    "half-step": "coordinate sweeps of one factor",
    "terms": "the positive and the negative part of the gradient",
    "normal equations": "one Gram matrix for all rows",
    "gradient steps": "projected gradient steps of single rows",
    "products": "products of X with factors of its own",
    "residual": "products with the residual over the observed entries",
    "all rows": "all rows of U in this process",
}


class Loss(ABC):
    """D(X | U Vᵀ); `half` and `state` are those of `enmf.problem.state`. A new loss has to write the abstract ones."""

    name: ClassVar[str]
    degree: ClassVar[float]  # D(c X | c M) = c^degree D(X | M): decides how everything scales with the unit of X

    @abstractmethod
    def value(self, state: Any) -> float:
        """D(X | U Vᵀ)."""

    @abstractmethod
    def mass(self, X: Matrix) -> float:
        """The size of X in the unit of the loss: makes the KKT residual scale-free, and errors relative."""

    @abstractmethod
    def half_step(self, half: Any, how: Sweep) -> None:
        """Sweeps of half.F in place while the other factor is held, then extrapolation; ends with half.changed()."""

    @abstractmethod
    def measure(self, half: Any) -> GradientMeasure:
        """Sizes of the gradient with respect to half.F, penalty included."""

    def sweeper(self, half: Any) -> Callable[[Sweep], None]:
        """The half-step of this half."""
        return partial(self.half_step, half)

    def gradient_steps(self, half: Any, how: RowSteps) -> None:
        """Projected gradient steps of the rows of half.F, in place; for losses that offer "gradient steps"."""
        raise NotImplementedError

    def offers(self, X: Matrix) -> frozenset[str]:
        """Which of NEEDS there is for this kind of X."""
        return frozenset({"half-step", "all rows"})

    @property
    def error_degree(self) -> float:
        """The degree of `error`."""
        return self.degree

    def error(self, value: float) -> float:
        """What trace, bound and target call the error: a monotone function of the value, in a unit that people know."""
        return value

    def whole(self, X: Matrix) -> float:
        """The error by which errors are judged."""
        return self.error(self.mass(X))

    def prepare(self, state: Any, kkt: bool) -> None:  # noqa: B027 (most losses have nothing to do)
        """Make what the next step needs and the value, or with `kkt` the KKT residual, can be measured from."""

    def rounding(self, X: Matrix, value: float) -> float:
        """Differences from this value up to this size are rounding."""
        return float(np.finfo(X.dtype).eps) * abs(value)

    def accurate_value(self, state: Any) -> float:
        """The value with all digits that a certificate prints."""
        return self.value(state)

    def solve(self, half: Any) -> Any:
        """The best half.F for the other factor, to optimality, by half-steps from 1."""
        return half.solve_by_sweeps()

    def improve_scale(self, state: Any) -> None:  # noqa: B027 (most losses have nothing to do)
        """Bring a pair that is worse than zero factors to the best multiple of itself."""

    def has_bound(self, X: Matrix) -> bool:
        """Whether the singular values of X bound the error from below (Eckart-Young)."""
        return False
