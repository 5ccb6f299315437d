"""Toward the nonnegative orthant with the product unchanged: U A >= 0 and V A⁻ᵀ >= 0 (paper, appendix A, eq. 5).

kind "rotation"  A orthogonal: Algorithm 1 of the paper, phase 2 of the exterior method
kind "general"   A = R1 L R2ᵀ: from that rotation, rounds of the generalized ADMM (`admm.py`), each followed by an
                 attempt to finish with Gauss-Newton steps (`newton.py`); the best point overall is kept

Distance zero means an exact nonnegative factorization of U Vᵀ. Finding one is NP-hard in general, so a positive
distance proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from enmf import parallel
from enmf.geometry.exact.admm import GeneralAdmm
from enmf.geometry.exact.newton import balanced, refine
from enmf.geometry.exact.relation import Transform, transform_between
from enmf.linalg.rotation import ROTATION_STARTS, Turning, rotate
from enmf.problem.validation.factors import check_pair, check_same_sides
from enmf.problem.validation.numbers import check_choice, check_count, make_rng

KINDS = ("rotation", "general")
ROUND = 250  # ADMM iterations between two attempts to finish
LOOK = 25  # ADMM iterations between two measurements of the distance
NONNEGATIVE = 1e-13  # relative distance that counts as rounding


@dataclass(frozen=True)
class OrthantTransform:
    """Factors near the nonnegative orthant with the same product as the given ones.

    Attributes
    ----------
    U, V : ndarray
        U A and V A⁻ᵀ.
    distance : float
        Sum of the absolute values of the negative entries of both.
    relative_distance : float
        The same over the sum of all absolute entries; it has no unit.
    transform : Transform
        A = R1 diag(L) R2ᵀ; also as `R1`, `L`, `R2`.
    kind : str
    iterations : int
        Of the rotation and the general ADMM together.
    newton_steps : int

    Examples
    --------
    >>> import enmf
    >>> X, _, _ = enmf.datasets.make_exact(50, 40, 10, sparsity=0.3, random_state=0)
    >>> found = enmf.exact.transform_to_orthant(*enmf.exact.svd_factors(X, 10))
    >>> found.nonnegative
    True
    """

    U: np.ndarray
    V: np.ndarray
    distance: float
    relative_distance: float
    transform: Transform
    kind: str
    iterations: int
    newton_steps: int = 0

    @property
    def R1(self) -> np.ndarray:
        return self.transform.R1

    @property
    def L(self) -> np.ndarray:
        return self.transform.L

    @property
    def R2(self) -> np.ndarray:
        return self.transform.R2

    @property
    def nonnegative(self) -> bool:
        """Whether the negative entries are only rounding."""
        return self.relative_distance <= NONNEGATIVE

    def __repr__(self) -> str:
        return (
            f"OrthantTransform(kind={self.kind!r}, distance={self.distance:.3g}, "
            f"relative_distance={self.relative_distance:.3g}, iterations={self.iterations})"
        )


def transform_to_orthant(
    U: Any, V: Any, kind: str = "general", *, start: Any = "spread", max_iter: int = 2000, random_state: Any = 0
) -> OrthantTransform:
    """Transform factors toward the nonnegative orthant, keeping their product.

    Parameters
    ----------
    U, V : array-like of shape (n, r) and (m, r)
        Usually `enmf.exact.svd_factors(X, rank)`. Entries may be negative.
    kind : {"general", "rotation"}
        Set of transforms: all invertible matrices, or the orthogonal ones. The distance of the general transform is
        never above that of the rotation.
    start : {"spread", "identity", "random"}, (U, V) or Result
        Start of the rotation, by name; or, for kind "general", nonnegative factors with a similar product: the steps
        begin at the transform that comes closest to them. This turns an approximate factorization into an exact one.
    max_iter : int
        Largest number of ADMM iterations (the rotation gets at most 200 of them).
    random_state : int, RandomState, Generator or None
        For start="random".

    Returns
    -------
    OrthantTransform
        `.U`, `.V`, `.distance`, and the transform `.R1`, `.L`, `.R2`.

    Examples
    --------
    >>> import enmf
    >>> X, _, _ = enmf.datasets.make_exact(50, 40, 10, sparsity=0.3, random_state=0)
    >>> found = enmf.exact.transform_to_orthant(*enmf.exact.svd_factors(X, 10))
    >>> found.nonnegative, bool(abs(found.U @ found.V.T - X).max() < 1e-10)
    (True, True)
    """
    U, V = check_pair((U, V))
    check_choice("kind", kind, list(KINDS))
    check_count("max_iter", max_iter, low=0)
    near = None
    if isinstance(start, str):
        check_choice("start", start, list(ROTATION_STARTS))
    else:
        near, start = _transform_near(U, V, start, kind), ROTATION_STARTS[0]
    # an SVD leaves the signs of its pairs open; the rotation needs columns that are mostly positive
    signs = np.where(U.sum(axis=0) / _size(U) + V.sum(axis=0) / _size(V) < 0, -1.0, 1.0)
    rng = make_rng(random_state)
    with parallel.limit(None):
        found = rotate(U * signs, V * signs, Turning(start, min(max_iter, 200)), rng)
        best = _Best(U, V, signs[:, None] * found.R.astype(np.float64))
        iterations, steps = found.iterations, 0
        if kind == "general" and best.share > NONNEGATIVE:
            more, steps = _beyond_rotation(best, near, max_iter - iterations)
            iterations += more
        return best.result(kind, iterations, steps)


def _transform_near(U: np.ndarray, V: np.ndarray, start: Any, kind: str) -> np.ndarray:
    """The A with U A closest to the U of the start."""
    U0, V0 = check_pair(start, "start")
    check_same_sides((U, V), (U0, V0), same_rank=True)
    if kind == "rotation":
        raise ValueError("factors as start need kind='general'; with kind='rotation' the start is a name")
    found = transform_between(U, V, U0, V0)
    if found is None:
        raise ValueError("no transform leads to the start: its U or the given U has linearly dependent columns")
    return found.A


def _beyond_rotation(best: _Best, near: np.ndarray | None, max_iter: int) -> tuple[int, int]:
    """Improve on the rotation by a general transform; returns the numbers of ADMM iterations and of Newton steps."""
    U, V, steps = best.U, best.V, 0
    # the rotation keeps the scale of U and V as given; the general transform may choose it
    c = np.sqrt(_size(V) / _size(U))
    admm = GeneralAdmm(U * c, V / c, best.rotation)
    candidates = (A * c for A in _rounds(admm, max_iter))
    for A in candidates if near is None else chain([near], candidates):
        best.offer(A)
        if best.share > NONNEGATIVE:
            finished, count = refine(U, V, A)
            steps += count
            best.offer(finished)
        if best.share <= NONNEGATIVE:
            break
    return admm.iterations, steps


def _rounds(admm: GeneralAdmm, max_iter: int) -> Iterator[np.ndarray]:
    """The transform with the smallest negative share in each round of ADMM iterations."""
    while admm.iterations < max_iter:
        best, least = admm.A, np.inf
        end = min(admm.iterations + ROUND, max_iter)
        while admm.iterations < end and least > NONNEGATIVE:
            admm.step()
            if admm.iterations % LOOK == 0 or admm.iterations == end:
                share = admm.negative_share()
                if share < least:
                    best, least = admm.A, share
        yield best


class _Best:
    """The transform with the smallest distance so far."""

    def __init__(self, U: np.ndarray, V: np.ndarray, rotation: np.ndarray) -> None:
        self.U, self.V = U, V
        self.A, self.rotation = rotation, rotation
        self.distance, self.share = self._measure(*self._apply(rotation))

    def offer(self, A: np.ndarray) -> None:
        if not np.isfinite(A).all() or np.linalg.cond(A) > 1e12:
            return
        A = balanced(self.U, self.V, A)
        distance, share = self._measure(*self._apply(A))
        if distance < self.distance:
            self.A, self.distance, self.share = A, distance, share

    def result(self, kind: str, iterations: int, steps: int) -> OrthantTransform:
        r = len(self.A)
        rotated = self.A is self.rotation
        # the SVD of an orthogonal matrix is not unique; R1 = I and R2 = Rᵀ is its simplest form
        transform = Transform(np.eye(r), np.ones(r), self.A.T.copy()) if rotated else Transform.of(self.A)
        U, V = self._apply(self.A)
        return OrthantTransform(U, V, self.distance, self.share, transform, kind, iterations, steps)

    def _apply(self, A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.U @ A, self.V @ np.linalg.inv(A).T

    @staticmethod
    def _measure(U: np.ndarray, V: np.ndarray) -> tuple[float, float]:
        distance = abs(float(np.minimum(U, 0).sum() + np.minimum(V, 0).sum()))
        whole = float(np.abs(U).sum() + np.abs(V).sum())
        return distance, distance / whole if whole > 0 else 0.0


def _size(F: np.ndarray) -> float:
    size = float(np.linalg.norm(F))
    return size if size > 0 else 1.0
