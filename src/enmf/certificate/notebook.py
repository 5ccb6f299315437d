"""HTML representation of an object in a notebook: a small table without styles or scripts."""

from __future__ import annotations

import html
from collections.abc import Iterable


def html_table(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """Escaped names and values below a title."""
    cells = (f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in rows)
    return f"<table><caption>{html.escape(title)}</caption><tbody>{''.join(cells)}</tbody></table>"
