"""Tables 9, 10, 12 and 13, figure 7: KKT residuals of all methods, and how their factors relate to those of eNMF."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from enmf.bench.data import matrix
from enmf.bench.protocols import NINE_STARTS, Goal
from enmf.geometry.equivalence import compare
from enmf.geometry.exact import relate
from paper import figures
from paper.case import Case, Row, reproduces
from paper.contests import REAL, SNRS
from paper.runs import LETTER, OPPONENTS, bound_of, facts, problem, run, warm


@reproduces(
    "minima",
    ("table 10", "table 12", "table 13", "KKT"),
    "KKT residuals of all methods, and E / TE / NE against eNMF",
    tiny={"side": 60, "ranks": (2,), "snrs": (60,), "real": {}, "starts": NINE_STARTS[:1], "least": 0.05, "times": 1.0},
    small={
        "side": 500,
        "ranks": (5, 20, 50),
        "snrs": (20, 60, 100),
        "real": {"verb": REAL["verb"], "face": (5, 10)},
        "starts": NINE_STARTS[:1],
        "least": 1.0,
        "times": 1.0,
    },
    paper={
        "side": 5000,
        "ranks": (50, 100, 200, 400, 500),
        "snrs": SNRS,
        "real": REAL,
        "starts": NINE_STARTS,
        "least": 600.0,
        "times": 50.0,
    },
)
def minima(
    side: int,
    ranks: tuple[int, ...],
    snrs: tuple[int, ...],
    real: dict[str, tuple[int, ...]],
    starts: tuple[str, ...],
    least: float,
    times: float,
) -> Iterator[Case]:
    """Every opponent runs to its KKT point, 1,000 iterations without progress, or a limit of seconds. delta and sigma
    are max and sum of gradient times factor at balanced columns, in units of X squared; `kkt` is free of units. u, v,
    e_d, e_m as in the paper, by the rule of `enmf.compare`; the exact sets of table 11 are in `exact`. `enmf-paper` is
    preset="paper"."""
    synthetic = {f"synthetic-{snr}-{side}": ranks for snr in snrs}
    for data, some in {**real, **synthetic}.items():
        for rank in some:
            yield Case({"data": data, "rank": rank}, partial(_minima, data, rank, starts, least, times))


def _minima(data: str, rank: int, starts: tuple[str, ...], least: float, times: float) -> Iterator[Row]:
    target = problem(data)
    warm(target, *OPPONENTS)
    ours = run(data, rank, "enmf")
    bound = bound_of(target, rank)
    limit = max(least, times * ours.trace[-1].seconds)
    yield {"method": "enmf", "start": "exterior", **facts(ours, bound)}
    X = matrix(data)
    for start in ("exterior", *starts):
        for method in OPPONENTS if start != "exterior" else (LETTER,):
            try:
                result = run(data, rank, method, start, Goal(limit))
                found = compare(ours, result, X)
            except Exception as trouble:
                yield {"method": method, "start": start, "status": f"failed: {trouble}"[:120]}
                continue
            yield {
                "method": method,
                "start": start,
                **facts(result, bound),
                "share_U": 100 * found.share_U,
                "share_V": 100 * found.share_V,
                "error_difference": float(found.error_difference or 0.0),
                "verdict": found.verdict,
                "relation": found.relation,
            }


@reproduces(
    "relation",
    ("table 9",),
    "Is AO-ADMM's solution a scaled rotation of eNMF's?",
    tiny={"side": 60, "rank": 2, "snrs": (60,), "seconds": 0.2},
    small={"side": 500, "rank": 10, "snrs": SNRS, "seconds": 4.0},
    paper={"side": 5000, "rank": 100, "snrs": SNRS, "seconds": 3600.0},
)
def relation(side: int, rank: int, snrs: tuple[int, ...], seconds: float) -> Iterator[Case]:
    """A = R1 L R2ᵀ between the factors of eNMF and of AO-ADMM. delta: what A = L R2ᵀ (R1 = I, the paper's claim) and
    the best general A leave of the factors of AO-ADMM, relative to their norm."""
    for snr in snrs:
        data = f"synthetic-{snr}-{side}"
        yield Case({"data": data, "rank": rank}, partial(_relation, data, rank, seconds))


def _relation(data: str, rank: int, seconds: float) -> Row:
    warm(problem(data), "ao-admm")
    ours = run(data, rank, "enmf")
    other = run(data, rank, "ao-admm", "nndsvd", Goal(seconds), tol=1e-9)
    found = relate((ours.U.astype(float), ours.V.astype(float)), (other.U.astype(float), other.V.astype(float)))
    # the paper's form: R1 = I, so A = L R2ᵀ with the rows of A orthogonal
    A = found.A
    L = np.linalg.norm(A, axis=1)
    P, _, Qt = np.linalg.svd(A / L[:, None])
    plain = (L[:, None]) * (P @ Qt)
    off_u = np.linalg.norm(other.U - ours.U @ plain) / np.linalg.norm(other.U)
    off_v = np.linalg.norm(other.V - ours.V @ np.linalg.inv(plain).T) / np.linalg.norm(other.V)
    return {
        "method": "ao-admm",
        "start": "nndsvd",
        **facts(other, bound_of(problem(data), rank)),
        "error_ratio": other.error / ours.error,
        "R1_from_identity": float(np.linalg.norm(np.abs(found.R1) - np.eye(rank))),
        "delta_u_rotation": float(off_u),
        "delta_v_rotation": float(off_v),
        "delta_u_general": found.delta_u,
        "delta_v_general": found.delta_v,
        "relation": compare(ours, other, matrix(data)).relation,
    }


@reproduces(
    "tending",
    ("figure 7",),
    "Share of converged columns against the difference of the errors",
    small={"settings": (("verb", 10, "random"), ("verb", 40, "exterior"), ("face", 5, "random")), "max_iter": 1000},
    paper={"settings": (("verb", 40, "random"), ("face", 10, "random"), ("face", 25, "random")), "max_iter": 20000},
)
def tending(settings: tuple[tuple[str, int, str], ...], max_iter: int) -> Iterator[Case]:
    """Columns of AO-ADMM that have converged to those of eNMF, along its run."""
    for data, rank, start in settings:
        yield Case({"data": data, "rank": rank, "start": start}, partial(_tending, data, rank, start, max_iter))


def _tending(data: str, rank: int, start: str, max_iter: int) -> Iterator[Row]:
    for row in figures.columns_along_a_run(matrix(data), rank, init=start, points=25, max_iter=max_iter):
        yield {**row, "status": "done"}
