"""What a command writes. Everything that would fail after the work is checked before it."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Exit

from enmf.cli.exits import NOT_CONVERGED, interrupted
from enmf.cli.inputs import check_installed
from enmf.cli.options import Force, Quiet, Report
from enmf.io.messages import STDIN, InputProblem, say
from enmf.io.reading import option

if TYPE_CHECKING:
    from enmf.api.rank import RankSelection
    from enmf.io.tables import Table
    from enmf.run.result import Result
    from enmf.stream.stream import Stream

NOT_FACTORS = (".csv", ".tsv", ".txt", ".npy", ".mtx", ".parquet", ".h5ad", ".json", ".html", ".png")


@dataclass(frozen=True)
class Outputs:
    """The files that a run writes, and whether it prints."""

    out: Annotated[
        str | None, option("FILE", "npz file for the factors  [default: name of the data + .factors.npz]")
    ] = None
    tables: Annotated[str | None, option("csv|parquet", "also write both factors as tables with names")] = None
    certificate: Annotated[str | None, option("FILE", "JSON file for the certificate")] = None
    trace: Annotated[str | None, option("FILE", "JSON file with one row per iteration")] = None
    report: Report = None
    image_shape: Annotated[
        str | None, option("HxW", "report: every row is an image of this shape, for example 28x28")
    ] = None
    force: Force = False
    quiet: Quiet = False

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

    def pixels(self) -> tuple[int, int] | None:
        """Height and width of the images."""
        if self.image_shape is None:
            return None
        height, mark, width = self.image_shape.lower().partition("x")
        if not (mark and height.isdigit() and width.isdigit()):
            raise InputProblem("--image-shape", f"{self.image_shape!r} is not height x width", "Write it like 28x28")
        return int(height), int(width)

    def check(self, source: str, inputs: Sequence[str | None], also: str | None = None) -> None:
        """Refuse what can be known to fail before anything is read."""
        if self.tables not in (None, "csv", "parquet"):
            raise InputProblem("--tables", f"unknown format {self.tables!r}", "Choose csv or parquet")
        if self.tables == "parquet":
            check_installed("pyarrow", "--tables parquet")
        if self.out is not None and self.out.lower().endswith(NOT_FACTORS):
            remedy = "Choose a name that ends in .npz; --tables csv writes tables, --report a page"
            raise InputProblem(self.out, "the factors are written as npz", remedy)
        if self.pixels() is not None and self.report is None:
            raise InputProblem("--image-shape", "only affects the report", "Add --report page.html")
        paths = [self.factors(source), *self.labelled(source), self.certificate, self.trace, self.report, also]
        check_outputs([source, *inputs], paths, self.force)

    def check_images(self, table: Table) -> None:
        """The images of the report must have as many pixels as the table has columns."""
        pixels, shape = self.pixels(), getattr(table.values, "shape", None)  # the shape of blocks is not known yet
        if pixels is not None and shape is not None and pixels[0] * pixels[1] != shape[1]:
            raise InputProblem(
                "--image-shape",
                f"{self.image_shape} has {pixels[0] * pixels[1]} pixels, but {table.source} has {shape[1]} columns",
                "Give the height and width of the images in the rows",
            )

    def finish(self, result: Result, table: Table, predict: str | None = None) -> None:
        """Write everything, say what was written, and exit with the code of the status."""
        self._write(result, table, predict)
        if not self.quiet:
            print(f"status: {result.status}")
            print(result.certificate)
            written = [self.factors(table.source), *self.labelled(table.source)]
            say_written(*written, self.certificate, self.trace, predict, self.report)
        if result.status == "interrupted":
            raise Exit(interrupted())
        from enmf.certificate.words import DONE

        if result.status not in DONE and not result.certificate.stationary:
            raise Exit(NOT_CONVERGED)

    def finish_stream(self, stream: Stream, columns: list[str] | None, source: str) -> None:
        """Write the components and what is needed to go on, and say so."""
        from enmf.io import results

        path, table = self.factors(source), None
        results.save(path, stream.save)
        if self.tables is not None:
            table = self.labelled(source)[1]
            results.save_table(table, stream.V, columns, "column")
        if self.certificate is not None:
            about = {"status": stream.status, "data": source, "command": _command(), "versions": versions()}
            results.save_json(self.certificate, {**about, **stream.certificate.to_dict()})
        if not self.quiet:
            print(f"status: {stream.status}")
            print(stream.certificate)
            say_written(path, table, self.certificate)

    def _write(self, result: Result, table: Table, predict: str | None) -> None:
        from enmf.io import results

        results.save_result(self.factors(table.source), result, table.rows, table.columns)
        if self.tables is not None:
            results.save_labelled(self.labelled(table.source), result, table.rows, table.columns)
        if self.certificate is not None:
            about = {"status": result.status, "data": table.source, "command": _command(), "settings": result.settings}
            results.save_json(self.certificate, {**about, "versions": versions(), **result.certificate.to_dict()})
        if self.trace is not None:
            results.save_json(self.trace, [row._asdict() for row in result.trace])
        if predict is not None:
            results.save(predict, lambda place: _write_estimates(place, table, result))
        if self.report is not None:
            results.save(self.report, lambda place: self._write_report(place, table, result))

    def _write_report(self, path: str, table: Table, result: Result) -> None:
        whole = hasattr(table.values, "ndim") and not hasattr(table.values, "chunks")
        result.report(
            path,
            table.values if whole else None,
            row_names=table.rows,
            column_names=table.columns,
            image_shape=self.pixels(),
            source=None if table.source == STDIN else Path(table.source).name,
            command=_command(),
        )


def _write_estimates(path: str, table: Table, result: Result) -> None:
    """row, column, estimate for every missing entry, one block of rows at a time."""
    import numpy as np
    import pandas
    import scipy.sparse as sp

    from enmf.matrix.factor import row_blocks

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


def save_ranks(found: RankSelection, out: str | None, plot: str | None) -> None:
    """The table and the plot of `enmf rank`."""
    from enmf.io import results

    if out is not None and out.lower().endswith(".json"):
        results.save_json(out, found.to_dict())
    elif out is not None:
        results.save(out, found.table.to_csv)
    if plot is not None:
        results.save(plot, found.plot()[0].figure.savefig)


def say_written(*paths: str | None) -> None:
    written = [path for path in paths if path]
    if written:
        say("written: " + ", ".join(written))


def watched(quiet: bool) -> bool:
    """Whether to show progress: only to people at a terminal."""
    return not quiet and sys.stderr.isatty()


def _command() -> str:
    return shlex.join(["enmf", *sys.argv[1:]])


def versions() -> dict[str, str]:
    """The versions that determine a result, the instruction set of the kernels, and the optional packages."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from enmf import __version__, kernels

    compiler = kernels.load(kernels.level).COMPILER
    found = {"enmf": __version__, "kernels": f"{kernels.level}, {compiler}"}
    found |= {"python": platform.python_version(), "system": platform.platform()}
    for name in ("numpy", "scipy", "scikit-learn", "pandas", "pyarrow", "anndata", "matplotlib"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


# ---------------------------------------------------------------- checks before the work


def check_outputs(inputs: Sequence[str | None], paths: Sequence[str | None], force: bool) -> None:
    """Outputs can be written, replace nothing without --force, and never an input."""
    wanted = [path for path in paths if path]
    for path in wanted:
        _check_place(path)
        check_not_inputs(path, inputs)
        if os.path.isfile(path) and not force:
            raise InputProblem(path, "already exists", "Add --force to replace it, or choose another name")
    twice = [path for k, path in enumerate(wanted) if os.path.realpath(path) in map(os.path.realpath, wanted[:k])]
    if twice:
        raise InputProblem(twice[0], "two outputs have this name", "Choose different names")


def _check_place(path: str) -> None:
    folder = Path(path).parent
    if not folder.is_dir():
        raise InputProblem(path, f"there is no folder {str(folder)!r} to write to", "Create it first")
    try:
        os.stat(path)
        allowed = os.access(path, os.W_OK) and not os.path.isdir(path)
    except FileNotFoundError:
        allowed = os.access(os.path.dirname(os.path.realpath(path)), os.W_OK)
    except OSError:  # no file can have this name
        allowed = False
    if not allowed:
        raise InputProblem(path, "cannot be written", "Choose another place")


def check_not_inputs(path: str | None, inputs: Sequence[str | None]) -> None:
    """Refuse inputs under any name: also links to them, and places in a folder of parts."""
    for source in inputs:
        if path is None or source in (None, STDIN):
            continue
        if _same(path, source):
            raise InputProblem(path, "is an input of this command", "Choose another name for the output")
        if os.path.isdir(source) and _same(os.path.dirname(os.path.abspath(path)), source):
            raise InputProblem(path, f"is inside {source}, which holds the data", "Choose another folder")


def _same(a: str, b: str) -> bool:
    return os.path.exists(a) and os.path.exists(b) and os.path.samefile(a, b)


def check_rank_files(out: str | None, plot: str | None) -> None:
    """The endings of the two files of `enmf rank` are known, and matplotlib is installed if it is needed."""
    if out is not None and not out.lower().endswith((".csv", ".json")):
        raise InputProblem(out, "is neither csv nor json", "Choose a name that ends in .csv or .json")
    if plot is None:
        return
    from enmf.report.plots import pyplot

    plt = pyplot()
    plt.switch_backend("agg")
    from matplotlib.backend_bases import FigureCanvasBase

    if Path(plot).suffix.lower().lstrip(".") not in FigureCanvasBase.filetypes:
        raise InputProblem(plot, "unknown picture format", "Choose a name that ends in .png, .svg or .pdf")
