"""What is known about the factors before they are found.

    row_weights, column_weights    sum_ij w_i c_j d(x_ij | u_i . v_j)
        A loss of degree d (2 for squares) has  w c d(x | m) = d(a x | a m)  with a = (w c)^(1/d): the weighted problem
        is the ordinary one of D_r X D_c, whose factors are D_r U and D_c V. So is its Eckart-Young bound.
    support_U, support_V           entries of a factor that are zero
    fixed                          the first components of V, which stay as they are
    nonnegative                    the factor that is nonnegative, if the other one may have any sign (semi-NMF)
    symmetric                      V = U
    simplex                        rows of U sum to one
    tables                         several matrices with the same columns, one below the other

A `Side` is what a half-step of one factor has to obey; a half whose factor is merely nonnegative has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Side:
    """What one factor F (n x r) has to obey besides F >= 0, in the units of the problem."""

    zeros: np.ndarray | None = None  # n x r, True where F is zero
    fixed: np.ndarray | None = None  # n x k, the first k columns of F
    signed: bool = False  # F may be negative
    total: float | None = None  # rows of F sum to this

    def __bool__(self) -> bool:
        return self.zeros is not None or self.fixed is not None or self.signed or self.total is not None

    def barred(self, B: np.ndarray, firmly: float = 1.0) -> np.ndarray:
        """The right-hand side B of F G = B with a negative number, at least as large as its row, where F is zero."""
        if self.zeros is None:
            return B
        size = np.abs(B).max(axis=1, keepdims=True) * np.asarray(firmly, B.dtype)
        return np.asfortranarray(np.where(self.zeros, -np.maximum(size, np.finfo(B.dtype).tiny), B))


@dataclass(frozen=True, eq=False)
class Structure:
    """What is known about both factors; without anything known, False."""

    U: Side = Side()
    V: Side = Side()
    scales: tuple[np.ndarray | None, np.ndarray | None] = (None, None)  # by which rows and columns of X were multiplied
    given: np.ndarray | None = None  # the fixed columns of V as the user gave them
    symmetric: bool = False
    tables: tuple[int, ...] = ()  # numbers of rows of the tables that make up X

    def __bool__(self) -> bool:
        """Whether the factors have to obey more than U >= 0 and V >= 0."""
        return bool(self.U) or bool(self.V) or self.symmetric

    def of(self, side: int) -> Side | None:
        """What a half has to obey; None if it is merely nonnegative."""
        known = self.V if side else self.U
        return known or None

    @property
    def count(self) -> int:
        """The number of fixed components."""
        return 0 if self.V.fixed is None else self.V.fixed.shape[1]

    @property
    def mixes(self) -> bool:
        """Whether rows of U have a given sum, which decides on the scale of all components."""
        return self.U.total is not None

    @property
    def signed(self) -> bool:
        """Whether one of the factors may be negative."""
        return self.U.signed or self.V.signed

    @property
    def named(self) -> bool:
        """Whether components differ in what is known about them, so that their order means something."""
        return self.U.zeros is not None or self.V.zeros is not None

    def movable(self, rank: int) -> np.ndarray:
        """Whether a component can be scaled and reordered: those that are fixed cannot."""
        return np.arange(rank) >= self.count

    @property
    def weighted(self) -> bool:
        return any(scale is not None for scale in self.scales)

    def describe(self) -> str | None:
        """In words, for a certificate."""
        zeros = [name for name, side in zip("UV", (self.U, self.V)) if side.zeros is not None]
        said = [
            f"{self.count} fixed components" if self.count else "",
            f"zeros of {' and '.join(zeros)}" if zeros else "",
            "U may be negative" if self.U.signed else "V may be negative" if self.V.signed else "",
            "V = U" if self.symmetric else "",
            "rows of U sum to one" if self.mixes else "",
            "weights" if self.weighted else "",
        ]
        return "; ".join(filter(None, said)) or None

    def own(self, F: np.ndarray, side: int) -> np.ndarray:
        """The user's factor, as a factor of the weighted matrix."""
        scale = self.scales[side]
        return F if scale is None else np.asfortranarray(F * scale[:, None].astype(F.dtype))

    def public(self, F: Any, side: int) -> Any:
        """A factor of the weighted matrix, as the user's one; fixed columns are the user's to the last bit."""
        scale = self.scales[side]
        F = F if scale is None else np.ascontiguousarray(F / scale[:, None].astype(F.dtype))
        if side == 1 and self.given is not None:
            F[:, : self.given.shape[1]] = self.given
        return F


NO_STRUCTURE = Structure()
