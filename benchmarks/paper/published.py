"""The paper's own figures: figures.csv, with the names of their tables. Nothing there was measured by us."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from paper.tidy import Rows, pick

PROSE = ("claim", "from", "to")  # quantities of a claim in words


@cache
def _all() -> tuple[dict[str, Rows], Rows]:
    """Figures by table, and claims in words. Cells are text as printed; `number` is nan where `value` is a word."""
    rows = pd.read_csv(Path(__file__).parent / "figures.csv", dtype=str, keep_default_na=False)
    rows["number"] = pd.to_numeric(rows["value"], errors="coerce")
    prose = rows["quantity"].isin(PROSE)
    return dict(tuple(rows[~prose].groupby("table", sort=False))), rows[prose]


def figures(table: str, **wanted: object) -> Rows:
    """Rows of one of the paper's tables."""
    return pick(_all()[0][table], **{name: str(value) for name, value in wanted.items()})


@cache
def figure(table: str, data: str, rank: int, method: str, quantity: str | None = None) -> float:
    """One figure; nan where the paper has none."""
    found = figures(table, data=data, rank=rank, method=method, **({"quantity": quantity} if quantity else {}))
    return float(found["number"].iloc[0]) if len(found) else float("nan")


def tables() -> list[str]:
    return list(_all()[0])


class Said(NamedTuple):
    """A claim of the paper: its words, where they are, and the range they give (nan where none)."""

    text: str
    where: str
    low: float
    high: float


def said(name: str) -> Said:
    rows = pick(_all()[1], data=name).set_index("quantity")
    numbers = rows["number"].reindex(["from", "to"])
    return Said(rows["value"]["claim"], rows["table"]["claim"], *map(float, numbers))
