"""The grid behind our comparisons: every opponent on twelve matrices, both protocols, in half an hour on two cores.

    ENMF_DATA=<folder> python benchmarks/grid.py        # writes benchmarks/results/grid.csv, goes on where it stopped
    python benchmarks/grid.py --show                    # prints the committed table

All get the paper's nine starts, but for faces and IMDB, which get three and two, and the strongest methods. Equal error
gives up after three times eNMF's time.
"""

from __future__ import annotations

import datetime
import platform
import sys
from pathlib import Path

from enmf import parallel
from enmf.bench import Setting, Table, summarize
from enmf.bench.__main__ import print_summary, run_settings
from enmf.bench.data import matrix
from enmf.bench.protocols import NINE_STARTS
from paper.runner import versions

RESULTS = Path(__file__).parent / "results"
METHODS = (
    *("hals", "a-hals", "e-hals", "mu", "grad-mult", "als", "ao-admm", "nmf-admm", "nenmf", "fpgm", "r1d", "anls-bpp"),
    *("sklearn-cd", "sklearn-mu"),
)
STRONGEST = ("hals", "a-hals", "e-hals", "ao-admm", "nenmf", "fpgm", "anls-bpp", "sklearn-cd")
THREE = ("random-0", "random-1", "nndsvd")
TWO = ("random-0", "nndsvd")
GRID = [
    *(("digits", 20, NINE_STARTS), ("verb", 20, NINE_STARTS), ("verb", 40, NINE_STARTS)),
    *((f"synthetic-{snr}", 40, NINE_STARTS) for snr in (60, 100, 20)),
    *(("face", 10, NINE_STARTS), ("audio", 20, NINE_STARTS), ("hyperspectral", 10, NINE_STARTS)),
    *(("newsgroups", 20, NINE_STARTS), ("single_cell", 20, NINE_STARTS)),
    *(("faces", 49, THREE), ("imdb", 20, TWO)),  # the strongest methods only: a run takes seconds
]


def machine() -> str:
    with parallel.limit(None) as threads:
        return f"{datetime.date.today()}, {platform.processor() or platform.machine()}, {threads} threads, {versions()}"


def digest(table: Table) -> str:
    """One line a data set: where eNMF ends, who beats it at equal time, who arrives at its error and when."""
    lines = [
        "| data, rank | eNMF: seconds, error / bound | equal time: best opponent, its error / eNMF's | median start of "
        "the best method, error / eNMF's | equal error: fastest opponent, its time / eNMF's | scikit-learn cd |",
        "|---|---|---|---|---|---|",
    ]
    summaries = summarize(table.rows)
    for name, rank, _ in GRID:
        of = [line for line in summaries if (line.data, line.rank) == (name, rank)]
        time, error = ([line for line in of if line.protocol == p] for p in ("equal-time", "equal-error"))
        if not time or not error:
            continue
        ours = next(line for line in time if line.method == "enmf")
        best = min((line for line in time if line.method != "enmf"), key=lambda line: line.best_error)
        middle = min(line.median_error for line in time if line.method != "enmf") / ours.best_error
        arrived = [line for line in error if line.status == "target_reached"]
        fastest = min(arrived, key=lambda line: line.time_ratio, default=None)
        cd = next(line for line in error if line.method == "sklearn-cd")
        lines.append(
            f"| {name}, {rank} | {ours.seconds:.2g}, {ours.bound_ratio:.5f} | {best.method} ({best.best_start}), "
            f"{best.error_ratio:.5f} | {middle:.5f} | "
            + (f"{fastest.method}, {fastest.time_ratio:.2f}" if fastest else "none arrives within 3")
            + f" | {f'{cd.time_ratio:.2f}' if cd.status == 'target_reached' else f'does not arrive ({cd.status})'} |"
        )
    return "\n".join(lines)


def main() -> None:
    table = Table(RESULTS / "grid.csv")
    if "--show" not in sys.argv:
        (RESULTS / "grid.txt").write_text(machine() + "\n")
        for name, rank, starts in GRID:
            X = matrix(name)
            methods = METHODS if starts is NINE_STARTS else STRONGEST
            run_settings("equal-time", [Setting(name, X, rank, methods, starts)], table)
            few = TWO if name in ("digits", "verb") else ("nndsvd",)
            run_settings("equal-error", [Setting(name, X, rank, STRONGEST, few, patience=3.0)], table)
    print_summary(table)
    heading = (
        "# Summary of grid.csv\n\nMade by `python benchmarks/grid.py` on: "
        + (RESULTS / "grid.txt").read_text()
        + "\nSeconds of eNMF end at its KKT point (tol 1e-5). Equal error ends at three times eNMF's time.\n\n"
    )
    (RESULTS / "grid.md").write_text(heading + digest(table) + "\n")


if __name__ == "__main__":
    main()
