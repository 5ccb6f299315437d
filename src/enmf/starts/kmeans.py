"""kmeans: components are the centres of row clusters (Xue et al. 2008).

V holds the centres; U is 1 for the cluster of a row and 0.2 for the others (Wild et al. 2004), so that no entry starts
at zero, times the row's best factor. With more clusters than rows the rest starts at random.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from enmf.matrix.base import Matrix
from enmf.starts.random import random
from enmf.starts.scaling import balanced, fit_rows

ELSEWHERE = 0.2
ITERATIONS = 20


def kmeans(X: Matrix, rank: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    clusters = min(rank, X.shape[0])
    seed = int(rng.integers(2**31 - 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # equal rows, or not quite converged: still a start
        model = KMeans(clusters, n_init=1, max_iter=ITERATIONS, random_state=seed).fit(_narrow(X.raw()))
    X.passes += model.n_iter_
    U, V = random(X, rank, rng)
    membership = np.where(np.arange(clusters) == model.labels_[:, None], 1.0, ELSEWHERE)
    U[:, :clusters], V[:, :clusters] = balanced(membership, np.maximum(model.cluster_centers_, 0).T)
    return fit_rows(X, U, V), V


def _narrow(array: Any) -> Any:
    """Sparse matrices with 32-bit indices, as scikit-learn requires."""
    if not sp.issparse(array) or array.indices.dtype == np.int32:
        return array
    if max(array.nnz, *array.shape) > np.iinfo(np.int32).max:
        raise ValueError(
            f"init='kmeans' takes a sparse X of fewer than 2^31 entries, got {array.nnz}: use another start"
        )
    return sp.csr_array((array.data, array.indices.astype(np.int32), array.indptr.astype(np.int32)), shape=array.shape)
