"""spa: successive projection (Araújo et al. 2001; Gillis and Vavasis 2014).

If U contains the identity (X is separable), the convex hull of the rows of X, each divided by its sum, has the wanted
rows as its corners. Take the longest row, remove its direction from all, repeat:
    k = argmax_i ||x_i||,   q = x_k / ||x_k||,   x_i <- x_i - (x_iᵀ q) q
V holds the r rows found, U the nonnegative least-squares coefficients of all rows. The same is done with the columns of
X, and the side with the smaller error is taken. X itself is never changed: only the lengths are updated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from enmf.matrix.base import Matrix
from enmf.matrix.sweeps import solve_nnls
from enmf.parallel import matmul
from enmf.starts.random import random
from enmf.starts.scaling import balanced

Product = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Extraction:
    """Factors X ~ U Vᵀ, one of which consists of rows or columns of X."""

    side: str  # "rows" or "columns"
    anchors: tuple[int, ...]
    U: np.ndarray
    V: np.ndarray
    relative_error: float


def spa(X: Matrix, rank: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    found = extract(X, min(rank, *X.shape))
    U, V = random(X, rank, rng)  # some of its columns remain if X has fewer independent rows than the rank
    count = len(found.anchors)
    U[:, :count], V[:, :count] = balanced(found.U, found.V)
    return U, V


def extract(X: Matrix, rank: int) -> Extraction:
    """The better of the extractions from rows and from columns."""
    return min((_from(X, rank, side) for side in ("rows", "columns")), key=lambda found: found.relative_error)


def _from(X: Matrix, rank: int, side: str) -> Extraction:
    (n, m), rows = X.shape, side == "rows"
    times, back = (X.times, X.transpose_times) if rows else (X.transpose_times, X.times)
    length, width = (n, m) if rows else (m, n)
    anchors = _corners(times, back, _squares(X, axis=1 if rows else 0), width, rank, X.dtype)
    picked = _unit_rows(back, length, anchors, X.dtype)
    solved = np.asfortranarray(solve_nnls(matmul(picked.T, picked), times(picked)))
    U, V = (solved, picked) if rows else (picked, solved)
    return Extraction(side, tuple(anchors), U, V, _relative_error(X, U, V))


def _corners(
    times: Product, transpose_times: Product, squares: np.ndarray, width: int, rank: int, dtype: np.dtype
) -> list[int]:
    """Rows picked by successive projection; fewer than the rank when only rounding is left.

    `times` multiplies X (or Xᵀ, to pick columns) by a block of columns, `squares` are the squared lengths of its rows.
    """
    sums = times(np.ones((width, 1), dtype))[:, 0].astype(np.float64)
    eps = float(np.finfo(dtype).eps)
    weight = np.divide(1.0, sums, out=np.zeros(len(sums)), where=sums > eps * sums.max(initial=0.0))  # 0: rounding
    length = (np.sqrt(squares) * weight) ** 2
    rounding = 100.0 * eps * length.max(initial=0.0)
    basis = np.zeros((width, 0))
    picked: list[int] = []
    while len(picked) < rank and length.max(initial=0.0) > rounding:
        k = int(np.argmax(length))
        length[k] = 0.0
        row = _unit_rows(transpose_times, len(sums), [k], dtype)[:, 0].astype(np.float64) * weight[k]
        for _ in range(2):  # twice is enough for orthogonality
            row = row - basis @ (basis.T @ row)
        rest = float(row @ row)
        if rest <= rounding:
            continue
        q = row / np.sqrt(rest)
        along = times(np.asfortranarray(q[:, None], dtype))[:, 0].astype(np.float64) * weight
        length = np.maximum(length - along**2, 0.0)
        basis = np.column_stack([basis, q])
        picked.append(k)
    return picked


def _unit_rows(transpose_times: Product, n: int, rows: list[int], dtype: np.dtype) -> np.ndarray:
    """Rows of X as the columns of a block."""
    pick = np.zeros((n, len(rows)), dtype, order="F")
    pick[rows, np.arange(len(rows))] = 1
    return np.asfortranarray(transpose_times(pick))


def _squares(X: Matrix, axis: int) -> np.ndarray:
    """Squared lengths of the rows (axis 1) or columns (axis 0), in double precision."""
    raw = X.raw()
    if sp.issparse(raw):
        return np.asarray(raw.multiply(raw).sum(axis=axis), dtype=np.float64).ravel()
    return np.einsum("ij,ij->i" if axis == 1 else "ij,ij->j", raw, raw, dtype=np.float64)


def _relative_error(X: Matrix, U: np.ndarray, V: np.ndarray) -> float:
    whole = X.squared_norm()
    return float(np.sqrt(X.squared_residual(U, V) / whole)) if whole > 0 else 0.0
