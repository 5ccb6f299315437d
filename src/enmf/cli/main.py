"""The command line: arguments in, calls out. What computes is imported when a command runs, so that --help is quick.

Exit codes: 0 done; 2 bad input, with one line that names the file, the place and the remedy; 3 not converged (what was
reached is written); 130 interrupted, 143 terminated (what was reached is written).
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import os
import shlex
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from enmf.io.messages import STDIN, InputProblem, one_line, printable

if TYPE_CHECKING:
    from enmf.io.tables import Table
    from enmf.io.textfiles import Reading
    from enmf.run.result import Result

BAD_INPUT, NOT_CONVERGED, INTERRUPTED, TERMINATED = 2, 3, 130, 143
DONE = ("global_optimum", "exact", "converged", "target_reached")
NOT_FACTORS = (".csv", ".tsv", ".txt", ".npy", ".mtx", ".parquet", ".h5ad", ".json", ".html", ".png")
_terminated = False


class _Guarded(TyperGroup):
    """One place where problems become a line and an exit code; ENMF_TRACEBACK=1 shows where they came from."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            print("enmf: interrupted", file=sys.stderr)
            raise typer.Exit(_interrupted()) from None
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has seen enough
            raise typer.Exit(0) from None
        except (InputProblem, ValueError, TypeError, OSError, MemoryError, ImportError) as problem:
            if os.environ.get("ENMF_TRACEBACK"):
                raise
            _say(f"enmf: {' '.join(str(problem).split()) or type(problem).__name__}", sys.stderr)
            raise typer.Exit(BAD_INPUT) from None


def _say(text: object, file: Any = None) -> None:
    """Everything that may hold a name from a file is printed here."""
    print(printable(str(text)), file=file, flush=True)


app = typer.Typer(
    cls=_Guarded,
    name="enmf",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples
  enmf factorize spectra.csv --rank 10 --report spectra.html
  enmf rank spectra.csv --ranks 2:20
  enmf complete ratings.csv --triplets --rank 10 --ridge 0.1

\b
Exit codes: 0 done, 2 bad input, 3 not converged, 130 interrupted, 143
terminated. The last three have written what was reached.
`enmf --install-completion` teaches the shell the commands and options.""",
)

# ---------------------------------------------------------------- options

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        show_default=False,
        help="csv, tsv or other text, npy, npz, mtx, parquet, h5ad, or a folder of 10x; - is csv from standard input",
    ),
]
LargeData = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        show_default=False,
        help="csv, tsv or other text, npy, npz, mtx, parquet, h5ad, or a folder of 10x; - is csv from standard input; "
        "a folder of npz, npy or parquet parts, or a zarr store, is read in blocks",
    ),
]


def _file(help: str, *names: str, metavar: str = "FILE") -> Any:
    return typer.Option(*names, metavar=metavar, help=help)


Rank = Annotated[int, typer.Option("--rank", "-r", min=1, metavar="N", help="number of components", show_default=False)]
Tol = Annotated[float, typer.Option(metavar="TOL", help="KKT residual at which the run has converged")]
MaxIter = Annotated[int, typer.Option(metavar="N", help="largest number of descent iterations")]
Seed = Annotated[int, typer.Option(metavar="N", help="seed; the same one gives the same result")]
Limit = Annotated[
    float | None, typer.Option(metavar="SECONDS", help="time after which the factors reached so far are taken")
]
Threads = Annotated[int | None, typer.Option(min=1, metavar="N", help="threads  [default: all]")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="print nothing but problems")]
Force = Annotated[bool, typer.Option("--force", help="replace files that exist; never those that are read")]
Json = Annotated[bool, typer.Option("--json", help="print JSON")]
ReportFile = Annotated[str | None, _file("HTML page with the result, for a browser", "--report")]


def reading(
    *,
    format: Annotated[str | None, _file("what the file is, whatever its ending", metavar="csv|npy|...")] = None,
    header: Annotated[
        bool | None, typer.Option("--header/--no-header", help="text: the first line names the columns, or is data")
    ] = None,
    index: Annotated[
        str | None, _file("text, parquet: column of row names, by name or number from 1; or none", metavar="COLUMN")
    ] = None,
    sep: Annotated[str | None, _file("text: separator; also tab, blank", metavar="CHAR")] = None,
    decimal: Annotated[str | None, _file("text: decimal mark", metavar="CHAR")] = None,
    encoding: Annotated[str | None, _file("text: for example latin-1", metavar="NAME")] = None,
    skip: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="text: lines above the table to leave out")
    ] = None,
    drop: Annotated[
        list[str] | None, _file("columns to leave out, by name or number, with commas between", metavar="COLUMNS")
    ] = None,
    transpose: Annotated[bool, typer.Option("--transpose", help="exchange rows and columns after reading")] = False,
    layer: Annotated[str | None, _file("h5ad: layer to use instead of X", metavar="NAME")] = None,
    row_names: Annotated[str | None, _file("text file with the names of the rows, one on each line")] = None,
    column_names: Annotated[str | None, _file("text file with the names of the columns, one on each line")] = None,
) -> Any:
    """How the data are read, where it is not as the file shows."""
    from enmf.io.textfiles import Reading

    given = (format, header, index, sep, decimal, encoding, skip, drop or (), transpose, layer, row_names, column_names)
    return Reading(*given)


@dataclass(frozen=True)
class Outputs:
    """The files that a run writes, and what it prints."""

    out: str | None
    tables: str | None
    certificate: str | None
    trace: str | None
    report: str | None
    image_shape: tuple[int, int] | None
    force: bool
    quiet: bool

    def factors(self, source: str) -> str:
        """The npz file of the factors."""
        stem = "stdin" if source == STDIN else Path(source).name.split(".")[0] or "data"
        path = self.out or f"{stem}.factors.npz"
        special = os.path.exists(path) and not os.path.isfile(path)
        return path if path.endswith(".npz") or special else f"{path}.npz"

    def labelled(self, source: str) -> list[str]:
        """The tables of both factors."""
        stem = self.factors(source).removesuffix(".npz")
        return [f"{stem}.{letter}.{self.tables}" for letter in "UV"] if self.tables else []

    def check(self, source: str, inputs: Sequence[str | None], also: str | None = None) -> None:
        """What would fail after the work is told before it."""
        if self.tables not in (None, "csv", "parquet"):
            raise InputProblem("--tables", f"{self.tables!r} is not known", "Choose csv or parquet")
        if self.tables == "parquet":
            _check_installed("pyarrow", "--tables parquet")
        if self.out is not None and self.out.lower().endswith(NOT_FACTORS):
            remedy = "Choose a name that ends in .npz; --tables csv writes tables, --report a page"
            raise InputProblem(self.out, "the factors are written as npz", remedy)
        if self.image_shape is not None and self.report is None:
            raise InputProblem("--image-shape", "is for the report", "Add --report page.html")
        paths = [self.factors(source), *self.labelled(source), self.certificate, self.trace, self.report, also]
        _check_outputs([source, *inputs], paths, self.force)

    def check_shape(self, table: Table) -> None:
        """The images of the report must have as many pixels as the table has columns."""
        shape = getattr(table.values, "shape", None)  # of blocks it is not known yet
        if self.image_shape is not None and shape is not None:
            height, width = self.image_shape
            if height * width != shape[1]:
                raise InputProblem(
                    "--image-shape",
                    f"{height}x{width} has {height * width} pixels, {table.source} has {shape[1]} columns",
                    "Give height and width of the images in the rows",
                )


def outputs(
    *,
    out: Annotated[str | None, _file("npz file for the factors  [default: name of the data + .factors.npz]")] = None,
    tables: Annotated[str | None, _file("also write both factors with names", metavar="csv|parquet")] = None,
    certificate: Annotated[str | None, _file("JSON file for the certificate", "--certificate")] = None,
    trace: Annotated[str | None, _file("JSON file with one row per iteration", "--trace")] = None,
    report: ReportFile = None,
    image_shape: Annotated[str | None, _file("report: every row is an image, for example 28x28", metavar="HxW")] = None,
    force: Force = False,
    quiet: Quiet = False,
) -> Any:
    """Where the results go."""
    return Outputs(out, tables, certificate, trace, report, _shape(image_shape), force, quiet)


def _with(**groups: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command whose arguments of these names are made by these functions, from options that are theirs."""

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters
        options = {name: inspect.signature(group, eval_str=True).parameters for name, group in groups.items()}

        @functools.wraps(command)
        def run(**given: Any) -> None:
            made = {name: group(**{o: given.pop(o) for o in options[name]}) for name, group in groups.items()}
            command(**given, **made)

        shown = [p.replace(kind=p.KEYWORD_ONLY) for name, p in own.items() if name not in groups]
        shown += [p for held in options.values() for p in held.values()]
        run.__annotations__ = {p.name: p.annotation for p in shown}
        run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
        return run

    return decorated


# ---------------------------------------------------------------- commands


def _version(wanted: bool) -> None:
    if wanted:
        from enmf import __version__

        print(f"enmf {__version__}")
        raise typer.Exit


@app.callback()
def enmf_(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="print it")] = False,
) -> None:
    """Nonnegative matrix factorization with a certificate.

    X ~ U Vᵀ with U >= 0 and V >= 0.
    """


@app.command(
    short_help="Factorize a complete table and certify the result.",
    epilog="""\b
Examples
  enmf factorize spectra.csv --rank 10
  enmf factorize counts.mtx.gz --rank 20 --column-names genes.txt --tables csv
  cat table.csv | enmf factorize - --rank 5 --out table.npz
  enmf factorize large.npy --rank 20 --memory-limit 2GB --checkpoint run1
  enmf factorize parts --rank 20 --scheduler tcp://head:8786""",
)
@_with(reading=reading, outputs=outputs)
def factorize(
    data: LargeData,
    rank: Rank,
    *,
    method: Annotated[str, typer.Option(metavar="NAME", help="see `enmf info`")] = "enmf",
    init: Annotated[str | None, typer.Option(metavar="NAME", help="start, see `enmf info`")] = None,
    tol: Tol = 1e-5,
    max_iter: MaxIter = 2000,
    restarts: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="further starts, of which the best is kept (method enmf)")
    ] = None,
    time_limit: Limit = None,
    seed: Seed = 0,
    threads: Threads = None,
    dtype: Annotated[str | None, typer.Option(metavar="float32|float64", help="precision to work in")] = None,
    memory_limit: Annotated[
        str | None, typer.Option(metavar="BYTES", help="read npy, folders and zarr in blocks, for example 2GB")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Dask scheduler whose workers read and factorize the data")
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="save the factors there; the same command goes on from them")
    ] = None,
    reading: Any,
    outputs: Outputs,
) -> None:
    """Factorize a complete nonnegative table and certify the result."""
    outputs.check(data, [reading.row_names, reading.column_names])
    _check_not_inputs(checkpoint, [data])
    import numpy as np

    from enmf import factorize as work

    in_blocks = memory_limit is not None or scheduler is not None
    table = _open_blocks(data, in_blocks, reading) or _read(data, reading)
    outputs.check_shape(table)
    _show(table, outputs.quiet)
    more: dict[str, Any] = {} if restarts is None else {"restarts": restarts}
    with _in_words_of(table), _workers_at(scheduler):
        result = work(
            table.values,
            rank,
            method,
            init=init,
            tol=tol,
            max_iter=max_iter,
            time_limit=time_limit,
            random_state=seed,
            n_threads=threads,
            dtype=dtype,
            memory_limit=memory_limit,
            checkpoint=checkpoint,
            verbose=_watched(outputs.quiet),
            **more,
        )
        result = replace(result, U=np.asarray(result.U))  # from the workers, while they are there
    _finish(result, table, outputs)


@app.command(
    short_help="Factorize a table with missing entries and estimate them.",
    epilog="""\b
Examples
  enmf complete table_with_gaps.csv --rank 5
  enmf complete ratings.dat --triplets --rank 10 --ridge 0.1
  enmf complete ratings.csv --triplets --rank 10 --predict estimates.csv""",
)
@_with(reading=reading, outputs=outputs)
def complete(
    data: Data,
    rank: Rank,
    *,
    triplets: Annotated[bool, typer.Option("--triplets", help="every line is row, column, value")] = False,
    missing: Annotated[
        str | None, typer.Option(metavar="nan|unstored|none", help="what is missing  [default: empty cells, NaN]")
    ] = None,
    ridge: Annotated[float, typer.Option(metavar="WEIGHT", help="regularisation; decisive for ratings")] = 0.0,
    tol: Tol = 1e-4,
    max_iter: MaxIter = 1000,
    time_limit: Limit = None,
    seed: Seed = 0,
    threads: Threads = None,
    predict: Annotated[str | None, _file("csv file for the estimates of all missing entries")] = None,
    reading: Any,
    outputs: Outputs,
) -> None:
    """Factorize a table with missing entries; the factors estimate them."""
    outputs.check(data, [reading.row_names, reading.column_names], predict)
    from enmf import complete as work

    triplets = triplets or data.lower().endswith((".dat", "u.data"))
    table = _read(data, replace(reading, triplets=triplets))
    outputs.check_shape(table)
    _show(table, outputs.quiet)
    with _in_words_of(table, complete=True):
        result = work(
            table.values,
            rank,
            missing="unstored" if triplets and missing is None else missing,
            ridge=ridge,
            tol=tol,
            max_iter=max_iter,
            time_limit=time_limit,
            random_state=seed,
            n_threads=threads,
            verbose=_watched(outputs.quiet),
        )
    _finish(result, table, outputs, predict)


@app.command(
    short_help="How close to the best possible are factors from any library?",
    epilog="""\b
Examples
  enmf certify spectra.csv spectra.factors.npz
  enmf certify X.npy factors_of_another_library.npz --json
The npz file holds arrays U and V, or W and H.""",
)
@_with(reading=reading)
def certify(
    data: Data,
    factors: Annotated[
        str, typer.Argument(metavar="FACTORS", help="npz file with U and V, or W and H", show_default=False)
    ],
    *,
    tol: Annotated[
        float, typer.Option(metavar="TOL", help="KKT residual up to which the factors count as stationary")
    ] = 1e-5,
    json: Json = False,
    reading: Any,
) -> None:
    """How close to the best possible are factors from any library?"""
    from enmf import certify as work
    from enmf.io import tables

    table = _read(data, reading)
    found, _, _ = tables.load_result(factors)
    U, V = found if isinstance(found, tuple) else (found.U, found.V)
    _show(table, json)
    with _in_words_of(table):
        certificate = work(table.values, U, V, tol=tol)
    print(tables.to_json(certificate.to_dict(), indent=1) if json else certificate.report())


@app.command(
    short_help="Suggest a rank, from bound, error, held-out error and stability.",
    epilog="""\b
Examples
  enmf rank spectra.csv
  enmf rank counts.mtx.gz --ranks 5:50:5 --plot ranks.png --out ranks.csv
  enmf rank spectra.csv --ranks 2:20 --checkpoint ranks.npz""",
)
@_with(reading=reading)
def rank(
    data: Data,
    *,
    ranks: Annotated[
        str | None,
        typer.Option(
            metavar="RANKS", help="ranks to look at: 2:20, 5:50:5 or 3,5,8  [default: 2:20, less in narrow tables]"
        ),
    ] = None,
    folds: Annotated[int, typer.Option(metavar="N", help="how often entries are hidden")] = 4,
    sample: Annotated[
        int, typer.Option(metavar="N", help="entries of the data that held-out errors use; 0 for all")
    ] = 100_000,
    tol: Annotated[
        float, typer.Option(metavar="TOL", help="KKT residual at which the fit of a rank has converged")
    ] = 3e-3,
    seed: Seed = 0,
    threads: Threads = None,
    out: Annotated[str | None, _file("csv or json file for the table")] = None,
    plot: Annotated[str | None, _file("picture of the table, png, svg or pdf")] = None,
    checkpoint: Annotated[str | None, _file("npz file with the finished ranks, from which the command goes on")] = None,
    json: Json = False,
    force: Force = False,
    quiet: Quiet = False,
    reading: Any,
) -> None:
    """Which rank? Bound, error, held-out error and stability of each, and a suggestion."""
    inputs = [data, reading.row_names, reading.column_names]
    _check_outputs(inputs, [out, plot], force)
    _check_not_inputs(checkpoint, [*inputs, out, plot])
    wanted = None if ranks is None else _ranks(ranks)
    if out is not None and not out.lower().endswith((".csv", ".json")):
        raise InputProblem(out, "this is neither csv nor json", "Choose a name that ends in .csv or .json")
    if plot is not None:
        _check_picture(plot)
    from enmf.api.rank import HEADER, format_row, select_rank
    from enmf.io import tables

    table = _read(data, reading)
    _show(table, quiet or json)
    watched = _watched(quiet)
    if watched:
        print(HEADER, file=sys.stderr)

    def show(row: dict[str, Any]) -> None:
        if watched:
            print(format_row(row["rank"], row), file=sys.stderr)

    with _in_words_of(table):
        found = select_rank(
            table.values,
            wanted or _usual_ranks(table),
            folds=folds,
            sample=sample or None,
            tol=tol,
            random_state=seed,
            n_threads=threads,
            callback=show,
            checkpoint=checkpoint,
        )
    if out is not None and out.lower().endswith(".json"):
        tables.save_json(out, found.to_dict())
    elif out is not None:
        tables.writable(out, found.table.to_csv)
    if plot is not None:
        tables.writable(plot, found.plot()[0].figure.savefig)
    if json:
        print(tables.to_json(found.to_dict(), indent=1))
    elif not quiet:
        print(found)
        _say_written([path for path in (out, plot) if path])
    if not found.complete:
        raise typer.Exit(_interrupted())


@app.command(
    short_help="Are two solutions the same but for order, scale and rotation?",
    epilog="""\b
Examples
  enmf compare first.npz second.npz
  enmf compare first.npz second.npz --data spectra.csv --json""",
)
@_with(reading=reading)
def compare(
    factors: Annotated[
        list[str],
        typer.Argument(metavar="FACTORS", help="npz files with factors of the same data", show_default=False),
    ],
    *,
    data: Annotated[str | None, _file("the data: gives the errors of both", metavar="DATA")] = None,
    json: Json = False,
    report: ReportFile = None,
    force: Force = False,
    reading: Any,
) -> None:
    """Are two solutions the same up to order, scale and rotation of their components?"""
    if len(factors) < 2:
        raise InputProblem(factors[0], "there is nothing to compare it with", "Name two files")
    _check_outputs([*factors, data, reading.row_names, reading.column_names], [report], force)
    from enmf import compare as work
    from enmf.io import tables

    found = [tables.load_result(path)[0] for path in factors]
    plain = [path for path, held in zip(factors, found) if isinstance(held, tuple)]
    if report is not None and plain:
        raise InputProblem(
            plain[0], "holds factors only, no course of a run", "Reports compare files of `enmf factorize`"
        )
    table = _read(data, reading) if data is not None else None
    if table is not None:
        _show(table, json)
    with _in_words_of(table) if table is not None else contextlib.nullcontext():
        X = None if table is None else table.values
        pairs = [(factors[0], name, work(found[0], other, X)) for name, other in zip(factors[1:], found[1:])]
    if report is not None:
        from enmf.report import write

        write(report, [held for held in found if not isinstance(held, tuple)], names=factors)
    if json:
        print(tables.to_json([{"a": a, "b": b, **pair.to_dict()} for a, b, pair in pairs], indent=1))
    else:
        _say("\n\n".join(f"A = {a}\nB = {b}\n{pair}" for a, b, pair in pairs))
        _say_written([report] if report else [])


@app.command(
    add_help_option=False,
    short_help="Compare methods under one fair clock.",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def bench(ctx: typer.Context) -> None:
    """Compare methods under one fair clock (as python -m enmf.bench)."""
    from enmf.bench.__main__ import app as of_bench

    _run_begins()
    command = typer.main.get_command(of_bench)
    with command.make_context("enmf bench", list(ctx.args)) as inner:
        command.invoke(inner)


@app.command(short_help="Factorize handwritten digits and show what comes out.")
def demo() -> None:
    """Factorize the handwritten digits that come with scikit-learn; the page is digits.html."""
    from enmf.cli.demo import main as run

    _run_begins()
    run()


@app.command(short_help="Versions, threads, methods, starts, and readable formats.")
def info(json: Json = False) -> None:
    """Versions, threads, methods, starts, and which formats can be read."""
    import enmf
    from enmf.api.registry import completion_methods
    from enmf.io import tables

    facts: dict[str, Any] = {
        **versions(),
        "threads": os.cpu_count(),
        "methods": enmf.methods(),
        "starts": enmf.initializations(),
        "completion methods": completion_methods(),
        "formats": [*tables.READERS, tables.TEN_X],
    }
    if json:
        print(tables.to_json(facts, indent=1))
        return
    for name, value in facts.items():
        print(f"{name:<20} {', '.join(value) if isinstance(value, list) else value}")


def versions() -> dict[str, str]:
    """Versions that decide about a result, and the optional packages."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from enmf import __version__

    found = {"enmf": __version__, "python": platform.python_version(), "system": platform.platform()}
    for name in ("numpy", "scipy", "scikit-learn", "numba", "pandas", "pyarrow", "anndata", "matplotlib"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # what the terminal cannot show must not end the command
    _listen()
    app()


def _listen() -> None:
    """SIGTERM, as batch systems send it, ends a run as Ctrl-C does; before there is a run, both end the process."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and hasattr(signal, "pthread_sigmask"):
        # in the background of a shell: Ctrl-C stays out of reach, but there is a handler for SIGTERM to call
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    signal.signal(signal.SIGINT, _leave)
    signal.signal(signal.SIGTERM, _terminate)


def _leave(number: int, frame: FrameType | None) -> None:
    """While modules are imported and data are read: an exception could get lost in there, and nothing is at stake."""
    os.write(2, b"enmf: interrupted\n")
    os._exit(_interrupted())


def _terminate(number: int, frame: FrameType | None) -> None:
    global _terminated
    _terminated = True
    handler = signal.getsignal(signal.SIGINT)
    assert callable(handler)
    handler(number, frame)


def _run_begins() -> None:
    """From now on an interrupt is an exception, which the run turns into the factors it has reached."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupted() -> int:
    return TERMINATED if _terminated else INTERRUPTED


# ---------------------------------------------------------------- data


def _read(data: str, reading: Reading) -> Table:
    from enmf.io import tables

    return tables.read(data, reading)


def _show(table: Table, silent: bool) -> None:
    """What was read, and what was taken for header and names."""
    if not silent and hasattr(table.values, "shape"):
        _say(table)


def _open_blocks(data: str, wanted: bool, reading: Reading) -> Table | None:
    """Data that stay where they are and are read in blocks; None for what is read as a whole."""
    from enmf.io import tables

    place = Path(data)
    folder = place.is_dir()
    if not wanted and (not folder or tables.is_10x(place)):
        return None
    if not folder and place.suffix.lower() != ".npy":
        raise InputProblem(
            data, "is not read in blocks", "--memory-limit and --scheduler take an npy file, a folder of parts or zarr"
        )
    if not place.exists():
        raise InputProblem(data, "there is no such file", f"Check the name; the current folder is {Path.cwd()}")
    if reading != type(reading)():
        raise InputProblem(
            data, "is read in blocks, as it is and without names", "Leave out options like --row-names and --drop"
        )
    return tables.Table(_opened(data, place) if folder else data, None, None, data)


def _opened(data: str, folder: Path) -> Any:
    """A zarr store, or the name of a folder of parts."""
    from enmf.distributed.sources import SUFFIXES

    if any((folder / name).exists() for name in (".zarray", "zarr.json")):
        _check_installed("zarr", data)
        import zarr

        return zarr.open(data, mode="r")
    if not any(part.suffix in SUFFIXES for part in folder.iterdir()):
        raise InputProblem(
            data,
            "this folder holds nothing that can be read",
            "Put npz, npy or parquet parts into it, a zarr store, or matrix.mtx, features.tsv and barcodes.tsv of 10x",
        )
    return data


@contextlib.contextmanager
def _workers_at(address: str | None) -> Iterator[None]:
    """The workers of the scheduler do the work of the body."""
    if address is None:
        yield
        return
    try:
        from distributed import Client
    except ImportError:
        raise InputProblem("--scheduler", "needs Dask", 'pip install "dask[array,distributed]"') from None
    try:
        client = Client(address, timeout=10)
    except (OSError, TimeoutError, ValueError) as problem:
        raise InputProblem(
            f"--scheduler {address}", f"there is no answer ({one_line(problem)})", "Start `dask scheduler`"
        ) from None
    with client:
        yield


@contextlib.contextmanager
def _in_words_of(table: Table, complete: bool = False) -> Iterator[None]:
    """Warnings as one line each, problems with the file and its names."""
    from enmf.problem.validation.entries import EntryError

    _run_begins()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        except EntryError as problem:
            what = {"NaN": "is missing or NaN", "infinite": "is infinite", "negative": "is negative"}[problem.kind]
            remedy = {
                "NaN": "Fill it" if complete else "Fill it, or use `enmf complete`, which takes missing entries",
                "infinite": "Remove or limit it",
                "negative": "NMF needs entries >= 0: shift or rescale the data, or leave the column out",
            }[problem.kind]
            more = f" (so are {problem.count - 1} more entries)" if problem.count > 1 else ""
            raise InputProblem(table.source, f"{table.place(*problem.place)} {what}{more}", remedy) from None
        except (ValueError, TypeError) as problem:
            raise InputProblem(table.source, " ".join(str(problem).split()), "See --help") from None
        except MemoryError as problem:
            remedy = "Use a smaller rank, --dtype float32, or --memory-limit with an npy file"
            raise InputProblem(table.source, f"does not fit into memory ({one_line(problem)})", remedy) from None
        finally:
            for warning in caught:
                if issubclass(warning.category, (UserWarning, RuntimeWarning)):
                    _say(f"enmf: warning: {' '.join(str(warning.message).split())}", sys.stderr)


def _shape(text: str | None) -> tuple[int, int] | None:
    """28x28 as a pair."""
    if text is None:
        return None
    height, mark, width = text.lower().partition("x")
    if not (mark and height.isdigit() and width.isdigit()):
        raise InputProblem("--image-shape", f"{text!r} is not height x width", "Write it like 28x28")
    return int(height), int(width)


def _ranks(text: str) -> list[int]:
    """2:20 (both ends), 5:50:5, or 3,5,8."""
    try:
        if ":" in text:
            first, last, *step = (int(part) for part in text.split(":"))
            found = list(range(first, last + 1, *step))
        else:
            found = [int(part) for part in text.split(",")]
    except (ValueError, TypeError):
        found = []
    if not found or min(found) < 1:
        raise InputProblem("--ranks", f"{text!r} names no ranks", "Write 2:20, 5:50:5 or 3,5,8")
    return found


def _usual_ranks(table: Table) -> list[int]:
    """2 to 20, as far as the sides of the table allow."""
    side = min(table.values.shape)
    if side < 2:
        raise InputProblem(table.source, "has one row or column, where rank 1 is exact", "There is no rank to choose")
    return list(range(2, min(20, side - 1) + 1)) or [1]


def _watched(quiet: bool) -> bool:
    """Progress is for people who look at a terminal."""
    return not quiet and sys.stderr.isatty()


# ---------------------------------------------------------------- results


def _check_outputs(inputs: Sequence[str | None], paths: Sequence[str | None], force: bool) -> None:
    """Before the work: results have a place to go, replace nothing without --force, and never what is read."""
    wanted = [path for path in paths if path]
    for path in wanted:
        _check_place(path)
        _check_not_inputs(path, inputs)
        if os.path.isfile(path) and not force:
            raise InputProblem(path, "exists already", "Add --force to replace it, or choose another name")
    twice = [path for k, path in enumerate(wanted) if os.path.realpath(path) in map(os.path.realpath, wanted[:k])]
    if twice:
        raise InputProblem(twice[0], "two results would be written to it", "Choose different names")


def _check_place(path: str) -> None:
    folder = Path(path).parent
    if not folder.is_dir():
        raise InputProblem(path, f"there is no folder {str(folder)!r} to write to", "Make it first")
    try:
        os.stat(path)
        allowed = os.access(path, os.W_OK) and not os.path.isdir(path)
    except FileNotFoundError:
        allowed = os.access(os.path.dirname(os.path.realpath(path)), os.W_OK)
    except OSError:  # a name that no file can have
        allowed = False
    if not allowed:
        raise InputProblem(path, "cannot be written", "Choose another place")


def _check_not_inputs(path: str | None, inputs: Sequence[str | None]) -> None:
    """Whatever they are called: links to an input, and places in a folder of parts, are refused too."""
    for source in inputs:
        if path is None or source in (None, STDIN):
            continue
        if _same(path, source):
            raise InputProblem(path, "this is an input of the command", "Choose another name for the result")
        if os.path.isdir(source) and _same(os.path.dirname(os.path.abspath(path)), source):
            raise InputProblem(path, f"lies in {source}, whose files are the data", "Choose another folder")


def _same(a: str, b: str) -> bool:
    return os.path.exists(a) and os.path.exists(b) and os.path.samefile(a, b)


def _check_installed(package: str, what: str) -> None:
    from importlib.util import find_spec

    try:
        there = find_spec(package) is not None
    except ValueError:
        there = False
    if not there:
        raise InputProblem(what, f"needs {package}, which is not installed", f"pip install {package}")


def _check_picture(path: str) -> None:
    """matplotlib is there, and knows the ending."""
    from enmf.report.plots import pyplot

    plt = pyplot()
    plt.switch_backend("agg")
    from matplotlib.backend_bases import FigureCanvasBase

    if Path(path).suffix.lower().lstrip(".") not in FigureCanvasBase.filetypes:
        raise InputProblem(path, "is no picture that can be written", "Choose a name that ends in .png, .svg or .pdf")


def _finish(result: Result, table: Table, outputs: Outputs, predict: str | None = None) -> None:
    """Write everything, say what was written, and end with the code of the status."""
    from enmf.io import tables

    path = outputs.factors(table.source)
    tables.save_result(path, result, table.rows, table.columns)
    written = [path]
    if outputs.tables is not None:
        written += tables.save_labelled(outputs.labelled(table.source), result, table.rows, table.columns)
    if outputs.certificate is not None:
        about = {"status": result.status, "data": table.source, "command": _command(), "settings": result.settings}
        tables.save_json(outputs.certificate, {**about, "versions": versions(), **result.certificate.to_dict()})
        written.append(outputs.certificate)
    if outputs.trace is not None:
        tables.save_json(outputs.trace, [row._asdict() for row in result.trace])
        written.append(outputs.trace)
    if predict is not None:
        tables.writable(predict, lambda place: _write_estimates(place, table, result))
        written.append(predict)
    if outputs.report is not None:
        names = {"row_names": table.rows, "column_names": table.columns, "image_shape": outputs.image_shape}
        whole = hasattr(table.values, "ndim") and not hasattr(table.values, "chunks")
        source = None if table.source == STDIN else Path(table.source).name
        options = {**names, "source": source, "command": _command()}
        X = table.values if whole else None
        tables.writable(outputs.report, lambda place: result.report(place, X, **options))
        written.append(outputs.report)
    if not outputs.quiet:
        print(f"status: {result.status}")
        print(result.certificate)
        _say_written(written)
    if result.status == "interrupted":
        raise typer.Exit(_interrupted())
    if result.status not in DONE and not result.certificate.stationary:
        raise typer.Exit(NOT_CONVERGED)


def _say_written(paths: list[str]) -> None:
    if paths:
        _say("written: " + ", ".join(paths))


def _command() -> str:
    return shlex.join(["enmf", *sys.argv[1:]])


def _write_estimates(path: str, table: Table, result: Result) -> None:
    """row, column, estimate for every entry that is missing, a block of rows at a time."""
    import numpy as np
    import pandas
    import scipy.sparse as sp

    from enmf.matrix.base import row_blocks

    n, m = table.values.shape
    rows = np.array(table.rows or range(1, n + 1))
    columns = np.array(table.columns or range(1, m + 1))

    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write("row,column,estimate\n")
        for block in row_blocks(n, m):
            part = table.values[block]
            if sp.issparse(part):
                gaps = np.ones(part.shape, dtype=bool)
                gaps[sp.coo_array(part).coords] = False
            else:
                gaps = np.isnan(part)
            i, j = np.nonzero(gaps)
            estimates = np.einsum("ij,ij->i", result.U[block][i], result.V[j])
            frame = pandas.DataFrame({"row": rows[block][i], "column": columns[j], "estimate": estimates})
            frame.to_csv(file, index=False, header=False)


if __name__ == "__main__":
    main()
