"""nndsvd: positive or negative parts of the singular pairs, whichever are larger (Boutsidis and Gallopoulos 2008).

    u_j = sqrt(s_j p) a/||a||,  v_j = sqrt(s_j p) b/||b||,   p = ||a|| ||b||,
    (a, b) = (u+, v+) or (u-, v-) of the j-th singular pair, the pair with the larger p

nndsvda fills the zeros with the mean of the factor, nndsvdar with random values up to a hundredth of it (for methods
that cannot leave zero); the original fills in the mean of X, which depends on the units.
Components beyond min(n, m), for which there is no singular pair, start at random values of the size of the others.
"""

from __future__ import annotations

import numpy as np

from enmf.linalg.parts import larger_parts
from enmf.linalg.svd import truncated_svd
from enmf.matrix.base import Matrix
from enmf.starts.random import random


def nndsvd(X: Matrix, rank: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    pairs = min(rank, *X.shape)
    parts = larger_parts(*truncated_svd(X, pairs, rng=rng).factors(pairs))
    U, V = random(X, rank, rng)
    for F, part in zip((U, V), parts):
        F[:, :pairs] = part
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
