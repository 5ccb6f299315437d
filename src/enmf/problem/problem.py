"""What is minimized: a matrix, a loss and a penalty, in units in which the numbers are of moderate size."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from enmf.losses.base import Loss
from enmf.losses.frobenius import Frobenius
from enmf.matrix.base import Matrix
from enmf.problem.penalty import Penalty


@dataclass(frozen=True)
class Units:
    """The user's X is `scale` times that of the problem, and the user's weights `weight` times its weights.

    A loss of degree d is then scale^d weight times that of the problem, and factors sqrt(scale) times.
    """

    scale: float = 1.0
    weight: float = 1.0

    def error(self, loss: Loss) -> float:
        """The unit of errors."""
        return self.scale**loss.error_degree * self.weight ** (loss.error_degree / loss.degree)

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
    """min D(X | U Vᵀ) + penalty over U >= 0, V >= 0, in the `units` of the work.

    `whole` is the same X without the machinery of missing entries, where none is missing and none is weighted.
    """

    X: Matrix
    loss: Loss = FROBENIUS
    penalty: Penalty = NO_PENALTY
    units: Units = Units()
    whole: Problem | None = None

    @property
    def scale(self) -> float:
        return self.units.scale

    def gathered(self) -> Problem:
        """The same problem for methods that need all rows of U here."""
        return replace(self, X=self.X.gathered())

    def counted(self) -> Problem:
        """The same problem with a count of passes of its own, for another run at the same time."""
        return replace(self, X=self.X.counted())
