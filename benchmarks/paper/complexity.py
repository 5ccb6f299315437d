"""Complexity: measured exponents of each phase in n = m and in r, against the paper's formula.

svd  n m r        rotation, an iteration  (n + m) r² + r³        descent, an iteration  n m r + (n + m) r²
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from enmf.bench.protocols import Goal
from paper.case import Case, Row, reproduces
from paper.runs import LETTER, problem, run, warm
from paper.tidy import Rows, pick

FORMULA: dict[str, Callable[[Any, Any], Any]] = {
    "svd": lambda n, r: n * n * r,
    "rotation": lambda n, r: 2 * n * r**2 + r**3,
    "descent": lambda n, r: n * n * r + 2 * n * r**2,
}


@reproduces(
    "complexity",
    ("complexity",),
    "Measured cost against the formula",
    tiny={"sides": (40, 60), "ranks": (2, 4), "side": 60, "rank": 3},
    small={"sides": (500, 1000, 2000), "ranks": (10, 20, 40, 80), "side": 1000, "rank": 20},
    paper={"sides": (1000, 2000, 5000, 10000), "ranks": (20, 50, 100, 200, 400), "side": 5000, "rank": 50},
)
def complexity(sides: tuple[int, ...], ranks: tuple[int, ...], side: int, rank: int) -> Iterator[Case]:
    """Seconds of the SVD (randomized), of an iteration of Algorithm 1 on all rows, and of a HALS iteration (median of
    the trace), synthetic data at 20 dB. `slope` fits these: exponent of the side and of the rank."""
    for n in sides:
        yield Case({"vary": "side", "side": n, "rank": rank}, partial(_cost, n, rank))
    for r in ranks:
        yield Case({"vary": "rank", "side": side, "rank": r}, partial(_cost, side, r))


def _cost(side: int, rank: int) -> Row:
    data = f"synthetic-20-{side}"
    warm(problem(data), "hals")
    options = {"svd": "randomized", "rotation": "identity", "rotation_iterations": 10, "sample": False}
    run(data, rank, LETTER, goal=Goal(0.0), options=options)
    result = run(data, rank, LETTER, goal=Goal(0.0), options=options)
    plain = run(data, rank, "hals", "random-0", Goal(0.5), tol=0.0)
    times = [row.seconds for row in plain.trace if row.phase == "descent"]
    phases = result.phases
    return {
        "status": "done",
        "svd": phases["svd"].seconds,
        "svd_passes": phases["svd"].passes,
        "rotation": phases["rotation"].seconds / max(phases["rotation"].iterations, 1),
        "descent": float(np.median(np.diff(times))) if len(times) > 1 else float("nan"),
    }


def slope(rows: Rows, vary: str, phase: str) -> tuple[float, float]:
    """Exponents of the measured seconds and of the formula on the same grid."""
    some = pick(rows, vary=vary).dropna(subset=[phase])
    formula = FORMULA[phase](some["side"].astype(float), some["rank"].astype(float))
    x = np.log(some[vary].astype(float))
    measured, expected = (np.polyfit(x, np.log(seconds), 1)[0] for seconds in (some[phase], formula))
    return float(measured), float(expected)
