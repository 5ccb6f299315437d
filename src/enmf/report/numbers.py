"""Numbers, names and tables as people read them: enough digits to tell values apart, and no more."""

from __future__ import annotations

import base64
import csv
import html
import io
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

SPACE = "\N{NO-BREAK SPACE}"
NAME_ROOM = 40  # most characters of a name
DECIMALS = 6  # most decimals of a percentage
MOST_SAVED = 1_000_000  # characters of a table that the page carries for download


def percent(share: float) -> str:
    """Two decimals, or two significant digits if these would be zero: 8.05 %, 0.052 %, 3.1e-07 %."""
    value = 100.0 * share
    if not math.isfinite(value):
        return "not known"
    if value == 0 or abs(value) >= 0.1:
        return f"{value:.2f}{SPACE}%"
    decimals = 1 - math.floor(math.log10(abs(value)))
    return f"{value:.{decimals}f}{SPACE}%" if decimals <= DECIMALS else f"{value:.1e}{SPACE}%"


def explained(relative_error: float) -> str:
    """1 - relative_error² as a percentage; 100 % is shown only for an error of zero."""
    missing = 100.0 * relative_error**2
    if relative_error == 0:
        return f"100{SPACE}%"
    decimals = max(2, -math.floor(math.log10(missing))) if missing > 0 else DECIMALS + 1
    if decimals > DECIMALS:
        return f"more than {100 - 10.0**-DECIMALS:.{DECIMALS}f}{SPACE}%"
    return f"{100 - missing:.{decimals}f}{SPACE}%"


def times(ratio: float) -> str:
    """A ratio to the best possible error; 1 is shown only for equality."""
    if ratio == 1 or not 1 < ratio < 1.000001:
        return f"{ratio:.6f}" if math.isfinite(ratio) else "not known"
    return f"1 + {ratio - 1:.0e}"


def shortened(name: str, room: int = NAME_ROOM) -> str:
    """A name, without its middle if it is long: names of one kind differ at their ends."""
    kept = (room - 1) // 2
    return name if len(name) <= room else f"{name[:kept]}…{name[-kept:]}"


def ticks(low: float, high: float, count: int = 5, whole: bool = False) -> list[tuple[float, str]]:
    """Round numbers from `low` to `high` with distinct labels: multiples of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [(low, f"{low:.6g}")]
    rough = (high - low) / count
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(mark * unit for mark in (1, 2, 5, 10) if mark * unit >= rough * (1 - 1e-9))
    step = max(1.0, step) if whole else step
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [(k * step, _label(k * step, step, max(abs(low), abs(high)))) for k in range(first, last + 1)]


def _label(value: float, step: float, largest: float) -> str:
    place = math.floor(math.log10(step) + 1e-9)
    if 1e-4 <= largest < 1e6:
        return f"{value:.{max(0, -place)}f}"
    return "0" if value == 0 else f"{value:.{max(0, math.floor(math.log10(abs(value)) + 1e-9) - place)}e}"


def growing_ticks(last: int) -> list[tuple[float, str]]:
    """0, 1, 2, 5, 10, 20, ... (0, 1, 10, 100, ... on a long axis, for a phone) where k is placed at log(1 + k)."""
    steps = (1, 2, 5) if last < 1000 else (1,)
    marks = [0, *(mark * 10**power for power in range(len(str(last))) for mark in steps)]
    return [(float(mark), str(mark)) for mark in marks if mark <= last]


def column(values: Sequence[float]) -> list[str]:
    """Numbers of a table column: the same number of decimals, four significant digits of the largest."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if 0 < largest < 1e-3:
        return [f"{value:.2e}" for value in values]
    decimals = max(0, 3 - math.floor(math.log10(largest))) if largest > 0 else 0
    return [f"{value:.{decimals}f}" for value in values]


def increasing(names: Sequence[str]) -> list[float] | None:
    """The names as numbers if they are increasing numbers (wavelengths, times, masses), else None."""
    try:
        values = [float(name) for name in names]
    except ValueError:
        return None
    return values if all(a < b for a, b in itertools.pairwise(values)) and math.isfinite(values[-1]) else None


def table(heads: Iterable[str], rows: Iterable[tuple[Any, ...]]) -> str:
    """An HTML table that sorts by a click on a heading; the numbers of a column have the same number of decimals."""
    columns = [_cells(list(held)) for held in zip(*rows)]
    head = "".join(f'<th scope="col"><button type="button">{html.escape(name)}</button></th>' for name in heads)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in zip(*columns))
    return (
        f'<div class="scroll"><table class="sortable"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def download(file: str, heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A link that saves a table as csv, from the page itself; nothing for a table of more than a million characters."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows([f"{value:.6g}" if isinstance(value, float) else value for value in row] for row in rows)
    if len(text.getvalue()) > MOST_SAVED:
        return ""
    data = base64.b64encode(text.getvalue().encode()).decode()
    name = html.escape(file)
    return f'<a class="save" download="{name}" href="data:text/csv;base64,{data}">Save {name}</a>'


def _cells(values: list[Any]) -> list[str]:
    if all(isinstance(value, float) for value in values):
        return [f'<td data-value="{float(value)!r}">{text}</td>' for value, text in zip(values, column(values))]
    return [f"<td>{html.escape(f'{value:.6g}' if isinstance(value, float) else str(value))}</td>" for value in values]
