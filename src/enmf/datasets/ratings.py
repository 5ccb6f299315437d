"""Ratings: readers of the MovieLens files, and the splits of the paper's recommendation experiment.

    ratings.dat   user::movie::rating::time      MovieLens 1M, 10M
    u.data        user, movie, rating, time, separated by tabs      MovieLens 100K
    ratings.csv   userId,movieId,rating,timestamp, with a header      later editions

enmf comes without these data; GroupLens offers them for research.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from enmf.problem.validation.numbers import make_rng

FILES = ("ratings.dat", "u.data", "ratings.csv")
TRAIN, VALIDATION, TEST = 0, 1, 2


@dataclass(frozen=True)
class Ratings:
    """Ratings as a list: values[e] is the rating that user_ids[rows[e]] gave to item_ids[columns[e]].

    Examples
    --------
    >>> import numpy as np
    >>> from enmf.datasets import Ratings
    >>> users, items = np.array([101, 205]), np.array([7, 8, 9])
    >>> ratings = Ratings(np.array([0, 0, 1]), np.array([0, 2, 1]), np.array([5.0, 3.0, 4.0]), None, users, items)
    >>> ratings.shape, ratings.matrix().toarray().tolist()
    ((2, 3), [[5.0, 0.0, 3.0], [0.0, 4.0, 0.0]])
    """

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    times: np.ndarray | None
    user_ids: np.ndarray
    item_ids: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.user_ids), len(self.item_ids)

    def matrix(self, where: np.ndarray | None = None) -> sp.csr_array:
        """Users x items with the ratings (those selected by `where`) stored; for use with missing="unstored"."""
        keep = slice(None) if where is None else where
        places = self.rows[keep], self.columns[keep]
        return sp.csr_array((self.values[keep], places), shape=self.shape)


def read_movielens(path: str | os.PathLike[str]) -> Ratings:
    """Read a MovieLens file, or the one in a folder: `ratings.dat`, `u.data` or a csv file with a header.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from enmf.datasets import read_movielens
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "ratings.dat"
    ...     _ = file.write_text("1::10::5::978300760\\n1::30::3::978302109\\n7::10::4::978301968\\n")
    ...     ratings = read_movielens(folder)
    >>> ratings.shape, ratings.matrix().toarray().tolist()
    ((2, 2), [[5.0, 3.0], [4.0, 0.0]])
    """
    place = Path(path)
    if place.is_dir():
        found = [place / name for name in FILES if (place / name).is_file()]
        if not found:
            raise FileNotFoundError(f"{place} contains none of {', '.join(FILES)}")
        place = found[0]
    with place.open(encoding="utf-8") as lines:
        first = lines.readline()
        separator = next((mark for mark in ("::", "\t", ",") if mark in first), None)
        if separator is None:
            raise ValueError(f"{place}: the first line, {first.strip()!r}, is not separated by '::', tabs or commas")
        heading = not first.split(separator)[0].strip().isdigit()
        if not heading:
            lines.seek(0)
        try:
            table = np.loadtxt((line.replace(separator, ",") for line in lines), delimiter=",", ndmin=2)
        except ValueError as problem:
            raise ValueError(f"{place}: {problem}") from None
    if table.shape[0] == 0 or table.shape[1] < 3:
        raise ValueError(f"{place}: every line needs user, item and rating, but the table has shape {table.shape}")
    user_ids, rows = np.unique(table[:, 0].astype(np.int64), return_inverse=True)
    item_ids, columns = np.unique(table[:, 1].astype(np.int64), return_inverse=True)
    times = table[:, 3].astype(np.int64) if table.shape[1] > 3 else None
    return Ratings(rows, columns, table[:, 2], times, user_ids, item_ids)


def split_by_row(rows: Any, shares: Sequence[float] = (0.8, 0.1, 0.1), *, random_state: Any = None) -> np.ndarray:
    """Part (0, 1, 2, ...: train, validation, test) of each rating, with the given shares for every user.

    For each user, the size of the last part is its share rounded to the nearest integer, the one before likewise, and
    so on; the remaining ratings form the first part, which is never empty.

    Examples
    --------
    >>> import numpy as np
    >>> from enmf.datasets import split_by_row
    >>> part = split_by_row([0] * 10 + [1] * 20, random_state=0)
    >>> np.bincount(part[:10]).tolist(), np.bincount(part[10:]).tolist()
    ([8, 1, 1], [16, 2, 2])
    """
    if min(shares) < 0 or abs(sum(shares) - 1.0) > 1e-9:
        raise ValueError(f"shares must be nonnegative numbers that sum to 1, got {tuple(shares)}")
    rank, size = _random_ranks(rows, random_state)
    part = np.zeros(len(rank), dtype=np.int8)
    border = size.astype(np.float64)  # ranks from here on belong to later parts
    for index in range(len(shares) - 1, 0, -1):
        lower = np.maximum(border - np.rint(shares[index] * size), 1)
        part[(rank >= lower) & (rank < border)] = index
        border = lower
    return part


def leave_one_out(rows: Any, *, random_state: Any = None) -> np.ndarray:
    """Part of each rating: one rating per user is TEST, one VALIDATION, the others TRAIN.

    Users with fewer than three ratings keep them all in TRAIN.

    Examples
    --------
    >>> import numpy as np
    >>> from enmf.datasets import leave_one_out
    >>> np.bincount(leave_one_out([0, 0, 0, 0, 1, 1], random_state=0)).tolist()
    [4, 1, 1]
    """
    rank, size = _random_ranks(rows, random_state)
    part = np.full(len(rank), TRAIN, dtype=np.int8)
    part[(rank == 0) & (size > 2)] = TEST
    part[(rank == 1) & (size > 2)] = VALIDATION
    return part


def _random_ranks(rows: Any, random_state: Any) -> tuple[np.ndarray, np.ndarray]:
    """Position of each rating in a random order of its user's ratings, and the number of these."""
    rows = np.asarray(rows, dtype=np.int64)
    if rows.ndim != 1 or len(rows) == 0 or rows.min() < 0:
        raise ValueError("rows must be a nonempty list of row indices >= 0, one per rating")
    order = np.lexsort((make_rng(random_state).random(len(rows)), rows))
    counts = np.bincount(rows)
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    rank = np.empty(len(rows), dtype=np.int64)
    rank[order] = np.arange(len(rows)) - first[rows[order]]
    return rank, counts[rows]
