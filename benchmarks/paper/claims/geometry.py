"""Exact data, stationary points, and how the factors of different methods relate (tables 9 to 13, figures 1, 4, 7)."""

from __future__ import annotations

import pandas as pd

from paper import views
from paper.claims.claim import HOLDS, NOT, Found, Tables, by, claim, most, place, share, span, verdict
from paper.published import figures, said
from paper.runs import LETTER, OPPONENTS
from paper.tidy import each, pick
from paper.views import STATIONARY, fmt

EXACT = 1e-10  # relative distance from the orthant that is rounding


@claim("exact")
def exact_sets(t: Tables) -> Found:
    rows, range_ = pick(t["exact"], method="enmf"), said("exact_sets")
    within = rows[rows["data"].str.split("-").str[1].astype(float).between(range_.low, range_.high)]
    words = "; ".join(
        f"{row['data']}: {row['share_U']:g} % and {row['share_V']:g} % of the columns, relative error "
        f"{row['relative_error']:.1e}, {row['verdict']}"
        for row in each(rows)
    )
    others = t["exact"][t["exact"]["method"].isin(OPPONENTS)]
    letter = pick(t["exact"], method=LETTER)
    beside = f"; the paper's letter in {share(len(pick(letter, verdict='E')), len(letter))}" if len(letter) else ""
    return by(within, lambda row: row["verdict"] == "E", lambda row: row["data"]), (
        f"{words}. Opponents end with verdict E from one random start in "
        f"{share(len(pick(others, verdict='E')), len(others))} runs{beside}."
    )


@claim("orthant")
def general_transform(t: Tables) -> Found:
    rows = pick(t["orthant"], kind="general")
    zero = rows[rows["relative_distance"] < EXACT]
    biggest = most(rows, "n")
    left = pick(t["orthant"], kind="rotation")["relative_distance"]
    return (HOLDS if len(zero) < len(rows) else NOT), (
        f"With Newton steps after the ADMM the general transform is exact (relative distance below {EXACT:.0e}) in "
        f"{share(len(zero), len(rows))} cases up to {biggest['n']} x {biggest['m']} r = {biggest['rank']}; a rotation "
        f"leaves {span(left, '.2g')}."
    )


@claim("minima")
def kkt(t: Tables) -> Found:
    ours = pick(t["minima"], method="enmf")
    others = t["minima"][t["minima"]["method"].isin(OPPONENTS)].dropna(subset="kkt")
    reached, theirs = (rows[rows["status"].isin(STATIONARY)] for rows in (ours, others))
    worst = most(ours, "kkt")
    exactly = int(((ours["kkt_max"] == 0.0) & (ours["kkt_sum"] == 0.0)).sum())
    return by(ours, lambda row: row["status"] in STATIONARY), (
        f"eNMF ends at a stationary point in {share(len(reached), len(ours))} settings (largest residual "
        f"{worst['kkt']:.1e} at {place(worst)}), the opponents in {share(len(theirs), len(others))} runs within "
        f"their time. delta and sigma, printed as zeros for eNMF, are exactly zero in {share(exactly, len(ours))}: in "
        f"floating point they are rounding in the units of X, which the residual does not have."
    )


@claim("minima", "exact")
def equivalent(t: Tables) -> Found:
    rows = pd.concat([t["minima"], t["exact"]], ignore_index=True)
    rows = rows[rows["method"].isin(OPPONENTS)]
    kinds = rows["data"].str.split("-").str[0]
    kinds = kinds.where(kinds.isin(("synthetic", "exact")), "real")
    groups = {name: rows[kinds == name] for name in ("real", "synthetic", "exact")}
    found = {name: views.counts(some) for name, some in groups.items() if len(some)}
    total = views.counts(rows)
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
    off, general = (rows[[f"delta_u_{kind}", f"delta_v_{kind}"]].max(axis=1) for kind in ("rotation", "general"))
    above = 100 * (rows["error_ratio"] - 1.0)
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
    for (data, rank, start), some in t["tending"].groupby(["data", "rank", "start"], sort=False):
        last = each(some)[-1]
        least = min(last["share_U"], last["share_V"])
        name = f"{data} r = {rank} from the {start} start"
        found[name] = least >= 0.999
        words.append(
            f"{name}: {100 * least:.0f} % of the columns at the end, {fmt(last['error_difference'], 2)} above "
            f"eNMF's error"
        )
    rest = "" if all(found.values()) else " Where AO-ADMM falls into another minimum the columns do not follow."
    return verdict(found), f"{'; '.join(words)}.{rest}"
