"""Phase tables, orthogonality tables, figure 5; our defaults beside the paper's letter (`preset="paper"`)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from enmf.bench.data import matrix
from enmf.bench.protocols import Goal
from paper import figures
from paper.case import Case, Row, reproduces
from paper.contests import REAL, SNRS
from paper.runs import LETTER, bound_of, facts, problem, run, warm

FEASIBLE = {"verb": (10, 20, 40, 80), "face": (5, 10, 20)}


@reproduces(
    "phases",
    ("phases", "orthogonality", "preset"),
    "Where the time goes, how orthogonal the rotation is, and the paper's letter beside ours",
    tiny={"side": 60, "ranks": (2,), "real": {}, "limit": 5.0},
    small={
        "side": 500,
        "ranks": (5, 20, 50),
        "real": {"verb": REAL["verb"], "face": (5, 10, 20), "audio_waveform": (10, 40, 100)},
        "limit": 6.0,
    },
    paper={"side": 5000, "ranks": (50, 100, 200, 400, 500), "real": REAL, "limit": 3600.0},
)
def phases(side: int, ranks: tuple[int, ...], real: dict[str, tuple[int, ...]], limit: float) -> Iterator[Case]:
    """Seconds of each phase of eNMF to its KKT point; error of RᵀR = I and iterations of the rotation. `enmf` are the
    defaults, `enmf-paper` is preset="paper": exact SVD, rotation from the identity, penalty stage and plain HALS, all
    on X. A run is ended after a limit of seconds."""
    synthetic = {f"synthetic-{snr}-{side}": ranks for snr in SNRS}
    for data, some in {**synthetic, **real}.items():
        for rank in some:
            for method in ("enmf", LETTER):
                key = {"data": data, "rank": rank, "method": method}
                yield Case(key, partial(_phases, data, rank, method, limit))


def _phases(data: str, rank: int, method: str, limit: float) -> Row:
    warm(problem(data), "hals")
    result = run(data, rank, method, goal=Goal(limit))
    seconds = {name: result.phases[name].seconds for name in ("svd", "rotation", "feasibility", "descent")}
    seconds["feasibility"] += result.phases["surrogate"].seconds if "surrogate" in result.phases else 0.0
    rotation = result.rotation
    assert rotation is not None
    return {
        **facts(result, bound_of(problem(data), rank)),
        **{f"{name}_seconds": value for name, value in seconds.items()},
        "before_descent": sum(seconds.values()) - seconds["descent"],
        "orthogonality": rotation.orthogonality_error**2,
        "rotation_iterations": rotation.iterations,
        "negative_mass": rotation.negative_mass,
    }


@reproduces(
    "feasible", ("figure 5",), "Error at the first feasible point", small={"ranks": FEASIBLE}, paper={"ranks": {**REAL}}
)
def feasible(ranks: dict[str, tuple[int, ...]]) -> Iterator[Case]:
    """How much the error falls in the descent: the paper's F-eNMF against eNMF."""
    for data, some in ranks.items():
        for rank in some:
            yield Case({"data": data, "rank": rank}, partial(_feasible, data, rank))


def _feasible(data: str, rank: int) -> Iterator[Row]:
    return figures.error_at_feasibility(matrix(data), [rank], data=data)
