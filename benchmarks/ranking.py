"""Measures of the paper's recommendation experiment: root mean squared error, NDCG@k and Recall@k.

For each user all items without a training rating are ranked by u . v; those with a held-out rating are relevant:
    Recall@k = (relevant among the first k) / (relevant)
    NDCG@k   = sum over relevant places p < k of 1 / log2(p + 2), over the same sum for an ideal ranking
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

USERS = 512  # ranked together: 512 x m scores at a time


class Ranking(NamedTuple):
    """One number for each user who has a relevant item; nan for the others."""

    ndcg: np.ndarray
    recall: np.ndarray


def root_mean_square(
    U: np.ndarray, V: np.ndarray, held_out: sp.csr_array, clip: tuple[float, float] | None = None
) -> float:
    """RMSE of U Vᵀ on the stored entries of `held_out`."""
    rows, columns = sp.coo_array(held_out).coords
    predicted = np.einsum("ij,ij->i", U[rows], V[columns], dtype=np.float64)
    if clip is not None:
        predicted = np.clip(predicted, *clip)
    return float(np.sqrt(np.mean((predicted - held_out.data) ** 2)))


def rank_items(U: np.ndarray, V: np.ndarray, train: sp.csr_array, held_out: sp.csr_array, k: int = 10) -> Ranking:
    """NDCG@k and Recall@k of every user."""
    n = train.shape[0]
    ndcg, recall = np.full(n, np.nan), np.full(n, np.nan)
    gains = 1.0 / np.log2(np.arange(k) + 2.0)
    ideal = np.concatenate([[0.0], np.cumsum(gains)])
    for first in range(0, n, USERS):
        users = slice(first, min(first + USERS, n))
        scores = U[users] @ V.T
        seen = sp.coo_array(train[users]).coords
        scores[seen] = -np.inf
        first_k = np.argpartition(-scores, min(k, scores.shape[1]) - 1, axis=1)[:, :k]
        order = np.argsort(-np.take_along_axis(scores, first_k, axis=1), axis=1)
        best = np.take_along_axis(first_k, order, axis=1)
        relevant = np.zeros(scores.shape, dtype=np.bool_)
        relevant[sp.coo_array(held_out[users]).coords] = True
        hits = np.take_along_axis(relevant, best, axis=1)
        count = relevant.sum(axis=1)
        some = count > 0
        recall[users] = np.divide(hits.sum(axis=1), count, out=recall[users], where=some)
        ndcg[users] = np.divide(hits @ gains[: hits.shape[1]], ideal[np.minimum(count, k)], out=ndcg[users], where=some)
    return Ranking(ndcg, recall)
