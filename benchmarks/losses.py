"""Fits of other losses than squares: against scikit-learn's, among our own methods, over many runs, and their memory.

    ENMF_DATA=<folder> python benchmarks/losses.py [--parts A B C D E F] [--sets newsgroups ...] [--seeds 5] [--keep]
    ENMF_DATA=<folder> python benchmarks/losses.py --quick      # small sets, few seeds; results of its own
    python benchmarks/losses.py --show

A, B  wall time of scikit-learn's multiplicative updates (from nndsvda, tol 1e-4, at most 200 iterations) over that of a
      default fit of ours that ends at scikit-learn's final loss: for Kullback-Leibler (A) and Itakura-Saito (B).
      Medians over seeds, runs in turns; scikit-learn has one run where it takes more than AGAIN seconds. Both clocks
      are around the whole call: validation, start, measuring. The final loss is that of its factors, recomputed here:
      its own figure leaves out entries below 1.2e-7. Data are as stored (sparse stays sparse). Spectrograms of B are
      squared magnitudes plus 1e-10 of the largest, in units of that: scikit-learn cuts its model off at 1.2e-7
C     expected running time to the best loss of all runs plus 0.1 %: the time of all runs of a method from a start, each
      up to that loss or to its end, for each run that arrives. Our methods from random and from nndsvda against a
      default fit; the figure is that of the best other over ours. All runs end by the rule of a default fit. Seconds
      are those of the trace: the start counts, measuring does not. What cannot win is not run to its end:
      - default fits and e-hals from random have a run for every seed, in turns, the latter of at most TIMES times the
        best expected time so far, at least LEAST seconds;
      - every other method and start has a first run of at most WORTH times the best expected time of others so far
        (or five times ours, if that is smaller), and further seeds only if it arrives; the best in the end has all;
      - a case that has had its --minutes begins nothing new beyond SURE seeds of ours and of e-hals, and one more
        method from each start: the row names what was left out.
      So the time of a method that was cut off is a bound from below, and no such method is the best other unless none
      arrives. Where one side never arrives, the time of all its runs stands for it, and the ratio is a bound
D     the final loss of default fits above the best of all runs of C, the worst of all seeds. Runs that C cuts off
      could have ended lower: what was run to its own end is told
E     seconds of 100 consensus runs of Kullback-Leibler on signatures, rank 4
F     peak memory of a fit to IMDB counts beyond what the process had after loading, in a process of its own, over that
      of X, its transpose and 10 (n + m) r numbers

Every row is printed and written to benchmarks/results/losses.csv as soon as it is known, where it replaces the one of
an earlier run; losses-runs.csv has the runs of C, losses.md all tables. With --keep, cases that are complete in
losses-runs.csv are not run again, and scikit-learn's runs are kept in losses-sklearn.json and used again. Sets that are
not in the data folder are left out by name.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import math
import statistics
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

import enmf
from enmf.bench.data import matrix
from enmf.datasets import load
from grid import machine

RESULTS = Path(__file__).parent / "results"
THREADS = 2
KL, IS = "kullback-leibler", "itakura-saito"
METHODS = ("e-hals", "a-hals", "hals", "ccd", "sn", "mu-e", "mu")  # those that there are, most promising first
STARTS = ("random", "nndsvda")
OURS, STRONG = ("enmf", "exterior"), ("e-hals", "random")  # these have a run for every seed
AGAIN = 10.0  # seconds above which scikit-learn runs once only
TIMES, WORTH = 4.0, 1.5  # times the best expected time: of a run; of a first run that is worth further seeds
LEAST, CAP = 0.2, 120.0  # the least and the most seconds of a run of another method
SURE = 2  # seeds that also the slowest case has
ABOVE = 1.001  # the target of C, relative to the best loss of all runs
MISSES = 2  # settings of ten that may miss what is promised of most
PHASES = ("trial", "descent", "restart", "certificate")  # rows of the trace whose factors are nonnegative ones of X
RUNS = ["case", "method", "start", "seed", "limit", "seconds", "loss", "status", "arrival"]


@dataclass(frozen=True)
class Case:
    """A matrix, a rank and a loss; what A or B has to reach, and aims at."""

    name: str
    rank: int
    loss: str
    must: float = math.nan
    goal: float = math.nan

    @property
    def label(self) -> str:
        return f"{self.name} r={self.rank} {'KL' if self.loss == KL else 'IS'}"

    def data(self) -> Any:
        name, _, power = self.name.partition("-")
        if name in ("newsgroups", "imdb"):
            return load(name, weight="counts")[0]
        X = matrix(name)
        if not power:
            return X
        X = np.square(X, dtype=np.float64)
        return X / (1e-10 * X.max()) + 1.0


CASES = [
    *(Case(name, 20, KL, 20.0, 60.0) for name in ("newsgroups", "single_cell", "imdb")),
    *(Case(name, rank, KL, 10.0, 40.0) for name, rank in (("audio", 20), ("music", 20), ("mutations", 20))),
    Case("jasper_ridge", 10, KL, 10.0, 40.0),
    *(Case(name, 20, IS, 5.0, 20.0) for name in ("music-power", "audio-power")),
    Case("signatures", 4, KL),  # only in C and D
]
MORE = [Case("digits", 10, KL)]  # by name only, and never part of a claim
QUICK = ["signatures", "mutations"]
CLAIMS = ("ahead, settings", "geometric mean", "within 0.1 %, settings", "worst, percent above")


# Rows and what they promise ------------------------------------------------------------------------------------------


class Table:
    """Rows by part and case; a new one replaces the old one, in the file too."""

    columns = ("part", "case", "verdict", "value", "must", "goal", "figures")

    def __init__(self, path: Path) -> None:
        self.path = path
        kept = pd.read_csv(path).to_dict("records") if path.exists() else []
        self.rows: dict[tuple[str, str], dict[str, Any]] = {(row["part"], row["case"]): row for row in kept}

    def note(
        self, part: str, case: str, value: float, must: float, goal: float, larger: bool = True, **figures: Any
    ) -> None:
        """A row, judged; a setting of C or D that falls short is a miss, of which the claim about all allows some."""
        verdict = judge(value, must, goal, larger)
        if verdict == "FAIL" and part in "CD" and case not in CLAIMS:
            verdict = "miss"
        shown = ", ".join(f"{k} {v:.6g}" if isinstance(v, float) else f"{k} {v}" for k, v in figures.items())
        print(f"{verdict:<5} {part} {case:<26} {value:<10.4g} must {must:g}, goal {goal:g}; {shown}", flush=True)
        row = {"value": float(f"{value:.6g}"), "must": must, "goal": goal, "figures": shown}
        self.rows[part, case] = {"part": part, "case": case, "verdict": verdict, **row}
        order = sorted(self.rows.values(), key=lambda row: row["part"])
        pd.DataFrame(order, columns=list(self.columns)).to_csv(self.path, index=False, lineterminator="\n")

    def values(self, part: str) -> list[float]:
        """Of the settings that claims are about."""
        return [self.rows[part, case.label]["value"] for case in CASES if (part, case.label) in self.rows]


def judge(value: float, must: float, goal: float, larger: bool = True) -> str:
    if math.isnan(must) or math.isnan(value):
        return "-"
    sign = 1.0 if larger else -1.0
    return "goal" if sign * value >= sign * goal else "ok" if sign * value >= sign * must else "FAIL"


def claims(table: Table) -> None:
    """What C and D promise of all settings together; left open until all of them have been run."""
    ratios, above = table.values("C"), table.values("D")
    for part, found in (("C", ratios), ("D", above)):
        if 0 < len(found) < len(CASES):
            print(f"open  {part} {len(found)} of {len(CASES)} settings so far")
    most = float(len(CASES) - MISSES)
    if len(ratios) == len(CASES):
        table.note("C", CLAIMS[0], float(sum(ratio >= 1.0 for ratio in ratios)), most, len(CASES))
        table.note("C", CLAIMS[1], math.exp(statistics.fmean(map(math.log, ratios))), 1.5, 3.0)
    if len(above) == len(CASES):
        near = float(sum(share <= 0.1 for share in above))
        table.note("D", CLAIMS[2], near, most, len(CASES))
        table.note("D", CLAIMS[3], max(above), 0.5, 0.02, larger=False)


# A and B: scikit-learn ------------------------------------------------------------------------------------------------


def divergence(X: Any, U: np.ndarray, V: np.ndarray, loss: str) -> float:
    """The loss of a pair of factors, in plain NumPy and blocks of rows."""
    U, V = (np.ascontiguousarray(F, dtype=np.float64) for F in (U, V))
    block = max(1, 4_000_000 // (X.nnz // X.shape[0] * U.shape[1] + 1 if sp.issparse(X) else X.shape[1]))
    total = float(U.sum(axis=0) @ V.sum(axis=0)) if loss == KL else 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        for first in range(0, X.shape[0], block):
            part, rows = X[first : first + block], U[first : first + block]
            if sp.issparse(part):
                part = part.tocoo()
                x, model = part.data.astype(np.float64), np.einsum("ik,ik->i", rows[part.row], V[part.col])
            else:
                x, model = part.astype(np.float64).ravel(), (rows @ V.T).ravel()
            if loss == KL:
                x, model = x[x > 0], model[x > 0]
                total += float((x * np.log(x / model) - x).sum())
            else:
                ratio = x / model
                total += float((ratio - np.log(ratio) - 1.0).sum())
    return total


def warm_up(X: Any, loss: str, theirs: bool = False) -> None:
    """Whatever a first call does in a process, on a small matrix of the same kind."""
    small = np.random.default_rng(0).poisson(3.0, (60, 40)).astype(X.dtype) + (loss == IS)
    like_X = sp.csr_matrix(small) if sp.issparse(X) else small
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            enmf.factorize(like_X, 3, loss=loss, random_state=0, n_threads=THREADS)
        if theirs:
            fit_theirs(like_X, Case("", 3, loss), 0)


def fit_theirs(X: Any, case: Case, seed: int) -> dict[str, float]:
    from sklearn.decomposition import NMF

    settings: dict[str, Any] = {"solver": "mu", "beta_loss": case.loss, "init": "nndsvda", "tol": 1e-4, "max_iter": 200}
    model = NMF(case.rank, **settings, random_state=seed)
    with warnings.catch_warnings(), threadpool_limits(THREADS):
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        W = model.fit_transform(X)
        seconds = time.perf_counter() - began
    reported = float(model.reconstruction_err_) ** 2 / 2.0
    found = divergence(X, W, model.components_.T, case.loss)
    loss = found if math.isfinite(found) else reported  # it may end with a model of zero where X is not
    return {"seconds": seconds, "loss": loss, "reported": reported, "iterations": model.n_iter_}


def fit_ours(X: Any, case: Case, seed: int, target: float) -> tuple[float, enmf.Result]:
    """Wall time to the target, infinite if the fit ends above it, and the fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        error = math.sqrt(2.0 * target)
        settings: dict[str, Any] = {"loss": case.loss, "random_state": seed, "n_threads": THREADS}
        result = enmf.factorize(X, case.rank, target_error=error, **settings)
        seconds = time.perf_counter() - began
    arrived = result.status == "target_reached" or result.loss <= target
    return seconds if arrived else math.inf, result


def against_sklearn(case: Case, table: Table, seeds: int, kept: Path | None) -> None:
    X = case.data()
    known = json.loads(kept.read_text()) if kept is not None and kept.exists() else {}
    theirs: list[dict[str, float]] = known.get(case.label, [])
    warm_up(X, case.loss, theirs=True)
    ours, used, results = [], [], []
    for seed in range(seeds):
        if len(theirs) == seed and (seed == 0 or theirs[0]["seconds"] < AGAIN):
            theirs.append(fit_theirs(X, case, seed))
            if kept is not None:
                kept.write_text(json.dumps({**known, case.label: theirs}, indent=1) + "\n")
        used.append(theirs[min(seed, len(theirs) - 1)])
        seconds, result = fit_ours(X, case, seed, used[-1]["loss"])
        ours.append(seconds)
        results.append(result)
    their_seconds, our_seconds = statistics.median(run["seconds"] for run in theirs), statistics.median(ours)
    checked = divergence(X, results[0].U, results[0].V, case.loss)
    table.note(
        "A" if case.loss == KL else "B",
        case.label,
        their_seconds / our_seconds,
        case.must,
        case.goal,
        sklearn_seconds=their_seconds,
        seconds=our_seconds,
        slowest=max(ours),
        sklearn_iterations=int(used[0]["iterations"]),
        iterations=results[0].n_iter,
        sklearn_loss=used[0]["loss"],
        it_reports=used[0]["reported"],
        loss=results[0].loss,
        loss_recomputed_off=results[0].loss / checked - 1.0,
        seeds=seeds,
    )


# C and D: our own methods ---------------------------------------------------------------------------------------------


@dataclass
class Run:
    """One fit: seconds without measuring, as the trace has them, and the losses at these times."""

    method: str
    start: str
    seed: int
    limit: float
    wall: float
    seconds: np.ndarray
    losses: np.ndarray
    loss: float
    status: str

    def arrival(self, target: float) -> float:
        reached = np.flatnonzero(self.losses <= target)
        return float(self.seconds[reached[0]]) if len(reached) else math.inf

    def spent(self, target: float) -> float:
        return min(self.arrival(target), float(self.seconds[-1]))

    def row(self, case: Case, target: float = math.nan) -> dict[str, Any]:
        arrival = math.nan if math.isnan(target) else self.arrival(target)
        own = (self.method, self.start, self.seed, self.limit, float(self.seconds[-1]), self.loss, self.status)
        return dict(zip(RUNS, (case.label, *own, arrival)))


def fit(X: Any, case: Case, method: str, start: str, seed: int, limit: float) -> Run:
    """A run of another method has as many iterations as its time allows; our own is a default fit."""
    options: dict[str, Any] = {} if method == "enmf" else {"init": start, "max_iter": 10**6, "time_limit": limit}
    settings: dict[str, Any] = {"loss": case.loss, "random_state": seed, "n_threads": THREADS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        result = enmf.factorize(X, case.rank, method, **settings, **options)
        wall = time.perf_counter() - began
    rows = [row for row in result.trace if row.phase in PHASES]
    seconds = np.array([*(row.seconds for row in rows), result.trace[-1].seconds if result.trace else wall])
    losses = np.array([*(row.error**2 / 2.0 for row in rows), result.loss])
    return Run(method, start, seed, limit, wall, seconds, losses, result.loss, result.status)


def others(case: Case) -> list[str]:
    """The methods that there are for this loss."""
    small = np.random.default_rng(0).poisson(3.0, (30, 20)) + 1.0
    found = []
    for method in METHODS:
        if method not in enmf.methods(KL):
            continue
        try:
            enmf.factorize(small, 2, method, loss=case.loss, init="random", random_state=0, max_iter=1, tol=0.0)
        except ValueError as refusal:
            print(f"      C {case.label}: without {method}: {refusal}", flush=True)
        else:
            found.append(method)
    return found


class Races:
    """Runs of all methods on a case, made once; their rows are in a file of their own."""

    def __init__(self, path: Path, seeds: int, minutes: float, kept: bool) -> None:
        self.path, self.seeds, self.minutes = path, seeds, minutes
        self.table = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=RUNS)
        self.known = set(self._complete()) if kept else set()

    def _complete(self) -> list[str]:
        """Cases of an earlier call; a race that was cut off has no arrivals."""
        return [str(label) for label, of in self.table.groupby("case") if of["arrival"].notna().all()]

    def rows(self, case: Case) -> pd.DataFrame:
        """All runs of a case, with their arrivals."""
        if case.label not in self.known:
            race = Race(case, self)
            race.run()
            self.write(case, [run.row(case, race.target) for run in race.every()])
            self.known.add(case.label)
        return self.table[self.table["case"] == case.label]

    def write(self, case: Case, rows: list[dict[str, Any]]) -> None:
        """These rows take the place of those of the case."""
        rest, more = self.table[self.table["case"] != case.label], pd.DataFrame(rows, columns=RUNS)
        self.table = pd.concat([rest, more], ignore_index=True) if len(rest) else more
        self.table.to_csv(self.path, index=False, float_format="%.10g", lineterminator="\n")


class Race:
    """The runs of one case, most telling first."""

    def __init__(self, case: Case, races: Races) -> None:
        self.case, self.races = case, races
        self.X = case.data()
        self.groups: dict[tuple[str, str], list[Run]] = {}
        self.measuring = 1.0  # wall time over that of the trace, which leaves out measuring: limits are of the former
        warm_up(self.X, case.loss)
        self.ends = time.perf_counter() + 60.0 * races.minutes

    def every(self) -> list[Run]:
        return [run for of in self.groups.values() for run in of]

    @property
    def target(self) -> float:
        return ABOVE * min(run.loss for run in self.every())

    @property
    def late(self) -> bool:
        return time.perf_counter() > self.ends

    def best(self) -> tuple[tuple[str, str] | None, float]:
        """The other method with the smallest expected time, if any arrives."""
        times = {key: expected(of, self.target) for key, of in self.groups.items() if key != OURS}
        arriving = {key: seconds for key, (seconds, arrived, _) in times.items() if arrived}
        key = min(arriving, key=lambda key: arriving[key]) if arriving else None
        return key, math.inf if key is None else arriving[key]

    def limit(self, times: float) -> float:
        """Seconds of a run of another method: so many times the best time of others so far, or else five of ours."""
        ours = expected(self.groups[OURS], self.target)[0]
        return min(max(LEAST, times * min(self.best()[1], 5.0 * ours) * self.measuring), CAP)

    def add(self, key: tuple[str, str], times: float = TIMES) -> Run | None:
        """A run for the next seed, of at most so many times the best time so far."""
        of = self.groups.setdefault(key, [])
        limit = math.inf if key == OURS else self.limit(times)
        label = f"C {self.case.label}: {' '.join(key)} {len(of)}"
        try:
            run = fit(self.X, self.case, *key, len(of), limit)
        except Exception as reason:  # a method that breaks is told, and does not end the others
            print(f"FAIL  {label}: {reason!r}", flush=True)
            return None
        of.append(run)
        if run.wall > 0.1:
            self.measuring = max(self.measuring, run.wall / max(float(run.seconds[-1]), 1e-9))
        print(f"      {label}: loss {run.loss:.8g} in {run.seconds[-1]:.3g} s, {run.status}", flush=True)
        self.races.write(self.case, [run.row(self.case) for run in self.every()])
        return run

    def run(self) -> None:
        methods, left_out = others(self.case), []
        for seed in range(self.races.seeds):
            if seed < SURE or not self.late:
                for key in (OURS, STRONG):
                    self.add(key)
        for number, (method, start) in enumerate((method, start) for method in methods for start in STARTS):
            if (method, start) == STRONG:
                continue
            if self.late and number >= 2 * len(STARTS):
                left_out.append(f"{method} {start}")
                continue
            first = self.add((method, start), WORTH)
            if first is not None and first.arrival(self.target) <= self.limit(WORTH):
                self._rest((method, start))
        while (key := self.best()[0]) is not None and len(self.groups[key]) < self.races.seeds and not self.late:
            if not self._rest(key):
                break
        if left_out:
            print(f"      C {self.case.label}: no time for {', '.join(left_out)}", flush=True)

    def _rest(self, key: tuple[str, str]) -> bool:
        """Runs for the other seeds; whether all were made."""
        while len(self.groups[key]) < self.races.seeds and not self.late:
            if self.add(key) is None:
                return False
        return len(self.groups[key]) == self.races.seeds


def expected(runs: list[Run], target: float) -> tuple[float, int, int]:
    """Time of all runs for each one that arrives (for one, if none does), how many do, and of how many."""
    arrived = sum(math.isfinite(run.arrival(target)) for run in runs)
    return sum(run.spent(target) for run in runs) / max(arrived, 1), arrived, len(runs)


def expected_of(rows: pd.DataFrame) -> tuple[float, int, int]:
    """The same from rows of the table."""
    arrived = int(np.isfinite(rows["arrival"]).sum())
    return float(np.minimum(rows["arrival"], rows["seconds"]).sum()) / max(arrived, 1), arrived, len(rows)


def ahead(case: Case, table: Table, races: Races) -> None:
    rows = races.rows(case)
    times = {key: expected_of(of) for key, of in rows.groupby(["method", "start"], sort=False)}
    ours = times.pop(OURS)
    for (method, start), (seconds, arrived, count) in sorted(times.items(), key=lambda item: item[1][0]):
        shown = f"{seconds:.4g} s" if arrived else f"> {seconds:.4g} s"
        print(f"      C {case.label}: {method} {start}: {shown}, {arrived} of {count} arrive", flush=True)
    if not times:
        return
    arriving = [key for key in times if times[key][1]]
    key = min(arriving, key=lambda key: times[key][0]) if arriving else max(times, key=lambda key: times[key][2])
    best = times[key]
    # our time is too small if we never arrive, theirs if they do not: the ratio is at most or at least this
    bound = {(True, True): "", (True, False): ", at least", (False, True): ", at most"}.get((ours[1] > 0, best[1] > 0))
    missing = [f"{m} {s}" for m in others(case) for s in STARTS if (m, s) not in times]
    table.note(
        "C",
        case.label,
        best[0] / ours[0],
        1.0,
        3.0,
        best_other=" ".join(key) + (bound or ""),
        its_seconds=best[0],
        arrive=f"{best[1]}/{best[2]}",
        our_seconds=ours[0],
        ours_arrive=f"{ours[1]}/{ours[2]}",
        best_loss=float(rows["loss"].min()),
        **({"left_out": " + ".join(missing)} if missing else {}),
    )


def final_loss(case: Case, table: Table, races: Races) -> None:
    rows = races.rows(case)
    best = rows.loc[rows["loss"].idxmin()]
    above = [100.0 * (loss / best["loss"] - 1.0) for loss in rows.loc[rows["method"] == OURS[0], "loss"]]
    theirs = rows[rows["method"] != OURS[0]]
    table.note(
        "D",
        case.label,
        max(above),
        0.1,
        0.02,
        larger=False,
        unit="percent",
        median=statistics.median(above),
        best=min(above),
        fits=len(above),
        best_loss=float(best["loss"]),
        by=f"{best['method']} {best['start']}",
        others_to_their_end=f"{int((theirs['status'] != 'timeout').sum())}/{len(theirs)}",
    )


# E and F: many runs, and memory ---------------------------------------------------------------------------------------


def consensus(table: Table, runs: int) -> None:
    case = CASES[-1]
    X = case.data()
    seconds = []
    for number in range(4):  # the first one imports
        began = time.perf_counter()
        found = enmf.consensus(X, case.rank, n_runs=runs, loss=case.loss, random_state=number, n_threads=THREADS)
        seconds.append(time.perf_counter() - began)
    figures = {
        "runs": runs,
        "first": seconds[0],
        "slowest": max(seconds[1:]),
        "agreement": float(found.stability.min()),
    }
    label, must, goal = (case.label, 5.0, 1.0) if runs == 100 else (f"{case.label}, {runs} runs", math.nan, math.nan)
    table.note("E", label, statistics.median(seconds[1:]), must, goal, larger=False, **figures)


def memory(case: Case, table: Table) -> None:
    command = [sys.executable, __file__, "--worker", case.name]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    must = 1.0 if case.name == "imdb" else math.nan  # of a small matrix, what else a process allocates counts
    table.note("F", case.label, found["used"] / found["allowed"], must, must, larger=False, **found)


def work(case: Case) -> None:
    """The process of F: megabytes that a fit adds to what is there after loading."""
    X = case.data()
    warm_up(X, case.loss)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what loading has left must not serve the fit
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = _status("VmRSS")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        result = enmf.factorize(X, case.rank, loss=case.loss, random_state=0, n_threads=THREADS)
        seconds = time.perf_counter() - began
    used = _status("VmHWM") - before
    size = np.result_type(X.dtype, np.float32).itemsize if X.dtype.kind == "f" else 8
    n, m = X.shape
    if sp.issparse(X):
        copies = 2 * X.nnz * (size + X.indices.itemsize) + (n + m + 2) * X.indptr.itemsize
    else:
        copies = 2 * n * m * size
    allowed = (copies + 10 * (n + m) * case.rank * size) / 1e6
    figures = {"used": used, "allowed": allowed, "before": before, "copies": copies / 1e6, "unit": "MB"}
    print(json.dumps({**figures, "seconds": seconds, "iterations": result.n_iter}))


def _status(name: str) -> float:
    """A figure of this process, in megabytes (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) * 1.024e-3 for line in lines if line.startswith(name + ":"))


# The whole ------------------------------------------------------------------------------------------------------------


def digest(table: Table, runs: pd.DataFrame) -> str:
    """The tables as Markdown."""
    lines = ["# Fits of other losses than squares", "", "Made by `python benchmarks/losses.py` on: " + machine(), ""]
    heads = {
        "A": "Kullback-Leibler: scikit-learn's time over ours to its final loss",
        "B": "Itakura-Saito: scikit-learn's time over ours to its final loss",
        "C": "Expected running time to the best loss plus 0.1 %: the best other method over a default fit",
        "D": "Final loss of default fits above the best of all runs, in percent, worst of all seeds",
        "E": "Seconds of many consensus runs",
        "F": "Peak memory over what it may be",
    }
    for part, head in heads.items():
        rows = [row for row in table.rows.values() if row["part"] == part]
        if rows:
            lines += [
                f"## {part}. {head}",
                "",
                "| case | value | must | goal | | figures |",
                "|---|---|---|---|---|---|",
            ]
            for row in rows:
                value, must, goal = (f"{row[key]:.4g}".replace("nan", "") for key in ("value", "must", "goal"))
                lines.append(f"| {row['case']} | {value} | {must} | {goal} | {row['verdict']} | {row['figures']} |")
            lines.append("")
    if len(runs):
        lines += _expected_times(runs)
    return "\n".join(lines)


def _expected_times(runs: pd.DataFrame) -> list[str]:
    """Of every method and start; in brackets how many arrive."""

    def cell(of: pd.DataFrame) -> str:
        arrived = int(np.isfinite(of["arrival"]).sum())
        time = np.minimum(of["arrival"], of["seconds"]).sum() / max(arrived, 1)
        return f"{'' if arrived else '> '}{time:.3g} ({arrived}/{len(of)})"

    done = runs[runs["arrival"].notna()]  # runs of a race that was cut off have no target
    if done.empty:
        return []
    names = (done["method"] + " " + done["start"]).rename("method")
    keys = list(dict.fromkeys(names))
    lines = ["## Expected running times", "", "| case | " + " | ".join(keys) + " |", "|" + "---|" * (len(keys) + 1)]
    for label, of in done.groupby("case", sort=False):
        cells = {key: cell(part) for key, part in of.groupby(names.loc[of.index], sort=False)}
        lines.append(f"| {label} | " + " | ".join(cells.get(key, "") for key in keys) + " |")
    return [*lines, ""]


def main() -> None:
    every = [case.name for case in (*CASES, *MORE)]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=list("ABCDEF"), default=list("ABCDEF"))
    parser.add_argument("--sets", nargs="+", choices=every, help="settings of A, B, C, D, and of F instead of imdb")
    parser.add_argument("--seeds", type=int, help="default: 3 for A and B, 5 for C and D")
    parser.add_argument("--minutes", type=float, default=3.0, help="of a case of C, after which it begins little new")
    parser.add_argument("--quick", action="store_true", help=f"{' '.join(QUICK)}, 2 seeds, results in losses-quick")
    parser.add_argument(
        "--keep", action="store_true", help="keep and use earlier runs: scikit-learn's, complete cases of C"
    )
    parser.add_argument("--out", help="name of the files in benchmarks/results, or a path; default: losses")
    parser.add_argument("--show", action="store_true", help="print the tables there are")
    parser.add_argument("--worker", choices=every, help=argparse.SUPPRESS)
    options = parser.parse_args()
    by_name = {case.name: case for case in (*CASES, *MORE)}
    if options.worker:
        return work(by_name[options.worker])
    out = str(RESULTS / (options.out or ("losses-quick" if options.quick else "losses")))
    if options.show:
        return print(Path(out + ".md").read_text())
    names = options.sets or (QUICK if options.quick else [case.name for case in CASES])
    seeds = options.seeds or (2 if options.quick else None)
    table = Table(Path(out + ".csv"))
    races = Races(Path(out + "-runs.csv"), seeds or 5, options.minutes, options.keep)
    kept = Path(out + "-sklearn.json") if options.keep else None

    for part in options.parts:
        cases = [by_name[name] for name in names]
        if part in "AB":
            cases = [case for case in cases if case.loss == (KL if part == "A" else IS)]
            if not options.sets and not options.quick:
                cases = [case for case in cases if not math.isnan(case.must)]
        elif part == "E":
            cases = [by_name["signatures"]]
        elif part == "F":
            cases = [case for case in cases if case.loss == KL] if options.sets or options.quick else [by_name["imdb"]]
        for case in cases:
            try:
                if part in "AB":
                    against_sklearn(case, table, seeds or 3, kept)
                elif part == "C":
                    ahead(case, table, races)
                elif part == "D":
                    final_loss(case, table, races)
                elif part == "E":
                    consensus(table, 20 if options.quick else 100)
                else:
                    memory(case, table)
            except FileNotFoundError as reason:
                print(f"      {part} {case.label}: left out: {reason}", flush=True)
            except subprocess.CalledProcessError as reason:
                print(f"FAIL  {part} {case.label}: {reason}", flush=True)
            Path(out + ".md").write_text(digest(table, races.table) + "\n")
    claims(table)
    Path(out + ".md").write_text(digest(table, races.table) + "\n")
    rows = [row for row in table.rows.values() if (row["part"] not in "CD" or row["case"] in CLAIMS)]
    failed = [f"{row['part']} {row['case']}" for row in rows if row["verdict"] == "FAIL"]
    held = sum(row["verdict"] in ("ok", "goal") for row in rows)
    print(f"{held} of {held + len(failed)} hold" + "".join(f"\n  not {name}" for name in failed))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
