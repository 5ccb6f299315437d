"""nndsvd: positive or negative parts of the singular pairs, whichever are larger (Boutsidis and Gallopoulos 2008).

    u_j = sqrt(s_j p) a/||a||,  v_j = sqrt(s_j p) b/||b||,   p = ||a|| ||b||,
    (a, b) = (u+, v+) or (u-, v-) of the j-th singular pair, the pair with the larger p

nndsvda fills the zeros with the mean of the factor, nndsvdar with random values up to a hundredth of it (for methods
that cannot leave zero); the original fills in the mean of X, which depends on the units.
Components beyond min(n, m), for which there is no singular pair, start at random values of the size of the others.
"""

from __future__ import annotations

import numpy as np

from enmf.linalg.svd import truncated_svd
from enmf.matrix.base import Matrix
from enmf.starts.random import random


def nndsvd(X: Matrix, rank: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    spectrum = truncated_svd(X, min(rank, *X.shape), rng=rng)
    U, V = random(X, rank, rng)
    for j in range(min(rank, len(spectrum.s))):
        u, v = spectrum.U[:, j], spectrum.V[:, j]
        parts = [(np.maximum(sign * u, 0), np.maximum(sign * v, 0)) for sign in (1, -1)]
        sizes = [float(np.linalg.norm(a) * np.linalg.norm(b)) for a, b in parts]
        a, b = parts[int(np.argmax(sizes))]
        root = np.sqrt(float(spectrum.s[j]) * max(sizes))
        U[:, j] = root * a / (np.linalg.norm(a) or 1.0)
        V[:, j] = root * b / (np.linalg.norm(b) or 1.0)
    return U, V


def nndsvda(X: Matrix, rank: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    U, V = nndsvd(X, rank, rng)
    for F in (U, V):
        F[_zeros(F)] = F.mean()
    return U, V


def nndsvdar(X: Matrix, rank: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    U, V = nndsvd(X, rank, rng)
    for F in (U, V):
        small = rng.random(F.shape).astype(F.dtype) * (F.mean() / 100)
        zero = _zeros(F)
        F[zero] = small[zero]
    return U, V


def _zeros(F: np.ndarray) -> np.ndarray:
    """Entries that are zero up to rounding of the SVD."""
    return 100 * np.finfo(F.dtype).eps * F.max(initial=0) >= F
