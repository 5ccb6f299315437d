"""Errors and times of eNMF against its opponents and against the bound (tables 1 to 4, ANLS-BPP)."""

from __future__ import annotations

import pandas as pd

from enmf.bench.protocols import ROUNDING
from paper import views
from paper.case import Row
from paper.claims.claim import (
    CANNOT,
    HOLDS,
    Found,
    Tables,
    by,
    claim,
    least,
    listed,
    markdown,
    most,
    place,
    share,
    span,
    verdict,
)
from paper.published import said
from paper.runs import MET, OPPONENTS
from paper.tidy import Rows, each, pick
from paper.views import fmt, settings


def best(rows: Rows, quantity: str = "error") -> Row:
    """The best of the paper's nine opponents."""
    return min(each(rows[rows["method"].isin(OPPONENTS)]), key=lambda row: row[quantity])


def firsts(rows: Rows, quantity: str = "error") -> Rows:
    """The best opponent in each setting."""
    return pd.DataFrame([best(some, quantity) for _, some in rows.groupby(["data", "rank"], sort=False)])


@claim("bounds", "real")
def printed_errors(t: Tables) -> Found:
    impossible, possible, others, apart = [], [], [], []
    for row in each(t["bounds"]):
        printed, opponent = views.paper_errors(row["data"], row["rank"])
        ours = pick(t["real"], protocol="equal-time", data=row["data"], rank=row["rank"])
        if views.below(opponent, row):
            others.append(place(row))
        if len(ours):
            apart.append(abs(best(ours)["error"] / opponent - 1.0))
        if views.below(printed, row):
            impossible.append(f"{place(row)}: printed {fmt(printed, 6)}, bound {fmt(row['bound'], 6)}")
        elif len(ours):
            mine = pick(ours, method="enmf")["error"].iloc[0]
            possible.append(f"{place(row)} {fmt(mine, 6)} (printed {fmt(printed, 6)})")
    word = f"{CANNOT} for {share(len(impossible), len(t['bounds']))}" if impossible else HOLDS
    return word, (
        f"Printed errors of eNMF below the Eckart-Young bound, which no method whatsoever can reach: "
        f"{'; '.join(impossible) or 'none'}. Printed errors of the best opponent below it: {listed(others)}; ours "
        f"differ from them by {span((100 * value for value in apart), '.2g')} %. Where the printed error of eNMF is "
        f"possible, ours are: {'; '.join(possible) or 'not run'}."
    )


@claim("rotation")
def rotation_alone(t: Tables) -> Found:
    found, lines = {}, []
    rows = t["rotation"][t["rotation"]["data"].str.startswith("synthetic")]
    for data, rank in sorted(settings(rows), key=lambda one: (one[1], int(one[0].split("-")[1]))):
        some = pick(rows, data=data, rank=rank)
        points = each(some[some["point"] != "eNMF"])
        arrived = [row for row in points if row["ratio"] <= MET]
        chosen = min(arrived or points, key=lambda row: row["rotation_iterations" if arrived else "ratio"])
        name = f"{data.split('-')[1]} dB r = {rank}"
        found[name] = bool(arrived)
        letter = each(pick(some, point="Algorithm 1 from identity"))
        whole = each(pick(some, point="eNMF"))
        lines.append(
            (
                name,
                chosen["point"],
                f"{chosen['rotation_iterations']:g}",
                f"{chosen['negative_entries']:.1e}",
                f"{chosen['ratio']:.6f}",
                f"{letter[0]['rotation_iterations']:g}: {letter[0]['ratio']:.6f}" if letter else "",
                f"{whole[0]['ratio']:.6f} ({whole[0]['status']})" if whole else "",
            )
        )
    side = int(rows["data"].iloc[0].split("-")[2])
    heads = ("setting", "point", "iterations", "share of entries negative", "error / bound, those set to zero")
    table = markdown((*heads, "from the identity, iterations: error / bound", "whole eNMF, error / bound"), lines)
    failed = [name for name, holds in found.items() if not holds]
    rest = (
        f" Where it does not arrive ({listed(failed)}), Algorithm 1 was run until its negative mass no longer falls or "
        f"to its cap."
        if failed
        else ""
    )
    return verdict(found), (
        f"At {side} x {side}, inner rank {side // 5}. A rotation has arrived where the error of its nonnegative part "
        f"is the bound to a relative {MET - 1.0:.0e}; the bound is that of an exact SVD.{rest}\n\n" + "\n".join(table)
    )


@claim("synthetic", "rotation")
def synthetic_optimum(t: Tables) -> Found:
    ends = [pick(t["synthetic"], protocol="equal-time", method="enmf"), pick(t["rotation"], point="eNMF")]
    rows = pd.concat(ends, ignore_index=True)
    certified, worst = rows[rows["ratio"] <= MET], most(rows, "ratio")
    return by(rows, lambda row: round(row["ratio"], 2) == 1.0), (
        f"{share(len(certified), len(rows))} settings end with a certified global optimum (error / bound at most "
        f"one plus {MET - 1.0:.0e}); the largest ratio is {worst['ratio']:.5f} at {place(worst)} "
        f"({worst['status']})."
    )


@claim("synthetic")
def synthetic_opponents(t: Tables) -> Found:
    rows = pick(t["synthetic"], protocol="equal-time")
    others = firsts(rows, "ratio")
    ahead = others[others["error_ratio"] < 1.0]
    low, high = least(others, "ratio"), most(others, "ratio")
    names = "; ".join(f"{place(row)}: {row['method']} {row['ratio']:.5f}" for row in (low, high))
    return by(others, lambda row: row["ratio"] - 1.0 >= said("synthetic_opponents").low), (
        f"The best opponent is {span(100 * (others['ratio'] - 1.0), '.3g')} % above the bound "
        f"({names}). eNMF's error is the smallest in {share(len(others) - len(ahead), len(others))} settings."
    )


@claim("real", "bounds")
def real_equal_time(t: Tables) -> Found:
    others = firsts(pick(t["real"], protocol="equal-time"))
    others["gain"] = others["error_ratio"] - 1.0
    low, high = least(others, "gain"), most(others, "gain")
    ends = " to ".join(f"{100 * row['gain']:+.3f} % at {place(row)} ({row['method']})" for row in (low, high))
    word, colon, names = by(others, lambda row: row["gain"] >= -ROUNDING).partition(":")
    wide = others[others["gain"] >= said("real_equal_time").low]
    below = [place(row) for row in each(t["bounds"]) if views.below_bound(row)]
    return f"{word}, by the printed margins in {share(len(wide), len(others))}{colon}{names}", (
        f"Best opponent over eNMF, minus one: {ends}. {len(below)} of the printed margins rest on errors below the "
        f"bound: {listed(below)}."
    )


@claim("synthetic", "real")
def equal_error(t: Tables) -> Found:
    words, parts, everywhere = [], [], True
    for name in ("synthetic", "real"):
        rows = pick(t[name], protocol="equal-error")
        rows = rows[rows["method"].isin(OPPONENTS)]
        arrived = pick(rows, status="target_reached")
        beaten = settings(arrived[arrived["time_ratio"] < 1.0])
        count = len(settings(rows))
        quickest = least(arrived, "time_ratio") if len(arrived) else None
        words.append(
            f"{name}: {share(len(arrived), len(rows))} opponents arrive at all, within "
            f"{span(rows['patience'], '.3g')} times eNMF's time or before their own stationary "
            f"point"
            + (
                f", the quickest {quickest['method']} at {place(quickest)} after {fmt(quickest['time_ratio'], 3)} times"
                if quickest
                else ""
            )
            + f"; eNMF is first in {share(count - len(beaten), count)} settings"
        )
        parts.append(f"{share(count - len(beaten), count)} {name} settings")
        everywhere &= not beaten
    return HOLDS if everywhere else f"holds only in {' and '.join(parts)}", "; ".join(words) + (
        ". Opponents run from the start that did best at equal time; from a worse local minimum they never arrive, "
        "however fast they are: this protocol rewards a good minimum as much as speed."
    )


@claim("real")
def anls_bpp(t: Tables) -> Found:
    rows = pick(t["real"], protocol="equal-error", method="anls-bpp")
    arrived = pick(rows, status="target_reached")
    words = [f"{place(row)} {fmt(row['time_ratio'], 3)}" for row in each(arrived)]
    return by(rows, lambda row: not (row["status"] == "target_reached" and row["time_ratio"] < 1.0)), (
        f"ANLS-BPP arrives in {share(len(arrived), len(rows))} settings, after this many times eNMF's time: "
        f"{listed(words)}."
    )
