"""The paper's own figures: figures.csv, with the names of their tables. Nothing there was measured by us."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files

from enmf.bench.paper.tidy import number


@cache
def _all() -> list[dict[str, str]]:
    with (files("enmf.bench.paper") / "figures.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def figures(table: str, **wanted: object) -> list[dict[str, str]]:
    """Rows of one of the paper's tables."""
    return [
        row
        for row in _all()
        if row["table"] == table and all(row[name] == str(value) for name, value in wanted.items())
    ]


def figure(table: str, data: str, rank: int | str, method: str, quantity: str | None = None) -> float:
    """One figure; nan where the paper has none."""
    wanted = {"data": data, "rank": rank, "method": method, **({"quantity": quantity} if quantity else {})}
    found = figures(table, **wanted)
    return number(found[0]["value"]) if found else float("nan")


def tables() -> list[str]:
    return list(dict.fromkeys(row["table"] for row in _all()))
