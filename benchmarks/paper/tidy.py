"""Tables with one row per run: DataFrames in CSV files, written anew after each case so that a run resumes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from paper.case import Row

Rows: TypeAlias = pd.DataFrame


def read(path: str | Path) -> Rows:
    """The table in that file; an empty one where there is no file."""
    if not Path(path).exists():
        return pd.DataFrame()
    # words such as "None" stay words
    return pd.read_csv(path, keep_default_na=False, na_values=["", "nan"])


def write(rows: Rows, path: Path) -> None:
    """Floats keep nine digits. A reader never sees half a table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    rows.to_csv(beside, index=False, float_format="%.9g", lineterminator="\n")
    os.replace(beside, path)


def pick(rows: Rows, **wanted: Any) -> Rows:
    """The rows that have these values."""
    for name, value in wanted.items():
        rows = rows[rows[name] == value] if name in rows else rows[:0]
    return rows


def each(rows: Rows) -> list[Row]:
    """The rows as dictionaries; nan where a cell is empty."""
    return rows.to_dict("records")


def failed(rows: Rows) -> pd.Series:
    """Whether the case of a row has failed."""
    words = rows["status"] if "status" in rows else pd.Series("", index=rows.index)
    return words.astype(str).str.startswith("failed")


def has(rows: Rows, key: Row) -> bool:
    """Whether a case has been made; a failed one has not."""
    return not pick(rows[~failed(rows)], **key).empty


def replace(rows: Rows, key: Row, new: Iterable[Row]) -> Rows:
    """The table with these rows in the place of those that have the key."""
    parts = [rows.drop(pick(rows, **key).index), pd.DataFrame([{**key, **row} for row in new])]
    return pd.concat([part for part in parts if not part.empty] or parts[:1], ignore_index=True)
