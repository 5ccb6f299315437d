"""The commands: options in, one call of the library, results out. What computes is imported when a command runs."""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import sys
from dataclasses import replace
from typing import Annotated, Any

import typer
from typer import Argument, Exit, Option

from enmf.cli.exits import Guarded, interrupted, listen, run_begins
from enmf.cli.inputs import parse_ranks, read_or_open, read_table, usual_ranks, workers_at, working_on
from enmf.cli.options import (
    DEFAULT,
    Data,
    Force,
    Json,
    Knowing,
    LargeData,
    Loss,
    Quiet,
    Rank,
    Report,
    Seed,
    Shape,
    Solving,
    Threads,
    given,
    grouped,
    loss_given,
)
from enmf.cli.outputs import (
    Outputs,
    check_not_inputs,
    check_outputs,
    check_rank_files,
    save_ranks,
    say_written,
    versions,
    watched,
)
from enmf.cli.streams import learn_stream, refuse_for_streams
from enmf.io.messages import InputProblem, say
from enmf.io.reading import Reading, option, parse_loss

app = typer.Typer(
    cls=Guarded,
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
terminated. With the last three, the factors reached so far are written.
`enmf --install-completion` sets up shell completion.""",
)


FILE_LOSS = "{}  [default: that of the file, else frobenius]"


def _version(wanted: bool) -> None:
    if wanted:
        from enmf import __version__

        print(f"enmf {__version__}")
        raise Exit


@app.callback()
def enmf_(
    version: Annotated[bool, Option("--version", callback=_version, is_eager=True, help="print it")] = False,
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
  enmf factorize counts.mtx.gz --rank 20 --loss kullback-leibler
  enmf factorize mutations.csv --rank 20 --fixed signatures.csv
  cat table.csv | enmf factorize - --rank 5 --out table.npz
  enmf factorize large.npy --rank 20 --memory-limit 2GB --checkpoint run1
  enmf factorize parts --rank 20 --scheduler tcp://head:8786
  enmf factorize large.csv --rank 20 --stream
  zcat rows*.csv.gz | enmf factorize - --rank 20 --stream --out rows.npz""",
)
@grouped(solving=Solving, knowing=Knowing, shape=Shape, reading=Reading, outputs=Outputs)
def factorize(
    data: LargeData,
    rank: Rank,
    *,
    method: Annotated[str | None, option("NAME", "method, see `enmf info`")] = None,
    init: Annotated[str | None, option("NAME", "start, see `enmf info`")] = None,
    restarts: Annotated[
        int | None, option("N", "further starts, the best of which is kept (method enmf)", min=0)
    ] = None,
    dtype: Annotated[str | None, option("float32|float64", "precision of the computation")] = None,
    memory_limit: Annotated[
        str | None, option("BYTES", "read npy, folders and zarr in blocks within this memory, as in 2GB")
    ] = None,
    scheduler: Annotated[
        str | None, option("ADDRESS", "Dask scheduler whose workers read and factorize the data")
    ] = None,
    checkpoint: Annotated[
        str | None, option("FOLDER", "save the factors here; the same command then resumes from them")
    ] = None,
    stream: Annotated[
        bool, Option("--stream", help="read the rows once, in parts, and never hold them: V and a certificate")
    ] = False,
    batch: Annotated[int | None, option("N", "--stream: lines that are read at a time  [default: 1000]", min=1)] = None,
    forget: Annotated[
        float | None, option("SHARE", "--stream: weight that earlier rows lose with every part  [default: 0]")
    ] = None,
    solving: Solving,
    knowing: Knowing,
    shape: Shape,
    reading: Reading,
    outputs: Outputs,
) -> None:
    """Factorize a complete nonnegative table and certify the result."""
    outputs.check(data, [reading.row_names, reading.column_names, *knowing.files()])
    if stream:
        refuse_for_streams(
            method=method, init=init, restarts=restarts, dtype=dtype, memory_limit=memory_limit, scheduler=scheduler,
            checkpoint=checkpoint, tol=solving.tol, max_iter=solving.max_iter, time_limit=solving.time_limit,
            trace=outputs.trace, report=outputs.report, loss=None if solving.loss == "frobenius" else solving.loss,
        )  # fmt: skip
        learn_stream(data, rank, reading, outputs, solving, batch or 1000, forget or 0.0)
        return
    if batch is not None or forget is not None:
        raise InputProblem("--batch" if batch is not None else "--forget", "only affects streams", "Add --stream")
    check_not_inputs(checkpoint, [data])
    import numpy as np

    from enmf import factorize as work

    in_blocks = memory_limit is not None or scheduler is not None
    table = read_or_open(data, reading, outputs.quiet, in_blocks)
    outputs.check_images(table)
    more = given(method=method, init=init, restarts=restarts, dtype=dtype)
    more |= given(memory_limit=memory_limit, checkpoint=checkpoint)
    more |= knowing.arguments() | shape.arguments(table.columns)
    with working_on(table), workers_at(scheduler):
        result = work(table.values, rank, **solving.arguments(), **more, verbose=watched(outputs.quiet))
        result = replace(result, U=np.asarray(result.U))  # fetched while the workers are there
    outputs.finish(result, table)


@app.command(
    short_help="Factorize a table with missing entries and estimate them.",
    epilog="""\b
Examples
  enmf complete table_with_gaps.csv --rank 5
  enmf complete ratings.dat --triplets --rank 10 --ridge 0.1
  enmf complete ratings.csv --triplets --rank 10 --predict estimates.csv""",
)
@grouped(solving=Solving, reading=Reading, outputs=Outputs)
def complete(
    data: Data,
    rank: Rank,
    *,
    triplets: Annotated[bool, Option("--triplets", help="every line is row, column, value")] = False,
    missing: Annotated[str | None, option("nan|unstored|none", "what is missing  [default: empty cells, NaN]")] = None,
    ridge: Annotated[float | None, option("WEIGHT", f"regularization; essential for ratings{DEFAULT}")] = None,
    predict: Annotated[str | None, option("FILE", "csv file for the estimates of all missing entries")] = None,
    solving: Solving,
    reading: Reading,
    outputs: Outputs,
) -> None:
    """Factorize a table with missing entries; the factors estimate them."""
    outputs.check(data, [reading.row_names, reading.column_names], predict)
    from enmf import complete as work

    triplets = triplets or data.lower().endswith((".dat", "u.data"))
    table = read_table(data, replace(reading, triplets=triplets), outputs.quiet)
    outputs.check_images(table)
    more = given(missing="unstored" if triplets and missing is None else missing, ridge=ridge)
    with working_on(table, completing=True):
        result = work(table.values, rank, **solving.arguments(), **more, verbose=watched(outputs.quiet))
    outputs.finish(result, table, predict)


@app.command(
    short_help="How close to optimal are factors from any library?",
    epilog="""\b
Examples
  enmf certify spectra.csv spectra.factors.npz
  enmf certify X.npy factors_of_another_library.npz --json
The npz file holds arrays U and V, or W and H.""",
)
@grouped(reading=Reading)
def certify(
    data: Data,
    factors: Annotated[str, Argument(metavar="FACTORS", help="npz file with U and V, or W and H", show_default=False)],
    *,
    loss: Annotated[str | None, option("NAME", FILE_LOSS.format("the loss that the factors minimize"))] = None,
    tol: Annotated[
        float | None, option("TOL", f"KKT residual up to which the factors count as stationary{DEFAULT}")
    ] = None,
    json: Json = False,
    reading: Reading,
) -> None:
    """How close to optimal are factors from any library?"""
    from enmf import certify as work
    from enmf.io import results

    table = read_table(data, reading, json)
    found, _, _ = results.load_result(factors)
    U, V = found if isinstance(found, tuple) else (found.U, found.V)
    with working_on(table):
        certificate = work(table.values, U, V, loss=_loss_of(loss, found), **given(tol=tol))
    print(results.to_json(certificate.to_dict()) if json else certificate.report())


@app.command(
    short_help="Suggest a rank, from bound, error, held-out error and stability.",
    epilog="""\b
Examples
  enmf rank spectra.csv
  enmf rank counts.mtx.gz --ranks 5:50:5 --plot ranks.png --out ranks.csv
  enmf rank spectra.csv --ranks 2:20 --checkpoint ranks.npz""",
)
@grouped(reading=Reading)
def rank(
    data: Data,
    *,
    ranks: Annotated[
        str | None, option("RANKS", "ranks to try: 2:20, 5:50:5 or 3,5,8  [default: 2:20, fewer for narrow tables]")
    ] = None,
    folds: Annotated[int | None, option("N", f"number of times that entries are held out{DEFAULT}")] = None,
    sample: Annotated[
        int | None, option("N", f"number of entries that held-out errors are measured on, 0 for all{DEFAULT}")
    ] = None,
    loss: Loss = None,
    tol: Annotated[
        float | None, option("TOL", f"KKT residual at which the fit of a rank has converged{DEFAULT}")
    ] = None,
    seed: Seed = 0,
    threads: Threads = None,
    out: Annotated[str | None, option("FILE", "csv or json file for the table")] = None,
    plot: Annotated[str | None, option("FILE", "plot of the table: png, svg or pdf")] = None,
    checkpoint: Annotated[
        str | None, option("FILE", "npz file for the finished ranks; the same command then resumes after them")
    ] = None,
    json: Json = False,
    force: Force = False,
    quiet: Quiet = False,
    reading: Reading,
) -> None:
    """Suggest a rank, from the bound, error, held-out error and stability of each."""
    inputs = [data, reading.row_names, reading.column_names]
    check_outputs(inputs, [out, plot], force)
    check_not_inputs(checkpoint, [*inputs, out, plot])
    wanted = None if ranks is None else parse_ranks(ranks)
    check_rank_files(out, plot)
    from enmf.api.rank import format_row, heading, select_rank
    from enmf.io.results import to_json

    table = read_table(data, reading, quiet or json)
    show = print if watched(quiet) else lambda *_, **__: None
    show(heading(loss is None or parse_loss(loss) in ("frobenius", 2.0)), file=sys.stderr)
    more = {**loss_given(loss), **given(folds=folds, tol=tol), **({} if sample is None else {"sample": sample or None})}
    with working_on(table):
        found = select_rank(
            table.values,
            wanted or usual_ranks(table),
            random_state=seed,
            n_threads=threads,
            callback=lambda row: show(format_row(row["rank"], row), file=sys.stderr),
            checkpoint=checkpoint,
            **more,
        )
    save_ranks(found, out, plot)
    if json:
        print(to_json(found.to_dict()))
    elif not quiet:
        print(found)
        say_written(out, plot)
    if not found.complete:
        raise Exit(interrupted())


@app.command(
    short_help="Are two solutions the same up to order, scale and rotation?",
    epilog="""\b
Examples
  enmf compare first.npz second.npz
  enmf compare first.npz second.npz --data spectra.csv --json""",
)
@grouped(reading=Reading)
def compare(
    factors: Annotated[
        list[str], Argument(metavar="FACTORS", help="npz files with factors of the same data", show_default=False)
    ],
    *,
    data: Annotated[str | None, option("DATA", "the data, for the errors of both")] = None,
    loss: Annotated[str | None, option("NAME", FILE_LOSS.format("what errors are measured by"))] = None,
    json: Json = False,
    report: Report = None,
    force: Force = False,
    reading: Reading,
) -> None:
    """Are two solutions the same up to order, scale and rotation of their components?"""
    if len(factors) < 2:
        raise InputProblem(factors[0], "there is nothing to compare it with", "Name two files")
    check_outputs([*factors, data, reading.row_names, reading.column_names], [report], force)
    from enmf import compare as work
    from enmf.io import results

    found = [results.load_result(path)[0] for path in factors]
    plain = [path for path, held in zip(factors, found) if isinstance(held, tuple)]
    if report is not None and plain:
        raise InputProblem(
            plain[0], "holds only factors, not the history of a run", "A report needs files of `enmf factorize`"
        )
    table = read_table(data, reading, json) if data is not None else None
    with working_on(table) if table is not None else contextlib.nullcontext():
        X = None if table is None else table.values
        by = _loss_of(loss, found[0])
        pairs = [(factors[0], name, work(found[0], other, X, loss=by)) for name, other in zip(factors[1:], found[1:])]
    if report is not None:
        from enmf.report import write

        write(report, [held for held in found if not isinstance(held, tuple)], names=factors)
    if json:
        print(results.to_json([{"a": a, "b": b, **pair.to_dict()} for a, b, pair in pairs]))
    else:
        say("\n\n".join(f"A = {a}\nB = {b}\n{pair}" for a, b, pair in pairs))
        say_written(report)


@app.command(
    add_help_option=False,
    short_help="Compare methods under one fair clock.",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def bench(ctx: typer.Context) -> None:
    """Compare methods under one fair clock (as python -m enmf.bench)."""
    from enmf.bench.__main__ import app as of_bench

    run_begins()
    command = typer.main.get_command(of_bench)
    with command.make_context("enmf bench", list(ctx.args)) as inner:
        command.invoke(inner)


@app.command(short_help="Factorize handwritten digits and show the result.")
def demo() -> None:
    """Factorize the handwritten digits that come with scikit-learn; the report is digits.html."""
    from enmf.cli.demo import main as run

    run_begins()
    run()


@app.command(short_help="Versions, threads, methods, starts, defaults and readable formats.")
def info(json: Json = False) -> None:
    """Versions, threads, methods, starts, defaults of options, and readable formats."""
    import enmf
    from enmf.api.registry import completion_methods
    from enmf.io import results, tables
    from enmf.problem.validation.losses import LOSSES

    facts: dict[str, Any] = {
        **versions(),
        "threads": os.cpu_count(),
        "methods": enmf.methods(),
        "starts": enmf.initializations(),
        "losses": [*LOSSES, "beta from 0 to 2"],
        "completion methods": completion_methods(),
        "formats": [*tables.READERS, tables.TEN_X],
        "factorize defaults": _defaults(enmf.factorize, "method", "tol", "max_iter"),
        "complete defaults": _defaults(enmf.complete, "ridge", "tol", "max_iter"),
        "certify defaults": _defaults(enmf.certify, "tol"),
        "rank defaults": _defaults(enmf.select_rank, "folds", "sample", "tol"),
    }
    if json:
        print(results.to_json(facts))
        return
    for name, value in facts.items():
        print(f"{name:<20} {', '.join(value) if isinstance(value, list) else value}")


def _loss_of(given: str | None, found: Any) -> str | float:
    """The loss that was asked for, else that of the file of factors."""
    own = "frobenius" if isinstance(found, tuple) else found.certificate.loss_name
    return parse_loss(given) if given is not None else own


def _defaults(work: Any, *names: str) -> list[str]:
    """Options with the defaults that the library's functions have."""
    parameters = inspect.signature(work).parameters
    return [f"--{name.replace('_', '-')} {parameters[name].default}" for name in names]


def main() -> None:
    """Run the command line; `enmf` and `python -m enmf` come here."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a character the terminal lacks must not end the command
    listen()
    app()
