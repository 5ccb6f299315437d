"""One offline page with all tables and figures, in the look of the report page; and the same tables on the console."""

from __future__ import annotations

import base64
import html
import re
from pathlib import Path
from typing import Any

import pandas as pd
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table as RichTable

from enmf.report.numbers import table as sortable
from enmf.report.page import _document, _section
from paper import pictures
from paper.case import REPRODUCTIONS, Reproduction, Row
from paper.claims import CLAIMS, judge
from paper.runner import read
from paper.runs import TOL
from paper.tidy import Rows, each, failed
from paper.views import VIEWS, View

STYLE = """<style>
table.sortable td { white-space: pre; }
table.contents th, table.contents td { text-align: left; }
table.contents td:first-child { white-space: normal; }
code { font-size: .92em; background: var(--card); border-radius: .25rem; padding: 0 .2rem; }
.figure { background: #fff; border-radius: .4rem; }
</style>"""
WIDTH = 260  # columns of the printed tables; a narrow terminal wraps them
INTRODUCTION = f"""<p class="verdict">The tables and figures of <i>An Exterior Method for Nonnegative Matrix
Factorization</i> (ICML 2026), made again. Figures in brackets are the paper's, all others were measured here.</p>
<p>The judge is the Eckart-Young bound: no factorization of rank r, nonnegative or not, has a smaller error than the
truncated SVD. <i>error / bound</i> of 1 is a proven optimum. <i>kkt</i> is the scale-free KKT residual; at most
{TOL:.0e} is a stationary point. Seconds depend on machine and implementation, their ratios less so.</p>"""


def views_of(name: str, rows: Rows) -> tuple[list[View], list[str]]:
    """The views of a table, and the lines of the cases that failed."""
    lost = failed(rows)
    good = rows[~lost] if name != "reuters" else rows
    words = [", ".join(row.dropna().astype(str)) for _, row in rows[lost].iterrows()]
    return (VIEWS[name](good) if len(good) else []), words


def write_page(size: str, folder: Path) -> Path:
    """Figures and page from the tables that are there; the path of the page."""
    tables = read(folder, size)
    about = {row["name"]: row for row in each(tables.get("about", pd.DataFrame()))}
    parts = [STYLE, INTRODUCTION, _contents(tables)]
    for name, one in REPRODUCTIONS.items():
        if name in tables:
            parts.append(_part(one, tables, about.get(name, {}), folder / size))
    page = folder / ("index.html" if size == "small" else f"{size}.html")
    page.write_text(_document(f"The paper, reproduced ({size} size)", "".join(parts)), encoding="utf-8")
    return page


def _contents(tables: dict[str, Rows]) -> str:
    rows = [
        (one.title, ", ".join(one.shows), f"{one.name}.csv", len(tables[name]))
        for name, one in REPRODUCTIONS.items()
        if name in tables
    ]
    body = "".join(
        f'<tr><td><a href="#{html.escape(file[:-4])}">{html.escape(title)}</a></td><td>{html.escape(shows)}</td>'
        f"<td>{html.escape(file)}</td><td>{count}</td></tr>"
        for title, shows, file, count in rows
    )
    head = "<tr><th>what</th><th>in the paper</th><th>table</th><th>rows</th></tr>"
    return _section(
        "Contents",
        f'<div class="scroll"><table class="contents"><thead>{head}</thead><tbody>{body}</tbody></table></div>',
    )


def _words(text: str) -> str:
    """Plain text with `names`."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


def _claims(name: str, tables: dict[str, Rows]) -> str:
    """The claims that this table decides, with their verdicts."""
    lines = [
        f"<li>{html.escape(claim.said.text)} <b>{html.escape(judge(claim, tables)[0])}</b></li>"
        for claim in CLAIMS
        if claim.tables[0] == name
    ]
    return f"<p>The paper's claims (evidence in docs/paper.md):</p><ul>{''.join(lines)}</ul>" if lines else ""


def _two_lines(cell: Any) -> Any:
    """Ours, and below it the paper's in brackets."""
    return cell.replace(" (", "\n(") if isinstance(cell, str) else cell


def _figure(path: Path, title: str) -> str:
    """A picture that shrinks to three quarters of its size and is then scrolled."""
    picture = path.read_bytes()
    found = re.search(rb'width="([0-9.]+)pt"', picture)
    points = float(found[1]) if found else 500.0
    return (
        f'<div class="scroll"><img class="figure" alt="{html.escape(title)}" '
        f'style="width:{points:.0f}pt;max-width:max(100%,{points:.0f}px)" '
        f'src="data:image/svg+xml;base64,{base64.b64encode(picture).decode()}"></div>'
    )


def _part(one: Reproduction, tables: dict[str, Rows], about: Row, folder: Path) -> str:
    rows = tables[one.name]
    made = ", ".join(about[key] for key in ("date", "machine", "versions") if key in about)
    views, lost = views_of(one.name, rows)
    pieces = [f'<p id="{one.name}">{_words(one.text)}</p>', _claims(one.name, tables)]
    if about:
        pieces.append(
            f'<p class="soft">{html.escape(made)}; {about["seconds"]:.0f} s in all.</p>'
            f"<pre>{html.escape(about['command'])}</pre>"
        )
    path = pictures.draw(one.name, rows, folder)
    if path is not None:
        pieces.append(_figure(path, one.title))
    for view in views:
        long = len(view.rows) > 12
        table = sortable(view.heads, [tuple(map(_two_lines, row)) for row in view.rows])
        caption = _words(view.caption)
        pieces.append(
            f"<details{'' if long else ' open'}><summary>{caption}, {len(view.rows)} rows</summary>{table}</details>"
            if long
            else f"<h3>{caption}</h3>{table}"
        )
    if lost:
        pieces.append("<h3>Failed</h3><ul>" + "".join(f"<li>{html.escape(line)}</li>" for line in lost) + "</ul>")
    return _section(
        f"{html.escape(one.title)} <span class='soft'>{html.escape(', '.join(one.shows))}</span>", "".join(pieces)
    )


def show(chosen: list[Reproduction], size: str, folder: Path, console: Console | None = None) -> None:
    """Print the tables."""
    console = console or Console(width=max(Console().width, WIDTH))
    tables = read(folder, size)
    for one in chosen:
        if one.name not in tables:
            continue
        console.rule(f"{one.title}: {', '.join(one.shows)}")
        views, lost = views_of(one.name, tables[one.name])
        for view in views:
            shown = RichTable(title=view.caption, title_justify="left", box=SIMPLE)
            for place, head in enumerate(view.heads):
                shown.add_column(head, justify="left" if place == 0 else "right", no_wrap=True)
            for row in view.rows:
                shown.add_row(*(f"{value:.6g}" if isinstance(value, float) else str(value) for value in row))
            console.print(shown)
        for line in lost:
            console.print(f"failed: {line}", markup=False)
