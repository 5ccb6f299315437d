"""What the constants of the exterior method matter: each halved and doubled, on the settings of `ahead.py`.

    ENMF_DATA=<folder> python benchmarks/sensitivity.py [--constants core_rows ...] [--sets verb ...]
    python benchmarks/sensitivity.py --show

For every field of `Policy` and `SvdPolicy`: on how many settings anything changes at all, and on these the seconds to
0.1 % above the best known error (results/ahead-race.csv) over those with the usual values (geometric mean; a run that
misses is charged twice its time), and the final error above the usual one: mean, largest and smallest. Runs with the
usual values are repeated in between. Results are benchmarks/results/sensitivity.csv, a row for every run that ends
elsewhere, and sensitivity.md; a setting replaces its earlier rows.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import pandas as pd

from ahead import ABOVE, CHOSEN, KEPT, RESULTS, Run, data, fit, mean, read
from enmf.exterior.plan import MEASURED
from grid import machine

PATH, TABLE = RESULTS / "sensitivity.csv", RESULTS / "sensitivity.md"
FACTORS = (0.5, 2.0)
AGAIN = 6  # runs after which one with the usual values is made again


def constants() -> dict[str, tuple[Any, str]]:
    """Every number by its name, with the policy that has it."""
    own = {f.name: (MEASURED, f.name) for f in fields(MEASURED) if f.name != "svd"}
    return own | {f"svd.{f.name}": (MEASURED.svd, f.name) for f in fields(MEASURED.svd)}


@contextmanager
def changed(name: str, factor: float) -> Iterator[None]:
    """All runs have this constant times a factor."""
    policy, field = constants()[name]
    usual = getattr(policy, field)
    object.__setattr__(policy, field, times(usual, factor))
    try:
        yield
    finally:
        object.__setattr__(policy, field, usual)


def times(value: Any, factor: float) -> Any:
    if isinstance(value, tuple):
        return tuple(times(one, factor) for one in value)
    return max(round(value * factor), 1) if isinstance(value, int) else value * factor


def charged(run: Run, target: float) -> float:
    arrival = run.arrival(target)
    return arrival if math.isfinite(arrival) else 2.0 * float(run.seconds[-1])


def measure(name: str, rank: int, names: list[str]) -> Iterator[dict[str, Any]]:
    """The runs on one set that end elsewhere than the usual one."""
    X, target = data(name), ABOVE * float(read("race").groupby("data")["best"].first()[name])
    fit(X, rank, "enmf", "exterior", 0)
    for number, (constant, factor) in enumerate((constant, factor) for constant in names for factor in FACTORS):
        if number % AGAIN == 0:
            usual = fit(X, rank, "enmf", "exterior", 0)
        with changed(constant, factor):
            run = fit(X, rank, "enmf", "exterior", 0)
        time, above = charged(run, target) / charged(usual, target), run.error / usual.error - 1.0
        if above != 0.0 or len(run.errors) != len(usual.errors):
            yield {"constant": constant, "times": factor, "data": name, "time": time, "above": above}


def table() -> str:
    rows, sets = pd.read_csv(PATH), 0
    done = rows[rows["constant"] == "all"]["data"]
    sets = len(done)
    lines = [
        "# What the constants of the exterior method matter\n",
        f"Made by `python benchmarks/sensitivity.py` on: {machine()}\n",
        f"Each constant halved and doubled, on {sets} settings: {', '.join(done)}.\n",
        "| constant | value | times | settings that change | time | error: mean, from, to |",
        "|---|---|---|---|---|---|",
    ]
    for name, (policy, field) in constants().items():
        for factor in FACTORS:
            of = rows[(rows["constant"] == name) & (rows["times"] == factor)]
            errors = [f"{100 * value:+.3f} %" for value in (of["above"].mean(), of["above"].min(), of["above"].max())]
            found = f"{mean(of['time']):.2f} | {', '.join(errors)}" if len(of) else "|"
            lines.append(f"| `{name}` | {getattr(policy, field)} | {factor:g} | {len(of)} | {found} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--constants", nargs="+", default=list(constants()), choices=list(constants()), metavar="NAME")
    parser.add_argument("--sets", nargs="+", default=list({**CHOSEN, **KEPT}), metavar="SET")
    parser.add_argument("--show", action="store_true")
    arguments = parser.parse_args()
    for name in [] if arguments.show else arguments.sets:
        new = [{"constant": "all", "data": name}]
        new += measure(name, {**CHOSEN, **KEPT}[name], arguments.constants)
        old = pd.read_csv(PATH) if PATH.exists() else pd.DataFrame(columns=["constant", "times", "data"])
        old = old[(old["data"] != name) | ~old["constant"].isin(["all", *arguments.constants])]
        found = pd.concat([old, pd.DataFrame(new)], ignore_index=True)
        found.to_csv(PATH, index=False, float_format="%.6g", lineterminator="\n")
        print(f"{name}: {len(new) - 1} of {len(FACTORS) * len(arguments.constants)} runs end elsewhere", flush=True)
    TABLE.write_text(table())
    print(table())


if __name__ == "__main__":
    main()
