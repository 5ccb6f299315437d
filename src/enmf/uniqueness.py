"""Whether a nonnegative factorization is essentially unique, where that can be read off the supports.

(U, V) is essentially unique when every nonnegative (U', V') of the same number of columns with U' V'ᵀ = U Vᵀ equals it
up to order and scale of the components. To decide this is NP-hard; two cheap conditions settle many cases. The
statements are about the product U Vᵀ of the factors, not about the data: other factors may approximate X as well.

Not unique (necessary condition, Moussaoui et al. 2005; Laurberg et al. 2008): the support of a column u_k lies within
that of another column u_j. Proof: for small e > 0,
    u_j v_jᵀ + u_k v_kᵀ = (u_j - e u_k) v_jᵀ + u_k (v_k + e v_j)ᵀ
is a second nonnegative factorization. The same holds with U and V exchanged. A component that is zero makes every other
one divisible in two.

Unique (sufficient condition; separability as in Donoho and Stodden 2003): U contains a positive multiple of every row
of the identity, and for every j the rows of V that vanish at j span r - 1 dimensions; or the same with U and V
exchanged. Proof: U' = U A and V' = V A⁻ᵀ for some A, since the product has rank r. The rows e_i of U give A >= 0. With
V = V' Aᵀ, V_ij = 0 gives V'_ik A_jk = 0 for all k, so the columns k of V' with A_jk > 0 vanish on those rows. The rank
of these rows of V', which is r - 1 as that of V, is at most r less the number of such k: row j of A has one positive
entry. So A is a permutation times a scaling.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

ZERO = 1e-8  # entries up to this share of the largest one of their column count as zeros
FULL_RANK = 1e-10  # smallest over largest eigenvalue of a Gram matrix that has full rank beyond doubt


@dataclass(frozen=True)
class Uniqueness:
    """`verdict` is "unique", "not unique" or "unknown"; `reason` names the condition that decided."""

    verdict: str
    reason: str

    def __str__(self) -> str:
        return f"{self.verdict}: {self.reason}"


def uniqueness(U: np.ndarray, V: np.ndarray) -> Uniqueness:
    """Essential uniqueness of the nonnegative factorization U Vᵀ; see the top of this file for the theorems.

    Entries up to 1e-8 of the largest one of their column count as zeros. Where such entries are not zero, "unique" is
    said of the factors with these entries removed, and the reason says so; "not unique" is said of the factors as
    they are.
    """
    alive = (U > 0).any(axis=0) & (V > 0).any(axis=0)
    if not alive.any():
        return Uniqueness("unknown", "all components are zero")
    if not alive.all():
        return Uniqueness("not unique", "a component is zero, so any other one can be split in two")
    for F, name in ((U, "U"), (V, "V")):
        pair = _contained_support(F)
        if pair is not None:
            return Uniqueness(
                "not unique", f"the support of column {pair[0]} of {name} lies within that of column {pair[1]}"
            )
    for S, T, names in ((U, V, "UV"), (V, U, "VU")):
        if _contains_identity(S) and _zeros_span(T):
            reason = f"{names[0]} contains a scaled identity and the zeros of {names[1]} have full rank"
            if _rounds(S) or _rounds(T):
                reason += ", once entries up to 1e-8 of the largest in their column are removed"
            return Uniqueness("unique", reason)
    return Uniqueness("unknown", "neither condition on the supports applies")


def _zeros(F: np.ndarray) -> np.ndarray:
    return np.less_equal(F, ZERO * F.max(axis=0))


def _rounds(F: np.ndarray) -> bool:
    return bool((_zeros(F) & (F > 0)).any())


def _contained_support(F: np.ndarray) -> tuple[int, int] | None:
    """The first (k, j) such that u_j is clearly positive wherever u_k is positive at all."""
    outside = (F > 0).T.astype(np.float32) @ _zeros(F).astype(np.float32)  # r x r: rows where only the first one lives
    np.fill_diagonal(outside, 1.0)
    pairs = np.argwhere(outside == 0.0)
    return (int(pairs[0, 0]), int(pairs[0, 1])) if len(pairs) else None


def _contains_identity(F: np.ndarray) -> bool:
    """Whether every column has a row in which it alone is not zero."""
    live = ~_zeros(F)
    return bool(live[live.sum(axis=1) == 1].any(axis=0).all())


def _zeros_span(F: np.ndarray) -> bool:
    """Whether, for every j, the rows that vanish at j span all r - 1 other dimensions."""
    zeros, r = _zeros(F), F.shape[1]
    clean = np.where(zeros, 0.0, F / F.max(axis=0)).astype(np.float64)
    for j in range(r):
        rows = np.delete(clean[zeros[:, j]], j, axis=1)
        if r > 1:
            values = np.linalg.eigvalsh(rows.T @ rows)
            if not values[0] > FULL_RANK * values[-1]:
                return False
    return True
