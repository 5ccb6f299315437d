"""Frequent Directions in blocks: a few rows B (k x m) that say how much of all rows A seen any r directions hold.

    AᵀA <= BᵀB + D I      in the order of symmetric matrices.

So s_1² + ... + s_r² of A is at most that of B plus r D, and by Eckart and Young no factorization of rank r has a
smaller squared error than  ||A||² - s_1(B)² - ... - s_r(B)² - r D.  Rows X join by the eigenvalues of [B; X] [B; X]ᵀ;
if there are more than `width` of them, all are lowered by d, the next one, and D grows by d (Liberty 2013). What is
lowered comes back with D, so the leading directions lose nothing. Weights of rows scale everything alike, and sketches
of different rows add up: their rows are stacked, their D are added.

The same without lowering is an incremental SVD: it has no bound, but better directions to start from.

A batch of many rows is compressed first: with P (m x l, orthonormal) and the notation of `enmf.linalg.bound`,
    XᵀX <= P (PᵀCP + RᵀR / t) Pᵀ + (delta + t) (I - PPᵀ),    C = XᵀX, R = CP - P PᵀCP, delta >= ||(I-PPᵀ) C (I-PPᵀ)||,
of which rows are lowered by delta + t as above. delta comes from block Lanczos and is right with a probability so close
to 1 that the whole stream fails with a probability below 1e-9; sketches of small batches are right without any.

Rounding. A merge of p rows with m entries each computes their Gram matrix within m eps tr, its eigenvectors within
p eps tr, and the rotated rows within p eps sqrt(p tr), which changes BᵀB by at most 2 p^1.5 eps tr; tr, the sum of the
squares of all entries, is at most ||A||². `rounding` adds this up, and the bound is lowered by it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from enmf.linalg.bound import remainder_norm
from enmf.linalg.sketch import glance, power
from enmf.linalg.spectrum import MEASURED, orthonormal
from enmf.matrix.base import Matrix
from enmf.matrix.stack import part, rows_in
from enmf.parallel import lapack, matmul

EPS = float(np.finfo(np.float64).eps)
OVERSAMPLING = 10  # directions beyond the width when a batch is compressed: the last ones converge slowly
POWER = 1  # power iterations for the directions of a batch: with none, errors of text grow to four times
SHARES = 1e-2, 10.0, 7  # of delta: trials for t. Neighbours differ by a factor of 3, the best one is not sharply so
ROWS = 4  # times the width: rows that are merged at a time
SPARSE_GRAM = 2.0  # columns of a product that take as long as one of X Xᵀ for sparse X; half a column for dense X
LANCZOS = 2 * MEASURED.norm_block * MEASURED.norm_steps  # products of one column that the norm of a remainder takes


@dataclass(frozen=True, eq=False)
class Sketch:
    """Rows B and the number D (`excess`), for a bound of this rank."""

    B: np.ndarray  # k x m, orthogonal rows up to rounding, largest first
    rank: int
    width: int
    excess: float = 0.0
    rounding: float = 0.0
    lowers: bool = True  # False: an incremental SVD, of better directions, without a bound

    @classmethod
    def empty(cls, columns: int, rank: int, width: int, lowers: bool = True) -> Sketch:
        return cls(np.zeros((0, columns)), rank, min(width, columns), lowers=lowers)

    def lower_bound(self, squared_norm: float) -> float:
        """No factorization of the rows seen, whose squared norm this is, has a smaller error."""
        held = lapack(np.linalg.eigvalsh, matmul(self.B, self.B.T))[::-1][: self.rank]
        doubt = self.rounding + (self.B.shape[1] + len(self.B) + 64) * EPS * squared_norm
        return max(squared_norm - float(held.sum()) - self.rank * self.excess - doubt, 0.0) ** 0.5

    def basis(self) -> np.ndarray:
        """The directions of the rows, orthonormal up to rounding  # m x k"""
        return (self.B / np.linalg.norm(self.B, axis=1)[:, None]).T

    def scaled(self, weight: float) -> Sketch:
        """The sketch of rows whose squares have this weight."""
        return replace(
            self, B=self.B * weight**0.5, excess=self.excess * weight, rounding=self.rounding * weight * (1 + EPS)
        )

    def plus(self, X: Matrix, rng: np.random.Generator, number: int = 1) -> tuple[Sketch, np.ndarray]:
        """The sketch with the rows of X, the `number`-th compression if it takes one; and old basisᵀ new basis."""
        if X.squared_norm() == 0.0:
            return self, np.eye(len(self.B))
        if not self.lowers and X.shape[0] > 2 * self._height and X.shape[1] > self._height:
            spectrum = power(X, glance(X, self.width, rng), POWER)
            return self._merged(rows_in(np.ascontiguousarray((spectrum.V * spectrum.s).T, np.float64)))
        if self.lowers and self._better_compressed(X):
            rows, excess = compressed(X, self, rng, MEASURED.failure / (2.0 * number**2))
            doubt = (max(X.shape) + 4.0 * rows.shape[0] ** 1.5 + 64) * EPS * X.squared_norm()
            sketch = replace(self, excess=self.excess + excess, rounding=self.rounding + doubt)
            return sketch._merged(rows)
        if X.shape[0] > X.shape[1] and X.shape[1] <= self._height:
            return self._merged(_gram_rows(X))
        sketch, turn = self, np.eye(len(self.B))
        for first in range(0, X.shape[0], self._height):
            sketch, then = sketch._merged(part(X, first, first + self._height))
            turn = matmul(turn, then)
        return sketch, turn

    def merge(self, other: Sketch) -> tuple[Sketch, np.ndarray]:
        """The sketch of the rows of both; and old basisᵀ new basis."""
        both = replace(self, excess=self.excess + other.excess, rounding=self.rounding + other.rounding)
        return both._merged(rows_in(other.B)) if len(other.B) else (both, np.eye(len(self.B)))

    def _better_compressed(self, X: Matrix) -> bool:
        """Whether compression costs less than merging a few rows at a time (in flops)."""
        (n, m), cost = X.shape, X.cost_per_column
        columns, wide, height = self.width + OVERSAMPLING, self.width, min(n, self._height)
        if min(n, m) <= columns + MEASURED.norm_block * MEASURED.norm_steps:
            return False
        one = MEASURED.eigenvectors * float(wide + height) ** 3 + 2.0 * m * wide * (wide + height)
        gram = 0.5 if X.has_entries else SPARSE_GRAM
        merges = -(-n // height) * one + (gram * height + wide) * cost
        passes = 4 * columns + LANCZOS
        return merges > passes * cost + 6.0 * m * columns**2

    @property
    def _height(self) -> int:
        """Rows that are merged at a time: as many as make their Gram matrix and the new rows cost about the same."""
        return ROWS * self.width

    def _merged(self, X: Matrix) -> tuple[Sketch, np.ndarray]:
        """The rows of B and X (at most m of them) rotated, the largest kept, all lowered by the next one."""
        B, k = self.B, len(self.B)
        side = X.times(np.ascontiguousarray(B.T)) if k else np.zeros((X.shape[0], 0))  # X Bᵀ
        gram = np.block([[matmul(B, B.T), side.T], [side, X.gram()]])
        whole, count = float(np.trace(gram)), len(gram)
        values, T = lapack(np.linalg.eigh, gram)
        values, T = values[::-1], T[:, ::-1]
        lowered = max(float(values[self.width]), 0.0) if self.lowers and count > self.width else 0.0
        noise = 4.0 * count * EPS * whole
        few = int((values[: self.width] > lowered + noise).sum())
        values, T = values[:few], T[:, :few]
        doubt = (self.B.shape[1] + 4.0 * count**1.5 + 64) * EPS * whole + (count - few) * noise
        rows = matmul(np.ascontiguousarray(T[:k].T), B) + X.transpose_times(np.asfortranarray(T[k:])).T
        rows *= np.sqrt((values - lowered) / values)[:, None]
        old = np.sqrt(np.einsum("ij,ij->i", B, B))
        turn = T[:k] * np.sqrt(values) / old[:, None]
        new = replace(self, B=np.ascontiguousarray(rows), excess=self.excess + lowered, rounding=self.rounding + doubt)
        return new, turn


def _gram_rows(X: Matrix) -> Matrix:
    """At most m rows with the same Gram matrix XᵀX."""
    values, T = lapack(np.linalg.eigh, X.gram())
    return rows_in(np.ascontiguousarray((T * np.sqrt(np.maximum(values, 0.0))).T))


def compressed(X: Matrix, sketch: Sketch, rng: np.random.Generator, failure: float) -> tuple[Matrix, float]:
    """A few rows Y and a number d with  XᵀX <= YᵀY + d I  (probability of failure below `failure`)."""
    columns = sketch.width + OVERSAMPLING
    P = orthonormal(X.gram_times(glance(X, columns, rng).V).astype(np.float64))
    CP = X.gram_times_in_double(P)
    A = matmul(P.T, CP)
    values, turn = lapack(np.linalg.eigh, (A + A.T) / 2.0)
    values, turn = values[::-1], turn[:, ::-1]
    P, CP = matmul(P, turn), matmul(CP, turn)
    R = CP - P * values
    RtR, delta = matmul(R.T, R), remainder_norm(X, P, rng, failure)
    best = None
    for t in np.geomspace(*SHARES) * max(delta, EPS * values[0]):
        inside, T = np.linalg.eigh(np.diag(values) + RtR / t)
        held = float(np.maximum(inside[::-1][: sketch.rank], delta + t).sum())
        if best is None or held < best[0]:
            best = held, inside[::-1], T[:, ::-1], delta + t
    assert best is not None
    _, inside, T, excess = best
    few = max(1, int((inside > excess).sum()))
    rows = matmul(P, np.ascontiguousarray(T[:, :few])) * np.sqrt(np.maximum(inside[:few] - excess, 0.0))
    return rows_in(np.ascontiguousarray(rows.T)), excess
