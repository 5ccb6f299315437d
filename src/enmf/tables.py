"""Files in and out: a matrix with the names of its rows and columns, whatever it is stored in.

csv, tsv     header and row names where they are; also .gz; "-" is csv from standard input
npy, npz     dense (one array, or the one called X) or scipy's sparse form; npy files are mapped, not read
mtx          Matrix Market, also .gz
parquet      needs pyarrow; text columns in front are row names
h5ad         needs anndata; obs and var names
triplets     row, column, value in each line, for completion

Every problem is an `InputProblem`: one line that names the file, the place and the remedy.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import math
import os
import sys
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from enmf.components import Component
from enmf.optimality import Certificate
from enmf.result import Result
from enmf.trace import Phase, Trace, TraceRow
from enmf.uniqueness import Uniqueness

STDIN = "-"
SEPARATORS = {".csv": ",;\t", ".tsv": "\t", ".txt": "\t,;", ".data": "\t,;", ".dat": "\t,;"}
LOOKED_AT = 200_000  # lines that are counted to find a short one, once something is missing


class InputProblem(Exception):
    """A file that cannot be used: what is wrong where, and what to do."""

    def __init__(self, source: str, problem: str, remedy: str) -> None:
        super().__init__(f"{'standard input' if source == STDIN else source}: {problem}. {remedy}")


@dataclass(frozen=True)
class Table:
    """A matrix, dense or CSR, with names where the file has them."""

    values: Any
    rows: list[str] | None
    columns: list[str] | None
    source: str

    def place(self, row: int, column: int) -> str:
        """An entry in the words of the file."""
        first = f"row {row + 1}" + (f" ('{self.rows[row]}')" if self.rows else "")
        return first + f", column {column + 1}" + (f" ('{self.columns[column]}')" if self.columns else "")


def read(
    source: str, *, triplets: bool = False, row_names: str | None = None, column_names: str | None = None
) -> Table:
    """The matrix in a file, by its extension; names from further files, one a line, where given."""
    place = Path(source)
    if source != STDIN:
        _check_exists(source, place)
    kind = ".csv" if source == STDIN else _extension(place)
    reader = _read_triplets if triplets else READERS.get(kind)
    if reader is None:
        raise InputProblem(
            source, f"files that end in '{kind or place.name}' are not known", f"Use one of {', '.join(READERS)}"
        )
    table = _guarded(source, lambda: reader(source, kind))
    if table.values.ndim != 2 or 0 in table.values.shape:
        raise InputProblem(
            source, f"the array has shape {table.values.shape}", "A matrix with rows and columns is needed"
        )
    rows = table.rows if row_names is None else _read_names(row_names, table.values.shape[0], source, "rows")
    columns = (
        table.columns if column_names is None else _read_names(column_names, table.values.shape[1], source, "columns")
    )
    return Table(table.values, rows, columns, source)


def _extension(place: Path) -> str:
    name = place.name.lower().removesuffix(".gz")
    return Path(name).suffix


def _check_exists(source: str, place: Path) -> None:
    if place.is_dir():
        raise InputProblem(source, "this is a directory", "Name the file in it")
    if not place.exists():
        raise InputProblem(source, "there is no such file", f"Check the name; the current folder is {Path.cwd()}")
    if not os.access(place, os.R_OK):
        raise InputProblem(source, "the file may not be read", "Ask its owner for permission, or copy it")
    if place.stat().st_size == 0 and place.is_file():
        raise InputProblem(source, "the file is empty", "Export or download it again")


def _install(source: str) -> str:
    return f"pip install {'anndata' if source.endswith('.h5ad') else 'pyarrow'}"


def _guarded(source: str, work: Callable[[], Any]) -> Any:
    """What a reader may stumble over, as one line."""
    try:
        return work()
    except UnicodeDecodeError as problem:
        raise InputProblem(source, f"byte {problem.start} is not UTF-8 text", "Save the file as UTF-8") from None
    except (zipfile.BadZipFile, EOFError, zlib.error, gzip.BadGzipFile) as problem:
        raise InputProblem(
            source, f"the file is damaged or cut off ({_one_line(problem)})", "Copy or download it again"
        ) from None
    except PermissionError:
        raise InputProblem(source, "the file may not be read", "Ask its owner for permission, or copy it") from None
    except MemoryError:
        raise InputProblem(source, "does not fit into memory", "Use a sparse format, or npy, which is mapped") from None
    except ImportError:
        raise InputProblem(source, "its reader is not installed", _install(source)) from None
    except (ValueError, OSError, KeyError, TypeError) as problem:
        raise InputProblem(
            source, f"cannot be read: {_one_line(problem)}", "Check that the file is what its ending says"
        ) from None


def _one_line(problem: BaseException) -> str:
    return " ".join(str(problem).split())[:300] or type(problem).__name__


# ---------------------------------------------------------------- csv


def _read_text(source: str, kind: str) -> Table:
    import pandas

    layout = _Layout.of(source, kind)
    try:
        frame = layout.read(source, index_col=0 if layout.named_rows else None, engine="c", low_memory=False)
    except pandas.errors.EmptyDataError:
        raise InputProblem(source, "there is no data in the file", "Export it again") from None
    except pandas.errors.ParserError as problem:
        text = _one_line(problem).removeprefix("Error tokenizing data. C error: ")
        raise InputProblem(
            source, f"the lines differ in length ({text})", "Give every line the same number of fields"
        ) from None
    if frame.shape[0] == 0:
        raise InputProblem(source, "there is a header but no data below it", "Export it again")
    implicit = not isinstance(frame.index, pandas.RangeIndex)  # a header with one name less than there are columns
    return _from_frame(frame, source, layout.named_rows or implicit, layout)


@dataclass(frozen=True)
class _Layout:
    """What the first two lines say about a text file."""

    separator: str
    header: bool
    named_rows: bool
    decimal: str
    stream: io.BytesIO | None  # standard input, which cannot be opened again

    def read(self, source: str, **options: Any) -> Any:
        """The file as a frame; options are those of pandas."""
        import pandas

        return pandas.read_csv(
            self.stream if self.stream is not None else source,
            sep=self.separator,
            header=0 if self.header else None,
            encoding="utf-8-sig",
            decimal=self.decimal,
            **options,
        )

    @staticmethod
    def of(source: str, kind: str) -> _Layout:
        stream = io.BytesIO(sys.stdin.buffer.read()) if source == STDIN else None
        with _open_text(source, stream) as lines:
            head = [line for line in itertools.islice((line.rstrip("\r\n") for line in lines), 20) if line.strip()]
        if stream is not None:
            stream.seek(0)
        if not head:
            raise InputProblem(source, "the file is empty", "Export or download it again")
        marks = SEPARATORS.get(kind, ",;\t")
        separator = max(marks, key=lambda mark: (head[0].count(mark), -marks.index(mark)))
        first, *rest = (next(csv.reader([line], delimiter=separator)) for line in head[:2])
        body = rest[0] if rest else first
        decimal = "," if separator == ";" and any("," in cell for cell in body) else "."
        header = any(not _is_number(cell, decimal) for cell in first[1:] or first)
        if header and len(body) == len(first) + 1:
            return _Layout(separator, True, False, decimal, stream)  # pandas takes the first column for names by itself
        names = len(body) > 1 and (not _is_number(body[0], decimal) or (header and not first[0].strip()))
        return _Layout(separator, header, names, decimal, stream)


def _open_text(source: str, stream: io.BytesIO | None) -> io.TextIOBase:
    if stream is not None:
        stream.seek(0)
        return io.StringIO(stream.getvalue()[: 1 << 20].decode("utf-8-sig", errors="replace"), newline="")
    if source.lower().endswith(".gz"):
        return gzip.open(source, "rt", encoding="utf-8-sig", newline="")
    return open(source, encoding="utf-8-sig", newline="")


def _is_number(cell: str, decimal: str = ".") -> bool:
    """Numbers, and what stands for a missing one."""
    cell = cell.strip().strip('"').replace(decimal, ".")
    if cell.lower() in ("", "na", "nan", "n/a", "null", "none", "inf", "-inf"):
        return True
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _from_frame(frame: Any, source: str, named_rows: bool, layout: _Layout | None) -> Table:
    import pandas

    for number, name in enumerate(frame.columns):
        column = frame[name] if frame.columns.is_unique else frame.iloc[:, number]
        if column.dtype == object or not pandas.api.types.is_numeric_dtype(column):
            bad = pandas.to_numeric(column, errors="coerce").isna() & ~column.isna()
            row = int(np.argmax(bad.to_numpy())) if bad.any() else 0
            label = f" ('{name}')" if layout is None or layout.header else ""
            raise InputProblem(
                source,
                f"data row {row + 1}, column {number + 1}{label} holds {str(column.iloc[row])[:40]!r}, not a number",
                "Correct or remove it; names may stand in the first column and in the first line only",
            )
    values = frame.to_numpy(dtype=np.float64 if frame.dtypes.nunique() > 1 else None)
    if layout is not None and layout.stream is None and values.dtype.kind == "f" and np.isnan(values[:, -1]).any():
        _check_lengths(source, layout)
    rows = [str(name) for name in frame.index] if named_rows else None
    columns = [str(name) for name in frame.columns] if layout is None or layout.header else None
    return Table(values, rows, columns, source)


def _check_lengths(source: str, layout: _Layout) -> None:
    """A line that ends early, which pandas fills with missing values."""
    with _open_text(source, None) as lines:
        reader = csv.reader(itertools.islice(lines, LOOKED_AT), delimiter=layout.separator)
        wanted = 0
        for line in reader:
            if line and reader.line_num > 1 and len(line) < wanted:
                raise InputProblem(
                    source,
                    f"line {reader.line_num} has {len(line)} fields, the first line has {wanted}",
                    "Give every line the same number of fields",
                )
            wanted = wanted or len(line)


def _read_triplets(source: str, kind: str) -> Table:
    import pandas

    if kind == ".dat":
        from enmf.datasets import read_movielens

        found = read_movielens(source)
        return Table(found.matrix(), [str(i) for i in found.user_ids], [str(i) for i in found.item_ids], source)
    layout = _Layout.of(source, kind)
    try:
        frame = layout.read(source, usecols=[0, 1, 2])
    except (pandas.errors.ParserError, pandas.errors.EmptyDataError, ValueError) as problem:
        raise InputProblem(
            source, f"is not a list of triplets ({_one_line(problem)})", "Every line needs row, column and value"
        ) from None
    values = pandas.to_numeric(frame.iloc[:, 2], errors="coerce")
    if values.isna().any() or frame.iloc[:, :2].isna().any(axis=None):
        row = int(np.argmax((values.isna() | frame.iloc[:, :2].isna().any(axis=1)).to_numpy()))
        raise InputProblem(
            source,
            f"data row {row + 1} is {', '.join(map(str, frame.iloc[row].tolist()))}",
            "Every line needs row, column and a number",
        )
    rows, row_names = pandas.factorize(frame.iloc[:, 0], sort=True)
    columns, column_names = pandas.factorize(frame.iloc[:, 1], sort=True)
    twice = pandas.DataFrame({"row": rows, "column": columns}).duplicated().to_numpy()
    if twice.any():
        row = int(np.argmax(twice))
        raise InputProblem(
            source,
            f"{int(twice.sum())} places have more than one value, the first in data row {row + 1}",
            "Keep one value for each row and column",
        )
    matrix = sp.csr_array((values.to_numpy(dtype=np.float64), (rows, columns)), (len(row_names), len(column_names)))
    return Table(matrix, [str(name) for name in row_names], [str(name) for name in column_names], source)


# ---------------------------------------------------------------- binary forms


def _read_npy(source: str, kind: str) -> Table:
    return Table(np.load(source, mmap_mode="r", allow_pickle=False), None, None, source)


def _read_npz(source: str, kind: str) -> Table:
    with np.load(source, allow_pickle=False) as held:
        names = set(held.files)
        if {"format", "shape", "data"} <= names:
            return Table(sp.csr_array(sp.load_npz(source)), None, None, source)
        matrices = [name for name in held.files if held[name].ndim == 2] if "X" not in names else ["X"]
        if len(matrices) != 1:
            raise InputProblem(
                source,
                f"holds {len(matrices)} matrices ({', '.join(matrices) or 'none'})",
                "Save one matrix, or call the one to use X",
            )
        return Table(held[matrices[0]], None, None, source)


def _read_mtx(source: str, kind: str) -> Table:
    from scipy.io import mmread

    found = mmread(source)
    return Table(sp.csr_array(found) if sp.issparse(found) else found, None, None, source)


def _read_parquet(source: str, kind: str) -> Table:
    import pandas

    frame = pandas.read_parquet(source)
    named = not isinstance(frame.index, pandas.RangeIndex)
    if not named and frame.shape[1] > 1 and not pandas.api.types.is_numeric_dtype(frame.iloc[:, 0]):
        frame, named = frame.set_index(frame.columns[0]), True
    return _from_frame(frame, source, named, None)


def _read_h5ad(source: str, kind: str) -> Table:
    import anndata

    found = anndata.read_h5ad(source)
    values = sp.csr_array(found.X) if sp.issparse(found.X) else np.asarray(found.X)
    return Table(values, list(map(str, found.obs_names)), list(map(str, found.var_names)), source)


READERS: dict[str, Callable[[str, str], Table]] = {
    ".csv": _read_text,
    ".tsv": _read_text,
    ".txt": _read_text,
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".mtx": _read_mtx,
    ".parquet": _read_parquet,
    ".h5ad": _read_h5ad,
}


def _read_names(source: str, wanted: int, of: str, what: str) -> list[str]:
    _check_exists(source, Path(source))

    def work() -> list[str]:
        with _open_text(source, None) as lines:
            return [line.rstrip("\r\n") for line in lines]

    names = _guarded(source, work)
    while names and not names[-1]:
        names.pop()
    if len(names) != wanted:
        raise InputProblem(
            source, f"has {len(names)} names for the {wanted} {what} of {of}", "Give one name a line, without a header"
        )
    return names


# ---------------------------------------------------------------- results


def save_result(path: str, result: Result, rows: list[str] | None, columns: list[str] | None) -> None:
    """Factors, names (of the file, or of the frame that was factorized) and all that is known, without pickles."""
    rows, columns = rows or result.row_names, columns or result.feature_names
    about = {
        "status": result.status,
        "n_iter": result.n_iter,
        "certificate": result.certificate.to_dict(),
        "phases": {name: asdict(phase) for name, phase in result.phases.items()},
        "trace": [list(row) for row in result.trace],
        "settings": result.settings,
    }
    names = {key: np.array(held) for key, held in (("row_names", rows), ("column_names", columns)) if held}
    arrays: dict[str, Any] = {"U": result.U, "V": result.V, "about": np.array(to_json(about)), **names}
    _writable(path, lambda: np.savez(path, **arrays))


def load_result(source: str) -> tuple[Result | tuple[np.ndarray, np.ndarray], list[str] | None, list[str] | None]:
    """What `save_result` wrote; a plain pair (U, V) for npz files of others (U and V, or W and H)."""
    _check_exists(source, Path(source))

    def work() -> Any:
        with np.load(source, allow_pickle=False) as held:
            return {name: held[name] for name in held.files}

    held = _guarded(source, work)
    if not isinstance(held, dict) or not ({"U", "V"} <= held.keys() or {"W", "H"} <= held.keys()):
        found = ", ".join(held) if isinstance(held, dict) else "one array"
        raise InputProblem(source, f"holds no factors (found: {found})", "Save U and V, or W and H, with numpy.savez")
    U, V = (held["U"], held["V"]) if "U" in held else (held["W"], held["H"].T)
    rows, columns = (held[key].tolist() if key in held else None for key in ("row_names", "column_names"))
    if "about" not in held:
        return (U, V), rows, columns
    about = json.loads(str(held["about"]))
    c = about["certificate"]
    c = {key: math.inf if value is None and key in ("ratio", "kkt") else value for key, value in c.items()}
    parts = tuple(Component(**part) for part in c.pop("components"))
    unique = c.pop("uniqueness")
    dead = tuple(c.pop("dead_components"))
    certificate = Certificate(
        **c, components=parts, dead_components=dead, uniqueness=Uniqueness(**unique) if unique else None
    )
    trace = Trace(TraceRow._make(math.nan if value is None else value for value in row) for row in about["trace"])
    phases = {name: Phase(**phase) for name, phase in about["phases"].items()}
    settings = about.get("settings", {})
    result = Result(
        *(U, V, about["status"], about["n_iter"], certificate, trace, phases),
        settings=settings,
        row_names=rows,
        feature_names=columns,
    )
    return result, rows, columns


def save_labelled(stem: str, kind: str, result: Result, rows: list[str] | None, columns: list[str] | None) -> list[str]:
    """Both factors as tables with names: stem.U.csv and stem.V.csv (or parquet)."""
    import pandas

    written = []
    for letter, F, names in (("U", result.U, rows), ("V", result.V, columns)):
        index = pandas.Index(names if names else range(1, len(F) + 1), name="row" if letter == "U" else "column")
        frame = pandas.DataFrame(F, index=index, columns=[f"component {j + 1}" for j in range(F.shape[1])])
        path = f"{stem}.{letter}.{kind}"
        write = frame.to_csv if kind == "csv" else frame.to_parquet
        _writable(path, lambda write=write, path=path: write(path))  # type: ignore[misc]
        written.append(path)
    return written


def save_json(path: str, content: Any) -> None:
    _writable(path, lambda: Path(path).write_text(to_json(content, indent=1) + "\n", encoding="utf-8"))


def to_json(content: Any, indent: int | None = None) -> str:
    """JSON with null for numbers that are not finite."""
    return json.dumps(_plain(content), indent=indent)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(held) for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(held) for held in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def _writable(path: str, write: Callable[[], object]) -> None:
    try:
        write()
    except ImportError:
        raise InputProblem(path, "its writer is not installed", _install(path)) from None
    except OSError as problem:
        raise InputProblem(
            path, f"cannot be written ({problem.strerror or problem})", "Choose another place with --out"
        ) from None
