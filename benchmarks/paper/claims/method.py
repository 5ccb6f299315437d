"""The parts of eNMF: phases, rotation, feasibility, and what they are worth (phase, orthogonality and ablation tables,
figure 5)."""

from __future__ import annotations

from typing import Any

from paper.ablation import FIXED_STEP, RANDOMIZED, SIXTH, STRATEGIES
from paper.claims.claim import HOLDS, Found, Tables, by, claim, least, listed, most, place, share, span, verdict
from paper.published import said
from paper.runs import LETTER, MET, TOL
from paper.tidy import Rows, each, pick
from paper.views import arrived, fmt


def _late(row: Any) -> Any:
    """Share of feasibility and descent in the time of all phases."""
    late = row["descent_seconds"] + row["feasibility_seconds"]
    return late / (row["before_descent"] + row["descent_seconds"])


def _kind(rows: Rows, synthetic: bool) -> Rows:
    return rows[rows["data"].str.startswith("synthetic") == synthetic]


@claim("phases")
def no_descent(t: Tables) -> Found:
    rows = _kind(pick(t["phases"], method="enmf"), synthetic=True)
    none = rows[_late(rows) == 0.0]
    worst = max(each(rows), key=_late)
    return by(rows, lambda row: _late(row) == 0.0), (
        f"No second of either in {share(len(none), len(rows))} settings; most at {place(worst)}: "
        f"{100 * _late(worst):.0f} % of the time."
    )


@claim("rotation", "phases")
def audio(t: Tables) -> Found:
    found, words = {}, []
    rows = pick(t["rotation"], data="audio_waveform")
    for rank, some in rows.groupby("rank", sort=False):
        point = least(some, "ratio")
        found[f"r = {rank}"] = point["ratio"] <= MET
        words.append(
            f"r = {rank}: {point['negative_entries']:.1e} of the entries negative ({point['point']}, "
            f"{point['rotation_iterations']:g} iterations), error / bound {point['ratio']:.6f} without them"
        )
    ends = [
        f"r = {row['rank']} {row['ratio']:.6f} ({row['status']})"
        for row in each(pick(t["phases"], data="audio_waveform", method="enmf"))
        if row["rank"] >= said("audio").low
    ]
    return verdict(found), (
        f"On {rows['rows'].iloc[0]} waveforms prepared as the paper describes, in the place of its matrix: "
        f"{'; '.join(words)}. The whole of eNMF ends at error / bound {', '.join(ends)}."
    )


@claim("phases")
def orthogonal(t: Tables) -> Found:
    rows = t["phases"].dropna(subset="orthogonality")
    letter, ours = (pick(rows, method=name)["rotation_iterations"] for name in (LETTER, "enmf"))
    few = max(letter) <= said("orthogonal").high
    return (HOLDS if few else f"{HOLDS} for orthogonality; the number of iterations does not"), (
        f"||RᵀR - I||² is at most {rows['orthogonality'].max():.1e} (R is a product of orthogonal "
        f"matrices). From the identity, as printed, {span(letter, '.0f')} iterations until nonnegative, no longer "
        f"falling, or the cap of the preset; from the spread start {span(ours, '.0f')}, "
        f"{(ours == 0).sum()} times none at all."
    )


@claim("phases")
def light_descent(t: Tables) -> Found:
    rows = _kind(t["phases"], synthetic=False)
    ours, letter = (100 * _late(pick(rows, method=name)) for name in ("enmf", LETTER))
    return by(pick(rows, method="enmf"), lambda row: _late(row) < 0.5), (
        f"Feasibility and descent take {span(ours, '.0f')} % of the time by default, {span(letter, '.0f')} % with the "
        f"paper's letter, to a KKT residual of {TOL:.0e} or the limit of seconds."
    )


@claim("feasible")
def first_feasible(t: Tables) -> Found:
    worst = most(t["feasible"], "increase")
    return by(t["feasible"], lambda row: row["increase"] <= said("first_feasible").high), (
        f"At most {100 * worst['increase']:.2g} %, at {place(worst)}."
    )


@claim("ablation")
def strategies(t: Tables) -> Found:
    others = (*STRATEGIES[1:], SIXTH)
    found = {}
    for row in each(pick(t["ablation"], protocol="equal error")):
        if row["method"] in others:
            found[f"{place(row)} {row['method']}"] = not (arrived(row) and row["time_ratio"] < 1.0)
    sooner = [name for name, holds in found.items() if not holds]
    lines = []
    for name in others:
        values = pick(t["ablation"], protocol="equal time", method=name)["error_ratio"]
        lines += [f"{name} {span(values, '.3f')}"] if len(values) else []
    return verdict(found, "comparisons").split(":")[0], (
        f"Another strategy arrives sooner in {share(len(sooner), len(found))} comparisons: "
        f"{listed(sooner)}. Error at equal time over that of {STRATEGIES[0]}: {'; '.join(lines)}."
    )


@claim("ablation")
def step_size(t: Tables) -> Found:
    rows = pick(t["ablation"], protocol="equal error", method=FIXED_STEP)
    there = [row for row in each(rows) if arrived(row)]
    values = [f"{place(row)} {fmt(row['time_ratio'], 3)}" for row in there]
    return by(rows, lambda row: not (arrived(row) and row["time_ratio"] < 1.0)), (
        f"The fixed step arrives at the same error in {share(len(there), len(rows))} settings, after this many times "
        f"the time of the optimal one: {listed(values)}."
    )


@claim("ablation")
def randomized(t: Tables) -> Found:
    rows = pick(t["ablation"], protocol="equal time", method=RANDOMIZED)
    return by(rows, lambda row: row["error_ratio"] < 1.005), (
        f"Error at equal time over that with the exact SVD: {span(rows['error_ratio'], '.4f')}."
    )
