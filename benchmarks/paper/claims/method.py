"""The parts of eNMF: phases, rotation, feasibility, and what they are worth (phase, orthogonality and ablation tables,
figure 5)."""

from __future__ import annotations

from paper.ablation import FIXED_STEP, RANDOMIZED, SIXTH, STRATEGIES
from paper.claims.claim import HOLDS, Found, Tables, by, claim, listed, place, share, span, value, verdict
from paper.published import said
from paper.runs import LETTER, MET, TOL
from paper.views import Rows, arrived, fmt, pick


def _late(row: dict[str, str]) -> float:
    """Share of feasibility and descent in the time of all phases."""
    late = value(row, "descent_seconds") + value(row, "feasibility_seconds")
    return late / (value(row, "before_descent") + value(row, "descent_seconds"))


def _kind(rows: Rows, synthetic: bool) -> Rows:
    return [row for row in rows if row["data"].startswith("synthetic") == synthetic]


@claim("phases")
def no_descent(t: Tables) -> Found:
    rows = _kind(pick(t["phases"], method="enmf"), synthetic=True)
    none = [row for row in rows if _late(row) == 0.0]
    worst = max(rows, key=_late)
    return by(rows, lambda row: _late(row) == 0.0), (
        f"No second of either in {share(len(none), len(rows))} settings; most at {place(worst)}: "
        f"{100 * _late(worst):.0f} % of the time."
    )


@claim("rotation", "phases")
def audio(t: Tables) -> Found:
    found, words = {}, []
    rows = pick(t["rotation"], data="audio_waveform")
    for rank in dict.fromkeys(row["rank"] for row in rows):
        point = min(pick(rows, rank=rank), key=lambda row: value(row, "ratio"))
        found[f"r = {rank}"] = value(point, "ratio") <= MET
        words.append(
            f"r = {rank}: {value(point, 'negative_entries'):.1e} of the entries negative ({point['point']}, "
            f"{point['rotation_iterations']} iterations), error / bound {value(point, 'ratio'):.6f} without them"
        )
    ends = [
        f"r = {row['rank']} {value(row, 'ratio'):.6f} ({row['status']})"
        for row in pick(t["phases"], data="audio_waveform", method="enmf")
        if value(row, "rank") >= said("audio").low
    ]
    return verdict(found), (
        f"On {rows[0]['rows']} waveforms prepared as the paper describes, in the place of its matrix: "
        f"{'; '.join(words)}. The whole of eNMF ends at error / bound {', '.join(ends)}."
    )


@claim("phases")
def orthogonal(t: Tables) -> Found:
    rows = [row for row in t["phases"] if row.get("orthogonality")]
    letter, ours = ([value(row, "rotation_iterations") for row in pick(rows, method=name)] for name in (LETTER, "enmf"))
    few = max(letter) <= said("orthogonal").high
    return (HOLDS if few else f"{HOLDS} for orthogonality; the number of iterations does not"), (
        f"||RᵀR - I||² is at most {max(value(row, 'orthogonality') for row in rows):.1e} (R is a product of orthogonal "
        f"matrices). From the identity, as printed, {span(letter, '.0f')} iterations until nonnegative, no longer "
        f"falling, or the cap of the preset; from the spread start {span(ours, '.0f')}, "
        f"{sum(count == 0 for count in ours)} times none at all."
    )


@claim("phases")
def light_descent(t: Tables) -> Found:
    rows = _kind(t["phases"], synthetic=False)
    ours, letter = ([100 * _late(row) for row in pick(rows, method=name)] for name in ("enmf", LETTER))
    return by(pick(rows, method="enmf"), lambda row: _late(row) < 0.5), (
        f"Feasibility and descent take {span(ours, '.0f')} % of the time by default, {span(letter, '.0f')} % with the "
        f"paper's letter, to a KKT residual of {TOL:.0e} or the limit of seconds."
    )


@claim("feasible")
def first_feasible(t: Tables) -> Found:
    worst = max(t["feasible"], key=lambda row: value(row, "increase"))
    return by(t["feasible"], lambda row: value(row, "increase") <= said("first_feasible").high), (
        f"At most {100 * value(worst, 'increase'):.2g} %, at {place(worst)}."
    )


@claim("ablation")
def strategies(t: Tables) -> Found:
    others = (*STRATEGIES[1:], SIXTH)
    found = {}
    for row in pick(t["ablation"], protocol="equal error"):
        if row["method"] in others:
            found[f"{place(row)} {row['method']}"] = not (arrived(row) and value(row, "time_ratio") < 1.0)
    sooner = [name for name, holds in found.items() if not holds]
    lines = []
    for name in others:
        values = [value(row, "error_ratio") for row in pick(t["ablation"], protocol="equal time", method=name)]
        lines += [f"{name} {span(values, '.3f')}"] if values else []
    return verdict(found, "comparisons").split(":")[0], (
        f"Another strategy arrives sooner in {share(len(sooner), len(found))} comparisons: "
        f"{listed(sooner)}. Error at equal time over that of {STRATEGIES[0]}: {'; '.join(lines)}."
    )


@claim("ablation")
def step_size(t: Tables) -> Found:
    rows = pick(t["ablation"], protocol="equal error", method=FIXED_STEP)
    there = [row for row in rows if arrived(row)]
    values = [f"{place(row)} {fmt(value(row, 'time_ratio'), 3)}" for row in there]
    return by(rows, lambda row: not (arrived(row) and value(row, "time_ratio") < 1.0)), (
        f"The fixed step arrives at the same error in {share(len(there), len(rows))} settings, after this many times "
        f"the time of the optimal one: {listed(values)}."
    )


@claim("ablation")
def randomized(t: Tables) -> Found:
    rows = pick(t["ablation"], protocol="equal time", method=RANDOMIZED)
    return by(rows, lambda row: value(row, "error_ratio") < 1.005), (
        f"Error at equal time over that with the exact SVD: {span((value(row, 'error_ratio') for row in rows), '.4f')}."
    )
