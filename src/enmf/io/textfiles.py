"""Tables in text files: detects the layout of a file from its first lines.

encoding    the byte order mark, else UTF-8
skipped     `sep=;`, lines that begin with #, and titles: text with fewer fields than the lines below
separator   , ; tab | or blanks, together with the decimal mark: the pair that yields the most numbers
header      a first line with text above columns of numbers; or a line of numbers whose corner is empty above a column
            of names, whose corner is text that does not look like those names, or which is monotone and differs from
            the lines below (`_stands_out`)
row names   a first column of text, one without a title, one that the header leaves out (as R writes it), or one with a
            title that counts 0, 1, 2, ... or 1, 2, 3, ...

Whatever the caller says (`Reading`) takes precedence.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from enmf.io.messages import STDIN, InputProblem, one_line, outline
from enmf.io.reading import Reading

SEPARATORS = ",;\t| "  # in order of preference; a blank stands for any run of blanks and tabs
SEPARATOR_NAMES = {"tab": "\t", "\\t": "\t", "blank": " ", "space": " ", "comma": ",", "semicolon": ";", "pipe": "|"}
MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
MISSING = ("", "na", "nan", "n/a", "null", "none", "inf", "-inf")
HEAD = 100, 1 << 21  # lines and characters that decide about the layout
SCANNED = 200_000  # lines that are searched for a short one, once a value is missing
MANY = 10  # this many numbers are not monotone by chance
COUNTED = 5  # this many rows do not count 1, 2, 3, ... by chance


@dataclass(frozen=True)
class Stored:
    """A file, or the bytes of a pipe or of standard input, which can be read only once."""

    source: str
    held: bytes | None = None

    @classmethod
    def at(cls, source: str) -> Stored:
        if source == STDIN:
            return cls(source, sys.stdin.buffer.read())
        return cls(source, None if Path(source).is_file() else Path(source).read_bytes())

    def open(self) -> IO[bytes]:
        """From the beginning; gzip is decompressed, whatever the file is called."""
        with self._raw() as file:
            packed = file.read(2) == b"\x1f\x8b"
        if not packed:
            return self._raw()
        return gzip.open(self.source if self.held is None else io.BytesIO(self.held))  # type: ignore[return-value]

    def place(self) -> str | io.BytesIO:
        """For readers that open files themselves: the name, or the bytes of a pipe."""
        return self.source if self.held is None else io.BytesIO(self.open().read())

    def text(self, encoding: str) -> io.TextIOWrapper:
        return io.TextIOWrapper(self.open(), encoding=encoding, newline="")

    def _raw(self) -> IO[bytes]:
        return open(self.source, "rb") if self.held is None else io.BytesIO(self.held)


@dataclass(frozen=True)
class Layout:
    """Where the numbers of a text file begin, and what surrounds them."""

    encoding: str
    separator: str
    decimal: str
    start: int  # lines before the first line of data
    skipped: int  # lines before the header, or before the data if there is no header
    width: int  # columns of the file
    header: list[str] | None  # names of all columns, including that of the row names
    index: int | None  # the column of row names

    def read(self, stored: Stored, **options: Any) -> Any:
        """The data below the header as a frame with numbered columns; options go to pandas."""
        import pandas

        with stored.text(self.encoding) as text:
            for _ in range(self.start):
                next(text, None)
            return pandas.read_csv(
                text,
                sep=r"\s+" if self.separator == " " else self.separator,
                header=None,
                decimal=self.decimal,
                skipinitialspace=True,
                low_memory=False,
                **options,
            )

    def notes(self, columns: Sequence[str] | None, rows: Sequence[str] | None) -> tuple[str, ...]:
        """What was taken as header and row names, for people."""
        header = f"line {self.start} ({outline(columns)})" if self.header and columns else "none"
        names = f"column {self.index + 1} ({outline(rows)})" if self.index is not None and rows else "none"
        found = [f"header: {header}", f"row names: {names}"]
        if self.skipped:
            found.append(f"skipped: {'line 1' if self.skipped == 1 else f'lines 1 to {self.skipped}'}")
        return tuple(found)

    def check_lengths(self, stored: Stored) -> None:
        """Refuse lines that end early: pandas would fill them with missing values."""
        with stored.text(self.encoding) as text:
            for number, cells in _rows(itertools.islice(text, SCANNED), self.separator):
                if number > self.start and len(cells) < self.width:
                    raise _uneven(stored, f"line {number} has {len(cells)} fields, the others have {self.width}")


def read_text(stored: Stored, kind: str, reading: Reading) -> tuple[Any, Layout]:
    """The columns of a file, numbered from 0 (that of the row names as text), and its layout."""
    import pandas

    layout = look_at(stored, kind, reading)
    try:
        frame = layout.read(stored, converters={} if layout.index is None else {layout.index: "={}".format})
    except pandas.errors.EmptyDataError:
        below = "there is a header but no data below it" if layout.header else "the file has no data"
        raise InputProblem(stored.source, below, "Export it again") from None
    except pandas.errors.ParserError as problem:
        what = f"the lines differ in length ({_lengths(problem, layout)})"
        raise _uneven(stored, what, ", or skip lines above the table with --skip") from None
    if layout.index is not None:
        # the prefix kept pandas from reading a name like NA as missing
        frame[layout.index] = [name[1:] for name in frame[layout.index].tolist()]
    if frame.shape[1] > layout.width and frame.iloc[:, -1].isna().all():
        frame = frame.iloc[:, :-1]  # every line ends with a separator
    if frame.iloc[:, -1].isna().any():
        layout.check_lengths(stored)
    if frame.shape[1] != layout.width:
        raise _uneven(stored, f"the first lines have {layout.width} fields, others {frame.shape[1]}")
    return frame, layout


def _uneven(stored: Stored, problem: str, more: str = "") -> InputProblem:
    return InputProblem(stored.source, problem, f"Give every line the same number of fields{more}")


def _lengths(problem: Exception, layout: Layout) -> str:
    """The message of pandas, with the line number in the file."""
    found = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(problem))
    if found is None:
        return one_line(problem).removeprefix("Error tokenizing data. C error: ")
    wanted, line, saw = map(int, found.groups())
    return f"line {line + layout.start} has {saw} fields, the lines above have {wanted}"


# ---------------------------------------------------------------- detection from the first lines


def look_at(stored: Stored, kind: str, reading: Reading) -> Layout:
    """The layout of a file, from its first lines and what the caller says."""
    encoding = reading.encoding or _encoding(stored)
    lines = _head(stored, encoding)
    lead, named = (reading.skip, None) if reading.skip is not None else _lead(lines)
    separator, decimal = _requested_marks(reading)
    if not any(line.strip() for line in lines[lead:]):
        raise InputProblem(stored.source, "the file is empty", "Export or download it again")
    separator, decimal = _marks(lines[lead:], kind, separator or named, decimal)
    rows = [(number + lead, cells) for number, cells in _rows(lines[lead:], separator)]
    width = _width([cells for _, cells in rows])
    while reading.skip is None and len(rows) > 1 and _is_title(rows[0][1], rows[1][1], width, decimal):
        rows.pop(0)
    return _arranged(rows, lines[:lead], (encoding, separator, decimal), reading, stored.source)


def _arranged(
    rows: list[tuple[int, list[str]]], above: list[str], marks: tuple[str, str, str], reading: Reading, source: str
) -> Layout:
    """Header and names, from the first line, the lines below it, and the last comment above it."""
    _, separator, decimal = marks
    first, body, width = _columns([cells for _, cells in rows])
    numbers = [_mostly_numbers([cells[j] for cells in body], decimal) for j in range(width)]
    beside = bool(body) and len(first) == width - 1 and (not numbers[0] or _has_text(first, decimal))  # as R writes it
    header = reading.header
    if header is None:
        header = beside or _is_header(first, body, numbers, decimal)
    names = [""] * (width - len(first)) + [cell.strip() for cell in first[:width]] if header else None
    skipped = _before(rows)
    start = rows[0][0] if header else skipped
    if names is None and reading.header is None and above:
        names = _header_in_comment(above[-1], separator, width)
        skipped -= names is not None
    if reading.index is not None or reading.triplets or width == 1:
        index = requested_index(reading.index, names, width, source)
    else:
        index = _shown_index(names, body if header else [first, *body], numbers, beside)
    return Layout(*marks, start, skipped, width, names, index)


def _columns(rows: list[list[str]]) -> tuple[list[str], list[list[str]], int]:
    """The first line, the lines below it, and their width; a trailing separator does not make a column."""
    width = _width(rows)
    first, body = rows[0], [cells for cells in rows[1:] if len(cells) == width]
    if body and width > 1 and not any(cells[-1].strip() for cells in body) and not "".join(first[width - 1 :]).strip():
        width -= 1
    if not "".join(first[width:]).strip():
        first = first[:width]
    return first, [cells[:width] for cells in body], width


def _before(rows: list[tuple[int, list[str]]]) -> int:
    """Lines before the first row, which is one line high unless a quoted cell has line breaks."""
    number, cells = rows[0]
    return number - 1 - sum(cell.count("\n") for cell in cells)


def _requested_marks(reading: Reading) -> tuple[str | None, str | None]:
    """Separator and decimal mark, if the caller gives them."""
    separator, decimal = (SEPARATOR_NAMES.get(mark or "", mark) for mark in (reading.sep, reading.decimal))
    for option, mark in (("--sep", separator), ("--decimal", decimal)):
        if mark is not None and len(mark) != 1:
            raise InputProblem(option, f"{mark!r} is not a single character", "Use , ; | . tab or blank")
    if separator is not None and separator == decimal:
        raise InputProblem("--sep", f"{separator!r} cannot also be the decimal mark", "Give a different --decimal")
    return separator, decimal


def _encoding(stored: Stored) -> str:
    with stored.open() as file:
        head = file.read(200)
    for mark, name in MARKS:
        if head.startswith(mark):
            return name
    if head.count(0) > len(head) // 3:
        return "utf-16-le" if head[1:2] == b"\0" else "utf-16-be"
    return "utf-8"


def _head(stored: Stored, encoding: str) -> list[str]:
    lines: list[str] = []
    size = 0
    with stored.text(encoding) as text:
        for line in itertools.islice(text, HEAD[0]):
            lines.append(line)
            size += len(line)
            if size > HEAD[1] and len(lines) > 3:
                break
    return lines


def _lead(lines: list[str]) -> tuple[int, str | None]:
    """How many leading lines are blank, comments or Excel's `sep=;`, and the separator the latter names."""
    named = None
    for number, line in enumerate(lines):
        found = re.fullmatch(r'"?sep=(.)"?\s*', line, re.IGNORECASE)
        if found:
            named = found[1]
        elif line.strip() and not line.startswith("#"):
            return number, named
    return len(lines), named


def _marks(lines: list[str], kind: str, separator: str | None, decimal: str | None) -> tuple[str, str]:
    """Separator and decimal mark: the pair that yields the most numbers, else the most frequent separator."""
    usual = sorted(SEPARATORS, key=lambda mark: mark != "\t") if kind == ".tsv" else SEPARATORS
    pairs = [(s, d) for s in separator or usual for d in decimal or ".," if s != d]
    best = max(pairs, key=lambda pair: _score(lines, *pair))
    if _score(lines, *best) > (0.0, False):
        return best
    return max(pairs, key=lambda pair: (lines[0].count(pair[0]), pair[0] != " ", pair[1] == "."))


def _score(lines: list[str], separator: str, decimal: str) -> tuple[float, bool]:
    """The share of numbers outside the first column, and whether no cell contains another separator."""
    rows = [cells for _, cells in _rows(lines, separator)][-50:]
    width = _width(rows)
    body = [cells[:200] for cells in rows if len(cells) == width]
    cells = [cell for row in body[1:] or body for cell in row[1:]]
    if not cells:
        return 0.0, False
    share = sum(_is_number(cell, decimal) for cell in cells) / len(cells) * len(body) / len(rows)
    return round(share, 6), not any(mark in cell for row in body for cell in row for mark in ";\t|")


def _rows(lines: Iterable[str], separator: str) -> Iterator[tuple[int, list[str]]]:
    """The cells of every nonblank row, with the number of its (last) line."""
    if separator == " ":
        split = ((number, re.findall(r'"[^"]*"|\S+', line)) for number, line in enumerate(lines, 1))
        yield from ((number, [cell.strip('"') for cell in cells]) for number, cells in split if cells)
        return
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True)
    try:
        for cells in reader:
            if cells and (len(cells) > 1 or cells[0].strip()):
                yield reader.line_num, cells
    except csv.Error:  # a field exceeds the limit of the module: this is not the separator
        return


def _width(rows: Sequence[Sequence[str]]) -> int:
    """The most frequent number of cells, the larger one in a tie."""
    counts = Counter(len(cells) for cells in rows)
    return max(counts, key=lambda width: (counts[width], width), default=0)


def _is_title(cells: list[str], below: list[str], width: int, decimal: str) -> bool:
    """Text above the table: fewer cells than the table has, or a single one above a line of names."""
    named = _has_text(below[1:], decimal)
    if len(cells) == width:
        return width > 1 and named and not "".join(cells[1:]).strip() and _has_text(cells[:1], decimal)
    return len(cells) < width and _has_text(cells, decimal) and (len(cells) < width - 1 or named)


def _header_in_comment(line: str, separator: str, width: int) -> list[str] | None:
    """Column names in the last comment: `# a b c` of numpy.savetxt, `#OTU ID` of biological tables."""
    if not line.startswith("#") or width < 2:
        return None
    cells = next((cells for _, cells in _rows([line.lstrip("# ")], separator)), [])
    return [cell.strip() for cell in cells] if len(cells) == width else None


def _is_header(first: list[str], body: list[list[str]], numbers: list[bool], decimal: str) -> bool:
    """Whether the first line names the columns below it."""
    if not body or not any(numbers):
        return _has_text(first, decimal)
    if len(first) != len(numbers):
        return False
    over = [cell for cell, number in zip(first, numbers) if number]
    if _has_text(over, decimal):
        return True
    corner, column = first[0].strip(), [cells[0].strip() for cells in body]
    if not numbers[0]:
        if not corner or not _reads_like(corner, column):
            return True
    elif not corner:
        if _are_ids(column):
            return True
        over, numbers = over[1:], [False, *numbers[1:]]
    below = [[cell for cell, number in zip(cells, numbers) if number] for cells in body]
    return _stands_out(_values(over, decimal), [_values(cells, decimal) for cells in below])


def _stands_out(first: np.ndarray, below: list[np.ndarray]) -> bool:
    """Years, wavelengths, 0, 1, 2, ...: numbers that are monotone, unlike those in the lines below.

    Ten numbers are not monotone by chance. Fewer, but at least three, are a header if they are also evenly spaced (at
    least five of them), integers above numbers that mostly are not, or larger (or smaller) than everything below.
    """
    if len(first) < 3 or not below or not _is_monotone(first):
        return False
    others = sum(map(_is_monotone, below))
    values = np.concatenate(below)
    values = values[np.isfinite(values)]
    steps = np.diff(first)
    even = len(first) >= 5 and np.ptp(steps) <= 1e-6 * np.abs(steps).max()
    whole = bool((first % 1 == 0).all()) and np.count_nonzero(values % 1) > len(values) / 2
    outside = bool(len(values)) and (first.min() > values.max() or first.max() < values.min())
    if even or whole or outside:
        return 2 * others <= len(below)
    return len(first) >= MANY and others == 0


def _is_monotone(values: np.ndarray) -> bool:
    steps = np.diff(values)
    return bool((steps > 0).all() or (steps < 0).all())


def _shown_index(names: list[str] | None, body: list[list[str]], numbers: list[bool], beside: bool) -> int | None:
    """The first column, if it holds names."""
    if beside or not numbers[0] or (names and not names[0]):
        return 0
    column = [cells[0].strip() for cells in body]
    return 0 if names is not None and _counts(column) else None


def requested_index(wanted: str | None, names: Sequence[str] | None, width: int, source: str) -> int | None:
    """The column of row names, if the caller names one."""
    return None if wanted in (None, "none") else column_number(str(wanted), names, width, "--index", source)


def column_number(wanted: str, names: Sequence[str] | None, width: int, option: str, source: str) -> int:
    """A column by its name, or by its number in the file, starting at 1."""
    if names is not None and wanted in names:
        return list(names).index(wanted)
    if wanted.isdigit() and 1 <= int(wanted) <= width:
        return int(wanted) - 1
    there = f"columns 1 to {width}" + (f" ({outline(names)})" if names else "")
    raise InputProblem(source, f"{option} {wanted}: no such column", f"The file has {there}")


def _reads_like(corner: str, names: list[str]) -> bool:
    """Whether the corner looks like the names below it: TP53 above BRCA1, but not gene above BRCA1."""
    return _shape(corner) in {_shape(name) for name in names}


def _shape(name: str) -> str:
    """The name with runs of capitals, lower-case letters and digits replaced by A, a and 0."""
    return re.sub(r"\d+", "0", re.sub(r"[^\W\d_a-z]+", "A", re.sub(r"[a-z]+", "a", name)))


def _are_ids(column: list[str]) -> bool:
    return len(set(column)) == len(column) and all(cell.isdigit() for cell in column)


def _counts(column: list[str]) -> bool:
    """0, 1, 2, ... or 1, 2, 3, ..."""
    return len(column) >= COUNTED and any(column == [str(i + low) for i in range(len(column))] for low in (0, 1))


def _has_text(cells: Iterable[str], decimal: str) -> bool:
    return any(not _is_number(cell, decimal) for cell in cells)


def _mostly_numbers(cells: list[str], decimal: str) -> bool:
    known = [cell for cell in cells if cell.strip().lower() not in MISSING]
    return 2 * sum(_is_number(cell, decimal) for cell in known) >= len(known)


def _is_number(cell: str, decimal: str) -> bool:
    """Whether a cell holds a number, or a mark for a missing one."""
    return _value(cell, decimal) is not None


def _value(cell: str, decimal: str) -> float | None:
    """The number in a cell: NaN for a missing one, None for text."""
    cell = cell.strip()
    if cell.lower() in MISSING:
        return math.nan
    try:
        return float(cell if decimal == "." else cell.replace(".", "x").replace(decimal, "."))
    except ValueError:
        return None


def _values(cells: list[str], decimal: str) -> np.ndarray:
    """The cells as numbers; NaN for anything else, which is therefore never monotone."""
    return np.array([_value(cell, decimal) for cell in cells], dtype=np.float64)
