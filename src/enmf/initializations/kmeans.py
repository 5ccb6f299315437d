"""kmeans: components are the centres of row clusters (Xue et al. 2008).

V holds the centres; U is 1 for the cluster of a row and 0.2 for the others (Wild et al. 2004), so that no entry starts
at zero, times the row's best factor. More clusters than rows: the rest starts at random.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from enmf.initializations.random import random
from enmf.initializations.scaling import fit_rows
from enmf.matrix import Matrix

ELSEWHERE = 0.2
ITERATIONS = 20


def kmeans(X: Matrix, rank: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    clusters = min(rank, X.shape[0])
    seed = int(rng.integers(2**31 - 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # equal rows, or not quite converged: a start all the same
        model = KMeans(clusters, n_init=1, max_iter=ITERATIONS, random_state=seed).fit(X.raw())
    X.passes += model.n_iter_
    U, V = random(X, rank, rng)
    V[:, :clusters] = np.maximum(model.cluster_centers_, 0).T
    U[:, :clusters] = np.where(np.arange(clusters) == model.labels_[:, None], 1.0, ELSEWHERE)
    return fit_rows(X, U, V), V
