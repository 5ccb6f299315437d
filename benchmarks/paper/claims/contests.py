"""Errors and times of eNMF against its opponents and against the bound (tables 1 to 4, ANLS-BPP)."""

from __future__ import annotations

from enmf.bench.protocols import ROUNDING
from paper import views
from paper.claims.claim import (
    CANNOT,
    HOLDS,
    Found,
    Tables,
    by,
    claim,
    listed,
    markdown,
    place,
    share,
    span,
    value,
    verdict,
)
from paper.published import said
from paper.runs import MET, OPPONENTS
from paper.views import Rows, fmt, pick, settings


def best(rows: Rows, quantity: str = "error") -> dict[str, str]:
    """The best of the paper's nine opponents."""
    return min((row for row in rows if row["method"] in OPPONENTS), key=lambda row: value(row, quantity))


@claim("bounds", "real")
def printed_errors(t: Tables) -> Found:
    impossible, possible, others, apart = [], [], [], []
    for row in t["bounds"]:
        printed, opponent = views.paper_errors(row["data"], row["rank"])
        ours = pick(t["real"], protocol="equal-time", data=row["data"], rank=row["rank"])
        if views.below(opponent, row):
            others.append(place(row))
        if ours:
            apart.append(abs(value(best(ours), "error") / opponent - 1.0))
        if views.below(printed, row):
            impossible.append(f"{place(row)}: printed {fmt(printed, 6)}, bound {fmt(value(row, 'bound'), 6)}")
        elif ours:
            mine = value(pick(ours, method="enmf")[0], "error")
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
    rows = [row for row in t["rotation"] if row["data"].startswith("synthetic")]
    for data, rank in sorted(settings(rows), key=lambda one: (int(one[1]), int(one[0].split("-")[1]))):
        some = pick(rows, data=data, rank=rank)
        points = [row for row in some if row["point"] != "eNMF"]
        arrived = [row for row in points if value(row, "ratio") <= MET]
        chosen = min(arrived or points, key=lambda row: value(row, "rotation_iterations" if arrived else "ratio"))
        name = f"{data.split('-')[1]} dB r = {rank}"
        found[name] = bool(arrived)
        letter = pick(some, point="Algorithm 1 from identity")
        whole = pick(some, point="eNMF")
        lines.append(
            (
                name,
                chosen["point"],
                chosen["rotation_iterations"],
                f"{value(chosen, 'negative_entries'):.1e}",
                f"{value(chosen, 'ratio'):.6f}",
                f"{letter[0]['rotation_iterations']}: {value(letter[0], 'ratio'):.6f}" if letter else "",
                f"{value(whole[0], 'ratio'):.6f} ({whole[0]['status']})" if whole else "",
            )
        )
    side = int(rows[0]["data"].split("-")[2])
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
    rows = pick(t["synthetic"], protocol="equal-time", method="enmf") + pick(t["rotation"], point="eNMF")
    certified = [row for row in rows if value(row, "ratio") <= MET]
    worst = max(rows, key=lambda row: value(row, "ratio"))
    return by(rows, lambda row: round(value(row, "ratio"), 2) == 1.0), (
        f"{share(len(certified), len(rows))} settings end with a certified global optimum (error / bound at most "
        f"one plus {MET - 1.0:.0e}); the largest ratio is {value(worst, 'ratio'):.5f} at {place(worst)} "
        f"({worst['status']})."
    )


@claim("synthetic")
def synthetic_opponents(t: Tables) -> Found:
    rows = pick(t["synthetic"], protocol="equal-time")
    firsts = [best(pick(rows, data=data, rank=rank), "ratio") for data, rank in settings(rows)]
    ours = {(row["data"], row["rank"]): value(row, "error") for row in pick(rows, method="enmf")}
    ahead = [row for row in firsts if value(row, "error") < ours[row["data"], row["rank"]]]
    low, high = (end(firsts, key=lambda row: value(row, "ratio")) for end in (min, max))
    names = "; ".join(f"{place(row)}: {row['method']} {value(row, 'ratio'):.5f}" for row in (low, high))
    return by(firsts, lambda row: value(row, "ratio") - 1.0 >= said("synthetic_opponents").low), (
        f"The best opponent is {span((100 * (value(row, 'ratio') - 1.0) for row in firsts), '.3g')} % above the bound "
        f"({names}). eNMF's error is the smallest in {share(len(firsts) - len(ahead), len(firsts))} settings."
    )


@claim("real", "bounds")
def real_equal_time(t: Tables) -> Found:
    rows = pick(t["real"], protocol="equal-time")
    firsts = [best(pick(rows, data=data, rank=rank)) for data, rank in settings(rows)]
    gains = {id(row): value(row, "error_ratio") - 1.0 for row in firsts}
    low, high = (end(firsts, key=lambda row: gains[id(row)]) for end in (min, max))
    ends = " to ".join(f"{100 * gains[id(row)]:+.3f} % at {place(row)} ({row['method']})" for row in (low, high))
    word, colon, names = by(firsts, lambda row: gains[id(row)] >= -ROUNDING).partition(":")
    wide = [row for row in firsts if gains[id(row)] >= said("real_equal_time").low]
    below = [place(row) for row in t["bounds"] if views.below_bound(row)]
    return f"{word}, by the printed margins in {share(len(wide), len(firsts))}{colon}{names}", (
        f"Best opponent over eNMF, minus one: {ends}. {len(below)} of the printed margins rest on errors below the "
        f"bound: {listed(below)}."
    )


@claim("synthetic", "real")
def equal_error(t: Tables) -> Found:
    words, parts, everywhere = [], [], True
    for name in ("synthetic", "real"):
        rows = [row for row in pick(t[name], protocol="equal-error") if row["method"] in OPPONENTS]
        arrived = [row for row in rows if row["status"] == "target_reached"]
        beaten = {(row["data"], row["rank"]) for row in arrived if value(row, "time_ratio") < 1.0}
        count = len(settings(rows))
        quickest = min(arrived, key=lambda row: value(row, "time_ratio"), default=None)
        words.append(
            f"{name}: {share(len(arrived), len(rows))} opponents arrive at all, within "
            f"{span((value(row, 'patience') for row in rows), '.3g')} times eNMF's time or before their own stationary "
            f"point"
            + (
                f", the quickest {quickest['method']} at {place(quickest)} after "
                f"{fmt(value(quickest, 'time_ratio'), 3)} times"
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
    arrived = [row for row in rows if row["status"] == "target_reached"]
    words = [f"{place(row)} {fmt(value(row, 'time_ratio'), 3)}" for row in arrived]
    return by(rows, lambda row: not (row in arrived and value(row, "time_ratio") < 1.0)), (
        f"ANLS-BPP arrives in {share(len(arrived), len(rows))} settings, after this many times eNMF's time: "
        f"{listed(words)}."
    )
