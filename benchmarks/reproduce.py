"""The paper's tables and figures, made again beside its own.

ENMF_DATA=<folder> python benchmarks/reproduce.py all --size small --docs docs/paper.md
python benchmarks/reproduce.py "table 4" --size small
python benchmarks/reproduce.py --list
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table as RichTable

import paper

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)


@app.command(epilog=(__doc__ or "").replace("\n\n", "\n\n\b\n"))
def reproduce(
    name: Annotated[list[str] | None, typer.Argument(help="all, a name, or the paper's: table 4, figure 2")] = None,
    *,
    size: Literal["tiny", "small", "paper"] = "small",
    out: Annotated[Path, typer.Option(help="folder of tables, figures and page")] = paper.FOLDER,
    threads: int | None = None,
    minutes: Annotated[float, typer.Option(help="begin no case after this; the same command resumes")] = float("inf"),
    again: Annotated[bool, typer.Option("--again", help="forget the rows that are there")] = False,
    overview: Annotated[bool, typer.Option("--list", help="run nothing: names, cases that are there, seconds")] = False,
    page_only: Annotated[bool, typer.Option("--page-only", help="run nothing: page and docs from the tables")] = False,
    docs: Annotated[Path | None, typer.Option(help="markdown file for the claims, as docs/paper.md")] = None,
) -> None:
    """Make what is missing in the paper's tables, then figures and page from them."""
    try:
        chosen = paper.find(" ".join(name or ["all"]))
    except ValueError as problem:
        raise typer.BadParameter(str(problem)) from None
    if overview:
        print_overview(paper.overview(chosen, size, out))
        return
    done = page_only or paper.run(chosen, size, out, threads=threads, seconds=60.0 * minutes, again=again)
    paper.show(chosen, size, out)
    print(paper.write_page(size, out))
    if docs:
        print(paper.write_claims(docs, size, out))
    if not done:
        print("the time was up: the same command resumes here")


def print_overview(lines: list[paper.Row]) -> None:
    shown = RichTable()
    for head in ("name", "shows", "cases", "seconds", "longest case"):
        shown.add_column(head, justify="right" if head in ("cases", "seconds") else "left")
    for line in lines:
        count = f"{line['done']} of {line['cases']}"
        shown.add_row(line["name"], line["shows"], count, f"{line['seconds']:.0f}", line["longest"])
    shown.add_section()
    shown.add_row("all", "", "", f"{sum(line['seconds'] for line in lines):.0f}", "")
    Console().print(shown)


if __name__ == "__main__":
    app()
