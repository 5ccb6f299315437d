"""What a command works on: tables, data read in blocks, a Dask scheduler, lists of ranks."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enmf.cli.exits import run_begins
from enmf.io.messages import InputProblem, one_line, say
from enmf.io.reading import Reading

if TYPE_CHECKING:
    from enmf.io.tables import Table

WRONG = {  # kind of entry -> what is wrong with it, and the remedy
    "NaN": ("is missing or NaN", "Fill it in"),
    "infinite": ("is infinite", "Remove or clip it"),
    "negative": ("is negative", "NMF needs entries >= 0: shift or rescale, drop the column, or see --negative"),
}


def read_table(data: str, reading: Reading, silent: bool) -> Table:
    """The table in a file; says what was read, and what was taken as header and names."""
    from enmf.io import tables

    return _shown(tables.read(data, reading), silent)


def read_or_open(data: str, reading: Reading, silent: bool, in_blocks: bool) -> Table:
    """A table, or data that stay where they are and are read in blocks: if asked for, and folders of parts."""
    from enmf.io.tables import is_10x

    folder = Path(data)
    in_blocks = in_blocks or (folder.is_dir() and not is_10x(folder))
    return _shown(_open_blocks(data, reading), silent) if in_blocks else read_table(data, reading, silent)


def _shown(table: Table, silent: bool) -> Table:
    if not silent and hasattr(table.values, "shape"):  # the shape of blocks is not known yet
        say(table)
    return table


def _open_blocks(data: str, reading: Reading) -> Table:
    from enmf.io.tables import Table

    place = Path(data)
    folder = place.is_dir()
    if not folder and place.suffix.lower() != ".npy":
        raise InputProblem(
            data,
            "cannot be read in blocks",
            "--memory-limit and --scheduler need an npy file, a folder of parts or a zarr store",
        )
    if not place.exists():
        raise InputProblem(data, "no such file", f"Check the name; the current folder is {Path.cwd()}")
    if reading != Reading():
        raise InputProblem(
            data, "is read in blocks, unchanged and without names", "Leave out options such as --row-names and --drop"
        )
    return Table(_opened(data, place) if folder else data, None, None, data)


def _opened(data: str, folder: Path) -> Any:
    """A zarr store, or the name of a folder of parts."""
    from enmf.distributed.sources import SUFFIXES

    if any((folder / name).exists() for name in (".zarray", "zarr.json")):
        check_installed("zarr", data)
        import zarr

        return zarr.open(data, mode="r")
    if not any(part.suffix in SUFFIXES for part in folder.iterdir()):
        raise InputProblem(
            data,
            "the folder holds nothing that can be read",
            "It must hold npz, npy or parquet parts, a zarr store, or the matrix.mtx, features.tsv and barcodes.tsv "
            "of 10x",
        )
    return data


@contextlib.contextmanager
def workers_at(address: str | None) -> Iterator[None]:
    """Let the workers of a Dask scheduler do the work of the body."""
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
            f"--scheduler {address}", f"does not answer ({one_line(problem)})", "Start one with `dask scheduler`"
        ) from None
    with client:
        yield


@contextlib.contextmanager
def working_on(table: Table, completing: bool = False) -> Iterator[None]:
    """A run: warnings become one line each, problems name the file and the entry."""
    from enmf.problem.validation.entries import EntryError
    from enmf.run.saved import Unusable

    run_begins()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        except EntryError as problem:
            what, remedy = WRONG[problem.kind]
            if problem.kind == "NaN" and not completing:
                remedy += ", or use `enmf complete`, which accepts missing entries"
            more = f" (one of {problem.count} such entries)" if problem.count > 1 else ""
            raise InputProblem(table.source, f"{table.place(*problem.place)} {what}{more}", remedy) from None
        except Unusable:
            raise  # it names the checkpoint
        except (ValueError, TypeError) as problem:
            raise InputProblem(table.source, " ".join(str(problem).split()), "See --help") from None
        except MemoryError as problem:
            remedy = "Use a smaller rank, --dtype float32, or --memory-limit with an npy file"
            raise InputProblem(table.source, f"does not fit in memory ({one_line(problem)})", remedy) from None
        finally:
            for warning in caught:
                if issubclass(warning.category, (UserWarning, RuntimeWarning)):
                    say(f"enmf: warning: {' '.join(str(warning.message).split())}", sys.stderr)


def check_installed(package: str, needed_by: str) -> None:
    from importlib.util import find_spec

    try:
        there = find_spec(package) is not None
    except ValueError:
        there = False
    if not there:
        raise InputProblem(needed_by, f"needs {package}, which is not installed", f"pip install {package}")


def parse_ranks(text: str) -> list[int]:
    """2:20 (both ends included), 5:50:5, or 3,5,8."""
    try:
        if ":" in text:
            first, last, *step = (int(part) for part in text.split(":"))
            found = list(range(first, last + 1, *step))
        else:
            found = [int(part) for part in text.split(",")]
    except (ValueError, TypeError):
        found = []
    if not found or min(found) < 1:
        raise InputProblem("--ranks", f"{text!r} is not a list of ranks", "Write 2:20, 5:50:5 or 3,5,8")
    return found


def usual_ranks(table: Table) -> list[int]:
    """2 to 20, or as many as the sides of the table allow."""
    side = min(table.values.shape)
    if side < 2:
        raise InputProblem(table.source, "has one row or column, so rank 1 is exact", "There is no rank to choose")
    return list(range(2, min(20, side - 1) + 1)) or [1]
