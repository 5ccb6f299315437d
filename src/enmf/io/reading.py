"""What a caller may say about how data are read. Needs nothing that computes: `enmf --help` shows these options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from typer import Option


def option(metavar: str, help: str, **more: Any) -> Any:
    """An option with a value."""
    return Option(metavar=metavar, help=help, **more)


@dataclass(frozen=True)
class Reading:
    """How to read data; None means: as the file itself shows."""

    format: Annotated[str | None, option("csv|npy|...", "format, whatever the extension of the file")] = None
    header: Annotated[bool | None, Option(help="text: whether the first line names the columns")] = None
    index: Annotated[
        str | None, option("COLUMN", "text, parquet: column of row names, by name or number from 1, or none")
    ] = None
    sep: Annotated[str | None, option("CHAR", "text: separator, a character or tab or blank")] = None
    decimal: Annotated[str | None, option("CHAR", "text: decimal mark")] = None
    encoding: Annotated[str | None, option("NAME", "text: encoding, for example latin-1")] = None
    skip: Annotated[int | None, option("N", "text: number of lines above the table to skip", min=0)] = None
    drop: Annotated[list[str] | None, option("COLUMNS", "columns to drop, by name or number, separated by commas")] = (
        None
    )
    transpose: Annotated[bool, Option("--transpose", help="exchange rows and columns after reading")] = False
    layer: Annotated[str | None, option("NAME", "h5ad: layer to use instead of X")] = None
    row_names: Annotated[str | None, option("FILE", "text file with the row names, one per line")] = None
    column_names: Annotated[str | None, option("FILE", "text file with the column names, one per line")] = None
    triplets: bool = False  # lines of row, column, value: the option of one command only


def parse_loss(text: str) -> str | float:
    """The name of a loss, or its beta as a number; the library judges both."""
    try:
        return float(text)
    except ValueError:
        return text
