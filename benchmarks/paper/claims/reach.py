"""Reach: other objective functions (introduction)."""

from __future__ import annotations

from paper.case import Row
from paper.claims.claim import Found, Tables, by, claim, listed, place, span
from paper.tidy import each

AS_GOOD = 1.005  # a loss this many times that of the best start is as good


@claim("losses")
def losses(t: Tables) -> Found:
    rows = t["losses"]

    def name(row: Row) -> str:
        return f"{place(row)} beta = {row['beta']:g}"

    above, below = (
        [f"{name(row)} {row['ratio']:.3f}" for row in each(some)]
        for some in (rows[rows["ratio"] > AS_GOOD], rows[rows["ratio"] < 2.0 - AS_GOOD])
    )
    return by(rows, lambda row: row["ratio"] <= AS_GOOD, name), (
        "An optimal solution of the unconstrained problem is not known for these objective functions; that of a "
        "weighted least-squares problem takes its place. From there the descent ends at "
        f"{span(rows['ratio'], '.3f')} times the loss from the best of the other starts. Above it: {listed(above)}; "
        f"below it: {listed(below)}. The total variation norm was not tried; missing entries are claims of their own."
    )
