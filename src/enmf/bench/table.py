"""The table of results: a CSV file that grows by one row a run, so that an interrupted grid goes on where it ended."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median
from typing import Any


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
    error: float
    ratio: float  # error / Eckart-Young bound
    kkt: float
    reference_seconds: float  # of eNMF in the same repeat
    reference_error: float

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.protocol, self.data, self.rank, self.method, self.start, self.repeat)


class Table:
    """Rows in a CSV file; without a path they are kept in memory only."""

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = Path(path) if path is not None else None
        self.rows: list[Row] = []
        if self.path is not None and self.path.exists():
            with self.path.open(newline="") as file:
                self.rows = [_parse(record) for record in csv.DictReader(file)]

    def find(self, key: tuple[Any, ...]) -> Row | None:
        return next((row for row in self.rows if row.key == key), None)

    def add(self, row: Row) -> None:
        self.rows.append(row)
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = not self.path.exists()
        with self.path.open("a", newline="") as file:
            writer = csv.DictWriter(file, [field.name for field in fields(Row)])
            if new:
                writer.writeheader()
            writer.writerow({key: _shown(value) for key, value in asdict(row).items()})


def _shown(value: Any) -> Any:
    return f"{value:.10g}" if isinstance(value, float) else value


def _parse(record: dict[str, str]) -> Row:
    kinds = {"str": str, "int": int, "float": float}
    return Row(**{field.name: kinds[str(field.type)](record[field.name]) for field in fields(Row)})


@dataclass(frozen=True)
class Summary:
    """One method on one data set, over starts and repeats."""

    protocol: str
    data: str
    rank: int
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


def summarize(rows: Iterable[Row]) -> list[Summary]:
    """Best, median and worst over the starts. The best has the smallest error or, at equal error, the least time."""
    groups: dict[tuple[str, str, int, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.protocol, row.data, row.rank, row.method), []).append(row)
    return [_summary(key, group) for key, group in groups.items()]


def _summary(key: tuple[str, str, int, str], group: list[Row]) -> Summary:
    starts: dict[str, list[Row]] = {}
    for row in group:
        starts.setdefault(row.start, []).append(row)

    def middle(name: str, column: str) -> float:
        return median(getattr(row, column) for row in starts[name])

    def order(name: str) -> tuple[Any, ...]:
        if key[0] == "equal-error":
            arrived = all(row.status in ("target_reached", "reference") for row in starts[name])
            return (not arrived, middle(name, "seconds") if arrived else middle(name, "error"))
        return (middle(name, "error"),)

    best = min(starts, key=order)
    errors = sorted(middle(name, "error") for name in starts)
    first = starts[best][0]
    return Summary(
        *key,
        best_error=middle(best, "error"),
        median_error=median(errors),
        worst_error=errors[-1],
        best_start=best,
        seconds=middle(best, "seconds"),
        time_ratio=median(row.seconds / row.reference_seconds for row in starts[best]),
        error_ratio=middle(best, "error") / first.reference_error if first.reference_error else float("nan"),
        bound_ratio=middle(best, "ratio"),
        kkt=middle(best, "kkt"),
        status=first.status,
        starts=len(starts),
    )
