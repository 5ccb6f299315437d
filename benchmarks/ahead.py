"""How far eNMF is ahead: expected times to the same error, default fits, seeds, ends, certificates.

    ENMF_DATA=<folder> python benchmarks/ahead.py [race] [fits] [ends] [synthetic] [--sets verb ...] [--quick]
    python benchmarks/ahead.py --show

race       Expected running time to the best error of all runs plus 0.1 %: the time of all runs of a method from a kind
           of start, each up to that error or to its own end, over the number of runs that arrive; five seeds each, for
           eNMF as for the opponents. Opponents are all methods of ours from random, nndsvd and nndsvda, and
           scikit-learn's cd from the same starts. All runs end by the same rule, that of a default fit, or after LIMIT
           times the best expected time so far. Those whose first run misses, or takes more than AGAIN times the best,
           have no further seeds. Seconds are those of the trace: the start counts, measuring does not.
fits       Wall-clock of ENMF(r).fit(X) and NMF(r).fit(X), both with their defaults, in turns, medians over seeds; their
           errors; the time in which ours arrives at the error of theirs; errors of all seeds above the best known; the
           share of the certificate.
ends       A default fit against the same start run to tol=1e-8, and what its certificate expects to be left.
synthetic  race on the dense synthetic data of the paper, against e-hals and a-hals from nndsvd and random.

CHOSEN settings are those on which constants were chosen, KEPT ones took no part in it; both figures are printed.
Results are benchmarks/results/ahead-<part>.csv; a setting replaces its earlier rows. ahead.md is made from them.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

import enmf
from enmf import parallel
from enmf.bench import Setting
from enmf.bench.data import matrix
from enmf.bench.protocols import Case, Goal, run_outside, warm_up
from enmf.datasets import load
from enmf.problem.validation.arrays import check_problem
from grid import machine

RESULTS = Path(__file__).parent / "results"
THREADS = 2
SEEDS = 5
ABOVE = 1.001  # the target, relative to the best error of all runs
LIMIT, AGAIN = 4.0, 2.0  # times the best expected time: of a run; of a first run that is worth further seeds
LONGEST = 8.0  # seconds of any run
CHOSEN = {
    "verb": 20, "newsgroups": 20, "press-counts": 50, "imdb-counts": 20, "face": 10, "faces": 49, "digits": 20,
    "hyperspectral": 10, "audio": 20, "single_cell": 20, "mutations": 20, "birds": 10, "air_quality": 8,
}  # fmt: skip
KEPT = {
    "press": 50, "imdb": 20, "newsgroups-counts": 20, "olivetti": 25, "coil20": 20, "swimmer": 17, "jasper_ridge": 10,
    "music": 20, "audio_waveform": 20, "neurons": 20, "signatures": 4, "friends": 30,
}  # fmt: skip
SYNTHETIC = {f"synthetic-{snr}-5000": (50, 200, 500) for snr in (60, 100)}
STRONG = ("e-hals", "a-hals")  # have all seeds from random: the best of them sets the limit of the others
STARTS = ("random", "nndsvd", "nndsvda")
PHASES = ("svd", "trial", "descent", "restart", "certificate")  # of nonnegative factors of X


def data(name: str) -> Any:
    plain = name.removesuffix("-counts")
    return matrix(name) if plain == name else load(plain, weight="counts")[0]


@dataclass
class Run:
    """One fit: errors against seconds."""

    method: str
    start: str
    seed: int
    seconds: np.ndarray
    errors: np.ndarray
    status: str

    def arrival(self, target: float) -> float:
        reached = np.flatnonzero(self.errors <= target)
        return float(self.seconds[reached[0]]) if len(reached) else math.inf

    def spent(self, target: float) -> float:
        return min(self.arrival(target), float(self.seconds[-1]))

    @property
    def error(self) -> float:
        """Of the result, to all digits; those of the trace are rounded where X is in single precision."""
        return float(self.errors[-1])


def fit(X: Any, rank: int, method: str, start: str, seed: int, limit: float | None = None, **options: Any) -> Run:
    if method != "enmf":
        options = {"init": start, "max_iter": 10**6, **options}
    settings: dict[str, Any] = {"random_state": seed, "n_threads": THREADS, "time_limit": limit, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = enmf.factorize(X, rank, method, bound=False, **settings)
    rows = [row for row in result.trace if row.phase in PHASES] or result.trace[-1:]
    seconds = np.array([*(row.seconds for row in rows), result.trace[-1].seconds])
    errors = np.array([*(row.error for row in rows), result.error])
    return Run(method, start, seed, seconds, np.where(np.isfinite(errors), errors, math.inf), result.status)


def expected(runs: Iterable[Run], target: float) -> float:
    """The time of all runs, for each that arrives."""
    runs = list(runs)
    arrived = sum(math.isfinite(run.arrival(target)) for run in runs)
    return sum(run.spent(target) for run in runs) / arrived if arrived else math.inf


class Race:
    """All runs on one matrix."""

    def __init__(self, name: str, rank: int, methods: tuple[str, ...], starts: tuple[str, ...], seeds: int) -> None:
        self.name, self.rank, self.methods, self.starts, self.seeds = name, rank, methods, starts, seeds
        self.X = data(name)
        self.problem = check_problem(self.X)
        self.groups: dict[tuple[str, str], list[Run]] = {}

    @property
    def target(self) -> float:
        return ABOVE * min(run.error for of in self.groups.values() for run in of)

    def add(self, method: str, start: str, seed: int, limit: float | None = None) -> Run:
        run = fit(self.X, self.rank, method, start, seed, limit)
        self.groups.setdefault((method, start), []).append(run)
        return run

    def best(self) -> tuple[tuple[str, str], float]:
        """The opponent with the smallest expected time."""
        target = self.target
        times = {key: expected(of, target) for key, of in self.groups.items() if key[0] != "enmf"}
        key = min(times, key=lambda key: times[key])
        return key, times[key]

    def limit(self, times: float) -> float:
        """Of the best time so far, or, where no opponent arrives, of eNMF's."""
        ours = expected(self.groups["enmf", "exterior"], self.target)
        known = [time for time in (self.best()[1], 5.0 * ours) if math.isfinite(time)]
        return min(LONGEST, max(0.02, times * min(known))) if known else LONGEST

    def run(self) -> None:
        with parallel.limit(THREADS):
            warm_up(self.problem, Setting(self.name, self.X, self.rank, self.methods, self.starts, threads=THREADS))
        for seed in range(self.seeds):  # in turns: whatever else the machine does meets everybody
            self.add("enmf", "exterior", seed)
            for method in STRONG:
                self.add(method, "random", seed, LONGEST if method == "e-hals" else self.limit(LIMIT))
        others = [(m, s) for m in self.methods for s in self.starts if (m, s) not in self.groups]
        for method, start in others:
            first = self.add(method, start, 0, self.limit(LIMIT))
            if first.arrival(self.target) <= self.limit(AGAIN):
                for seed in range(1, self.seeds):
                    self.add(method, start, seed, self.limit(LIMIT))

    def run_cd(self) -> None:
        """scikit-learn's coordinate descent, in chunks that grow."""
        setting = Setting(self.name, self.X, self.rank, ("sklearn-cd",), self.starts, threads=THREADS)
        for start in self.starts:
            for seed in range(self.seeds):
                goal = Goal(self.limit(LIMIT), self.target)
                with parallel.limit(THREADS):
                    found = run_outside(self.problem, setting, Case("sklearn-cd", f"{start}-{seed}"), goal)
                times, errors = np.array([found.seconds]), np.array([found.error])
                run = Run("sklearn-cd", start, seed, times, errors, found.status)
                self.groups.setdefault(("sklearn-cd", start), []).append(run)
                if seed == 0 and not run.arrival(self.target) <= self.limit(AGAIN):
                    break

    def rows(self) -> list[dict[str, Any]]:
        target = self.target
        made = []
        for (method, start), of in self.groups.items():
            above = sorted(run.error / (target / ABOVE) - 1.0 for run in of)
            made.append(
                {
                    "data": self.name,
                    "rank": self.rank,
                    "method": method,
                    "start": start,
                    "expected": expected(of, target),
                    "arrive": sum(math.isfinite(run.arrival(target)) for run in of),
                    "runs": len(of),
                    "seconds": statistics.median(float(run.seconds[-1]) for run in of),
                    "above": statistics.median(above),
                    "worst": above[-1],
                    "best": target / ABOVE,
                }
            )
        return made

    def report(self) -> None:
        rows = self.rows()
        ours = rows[0]["expected"]
        print(f"{self.name} r={self.rank}: {self.best()[1] / ours:.2f}", flush=True)
        for row in sorted(rows, key=lambda row: (row["method"] != "enmf", row["expected"]))[:5]:
            print(
                f"  {row['method']:<10} {row['start']:<9} {row['expected']:8.3f} s, "
                f"ratio {row['expected'] / ours:6.2f}, {row['arrive']} of {row['runs']} arrive, "
                f"end after {row['seconds']:.3f} s +{row['above']:.4%} (worst +{row['worst']:.4%})",
                flush=True,
            )


def race(sets: dict[str, int], seeds: int, quick: bool) -> None:
    methods = ("e-hals", "a-hals", "nenmf") if quick else tuple(m for m in enmf.methods() if m != "enmf")
    for name, rank in sets.items():
        contest = Race(name, rank, (*STRONG, *(m for m in methods if m not in STRONG)), STARTS, seeds)
        contest.run()
        if not quick:
            contest.run_cd()
        contest.report()
        write("race", contest.rows())


def synthetic(seeds: int) -> None:
    for name, ranks in SYNTHETIC.items():
        for rank in ranks:
            contest = Race(name, rank, STRONG, ("random", "nndsvd"), min(seeds, 3))
            contest.run()
            contest.report()
            write("synthetic", contest.rows())


def fits(sets: dict[str, int], seeds: int) -> None:
    for name, rank in sets.items():
        X = data(name)
        row = _fits(X, name, rank, seeds)
        print(
            f"{name:<18} {row['seconds']:7.3f} s, NMF {row['their seconds']:7.3f} s: ratio {row['ratio']:6.2f}; "
            f"its error {row['their error'] / row['error'] - 1.0:+.3%}, reached in {row['to their error']:.3f} s; "
            f"seeds {row['largest'] / row['smallest'] - 1.0:.4%} apart; certificate {row['certificate']:.1%}",
            flush=True,
        )
        write("fits", [row])


def _fits(X: Any, name: str, rank: int, seeds: int) -> dict[str, Any]:
    from sklearn.decomposition import NMF

    ours, theirs, to_theirs, errors, their_errors, shares = [], [], [], [], [], []
    with warnings.catch_warnings(), threadpool_limits(THREADS):
        warnings.simplefilter("ignore")
        enmf.ENMF(2, max_iter=20).fit(X[:60])
        NMF(2, max_iter=20).fit(X[:60])
        for seed in range(seeds):
            model, seconds = _timed(enmf.ENMF(rank, random_state=seed, n_threads=THREADS), X)
            ours.append(seconds)
            errors.append(model.reconstruction_err_)
            spent = {key: phase.seconds for key, phase in model.phases_.items()}
            shares.append(spent.get("certificate", 0.0) / sum(spent.values()))
            if not theirs or theirs[0] < 10.0:
                their_model, seconds = _timed(NMF(rank, random_state=seed), X)
                theirs.append(seconds)
                their_errors.append(their_model.reconstruction_err_)
            target = statistics.median(their_errors)
            began = time.perf_counter()
            result = enmf.factorize(X, rank, random_state=seed, n_threads=THREADS, target_error=target, bound=False)
            to_theirs.append(time.perf_counter() - began if result.error <= target else math.inf)
    return {
        "data": name,
        "rank": rank,
        "seconds": statistics.median(ours),
        "their seconds": statistics.median(theirs),
        "ratio": statistics.median(theirs) / statistics.median(ours),
        "error": statistics.median(errors),
        "smallest": min(errors),
        "largest": max(errors),
        "their error": statistics.median(their_errors),
        "to their error": statistics.median(to_theirs),
        "certificate": statistics.median(shares),
    }


def _timed(model: Any, X: Any) -> tuple[Any, float]:
    began = time.perf_counter()
    model.fit(X)
    return model, time.perf_counter() - began


def ends(sets: dict[str, int]) -> None:
    for name, rank in sets.items():
        X = data(name)
        settings: dict[str, Any] = {"random_state": 0, "n_threads": THREADS, "bound": False, "restarts": 0}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            usual = enmf.factorize(X, rank, **settings)
            longest = 100_000 if min(X.shape) < 1500 else 5_000
            end = enmf.factorize(X, rank, tol=1e-8, max_iter=longest, time_limit=LONGEST, **settings)
        left = usual.certificate.left
        above = usual.error / end.error - 1.0
        row = {"data": name, "rank": rank, "above": above, "left": left, "status": usual.status, "end": end.status}
        row |= {"iterations": usual.n_iter, "of the end": end.n_iter}
        took = f"{usual.n_iter} of {end.n_iter}, {end.status}"
        print(f"{name:<18} {above:.4%} above, says {left:.4%}; {took}", flush=True)
        write("ends", [row])


# Tables ---------------------------------------------------------------------------------------------------------------


def read(part: str) -> pd.DataFrame:
    path = RESULTS / f"ahead-{part}.csv"
    return pd.read_csv(path) if path.exists() else pd.DataFrame()


def write(part: str, rows: list[dict[str, Any]]) -> None:
    """The rows of one setting take the place of earlier ones."""
    table, new = read(part), pd.DataFrame(rows)
    if len(table):
        same = (table["data"] == new["data"][0]) & (table["rank"] == new["rank"][0])
        new = pd.concat([table[~same], new], ignore_index=True)
    new.to_csv(RESULTS / f"ahead-{part}.csv", index=False, float_format="%.8g", lineterminator="\n")


def mean(ratios: Iterable[float]) -> float:
    return math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))


def _races(table: pd.DataFrame) -> pd.DataFrame:
    """One row per setting: eNMF, the best opponent, scikit-learn's cd."""
    made = []
    for (name, rank), of in table.groupby(["data", "rank"], sort=False):
        ours = of[of["method"] == "enmf"].iloc[0]
        others = of[~of["method"].isin(("enmf",))]
        best = others.loc[others["expected"].idxmin()]
        cd = others.loc[others["method"] == "sklearn-cd", "expected"].min()
        row = {"data": name, "rank": rank, "ours": ours, "best": best, "ratio": best["expected"] / ours["expected"]}
        made.append({**row, "cd": cd / ours["expected"], "lost": math.isinf(ours["expected"])})
    return pd.DataFrame(made)


def _race_lines(part: str) -> list[str]:
    table = read(part)
    if table.empty:
        return []
    races = _races(table)
    lines = [
        "| data, rank | eNMF: expected seconds (arrive), worst seed above the best | best opponent | ratio |",
        "|---|---|---|---|",
    ]
    for row in races.itertuples():
        ours, best = row.ours, row.best
        lines.append(
            f"| {row.data}, {row.rank} | {ours['expected']:.3g} ({ours['arrive']:.0f}/{ours['runs']:.0f}), "
            f"+{ours['worst']:.3%} | {best['method']} from {best['start']} ({best['arrive']:.0f}/{best['runs']:.0f}) "
            f"| {row.ratio:.2f} |"
        )
    runs, methods = int(races["ours"].map(lambda ours: ours["runs"]).min()), sorted(set(table["method"]) - {"enmf"})
    lines += ["", f"At least {runs} seeds each, against {', '.join(methods)}.", ""]
    for label, names in (("all", set(races["data"])), ("chosen", set(CHOSEN)), ("kept", set(KEPT))):
        ratios = races.loc[races["data"].isin(names), "ratio"]
        finite = [ratio for ratio in ratios if 0.0 < ratio < math.inf]
        missed = races.loc[races["data"].isin(names) & races["lost"], "data"]
        if finite:
            lines.append(
                f"- {label}: geometric mean {mean(finite):.2f} over {len(finite)} settings, at least 1 on "
                f"{sum(ratio >= 1.0 for ratio in ratios)} of {len(ratios)}, smallest {min(finite):.2f}; "
                f"eNMF never arrives on: {', '.join(missed) or 'none'}"
            )
    return [*lines, ""]


def _fit_lines() -> list[str]:
    table, races = read("fits"), read("race")
    if table.empty:
        return []
    known = dict(zip(zip(races["data"], races["rank"]), races["best"])) if len(races) else {}
    lines = [
        "| data, rank | ENMF, s | NMF, s | ratio | NMF's error above ours | ours at its error, s | "
        "above the best known: median, worst seed | certificate |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in table.to_dict("records"):
        best = min(known.get((row["data"], row["rank"]), math.inf), row["smallest"])
        lines.append(
            f"| {row['data']}, {row['rank']} | {row['seconds']:.3f} | {row['their seconds']:.3f} | "
            f"{row['ratio']:.2f} | {row['their error'] / row['error'] - 1.0:+.2%} | {row['to their error']:.3f} | "
            f"{row['error'] / best - 1.0:.3%}, {row['largest'] / best - 1.0:.3%} | {row['certificate']:.1%} |"
        )
    return [*lines, "", f"Geometric mean of the ratios: {mean(table['ratio']):.2f}", ""]


def _end_lines() -> list[str]:
    table = read("ends")
    if table.empty:
        return []
    lines = ["| data, rank | above its own end | the certificate says | iterations, of the end |", "|---|---|---|---|"]
    for row in table.to_dict("records"):
        lines.append(
            f"| {row['data']}, {row['rank']} | {row['above']:.4%} | {row['left']:.4%} | {row['iterations']}, "
            f"{row['of the end']} ({row['end']}) |"
        )
    return [*lines, ""]


def digest() -> str:
    lines = ["# How far eNMF is ahead", "", "Made by `python benchmarks/ahead.py` on: " + machine(), ""]
    for title, part in (
        ("Expected time to the best error of all runs plus 0.1 %", _race_lines("race")),
        ("The same on the paper's synthetic data", _race_lines("synthetic")),
        ("Default fits, ENMF(r).fit and NMF(r).fit", _fit_lines()),
        ("Default fits against the same start run to the end", _end_lines()),
    ):
        lines += [f"## {title}", "", *part] if part else []
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = {**CHOSEN, **KEPT}
    parser.add_argument("parts", nargs="*", help="race, fits, ends, synthetic; default: all")
    parser.add_argument("--sets", nargs="+", choices=list(every))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--quick", action="store_true", help="race against e-hals, a-hals and nenmf only")
    parser.add_argument("--show", action="store_true", help="print the tables there are")
    options = parser.parse_args()
    sets = {name: every[name] for name in options.sets or every}
    parts = options.parts or ["race", "fits", "ends", "synthetic"]
    if not options.show:
        if "race" in parts:
            race(sets, options.seeds, options.quick)
        if "fits" in parts:
            fits(sets, options.seeds)
        if "ends" in parts:
            ends(sets)
        if "synthetic" in parts:
            synthetic(options.seeds)
        (RESULTS / "ahead.md").write_text(digest() + "\n")
    print((RESULTS / "ahead.md").read_text())


if __name__ == "__main__":
    main()
