"""What a caller may say about how data are to be read. Needs nothing that computes: `enmf --help` imports it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reading:
    """How to read data; None means: as the file itself shows."""

    format: str | None = None
    header: bool | None = None
    index: str | None = None
    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    skip: int | None = None
    drop: list[str] | None = None
    transpose: bool = False
    layer: str | None = None
    row_names: str | None = None
    column_names: str | None = None
    triplets: bool = False
