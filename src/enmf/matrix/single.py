"""X in single precision, for the phases before the descent: products convert X on the fly.

A block of rows of a dense X is converted in the cache and used at once, for X V, for Xᵀ U, or for both. A sparse X
converts each value it reads. Nothing of the size of X is stored.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp

from enmf import parallel
from enmf.matrix.base import Matrix
from enmf.matrix.dense import DenseMatrix
from enmf.matrix.scaled import ScaledMatrix
from enmf.matrix.sparse import SparseMatrix

PARTS = 8  # into which the rows are split, whatever the number of threads; each has its own sums
HEIGHT = 128  # rows of the stored array that are converted together
LARGEST_COPY = 1 << 26  # numbers of a dense X that may be stored a second time: 256 MB
SAFE = 1e-15, 1e15  # range of ||X|| in which single precision can hold products with X, and theirs with Xᵀ


def in_single(X: Matrix) -> Matrix:
    """X in single precision, sharing its data and its count of passes; X itself if that is not possible."""
    if X.dtype != np.float64 or not SAFE[0] < np.sqrt(X.squared_norm()) < SAFE[1]:
        return X
    if isinstance(X, ScaledMatrix):
        inner = in_single(X.X)
        return X if inner is X.X else X.of(inner)
    if isinstance(X, DenseMatrix):
        return SingleDense(X)
    return SingleSparse(X) if isinstance(X, SparseMatrix) else X


def stored_in_single(X: Matrix) -> Matrix:
    """X in single precision for many passes: a dense X of moderate size is copied, which halves the time of a pass."""
    single = in_single(X)
    if isinstance(single, SingleDense) and math.prod(X.shape) <= LARGEST_COPY:
        return CopiedDense(single)
    return single


def copied_in_single(X: Matrix) -> Matrix | None:
    """X in single precision as kernels of their own need it, in memory: a sparse X shares its pattern; None if X is
    not in double precision, or too large for another copy."""
    single = stored_in_single(X)
    if isinstance(single, SingleSparse):
        csr = single.csr
        return CopiedSparse(single, sp.csr_array((csr.data.astype(np.float32), csr.indices, csr.indptr), csr.shape))
    return single if isinstance(single, CopiedDense) else None


class CopiedSparse(SparseMatrix):
    """Another copy of the numbers of a sparse X, in single precision."""

    def __init__(self, whole: SparseMatrix, csr: sp.csr_array) -> None:
        super().__init__(csr)
        self.ledger = whole.ledger


class CopiedDense(DenseMatrix):
    """Another copy of a dense X, in single precision."""

    def __init__(self, whole: SingleDense) -> None:
        super().__init__(_copied(whole.array))
        self.ledger = whole.ledger
        self.memo["_survey"] = whole._survey


def _copied(A: np.ndarray) -> np.ndarray:
    """A in single precision, in its order."""
    upright = A if A.flags.c_contiguous else A.T
    out = np.empty(upright.shape, np.float32)

    def rows(start: int, stop: int) -> None:
        np.copyto(out[start:stop], upright[start:stop], casting="same_kind")

    parallel.run(rows, parallel.even_bounds(len(out), 10.0 * upright.shape[1]))
    return out if upright is A else out.T


class SingleDense(DenseMatrix):
    allows_one_pass = False

    def __init__(self, whole: DenseMatrix) -> None:
        super().__init__(whole.array)
        self.dtype, self.ledger, self.memo = np.dtype(np.float32), whole.ledger, whole.memo
        self._upright = whole.array.flags.c_contiguous

    def there_and_back(self, Q: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        if not self._upright:
            return super().there_and_back(Q)
        self.passes += 1
        XQ = np.empty((Q.shape[1], self.shape[0]), np.float32)
        return XQ.T, _across(self.array, XQ, np.ascontiguousarray(Q.T, np.float32))

    def _times(self, V: np.ndarray) -> np.ndarray:
        return self._product(V, self._upright)

    def _transpose_times(self, U: np.ndarray) -> np.ndarray:
        return self._product(U, not self._upright)

    def _product(self, C: np.ndarray, along: bool) -> np.ndarray:
        stored = self.array if self._upright else self.array.T
        return (_along if along else _across)(stored, np.ascontiguousarray(C.T, np.float32))

    def _rows(self, index: np.ndarray, weight: np.ndarray) -> DenseMatrix:
        out = np.empty((len(index), self.shape[1]), np.float32)

        def rows(start: int, stop: int) -> None:
            for i in range(start, stop):
                np.multiply(self.array[index[i]], weight[i], out=out[i], casting="same_kind")

        parallel.run(rows, parallel.even_bounds(len(index), 10.0 * self.shape[1]))
        return DenseMatrix(out)


def _along(A: np.ndarray, C: np.ndarray) -> np.ndarray:
    """A Cᵀ (n x k) for A (n x m) and C (k x m)."""
    n, m = A.shape
    out = np.empty((len(C), n), np.float32)

    def rows(start: int, stop: int) -> None:
        place = np.empty((HEIGHT, m), np.float32)
        for first in range(start, stop, HEIGHT):
            inside = slice(first, min(first + HEIGHT, stop))
            np.matmul(C, _converted(A[inside], place).T, out=out[:, inside])

    parallel.run(rows, parallel.even_bounds(n, 2.0 * m * len(C), HEIGHT))
    return out.T


def _across(A: np.ndarray, D: np.ndarray, C: np.ndarray | None = None) -> np.ndarray:
    """Aᵀ Dᵀ (m x k) for A (n x m) and D (k x n), which is first set to C Aᵀ if a C (k x m) is given."""
    n, m = A.shape
    height = -(-n // (PARTS * HEIGHT)) * HEIGHT
    sums = np.empty((-(-n // height), len(D), m), np.float32)

    def part(start: int, stop: int) -> None:
        place, more = np.empty((HEIGHT, m), np.float32), np.empty((len(D), m), np.float32)
        for number in range(start, stop):
            begin = number * height
            for first in range(begin, min(begin + height, n), HEIGHT):
                inside = slice(first, min(first + HEIGHT, n))
                block = _converted(A[inside], place)
                if C is not None:
                    np.matmul(C, block.T, out=D[:, inside])
                np.matmul(D[:, inside], block, out=sums[number] if first == begin else more)
                if first > begin:
                    sums[number] += more

    parallel.run(part, parallel.even_bounds(len(sums), 2.0 * height * m * len(D)))
    out = np.empty((len(D), m), np.float32)

    def columns(start: int, stop: int) -> None:
        np.sum(sums[:, :, start:stop], axis=0, out=out[:, start:stop])

    parallel.run(columns, parallel.even_bounds(m, 10.0 * len(sums) * len(D)))
    return out.T


def _converted(block: np.ndarray, place: np.ndarray) -> np.ndarray:
    """The block in single precision, in the first rows of `place`."""
    out = place[: len(block)]
    np.copyto(out, block, casting="same_kind")
    return out


class SingleSparse(SparseMatrix):
    def __init__(self, whole: SparseMatrix) -> None:
        super().__init__(whole.csr)
        self.dtype, self.ledger, self.memo = np.dtype(np.float32), whole.ledger, whole.memo

    def burst(self, rank: int) -> None:
        return None  # a burst would need a copy

    def _rows(self, index: np.ndarray, weight: np.ndarray) -> SparseMatrix:
        return SparseMatrix(super()._rows(index, weight).csr.astype(np.float32))
