"""HTML tables of the page."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any

from enmf.report.numbers import column


def table(heads: Iterable[str], rows: Iterable[tuple[Any, ...]]) -> str:
    """A table that sorts by a click on a heading; the numbers of a column have the same number of decimals."""
    columns = [_cells(list(held)) for held in zip(*rows)]
    head = "".join(f'<th scope="col"><button type="button">{html.escape(name)}</button></th>' for name in heads)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in zip(*columns))
    return (
        f'<div class="scroll"><table class="sortable"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _cells(values: list[Any]) -> list[str]:
    if all(isinstance(value, float) for value in values):
        return [f'<td data-value="{float(value)!r}">{text}</td>' for value, text in zip(values, column(values))]
    return [f"<td>{html.escape(f'{value:.6g}' if isinstance(value, float) else str(value))}</td>" for value in values]
