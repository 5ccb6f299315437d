"""Whether a nonnegative factorization is essentially unique, if the supports of the factors decide it.

(U, V) is essentially unique when every nonnegative (U', V') of the same number of columns with U' V'ᵀ = U Vᵀ equals it
up to order and scale of the components. Deciding this is NP-hard; two cheap conditions settle many cases. The
statements refer to the product U Vᵀ of the factors, not to the data: other factors may approximate X equally well.

Not unique (necessary condition, Moussaoui et al. 2005; Laurberg et al. 2008): the support of a column u_k is a subset
of that of another column u_j. Proof: for small e > 0,
    u_j v_jᵀ + u_k v_kᵀ = (u_j - e u_k) v_jᵀ + u_k (v_k + e v_j)ᵀ
is a second nonnegative factorization. The same holds with U and V exchanged. If a component is zero, any other one can
be split in two.

Unique (sufficient condition; separability as in Donoho and Stodden 2003): U contains a positive multiple of every row
of the identity, and for every j the rows of V that vanish at j span r - 1 dimensions; or the same with U and V
exchanged. Proof: U' = U A and V' = V A⁻ᵀ for some A, since the product has rank r. The rows e_i of U give A >= 0. With
V = V' Aᵀ, V_ij = 0 gives V'_ik A_jk = 0 for all k, so the columns k of V' with A_jk > 0 vanish on those rows. The rank
of these rows of V', which is r - 1 like that of V, is at most r minus the number of such k: row j of A has one positive
entry. So A is a permutation times a scaling.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from enmf import parallel
from enmf.matrix.factor import total

ZERO = 1e-8  # entries up to this share of the largest one in their column count as zero
FULL_RANK = 1e-10  # smallest over largest eigenvalue above which a Gram matrix certainly has full rank
SOME = 32  # rows for every component: of sparse factors they mostly span what all rows do


@dataclass(frozen=True)
class Uniqueness:
    """`verdict` is "unique", "not unique" or "unknown"; `reason` names the condition that decided."""

    verdict: str
    reason: str

    def __str__(self) -> str:
        return f"{self.verdict}: {self.reason}"


def uniqueness(U: np.ndarray, V: np.ndarray) -> Uniqueness:
    """Essential uniqueness of the nonnegative factorization U Vᵀ; see the top of this file for the theorems.

    Entries up to 1e-8 of the largest one in their column count as zero. If such entries are not exactly zero, "unique"
    refers to the factors with these entries removed, and the reason says so; "not unique" refers to the factors as
    they are.
    """
    supports = {"U": _Support(U), "V": _Support(V)}
    alive = supports["U"].alive & supports["V"].alive
    if not alive.any():
        return Uniqueness("unknown", "all components are zero")
    if not alive.all():
        return Uniqueness("not unique", "a component is zero, so any other one can be split in two")
    for name, support in supports.items():
        pair = support.contained()
        if pair is not None:
            return Uniqueness(
                "not unique",
                f"the support of column {pair[0] + 1} of {name} is contained in that of column {pair[1] + 1}",
            )
    for names in ("UV", "VU"):
        S, T = (supports[name] for name in names)
        if S.contains_identity() and T.zeros_span():
            reason = f"{names[0]} contains a scaled identity and the zeros of {names[1]} have full rank"
            if S.rounds() or T.rounds():
                reason += ", once entries up to 1e-8 of the largest in their column are removed"
            return Uniqueness("unique", reason)
    return Uniqueness("unknown", "neither condition on the supports applies")


class _Support:
    """Where a factor is zero. All queries are sums over its rows, so that these may live with the blocks of X."""

    def __init__(self, F: np.ndarray) -> None:
        self.F, self.r = F, F.shape[1]
        self.top = F.max(axis=0)
        self.alive = self.top > 0

    def _sum(self, function: Callable[..., Any]) -> Any:
        return total(function, self.F, self.top)

    def rounds(self) -> bool:
        return bool(self._sum(_rounded))

    def contained(self) -> tuple[int, int] | None:
        """The first (k, j) such that u_j is clearly positive wherever u_k is positive."""
        outside = self._sum(_outside)
        np.fill_diagonal(outside, 1.0)
        pairs = np.argwhere(outside == 0.0)
        return (int(pairs[0, 0]), int(pairs[0, 1])) if len(pairs) else None

    def contains_identity(self) -> bool:
        """Whether every column has a row in which only this column is nonzero."""
        return bool((self._sum(_alone) > 0).all())

    def zeros_span(self) -> bool:
        """Whether, for every j, the rows that vanish at j span all r - 1 other dimensions: mostly, some of them do."""
        return self.r == 1 or any(_are_regular(self._sum(grams)) for grams in (_grams_of_some_zeros, _grams_of_zeros))


def _zeros(F: np.ndarray, top: np.ndarray) -> np.ndarray:
    return np.less_equal(F, ZERO * top)


def _rounded(F: np.ndarray, top: np.ndarray) -> Any:
    return np.count_nonzero(_zeros(F, top) & (F > 0))


def _outside(F: np.ndarray, top: np.ndarray) -> np.ndarray:
    """r x r: the number of rows where the first column lives and the second one does not."""
    return (F > 0).T.astype(np.float32) @ _zeros(F, top).astype(np.float32)


def _alone(F: np.ndarray, top: np.ndarray) -> np.ndarray:
    """r: the number of rows where a column lives alone."""
    live = ~_zeros(F, top)
    return live[live.sum(axis=1) == 1].sum(axis=0)


def _are_regular(grams: np.ndarray) -> bool:
    values = np.linalg.eigvalsh(grams)
    return bool((values[:, 0] > FULL_RANK * values[:, -1]).all())


def _grams_of_some_zeros(F: np.ndarray, top: np.ndarray) -> np.ndarray:
    return _grams_of_zeros(F[: SOME * F.shape[1]], top)


def _grams_of_zeros(F: np.ndarray, top: np.ndarray) -> np.ndarray:
    """r x (r-1) x (r-1): for each j the Gram matrix of the other columns over the rows that vanish at j."""
    zeros, r = _zeros(F, top), F.shape[1]
    clean = np.where(zeros, 0.0, F / top).astype(np.float64)
    grams = np.empty((r, r - 1, r - 1))

    def some(start: int, stop: int) -> None:
        for j in range(start, stop):
            rows = np.delete(clean[zeros[:, j]], j, axis=1)
            grams[j] = rows.T @ rows

    parallel.run(some, parallel.even_bounds(r, 2.0 * F.size * r))
    return grams
