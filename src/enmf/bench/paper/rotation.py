"""The central claim at the paper's full size: does rotation alone reach the unconstrained optimum?"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from functools import lru_cache, partial

import numpy as np

from enmf.bench.paper.case import Case, Row, reproduces
from enmf.bench.paper.contests import SNRS
from enmf.bench.paper.runs import facts, problem, run, warm
from enmf.bench.protocols import Goal
from enmf.exterior.rotation import negative_share, rotate, spread
from enmf.exterior.svd import Spectrum, truncated_svd
from enmf.iterate import Iterate
from enmf.validation import make_rng


@reproduces(
    "rotation",
    ("rotation alone", "one-shot"),
    "Rotation alone, at the paper's full size (5000 x 5000, inner rank 1000)",
    tiny={"side": 60, "snrs": (60,), "ranks": (2,), "iterations": 20, "limit": 5.0},
    small={
        "side": 5000,
        "snrs": (60, 80, 100, 20, 40),
        "ranks": (50, 200, 500),
        "iterations": 60,
        "limit": 15.0,
        "whole": 200,
    },
    paper={"side": 5000, "snrs": SNRS, "ranks": (50, 100, 200, 400, 500), "iterations": 300, "limit": 3600.0},
)
def rotation(
    side: int, snrs: tuple[int, ...], ranks: tuple[int, ...], iterations: int, limit: float, whole: int = 10**9
) -> Iterator[Case]:
    """Three points of one exact SVD: the spread start (a Householder reflection that sends the leading direction to
    (1, ..., 1)/sqrt(r), no iteration), Algorithm 1 from there, Algorithm 1 from the identity (as in the paper; r = 50
    only). Negative entries are then set to zero: the ratio of that error to the bound says whether rotation alone
    arrives. Last the whole of eNMF, for a limited time of descent (the small size: up to r = 200), against the same
    bound."""
    smallest_first = [(snr, ranks[0]) for snr in snrs] + [(snr, rank) for snr in snrs for rank in ranks[1:]]
    for snr, rank in smallest_first:
        data = f"synthetic-{snr}-{side}"
        yield Case(
            {"data": data, "rank": rank},
            partial(_points, data, rank, max(ranks), iterations, limit if rank <= whole else None),
        )


@lru_cache(maxsize=1)
def _spectrum(data: str, width: int) -> Spectrum:
    """Exact, for all ranks up to `width`: the margin of an iterative one is wide where the spectrum is flat."""
    return truncated_svd(problem(data).X, width, kind="exact", rng=make_rng(0))


def _points(data: str, rank: int, width: int, iterations: int, limit: float | None) -> list[Row]:
    target = problem(data)
    X = target.X
    warm(target)
    began = time.perf_counter()
    spectrum = _spectrum(data, width)
    svd_seconds = time.perf_counter() - began
    U, V = spectrum.factors(rank)
    bound = spectrum.lower_bound(rank)
    points: dict[str, tuple[np.ndarray, int]] = {"spread start": (spread(rank).astype(U.dtype), 0)}
    if negative_share(np.vstack([U, V]) @ points["spread start"][0]) > 0.0:
        found = rotate(U, V, start="spread", max_iter=iterations)
        points["Algorithm 1 from spread"] = found.R, found.iterations
    if rank == 50:
        found = rotate(U, V, start="identity", max_iter=iterations, adapt=False)
        points["Algorithm 1 from identity"] = found.R, found.iterations
    rows = []
    for name, (R, count) in points.items():
        W = np.vstack([U, V]) @ R
        clipped_U, clipped_V = (np.asfortranarray(np.maximum(F, 0)) for F in (W[: len(U)], W[len(U) :]))
        it = Iterate(X, clipped_U, clipped_V)
        error = math.sqrt(max(it.squared_error(), 0.0))
        ratio = error / bound
        met = ratio <= 1.0 + 1e-6
        rows.append(
            {
                "point": name,
                "status": "global_optimum" if met else "outside" if (W < 0).any() else "feasible",
                "seconds": svd_seconds,
                "rotation_iterations": count,
                "negative_entries": float((W < 0).mean()),
                "negative_mass": negative_share(W),
                "error": error * target.scale,
                "bound": bound * target.scale,
                "ratio": ratio,
            }
        )
    if limit is None:
        return rows
    whole = run(target, rank, "enmf", "exterior", Goal(limit))
    return [*rows, {"point": "eNMF", **facts(whole, bound * target.scale)}]
