"""What a notebook shows of an object: a small table, without styles or scripts of its own."""

from __future__ import annotations

import html
from collections.abc import Iterable


def html_table(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """Names and values below a title, escaped."""
    cells = (f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in rows)
    return f"<table><caption>{html.escape(title)}</caption><tbody>{''.join(cells)}</tbody></table>"
