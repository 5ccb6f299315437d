"""r1d: rank-one downdating (Biggs, Ghodsi and Vavasis 2008), the start of the method "r1d".

Find rows M and columns N of X where it is nearly of rank one, X(M, N) ~ u s vᵀ, from the largest column on, by
    N = {j : gamma (X(M, j)ᵀ u)² > ||X(M, j)||²},  v = X(M, N)ᵀ u normalized
    M = {i : gamma (X(i, N) v)² > ||X(i, N)||²},  u = X(M, N) v normalized
until M and N stay; store u and s v as a component, set X(M, N) to zero, and continue. Works on a copy of X.
Components for which nothing is left (on dense data the first part is all of X) start at random.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from enmf.matrix.base import Matrix
from enmf.starts.random import random

GAMMA = 4.0
ROUNDS = 30


def r1d(X: Matrix, rank: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    rest = X.raw().copy()
    U, V = random(X, rank, rng)
    for k in range(rank):
        rows, columns, u, v, size = _rank_one_part(rest)
        X.passes += 2
        if size == 0.0:
            break
        U[:, k], V[:, k] = 0, 0
        U[rows, k], V[columns, k] = u * np.sqrt(size), v * np.sqrt(size)
        rest = _without(rest, rows, columns)
    return U, V


def _rank_one_part(A: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]:
    squares = A.multiply(A).tocsr() if sp.issparse(A) else A * A
    sizes = _flat(squares.sum(axis=0))
    first = int(np.argmax(sizes))
    columns = np.array([first])
    u_full = _flat(A[:, [first]].toarray() if sp.issparse(A) else A[:, first])
    size = float(np.sqrt(sizes[first]))
    if size == 0.0:
        return np.arange(0), np.arange(0), np.zeros(0), np.zeros(0), 0.0
    rows = np.flatnonzero(u_full)
    u, v = u_full[rows] / size, np.ones(1)
    for _ in range(ROUNDS):
        along = _flat(A[rows].T @ u)
        new_columns = np.flatnonzero(GAMMA * along**2 > _flat(squares[rows].sum(axis=0)))
        if len(new_columns) == 0:
            break
        v = along[new_columns] / np.linalg.norm(along[new_columns])
        across = _flat(A[:, new_columns] @ v)
        new_rows = np.flatnonzero(GAMMA * across**2 > _flat(squares[:, new_columns].sum(axis=1)))
        if len(new_rows) == 0:
            break
        same = np.array_equal(rows, new_rows) and np.array_equal(columns, new_columns)
        rows, columns = new_rows, new_columns
        size = float(np.linalg.norm(across[rows]))
        u = across[rows] / size
        if same:
            break
    if len(v) != len(columns):
        v = np.ones(1)
    return rows, columns, u, v, size


def _without(A: Any, rows: np.ndarray, columns: np.ndarray) -> Any:
    """A with A(rows, columns) set to zero."""
    if not sp.issparse(A):
        A[np.ix_(rows, columns)] = 0
        return A
    coo = A.tocoo()
    in_rows, in_columns = np.zeros(A.shape[0], bool), np.zeros(A.shape[1], bool)
    in_rows[rows], in_columns[columns] = True, True
    keep = ~(in_rows[coo.row] & in_columns[coo.col])
    return sp.csr_array((coo.data[keep], (coo.row[keep], coo.col[keep])), shape=A.shape)


def _flat(a: np.ndarray) -> np.ndarray:
    return np.asarray(a).ravel()
