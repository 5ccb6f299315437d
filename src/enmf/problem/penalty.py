"""Penalties: what is added to the loss, what it adds to the model of a half-step, and the unit it has.

l1 sum(F) + 1/2 sum_i l2_i ||f_i||²        for each factor F with rows f_i
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class SidePenalty:
    """The penalty of one factor; l2 is one number, or one per row."""

    l1: float = 0.0
    l2: float | np.ndarray = 0.0

    def __bool__(self) -> bool:
        return bool(self.l1) or bool(np.any(self.l2))

    def normal(self, G: np.ndarray, B: Any) -> tuple[np.ndarray, Any]:
        """Normal equations F G = B with the penalty; a B of None stays so."""
        if self.l2:
            G = G + np.asarray(self.l2, G.dtype) * np.eye(len(G), dtype=G.dtype)
        return G, B - np.asarray(self.l1, B.dtype) if self.l1 and B is not None else B

    def per_row(self, length: int) -> np.ndarray:
        """l2 of every row."""
        return self.l2 if isinstance(self.l2, np.ndarray) else np.full(length, float(self.l2))

    def linear(self, F: Any) -> float:
        return self.l1 * float(F.sum(dtype=np.float64)) if self.l1 else 0.0

    def quadratic(self, half: Any) -> float:
        if isinstance(self.l2, np.ndarray):
            return 0.5 * float(self.l2 @ np.einsum("ik,ik->i", half.F, half.F, dtype=np.float64))
        return 0.5 * self.l2 * float(np.trace(half.gram)) if self.l2 else 0.0


@dataclass(frozen=True, eq=False)
class Penalty:
    """The penalties of both factors."""

    U: SidePenalty = SidePenalty()
    V: SidePenalty = SidePenalty()

    def __bool__(self) -> bool:
        return bool(self.U) or bool(self.V)

    def of(self, side: int) -> SidePenalty:
        return self.V if side else self.U

    def value(self, state: Any) -> float:
        if not self:
            return 0.0
        value = sum(half.penalty.linear(half.F) for half in state.halves)
        for half in state.halves:
            value += half.penalty.quadratic(half)
        return value
