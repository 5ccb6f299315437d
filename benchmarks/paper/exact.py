"""Figure 1, figure 4 and table 11: the way to convergence, and data with an exact factorization."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from enmf.bench.protocols import Goal
from enmf.datasets import load, make_exact
from enmf.geometry.equivalence import compare
from enmf.problem.validation.arrays import check_problem
from paper import figures
from paper.case import Case, Row, reproduces
from paper.runs import LETTER, OPPONENTS, bound_of, facts, problem, run, warm

POINTS = 60  # rows kept of a trace


@reproduces(
    "convergence",
    ("figure 1 A",),
    "Error against time to convergence",
    small={"data": "synthetic-60-500", "rank": 20, "times": 60.0, "least": 3.0},
    paper={"data": "synthetic-60-5000", "rank": 50, "times": 500.0, "least": 600.0},
)
def convergence(data: str, rank: int, times: float, least: float) -> Iterator[Case]:
    """Every method from its first random start, for many times eNMF's time; the paper runs them for hours."""
    for method in ("enmf", LETTER, *OPPONENTS):
        key = {"data": data, "rank": rank, "method": method}
        yield Case(key, partial(_course, data, rank, method, times, least))


def _course(data: str, rank: int, method: str, times: float, least: float) -> list[Row]:
    warm(problem(data), *_others(method))
    ours = run(data, rank, "enmf")
    bound = bound_of(problem(data), rank)
    limit = max(least, times * ours.trace[-1].seconds)
    result = ours if method == "enmf" else run(data, rank, method, "random-0", Goal(limit))
    rows = [row for row in result.trace if row.phase in ("descent", "restart", "certificate")]
    keep = sorted(set(np.geomspace(1, len(rows), POINTS).astype(int) - 1))
    end = facts(result, bound)
    return [
        {
            "status": end["status"],
            "seconds": rows[k].seconds,
            "iteration": rows[k].iteration,
            "error": rows[k].error,
            "bound": bound,
            "ratio": rows[k].error / bound,
            "kkt": end["kkt"],
        }
        for k in keep
    ]


def _others(method: str) -> tuple[str, ...]:
    """The method, where it is an opponent."""
    return (method,) if method in OPPONENTS else ()


@reproduces(
    "exact",
    ("figure 1 B", "table 11"),
    "Exact factorization by sparsity, against the true factors",
    tiny={"sparsities": (0.3,), "seconds": 0.05, "generated": (30, 20, 4)},
    small={"sparsities": (0.1, 0.2, 0.3, 0.4, 0.5), "seconds": 1.5},
    paper={"sparsities": (0.1, 0.2, 0.3, 0.4, 0.5), "seconds": 600.0},
)
def exact(
    sparsities: tuple[float, ...], seconds: float, generated: tuple[int, int, int] | None = None
) -> Iterator[Case]:
    """The paper's own sets, 500 x 400 of rank 50; every opponent from one random start for the same number of
    seconds. u, v: share of columns that have converged to a true one; e_d: the error, which is zero for the true
    factors; E, TE, NE by the rule of `enmf.compare`."""
    for sparsity in sparsities:
        for method in ("enmf", LETTER, *OPPONENTS):
            yield Case(
                {"data": f"exact-{sparsity}", "rank": generated[2] if generated else 50, "method": method},
                partial(_exact, sparsity, method, seconds, generated),
            )


def _exact(sparsity: float, method: str, seconds: float, generated: tuple[int, int, int] | None) -> Row:
    if generated:
        X, U, V = make_exact(*generated, sparsity, random_state=0)
    else:
        X, truth = load("exact", sparsity=sparsity)
        U, V = truth["U"], truth["V"]
    target, rank = check_problem(X), U.shape[1]
    warm(target, *_others(method))
    own = method not in OPPONENTS
    start = "exterior" if own else "random-0"
    result = run(target, rank, method, start, None if method == "enmf" else Goal(seconds), bound=own)
    found = compare((U, V), result, X)
    return {
        "start": start,
        **facts(result, 0.0),
        "share_U": 100 * found.share_U,
        "share_V": 100 * found.share_V,
        "error_difference": float(found.error_difference or 0.0),
        "verdict": found.verdict,
    }


@reproduces(
    "orthant",
    ("figure 4",),
    "Distance of the SVD factors of exact data from the orthant",
    small={"sizes": ((50, 40, 10), (100, 80, 20), (200, 160, 30)), "sparsities": (0.1, 0.3, 0.5)},
    paper={"sizes": figures.SIZES, "sparsities": figures.SPARSITIES},
)
def orthant(sizes: tuple[tuple[int, int, int], ...], sparsities: tuple[float, ...]) -> Iterator[Case]:
    """Sum of the negative entries that a rotation, and a general transform R1 L R2, leave. The general transform ends
    with Newton steps that the paper does not have."""
    for n, m, rank in sizes:
        for sparsity in sparsities:
            key = {"n": n, "m": m, "rank": rank, "sparsity": sparsity}
            yield Case(key, partial(_distances, (n, m, rank), sparsity))


def _distances(size: tuple[int, int, int], sparsity: float) -> Iterator[Row]:
    for row in figures.distance_to_orthant([size], [sparsity]):
        yield {**row, "status": "done"}
