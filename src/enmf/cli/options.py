"""Options that several commands share, each declared once.

An option that is not given is None and means the default of the library, which is not imported for --help; `enmf info`
prints these defaults.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from typer.models import OptionInfo

from enmf.cli.outputs import Outputs
from enmf.io.reading import Reading

Command = Callable[..., None]


def option(help: str, *names: str, metavar: str | None = "FILE", **more: Any) -> Any:
    return typer.Option(*names, metavar=metavar, help=help, **more)


def flag(help: str, *names: str) -> Any:
    return typer.Option(*names, help=help)


def library(help: str, metavar: str = "N") -> Any:
    """An option whose default is that of the library."""
    return option(f"{help}  [default: see `enmf info`]", metavar=metavar)


FORMATS = "csv, tsv or other text, npy, npz, mtx, parquet, h5ad, or a 10x folder; - reads csv from standard input"
BLOCKS = "; a folder of npz, npy or parquet parts, or a zarr store, is read in blocks"
SEED = option("random seed; the same seed gives the same result", metavar="N")
THREADS = option("number of threads  [default: all]", metavar="N", min=1)
REPORT = option("HTML page that shows the result", "--report")
QUIET = flag("print nothing but problems", "--quiet", "-q")
FORCE = flag("replace existing files, but never an input", "--force")

Data = Annotated[str, typer.Argument(metavar="DATA", show_default=False, help=FORMATS)]
LargeData = Annotated[str, typer.Argument(metavar="DATA", show_default=False, help=FORMATS + BLOCKS)]
Rank = Annotated[int, option("number of components", "--rank", "-r", metavar="N", min=1, show_default=False)]
Seed = Annotated[int, SEED]
Threads = Annotated[int | None, THREADS]
Report = Annotated[str | None, REPORT]
Quiet = Annotated[bool, QUIET]
Force = Annotated[bool, FORCE]
Json = Annotated[bool, flag("print JSON", "--json")]


@dataclass(frozen=True)
class Solving:
    """Limits, seed and threads of a run."""

    tol: float | None = None
    max_iter: int | None = None
    time_limit: float | None = None
    seed: int = 0
    threads: int | None = None

    def arguments(self) -> dict[str, Any]:
        """Arguments of `enmf.factorize` and `enmf.complete`."""
        limits = given(tol=self.tol, max_iter=self.max_iter, time_limit=self.time_limit)
        return {**limits, "random_state": self.seed, "n_threads": self.threads}


def given(**options: Any) -> dict[str, Any]:
    """The options that were given; the others keep the defaults of the library."""
    return {name: value for name, value in options.items() if value is not None}


@dataclass(frozen=True)
class Group:
    """A dataclass whose fields are options: types and defaults are its own, names and help texts come from here."""

    made: Callable[..., Any]
    options: dict[str, OptionInfo]

    def parameters(self) -> list[inspect.Parameter]:
        fields = inspect.signature(self.made, eval_str=True).parameters
        return [
            fields[name].replace(
                kind=inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[fields[name].annotation, how]
            )
            for name, how in self.options.items()
        ]


SOLVING = Group(
    Solving,
    {
        "tol": library("KKT residual at which the run has converged", "TOL"),
        "max_iter": library("maximum number of descent iterations"),
        "time_limit": option("stop after this time and take the factors reached so far", metavar="SECONDS"),
        "seed": SEED,
        "threads": THREADS,
    },
)
READING = Group(
    Reading,
    {
        "format": option("format of the file, whatever its extension", metavar="csv|npy|..."),
        "header": flag("text: whether the first line names the columns", "--header/--no-header"),
        "index": option("text, parquet: column of row names, by name or number from 1, or none", metavar="COLUMN"),
        "sep": option("text: separator, a character or tab or blank", metavar="CHAR"),
        "decimal": option("text: decimal mark", metavar="CHAR"),
        "encoding": option("text: encoding, for example latin-1", metavar="NAME"),
        "skip": option("text: number of lines above the table to skip", metavar="N", min=0),
        "drop": option("columns to drop, by name or number, separated by commas", metavar="COLUMNS"),
        "transpose": flag("exchange rows and columns after reading", "--transpose"),
        "layer": option("h5ad: layer to use instead of X", metavar="NAME"),
        "row_names": option("text file with the row names, one per line"),
        "column_names": option("text file with the column names, one per line"),
    },
)
OUTPUTS = Group(
    Outputs,
    {
        "out": option("npz file for the factors  [default: name of the data + .factors.npz]"),
        "tables": option("also write both factors as tables with names", metavar="csv|parquet"),
        "certificate": option("JSON file for the certificate"),
        "trace": option("JSON file with one row per iteration"),
        "report": REPORT,
        "image_shape": option("report: every row is an image of this shape, for example 28x28", metavar="HxW"),
        "force": FORCE,
        "quiet": QUIET,
    },
)


def grouped(**groups: Group) -> Callable[[Command], Command]:
    """Turn the parameters of these names into the options of their groups."""

    def decorated(command: Command) -> Command:
        own = inspect.signature(command, eval_str=True).parameters
        options = {name: group.parameters() for name, group in groups.items()}

        @functools.wraps(command)
        def run(**values: Any) -> None:
            made = {
                name: group.made(**{field: values.pop(field) for field in group.options})
                for name, group in groups.items()
            }
            command(**values, **made)

        shown = [p.replace(kind=p.KEYWORD_ONLY) for name, p in own.items() if name not in groups]
        shown += [p for held in options.values() for p in held]
        run.__annotations__ = {p.name: p.annotation for p in shown}
        run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
        return run

    return decorated
