"""The squared error of all rows seen, from sums that do not grow with them.

    ||A - U Vᵀ||² = ||A||² - 2 <S, V> + <C, VᵀV>,    C = UᵀU (r x r), S = AᵀU (m x r)

for any V: the rows of U, the codes, need not be kept. They may still change together: with U T in place of U for an
r x r matrix T >= 0, C becomes TᵀCT and S becomes ST. Sums over different rows add up.

Rounding. All terms of these sums are nonnegative, so every computed entry has a small relative error: a sum of p terms
at most p eps. `units` is the largest such p, in all entries: the three terms of the error are then wrong by at most
that many eps of themselves, and the bound is raised by it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from enmf.matrix.base import Matrix
from enmf.matrix.factor import inner
from enmf.parallel import matmul

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Sums:
    """What is known about rows A and their codes U."""

    squares: float  # ||A||²
    C: np.ndarray
    S: np.ndarray
    units: float = 0.0

    @classmethod
    def empty(cls, columns: int, rank: int) -> Sums:
        return cls(0.0, np.zeros((rank, rank)), np.zeros((columns, rank), order="F"))

    @classmethod
    def of(cls, X: Matrix, U: np.ndarray) -> Sums:
        S = np.asfortranarray(X.transpose_times(U))
        return cls(X.squared_norm(), matmul(U.T, U), S, float(max(X.shape)))

    def plus(self, other: Sums) -> Sums:
        return Sums(
            self.squares + other.squares, self.C + other.C, self.S + other.S, max(self.units, other.units) + 1.0
        )

    def scaled(self, weight: float) -> Sums:
        """The sums over rows whose squares have this weight."""
        return Sums(self.squares * weight, self.C * weight, self.S * weight, self.units + 1.0)

    def recoded(self, T: np.ndarray) -> Sums:
        """The sums for the codes U T."""
        S = np.asfortranarray(matmul(self.S, T))
        return replace(self, C=matmul(T.T, matmul(self.C, T)), S=S, units=self.units + 2.0 * len(T))

    def squared_error(self, V: np.ndarray, rounded_up: bool = True) -> float:
        """||A - U Vᵀ||², never below the true one."""
        across, model = inner(self.S, V), inner(self.C, matmul(V.T, V))
        doubt = (self.units + 2.0 * len(V) + V.shape[1] ** 2 + 64.0) * EPS * (self.squares + 2.0 * across + model)
        return max(self.squares - 2.0 * across + model, 0.0) + rounded_up * doubt
