"""nndsvd: positive or negative parts of the singular pairs, whichever are larger (Boutsidis and Gallopoulos 2008).

    u_j = sqrt(s_j p) a/||a||,  v_j = sqrt(s_j p) b/||b||,   p = ||a|| ||b||,
    (a, b) = (u+, v+) or (u-, v-) of the j-th singular pair, the pair with the larger p

nndsvda fills the zeros with the mean of X, nndsvdar with small random values (for methods that cannot leave zero).
Components beyond min(n, m), for which there is no singular pair, start at random values of the size of the others.
"""

from __future__ import annotations

import numpy as np

from enmf.exterior.svd import truncated_svd
from enmf.initializations.random import random
from enmf.matrix import Matrix


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
    mean = X.mean()
    for F in (U, V):
        F[F == 0] = mean
    return U, V


def nndsvdar(X: Matrix, rank: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    U, V = nndsvd(X, rank, rng)
    mean = X.mean()
    for F in (U, V):
        zero = F == 0
        F[zero] = mean * rng.random(int(zero.sum())) / 100.0
    return U, V
