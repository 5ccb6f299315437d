"""From tidy rows to tables for a reader: ours, the paper's figure in brackets, and the bound where there is one."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from statistics import mean, stdev
from typing import Any, NamedTuple

from scipy.stats import ttest_rel

from paper.ablation import FIXED_STEP, RANDOMIZED, SIXTH, STRATEGIES
from paper.complexity import FORMULA, slope
from paper.published import figure, figures, said
from paper.runs import LETTER, OPPONENTS
from paper.tidy import number

Rows = list[dict[str, str]]
ALL = ("enmf", LETTER, *OPPONENTS)
OF_PAPER = {"audio_waveform": "audio", "imdb": "rcv1", "generated": "rcv1"}


class View(NamedTuple):
    caption: str
    heads: tuple[str, ...]
    rows: list[tuple[Any, ...]]


def in_paper(data: str, rank: str) -> tuple[str, int]:
    """Name and rank in the paper's tables: a small synthetic set stands for the one with the same rank / inner rank."""
    if data.startswith("synthetic-"):
        _, snr, side = data.split("-")
        return f"synthetic-{snr}", round(int(rank) * 5000 / int(side))
    return OF_PAPER.get(data, data), int(rank)


def fmt(value: float, digits: int = 4) -> str:
    return "" if math.isnan(value) else f"{value:.{digits}g}"


def beside(ours: str, paper: float, digits: int = 4) -> str:
    return ours if math.isnan(paper) else f"{ours} ({fmt(paper, digits)})"


def settings(rows: Iterable[dict[str, str]]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((row["data"], row["rank"]) for row in rows))


def pick(rows: Rows, **wanted: object) -> Rows:
    return [row for row in rows if all(row.get(name) == str(value) for name, value in wanted.items())]


def pivot(rows: Rows, methods: Iterable[str], cell: Callable[[dict[str, str]], str], caption: str) -> View:
    """A line for each data set and rank, a column for each method."""
    names = [name for name in methods if any(row.get("method") == name for row in rows)]
    lines = []
    for data, rank in settings(rows):
        of = {row.get("method"): row for row in rows if (row["data"], row["rank"]) == (data, rank)}
        lines.append((data, int(rank), *(cell(of[name]) if name in of else "" for name in names)))
    return View(caption, ("data", "r", *names), lines)


def plain(rows: Rows, columns: Iterable[str], caption: str) -> View:
    names = [name for name in columns if any(row.get(name) for row in rows)]
    return View(caption, tuple(names), [tuple(_cell(row.get(name, "")) for name in names) for row in rows])


def _cell(text: str) -> Any:
    value = number(text)
    return text if math.isnan(value) else (int(value) if value.is_integer() and abs(value) < 1e9 else value)


def contest(rows: Rows, times: str, errors: str) -> list[View]:
    """Both protocols. `times` and `errors` are the paper's tables; errors are shown over the bound where the paper has
    them so (table 3)."""
    methods = (*ALL, "anls-bpp")
    of_time, of_error = pick(rows, protocol="equal-time"), pick(rows, protocol="equal-error")
    quantity = "ratio" if errors == "Table 3" else "error"

    def error(row: dict[str, str]) -> str:
        data, rank = in_paper(row["data"], row["rank"])
        ours = f"{number(row['ratio']):.5f}" if quantity == "ratio" else fmt(number(row["error"]), 6)
        return beside(ours, figure(errors, data, rank, row["method"], quantity), 6)

    def seconds(row: dict[str, str]) -> str:
        data, rank = in_paper(row["data"], row["rank"])
        table = "ANLS-BPP" if row["method"] == "anls-bpp" else times
        paper = figure(table, data, rank, row["method"]) / figure(table, data, rank, "enmf")
        there = arrived(row) or row["method"] == "enmf"
        return beside(("" if there else "> ") + fmt(number(row["time_ratio"]), 3), paper, 3)

    ours = [row for row in of_time if row["method"] == "enmf"]
    columns = ("data", "rank", "status", "seconds", "error", "bound", "ratio", "kkt", "starts", "patience", "threads")
    starts = {(row["data"], row["rank"]): row["starts"] for row in of_time if row["method"] != "enmf"}
    for row in ours:
        row["starts"] = starts.get((row["data"], row["rank"]), "")
    what = "error / bound" if quantity == "ratio" else "error"
    views = [
        plain(ours, columns, "eNMF: end, seconds, error against the bound (`starts`: how many each opponent had)"),
        pivot(of_time, methods, error, f"Equal time: {what} of the best start (paper)"),
        pivot(
            of_time, methods, lambda row: f"{row['status']}, {fmt(number(row['kkt']), 2)}", "Equal time: status, kkt"
        ),
        pivot(of_error, methods, seconds, "Equal error: time over eNMF's; >: given up or converged above (paper)"),
    ]
    if quantity == "error":
        views.insert(2, pivot(of_time, methods, lambda row: f"{number(row['ratio']):.5f}", "Equal time: error / bound"))
    return views


def bounds(rows: Rows) -> list[View]:
    lines = []
    for row in rows:
        bound = number(row["bound"])
        ours, best = paper_errors(row["data"], row["rank"])
        verdict = "below the bound" if below_bound(row) else "possible"
        lines.append((row["data"], int(row["rank"]), bound, ours, best, verdict))
    heads = ("data", "r", "bound", "paper, eNMF", "paper, best opponent", "the paper's eNMF error is")
    return [View("Bound and printed errors", heads, lines)]


def paper_errors(data: str, rank: str) -> tuple[float, float]:
    """The paper's error of eNMF and of its best opponent (table 4)."""
    return figure("Table 4", data, rank, "enmf"), min(figure("Table 4", data, rank, name) for name in OPPONENTS)


def below(printed: float, row: dict[str, str]) -> bool:
    """Whether a printed error is below the bound by more than half of its last digit."""
    return printed + 0.005 < number(row["bound"])


def below_bound(row: dict[str, str]) -> bool:
    """The same of the paper's error of eNMF."""
    return below(paper_errors(row["data"], row["rank"])[0], row)


def arrived(row: dict[str, str]) -> bool:
    """At equal error: whether the run has eNMF's error."""
    return row["status"] in ("target_reached", "exact", "global_optimum")


def rotation(rows: Rows) -> list[View]:
    columns = (
        *("data", "rank", "point", "status", "ratio", "negative_entries", "negative_mass"),
        *("rotation_iterations", "error", "bound", "kkt", "seconds"),
    )
    return [plain(rows, columns, "Three points of one SVD, and the whole method")]


def convergence(rows: Rows) -> list[View]:
    ends = [
        max(pick(rows, method=name), key=lambda row: number(row["seconds"])) for name in ALL if pick(rows, method=name)
    ]
    return [plain(ends, ("method", "status", "seconds", "iteration", "ratio", "kkt"), "Where each ends")]


def quartet(row: dict[str, str], table: str) -> str:
    shares = ", ".join(fmt(number(row.get(name))) for name in ("share_U", "share_V"))
    ours = f"{shares}, {fmt(number(row.get('error_difference')), 2)}, {row.get('verdict')}"
    data, rank = in_paper(row["data"], row["rank"])
    paper = {one["quantity"]: one["value"] for one in figures(table, data=data, rank=rank, method=row["method"])}
    return f"{ours} ({', '.join(paper.values())})" if paper else ours


def exact(rows: Rows) -> list[View]:
    return [
        pivot(rows, ALL, lambda row: fmt(number(row["relative_error"]), 2), "Relative error ||X - UVᵀ|| / ||X||"),
        pivot(rows, ALL, lambda row: quartet(row, "Table 11"), "u %, v %, e_d, e_m against the true factors (paper)"),
        pivot(rows, ALL, lambda row: f"{row['status']}, {fmt(number(row['kkt']), 2)}", "Status, kkt"),
    ]


def orthant(rows: Rows) -> list[View]:
    columns = ("n", "m", "rank", "sparsity", "kind", "distance", "relative_distance", "iterations", "seconds")
    return [plain(rows, columns, "Distance from the orthant")]


def phases(rows: Rows) -> list[View]:
    lines, orthogonal = [], []
    for row in rows:
        if row["status"].startswith("failed"):
            continue
        data, rank = in_paper(row["data"], row["rank"])
        kind = "synthetic" if data.startswith("synthetic") else "real"
        total = number(row["before_descent"]) + number(row["descent_seconds"])
        paper = {one["quantity"]: number(one["value"]) for one in figures(f"phases, {kind}", data=data, rank=rank)}
        shares = {
            "svd": number(row["svd_seconds"]),
            "rotation": number(row["rotation_seconds"]),
            "feasibility+descent": number(row["feasibility_seconds"]) + number(row["descent_seconds"]),
        }
        cells = [
            beside(fmt(100 * value / total, 3), 100 * paper[name] / paper["total"] if paper else math.nan, 3)
            for name, value in shares.items()
        ]
        lines.append(
            (row["data"], int(row["rank"]), row["method"], row["status"], number(row["seconds"]), *cells, *_ends(row))
        )
        measured = {
            one["quantity"]: number(one["value"]) for one in figures(f"orthogonality, {kind}", data=data, rank=rank)
        }
        orthogonal.append(
            (
                row["data"],
                int(row["rank"]),
                row["method"],
                beside(fmt(number(row["orthogonality"]), 2), measured.get("orthogonality", math.nan), 2),
                beside(row["rotation_iterations"], measured.get("iterations", math.nan)),
                number(row["negative_mass"]),
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


def _ends(row: dict[str, str]) -> tuple[float, float, float]:
    return number(row["error"]), number(row["ratio"]), number(row["kkt"])


def feasible(rows: Rows) -> list[View]:
    most = said("first_feasible").high
    columns = ("data", "rank", "status", "feasible_error", "final_error", "increase", "bound", "kkt")
    return [
        plain(
            rows,
            columns,
            f"Error at the first feasible point over the final one, minus one (paper: up to {most})",
        )
    ]


def minima(rows: Rows) -> list[View]:
    def both(row: dict[str, str]) -> str:
        data, rank = in_paper(row["data"], row["rank"])
        a, b = (figure("Table 10", data, rank, row["method"], name) for name in ("kkt_max", "kkt_sum"))
        ours = f"{fmt(number(row.get('kkt_max')), 2)}, {fmt(number(row.get('kkt_sum')), 2)}"
        return ours if math.isnan(a) else f"{ours} ({fmt(a)}, {fmt(b)})"

    def related(row: dict[str, str]) -> str:
        return quartet(row, "Table 13" if row["data"].startswith("synthetic") else "Table 12")

    others = [row for row in rows if row["method"] != "enmf"]
    return [
        pivot(rows, ALL, lambda row: f"{row['status']}, {fmt(number(row.get('kkt')), 2)}", "Status, kkt (scale-free)"),
        pivot(rows, ALL, both, "delta, sigma (paper)"),
        pivot(rows, ALL, lambda row: f"{number(row.get('ratio')):.5f}", "Error / bound"),
        pivot(others, ALL, related, "u %, v %, e_d, e_m against eNMF (paper)"),
        _verdicts(others),
    ]


def _verdicts(rows: Rows) -> View:
    """How many settings end in E, TE and NE, by method, beside the paper's tables 12 and 13."""
    printed = figures("Table 12") + figures("Table 13")
    lines = []
    for name in ALL:
        of = pick(rows, method=name)
        paper = [row["value"] for row in printed if row["method"] == name]
        if of:
            found = counts(of)
            cells = [beside(str(found[word]), paper.count(word) if paper else math.nan) for word in ("E", "TE", "NE")]
            lines.append((name, *cells, found["NE, stationary"]))
    return View("Settings with E, TE and NE against eNMF (paper)", ("method", "E", "TE", "NE", "NE, stationary"), lines)


def counts(rows: Rows) -> dict[str, int]:
    """How many runs are E, TE and NE, and how many of the latter are stationary points."""
    found = {name: len(pick(rows, verdict=name)) for name in ("E", "TE", "NE")}
    found["NE, stationary"] = sum(
        row["status"] in ("converged", "exact", "global_optimum") for row in pick(rows, verdict="NE")
    )
    return found


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


def scores(rows: Rows, rank: str, method: str, quantity: str = "accuracy", by: str = "split") -> list[float]:
    """One number a split, in order."""
    found = sorted(pick(rows, rank=rank, method=method), key=lambda row: number(row[by]))
    return [number(row[quantity]) for row in found]


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
    data = rows[0]["data"]
    for rank in dict.fromkeys(row["rank"] for row in rows):
        reference = scores(rows, rank, first)
        for name in names:
            values = scores(rows, rank, name)
            if not values:
                continue
            of = pick(rows, rank=rank, method=name)
            paper = figures(table, data=data, rank=rank, method=name)
            lines.append(
                (
                    int(rank),
                    name,
                    spread(values),
                    f"{paper[0]['value']} ± {paper[0]['spread']}" if paper else "",
                    fmt(paired(reference, values), 2) if name != first else "",
                    mean(number(row["ratio"]) for row in of),
                    mean(number(row["kkt"]) for row in of),
                    mean(number(row["seconds"]) for row in of),
                    ", ".join(sorted({row["status"] for row in of})),
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
        if pick(rows, protocol=protocol)
    ]


def completion(rows: Rows) -> list[View]:
    lines: list[tuple[Any, ...]] = []
    for rank in dict.fromkeys(row["rank"] for row in rows):
        ours = scores(rows, rank, "enmc", "rmse", "seed")
        for name in ("enmc", "masked-mu", "masked-scd", "adm"):
            of = pick(rows, rank=rank, method=name)
            if not of:
                continue
            cells = [
                beside(
                    spread([number(row[quantity]) for row in of], 3),
                    figure(table, "movielens_1m", rank, name, quantity),
                )
                for quantity, table in (("rmse", "Table 7"), ("ndcg", "Table 8"), ("recall", "Table 8"))
            ]
            p = paired(ours, scores(rows, rank, name, "rmse", "seed")) if name != "enmc" else math.nan
            worst = max((number(row["p_ndcg"]) for row in of), default=math.nan)
            lines.append(
                (
                    *(int(rank), name, of[0]["ridge"], *cells, mean(number(row["train_error"]) for row in of)),
                    *(fmt(p, 2), fmt(worst, 2), mean(number(row["seconds"]) for row in of), of[0]["status"]),
                    mean(number(row["kkt"]) for row in of),
                )
            )
    heads = (
        *("r", "method", "ridge", "RMSE (paper, 1M)", "NDCG@10 (paper)", "Recall@10 (paper)", "training error"),
        *("p RMSE", "p NDCG, worst seed", "seconds", "status", "kkt"),
    )
    return [View(f"{rows[0]['data']}: mean ± standard deviation over five seeds", heads, lines)]


def ablation(rows: Rows) -> list[View]:
    def seconds(row: dict[str, str]) -> str:
        data, rank = in_paper(row["data"], row["rank"])
        table, first, name = {
            FIXED_STEP: ("ablation, step size", "optimal step", "fixed step"),
            RANDOMIZED: ("ablation, SVD", "exact SVD", "randomized SVD"),
        }.get(row["method"], ("ablation, projection, equal error", STRATEGIES[0], row["method"]))
        low = figure(table, data, rank, first)
        paper = figure(table, data, rank, name) / low if low > 0 else math.nan
        there = arrived(row) or row["method"] == STRATEGIES[0]
        return beside(("" if there else "> ") + fmt(number(row["time_ratio"]), 3), paper, 3)

    def error(row: dict[str, str]) -> str:
        data, rank = in_paper(row["data"], row["rank"])
        paper = figure("ablation, projection, equal time", data, rank, row["method"])
        return beside(f"{number(row['error_ratio']):.4f}", paper, 3)

    names = (*STRATEGIES, SIXTH, FIXED_STEP, RANDOMIZED)
    of_error, of_time = pick(rows, protocol="equal error"), pick(rows, protocol="equal time")
    return [
        pivot(
            of_error, names, seconds, "Equal error: time over that of feasibility + HALS (paper); >: does not arrive"
        ),
        pivot(of_time, names, error, "Equal time: error over that of feasibility + HALS (paper)"),
        pivot(
            of_time,
            names,
            lambda row: f"{number(row['ratio']):.5f}, {fmt(number(row['kkt']), 2)}",
            "Error / bound, kkt",
        ),
    ]


def reuters(rows: Rows) -> list[View]:
    lines = []
    for row in rows:
        if row["status"].startswith("failed"):
            lines.append((row["data"], int(row["rank"]), "", row["status"], *[""] * 8))
            continue
        data, rank = in_paper(row["data"], row["rank"])
        paper = figure("Reuters", data, rank, row["method"]) / figure("Reuters", data, rank, "enmf")
        there = arrived(row) or row["method"] == "enmf"
        shape = f"{row['rows']} x {row['columns']}, {100 * number(row['density']):.2g} %"
        cells = (beside(("" if there else "> ") + fmt(number(row["time_ratio"]), 3), paper, 3), *_ends(row))
        memory = fmt(number(row.get("peak_GB")), 3)
        name = (row["data"], int(row["rank"]), row["method"], row["status"], shape)
        lines.append((*name, number(row["seconds"]), *cells, number(row["bound"]), memory))
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
}
