"""Best factors for starts whose scale is arbitrary."""

from __future__ import annotations

import numpy as np

from enmf.matrix.base import Matrix
from enmf.matrix.factor import inner


def balanced(U: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same components with ||u_j|| = ||v_j||, so that both have the unit of sqrt(X)."""
    u, v = np.linalg.norm(U, axis=0), np.linalg.norm(V, axis=0)
    root = np.sqrt(np.divide(v, u, out=np.ones_like(u), where=(u > 0) & (v > 0)))
    return U * root, V / root


def fit_rows(X: Matrix, U: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Each row of U times the factor that brings it nearest to its row of X."""
    XV, VtV = X.times(V), V.T @ V
    along = np.einsum("ij,ij->i", XV, U)
    size = np.einsum("ij,ij->i", U @ VtV, U)
    return np.asfortranarray(U * np.divide(along, size, out=np.zeros_like(along), where=size > 0)[:, None])


def fit_scale(X: Matrix, U: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """U and V times the common factor that brings U Vᵀ nearest to X."""
    along, size = inner(X.times(V), U), inner(U.T @ U, V.T @ V)
    root = np.asarray(np.sqrt(along / size) if along > 0 and size > 0 else 1.0, X.dtype)
    return np.asfortranarray(U * root), np.asfortranarray(V * root)
