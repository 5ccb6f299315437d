"""python -m enmf.bench: run a protocol, or show a table that has been made.

python -m enmf.bench equal-time --data digits --rank 10 --methods hals e-hals --out digits.csv
python -m enmf.bench equal-error --data verb --rank 20 --methods all --starts nine --out verb.csv
python -m enmf.bench show verb.csv
"""

from __future__ import annotations

import argparse
import sys

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
    options = parser.parse_args(arguments)
    if options.command == "show":
        print_summary(Table(options.file))
        return 0
    return _run(options)


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
