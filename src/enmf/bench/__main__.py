"""python -m enmf.bench: run a protocol, or show a table that has been made.

python -m enmf.bench equal-time --data digits --rank 10 --methods hals e-hals --out digits.csv
python -m enmf.bench equal-error --data verb --rank 20 --methods all --starts nine --out verb.csv
python -m enmf.bench show verb.csv
python -m enmf.bench reproduce "table 4" --size small
python -m enmf.bench reproduce --list
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable

from enmf.api.registry import DESCENTS, STARTS
from enmf.bench import outside
from enmf.bench.data import matrix
from enmf.bench.protocols import NINE_STARTS, PROTOCOLS, Setting, count_runs
from enmf.bench.table import Table, summarize
from enmf.datasets import DataFolderMissing


def main(arguments: list[str] | None = None, prog: str = "python -m enmf.bench") -> int:
    about = (__doc__ or "").replace("python -m enmf.bench", prog)
    parser = argparse.ArgumentParser(prog=prog, description=about, formatter_class=_Raw)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in PROTOCOLS:
        command = commands.add_parser(name, help=f"run the {name} protocol")
        command.add_argument("--data", nargs="+", required=True, help="digits, synthetic-<dB>, or a set of ENMF_DATA")
        command.add_argument("--rank", nargs="+", type=int, required=True)
        command.add_argument("--methods", nargs="+", default=["all"], help="names, or all")
        command.add_argument("--starts", nargs="+", default=["nine"], help="names (random-<seed>), or nine")
        command.add_argument("--repeats", type=int, default=1)
        command.add_argument("--threads", type=int, default=None)
        command.add_argument("--tol", type=float, default=1e-5)
        command.add_argument("--patience", type=float, default=20.0, help="equal error: times eNMF's time")
        command.add_argument("--out", default=None, help="CSV file; rows it has already are not made again")
    show = commands.add_parser("show", help="summarize a table")
    show.add_argument("file")
    paper = commands.add_parser("reproduce", help="the paper's tables and figures beside ours")
    paper.add_argument("name", nargs="*", default=["all"], help="all, a name, or one of the paper's: table 4, figure 2")
    paper.add_argument("--size", choices=("tiny", "small", "paper"), default="small")
    paper.add_argument("--out", default=str(Path("benchmarks") / "paper"), help="folder of tables, figures and page")
    paper.add_argument("--threads", type=int, default=None)
    paper.add_argument("--minutes", type=float, default=float("inf"), help="begin no case after this; it goes on later")
    paper.add_argument("--again", action="store_true", help="forget the rows that are there")
    paper.add_argument("--list", action="store_true", help="run nothing: names, cases that are there, their seconds")
    paper.add_argument("--page-only", action="store_true", help="run nothing: figures, page and docs from the tables")
    paper.add_argument("--docs", default=None, help="markdown file to write the claims to, as docs/paper.md")
    options = parser.parse_args(arguments)
    if options.command == "reproduce":
        return reproduce(options)
    if options.command == "show":
        print_summary(Table(options.file))
        return 0
    return _run(options)


def reproduce(options: argparse.Namespace) -> int:
    """Tables, then what is made from them."""
    from enmf.bench import paper

    folder = Path(options.out)
    try:
        chosen = paper.find(" ".join(options.name))
    except ValueError as problem:
        print(problem, file=sys.stderr)
        return 2
    if options.list:
        _list(paper.overview(chosen, options.size, folder))
        return 0
    done = True
    if not options.page_only:
        done = paper.run(
            chosen,
            options.size,
            folder,
            threads=options.threads,
            seconds=60.0 * options.minutes,
            again=options.again,
        )
    paper.show(chosen, options.size, folder)
    print(paper.write_page(options.size, folder))
    if options.docs:
        print(paper.write_claims(options.docs, options.size, folder))
    if not done:
        print("the time was up: the same command goes on from here")
    return 0


def _list(lines: list[dict[str, Any]]) -> None:
    shown = RichTable()
    for head in ("name", "shows", "cases", "seconds", "longest case"):
        shown.add_column(head, justify="right" if head in ("cases", "seconds") else "left")
    for line in lines:
        count = f"{line['done']} of {line['cases']}"
        shown.add_row(line["name"], line["shows"], count, f"{line['seconds']:.0f}", line["longest"])
    shown.add_section()
    shown.add_row("all", "", "", f"{sum(line['seconds'] for line in lines):.0f}", "")
    Console().print(shown)


class _Raw(argparse.RawDescriptionHelpFormatter):
    pass


def opponents(names: list[str]) -> tuple[str, ...]:
    """Method names; "all" stands for every method of ours and every library that is installed."""
    known = (*DESCENTS, *outside.names())
    chosen = known if names == ["all"] else tuple(names)
    unknown = [name for name in chosen if name not in known]
    if unknown:
        raise SystemExit(f"unknown method {', '.join(unknown)}; known are {', '.join(known)}")
    return chosen


def _starts(names: list[str]) -> tuple[str, ...]:
    chosen = NINE_STARTS if names == ["nine"] else tuple(names)
    unknown = [name for name in chosen if name.split("-")[0] not in STARTS]
    if unknown:
        raise SystemExit(f"unknown start {', '.join(unknown)}; known are {', '.join(STARTS)} (and random-<seed>)")
    return chosen


def _run(options: argparse.Namespace) -> int:
    table = Table(options.out)
    methods, starts = opponents(options.methods), _starts(options.starts)
    try:
        settings = [
            Setting(name, X, rank, methods, starts, options.repeats, options.threads, options.tol, options.patience)
            for name, X in ((name, matrix(name)) for name in options.data)
            for rank in options.rank
        ]
    except DataFolderMissing as reason:
        print(reason, file=sys.stderr)
        return 2
    run_settings(options.command, settings, table)
    print_summary(table)
    return 0


def run_settings(protocol: str, settings: list[Setting], table: Table) -> None:
    """Run with a progress line; Ctrl-C leaves the rows made so far."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as progress:
        for setting in settings:
            task = progress.add_task(f"{protocol} {setting.data} r={setting.rank}", total=count_runs(setting))
            done = sum(
                (row.protocol, row.data, row.rank) == (protocol, setting.data, setting.rank) for row in table.rows
            )
            progress.advance(task, done)
            for row in PROTOCOLS[protocol](setting, table):
                progress.update(
                    task, advance=1, description=f"{protocol} {row.data} r={row.rank} {row.method} {row.start}"
                )


def print_summary(table: Table, console: Console | None = None) -> None:
    console = console or Console()
    groups: dict[tuple[str, str, int], list] = {}
    for line in summarize(table.rows):
        groups.setdefault((line.protocol, line.data, line.rank), []).append(line)
    for (protocol, data, rank), lines in groups.items():
        shown = RichTable(title=f"{protocol}: {data}, rank {rank}", title_justify="left")
        for header in (
            "method",
            "best",
            "median",
            "worst",
            "best start",
            "status",
            "seconds",
            "time / eNMF's",
            "error / eNMF's",
            "error / bound",
            "kkt",
        ):
            shown.add_column(header, justify="left" if header in ("method", "best start", "status") else "right")
        for line in sorted(lines, key=lambda line: (line.best_error, line.seconds)):
            shown.add_row(
                line.method,
                f"{line.best_error:.6g}",
                f"{line.median_error:.6g}",
                f"{line.worst_error:.6g}",
                line.best_start,
                line.status,
                f"{line.seconds:.3g}",
                f"{line.time_ratio:.2f}",
                f"{line.error_ratio:.5f}",
                f"{line.bound_ratio:.5f}",
                f"{line.kkt:.1e}",
            )
        console.print(shown)


if __name__ == "__main__":
    sys.exit(main())
