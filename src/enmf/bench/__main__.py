"""Run a protocol, or show a table that has been made.

python -m enmf.bench equal-time --data digits --rank 10 --methods hals e-hals --out digits.csv
python -m enmf.bench equal-time --data digits --rank 10 --methods e-hals sklearn-mu --loss kullback-leibler
python -m enmf.bench equal-error --data verb --rank 20 --methods all --starts nine --out verb.csv
python -m enmf.bench show verb.csv

`enmf bench` is the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable
from typer.core import TyperCommand

from enmf.api.registry import DESCENTS, STARTS
from enmf.bench import outside
from enmf.bench.data import matrix
from enmf.bench.protocols import NINE_STARTS, PROTOCOLS, Setting, count_runs
from enmf.bench.table import Summary, Table, in_losses, summarize
from enmf.datasets import DataFolderMissing
from enmf.io.reading import option, parse_loss
from enmf.losses.base import Loss
from enmf.problem.problem import FROBENIUS
from enmf.problem.validation.losses import check_loss

app = typer.Typer(
    help=(__doc__ or "").replace("\n\n", "\n\n\b\n", 1),
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class SeveralValues(TyperCommand):
    """Takes `--data a b` as `--data a --data b`, for every option that may be repeated."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        repeatable = {name for one in self.params if getattr(one, "multiple", False) for name in one.opts}
        return super().parse_args(ctx, repeated(args, repeatable))


def repeated(arguments: list[str], options: Collection[str]) -> list[str]:
    """The arguments with each of these options written before each of its values."""
    found: list[str] = []
    current = ""
    for word in arguments:
        if word.startswith("--"):
            current = word.split("=")[0]
        elif current in options and found[-1] != current:
            found.append(current)
        found.append(word)
    return found


def main(arguments: list[str] | None = None, prog: str = "python -m enmf.bench") -> int:
    """The command as a function; wrong usage is an exception."""
    return app(arguments, prog_name=prog, standalone_mode=False) or 0


def _several(metavar: str, help: str) -> Any:
    return option(f"{metavar} [{metavar} ...]", help)


def opponents(names: list[str], loss: Loss = FROBENIUS) -> tuple[str, ...]:
    """Method names; "all" stands for every method of ours and every installed library that minimizes the loss."""
    known = (*DESCENTS, *outside.names())
    chosen = tuple(names)
    if names == ["all"]:
        chosen = tuple(name for name in known if _minimizes(name, loss))
    unknown = [name for name in chosen if name not in known]
    if unknown:
        raise typer.BadParameter(f"unknown method {', '.join(unknown)}; known are {', '.join(known)}")
    return chosen


def _minimizes(name: str, loss: Loss) -> bool:
    if name not in DESCENTS:
        return outside.takes(name, loss.degree)
    return DESCENTS[name].needs <= loss.offers()


def _starts(names: list[str]) -> tuple[str, ...]:
    chosen = NINE_STARTS if names == ["nine"] else tuple(names)
    unknown = [name for name in chosen if name.split("-")[0] not in STARTS]
    if unknown:
        known = ", ".join(STARTS)
        raise typer.BadParameter(f"unknown start {', '.join(unknown)}; known are {known} (and random-<seed>)")
    return chosen


def _command(protocol: str) -> Callable[..., None]:
    def run(
        data: Annotated[list[str], _several("NAME", "digits, synthetic-<dB>, or a set of ENMF_DATA")],
        rank: Annotated[list[int], _several("N", "numbers of components")],
        methods: Annotated[list[str] | None, _several("NAME", "names, or all  [default: all]")] = None,
        starts: Annotated[list[str] | None, _several("NAME", "names (random-<seed>), or nine  [default: nine]")] = None,
        repeats: Annotated[int, option("N", "times that every run is made")] = Setting.repeats,
        threads: Annotated[int | None, option("N", "threads of everybody  [default: all]")] = None,
        tol: Annotated[float, option("TOL", "KKT residual of a run that has converged")] = Setting.tol,
        patience: Annotated[float, option("N", "equal error: times eNMF's time")] = Setting.patience,
        loss: Annotated[str, option("NAME", "loss of everybody: a name, or beta from 0 to 2")] = "frobenius",
        out: Annotated[str | None, option("FILE", "CSV file; rows it has already are not made again")] = None,
    ) -> None:
        """Run the protocol on every matrix with every rank; one row per run."""
        table = Table(out)
        try:
            wanted = check_loss(parse_loss(loss), "--loss")
        except ValueError as problem:
            raise typer.BadParameter(str(problem)) from None
        chosen = opponents(methods or ["all"], wanted)
        given = (chosen, _starts(starts or ["nine"]), repeats, threads, tol, patience, wanted.name)
        try:
            matrices = {name: matrix(name) for name in data}
        except DataFolderMissing as reason:
            print(reason, file=sys.stderr)
            raise typer.Exit(2) from None
        run_settings(protocol, [Setting(name, X, r, *given) for name, X in matrices.items() for r in rank], table)
        print_summary(table)

    return run


for name in PROTOCOLS:
    app.command(name, cls=SeveralValues, short_help=f"Run the {name} protocol.")(_command(name))


@app.command(short_help="Summarize a table.")
def show(file: Annotated[str, typer.Argument(metavar="FILE", help="CSV file that a protocol has written")]) -> None:
    """Summarize a table that a protocol has written."""
    print_summary(Table(file))


def run_settings(protocol: str, settings: list[Setting], table: Table) -> None:
    """Run with a progress line; Ctrl-C leaves the rows made so far."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as progress:
        for setting in settings:
            words = f"{protocol} {setting.data} r={setting.rank}"
            task = progress.add_task(words, total=count_runs(setting))
            same = (protocol, setting.data, setting.rank, check_loss(setting.loss).name)
            progress.advance(task, sum((row.protocol, row.data, row.rank, row.loss) == same for row in table.rows))
            for row in PROTOCOLS[protocol](setting, table):
                progress.update(task, advance=1, description=f"{words} {row.method} {row.start}")


COLUMNS = {  # heading: how a line of the summary is shown there; text is on the left
    "method": "{0.method}",
    "best": "{0.best_error:.6g}",
    "median": "{0.median_error:.6g}",
    "worst": "{0.worst_error:.6g}",
    "best start": "{0.best_start}",
    "status": "{0.status}",
    "seconds": "{0.seconds:.3g}",
    "time / eNMF's": "{0.time_ratio:.2f}",
    "error / eNMF's": "{0.error_ratio:.5f}",
    "error / bound": "{0.bound_ratio:.5f}",
    "kkt": "{0.kkt:.1e}",
}


def print_summary(table: Table, console: Console | None = None) -> None:
    groups: dict[tuple[str, str, int, str], list[Summary]] = {}
    for line in summarize(table.rows):
        groups.setdefault((line.protocol, line.data, line.rank, line.loss), []).append(line)
    for (protocol, data, rank, loss), lines in groups.items():
        title, columns = f"{protocol}: {data}, rank {rank}", COLUMNS
        if loss != "frobenius":  # in its own terms; no bound is known
            title, lines = f"{title}, loss {loss}", [in_losses(line) for line in lines]
            columns = {name.replace("error", "loss"): form for name, form in COLUMNS.items() if "bound" not in name}
        shown = RichTable(title=title, title_justify="left")
        for heading, form in columns.items():
            shown.add_column(heading, justify="right" if ":" in form else "left")
        for line in sorted(lines, key=lambda line: (line.best_error, line.seconds)):
            shown.add_row(*(form.format(line) for form in columns.values()))
        (console or Console()).print(shown)


if __name__ == "__main__":
    app(prog_name="python -m enmf.bench")
