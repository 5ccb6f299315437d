"""From tidy rows to tables for a reader: ours, the paper's figure in brackets, and the bound where there is one."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from statistics import mean, stdev
from typing import Any, NamedTuple

import pandas as pd
from scipy.stats import ttest_rel

from paper.ablation import FIXED_STEP, RANDOMIZED, SIXTH, STRATEGIES
from paper.case import Row
from paper.complexity import FORMULA, slope
from paper.published import figure, figures, said
from paper.runs import LETTER, OPPONENTS
from paper.tidy import Rows, each, pick

ALL = ("enmf", LETTER, *OPPONENTS)
STATIONARY = ("converged", "exact", "global_optimum")
OF_PAPER = {"audio_waveform": "audio", "imdb": "rcv1", "generated": "rcv1"}


class View(NamedTuple):
    caption: str
    heads: tuple[str, ...]
    rows: list[tuple[Any, ...]]


def in_paper(data: str, rank: int) -> tuple[str, int]:
    """Name and rank in the paper's tables: a small synthetic set stands for the one with the same rank / inner rank."""
    if data.startswith("synthetic-"):
        _, snr, side = data.split("-")
        return f"synthetic-{snr}", round(rank * 5000 / int(side))
    return OF_PAPER.get(data, data), rank


def fmt(value: float, digits: int = 4) -> str:
    return "" if math.isnan(value) else f"{value:.{digits}g}"


def beside(ours: str, paper: float, digits: int = 4) -> str:
    return ours if math.isnan(paper) else f"{ours} ({fmt(paper, digits)})"


def settings(rows: Rows) -> list[tuple[str, int]]:
    return list(rows[["data", "rank"]].drop_duplicates().itertuples(index=False, name=None))


def pivot(rows: Rows, methods: Iterable[str], cell: Callable[[Row], str], caption: str) -> View:
    """A line for each data set and rank, a column for each method."""
    names = [name for name in methods if name in set(rows["method"])]
    lines = []
    for data, rank in settings(rows):
        of = {row["method"]: row for row in each(pick(rows, data=data, rank=rank))}
        lines.append((data, rank, *(cell(of[name]) if name in of else "" for name in names)))
    return View(caption, ("data", "r", *names), lines)


def plain(rows: Rows, columns: Iterable[str], caption: str) -> View:
    names = [name for name in columns if name in rows and rows[name].notna().any()]
    return View(caption, tuple(names), [tuple(map(_cell, row)) for row in rows[names].itertuples(index=False)])


def _cell(value: Any) -> Any:
    """Nothing where there is nothing, and whole numbers as such."""
    if not isinstance(value, float):
        return value
    return "" if math.isnan(value) else int(value) if value.is_integer() and abs(value) < 1e9 else value


def contest(rows: Rows, times: str, errors: str) -> list[View]:
    """Both protocols. `times` and `errors` are the paper's tables; errors are shown over the bound where the paper has
    them so (table 3)."""
    methods = (*ALL, "anls-bpp")
    of_time, of_error = pick(rows, protocol="equal-time"), pick(rows, protocol="equal-error")
    quantity = "ratio" if errors == "Table 3" else "error"

    def error(row: Row) -> str:
        data, rank = in_paper(row["data"], row["rank"])
        ours = f"{row['ratio']:.5f}" if quantity == "ratio" else fmt(row["error"], 6)
        return beside(ours, figure(errors, data, rank, row["method"], quantity), 6)

    def seconds(row: Row) -> str:
        data, rank = in_paper(row["data"], row["rank"])
        table = "ANLS-BPP" if row["method"] == "anls-bpp" else times
        paper = figure(table, data, rank, row["method"]) / figure(table, data, rank, "enmf")
        there = arrived(row) or row["method"] == "enmf"
        return beside(("" if there else "> ") + fmt(row["time_ratio"], 3), paper, 3)

    starts = of_time.groupby(["data", "rank"], as_index=False)["starts"].max()
    ours = pick(of_time, method="enmf").drop(columns="starts").merge(starts)
    columns = ("data", "rank", "status", "seconds", "error", "bound", "ratio", "kkt", "starts", "patience", "threads")
    what = "error / bound" if quantity == "ratio" else "error"
    views = [
        plain(ours, columns, "eNMF: end, seconds, error against the bound (`starts`: how many each opponent had)"),
        pivot(of_time, methods, error, f"Equal time: {what} of the best start (paper)"),
        pivot(of_time, methods, lambda row: f"{row['status']}, {fmt(row['kkt'], 2)}", "Equal time: status, kkt"),
        pivot(of_error, methods, seconds, "Equal error: time over eNMF's; >: given up or converged above (paper)"),
    ]
    if quantity == "error":
        views.insert(2, pivot(of_time, methods, lambda row: f"{row['ratio']:.5f}", "Equal time: error / bound"))
    return views


def bounds(rows: Rows) -> list[View]:
    lines = []
    for row in each(rows):
        ours, best = paper_errors(row["data"], row["rank"])
        verdict = "below the bound" if below_bound(row) else "possible"
        lines.append((row["data"], row["rank"], row["bound"], ours, best, verdict))
    heads = ("data", "r", "bound", "paper, eNMF", "paper, best opponent", "the paper's eNMF error is")
    return [View("Bound and printed errors", heads, lines)]


def paper_errors(data: str, rank: int) -> tuple[float, float]:
    """The paper's error of eNMF and of its best opponent (table 4)."""
    return figure("Table 4", data, rank, "enmf"), min(figure("Table 4", data, rank, name) for name in OPPONENTS)


def below(printed: float, row: Row) -> bool:
    """Whether a printed error is below the bound by more than half of its last digit."""
    return printed + 0.005 < row["bound"]


def below_bound(row: Row) -> bool:
    """The same of the paper's error of eNMF."""
    return below(paper_errors(row["data"], row["rank"])[0], row)


def arrived(row: Row) -> bool:
    """At equal error: whether the run has eNMF's error."""
    return row["status"] in ("target_reached", "exact", "global_optimum")


def rotation(rows: Rows) -> list[View]:
    columns = (
        *("data", "rank", "point", "status", "ratio", "negative_entries", "negative_mass"),
        *("rotation_iterations", "error", "bound", "kkt", "seconds"),
    )
    return [plain(rows, columns, "Three points of one SVD, and the whole method")]


def convergence(rows: Rows) -> list[View]:
    some = [pick(rows, method=name) for name in ALL]
    ends = rows.loc[[one["seconds"].idxmax() for one in some if len(one)]]
    return [plain(ends, ("method", "status", "seconds", "iteration", "ratio", "kkt"), "Where each ends")]


def quartet(row: Row, table: str) -> str:
    shares = ", ".join(fmt(row[name]) for name in ("share_U", "share_V"))
    ours = f"{shares}, {fmt(row['error_difference'], 2)}, {row['verdict']}"
    data, rank = in_paper(row["data"], row["rank"])
    paper = figures(table, data=data, rank=rank, method=row["method"])
    paper = paper.drop_duplicates("quantity", keep="last")  # the paper prints table 11 twice, not quite the same
    return f"{ours} ({', '.join(paper['value'])})" if len(paper) else ours


def exact(rows: Rows) -> list[View]:
    return [
        pivot(rows, ALL, lambda row: fmt(row["relative_error"], 2), "Relative error ||X - UVᵀ|| / ||X||"),
        pivot(rows, ALL, lambda row: quartet(row, "Table 11"), "u %, v %, e_d, e_m against the true factors (paper)"),
        pivot(rows, ALL, lambda row: f"{row['status']}, {fmt(row['kkt'], 2)}", "Status, kkt"),
    ]


def orthant(rows: Rows) -> list[View]:
    columns = ("n", "m", "rank", "sparsity", "kind", "distance", "relative_distance", "iterations", "seconds")
    return [plain(rows, columns, "Distance from the orthant")]


def phases(rows: Rows) -> list[View]:
    lines, orthogonal = [], []
    for row in each(rows):
        name = (row["data"], row["rank"], row["method"])
        lines.append((*name, row["status"], row["seconds"], *_shares(row), *_ends(row)))
        measured = _of_paper("orthogonality", row)
        orthogonal.append(
            (
                *name,
                beside(fmt(row["orthogonality"], 2), measured.get("orthogonality", math.nan), 2),
                beside(f"{row['rotation_iterations']:g}", measured.get("iterations", math.nan)),
                row["negative_mass"],
            )
        )
    heads = ("data", "r", "method", "status", "seconds", "svd %", "rotation %", "feasibility + descent %")
    return [
        View("Share of the time (paper)", (*heads, "error", "error / bound", "kkt"), lines),
        View(
            "Rotation: ||RᵀR - I||² (paper), iterations (paper), negative mass left",
            ("data", "r", "method", "orthogonality", "iterations", "negative mass"),
            orthogonal,
        ),
    ]


def _of_paper(table: str, row: Row) -> dict[str, float]:
    """What the paper's table says of a setting, by quantity."""
    data, rank = in_paper(row["data"], row["rank"])
    kind = "synthetic" if data.startswith("synthetic") else "real"
    found = figures(f"{table}, {kind}", data=data, rank=rank)
    return dict(zip(found["quantity"], found["number"]))


def _shares(row: Row) -> list[str]:
    """Percent of the time in each phase, as the paper divides it."""
    total, paper = row["before_descent"] + row["descent_seconds"], _of_paper("phases", row)
    shares = {
        "svd": row["svd_seconds"],
        "rotation": row["rotation_seconds"],
        "feasibility+descent": row["feasibility_seconds"] + row["descent_seconds"],
    }
    return [
        beside(fmt(100 * value / total, 3), 100 * paper[name] / paper["total"] if paper else math.nan, 3)
        for name, value in shares.items()
    ]


def _ends(row: Row) -> tuple[float, float, float]:
    return row["error"], row["ratio"], row["kkt"]


def feasible(rows: Rows) -> list[View]:
    most = said("first_feasible").high
    columns = ("data", "rank", "status", "feasible_error", "final_error", "increase", "bound", "kkt")
    return [
        plain(rows, columns, f"Error at the first feasible point over the final one, minus one (paper: up to {most})")
    ]


def minima(rows: Rows) -> list[View]:
    def both(row: Row) -> str:
        data, rank = in_paper(row["data"], row["rank"])
        a, b = (figure("Table 10", data, rank, row["method"], name) for name in ("kkt_max", "kkt_sum"))
        ours = f"{fmt(row['kkt_max'], 2)}, {fmt(row['kkt_sum'], 2)}"
        return ours if math.isnan(a) else f"{ours} ({fmt(a)}, {fmt(b)})"

    def related(row: Row) -> str:
        return quartet(row, "Table 13" if row["data"].startswith("synthetic") else "Table 12")

    others = rows[rows["method"] != "enmf"]
    return [
        pivot(rows, ALL, lambda row: f"{row['status']}, {fmt(row['kkt'], 2)}", "Status, kkt (scale-free)"),
        pivot(rows, ALL, both, "delta, sigma (paper)"),
        pivot(rows, ALL, lambda row: f"{row['ratio']:.5f}", "Error / bound"),
        pivot(others, ALL, related, "u %, v %, e_d, e_m against eNMF (paper)"),
        _verdicts(others),
    ]


def _verdicts(rows: Rows) -> View:
    """How many settings end in E, TE and NE, by method, beside the paper's tables 12 and 13."""
    printed = pd.concat([figures("Table 12"), figures("Table 13")])
    lines = []
    for name in ALL:
        of = pick(rows, method=name)
        paper = pick(printed, method=name)["value"].tolist()
        if len(of):
            found = counts(of)
            cells = [beside(str(found[word]), paper.count(word) if paper else math.nan) for word in ("E", "TE", "NE")]
            lines.append((name, *cells, found["NE, stationary"]))
    return View("Settings with E, TE and NE against eNMF (paper)", ("method", "E", "TE", "NE", "NE, stationary"), lines)


def counts(rows: Rows) -> dict[str, int]:
    """How many runs are E, TE and NE, and how many of the latter are stationary points."""
    found = {name: len(pick(rows, verdict=name)) for name in ("E", "TE", "NE")}
    other = pick(rows, verdict="NE")
    return {**found, "NE, stationary": int(other["status"].isin(STATIONARY).sum()) if len(other) else 0}


def relation(rows: Rows) -> list[View]:
    range_ = said("scaled_rotation")
    columns = (
        *("data", "rank", "status", "error_ratio", "ratio", "kkt", "R1_from_identity"),
        *("delta_u_rotation", "delta_v_rotation", "delta_u_general", "delta_v_general", "relation"),
    )
    return [
        plain(rows, columns, f"AO-ADMM's factors from eNMF's (paper: delta {range_.low} to {range_.high} with R1 = I)")
    ]


def tending(rows: Rows) -> list[View]:
    columns = ("data", "rank", "start", "iteration", "error_difference", "share_U", "share_V", "kkt")
    return [plain(rows, columns, "Along the run of AO-ADMM")]


def spread(values: list[float], digits: int = 1) -> str:
    """Mean and standard deviation, where there is one."""
    return f"{mean(values):.{digits}f}" + (f" ± {stdev(values):.{digits}f}" if len(values) > 1 else "")


def scores(rows: Rows, rank: int, method: str, quantity: str = "accuracy", by: str = "split") -> list[float]:
    """One number per split, in order."""
    return pick(rows, rank=rank, method=method).sort_values(by, kind="stable")[quantity].tolist()


def paired(ours: list[float], other: list[float]) -> float:
    """p of the two-sided paired t-test."""
    if len(ours) != len(other) or len(ours) < 2 or ours == other:
        return math.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nearly equal differences
        return float(ttest_rel(ours, other).pvalue)


def accuracies(rows: Rows, table: str, names: Iterable[str], first: str) -> View:
    """Mean and deviation over the splits, the paper's, and p of the paired t-test against the first method."""
    lines: list[tuple[Any, ...]] = []
    for rank in rows["rank"].unique().tolist():
        reference = scores(rows, rank, first)
        for name in names:
            of = pick(rows, rank=rank, method=name)
            if of.empty:
                continue
            values = scores(rows, rank, name)
            paper = each(figures(table, data=of["data"].iloc[0], rank=rank, method=name))
            lines.append(
                (
                    *(rank, name, spread(values), f"{paper[0]['value']} ± {paper[0]['spread']}" if paper else ""),
                    fmt(paired(reference, values), 2) if name != first else "",
                    *(mean(of[quantity]) for quantity in ("ratio", "kkt", "seconds")),
                    ", ".join(sorted(of["status"].unique())),
                )
            )
    heads = ("r", "method", "accuracy %", "paper", "p against " + first, "error / bound", "kkt", "seconds", "status")
    return View("Accuracy on the test rows, mean ± standard deviation over splits", heads, lines)


def post_rotation(rows: Rows) -> list[View]:
    return [
        accuracies(pick(rows, protocol=protocol), f"post-rotation, {protocol}", STRATEGIES, STRATEGIES[0])._replace(
            caption=f"{protocol.capitalize()}: accuracy on the test rows"
        )
        for protocol in ("equal time", "equal error")
        if len(pick(rows, protocol=protocol))
    ]


def completion(rows: Rows) -> list[View]:
    lines: list[tuple[Any, ...]] = []
    for rank in rows["rank"].unique().tolist():
        ours = scores(rows, rank, "enmc", "rmse", "seed")
        for name in ("enmc", "masked-mu", "masked-scd", "adm"):
            of = pick(rows, rank=rank, method=name)
            if of.empty:
                continue
            cells = [
                beside(spread(of[quantity].tolist(), 3), figure(table, "movielens_1m", rank, name, quantity))
                for quantity, table in (("rmse", "Table 7"), ("ndcg", "Table 8"), ("recall", "Table 8"))
            ]
            p = paired(ours, scores(rows, rank, name, "rmse", "seed")) if name != "enmc" else math.nan
            one = each(of)[0]
            lines.append(
                (
                    *(rank, name, f"{one['ridge']:g}", *cells, mean(of["train_error"]), fmt(p, 2)),
                    *(fmt(of["p_ndcg"].max(), 2), mean(of["seconds"]), one["status"], mean(of["kkt"])),
                )
            )
    heads = (
        *("r", "method", "ridge", "RMSE (paper, 1M)", "NDCG@10 (paper)", "Recall@10 (paper)", "training error"),
        *("p RMSE", "p NDCG, worst seed", "seconds", "status", "kkt"),
    )
    return [View(f"{rows['data'].iloc[0]}: mean ± standard deviation over five seeds", heads, lines)]


def ablation(rows: Rows) -> list[View]:
    def seconds(row: Row) -> str:
        data, rank = in_paper(row["data"], row["rank"])
        table, first, name = {
            FIXED_STEP: ("ablation, step size", "optimal step", "fixed step"),
            RANDOMIZED: ("ablation, SVD", "exact SVD", "randomized SVD"),
        }.get(row["method"], ("ablation, projection, equal error", STRATEGIES[0], row["method"]))
        low = figure(table, data, rank, first)
        paper = figure(table, data, rank, name) / low if low > 0 else math.nan
        there = arrived(row) or row["method"] == STRATEGIES[0]
        return beside(("" if there else "> ") + fmt(row["time_ratio"], 3), paper, 3)

    def error(row: Row) -> str:
        data, rank = in_paper(row["data"], row["rank"])
        paper = figure("ablation, projection, equal time", data, rank, row["method"])
        return beside(f"{row['error_ratio']:.4f}", paper, 3)

    names = (*STRATEGIES, SIXTH, FIXED_STEP, RANDOMIZED)
    of_error, of_time = pick(rows, protocol="equal error"), pick(rows, protocol="equal time")
    return [
        pivot(
            of_error, names, seconds, "Equal error: time over that of feasibility + HALS (paper); >: does not arrive"
        ),
        pivot(of_time, names, error, "Equal time: error over that of feasibility + HALS (paper)"),
        pivot(of_time, names, lambda row: f"{row['ratio']:.5f}, {fmt(row['kkt'], 2)}", "Error / bound, kkt"),
    ]


def reuters(rows: Rows) -> list[View]:
    lines = []
    for row in each(rows):
        if row["status"].startswith("failed"):
            lines.append((row["data"], row["rank"], "", row["status"], *[""] * 8))
            continue
        data, rank = in_paper(row["data"], row["rank"])
        paper = figure("Reuters", data, rank, row["method"]) / figure("Reuters", data, rank, "enmf")
        there = arrived(row) or row["method"] == "enmf"
        shape = f"{row['rows']:.0f} x {row['columns']:.0f}, {100 * row['density']:.2g} %"
        cells = (beside(("" if there else "> ") + fmt(row["time_ratio"], 3), paper, 3), *_ends(row))
        memory = fmt(row.get("peak_GB", math.nan), 3)
        name = (row["data"], row["rank"], row["method"], row["status"], shape)
        lines.append((*name, row["seconds"], *cells, row["bound"], memory))
    heads = ("data", "r", "method", "status", "shape, density", "seconds", "time / eNMF's (paper)", "error")
    return [View("Equal error", (*heads, "error / bound", "kkt", "bound", "peak GB"), lines)]


def complexity(rows: Rows) -> list[View]:
    lines = [
        (phase, vary, *slope(rows, vary, phase))
        for phase in FORMULA
        for vary in ("side", "rank")
        if len(pick(rows, vary=vary)) > 1
    ]
    columns = ("vary", "side", "rank", "svd", "svd_passes", "rotation", "descent")
    return [
        View("Exponents", ("phase", "in", "measured", "formula on the same grid"), lines),
        plain(rows, columns, "Seconds: SVD; one iteration of Algorithm 1; one HALS iteration"),
    ]


def losses(rows: Rows) -> list[View]:
    columns = (
        "data",
        "rank",
        "beta",
        "status",
        "loss",
        "explained",
        "best_start",
        "best_loss",
        "ratio",
        "seconds",
        "best_seconds",
    )
    return [plain(rows, columns, "Loss from the exterior start, from the best of other starts, and their ratio")]


VIEWS: dict[str, Callable[[Rows], list[View]]] = {
    "synthetic": lambda rows: contest(rows, "Table 1", "Table 3"),
    "real": lambda rows: contest(rows, "Table 2", "Table 4"),
    "bounds": bounds,
    "rotation": rotation,
    "convergence": convergence,
    "exact": exact,
    "orthant": orthant,
    "phases": phases,
    "feasible": feasible,
    "minima": minima,
    "relation": relation,
    "tending": tending,
    "faces": lambda rows: [accuracies(rows, "Table 5", ALL, "enmf")],
    "digits": lambda rows: [accuracies(rows, "Table 6", ALL, "enmf")],
    "post-rotation": post_rotation,
    "completion": completion,
    "ablation": ablation,
    "reuters": reuters,
    "complexity": complexity,
    "losses": losses,
}
