"""Tables 1 to 4, figures 2 and 3, and the ANLS-BPP table: all methods at equal time and at equal error."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from paper.case import Case, Row, reproduces
from paper.runs import OPPONENTS, bound_of, contest, problem

REAL = {"verb": (10, 20, 40, 80, 100), "face": (5, 10, 15, 20, 25), "audio_waveform": (10, 20, 40, 80, 100)}
SNRS = (20, 40, 60, 80, 100)


@reproduces(
    "synthetic",
    ("table 1", "table 3", "figure 2"),
    "Synthetic data, equal time and equal error",
    tiny={"side": 60, "snrs": (60,), "ranks": (2,), "budget": 1.0},
    small={"side": 500, "snrs": SNRS, "ranks": (5, 20, 50), "budget": 15.0},
    paper={"side": 5000, "snrs": SNRS, "ranks": (50, 100, 200, 400, 500), "budget": 20_000.0},
)
def synthetic(side: int, snrs: tuple[int, ...], ranks: tuple[int, ...], budget: float) -> Iterator[Case]:
    """X = |W H + N|, W and H uniform on [0, 1], inner rank a fifth of the side. eNMF runs to its KKT point or to the
    bound; every opponent gets that time from each start (equal time), or runs from its best start until it has eNMF's
    error or some times its time is over (equal error; `patience`). The small size has the paper's ratios of rank to
    inner rank. `enmf-paper` is preset="paper", the paper's letter, as one more opponent."""
    for snr in snrs:
        for rank in ranks:
            yield _case(f"synthetic-{snr}-{side}", rank, budget, OPPONENTS)


@reproduces(
    "real",
    ("table 2", "table 4", "figure 3", "ANLS-BPP"),
    "Real data, equal time and equal error",
    tiny={"ranks": {"verb": (5,)}, "budget": 1.0},
    small={"ranks": {"verb": REAL["verb"], "face": (5, 10, 20), "audio_waveform": (10, 20)}, "budget": 15.0},
    paper={"ranks": REAL, "budget": 5_000.0},
)
def real(ranks: dict[str, tuple[int, ...]], budget: float) -> Iterator[Case]:
    """Verb and Face are the paper's own matrices. Its Audio matrix (24,000 x 8,000) is made of shifted waveforms:
    1,200 of them, prepared in the same way, stand in. Seconds are those of this machine and of these
    implementations. ANLS-BPP is a tenth opponent, preset="paper" (`enmf-paper`) another."""
    for data, some in ranks.items():
        for rank in some:
            yield _case(data, rank, budget, (*OPPONENTS, "anls-bpp"))


@reproduces(
    "bounds",
    ("table 4 against Eckart-Young",),
    "The paper's errors against the bound",
    tiny={"ranks": {"verb": (10,)}},
    small={"ranks": {"verb": REAL["verb"], "face": REAL["face"]}},
    paper={"ranks": {"verb": REAL["verb"], "face": REAL["face"]}},
)
def bounds(ranks: dict[str, tuple[int, ...]]) -> Iterator[Case]:
    """The Eckart-Young bound of the paper's own matrices, from an exact SVD: no factorization of that rank, nonnegative
    or not, has a smaller error. Printed figures are compared after rounding the bound down to their digits."""
    for data, some in ranks.items():
        for rank in some:
            yield Case({"data": data, "rank": rank}, partial(_bound, data, rank))


def _bound(data: str, rank: int) -> Row:
    return {"bound": bound_of(problem(data), rank), "status": "done"}


def _case(data: str, rank: int, budget: float, methods: tuple[str, ...]) -> Case:
    return Case({"data": data, "rank": rank}, partial(contest, data, rank, budget, methods))
