"""Nonnegative matrix completion on MovieLens 1M: ours, the paper's opponents and three libraries.

    ENMF_DATA=<folder> python benchmarks/completion.py                   # goes on where it stopped
    python benchmarks/completion.py compare --ranks 10 --minutes 4       # a part, a rank, ends early
    python benchmarks/completion.py --show                               # makes completion.md from the committed tables

The 80/20 mask of the data folder. A tenth of the training ratings is held out once: on it alone the ridge of each
method and rank is chosen (part ridge), and the lengths of eNMC's phases are looked at (part phases). Then five seeds of
the start on all training ratings (part compare), the time to an error (part time) and the paper's protocol for rankings
(part leave-one-out). Predictions are clipped to 1..5; a movie without training ratings gets the average factor, whoever
made the factors. Methods end at their KKT point or after ITERATIONS. Results: completion.csv, one line a fit, and
completion_tests.csv, the Wilcoxon tests over users.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import platform
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.stats

import enmf
import outside_ratings
from enmf import parallel
from enmf.datasets import leave_one_out, load
from ranking import rank_items, root_mean_square

RESULTS = Path(__file__).parent / "results"
PARTS = ("phases", "ridge", "compare", "time", "leave-one-out")
RANKS = (10, 25, 5, 15, 20)  # the paper has no 20
SEEDS = 5
RIDGES = (0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.18, 0.27, 0.4)  # the search begins at 0.05 and ends inside
OURS = ("enmc", "masked-scd", "masked-mu", "adm")
# mu and adm do not arrive; the libraries do not say when they have
ITERATIONS = {
    "enmc": 1000,
    "masked-scd": 1000,
    "masked-mu": 300,
    "adm": 300,
    "cmfrec": 30,
    "libmf": 150,
    "surprise": 50,
}
PHASES: dict[str, dict[str, Any]] = {
    "default": {},
    "softimpute 2": {"softimpute_iterations": 2},
    "softimpute 20": {"softimpute_iterations": 20},
    "rotation 0": {"rotation_iterations": 0},
    "rotation 100": {"rotation_iterations": 100},
    "path 5": {"feasibility_options": {"steps": 5}},
    "path 20": {"feasibility_options": {"steps": 20}},
    "penalty": {"feasibility": "penalty"},
    "sweeps 3": {"max_sweeps": 3},
    "sweeps 30": {"max_sweeps": 30},
}
CLIP = (1.0, 5.0)
PAPER = {  # tables 7 and 8: RMSE of eNMC, Mult, SCD, ADM; NDCG@10 and Recall@10 of eNMC and of the best baseline
    5: ((0.825, 0.939, 0.923, 0.918), (0.419, 0.289), (0.694, 0.567)),
    10: ((0.817, 0.905, 0.900, 0.896), (0.496, 0.318), (0.748, 0.588)),
    15: ((0.785, 0.879, 0.844, 0.852), (0.573, 0.335), (0.778, 0.600)),
    25: ((0.758, 0.869, 0.862, 0.858), (0.687, 0.344), (0.832, 0.627)),
}
COLUMNS = (
    "purpose",
    "rank",
    "method",
    "ridge",
    "seed",
    "iterations",
    "status",
    "seconds",
    "train",
    "test",
    "ndcg",
    "recall",
    "kkt",
)
STEPS = {  # iterations tried for the time to an error
    "enmc": (2, 4, 6, 8, 10, 12, 15, 20, 30),
    "masked-scd": (4, 6, 8, 10, 12, 15, 20, 30),
    "cmfrec": (3, 4, 5, 6, 8, 10, 15, 20, 30),
    "libmf": (50, 80, 120, 200),
    "surprise": (50, 100, 200, 400),
}
TARGETS = (0.86, 0.855, 0.8525, 0.85)


def ratings() -> tuple[sp.csr_array, sp.csr_array]:
    X, labels = load("movielens_1m")
    row, col, train = labels["row"], labels["col"], np.asarray(labels["train"], dtype=bool)
    values = np.asarray(X[row, col]).ravel()
    make = lambda where: sp.csr_array((values[where], (row[where], col[where])), shape=X.shape)  # noqa: E731
    return make(train), make(~train)


def fit(
    name: str, train: sp.csr_array, rank: int, ridge: float, seed: int, steps: int | None = None, **options: Any
) -> dict[str, Any]:
    """One fit: factors, seconds of the whole call, how it ended."""
    steps = ITERATIONS[name] if steps is None else steps
    began = time.perf_counter()
    with warnings.catch_warnings(), parallel.limit(None) as threads:
        warnings.simplefilter("ignore")
        if name in OURS:
            result = enmf.complete(
                train, rank, name, missing="unstored", ridge=ridge, random_state=seed, n_threads=threads,
                max_iter=steps, **options,
            )  # fmt: skip
            U, V = result.U, result.V
            ended = {"iterations": result.n_iter, "status": result.status, "kkt": result.certificate.kkt}
        else:
            U, V = outside_ratings.fit(name, train, outside_ratings.Model(rank, ridge, steps, seed, threads))
            ended = {"iterations": steps, "status": "done", "kkt": float("nan")}
    seconds = time.perf_counter() - began
    U, V = (_with_average(F, train.sum(axis=axis) == 0) for F, axis in ((U, 1), (V, 0)))
    return {"U": U, "V": V, "seconds": seconds, **ended}


def _with_average(F: np.ndarray, cold: np.ndarray) -> np.ndarray:
    return np.where(cold[:, None], F[~cold].mean(axis=0), F)


class Lines:
    """A CSV file that grows by one line a fit."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[dict[str, str]] = []
        if path.exists():
            with path.open(newline="") as file:
                self.rows = list(csv.DictReader(file))

    def add(self, columns: tuple[str, ...], **row: Any) -> None:
        shown = {key: f"{value:.6g}" if isinstance(value, float) else str(value) for key, value in row.items()}
        new = not self.path.exists()
        with self.path.open("a", newline="") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerow({column: shown.get(column, "") for column in columns})
        self.rows.append({column: shown.get(column, "") for column in columns})

    def of(self, **wanted: Any) -> list[dict[str, str]]:
        return [row for row in self.rows if all(row[key] == str(value) for key, value in wanted.items())]


def methods(rank: int) -> list[str]:
    """All that are installed; surprise, far behind, at the first rank only."""
    return [*OURS, *(name for name in outside_ratings.names() if name != "surprise" or rank == RANKS[0])]


def validation_split(train: sp.csr_array) -> tuple[sp.csr_array, sp.csr_array]:
    """Training ratings without, and with nothing but, the tenth that decides."""
    held = np.random.default_rng(0).random(train.nnz) < 0.1
    coords = sp.coo_array(train).coords
    less, validation = (
        sp.csr_array((train.data[part], tuple(c[part] for c in coords)), shape=train.shape) for part in (~held, held)
    )
    return less, validation


def look_at_phases(table: Lines, train: sp.csr_array, rank: int, out_of_time: Any) -> None:
    """Longer and shorter phases of eNMC at one ridge, on the validation part."""
    less, validation = validation_split(train)
    for label, options in PHASES.items():
        if table.of(purpose="phases", rank=rank, method=label) or out_of_time():
            continue
        found = fit("enmc", less, rank, 0.05, 0, **options)
        error = root_mean_square(found["U"], found["V"], validation, CLIP)
        table.add(COLUMNS, purpose="phases", rank=rank, method=label, ridge=0.05, seed=0, test=error, **_ended(found))


def choose_ridges(table: Lines, train: sp.csr_array, rank: int, names: list[str], out_of_time: Any) -> None:
    """Downhill over RIDGES, on the validation part, until both neighbours of the best are worse."""
    less, validation = validation_split(train)

    def error(name: str, ridge: float) -> float:
        known = table.of(purpose="ridge", rank=rank, method=name, ridge=ridge)
        if known:
            return float(known[0]["test"])
        if out_of_time():
            raise TimeoutError
        found = fit(name, less, rank, ridge, 0)
        value = root_mean_square(found["U"], found["V"], validation, CLIP)
        table.add(COLUMNS, purpose="ridge", rank=rank, method=name, ridge=ridge, seed=0, test=value, **_ended(found))
        return value

    for name in names:
        place = RIDGES.index(0.05)
        while True:
            around = [p for p in (place, place + 1, place - 1) if 0 <= p < len(RIDGES)]
            best = min(around, key=lambda p: error(name, RIDGES[p]))
            if best == place:
                break
            place = best


def chosen_ridge(table: Lines, rank: int, name: str) -> float:
    tried = table.of(purpose="ridge", rank=rank, method=name)
    return float(min(tried, key=lambda row: float(row["test"]))["ridge"])


def compare(
    table: Lines,
    tests: Lines,
    train: sp.csr_array,
    test: sp.csr_array,
    rank: int,
    names: list[str],
    seeds: Iterable[int],
    out_of_time: Any,
) -> None:
    """Some seeds of every method, and the per-user Wilcoxon test against eNMC of the same seed."""
    for seed in seeds:
        ours: Any = None
        todo = [name for name in names if not table.of(purpose="compare", rank=rank, method=name, seed=seed)]
        for name in dict.fromkeys(["enmc", *todo]) if todo else ():
            known = name not in todo  # eNMC once more, for the tests of the others
            if out_of_time():
                raise TimeoutError
            if not table.of(purpose="ridge", rank=rank, method=name):
                continue
            found = fit(name, train, rank, chosen_ridge(table, rank, name), seed)
            U, V = found["U"], found["V"]
            ranking = rank_items(U, V, train, test)
            if name == "enmc":
                ours = ranking
            if not known:
                ridge = chosen_ridge(table, rank, name)
                table.add(
                    COLUMNS, purpose="compare", rank=rank, method=name, ridge=ridge, seed=seed,
                    train=root_mean_square(U, V, train, CLIP), test=root_mean_square(U, V, test, CLIP),
                    ndcg=float(np.nanmean(ranking.ndcg)), recall=float(np.nanmean(ranking.recall)), **_ended(found),
                )  # fmt: skip
            if name != "enmc" and ours is not None:
                p = [_wilcoxon(a, b) for a, b in zip(ours, ranking)]
                tests.add(
                    ("rank", "method", "seed", "ndcg", "recall"),
                    rank=rank,
                    method=name,
                    seed=seed,
                    ndcg=p[0],
                    recall=p[1],
                )


def time_to_error(table: Lines, train: sp.csr_array, test: sp.csr_array, rank: int, out_of_time: Any) -> None:
    """Whole calls with more and more iterations, each from the start: seconds and test error of each."""
    for name in [n for n in STEPS if n in methods(rank)]:
        for steps in STEPS[name]:
            if table.of(purpose="time", rank=rank, method=name, iterations=steps):
                continue
            if out_of_time():
                return
            ridge = chosen_ridge(table, rank, name)
            runs = [fit(name, train, rank, ridge, 0, steps) for _ in range(1 if name == "surprise" else 3)]
            found = min(runs, key=lambda run: run["seconds"])
            error = root_mean_square(found["U"], found["V"], test, CLIP)
            row = {**_ended(found), "iterations": steps}
            table.add(COLUMNS, purpose="time", rank=rank, method=name, ridge=ridge, seed=0, test=error, **row)


def rank_one_out(table: Lines, train: sp.csr_array, test: sp.csr_array, rank: int, out_of_time: Any) -> None:
    """The paper's protocol for rankings: of all ratings of a user one is the relevant item, one is left aside."""
    whole = sp.csr_array(train + test)
    coords = sp.coo_array(whole).coords
    part = leave_one_out(coords[0], random_state=0)
    less, one = (
        sp.csr_array((whole.data[p], tuple(c[p] for c in coords)), shape=whole.shape) for p in (part == 0, part == 2)
    )
    for name in methods(rank):
        if table.of(purpose="leave-one-out", rank=rank, method=name) or out_of_time():
            continue
        ridge = chosen_ridge(table, rank, name)
        found = fit(name, less, rank, ridge, 0)
        U, V = found["U"], found["V"]
        ranking = rank_items(U, V, sp.csr_array(whole - one), one)
        row = {"ndcg": float(np.nanmean(ranking.ndcg)), "recall": float(np.nanmean(ranking.recall)), **_ended(found)}
        error = root_mean_square(U, V, one, CLIP)
        table.add(COLUMNS, purpose="leave-one-out", rank=rank, method=name, ridge=ridge, seed=0, test=error, **row)


def _ended(found: dict[str, Any]) -> dict[str, Any]:
    return {key: found[key] for key in ("iterations", "status", "seconds", "kkt")}


def _wilcoxon(ours: np.ndarray, other: np.ndarray) -> float:
    """p of "eNMC is not better": one-sided signed-rank test over the users."""
    difference = (ours - other)[np.isfinite(ours)]
    if not difference.any():
        return 1.0
    return float(scipy.stats.wilcoxon(difference, alternative="greater").pvalue)


def _stars(p: float) -> str:
    return "***" if p < 1e-3 else "**" if p < 1e-2 else "*" if p < 0.05 else ""


def _spread(values: list[float], digits: int = 4) -> str:
    return f"{mean(values):.{digits}f}" + (f" ± {stdev(values):.{digits}f}" if len(values) > 1 else "")


def report(table: Lines, tests: Lines) -> str:
    names = [name for name in (*OURS, *outside_ratings.ALL) if table.of(purpose="compare", method=name)]
    lines = ["## Held-out error, MovieLens 1M", ""]
    lines += [
        "| r | method | ridge | seeds | RMSE train | RMSE test | p (t-test) | NDCG@10 | Recall@10 | ended | paper |"
    ]
    lines += ["|---|---|---|---|---|---|---|---|---|---|---|"]
    of_paper = {"enmc": 0, "masked-mu": 1, "masked-scd": 2, "adm": 3}
    for rank in sorted(RANKS):
        ours = sorted(table.of(purpose="compare", rank=rank, method="enmc"), key=lambda row: row["seed"])
        for name in names:
            rows = sorted(table.of(purpose="compare", rank=rank, method=name), key=lambda row: row["seed"])
            if not rows:
                continue
            errors = [float(row["test"]) for row in rows]
            p = ""
            pairs = [(float(o["test"]), float(row["test"])) for o in ours for row in rows if o["seed"] == row["seed"]]
            if name != "enmc" and len(pairs) > 1:
                value = scipy.stats.ttest_rel(*zip(*pairs), alternative="less").pvalue
                p = f"{value:.1e}{_stars(value)}"
            marks = []
            for column in ("ndcg", "recall"):
                of = [float(row[column]) for row in tests.of(rank=rank, method=name)]
                marks.append(f" ({_stars(max(of)) or 'n.s.'})" if of else "")
            paper = f"{PAPER[rank][0][of_paper[name]]:.3f}" if name in of_paper and rank in PAPER else ""
            ended = rows[0]["status"] if name in OURS and rows[0]["status"] == "converged" else ""
            ended = ended or f"{rows[0]['iterations']} iterations"
            lines.append(
                f"| {rank} | {name} | {rows[0]['ridge']} | {len(rows)} | "
                f"{_spread([float(row['train']) for row in rows])} | "
                f"{_spread(errors)} | {p} | {_spread([float(row['ndcg']) for row in rows], 3)}{marks[0]} | "
                f"{_spread([float(row['recall']) for row in rows], 3)}{marks[1]} | "
                f"{ended} | {paper} |"
            )
    for name in outside_ratings.ALL:
        if name not in names:
            lines.append(f"| | {name} | not installed | | | | | | | | |")
    lines += [
        "",
        "Paper: its RMSE. p: paired t-test over the seeds, one-sided, that eNMC's error is smaller. Marks behind NDCG",
        "and Recall: one-sided Wilcoxon signed-rank tests over the users that eNMC is better, the weakest of the seeds",
        "(* 0.05, ** 0.01, *** 0.001).",
        "The paper's NDCG@10 of eNMC and of its best baseline: "
        + "; ".join(f"r = {r}: {PAPER[r][1][0]}, {PAPER[r][1][1]}" for r in sorted(PAPER))
        + ". Recall@10: "
        + "; ".join(f"r = {r}: {PAPER[r][2][0]}, {PAPER[r][2][1]}" for r in sorted(PAPER))
        + ".",
        "Its ranking follows the leave-one-out protocol; the table above ranks the held-out fifth.",
        "",
        "## What was chosen on the validation part",
        "",
        "A tenth of the training ratings; the test ratings took no part in it. RMSE by ridge (where the best has no",
        "neighbour on a side, the search was not finished):",
        "",
        "| r | method | " + " | ".join(map(str, RIDGES)) + " |",
        "|---|---|" + "---|" * len(RIDGES),
        *_ridge_rows(table, names),
        "",
        "Phases of eNMC, r = 10, ridge 0.05, the default and one change at a time:",
        "",
        "| phases | RMSE | descent iterations |",
        "|---|---|---|",
        *(
            f"| {row['method']} | {float(row['test']):.4f} | {row['iterations']} |"
            for row in table.of(purpose="phases", rank=10)
        ),
        "",
        "## Leave one out, r = 10",
        "",
        "One rating of each user is the relevant item, among all that the user did not rate:",
        "",
        "| method | RMSE | NDCG@10 | Recall@10 |",
        "|---|---|---|---|",
        *(
            f"| {row['method']} | {float(row['test']):.4f} | {float(row['ndcg']):.4f} | {float(row['recall']):.4f} |"
            for row in table.of(purpose="leave-one-out", rank=10)
        ),
        "",
        "## Time to an error, r = 10",
        "",
        "Seconds of the cheapest whole call (fastest of three; surprise: of one) whose test error is at most:",
        "",
        "| method | " + " | ".join(map(str, TARGETS)) + " |",
        "|---|" + "---|" * len(TARGETS),
    ]
    for name in STEPS:
        rows = table.of(purpose="time", rank=10, method=name)
        if rows:
            cells = []
            for target in TARGETS:
                seconds = [float(row["seconds"]) for row in rows if float(row["test"]) <= target]
                cells.append(f"{min(seconds):.2f}" if seconds else "not reached")
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _ridge_rows(table: Lines, names: list[str]) -> list[str]:
    lines = []
    for rank in sorted(RANKS):
        for name in names:
            found = {row["ridge"]: float(row["test"]) for row in table.of(purpose="ridge", rank=rank, method=name)}
            cells = [found.get(str(ridge)) for ridge in RIDGES]
            shown = ["" if v is None else f"**{v:.4f}**" if v == min(found.values()) else f"{v:.4f}" for v in cells]
            if found:
                lines.append(f"| {rank} | {name} | " + " | ".join(shown) + " |")
    return lines


def machine() -> str:
    with parallel.limit(None) as threads:
        return (
            f"{datetime.date.today()}, {platform.machine()}, {threads} threads, Python {platform.python_version()}, "
            f"numpy {np.__version__}, scipy {scipy.__version__}, enmf {enmf.__version__}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=PARTS, help=f"of {', '.join(PARTS)}")
    parser.add_argument("--ranks", type=int, nargs="+", default=RANKS)
    parser.add_argument("--methods", nargs="+", default=())
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--show", action="store_true")
    chosen = parser.parse_args()
    table, tests = Lines(RESULTS / "completion.csv"), Lines(RESULTS / "completion_tests.csv")
    where = RESULTS / "completion.txt"
    if not chosen.show:
        where.write_text(machine() + "\n")
        ended = "complete"
        try:
            run(chosen, table, tests)
        except TimeoutError:
            ended = "stopped early"
        print(f"{ended}: {len(table.rows)} fits")
    heading = (
        "# Completion\n\nMade by `python benchmarks/completion.py` from completion.csv and completion_tests.csv, on: "
        + (where.read_text() if where.exists() else "\n")
        + "\nThe ridge is times the number of ratings of the row or column. adm's step and the other settings of the "
        "libraries were not tuned.\n\n"
    )
    (RESULTS / "completion.md").write_text(heading + report(table, tests))


def run(chosen: argparse.Namespace, table: Lines, tests: Lines) -> None:
    """The chosen parts, until the time is over."""
    end = time.perf_counter() + 60.0 * chosen.minutes
    out_of_time = lambda: time.perf_counter() > end  # noqa: E731
    train, test = ratings()
    enmf.complete(train, 2, missing="unstored", ridge=0.1, max_iter=1, tol=1.0)  # imports
    for rank in chosen.ranks:
        names = [name for name in methods(rank) if not chosen.methods or name in chosen.methods]
        if "phases" in chosen.parts and rank == RANKS[0]:
            look_at_phases(table, train, rank, out_of_time)
        if "ridge" in chosen.parts:
            choose_ridges(table, train, rank, names, out_of_time)
        if "compare" in chosen.parts:
            compare(table, tests, train, test, rank, names, range(chosen.seeds), out_of_time)
        if "time" in chosen.parts and rank == RANKS[0]:
            time_to_error(table, train, test, rank, out_of_time)
        if "leave-one-out" in chosen.parts and rank == RANKS[0]:
            rank_one_out(table, train, test, rank, out_of_time)
        if out_of_time():
            raise TimeoutError


if __name__ == "__main__":
    main()
