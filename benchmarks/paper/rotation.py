"""The central claim at the paper's full size: does rotation alone reach the unconstrained optimum?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np

from enmf.bench.protocols import Goal, Problem, measure
from enmf.linalg.rotation import Turning, negative_share, rotate, spread
from enmf.linalg.spectrum import Spectrum
from paper.case import Case, Row, reproduces
from paper.contests import SNRS
from paper.runs import MET, exact_spectrum, facts, problem, run, warm


@reproduces(
    "rotation",
    ("rotation alone", "one-shot"),
    "Rotation alone: synthetic data at the paper's full size (5000 x 5000, inner rank 1000), and Audio",
    tiny={"side": 60, "snrs": (60,), "ranks": {2: 20}, "audio": {}, "limit": 5.0},
    small={
        "side": 5000,
        "snrs": (60, 80, 100, 40, 20),
        "ranks": {50: 2000, 200: 400, 500: 400},
        "audio": {40: 600, 80: 600},
        "limit": 20.0,
        "whole": 200,
    },
    paper={
        "side": 5000,
        "snrs": SNRS,
        "ranks": dict.fromkeys((50, 100, 200, 400, 500), 5000),
        "audio": dict.fromkeys((40, 80, 100), 5000),
        "limit": 3600.0,
    },
)
def rotation(
    side: int, snrs: tuple[int, ...], ranks: dict[int, int], audio: dict[int, int], limit: float, whole: int = 10**9
) -> Iterator[Case]:
    """Three points of one exact SVD: the spread start (a Householder reflection that sends the leading direction to
    (1, ..., 1)/sqrt(r), no iteration), Algorithm 1 from there until nothing is negative, the negative mass no longer
    falls or a cap, and, for the smallest r and where that does not arrive, Algorithm 1 from the identity (as in the
    paper). Negative entries are then set to zero: the ratio of that error to the bound says whether rotation alone
    arrives. Last, on synthetic data for the smallest r and wherever rotation does not arrive, the whole of eNMF for a
    limited time of descent, against the same bound (the small size: the last two not for the largest r)."""
    sets = {f"synthetic-{snr}-{side}": ranks for snr in snrs} | {"audio_waveform": audio}
    for data, caps in sets.items():
        for rank, cap in caps.items():
            seconds = limit if rank <= whole and caps is ranks else 0.0
            yield Case(
                {"data": data, "rank": rank},
                partial(_points, data, rank, max(caps), cap, limit=seconds, letter=rank == min(caps)),
            )


@lru_cache(maxsize=1)
def _spectrum(data: str, width: int) -> tuple[Spectrum, float]:
    """Exact, for all ranks up to `width`: the margin of an iterative one is wide where the spectrum is flat. With its
    seconds."""
    began = time.perf_counter()
    spectrum = exact_spectrum(problem(data), width)
    return spectrum, time.perf_counter() - began


def _points(data: str, rank: int, width: int, iterations: int, limit: float, letter: bool) -> Iterator[Row]:
    target = problem(data)
    warm(target)
    spectrum, svd_seconds = _spectrum(data, width)
    U, V = spectrum.factors(rank)
    bound = spectrum.lower_bound(rank) * target.scale
    turn = partial(_point, target, U, V, bound)
    points: list[Row] = [{"point": "spread start", "rotation_iterations": 0, **turn(spread(rank).astype(U.dtype))}]
    starts: list[tuple[str, dict[str, Any]]] = [("spread", {}), ("identity", {"adapt": False})]
    for start, options in starts:
        arrived = any(row["ratio"] <= MET for row in points)
        wanted = letter or (limit > 0.0 and not arrived) if start == "identity" else points[0]["negative_entries"] > 0.0
        if not wanted:
            continue
        began = time.perf_counter()
        found = rotate(U, V, Turning(start, iterations, **options))
        spent = {"rotation_iterations": found.iterations, "rotation_seconds": time.perf_counter() - began}
        points.append({"point": f"Algorithm 1 from {start}", **spent, **turn(found.R)})
    for row in points:
        yield {**row, "seconds": svd_seconds + row.get("rotation_seconds", 0.0)}
    if limit > 0.0 and (letter or all(row["ratio"] > MET for row in points)):
        yield {"point": "eNMF", **facts(run(target, rank, "enmf", goal=Goal(limit)), bound)}


def _point(target: Problem, U: np.ndarray, V: np.ndarray, bound: float, R: np.ndarray) -> Row:
    """The rotated factors, with their negative entries set to zero."""
    W = np.vstack([U, V]) @ R
    U, V = (np.asfortranarray(np.maximum(F, 0)) for F in (W[: len(U)], W[len(U) :]))
    error, kkt = measure(target, U, V)
    return {
        "status": "global_optimum" if error <= MET * bound else "outside" if (W < 0).any() else "feasible",
        "negative_entries": float((W < 0).mean()),
        "negative_mass": negative_share(W),
        "error": error,
        "bound": bound,
        "ratio": error / bound,
        "kkt": kkt,
        "rows": len(U),
        "columns": len(V),
    }
