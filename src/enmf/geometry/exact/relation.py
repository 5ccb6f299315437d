"""From one pair of factors to another with the same product (paper, appendix A, eqs. gen_1 to gen_4).

If U1 V1ᵀ = U2 V2ᵀ and all four have full column rank, there is exactly one invertible A with

    U2 = U1 A,   V2 = V1 A⁻ᵀ,       A = R1 L R2ᵀ  (its SVD: R1, R2 orthogonal, L > 0 diagonal)

A = U1⁺ U2; for U1 = U S^1/2 of the SVD this is S^-1/2 Uᵀ U2 (eq. gen_4).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from enmf import parallel
from enmf.linalg.svd import truncated_svd
from enmf.problem.validation.arrays import check_problem
from enmf.problem.validation.factors import check_pair, check_rank, check_same_sides
from enmf.problem.validation.numbers import make_rng

RANK_TOL = 1e-10  # singular values up to this share of the largest one count as zero


@dataclass(frozen=True)
class Transform:
    """A = R1 diag(L) R2ᵀ, acting as (U A, V A⁻ᵀ).

    Attributes
    ----------
    R1, R2 : ndarray of shape (r, r)
        Orthogonal.
    L : ndarray of shape (r,)
        Positive, decreasing.
    delta_u, delta_v : float
        ||U2 - U1 A|| / ||U2|| and ||V2 - V1 A⁻ᵀ|| / ||V2||: zero if the transform explains the second pair.

    Examples
    --------
    >>> import enmf
    >>> X, U0, V0 = enmf.datasets.make_exact(30, 20, 4, random_state=0)
    >>> known = enmf.exact.relate(enmf.exact.svd_factors(X, 4), (U0, V0))
    >>> known.R1.shape, known.L.shape, known.R2.shape
    ((4, 4), (4,), (4, 4))
    """

    R1: np.ndarray
    L: np.ndarray
    R2: np.ndarray
    delta_u: float = 0.0
    delta_v: float = 0.0

    @property
    def A(self) -> np.ndarray:
        return (self.R1 * self.L) @ self.R2.T

    @property
    def inverse_transpose(self) -> np.ndarray:
        """A⁻ᵀ."""
        return (self.R1 / self.L) @ self.R2.T

    def apply(self, U: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(U A, V A⁻ᵀ)."""
        return U @ self.A, V @ self.inverse_transpose

    @classmethod
    def of(cls, A: np.ndarray) -> Transform:
        R1, L, R2t = np.linalg.svd(A)
        return cls(R1, L, R2t.T)


def svd_factors(X: Any, rank: int, *, random_state: Any = 0) -> tuple[np.ndarray, np.ndarray]:
    """U S^1/2 and V S^1/2 of the truncated SVD: the factors from which the exterior method starts.

    Examples
    --------
    >>> import enmf
    >>> X, U0, V0 = enmf.datasets.make_exact(30, 20, 4, random_state=0)
    >>> U, V = enmf.exact.svd_factors(X, 4)
    >>> bool(abs(U @ V.T - X).max() < 1e-12)
    True
    """
    problem = check_problem(X)
    rank = min(check_rank(rank, problem.X), *problem.X.shape)
    with parallel.limit(None):
        U, V = truncated_svd(problem.X, rank, rng=make_rng(random_state)).factors(rank)
    root = np.sqrt(problem.scale)
    return U * root, V * root


def relate(first: Any, second: Any) -> Transform:
    """The transform that maps the first pair of factors to the second.

    Parameters
    ----------
    first, second : (U, V)
        Of the same shapes; entries may be negative. U of the first pair must have full column rank.

    Returns
    -------
    Transform
        Its `delta_u` and `delta_v` measure how well it does: both are zero if and only if the products agree.

    Examples
    --------
    >>> import enmf
    >>> X, U0, V0 = enmf.datasets.make_exact(30, 20, 4, random_state=0)
    >>> known = enmf.exact.relate(enmf.exact.svd_factors(X, 4), (U0, V0))
    >>> known.delta_u < 1e-10, known.delta_v < 1e-10
    (True, True)
    """
    U1, V1 = check_pair(first, "first")
    U2, V2 = check_pair(second, "second")
    check_same_sides((U1, V1), (U2, V2), same_rank=True)
    transform = transform_between(U1, V1, U2, V2)
    if transform is None:
        raise ValueError("no transform is determined: a factor has linearly dependent columns")
    return transform


def transform_between(U1: np.ndarray, V1: np.ndarray, U2: np.ndarray, V2: np.ndarray) -> Transform | None:
    """`relate` for factors that are already validated; None where a factor is rank-deficient."""
    # columns of unit length first: their scale must not decide what counts as dependent
    one, two = np.linalg.norm(U1, axis=0), np.linalg.norm(U2, axis=0)
    if one.min() == 0.0 or two.min() == 0.0 or len(U1) < U1.shape[1]:
        return None
    P, s, Qt = np.linalg.svd(U1 / one, full_matrices=False)
    if s[-1] <= RANK_TOL * s[0]:
        return None
    A = (Qt.T / s) @ (P.T @ (U2 / two))
    if np.linalg.cond(A) >= 1.0 / RANK_TOL:
        return None
    found = Transform.of(A / one[:, None] * two)
    U, V = found.apply(U1, V1)
    return replace(found, delta_u=_off(U2, U), delta_v=_off(V2, V))


def _off(F: np.ndarray, other: np.ndarray) -> float:
    size = float(np.linalg.norm(F))
    return float(np.linalg.norm(F - other)) / size if size > 0 else float(np.linalg.norm(other) > 0)
