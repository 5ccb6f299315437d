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
    judges: ClassVar[bool] = False  # a step looks at the objective, so what that costs is part of the method
    own_start: ClassVar[str | None] = None  # name of the start it has for itself

    @abstractmethod
    def step(self, state: State, memory: Any, objective: float) -> None:
        """One iteration, in place. `objective` is that of the state as it comes in, penalty included."""

    def begin(self, state: State) -> Any:
        """What is remembered from step to step, at the beginning of a descent."""
        return None

    def rescaled(self, memory: Any) -> None:  # noqa: B027 (most methods remember nothing)
        """The columns of the state were rescaled: whatever the memory holds of them is void."""

    def finished(self, state: State, memory: Any) -> bool:
        """A stage with an end of its own (not a tolerance) says so here."""
        return False

    def step_flops(self, state: State) -> float:
        """Rough cost of a step, for deciding how often measuring is worth it."""
        n, m = state.X.shape
        return 2.0 * state.rank * state.X.cost_per_column + 4.0 * (n + m) * state.rank**2

    @property
    def fused(self) -> bool:
        """A step needs the X V of the state only where X does not allow one pass for a whole half-step."""
        return "half-step" in self.needs

    def reuses_products(self, state: State) -> bool:
        """Whether a step begins with the product that measuring the state takes, so that it is charged to the step."""
        if "products" in self.needs:
            return False
        return self.judges or state.X.complete or not self.fused
