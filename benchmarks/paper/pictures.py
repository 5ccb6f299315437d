"""The figures, from the tables: SVG and PNG by matplotlib (extra `plots`)."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from paper.published import figure, said
from paper.runs import MET, OPPONENTS
from paper.tidy import Rows, failed, pick
from paper.views import ALL, in_paper, settings

FLOOR = 1e-9  # of a relative error in a picture
BLUE, RED, GREY, GREEN = "#0b5fa5", "#b3261e", "#5b6875", "#2f855a"
COLORS = (
    *("#0b5fa5", "#c2570c", "#2f855a", "#8b5cf6", "#b7791f", "#d53f8c"),
    *("#0d9488", "#64748b", "#7c2d12", "#111827", "#f59e0b"),
)


def available() -> bool:
    return importlib.util.find_spec("matplotlib") is not None


def _new(columns: int, width: float = 3.4, height: float = 3.0) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "enmf"  # the same picture gives the same file
    from matplotlib import pyplot

    figure_, axes = pyplot.subplots(1, columns, figsize=(width * columns, height), squeeze=False, layout="constrained")
    for axis in axes[0]:
        axis.spines[["top", "right"]].set_visible(False)
    return figure_, axes[0]


def _band(axis: Any, rows: Rows, quantity: str, table: str, paper_quantity: str) -> None:
    """eNMF, best opponent, the band of all opponents, and the paper's two lines."""
    ranks = sorted(rows["rank"].unique().tolist())
    ours = [pick(rows, method="enmf", rank=rank)[quantity].iloc[0] for rank in ranks]
    others = rows[rows["method"].isin(OPPONENTS)].groupby("rank")[quantity]
    axis.fill_between(ranks, others.min(), others.max(), color=GREY, alpha=0.2, lw=0)
    axis.plot(ranks, others.min(), "--", color=GREY, label="best opponent")
    axis.plot(ranks, ours, "o-", color=BLUE, label="eNMF")
    data_set = rows["data"].iloc[0]
    name = [in_paper(data_set, rank) for rank in ranks]
    paper = [figure(table, data, rank, "enmf", paper_quantity) for data, rank in name]
    best = [min(figure(table, d, r, m, paper_quantity) for m in OPPONENTS) for d, r in name]
    if quantity == "ratio" or data_set in ("verb", "face"):
        axis.plot(ranks, paper, "x", color=RED, label="paper, eNMF")
        axis.plot(ranks, best, "+", color=RED, label="paper, best opponent")
    axis.set_xlabel("r")


def equal_time(rows: Rows, quantity: str, table: str) -> Any:
    rows = pick(rows, protocol="equal-time").query("method != 'anls-bpp'")
    sets = rows["data"].unique()
    picture, axes = _new(len(sets), 2.9)
    for axis, data in zip(axes, sets):
        some = pick(rows, data=data)
        _band(axis, some, quantity, table, "ratio" if quantity == "ratio" else "error")
        if quantity == "error":
            axis.plot(some.groupby("rank")["bound"].first(), ":", color=GREEN, label="bound")
        axis.set_title(data, fontsize=10)
    axes[0].set_ylabel("error / bound" if quantity == "ratio" else "error")
    axes[0].legend(fontsize=7, frameon=False)
    return picture


def convergence(rows: Rows) -> Any:
    picture, (axis,) = _new(1, 6.5, 3.8)
    for color, name in zip(COLORS, ALL):
        some = pick(rows, method=name)
        if len(some):
            style = "o-" if len(some) < 3 else "-"
            axis.plot(some["seconds"], some["ratio"] - 1.0, style, color=color, label=name, ms=4)
    axis.set(xscale="log", yscale="log", xlabel="seconds", ylabel="error / bound - 1")
    axis.legend(fontsize=7, frameon=False, ncols=2)
    return picture


def exact(rows: Rows) -> Any:
    picture, (axis,) = _new(1, 6.5, 3.4)
    for color, name in zip(COLORS, ALL):
        some = pick(rows, method=name)
        x = some["data"].str.split("-").str[1].astype(float)
        axis.plot(x, some["relative_error"].clip(lower=FLOOR), "o-", color=color, label=name, ms=3)
    axis.set(yscale="log", xlabel="sparsity", ylabel=f"relative error (floor {FLOOR:.0e})")
    axis.legend(fontsize=7, frameon=False, ncols=2)
    return picture


def orthant(rows: Rows) -> Any:
    picture, (axis,) = _new(1, 5.0, 3.2)
    for color, ((n, m, _), of) in zip(COLORS, rows.groupby(["n", "m", "rank"], sort=False)):
        for kind, line in (("rotation", "--"), ("general", "-")):
            some, style = pick(of, kind=kind), {"marker": "o", "ms": 3, "color": color, "label": f"{n}x{m} {kind}"}
            axis.plot(some["sparsity"], some["distance"].clip(lower=1e-14), line, **style)
    axis.set(yscale="log", xlabel="sparsity", ylabel="sum of negative entries")
    axis.legend(fontsize=7, frameon=False)
    return picture


def phases(rows: Rows) -> Any:
    some = pick(rows, method="enmf")
    picture, (axis,) = _new(1, 7.5, 4.6)
    names = [f"{data} r={rank}" for data, rank in zip(some["data"], some["rank"])]
    total, left = some["before_descent"] + some["descent_seconds"], 0.0 * some["seconds"]
    for name, color in zip(("svd", "rotation", "feasibility", "descent"), (BLUE, "#c2570c", "#2f855a", GREY)):
        share = 100 * some[f"{name}_seconds"] / total
        axis.barh(names, share, left=left, color=color, label=name)
        left += share
    axis.invert_yaxis()
    axis.tick_params(labelsize=7)
    axis.set_xlabel("share of the time, %")
    axis.legend(fontsize=7, frameon=False, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return picture


def feasible(rows: Rows) -> Any:
    picture, (axis,) = _new(1, 5.0, 2.8)
    names = [f"{data} r={rank}" for data, rank in settings(rows)]
    axis.bar(names, 100 * rows["increase"], color=BLUE)
    high = 100 * said("first_feasible").high
    axis.axhline(high, color=RED, ls="--", lw=1, label=f"paper: up to {high:.0f} %")
    axis.set_ylabel("increase, %")
    axis.tick_params(axis="x", labelrotation=45, labelsize=8)
    axis.legend(fontsize=7, frameon=False)
    return picture


def completion(rows: Rows) -> Any:
    picture, axes = _new(2)
    for axis, quantity, label in zip(axes, ("train_error", "rmse"), ("relative error, training ratings", "RMSE, test")):
        for color, name in zip(COLORS, ("enmc", "masked-mu", "masked-scd", "adm")):
            some = pick(rows, method=name)
            axis.plot(some.groupby("rank")[quantity].mean(), "o-", ms=3, color=color, label=name)
        axis.set(xlabel="r", ylabel=label)
    axes[0].legend(fontsize=7, frameon=False)
    return picture


def tending(rows: Rows) -> Any:
    runs = list(rows.groupby(["data", "rank", "start"], sort=False))
    picture, axes = _new(len(runs))
    for axis, ((data, rank, start), some) in zip(axes, runs):
        x = some["error_difference"].abs().clip(lower=1e-6)
        for quantity, color in (("share_U", BLUE), ("share_V", "#c2570c")):
            axis.plot(x, 100 * some[quantity], "o-", ms=3, color=color, label=quantity[-1])
        axis.set(
            xscale="log", xlabel="|difference of the errors|", title=f"{data} r={rank}, {start} start", ylim=(-3, 103)
        )
        axis.invert_xaxis()
    axes[0].set_ylabel("converged columns, %")
    axes[0].legend(fontsize=7, frameon=False)
    return picture


def rotation(rows: Rows) -> Any:
    picture, (axis,) = _new(1, 6.0, 3.2)
    rows = rows[rows["data"].str.startswith("synthetic") & (rows["point"] != "eNMF")]
    rows = rows.assign(
        snr=rows["data"].str.split("-").str[1].astype(int), above=(rows["ratio"] - 1.0).clip(lower=FLOOR)
    )
    for color, (rank, some) in zip(COLORS, rows.groupby("rank")):
        axis.plot(some.groupby("snr")["above"].min(), "o-", ms=4, color=color, label=f"r = {rank}")
    axis.axhline(MET - 1.0, color=RED, ls="--", lw=1, label="certified optimum")
    axis.set(yscale="log", xlabel="SNR, dB", ylabel="error / bound - 1 after rotation")
    axis.legend(fontsize=7, frameon=False)
    return picture


PICTURES: dict[str, Callable[[Rows], Any]] = {
    "synthetic": lambda rows: equal_time(rows, "ratio", "Table 3"),
    "real": lambda rows: equal_time(rows, "error", "Table 4"),
    "rotation": rotation,
    "convergence": convergence,
    "exact": exact,
    "orthant": orthant,
    "phases": phases,
    "feasible": feasible,
    "tending": tending,
    "completion": completion,
}


def draw(name: str, rows: Rows, folder: Path) -> Path | None:
    """Write folder/<name>.svg and .png; the path of the former, or None where there is nothing to draw."""
    rows = rows[~failed(rows)]
    if name not in PICTURES or rows.empty or not available():
        return None
    picture = PICTURES[name](rows)
    path = folder / f"{name}.svg"
    picture.savefig(path, metadata={"Date": None})
    picture.savefig(path.with_suffix(".png"), dpi=110, metadata={"Software": None})
    from matplotlib import pyplot

    pyplot.close(picture)
    return path
