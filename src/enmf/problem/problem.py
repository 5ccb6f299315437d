"""What is minimized: a matrix, a loss and a penalty, in units that keep the numbers of moderate size.

A penalty combines its term of the objective, its contribution to the model of a half-step, and its unit:
    l1 sum(F) + 1/2 sum_i l2_i ||f_i||²        for each factor F with rows f_i
and `enmf.problem.layers` for that of smooth components.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from enmf.losses.base import Loss
from enmf.losses.frobenius import Frobenius
from enmf.matrix.base import Matrix
from enmf.problem.layers import Guide, Smooth
from enmf.problem.structure import NO_STRUCTURE, Structure


@dataclass(frozen=True, eq=False)
class SidePenalty:
    """The penalty of one factor; l2 is one number, or one per row."""

    l1: float = 0.0
    l2: float | np.ndarray = 0.0

    def __bool__(self) -> bool:
        return bool(self.l1) or bool(self.l2.any() if isinstance(self.l2, np.ndarray) else self.l2)

    def normal(self, G: np.ndarray, B: Any) -> tuple[np.ndarray, Any]:
        """Normal equations F G = B with the penalty; a B of None stays None."""
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
    """The penalties of both factors, and that of their layers (`enmf.problem.layers`)."""

    U: SidePenalty = SidePenalty()
    V: SidePenalty = SidePenalty()
    smooth: Smooth | None = field(default=None, kw_only=True)
    guide: Guide | None = field(default=None, kw_only=True)

    def __bool__(self) -> bool:
        return self.fixes_scale or self.layered

    @property
    def layered(self) -> bool:
        """Whether there is a penalty of the layers u_k v_kᵀ."""
        return self.smooth is not None or self.guide is not None

    @property
    def fixes_scale(self) -> bool:
        """Whether the penalty of (U D, V D⁻¹) depends on D."""
        return bool(self.U) or bool(self.V)

    def of(self, side: int) -> SidePenalty:
        return self.V if side else self.U

    def value(self, state: Any) -> float:
        if not state.penalized:
            return 0.0
        value = sum(half.penalty.linear(half.F) for half in state.halves)
        for half in state.halves:
            value += half.penalty.quadratic(half)
        return value + sum(part.value(state) for part in (self.smooth, self.guide) if part is not None)


@dataclass(frozen=True)
class Units:
    """The user's X is `scale` times that of the problem, and the user's weights `weight` times its weights.

    The user's loss, of degree d, is then scale^d weight times that of the problem, and the factors sqrt(scale) times.
    """

    scale: float = 1.0
    weight: float = 1.0

    def error(self, loss: Loss) -> float:
        """The unit of errors."""
        return self.scale ** (loss.degree * loss.power) * self.weight**loss.power  # the value might overflow

    def value(self, loss: Loss) -> float:
        """The unit of the loss, and of factor times gradient."""
        return self.scale**loss.degree * self.weight

    def gradient(self, loss: Loss) -> float:
        """The unit of gradients."""
        return self.value(loss) / math.sqrt(self.scale)

    def factor(self, dtype: Any) -> np.ndarray:
        """The unit of factors."""
        return np.asarray(math.sqrt(self.scale), dtype)


FROBENIUS, NO_PENALTY = Frobenius(), Penalty()


@dataclass(frozen=True, eq=False)
class Problem:
    """min D(X | U Vᵀ) + penalty over U >= 0, V >= 0, in working `units`; `structure` is what else is known of U and V.

    `whole` is the same X without the machinery for missing entries, if none is missing or weighted.
    """

    X: Matrix
    loss: Loss = FROBENIUS
    penalty: Penalty = NO_PENALTY
    units: Units = Units()
    whole: Problem | None = None
    structure: Structure = NO_STRUCTURE

    @property
    def fixes_scale(self) -> bool:
        """Whether (U D, V D⁻¹) is another solution than (U, V)."""
        return self.penalty.fixes_scale or self.structure.mixes

    @property
    def scale(self) -> float:
        return self.units.scale

    def gathered(self) -> Problem:
        """The same problem for methods that need all rows of U in this process."""
        return replace(self, X=self.X.gathered())

    def counted(self) -> Problem:
        """The same problem with a separate count of passes, for a concurrent run."""
        return replace(self, X=self.X.counted())
