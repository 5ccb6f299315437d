"""The table of results: a CSV file that grows by one row per run, so that an interrupted grid resumes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import pandas as pd

KEY = ("protocol", "data", "rank", "loss", "method", "start", "repeat")  # what tells one run from another


@dataclass(frozen=True)
class Row:
    """One run. `seconds` and `passes` are those of the method, without measuring."""

    protocol: str
    data: str
    rows: int
    columns: int
    rank: int
    method: str
    start: str
    repeat: int
    threads: int
    status: str
    seconds: float
    passes: int
    iterations: int
    error: float  # ||X - U Vᵀ||, or sqrt(2 loss)
    ratio: float  # error / Eckart-Young bound; infinite for other losses, which have none
    kkt: float
    reference_seconds: float  # of eNMF in the same repeat
    reference_error: float
    loss: str = "frobenius"

    @property
    def key(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in KEY)


TYPES = {field.name: str(field.type) for field in fields(Row)}


class Table:
    """Rows in a CSV file; without a path they are kept in memory only."""

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = Path(path) if path is not None else None
        self.frame = pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in TYPES.items()})
        if self.path is not None and self.path.exists():
            self.frame = pd.read_csv(self.path, dtype=TYPES)
            if "loss" not in self.frame:  # a table of an earlier version
                self.frame["loss"] = "frobenius"

    @property
    def rows(self) -> list[Row]:
        return _rows(self.frame)

    def find(self, key: tuple[Any, ...]) -> Row | None:
        same = self.frame[list(KEY)] == pd.Series(key, index=KEY)
        found = _rows(self.frame[same.all(axis=1)])
        return found[0] if found else None

    def add(self, row: Row) -> None:
        line = _frame([row])
        self.frame = pd.concat([self.frame, line], ignore_index=True)
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        form = {"float_format": "%.10g", "na_rep": "nan", "lineterminator": "\r\n"}
        if self.path.exists():  # in the columns that the file has
            line = line[pd.read_csv(self.path, nrows=0).columns]
        line.to_csv(self.path, mode="a", header=not self.path.exists(), index=False, **form)


def _frame(rows: Iterable[Row]) -> pd.DataFrame:
    return pd.DataFrame([asdict(row) for row in rows], columns=list(TYPES)).astype(TYPES)


def _rows(frame: pd.DataFrame) -> list[Row]:
    return [Row(**record) for record in frame.to_dict("records")]


@dataclass(frozen=True)
class Summary:
    """One method on one data set, over starts and repeats."""

    protocol: str
    data: str
    rank: int
    loss: str
    method: str
    best_error: float
    median_error: float
    worst_error: float
    best_start: str
    seconds: float  # of the best start, median over repeats
    time_ratio: float  # those seconds over eNMF's
    error_ratio: float  # best error over eNMF's
    bound_ratio: float  # best error over the bound
    kkt: float
    status: str
    starts: int


def in_losses(line: Summary) -> Summary:
    """The same with losses in place of errors, which are square roots of twice the loss."""
    losses = {name: 0.5 * getattr(line, name) ** 2 for name in ("best_error", "median_error", "worst_error")}
    return replace(line, **losses, error_ratio=line.error_ratio**2)


def summarize(rows: Iterable[Row]) -> list[Summary]:
    """Best, median and worst over the starts. The best has the smallest error or, at equal error, the least time."""
    frame = _frame(rows)
    frame["time_ratio"] = frame["seconds"] / frame["reference_seconds"]
    groups = frame.groupby(["protocol", "data", "rank", "loss", "method"], sort=False)
    return [_summary(key, group) for key, group in groups]


def _summary(key: tuple[str, str, int, str, str], group: pd.DataFrame) -> Summary:
    starts = group.groupby("start", sort=False)
    middle = starts[["error", "seconds", "time_ratio", "ratio", "kkt"]].median()  # over repeats
    away, rank = False, middle["error"]
    if key[0] == "equal-error":
        away = ~group["status"].isin(("target_reached", "reference")).groupby(group["start"]).all()
        rank = middle["error"].where(away, middle["seconds"])
    best = middle.assign(away=away, order=rank).sort_values(["away", "order"], kind="stable").iloc[0]
    first = starts.get_group(best.name).iloc[0]
    return Summary(
        *key,
        best_error=best["error"],
        median_error=middle["error"].dropna().median(),
        worst_error=middle["error"].max(),
        best_start=best.name,
        seconds=best["seconds"],
        time_ratio=best["time_ratio"],
        error_ratio=best["error"] / first["reference_error"] if first["reference_error"] else float("nan"),
        bound_ratio=best["ratio"],
        kkt=best["kkt"],
        status=first["status"],
        starts=len(starts),
    )
