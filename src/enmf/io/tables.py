"""Reads a matrix and the names of its rows and columns, whatever the file format.

csv, tsv     and other text: see `enmf.io.textfiles`; gzip is fine; "-" is standard input
npy, npz     dense (one array, or the one called X) or scipy's sparse format; npy files are mapped, not read
mtx          Matrix Market, also .gz
10x          a folder with matrix.mtx, features.tsv (or genes.tsv) and barcodes.tsv: cells in rows, genes in columns
parquet      needs pyarrow; a first column of text holds the row names
h5ad         needs anndata; obs and var names
triplets     one row, column, value per line, for completion

Every problem is an `InputProblem`: one line that names the file, the place and the remedy.
"""

from __future__ import annotations

import gzip
import io
import itertools
import math
import os
import shlex
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

from enmf.io.messages import STDIN, InputProblem, one_line, outline, spoken
from enmf.io.reading import Reading
from enmf.io.textfiles import Layout, Stored, column_number, look_at, read_text, requested_index
from enmf.matrix.structure import as_csr

TEXT = (".csv", ".tsv", ".txt")


@dataclass(frozen=True)
class Table:
    """A matrix, dense or CSR, with names if the file has them; `notes` tell where they were found."""

    values: Any
    rows: list[str] | None
    columns: list[str] | None
    source: str
    notes: tuple[str, ...] = ()
    before: int = 0  # rows of the file in earlier parts

    def place(self, row: int, column: int) -> str:
        """An entry by its numbers and names in the file."""
        first = f"row {self.before + row + 1}" + (f" ('{self.rows[row]}')" if self.rows else "")
        return first + f", column {column + 1}" + (f" ('{self.columns[column]}')" if self.columns else "")

    def __str__(self) -> str:
        n, m = self.values.shape
        return "\n".join([f"read: {spoken(self.source)}, {n} rows x {m} columns", *self.notes])

    def transposed(self) -> Table:
        values = sp.csr_array(self.values.T) if sp.issparse(self.values) else self.values.T
        return replace(self, values=values, rows=self.columns, columns=self.rows)


def read(source: str, reading: Reading | None = None, **how: Any) -> Table:
    """The matrix in a file, by its extension or `format`; `how` are fields of `Reading`."""
    reading = replace(reading or Reading(), **how)
    if source != STDIN:
        check_exists(source)
    kind = _kind(source, reading)
    _check_applies(source, kind, reading)
    if kind == TEN_X:
        table = _guarded(source, lambda: _read_10x(Path(source)))
    else:
        reader = _read_triplets if reading.triplets else READERS[kind]
        table = _guarded(source, lambda: reader(Stored.at(source), kind, reading))
    if table.values.ndim != 2 or 0 in table.values.shape:
        raise InputProblem(source, f"the array has shape {table.values.shape}", "Give a matrix with rows and columns")
    if reading.drop and kind not in (*TEXT, ".parquet"):  # those are dropped before the columns become numbers
        table = _without(table, reading.drop)
    if reading.transpose:
        table = table.transposed()
    return _renamed(table, reading)


def _kind(source: str, reading: Reading) -> str:
    """The extension that decides how a file is read."""
    place = Path(source)
    if place.is_dir():
        return TEN_X
    if reading.format is not None:
        wanted = "." + reading.format.lower().lstrip(".")
        if wanted not in READERS:
            known = ", ".join(kind[1:] for kind in READERS)
            raise InputProblem("--format", f"unknown format {reading.format!r}", f"Choose one of {known}")
        return wanted
    kind = ".csv" if source == STDIN else Path(place.name.lower().removesuffix(".gz")).suffix
    if kind not in READERS and not reading.triplets:
        raise InputProblem(
            source,
            f"unknown file extension '{kind}'" if kind else "the file has no extension",
            f"Use one of {', '.join(READERS)}, or name the format, as in --format csv",
        )
    return kind


def _check_applies(source: str, kind: str, reading: Reading) -> None:
    """Refuse options that would have no effect: they are a misunderstanding."""
    text = ("header", "sep", "decimal", "encoding", "skip")
    wrong = [name for name in text if getattr(reading, name) is not None and kind not in TEXT and not reading.triplets]
    if reading.index is not None and kind not in (*TEXT, ".parquet"):
        wrong.append("index")
    if reading.layer is not None and kind != ".h5ad":
        wrong.append("layer")
    if wrong:
        raise InputProblem(source, f"--{wrong[0]} does not apply to {kind.lstrip('.')}", "Leave it out")


def _without(table: Table, drop: Sequence[str]) -> Table:
    """The table without some columns."""
    m = table.values.shape[1]
    gone = _dropped(drop, table.columns, m, table.source)
    kept = [j for j in range(m) if j not in gone]
    columns = [table.columns[j] for j in kept] if table.columns else None
    return replace(table, values=table.values[:, kept], columns=columns)


def _dropped(drop: Sequence[str], names: Sequence[str] | None, width: int, source: str) -> set[int]:
    """Columns by name or number; one string may hold several, separated by commas."""
    whole = [[text] if names and text in names else text.split(",") for text in drop]
    gone = {column_number(part.strip(), names, width, "--drop", source) for parts in whole for part in parts}
    same = {names[j] for j in gone if names[j]} if names else set()  # all columns of that name
    gone |= {j for j in range(width) if names and names[j] in same}
    if len(gone) >= width:
        raise InputProblem(source, "--drop removes every column", "Keep at least one")
    return gone


def _renamed(table: Table, reading: Reading) -> Table:
    """The table with the names in further files, one name per line."""
    n, m = table.values.shape
    if reading.row_names is not None:
        table = replace(table, rows=_read_names(reading.row_names, n, table.source, "rows"))
    if reading.column_names is not None:
        table = replace(table, columns=_read_names(reading.column_names, m, table.source, "columns"))
    return table


def check_exists(source: str) -> None:
    """Refuse a path that is not a file (or a folder of 10x) with content that may be read."""
    place = Path(source)
    if place.is_dir():
        if not is_10x(place):
            raise InputProblem(source, "is a folder", "Name a file in it")
        return
    if not place.exists():
        raise InputProblem(source, "no such file", f"Check the name; the current folder is {Path.cwd()}")
    if not os.access(place, os.R_OK):
        raise _forbidden(source)
    if place.stat().st_size == 0 and place.is_file():
        raise InputProblem(source, "the file is empty", "Export or download it again")


def _forbidden(source: str) -> InputProblem:
    return InputProblem(source, "you have no permission to read the file", "Ask its owner for it, or copy the file")


def install(path: str) -> str:
    """The command that installs what reads and writes such a file."""
    return f"pip install {'anndata' if path.endswith('.h5ad') else 'pyarrow'}"


def _guarded(source: str, work: Callable[[], Any]) -> Any:
    """Run a reader; whatever it fails with becomes one line."""
    try:
        return work()
    except UnicodeDecodeError as problem:
        raise InputProblem(
            source,
            f"is not {problem.encoding.upper()} text (byte 0x{problem.object[problem.start]:02x})",
            "Give its encoding, for example --encoding latin-1 (Western Europe, older Excel)",
        ) from None
    except (zipfile.BadZipFile, EOFError, zlib.error, gzip.BadGzipFile) as problem:
        raise InputProblem(
            source, f"the file is damaged or truncated ({one_line(problem)})", "Copy or download it again"
        ) from None
    except PermissionError:
        raise _forbidden(source) from None
    except MemoryError:
        raise InputProblem(source, "does not fit in memory", "Use a sparse format, or npy, which is mapped") from None
    except ImportError:
        raise InputProblem(source, "the package that reads it is not installed", install(source)) from None
    except LookupError as problem:
        if "unknown encoding" not in str(problem):
            raise _unreadable(source, problem) from None
        raise InputProblem(
            "--encoding", one_line(problem), "Use a name such as utf-8, utf-16, latin-1 or cp1252"
        ) from None
    except (ValueError, OSError, TypeError, ArithmeticError) as problem:
        raise _unreadable(source, problem) from None


def _unreadable(source: str, problem: Exception) -> InputProblem:
    return InputProblem(source, f"cannot be read: {one_line(problem)}", "Check that its content matches its extension")


def _check_fits(source: str, n: int, m: int) -> None:
    """Every factorization needs at least a few numbers per row and column: they must fit in memory."""
    if 16 * (n + m) > _memory():
        problem = f"has {n} rows and {m} columns: factors of that size do not fit in memory"
        raise InputProblem(source, problem, "Remove empty rows and columns")


def _memory() -> float:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return math.inf


# ---------------------------------------------------------------- text and frames


def _read_text(stored: Stored, kind: str, reading: Reading) -> Table:
    frame, layout = read_text(stored, kind, reading)
    table = _from_frame(frame, layout.header, layout.index, reading, stored.source)
    return replace(table, notes=layout.notes(table.columns, table.rows))


def read_parts(source: str, reading: Reading, lines: int) -> Iterator[Table]:
    """A text file, or standard input, as tables of so many lines each: read once, and never held whole.

    The first part shows the layout of all; a quoted cell must not have line breaks.
    """
    kind = _kind(source, reading)
    if kind not in TEXT or reading.transpose or reading.triplets or reading.row_names:
        raise InputProblem(
            source,
            "cannot be read in parts",
            "--stream needs csv or other text without --transpose and --row-names, an npy file, or a folder of parts",
        )
    with _lines(source, reading.encoding or "utf-8-sig") as text:
        encoded = replace(reading, encoding="utf-8")
        layout: Layout | None = None
        before = 0
        while part := "".join(itertools.islice(text, lines)):
            stored = Stored(source, part.encode())
            if layout is None:
                frame, first = _guarded(source, partial(read_text, stored, kind, encoded))
                layout = replace(first, start=0, skipped=0)
            elif part.strip():
                frame = _guarded(source, partial(layout.read, stored))
                if frame.shape[1] != layout.width:
                    what = f"a part has lines of {frame.shape[1]} fields, the first one of {layout.width}"
                    raise InputProblem(source, what, "Give every line the same number of fields")
            else:
                continue
            frame.index += before
            table = _renamed(_from_frame(frame, layout.header, layout.index, reading, source), reading)
            yield replace(table, before=before)
            before += len(frame)


def _lines(source: str, encoding: str) -> IO[str]:
    """The lines of a text file, which may be packed with gzip, or of standard input."""
    if source != STDIN:
        check_exists(source)
        return Stored(source).text(encoding)
    binary: Any = io.BufferedReader(sys.stdin.buffer)
    if binary.peek(2)[:2] == b"\x1f\x8b":
        binary = gzip.GzipFile(fileobj=binary)
    return io.TextIOWrapper(binary, encoding=encoding, newline="")


def _from_frame(frame: Any, names: Sequence[str] | None, index: int | None, reading: Reading, source: str) -> Table:
    """The numeric part of a frame whose columns are numbered from 0."""
    width = frame.shape[1]
    gone = _dropped(reading.drop, names, width, source) if reading.drop else set()
    kept = [j for j in range(width) if j != index and j not in gone]
    if not kept:
        raise InputProblem(source, "there is no numeric column", "Check --index and --drop")
    rows = None if index is None else [str(name) for name in frame[index].tolist()]
    part = frame if len(kept) == width else frame[kept]
    part = _as_numbers(part, kept, names, source)
    values = part.to_numpy(dtype=np.float64 if part.dtypes.nunique() > 1 else None)
    return Table(values, rows, None if names is None else [names[j] for j in kept], source)


def _as_numbers(part: Any, kept: list[int], names: Sequence[str] | None, source: str) -> Any:
    """The frame as numbers; columns of text and cells with text are reported."""
    import pandas

    held = {j: part[j] for j, dtype in zip(kept, part.dtypes) if dtype.kind not in "biuf"}
    if not held:
        return part
    numbers = {j: pandas.to_numeric(column, errors="coerce") for j, column in held.items()}
    bad = {j: (numbers[j].isna() & ~column.isna()).to_numpy() for j, column in held.items()}
    text = [j for j, where in bad.items() if 2 * where.sum() > held[j].notna().sum()]
    if text:
        raise _text_columns(text, names, source)
    for j, where in bad.items():
        if where.any():
            raise _text_cell(held[j], int(np.argmax(where)), kept.index(j), names[j] if names else "", source, j)
    part = part.copy()
    for j, column in numbers.items():
        part[j] = column
    return part


def _text_columns(text: list[int], names: Sequence[str] | None, source: str) -> InputProblem:
    words = [names[j] if names and names[j] and "," not in names[j] else str(j + 1) for j in text]
    shown = outline([f"'{word}'" if names else word for word in words])
    verb = "column {} holds text" if len(text) == 1 else "columns {} hold text"
    return InputProblem(
        source,
        verb.format(shown),
        f"Remove {'it' if len(text) == 1 else 'them'} with --drop {shlex.quote(','.join(words[:20]))}, "
        "or use one as row names with --index",
    )


def _text_cell(column: Any, row: int, number: int, name: str, source: str, in_file: int) -> InputProblem:
    label = f" ('{name}')" if name else ""
    names = "; if this column holds row names, add --index 1" if in_file == 0 else ""
    place, held = f"data row {column.index[row] + 1}, column {number + 1}{label}", str(column.iloc[row])[:40]
    return InputProblem(
        source,
        f"{place} holds {held!r}, not a number",
        f"Correct it; --skip skips lines above the table, --drop removes columns{names}",
    )


def _read_triplets(stored: Stored, kind: str, reading: Reading) -> Table:
    import pandas

    source = stored.source
    if kind == ".dat":
        from enmf.datasets import read_movielens

        found = read_movielens(source)
        return Table(found.matrix(), [str(i) for i in found.user_ids], [str(i) for i in found.item_ids], source)
    layout = look_at(stored, kind, reading)
    try:
        frame = layout.read(stored, usecols=[0, 1, 2])
    except (pandas.errors.ParserError, pandas.errors.EmptyDataError, ValueError) as problem:
        raise InputProblem(
            source, f"is not a list of triplets ({one_line(problem)})", "Every line needs a row, a column and a value"
        ) from None
    values = pandas.to_numeric(frame.iloc[:, 2], errors="coerce")
    if values.isna().any() or frame.iloc[:, :2].isna().any(axis=None):
        row = int(np.argmax((values.isna() | frame.iloc[:, :2].isna().any(axis=1)).to_numpy()))
        raise InputProblem(
            source,
            f"data row {row + 1} is {', '.join(map(str, frame.iloc[row].tolist()))}",
            "Every line needs a row, a column and a number",
        )
    rows, row_names = pandas.factorize(frame.iloc[:, 0], sort=True)
    columns, column_names = pandas.factorize(frame.iloc[:, 1], sort=True)
    twice = pandas.DataFrame({"row": rows, "column": columns}).duplicated().to_numpy()
    if twice.any():
        row, count = int(np.argmax(twice)), int(twice.sum())
        what = f"data row {row + 1} has the same row and column as an earlier one"
        others = f" (one of {count} such rows)" if count > 1 else ""
        raise InputProblem(source, what + others, "Keep one value for each row and column")
    matrix = sp.csr_array((values.to_numpy(dtype=np.float64), (rows, columns)), (len(row_names), len(column_names)))
    header = f"line {layout.start} ({outline(layout.header)})" if layout.header else "none"
    return Table(matrix, list(map(str, row_names)), list(map(str, column_names)), source, (f"header: {header}",))


def _read_parquet(stored: Stored, kind: str, reading: Reading) -> Table:
    import pandas

    frame = pandas.read_parquet(stored.place())
    names = [str(name) for name in frame.columns]
    rows = None if isinstance(frame.index, pandas.RangeIndex) else [str(name) for name in frame.index]
    index = None
    if reading.index is not None:
        index = requested_index(reading.index, names, len(names), stored.source)
    elif rows is None and len(names) > 1 and not pandas.api.types.is_numeric_dtype(frame.iloc[:, 0]):
        index = 0
    frame = frame.set_axis(range(len(names)), axis=1)
    frame = frame.reset_index(drop=True)  # messages count rows from the top
    table = _from_frame(frame, names, index, reading, stored.source)
    return replace(table, rows=table.rows or (rows if reading.index is None else None))


# ---------------------------------------------------------------- binary formats


def _read_npy(stored: Stored, kind: str, reading: Reading) -> Table:
    if stored.held is None:
        return Table(np.load(stored.source, mmap_mode="r", allow_pickle=False), None, None, stored.source)
    return Table(np.load(stored.open(), allow_pickle=False), None, None, stored.source)


def _read_npz(stored: Stored, kind: str, reading: Reading) -> Table:
    source = stored.source
    with stored.open() as file, zipfile.ZipFile(file) as packed:
        if sum(part.file_size for part in packed.infolist()) > _memory():
            raise MemoryError
    with stored.open() as file, np.load(file, allow_pickle=False) as held:
        names = set(held.files)
        if {"format", "shape", "data"} <= names:
            _check_fits(source, *map(int, held["shape"]))
            file.seek(0)
            return Table(as_csr(sp.load_npz(file)), None, None, source)
        matrices = [name for name in held.files if held[name].ndim == 2] if "X" not in names else ["X"]
        if len(matrices) != 1:
            raise InputProblem(
                source,
                f"holds {len(matrices)} matrices ({', '.join(matrices) or 'none'})",
                "Save one matrix, or name the one to use X",
            )
        return Table(held[matrices[0]], None, None, source)


def _read_mtx(stored: Stored, kind: str, reading: Reading) -> Table:
    from scipy.io import mminfo, mmread

    rows, columns, _, form, *_ = mminfo(stored.place())  # given an open file, it may crash the process
    if form == "coordinate":
        _check_fits(stored.source, rows, columns)
    found = mmread(stored.place())
    return Table(sp.csr_array(found) if sp.issparse(found) else found, None, None, stored.source)


def _read_h5ad(stored: Stored, kind: str, reading: Reading) -> Table:
    import anndata

    found = anndata.read_h5ad(stored.source)
    X = found.X if reading.layer is None else found.layers.get(reading.layer)
    if X is None:
        layers = ", ".join(found.layers) or "none"
        problem = "has no X" if reading.layer is None else f"has no layer {reading.layer!r}"
        raise InputProblem(stored.source, problem, f"Choose one with --layer; the file has: {layers}")
    values = as_csr(X) if sp.issparse(X) else np.asarray(X)
    return Table(values, list(map(str, found.obs_names)), list(map(str, found.var_names)), stored.source)


READERS: dict[str, Callable[[Stored, str, Reading], Table]] = {
    ".csv": _read_text,
    ".tsv": _read_text,
    ".txt": _read_text,
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".mtx": _read_mtx,
    ".parquet": _read_parquet,
    ".h5ad": _read_h5ad,
}

TEN_X = "10x folder"
IN_10X = ("matrix.mtx", ("features.tsv", "genes.tsv"), "barcodes.tsv")


def is_10x(folder: Path) -> bool:
    """Whether a folder holds matrix.mtx, features.tsv (or genes.tsv) and barcodes.tsv, compressed or not."""
    return _parts_of_10x(folder) is not None


def _parts_of_10x(folder: Path) -> list[Path] | None:
    """The files of matrix, features and barcodes; their names may have a prefix."""
    found = []
    for ends in IN_10X:
        places = [p for p in sorted(folder.iterdir()) if p.name.lower().removesuffix(".gz").endswith(ends)]
        if len(places) != 1:
            return None
        found += places
    return found


def _read_10x(folder: Path) -> Table:
    """Cells in rows, genes in columns: the transpose of what 10x stores."""
    parts = _parts_of_10x(folder)
    assert parts is not None
    matrix, features, barcodes = map(str, parts)
    table = _guarded(matrix, lambda: _read_mtx(Stored.at(matrix), ".mtx", Reading())).transposed()
    n, m = table.values.shape
    genes = [line.split("\t") for line in _read_names(features, m, matrix, "genes")]
    columns = [fields[1] if len(fields) > 1 else fields[0] for fields in genes]
    notes = (f"header: {parts[1].name} ({outline(columns)})",)
    rows = _read_names(barcodes, n, matrix, "cells")
    return Table(table.values, rows, columns, str(folder), (*notes, f"row names: {parts[2].name} ({outline(rows)})"))


def _read_names(source: str, wanted: int, of: str, what: str) -> list[str]:
    check_exists(source)

    def work() -> list[str]:
        with Stored.at(source).text("utf-8-sig") as lines:
            return [line.rstrip("\r\n") for line in lines]

    names = _guarded(source, work)
    while names and not names[-1]:
        names.pop()
    if len(names) != wanted:
        raise InputProblem(
            source,
            f"has {len(names)} names for the {wanted} {what} of {of}",
            "Give one name per line, without a header",
        )
    return names
