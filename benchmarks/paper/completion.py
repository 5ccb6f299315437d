"""Tables 7 and 8, figure 6: ratings completed at equal time, and what is recommended from them."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import wilcoxon

from enmf.api.complete import complete
from enmf.datasets import leave_one_out, load, split_by_row
from paper.case import Case, Row, reproduces
from ranking import rank_items, root_mean_square

METHODS = ("enmc", "masked-mu", "masked-scd", "adm")
RIDGES = (0.03, 0.06, 0.12)
CLIP = (1.0, 5.0)
SEEDS = range(5)


@lru_cache(maxsize=1)
def _ratings(data: str) -> sp.csr_array:
    return sp.csr_array(load(data)[0])


def _parts(X: sp.csr_array, part: np.ndarray) -> list[sp.csr_array]:
    coords = sp.coo_array(X).coords
    return [sp.csr_array((X.data[part == k], tuple(c[part == k] for c in coords)), shape=X.shape) for k in range(3)]


@reproduces(
    "completion",
    ("table 7", "table 8", "figure 6"),
    "Completion of ratings",
    small={"data": "movielens_100k", "ranks": (5, 10, 15, 25)},
    paper={"data": "movielens_1m", "ranks": (5, 10, 15, 25)},
)
def completion(data: str, ranks: tuple[int, ...]) -> Iterator[Case]:
    """Every user's ratings 80/10/10 into training, validation and test; the ridge of each method and rank is chosen on
    the validation part; five seeds; every opponent gets eNMC's time. Ranking: leave one out, the held-out item among
    all that the user has not rated. The small size is MovieLens 100K; MovieLens 1M is the paper's, and the table of
    `benchmarks/completion.py` has it."""
    for rank in ranks:
        for seed in SEEDS:
            yield Case({"data": data, "rank": rank, "seed": seed}, partial(_compare, data, rank, seed))


def _fit(train: sp.csr_array, rank: int, method: str, ridge: float, seed: int, limit: float | None) -> dict[str, Any]:
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = complete(
            train, rank, method, missing="unstored", ridge=ridge, random_state=seed, time_limit=limit, max_iter=1000
        )
    return {"result": result, "seconds": time.perf_counter() - began}


@lru_cache(maxsize=64)
def _ridge(data: str, rank: int, method: str) -> float:
    train, validation, _ = _parts(_ratings(data), split_by_row(sp.coo_array(_ratings(data)).coords[0], random_state=0))
    limit = None if method == "enmc" else _seconds(data, rank)
    errors = {}
    for ridge in RIDGES:
        result = _fit(train, rank, method, ridge, 0, limit)["result"]
        errors[ridge] = root_mean_square(result.U, result.V, validation, CLIP)
    return min(errors, key=errors.__getitem__)


@lru_cache(maxsize=16)
def _seconds(data: str, rank: int) -> float:
    """eNMC's time, for its opponents; of a run that has imported everything."""
    train = _parts(_ratings(data), split_by_row(sp.coo_array(_ratings(data)).coords[0], random_state=0))[0]
    _fit(train, rank, "enmc", 0.05, 0, None)
    return _fit(train, rank, "enmc", 0.05, 0, None)["seconds"]


def _compare(data: str, rank: int, seed: int) -> Iterator[Row]:
    X = _ratings(data)
    rows = sp.coo_array(X).coords[0]
    train, _, test = _parts(X, split_by_row(rows, random_state=0))
    rest, validation, one = _parts(X, leave_one_out(rows, random_state=0))
    limit = _seconds(data, rank)
    ours: Any = None
    for method in METHODS:
        ridge = _ridge(data, rank, method)
        found = _fit(train, rank, method, ridge, seed, None if method == "enmc" else limit)
        result = found["result"]
        ranked = _fit(rest, rank, method, ridge, seed, None if method == "enmc" else limit)["result"]
        ranking = rank_items(ranked.U, ranked.V, sp.csr_array(rest + validation), one)
        if method == "enmc":
            ours = ranking
        whole = float(np.sqrt(np.mean(train.data**2)))
        yield {
            "method": method,
            "ridge": ridge,
            "status": result.status,
            "seconds": found["seconds"],
            "kkt": result.certificate.kkt,
            "train_error": root_mean_square(result.U, result.V, train) / whole,
            "rmse": root_mean_square(result.U, result.V, test, CLIP),
            "ndcg": float(np.nanmean(ranking.ndcg)),
            "recall": float(np.nanmean(ranking.recall)),
            "p_ndcg": _p(ours.ndcg, ranking.ndcg) if method != "enmc" else math.nan,
            "p_recall": _p(ours.recall, ranking.recall) if method != "enmc" else math.nan,
        }


def _p(ours: np.ndarray, other: np.ndarray) -> float:
    """p of "eNMC is not better": one-sided signed-rank test over the users."""
    difference = (ours - other)[np.isfinite(ours)]
    return float(wilcoxon(difference, alternative="greater").pvalue) if difference.any() else 1.0
