"""The command line: arguments in, calls out.

Exit codes: 0 done; 2 bad input, with one line that names the file, the place and the remedy; 3 not converged (what was
reached is written); 130 interrupted (what was reached is written).
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from enmf import tables
from enmf.tables import InputProblem, Table
from enmf.validation import EntryError

if TYPE_CHECKING:
    from enmf.result import Result

BAD_INPUT, NOT_CONVERGED, INTERRUPTED = 2, 3, 130
DONE = ("global_optimum", "exact", "converged", "target_reached")


class _Guarded(TyperGroup):
    """One place where problems become a line and an exit code; ENMF_TRACEBACK=1 shows where they came from."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            print("enmf: interrupted", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has seen enough
            raise typer.Exit(0) from None
        except (InputProblem, ValueError, TypeError, OSError, MemoryError, ImportError) as problem:
            if os.environ.get("ENMF_TRACEBACK"):
                raise
            print(f"enmf: {' '.join(str(problem).split()) or type(problem).__name__}", file=sys.stderr)
            raise typer.Exit(BAD_INPUT) from None


app = typer.Typer(
    cls=_Guarded,
    name="enmf",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Nonnegative matrix factorization with a certificate: X ~ U Vᵀ, U >= 0, V >= 0.",
    epilog="""\b
Examples
  enmf factorize spectra.csv --rank 10 --report spectra.html
  enmf rank spectra.csv --ranks 2:20
  enmf complete ratings.csv --triplets --rank 10 --ridge 0.1

\b
Exit codes: 0 done, 2 bad input, 3 not converged, 130 interrupted. The last two have written what was reached.
`enmf --install-completion` teaches the shell the commands and options.""",
)

Data = Annotated[
    str, typer.Argument(help="csv, tsv, npy, npz, mtx(.gz), parquet or h5ad; - is csv from standard input")
]
LargeData = Annotated[
    str,
    typer.Argument(
        help="csv, tsv, npy, npz, mtx(.gz), parquet or h5ad; - is csv from standard input; a folder of npz, npy or "
        "parquet parts, or a zarr store, is read in blocks"
    ),
]
Rank = Annotated[int, typer.Option("--rank", "-r", min=1, help="number of components")]
Out = Annotated[str | None, typer.Option(help="npz file for the factors  [default: name of the data + .factors.npz]")]
Tables = Annotated[str | None, typer.Option(metavar="csv|parquet", help="also write both factors with names")]
CertificateFile = Annotated[str | None, typer.Option("--certificate", help="JSON file for the certificate")]
TraceFile = Annotated[str | None, typer.Option("--trace", help="JSON file for one row an iteration")]
ReportFile = Annotated[str | None, typer.Option("--report", help="HTML file for a page to look at")]
ImageShape = Annotated[str | None, typer.Option(metavar="HxW", help="report: every row is an image, for example 28x28")]
Seed = Annotated[int, typer.Option(help="seed; the same one gives the same result")]
Limit = Annotated[float | None, typer.Option(help="seconds after which the factors reached so far are taken")]
Threads = Annotated[int | None, typer.Option(min=1, help="threads  [default: all]")]
RowNames = Annotated[str | None, typer.Option(help="text file with the names of the rows, one a line")]
ColumnNames = Annotated[str | None, typer.Option(help="text file with the names of the columns, one a line")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="print nothing but problems")]


@app.command(
    epilog="""\b
Examples
  enmf factorize spectra.csv --rank 10
  enmf factorize counts.mtx.gz --rank 20 --column-names genes.txt --tables csv
  cat table.csv | enmf factorize - --rank 5 --out table.npz --certificate table.json
  enmf factorize large.npy --rank 20 --memory-limit 2GB --checkpoint run1
  enmf factorize parts --rank 20 --scheduler tcp://head:8786"""
)
def factorize(
    data: LargeData,
    rank: Rank,
    method: Annotated[str, typer.Option(help="see `enmf info`")] = "enmf",
    init: Annotated[str | None, typer.Option(help="start, see `enmf info`")] = None,
    tol: Annotated[float, typer.Option(help="KKT residual at which the run has converged")] = 1e-5,
    max_iter: Annotated[int, typer.Option(help="largest number of descent iterations")] = 2000,
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
    row_names: RowNames = None,
    column_names: ColumnNames = None,
    out: Out = None,
    tables: Tables = None,
    certificate: CertificateFile = None,
    trace: TraceFile = None,
    report: ReportFile = None,
    image_shape: ImageShape = None,
    quiet: Quiet = False,
) -> None:
    """Factorize a complete nonnegative table and certify the result."""
    import numpy as np

    import enmf

    _check_outputs(tables, out, certificate, trace, report)
    shape = _shape(image_shape)
    in_blocks = memory_limit is not None or scheduler is not None
    table = _open_blocks(data, in_blocks, row_names, column_names) or _read(data, row_names, column_names)
    with _in_words_of(table), _workers_at(scheduler):
        result = enmf.factorize(
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
            verbose=_watched(quiet),
        )
        result = replace(result, U=np.asarray(result.U))  # from the workers, while they are there
    _finish(result, table, out, tables, certificate, trace, report, shape, quiet)


@app.command(
    epilog="""\b
Examples
  enmf complete table_with_gaps.csv --rank 5
  enmf complete ratings.dat --triplets --rank 10 --ridge 0.1 --predict wanted.csv"""
)
def complete(
    data: Data,
    rank: Rank,
    triplets: Annotated[bool, typer.Option("--triplets", help="every line is row, column, value")] = False,
    missing: Annotated[
        str | None, typer.Option(metavar="nan|unstored|none", help="what is missing  [default: empty cells, NaN]")
    ] = None,
    ridge: Annotated[float, typer.Option(help="regularisation; decisive for ratings")] = 0.0,
    tol: Annotated[float, typer.Option(help="KKT residual at which the run has converged")] = 1e-4,
    max_iter: Annotated[int, typer.Option(help="largest number of descent iterations")] = 1000,
    time_limit: Limit = None,
    seed: Seed = 0,
    threads: Threads = None,
    row_names: RowNames = None,
    column_names: ColumnNames = None,
    predict: Annotated[str | None, typer.Option(help="csv file for the estimates of all missing entries")] = None,
    out: Out = None,
    tables: Tables = None,
    certificate: CertificateFile = None,
    trace: TraceFile = None,
    report: ReportFile = None,
    image_shape: ImageShape = None,
    quiet: Quiet = False,
) -> None:
    """Factorize a table with missing entries; the factors say what they may be."""
    import enmf

    _check_outputs(tables, out, certificate, trace, report, predict)
    shape = _shape(image_shape)
    triplets = triplets or data.lower().endswith((".dat", "u.data"))
    table = _read(data, row_names, column_names, triplets)
    with _in_words_of(table, complete=True):
        result = enmf.complete(
            table.values,
            rank,
            missing="unstored" if triplets and missing is None else missing,
            ridge=ridge,
            tol=tol,
            max_iter=max_iter,
            time_limit=time_limit,
            random_state=seed,
            n_threads=threads,
            verbose=_watched(quiet),
        )
    if predict is not None:
        _write_estimates(predict, table, result)
    _finish(result, table, out, tables, certificate, trace, report, shape, quiet)


@app.command(
    epilog="""\b
Examples
  enmf certify spectra.csv spectra.factors.npz
  enmf certify X.npy factors_of_another_library.npz --json     (arrays U and V, or W and H)"""
)
def certify(
    data: Data,
    factors: Annotated[str, typer.Argument(help="npz file with U and V, or W and H")],
    tol: Annotated[float, typer.Option(help="KKT residual up to which the factors count as stationary")] = 1e-5,
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """How close to the best possible are factors from any library?"""
    import enmf

    table = _read(data)
    found, _, _ = tables.load_result(factors)
    U, V = found if isinstance(found, tuple) else (found.U, found.V)
    with _in_words_of(table):
        certificate = enmf.certify(table.values, U, V, tol=tol)
    print(tables.to_json(certificate.to_dict(), indent=1) if json else certificate.report())


@app.command(
    epilog="""\b
Examples
  enmf rank spectra.csv --ranks 2:20
  enmf rank counts.mtx.gz --ranks 5:50:5 --plot ranks.png --out ranks.csv --checkpoint ranks.npz"""
)
def rank(
    data: Data,
    ranks: Annotated[str, typer.Option(metavar="2:20", help="ranks to look at: 2:20, 5:50:5 or 3,5,8")] = "2:20",
    folds: Annotated[int, typer.Option(help="how often entries are hidden")] = 4,
    sample: Annotated[int, typer.Option(help="entries of the data that held-out errors use; 0 for all")] = 100_000,
    tol: Annotated[float, typer.Option(help="KKT residual at which the fit of a rank has converged")] = 3e-3,
    seed: Seed = 0,
    threads: Threads = None,
    out: Annotated[str | None, typer.Option(help="csv or json file for the table")] = None,
    plot: Annotated[str | None, typer.Option(help="picture of the table, png, svg or pdf")] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="npz file with the finished ranks, from which the command goes on")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    quiet: Quiet = False,
) -> None:
    """Which rank? Bound, error, held-out error and stability of each, and a suggestion."""
    import enmf
    from enmf.rank import HEADER, format_row

    _check_outputs(None, out, plot, checkpoint)
    wanted = _ranks(ranks)
    if out is not None and not out.lower().endswith((".csv", ".json")):
        raise InputProblem(out, "this is neither csv nor json", "Choose a name that ends in .csv or .json")
    if plot is not None:
        from enmf.plots import pyplot

        plt = pyplot()  # a missing matplotlib is told before the work
        plt.switch_backend("agg")
    table = _read(data)
    watched = _watched(quiet)
    if watched:
        print(HEADER, file=sys.stderr)

    def show(row: dict[str, Any]) -> None:
        if watched:
            print(format_row(row["rank"], row), file=sys.stderr)

    with _in_words_of(table):
        found = enmf.select_rank(
            table.values,
            wanted,
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
        found.table.to_csv(out)
    if plot is not None:
        found.plot()[0].figure.savefig(plot)
    if json:
        print(tables.to_json(found.to_dict(), indent=1))
    elif not quiet:
        print(found)
        written = [path for path in (out, plot) if path]
        if written:
            print("written: " + ", ".join(written))
    if not found.complete:
        raise typer.Exit(INTERRUPTED)


@app.command(
    epilog="""\b
Examples
  enmf compare first.npz second.npz
  enmf compare first.npz second.npz --data spectra.csv --json"""
)
def compare(
    factors: Annotated[list[str], typer.Argument(help="two npz files with factors of the same data")],
    data: Annotated[str | None, typer.Option(help="the data: gives the errors of both")] = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    report: ReportFile = None,
) -> None:
    """Are two solutions the same up to order, scale and rotation of their components?"""
    import enmf

    if len(factors) < 2:
        raise InputProblem(factors[0], "there is nothing to compare it with", "Name two files")
    _check_outputs(None, report)
    found = [tables.load_result(path)[0] for path in factors]
    table = _read(data) if data is not None else None
    with _in_words_of(table) if table is not None else contextlib.nullcontext():
        X = None if table is None else table.values
        pairs = [(factors[0], name, enmf.compare(found[0], other, X)) for name, other in zip(factors[1:], found[1:])]
    if report is not None:
        plain = [path for path, held in zip(factors, found) if isinstance(held, tuple)]
        if plain:
            raise InputProblem(
                plain[0], "holds factors only, no course of a run", "Reports compare files of `enmf factorize`"
            )
        from enmf.report import write

        write(report, [held for held in found if not isinstance(held, tuple)], names=factors)
    if json:
        print(tables.to_json([{"a": a, "b": b, **pair.to_dict()} for a, b, pair in pairs], indent=1))
    else:
        print("\n\n".join(f"A = {a}\nB = {b}\n{pair}" for a, b, pair in pairs))


@app.command(
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def bench(ctx: typer.Context) -> None:
    """Compare methods under one fair clock (as python -m enmf.bench)."""
    from enmf.bench.__main__ import main as run

    raise typer.Exit(run(list(ctx.args)))


@app.command()
def demo() -> None:
    """Factorize the handwritten digits that come with scikit-learn."""
    from enmf.demo import main as run

    run()


@app.command()
def info(json: Annotated[bool, typer.Option("--json", help="print JSON")] = False) -> None:
    """Versions, threads, methods, starts, and which formats can be read."""
    import enmf
    from enmf.completion import completion_methods

    facts: dict[str, Any] = {
        **versions(),
        "threads": os.cpu_count(),
        "methods": enmf.methods(),
        "starts": enmf.initializations(),
        "completion methods": completion_methods(),
        "formats": list(tables.READERS),
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
    app()


def _read(data: str, row_names: str | None = None, column_names: str | None = None, triplets: bool = False) -> Table:
    return tables.read(data, triplets=triplets, row_names=row_names, column_names=column_names)


def _open_blocks(data: str, wanted: bool, row_names: str | None, column_names: str | None) -> Table | None:
    """Data that stay where they are and are read in blocks; None for a file that is read as a whole."""
    place = Path(data)
    folder = place.is_dir()
    if not folder and not wanted:
        return None
    if not folder and place.suffix.lower() != ".npy":
        raise InputProblem(
            data, "is not read in blocks", "--memory-limit and --scheduler take an npy file, a folder of parts or zarr"
        )
    if row_names is not None or column_names is not None:
        raise InputProblem(data, "is read in blocks, without names", "Leave --row-names and --column-names out")
    if not place.exists():
        raise InputProblem(data, "there is no such file", f"Check the name; the current folder is {Path.cwd()}")
    values: Any = data
    if folder and any((place / name).exists() for name in (".zarray", "zarr.json")):
        import zarr

        values = zarr.open(data, mode="r")
    return Table(values, None, None, data)


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
        reason = " ".join(str(problem).split())
        raise InputProblem(f"--scheduler {address}", f"nobody answers ({reason})", "Start `dask scheduler`") from None
    with client:
        yield


def _check_outputs(labelled: str | None, *paths: str | None) -> None:
    """Before the work: where the results will go must exist."""
    if labelled not in (None, "csv", "parquet"):
        raise InputProblem("--tables", f"{labelled!r} is not known", "Choose csv or parquet")
    for path in filter(None, paths):
        folder = Path(path).parent
        if not folder.is_dir():
            raise InputProblem(path, f"there is no folder {str(folder)!r} to write to", "Make it first")
        if not os.access(folder, os.W_OK) or Path(path).is_dir():
            raise InputProblem(path, "cannot be written", "Choose another place")


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


def _watched(quiet: bool) -> bool:
    """Progress is for people who look at a terminal."""
    return not quiet and sys.stderr.isatty()


@contextlib.contextmanager
def _in_words_of(table: Table, complete: bool = False) -> Iterator[None]:
    """Warnings as one line each, problems with the file and its names."""
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
            raise InputProblem(table.source, " ".join(str(problem).split()).rstrip("."), "See --help") from None
        finally:
            for warning in caught:
                if issubclass(warning.category, (UserWarning, RuntimeWarning)):
                    print(f"enmf: warning: {' '.join(str(warning.message).split())}", file=sys.stderr)


def _finish(
    result: Result,
    table: Table,
    out: str | None,
    labelled: str | None,
    certificate: str | None,
    trace: str | None,
    report: str | None,
    shape: tuple[int, int] | None,
    quiet: bool,
) -> None:
    """Write everything, say what was written, and end with the code of the status."""
    stem = "stdin" if table.source == tables.STDIN else Path(table.source).name.split(".")[0]
    path = out or f"{stem}.factors.npz"
    path = path if path.endswith(".npz") else f"{path}.npz"
    tables.save_result(path, result, table.rows, table.columns)
    written = [path]
    if labelled is not None:
        written += tables.save_labelled(path.removesuffix(".npz"), labelled, result, table.rows, table.columns)
    if certificate is not None:
        about = {"status": result.status, "data": table.source, "command": _command(), "settings": result.settings}
        tables.save_json(certificate, {**about, "versions": versions(), **result.certificate.to_dict()})
        written.append(certificate)
    if trace is not None:
        tables.save_json(trace, [row._asdict() for row in result.trace])
        written.append(trace)
    if report is not None:
        names = {"row_names": table.rows, "column_names": table.columns, "image_shape": shape}
        whole = hasattr(table.values, "ndim") and not hasattr(table.values, "chunks")
        source = None if table.source == tables.STDIN else Path(table.source).name
        values = table.values if whole else None
        written.append(result.report(report, values, command=_command(), source=source, **names))
    if not quiet:
        print(f"status: {result.status}")
        print(result.certificate)
        print("written: " + ", ".join(written))
    if result.status == "interrupted":
        raise typer.Exit(INTERRUPTED)
    if result.status not in DONE and not result.certificate.stationary:
        raise typer.Exit(NOT_CONVERGED)


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
