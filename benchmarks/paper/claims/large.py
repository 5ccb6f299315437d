"""Size: very large sparse text, and how the cost grows (Reuters table, complexity)."""

from __future__ import annotations

from paper.claims.claim import HOLDS, NOT, Found, Tables, by, claim, place
from paper.complexity import FORMULA, slope
from paper.tidy import each, pick
from paper.views import fmt

NEAR = 0.5  # an exponent this much above the formula's is still the formula's


@claim("reuters")
def reuters(t: Tables) -> Found:
    rows = t["reuters"][t["reuters"]["method"] != "enmf"]
    words = "; ".join(
        f"{place(row)} {row['method']}: "
        + (
            f"{fmt(row['time_ratio'], 3)} times eNMF's time"
            if row["status"] == "target_reached"
            else f"{row['status']} at error / bound {row['ratio']:.5f}"
        )
        for row in each(rows)
    )
    more = "; ".join(
        f"{row['rows']:.0f} x {row['columns']:.0f}, {100 * row['density']:.2g} % stored, r = {row['rank']}: "
        f"{row['status']} after {row['seconds']:.0f} s, error / bound {row['ratio']:.5f}, "
        f"{fmt(row['peak_GB'], 3)} GB of memory"
        for row in each(pick(t["reuters"], data="generated", method="enmf"))
    )
    return by(
        rows,
        lambda row: not (row["status"] == "target_reached" and row["time_ratio"] < 1.0),
        lambda row: f"{place(row)} {row['method']}",
    ), f"IMDB stands in for RCV1. {words}. Generated data of RCV1's shape: {more or 'not run'}."


@claim("complexity")
def complexity(t: Tables) -> Found:
    words, near = [], True
    for phase in FORMULA:
        for vary in ("side", "rank"):
            measured, formula = slope(t["complexity"], vary, phase)
            near &= measured <= formula + NEAR
            words.append(f"{phase} in the {vary} {measured:.2f} ({formula:.2f})")
    return (f"{HOLDS} (exponents at most {NEAR} above the formula)" if near else NOT), (
        f"Measured exponents, those of the formula on the same grid in brackets: {', '.join(words)}."
    )
