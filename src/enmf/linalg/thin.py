"""Decompositions of tall, thin blocks: orthonormal bases and SVDs, from Gram matrices where they keep the digits."""

from __future__ import annotations

import numpy as np

from enmf.matrix.factor import in_double
from enmf.parallel import lapack, matmul

LOST = 1e-12  # least over largest eigenvalue of a Gram matrix below which it has lost the digits of the singular values
FULL = 1e-5  # ratio above which its singular vectors are orthonormal to working precision


def thin_svd(Y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Y = U diag(s) Tᵀ for a tall Y: from its Gram matrix if that keeps the digits, else from LAPACK."""
    tall = in_double(Y)
    found = _svd_by_gram(Y, tall)
    if found is None:
        U, s, Tt = tall.svd() if hasattr(tall, "svd") else lapack(full_svd, tall)
        found = U, s, Tt.T
    U, s, T = (F.astype(Y.dtype, copy=False) for F in found)
    return U, s, T


def _svd_by_gram(Y: np.ndarray, tall: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """U, s, Tᵀ from the Gram matrix; `tall` is Y in double precision, needed only for it if Y is well conditioned."""
    values, T = lapack(np.linalg.eigh, matmul(tall.T, tall))
    values, T = values[::-1], T[:, ::-1]
    if len(values) == 0 or values[-1] <= LOST * values[0]:
        return None  # squared singular values have lost their digits
    s = np.sqrt(values)
    if values[-1] >= FULL * values[0]:
        return matmul(Y, (T / s).astype(Y.dtype, copy=False)), s, T
    # orthonormal to a few digits only: repeat, and combine both rotations
    U = matmul(tall, T / s)
    again = np.linalg.cholesky(matmul(U.T, U))
    U = matmul(U, np.linalg.inv(again).T)
    left, s, right = lapack(np.linalg.svd, again.T @ (s[:, None] * T.T))
    return matmul(U, left), s, right.T


def full_svd(A: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.linalg.svd(A, full_matrices=False)


def orthonormal(Y: np.ndarray) -> np.ndarray:
    return lapack(np.linalg.qr, Y)[0]


def orthonormal_beside(known: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """An orthonormal basis of Y (overwritten) without its part in the orthonormal `known`.

    If only rounding is left of Y, as for X of low rank, meaningless directions take its place: they must still be
    orthogonal, or singular values would be counted twice.
    """
    size = float(np.linalg.norm(Y))
    for _ in range(2):
        Y -= matmul(known, matmul(known.T, Y))
    Q, R = lapack(np.linalg.qr, Y)
    if np.abs(np.diag(R)).min() > np.sqrt(np.finfo(Y.dtype).eps) * size:
        return Q
    for _ in range(2):
        Q = orthonormal(Q - matmul(known, matmul(known.T, Q)))
    return Q
