"""What a descent method supplies: frozen options, a memory for each descent, a step.

A method changes a state, one step at a time. It knows no tolerances, clocks or printing. Its fields are its options;
whatever it remembers between steps is made by `begin`, so that one method can start many descents.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from enmf.problem.state import State


@dataclass(frozen=True)
class Method(ABC):
    needs: ClassVar[frozenset[str]] = frozenset({"normal equations", "all rows"})  # of `enmf.losses.base.NEEDS`
    monotone: ClassVar[bool] = True  # the objective never increases
    judges: ClassVar[bool] = False  # a step uses the objective, so its cost belongs to the method
    own_start: ClassVar[str | None] = None  # name of the method's own start
    bursts: ClassVar[bool] = False  # several of its steps can be taken in one call (`enmf.run.bursts`)

    @abstractmethod
    def step(self, state: State, memory: Any, objective: float) -> None:
        """One iteration, in place. `objective` is its value before the step, penalty included."""

    def begin(self, state: State) -> Any:
        """The memory of a new descent: what is remembered from step to step."""
        return None

    def rescaled(self, state: State, memory: Any) -> Any:
        """The memory after the columns of the state were rescaled: what it holds of them is void."""
        return memory

    def finished(self, state: State, memory: Any) -> bool:
        """Whether a stage that ends by itself (not by a tolerance) has ended."""
        return False

    def enter_burst(self, memory: Any, burst: Any) -> tuple[int, int]:
        """Tell a burst what the coming steps are; returns the largest number of sweeps of U and of V."""
        raise NotImplementedError

    def leave_burst(self, memory: Any, burst: Any, plain: Any) -> None:
        """Remember what a burst has left; `plain` is the pair before extrapolation."""
        return

    def step_flops(self, state: State) -> float:
        """Rough cost of a step, for deciding how often measuring is worth it."""
        n, m = state.X.shape
        return 2.0 * state.rank * state.X.cost_per_column + 4.0 * (n + m) * state.rank**2

    @property
    def fused(self) -> bool:
        """Whether a step needs the X V of the state only if X cannot do a whole half-step in one pass."""
        return "half-step" in self.needs

    def reuses_products(self, state: State) -> bool:
        """Whether a step starts with the product that measuring the state needs, so that the step is charged for it."""
        if "products" in self.needs:
            return False
        return self.judges or (state.problem.loss.shares_products and (state.X.complete or not self.fused))
