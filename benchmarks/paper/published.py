"""The paper's own figures: figures.csv, with the names of their tables. Nothing there was measured by us."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import NamedTuple

from paper.tidy import number

PROSE = ("claim", "from", "to")  # quantities of a claim in words


@cache
def _all() -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Figures of tables, and claims in words."""
    with (Path(__file__).parent / "figures.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [row for row in rows if row["quantity"] not in PROSE], [row for row in rows if row["quantity"] in PROSE]


def figures(table: str, **wanted: object) -> list[dict[str, str]]:
    """Rows of one of the paper's tables."""
    return [
        row
        for row in _all()[0]
        if row["table"] == table and all(row[name] == str(value) for name, value in wanted.items())
    ]


def figure(table: str, data: str, rank: int | str, method: str, quantity: str | None = None) -> float:
    """One figure; nan where the paper has none."""
    wanted = {"data": data, "rank": rank, "method": method, **({"quantity": quantity} if quantity else {})}
    found = figures(table, **wanted)
    return number(found[0]["value"]) if found else float("nan")


def tables() -> list[str]:
    return list(dict.fromkeys(row["table"] for row in _all()[0]))


class Said(NamedTuple):
    """A claim of the paper: its words, where they are, and the range they give (nan where none)."""

    text: str
    where: str
    low: float
    high: float


def said(name: str) -> Said:
    rows = {row["quantity"]: row for row in _all()[1] if row["data"] == name}
    low, high = (number(rows[end]["value"]) if end in rows else float("nan") for end in ("from", "to"))
    return Said(rows["claim"]["value"], rows["claim"]["table"], low, high)
