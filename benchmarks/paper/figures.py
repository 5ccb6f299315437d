"""The data behind figures 4, 5 and 7 of the paper, as tidy tables: one dictionary per row, ready for a DataFrame."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from enmf.api.factorize import factorize
from enmf.datasets import make_exact
from enmf.geometry.equivalence import match
from enmf.geometry.exact import svd_factors, transform_to_orthant
from enmf.problem.validation.factors import check_pair
from enmf.run.monitor import Progress

SIZES = ((50, 40, 10), (100, 80, 20), (200, 160, 30), (300, 240, 40), (500, 400, 50))
SPARSITIES = (0.1, 0.2, 0.3, 0.4, 0.5)

Row = dict[str, Any]


def distance_to_orthant(
    sizes: Iterable[tuple[int, int, int]] = SIZES,
    sparsities: Iterable[float] = SPARSITIES,
    *,
    max_iter: int = 2000,
    random_state: int = 0,
) -> Iterator[Row]:
    """Figure 4: how near the orthant the SVD factors of exact data come, by a rotation and by a general transform."""
    for n, m, rank in sizes:
        for sparsity in sparsities:
            X, _, _ = make_exact(n, m, rank, sparsity, random_state=random_state)
            U, V = svd_factors(X, rank)
            for kind in ("rotation", "general"):
                began = time.perf_counter()
                found = transform_to_orthant(U, V, kind, max_iter=max_iter)
                spent = time.perf_counter() - began
                key = {"n": n, "m": m, "rank": rank, "sparsity": sparsity, "kind": kind}
                names = ("distance", "relative_distance", "iterations", "newton_steps")
                yield {**key, **{name: getattr(found, name) for name in names}, "seconds": spent}


def error_at_feasibility(X: Any, ranks: Iterable[int], *, data: str = "", random_state: int = 0) -> Iterator[Row]:
    """Figure 5: error of the first feasible point (before any descent) against that of the final one."""
    for rank in ranks:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            feasible = factorize(
                X, rank, max_iter=0, surrogate_iterations=0, restarts=0, bound=False, random_state=random_state
            )
            final = factorize(X, rank, random_state=random_state)
        yield {
            "data": data,
            "rank": rank,
            "feasible_error": feasible.error,
            "final_error": final.error,
            "increase": feasible.error / final.error - 1.0 if final.error > 0 else np.inf,
            "bound": final.certificate.lower_bound,
            "kkt": final.certificate.kkt,
            "status": final.status,
        }


def columns_along_a_run(
    X: Any,
    rank: int,
    method: str = "ao-admm",
    *,
    reference: Any = None,
    init: str = "random",
    points: int = 40,
    max_iter: int = 2000,
    random_state: int = 0,
) -> list[Row]:
    """Figure 7: share of columns that have converged to those of eNMF against the difference of the errors.

    `reference` are the factors to compare with (a pair or a Result); default: those of eNMF. Rows are taken at
    iterations that grow geometrically, so that beginning and end of the run are both seen.
    """
    target = check_pair(factorize(X, rank, random_state=random_state) if reference is None else reference)
    seen = set(np.unique(np.geomspace(1, max_iter, points).astype(int)).tolist())
    rows: list[Row] = []

    def row(iteration: int, error: float, kkt: float, U: np.ndarray, V: np.ndarray) -> Row:
        found = match(target, (U.astype(float), V.astype(float)))
        return {
            "method": method,
            "iteration": iteration,
            "error": error,
            "kkt": kkt,
            "share_U": found.share_U,
            "share_V": found.share_V,
        }

    def look(progress: Progress) -> None:
        if progress.phase == "descent" and (progress.iteration in seen or progress.iteration == 0):
            rows.append(row(progress.iteration, progress.error, progress.kkt, progress.U, progress.V))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options: dict[str, Any] = {"init": init, "max_iter": max_iter, "random_state": random_state}
        end = factorize(X, rank, method, callback=look, bound=False, **options)
        # the reference itself, without a step: its error is where the run is to end
        known = factorize(X, rank, init=target, max_iter=0, bound=False).error
    if rows[-1]["iteration"] != end.n_iter:
        rows.append(row(end.n_iter, end.error, end.certificate.kkt, end.U, end.V))
    return [{**row, "error_difference": row["error"] - known} for row in rows]
