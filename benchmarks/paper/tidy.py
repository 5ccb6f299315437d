"""A table of plain rows in a CSV file that is written anew after each case, so that a run goes on where it ended."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from paper.case import Row


class Tidy:
    """Rows as dictionaries of text. Numbers keep nine digits."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.rows: list[dict[str, str]] = []
        if self.path.exists():
            with self.path.open(newline="", encoding="utf-8") as file:
                self.rows = list(csv.DictReader(file))

    def has(self, key: Row) -> bool:
        """Whether a case has been made; a failed one has not."""
        return any(not row.get("status", "").startswith("failed") for row in self.of(**key))

    def of(self, **wanted: Any) -> list[dict[str, str]]:
        texts = {name: shown(value) for name, value in wanted.items()}
        return [row for row in self.rows if all(row.get(name, "") == text for name, text in texts.items())]

    def replace(self, key: Row, rows: Iterable[Row]) -> None:
        """Put these rows in the place of those with the key, and write the file."""
        old = [id(row) for row in self.of(**key)]
        self.rows = [row for row in self.rows if id(row) not in old]
        self.rows += [{name: shown(value) for name, value in {**key, **row}.items()} for row in rows]
        columns = list(dict.fromkeys(name for row in self.rows for name in row))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_suffix(".new")
        with beside.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n", restval="")
            writer.writeheader()
            writer.writerows(self.rows)
        os.replace(beside, self.path)


def shown(value: Any) -> str:
    return f"{float(value):.9g}" if isinstance(value, float) else str(value)


def number(text: str | None) -> float:
    """A cell as a number; nan where it is none."""
    try:
        return float(text or "nan")
    except ValueError:
        return float("nan")
