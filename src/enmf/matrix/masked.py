"""X with missing or weighted entries: the only module that knows the pattern.

    ||X||² = sum of w x² over the observed entries,   R = W o (X - U Vᵀ),   products R V and Rᵀ U

Each orientation (rows, columns) stores a row in the cheaper way. If most entries are missing, by the observed ones. If
most are present, by the missing ones: the products of a base matrix with zeros at the missing entries are computed in
full and corrected on the missing pattern. Memory is O(observed entries), or O(n m) if X was given dense.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from enmf import parallel
from enmf.kernels import masked as kernels
from enmf.matrix.base import Listed, Matrix, once, safe_share
from enmf.matrix.dense import DenseMatrix
from enmf.matrix.factor import inner, row_blocks
from enmf.matrix.sparse import SparseMatrix
from enmf.matrix.sweeps import RowSteps, Sweep, extrapolate

SWEEPS = 20  # coordinate sweeps that find the support of an exact solution
MOSTLY_PRESENT = 1.0 / 3.0  # share of missing entries up to which full products pay off


@dataclass(frozen=True)
class Side:
    """One orientation: the stored entries of every row, see src/kernels/masked.h."""

    indptr: np.ndarray
    indices: np.ndarray
    weights: np.ndarray  # a
    targets: np.ndarray  # t
    from_base: np.ndarray  # n: whether the entries correct the base
    squares: np.ndarray  # n: sum of w x² of the observed entries
    totals: np.ndarray  # n: sum of w of the observed entries (their number without weights)

    @property
    def length(self) -> int:
        return len(self.totals)

    def entries(self) -> tuple[np.ndarray, ...]:
        return self.indptr, self.indices, self.weights, self.targets, self.from_base


class MaskedMatrix(Matrix):
    complete = False
    fused = True
    has_rows = True
    observed: int

    def __init__(self, rows: Side, columns: Side, base: DenseMatrix | SparseMatrix | None, observed: int) -> None:
        super().__init__((rows.length, columns.length), rows.weights.dtype)
        self.rows, self.columns, self.base = rows, columns, base
        self.observed = observed

    @property
    def cost_per_column(self) -> float:
        products = self.base.cost_per_column if self.base is not None else 0.0
        return products + 16.0 * len(self.rows.indices)

    def run(
        self, kernel: Callable[..., Any], side: Side, F: np.ndarray, C: np.ndarray, ridge: np.ndarray, *more: Any
    ) -> None:
        """Run a kernel on the normal equations of all rows of F (Fortran order, in place); a pass over the data."""
        self.passes += 1
        r = C.shape[1]
        G0, B0 = self._base_products(side, C)
        bounds = parallel.balanced_bounds(side.indptr + np.arange(side.length + 1), 2.0 * r * r)
        rows_of_C = np.ascontiguousarray(C)
        parallel.run(kernel, bounds, *side.entries(), rows_of_C, G0, B0, ridge.astype(C.dtype, copy=False), F.T, *more)

    def residual_times(
        self, side: Side, F: np.ndarray, C: np.ndarray, D: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """(W o (X - F Cᵀ)) D, by default with D = C, and the squared error of each row (only for D = C)."""
        self.passes += 1
        n, r = F.shape
        out = np.empty((r, n), F.dtype)
        errors = np.empty(n)
        by_rows = [np.ascontiguousarray(A) for A in ((F, C) if D is None else (F, C, D))]
        bounds = parallel.balanced_bounds(side.indptr + np.arange(n + 1), 6.0 * r)
        arguments = (*side.entries(), *by_rows[:2], by_rows[-1], out, errors)
        parallel.run(kernels.residual_times, bounds, *arguments)
        if self.base is not None and side.from_base.any():
            G0, B0 = self._base_products(side, C)
            based = side.from_base
            product = F @ (G0 if D is None else C.T @ D)
            times_D = B0 if D is None else self._multiply(side, D).T
            out[:, based] += (times_D - product.T)[:, based]
            if D is None:
                left = F.astype(np.float64, copy=False)
                own = np.einsum("ik,ik->i", left, product - 2 * B0.T, dtype=np.float64)
                errors += np.where(based, side.squares + own, 0.0)
        return out.T, errors

    def by_rows(self, side: int) -> Listed:
        return self._listed[side]

    @once
    def _listed(self) -> list[Listed]:
        """All that is observed, or, where unstored entries are zeros, what is stored and, with weight 0, missing."""
        if self.base is None:
            return [_by_weights(side) for side in (self.rows, self.columns)]
        if isinstance(self.base, SparseMatrix):
            (x, w), implied = _union(self.base.csr, self.rows), True
        else:
            i, j, values = (np.concatenate(parts) for parts in zip(*self.observed_entries()))
            x, implied = sp.csr_array((values, (i, j)), shape=self.shape), False
            w = np.ones_like(x.data)
        return [
            Listed(indptr[None], indices, x.data[order], indptr, w[order], implied)
            for indptr, indices, order in _orientations(x)
        ]

    # Half-steps and what is measured between them ---------------------------------------------------------------------

    def sides(self, half: Any) -> Side:
        return self.columns if half.side else self.rows

    def totals(self, side: int) -> np.ndarray:
        return (self.columns if side else self.rows).totals

    def half_step(self, half: Any, how: Sweep) -> None:
        self._run_on(half, kernels.sweep, float(how.wall), how.sweeps, float(how.progress))
        if how.momentum is not None:
            extrapolate(half.F, how.momentum)
        half.changed()

    def gradient_steps(self, half: Any, how: RowSteps) -> None:
        self._run_on(half, kernels.row_steps, how.steps, float(how.epsilon))
        half.changed()

    def _run_on(self, half: Any, kernel: Callable[..., Any], *arguments: Any) -> None:
        side = self.sides(half)
        self.run(kernel, side, half.F, half.other.F, half.penalty.per_row(side.length), *arguments)

    def wall(self, half: Any, relative: float) -> float:
        return relative  # every row applies it relative to its own Gram matrix

    def residual(self, half: Any) -> np.ndarray:
        """R C for this half: R V or Rᵀ U. Both depend on both factors; this also yields the squared error."""
        key = ("residual", half.side)
        if key not in half.joint:
            half.joint[key], errors = self.residual_times(self.sides(half), half.F, half.other.F)
            if half.side == 0:
                half.joint["squared"] = float(errors.sum())
        return half.joint[key]

    def terms(self, half: Any) -> tuple[np.ndarray, np.ndarray]:
        product = (self.transpose_times if half.side else self.times)(half.other.F)
        ridge = half.penalty.per_row(len(half.F))[:, None].astype(half.F.dtype)
        return product, product - self.residual(half) + ridge * half.F

    def gradient(self, half: Any) -> tuple[np.ndarray, np.ndarray]:
        r = half.F.shape[1]
        ridge = half.penalty.per_row(len(half.F))[:, None].astype(half.F.dtype)
        return np.zeros((r, r), half.F.dtype), np.asfortranarray(self.residual(half) - ridge * half.F)

    def prepare(self, state: Any, kkt: bool) -> None:
        self.residual(state.halves[0])

    def squared_error(self, state: Any) -> float:
        """sum of w (x - u . v)² over the observed entries."""
        rows, columns = state.halves
        self.residual(rows)
        squared = state.joint["squared"]
        if self.base is None:
            return squared
        # the products of the base add and subtract numbers of this size
        size = max(self.squared_norm(), inner(rows.gram, columns.gram))
        lost = squared < safe_share(self.dtype) * size
        return self.squared_residual(rows.F, columns.F) if lost else squared

    def heaviest(self) -> float:
        """The largest weight, at least 1."""
        return float(max(self.rows.weights.max(initial=0.0), 1.0))

    def half_step_flops(self, rank: int) -> float:
        return 2.0 * rank * self.cost_per_column * max(1.0, rank / 8.0)

    def measuring_flops(self, rank: int) -> float:
        return 3.0 * rank * self.cost_per_column

    def solve_rows(self, V: np.ndarray, ridge: np.ndarray) -> np.ndarray:
        """argmin over U >= 0 for this V, row by row, exact to rounding; rows without observations become zero.

        The result depends on X and V alone, so that `transform` returns what `fit_transform` did.
        """
        V64 = np.asfortranarray(V, dtype=np.float64)
        U = np.zeros((self.shape[0], V.shape[1]), order="F")
        self.run(kernels.sweep, self.rows, U, V64, ridge, np.inf, SWEEPS, 1e-4)
        self.run(kernels.solve, self.rows, U, V64, ridge)
        U[self.totals(0) == 0] = 0
        return U.astype(self.dtype, copy=False)

    # Products ---------------------------------------------------------------------------------------------------------

    def _base_products(self, side: Side, C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r = C.shape[1]
        if self.base is None or not side.from_base.any():
            return np.zeros((r, r), C.dtype), np.zeros((r, 0), C.dtype)
        return np.ascontiguousarray(C.T @ C), np.ascontiguousarray(self._multiply(side, C).T)

    def _multiply(self, side: Side, C: np.ndarray) -> np.ndarray:
        """Base times C, in the orientation of the side."""
        assert self.base is not None
        product = self.base.times if side is self.rows else self.base.transpose_times
        if C.dtype != self.base.dtype:  # exact solves work in double precision
            return product(C.astype(self.base.dtype)).astype(C.dtype)
        return product(C)

    def _times(self, V: np.ndarray) -> np.ndarray:
        return self.residual_times(self.rows, np.zeros((self.shape[0], V.shape[1]), V.dtype), V)[0]

    def _transpose_times(self, U: np.ndarray) -> np.ndarray:
        return self.residual_times(self.columns, np.zeros((self.shape[1], U.shape[1]), U.dtype), U)[0]

    def _compute_squared_norm(self) -> float:
        return float(self.rows.squares.sum())

    def _squared_residual(self, U: np.ndarray, V: np.ndarray, share: float) -> float:
        """From the residuals of the observed entries themselves."""
        U64, V64 = (F.astype(np.float64, copy=False) for F in (U, V))
        passes = self.passes
        partial = self.residual_times(self.rows, U64, V64)[1]
        self.passes = passes
        based = self.rows.from_base
        total = float(partial[~based].sum())
        if self.base is None or not based.any():
            return total
        rough = total + float(partial[based].sum())
        if self.dtype == np.float32:
            share = 1.0  # the products of the base are in single precision
        size = max(self.squared_norm(), float(np.vdot(U64.T @ U64, V64.T @ V64)))  # of what was added and subtracted
        if rough > share * size or self.shape[0] * self.shape[1] > 1e9:
            return rough
        return total + sum(self._block_residual(rows, U64, V64) for rows in row_blocks(*self.shape))

    def _block_residual(self, rows: slice, U: np.ndarray, V: np.ndarray) -> float:
        """sum of w (x - u vᵀ)² over a few rows of the base, without the missing entries."""
        assert self.base is not None
        block: Any = self.base.raw()[rows]
        D = (block.toarray() if sp.issparse(block) else block) - U[rows] @ V.T
        np.square(D, out=D)
        side = self.rows
        first, last = side.indptr[rows.start], side.indptr[rows.stop]
        local = np.repeat(np.arange(rows.stop - rows.start), np.diff(side.indptr[rows.start : rows.stop + 1]))
        D[local, side.indices[first:last]] *= 1.0 + side.weights[first:last]
        return float(D[side.from_base[rows]].sum())

    def observed_entries(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Rows, columns and values of the observed entries, some rows at a time."""
        side = self.rows
        for rows in row_blocks(*self.shape) if self.base is not None else [slice(0, self.shape[0])]:
            first, last = side.indptr[rows.start], side.indptr[rows.stop]
            local = np.repeat(np.arange(rows.stop - rows.start), np.diff(side.indptr[rows.start : rows.stop + 1]))
            columns = side.indices[first:last]
            if self.base is None:
                yield local + rows.start, columns, side.targets[first:last] / side.weights[first:last]
                continue
            block: Any = self.base.raw()[rows]
            values = block.toarray() if sp.issparse(block) else block
            stored = np.zeros(values.shape, dtype=np.bool_)
            gaps = side.weights[first:last] == -1
            own = ~side.from_base[rows][local]
            stored[local[gaps | own], columns[gaps | own]] = True
            i, j = np.nonzero(side.from_base[rows][:, None] != stored)
            yield i + rows.start, j, values[i, j]

    def gram(self) -> np.ndarray:
        raise TypeError("a matrix with missing entries has no Gram matrix")

    def row_squares(self) -> np.ndarray:
        """sum of w x² of every row."""
        return self.rows.squares

    def _rows(self, index: np.ndarray, weight: np.ndarray) -> Matrix:
        raise TypeError("rows of a matrix with missing entries are not sampled")


def from_observed(csr: sp.csr_array, weights: np.ndarray | None = None) -> MaskedMatrix:
    """All stored entries are observed (zeros too), all others missing; `weights` belongs to `csr.data`."""
    x = csr.data
    w = np.ones_like(x) if weights is None else weights.astype(x.dtype)
    sides = []
    for indptr, indices, order in _orientations(csr):
        squares = _row_sums(indptr, w[order] * x[order].astype(np.float64) ** 2)
        nothing = np.zeros(len(squares), dtype=np.bool_)
        sides.append(Side(indptr, indices, w[order], (w * x)[order], nothing, squares, _row_sums(indptr, w[order])))
    return MaskedMatrix(sides[0], sides[1], None, csr.nnz)


def from_dense(array: np.ndarray, missing: np.ndarray) -> MaskedMatrix:
    """A dense matrix, and a boolean matrix of the same shape that marks the missing entries."""
    count = int(missing.sum())
    if count > MOSTLY_PRESENT * array.size:
        rows, columns = np.nonzero(~missing)
        return from_observed(sp.csr_array((array[rows, columns], (rows, columns)), shape=array.shape))
    filled = np.where(missing, array.dtype.type(0), array)
    sides = []
    for A, M in ((filled, missing), (filled.T, missing.T)):
        lacking = M.sum(axis=1)
        based = lacking <= MOSTLY_PRESENT * A.shape[1]
        rows, columns = np.nonzero(based[:, None] == M)  # missing entries of based rows, observed ones of others
        a = np.where(based[rows], -1, 1).astype(array.dtype)
        t = np.where(based[rows], 0, A[rows, columns]).astype(array.dtype)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(A)))]).astype(np.int64)
        squares = np.einsum("ij,ij->i", A, A, dtype=np.float64)
        totals = (A.shape[1] - lacking).astype(np.float64)
        sides.append(Side(indptr, columns.astype(np.int32), a, t, based, squares, totals))
    return MaskedMatrix(sides[0], sides[1], DenseMatrix(filled), array.size - count)


def from_sparse(csr: sp.csr_array, missing: sp.csr_array, weights: np.ndarray | None = None) -> MaskedMatrix:
    """Unstored entries are zeros; the entries stored in `missing`, none of which is stored in `csr`, are missing.

    `weights` belongs to `csr.data`; unstored entries have weight 1.
    """
    gaps, stored = (sp.coo_array(S) for S in (missing, csr))
    w = np.ones_like(csr.data) if weights is None else weights.astype(csr.dtype)
    other = w != 1  # stored entries whose weight the base does not contain
    a = np.concatenate([np.full(gaps.nnz, -1, csr.dtype), w[other] - 1])
    t = np.concatenate([np.zeros(gaps.nnz, csr.dtype), (w[other] - 1) * csr.data[other]])
    places = [np.concatenate([g, s[other]]) for g, s in zip(gaps.coords, stored.coords)]
    first = np.argsort(places[0].astype(np.int64) * csr.shape[1] + places[1])  # into CSR order, which not every
    a, t, places = a[first], t[first], [each[first] for each in places]  # version of SciPy makes by itself
    corrections = sp.csr_array((np.ones(len(a)), tuple(places)), shape=csr.shape)
    sides = []
    for axis, (indptr, indices, order) in enumerate(_orientations(corrections)):
        length, width = csr.shape[axis], csr.shape[1 - axis]
        lacking = np.bincount(gaps.coords[axis], minlength=length)
        own = stored.coords[axis]
        squares = np.bincount(own, w * csr.data.astype(np.float64) ** 2, length)
        totals = width - lacking + np.bincount(own, w.astype(np.float64) - 1.0, length)
        # A row without observations keeps the base: its normal equations cancel to zero, which the kernels notice.
        based = np.ones(length, dtype=np.bool_)
        sides.append(Side(indptr, indices, a[order], t[order], based, squares, totals))
    return MaskedMatrix(sides[0], sides[1], SparseMatrix(csr), csr.shape[0] * csr.shape[1] - gaps.nnz)


def _by_weights(side: Side) -> Listed:
    """Observed entries from w and w x."""
    x = np.divide(side.targets, side.weights, out=np.zeros_like(side.targets), where=side.weights > 0)
    return Listed(side.indptr[None], side.indices, x, side.indptr, side.weights, implied=False)


def _union(base: sp.csr_array, side: Side) -> tuple[sp.csr_array, np.ndarray]:
    """Entries that are stored in the base or corrected: their values, and their weights."""
    stored = sp.coo_array(base)
    rows = np.repeat(np.arange(side.length), np.diff(side.indptr))
    i, j = (np.concatenate(both) for both in zip(stored.coords, (rows, side.indices)))
    zeros = np.zeros(len(rows), base.dtype)
    x = sp.csr_array((np.concatenate([stored.data, zeros]), (i, j)), shape=base.shape)
    extra = sp.csr_array((np.concatenate([np.zeros_like(stored.data), side.weights]), (i, j)), shape=base.shape)
    for A in (x, extra):
        A.sum_duplicates()
    return x, 1 + extra.data


def _orientations(csr: sp.csr_array) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """indptr, indices and the place of each entry in `csr.data`, for the matrix and for its transpose."""
    carrier = sp.csr_array((np.arange(csr.nnz), csr.indices, csr.indptr), shape=csr.shape)
    return [
        (A.indptr.astype(np.int64), A.indices.astype(np.int32, copy=False), A.data)
        for A in (carrier, sp.csr_array(carrier.T))
    ]


def _row_sums(indptr: np.ndarray, values: np.ndarray) -> np.ndarray:
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    return np.bincount(rows, values, len(indptr) - 1)
