"""Exact data, stationary points, and how the factors of different methods relate (tables 9 to 13, figures 1, 4, 7)."""

from __future__ import annotations

from paper import views
from paper.claims.claim import HOLDS, NOT, Found, Tables, by, claim, place, share, span, value, verdict
from paper.published import figures, said
from paper.runs import LETTER, OPPONENTS
from paper.tidy import number
from paper.views import Rows, fmt, pick

STATIONARY = ("converged", "exact", "global_optimum")
EXACT = 1e-10  # relative distance from the orthant that is rounding


@claim("exact")
def exact_sets(t: Tables) -> Found:
    rows, range_ = pick(t["exact"], method="enmf"), said("exact_sets")
    within = [row for row in rows if range_.low <= number(row["data"].split("-")[1]) <= range_.high]
    words = "; ".join(
        f"{row['data']}: {row['share_U']} % and {row['share_V']} % of the columns, relative error "
        f"{value(row, 'relative_error'):.1e}, {row['verdict']}"
        for row in rows
    )
    others = [row for row in t["exact"] if row["method"] in OPPONENTS]
    letter = pick(t["exact"], method=LETTER)
    beside = f"; the paper's letter in {share(len(pick(letter, verdict='E')), len(letter))}" if letter else ""
    return by(within, lambda row: row["verdict"] == "E", lambda row: row["data"]), (
        f"{words}. Opponents end with verdict E from one random start in "
        f"{share(len(pick(others, verdict='E')), len(others))} runs{beside}."
    )


@claim("orthant")
def general_transform(t: Tables) -> Found:
    rows = pick(t["orthant"], kind="general")
    zero = [row for row in rows if value(row, "relative_distance") < EXACT]
    biggest = max(rows, key=lambda row: value(row, "n"))
    left = [value(row, "relative_distance") for row in pick(t["orthant"], kind="rotation")]
    return (HOLDS if len(zero) < len(rows) else NOT), (
        f"With Newton steps after the ADMM the general transform is exact (relative distance below {EXACT:.0e}) in "
        f"{share(len(zero), len(rows))} cases up to {biggest['n']} x {biggest['m']} r = {biggest['rank']}; a rotation "
        f"leaves {span(left, '.2g')}."
    )


@claim("minima")
def kkt(t: Tables) -> Found:
    ours = pick(t["minima"], method="enmf")
    others = [row for row in t["minima"] if row["method"] in OPPONENTS and row.get("kkt")]
    reached, theirs = ([row for row in rows if row["status"] in STATIONARY] for rows in (ours, others))
    worst = max(ours, key=lambda row: value(row, "kkt"))
    exactly = sum(value(row, "kkt_max") == 0.0 and value(row, "kkt_sum") == 0.0 for row in ours)
    return by(ours, lambda row: row["status"] in STATIONARY), (
        f"eNMF ends at a stationary point in {share(len(reached), len(ours))} settings (largest residual "
        f"{value(worst, 'kkt'):.1e} at {place(worst)}), the opponents in {share(len(theirs), len(others))} runs within "
        f"their time. delta and sigma, printed as zeros for eNMF, are exactly zero in {share(exactly, len(ours))}: in "
        f"floating point they are rounding in the units of X, which the residual does not have."
    )


@claim("minima", "exact")
def equivalent(t: Tables) -> Found:
    compared = [row for row in t["minima"] + t["exact"] if row["method"] in OPPONENTS]
    groups: dict[str, Rows] = {"real": [], "synthetic": [], "exact": []}
    for row in compared:
        kind = row["data"].split("-")[0]
        groups[kind if kind in groups else "real"].append(row)
    found = {name: views.counts(rows) for name, rows in groups.items() if rows}
    total = {key: sum(one[key] for one in found.values()) for key in views.counts([])}
    whole = total["E"] + total["TE"] + total["NE"]
    words = "; ".join(
        f"{name}: {one['E']} E, {one['TE']} TE, {one['NE']} NE ({one['NE, stationary']} of these stationary)"
        for name, one in found.items()
    )
    printed = {
        name: sum(len(figures(table, value=name)) for table in ("Table 11", "Table 12", "Table 13"))
        for name in ("E", "TE", "NE")
    }
    alike = (total["E"] + total["TE"]) / whole
    return (HOLDS if alike >= said("equivalent").low else NOT), (
        f"{words}: {100 * alike:.0f} % of {whole} runs are E or TE (printed: {printed['E']} E, {printed['TE']} TE, "
        f"{printed['NE']} NE). An NE run that is stationary is a different local minimum, or has the bound's product "
        f"with other factors; the others are unfinished. See docs/geometry.md."
    )


@claim("relation")
def scaled_rotation(t: Tables) -> Found:
    rows = t["relation"]
    off, general = (
        [max(value(row, f"delta_{side}_{kind}") for side in "uv") for row in rows] for kind in ("rotation", "general")
    )
    above = [100 * (value(row, "error_ratio") - 1.0) for row in rows]
    held = max(off) <= said("scaled_rotation").high
    return (HOLDS if held else NOT), (
        f"AO-ADMM ends {span(above, '.2g')} % above eNMF's error. A "
        f"scaled rotation leaves {span(off, '.2g')} of its factors, the best general matrix A {span(general, '.2g')}."
        + (
            ""
            if held
            else " Two nonnegative pairs with one product are related by some A; nothing makes it a rotation."
        )
    )


@claim("tending")
def tending(t: Tables) -> Found:
    found, words = {}, []
    for data, rank, start in dict.fromkeys((row["data"], row["rank"], row["start"]) for row in t["tending"]):
        last = pick(t["tending"], data=data, rank=rank, start=start)[-1]
        least = min(value(last, "share_U"), value(last, "share_V"))
        name = f"{data} r = {rank} from the {start} start"
        found[name] = least >= 0.999
        words.append(
            f"{name}: {100 * least:.0f} % of the columns at the end, {fmt(value(last, 'error_difference'), 2)} above "
            f"eNMF's error"
        )
    rest = "" if all(found.values()) else " Where AO-ADMM falls into another minimum the columns do not follow."
    return verdict(found), f"{'; '.join(words)}.{rest}"
