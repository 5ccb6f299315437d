"""Matrices that users bring: what is in them (`CONTENTS`), and how they are stored (`FORMS`).

Ordinary contents must be factorized rightly. Extreme ones (subnormal, or near the largest double) may be refused as
well. Invalid ones must be refused.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

Content = Callable[[np.random.Generator, int, int], np.ndarray]
Store = Callable[[np.ndarray, np.random.Generator], Any]

ORDINARY, EXTREME, INVALID = "ordinary", "extreme", "invalid"
CONTENTS: dict[str, tuple[float, str, Content]] = {}
FORMS: dict[str, tuple[float, Store]] = {}


def content(kind: str = ORDINARY, weight: float = 1) -> Callable[[Content], Content]:
    """How often a content is drawn, relative to the others."""

    def register(make: Content) -> Content:
        CONTENTS[make.__name__] = weight, kind, make
        return make

    return register


def form(weight: float) -> Callable[[Store], Store]:
    """As `content`."""

    def register(store: Store) -> Store:
        FORMS[store.__name__] = weight, store
        return store

    return register


# What is in them -----------------------------------------------------------------------------------------------------


@content()
def uniform(rng, n, m):
    return rng.random((n, m))


@content()
def low_rank(rng, n, m):
    r = int(rng.integers(1, 8))
    return (rng.random((n, r)) * (rng.random((n, r)) < 0.6)) @ rng.random((r, m))


@content()
def noisy_low_rank(rng, n, m):
    return np.maximum(low_rank(rng, n, m) + 0.1 * rng.standard_normal((n, m)), 0)


@content(weight=4)
def rank_one(rng, n, m):
    return np.outer(rng.random(n), rng.random(m))


@content(weight=2)
def rank_deficient(rng, n, m):
    """Columns that are sums of two others, so that no sample of the rows has more than half of the rank."""
    half = rng.random((n, (m + 1) // 2))
    pairs = rng.integers(0, half.shape[1], (m // 2, 2))
    return np.hstack([half, half[:, pairs[:, 0]] + half[:, pairs[:, 1]]])


@content(weight=2)
def duplicated_rows(rng, n, m):
    return rng.random((n, m))[rng.integers(0, max(1, n // 4), n)]


@content()
def duplicated_columns(rng, n, m):
    return rng.random((n, m))[:, rng.integers(0, max(1, m // 4), m)]


@content()
def zero_rows(rng, n, m):
    return rng.random((n, m)) * (rng.random((n, 1)) < 0.6)


@content()
def zero_columns(rng, n, m):
    return rng.random((n, m)) * (rng.random((1, m)) < 0.6)


@content()
def mostly_zero(rng, n, m):
    return rng.random((n, m)) * (rng.random((n, m)) < 0.15)


@content(weight=2)
def heavy_tailed_counts(rng, n, m):
    """A few rows and columns have nearly all of the norm, as the counts of words have."""
    rows, columns = rng.pareto(0.7, (n, 1)), rng.pareto(0.7, (1, m))
    return rng.poisson(np.minimum(rows * columns, 1e6)).astype(float)


@content()
def counts(rng, n, m):
    return rng.poisson(1.0, (n, m)).astype(float)


@content()
def block_diagonal(rng, n, m):
    X, blocks = np.zeros((n, m)), int(rng.integers(1, 6))
    for i in range(blocks):
        X[i * n // blocks : (i + 1) * n // blocks, i * m // blocks : (i + 1) * m // blocks] = i + 1
    return X


@content()
def constant(rng, n, m):
    return np.full((n, m), float(rng.choice([1.0, 3.0, 0.1, 7e-5])))


@content()
def permutation(rng, n, m):
    return np.eye(n, m)[:, rng.permutation(m)]


@content()
def nested(rng, n, m):
    return np.tril(np.ones((n, m)))


@content()
def zero_or_one(rng, n, m):
    return (rng.random((n, m)) < 0.5).astype(float)


@content()
def near_zero(rng, n, m):
    """Half of the entries are rounding noise."""
    return np.where(rng.random((n, m)) < 0.5, 1e-14, rng.random((n, m)))


@content()
def one_entry(rng, n, m):
    X = np.zeros((n, m))
    X[rng.integers(n), rng.integers(m)] = 2.5
    return X


@content()
def zeros(rng, n, m):
    return np.zeros((n, m))


@content()
def negative_zeros(rng, n, m):
    return np.where(rng.random((n, m)) < 0.5, -0.0, rng.random((n, m)))


@content()
def one_outlier(rng, n, m):
    X = rng.random((n, m))
    X[rng.integers(n), rng.integers(m)] = 10.0 ** rng.integers(3, 9)
    return X


@content()
def wide_range(rng, n, m):
    return 10.0 ** rng.uniform(-8, 8, (n, m))


@content()
def other_units(rng, n, m):
    return low_rank(rng, n, m) * 10.0 ** rng.integers(-20, 20)


@content(EXTREME)
def whole_range(rng, n, m):
    return 10.0 ** rng.uniform(-315, 300, (n, m))


@content(EXTREME)
def subnormal(rng, n, m):
    return rng.random((n, m)) * 1e-315


@content(EXTREME)
def tiny(rng, n, m):
    return rng.random((n, m)) * 10.0 ** rng.integers(-300, -60)


@content(EXTREME)
def huge(rng, n, m):
    return rng.random((n, m)) * 10.0 ** rng.integers(60, 300)


@content(EXTREME)
def huge_outlier(rng, n, m):
    X = rng.random((n, m))
    X[rng.integers(n), rng.integers(m)] = 10.0 ** rng.integers(60, 300)
    return X


@content(EXTREME)
def tiny_rest(rng, n, m):
    return np.where(rng.random((n, m)) < 0.5, 1e-300, rng.random((n, m)))


def spoilt(rng, n, m, value):
    X = rng.random((n, m))
    X[rng.integers(n), rng.integers(m)] = value
    return X


@content(INVALID, weight=0.5)
def negative(rng, n, m):
    return spoilt(rng, n, m, -1.0)


@content(INVALID, weight=0.5)
def not_a_number(rng, n, m):
    return spoilt(rng, n, m, np.nan)


@content(INVALID, weight=0.5)
def infinite(rng, n, m):
    return spoilt(rng, n, m, np.inf)


# How they are stored -------------------------------------------------------------------------------------------------


@form(4)
def c_order(A, rng):
    return A.copy()


@form(2)
def fortran_order(A, rng):
    return np.asfortranarray(A)


@form(1)
def reversed_view(A, rng):
    return np.ascontiguousarray(A[::-1, ::-1])[::-1, ::-1]


@form(1)
def strided_view(A, rng):
    wide = np.zeros((2 * len(A), 3 * A.shape[1]))
    wide[::2, ::3] = A
    return wide[::2, ::3]


@form(1)
def read_only(A, rng):
    X = A.copy()
    X.flags.writeable = False
    return X


@form(1)
def memory_map(A, rng):
    """The file is gone from the folder, the map goes on: nothing is left behind."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "X.npy", A)
        return np.load(Path(folder) / "X.npy", mmap_mode="r")


@form(2)
def single(A, rng):
    return _narrow(A)


@form(1)
def single_fortran(A, rng):
    return np.asfortranarray(_narrow(A))


@form(1)
def integers(A, rng):
    return _whole_numbers(A).astype(rng.choice([np.int8, np.int32, np.int64, np.uint8, np.uint16]))


@form(1)
def booleans(A, rng):
    return A > 0.5


@form(0.5)
def half_precision(A, rng):
    return _whole_numbers(A).astype(np.float16)


@form(0.5)
def objects(A, rng):
    return A.astype(object)


@form(0.5)
def nested_lists(A, rng):
    return A.tolist()


@form(2)
def csr(A, rng):
    return sp.csr_array(A)


@form(1)
def csc(A, rng):
    return sp.csc_array(A)


@form(1)
def coo(A, rng):
    """Coordinates as numpy's `nonzero` gives them: 64 bit."""
    rows, columns = np.nonzero(A)
    return sp.coo_array((A[rows, columns], (rows, columns)), shape=A.shape)


@form(1)
def csr_matrix(A, rng):
    return sp.csr_matrix(A)


@form(1)
def csr_wide_indices(A, rng):
    X = sp.csr_array(A)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


@form(1)
def csr_single(A, rng):
    return sp.csr_array(_narrow(A))


@form(0.5)
def csr_integers(A, rng):
    return sp.csr_array(_whole_numbers(A).astype(np.int64))


@form(0.5)
def csr_unsorted(A, rng):
    X = sp.csr_array(A)
    for i in range(len(A)):
        row = slice(X.indptr[i], X.indptr[i + 1])
        X.indices[row], X.data[row] = X.indices[row][::-1].copy(), X.data[row][::-1].copy()
    return sp.csr_array((X.data, X.indices, X.indptr), shape=A.shape)


@form(0.5)
def csr_stored_zeros(A, rng):
    rows, columns = np.indices(A.shape).reshape(2, -1)
    return sp.csr_array((A.ravel(), (rows, columns)), shape=A.shape)


@form(0.5)
def coo_duplicates(A, rng):
    half = sp.coo_array(A / 2)
    rows, columns = half.coords
    twice = np.r_[rows, rows], np.r_[columns, columns]
    return sp.coo_array((np.r_[half.data, half.data], twice), shape=A.shape)


@form(2)
def frame(A, rng):
    return pd.DataFrame(A, [f"r{i}" for i in range(len(A))], [f"c{j}" for j in range(A.shape[1])])


@form(0.5)
def frame_of_two_types(A, rng):
    X = pd.DataFrame(A)
    return X.assign(**{"count": _whole_numbers(A[:, 0]).astype(np.int32)}).rename(columns=str)


@form(0.5)
def frame_nullable(A, rng):
    return pd.DataFrame(A).astype("Float64")


def _narrow(A: np.ndarray) -> np.ndarray:
    """In single precision; what is too large for it becomes its largest number."""
    with np.errstate(under="ignore", invalid="ignore"):
        return np.where(np.isinf(A), A, np.minimum(A, 3e38)).astype(np.float32)


def _whole_numbers(A: np.ndarray) -> np.ndarray:
    largest = A.max(initial=0, where=np.isfinite(A))
    return np.round(np.nan_to_num(A, nan=0, posinf=0).clip(0) / (largest or 1.0) * 9)


# A matrix of a case --------------------------------------------------------------------------------------------------


@dataclass
class Sample:
    """X as the user has it, and the same numbers as a dense array of doubles."""

    X: Any
    kind: str  # ordinary, extreme or invalid
    name: str

    @property
    def dense(self) -> np.ndarray:
        return as_dense(self.X)

    @property
    def shape(self) -> tuple[int, int]:
        return self.dense.shape

    @property
    def dtype(self) -> np.dtype:
        """The precision that the package is to work in."""
        own = getattr(self.X, "dtype", None)
        return np.dtype(own) if own == np.float32 else np.dtype(np.float64)

    @property
    def sparse(self) -> bool:
        return sp.issparse(self.X)


def as_dense(X: Any) -> np.ndarray:
    if sp.issparse(X):
        return X.toarray().astype(float)
    return np.array(X.to_numpy(dtype=float, na_value=np.nan) if isinstance(X, pd.DataFrame) else X, dtype=float)


def draw(rng: np.random.Generator) -> Sample:
    """One matrix: small enough for a full SVD, but now and then with rows enough to be sampled."""
    n, m = _shape(rng)
    name, stored = _pick(CONTENTS, rng), _pick(FORMS, rng)
    _, kind, make = CONTENTS[name]
    X = FORMS[stored][1](make(rng, n, m), rng)
    if kind == INVALID and _is_valid(as_dense(X)):  # whole numbers and booleans cannot hold it
        kind = ORDINARY
    if kind == EXTREME and stored in ("integers", "booleans", "half_precision", "csr_integers"):
        kind = ORDINARY
    return Sample(X, kind, f"{name} as {stored}, {n} x {m}")


def _shape(rng: np.random.Generator) -> tuple[int, int]:
    limits = [((1, 5), (1, 5)), ((250, 600), (20, 61)), ((20, 61), (250, 600)), ((1, 61), (1, 61))]
    (low, high), (left, right) = limits[int(rng.choice(4, p=[0.25, 0.04, 0.04, 0.67]))]
    return int(rng.integers(low, high)), int(rng.integers(left, right))


def _pick(table: dict[str, Any], rng: np.random.Generator) -> str:
    weights = np.array([entry[0] for entry in table.values()])
    return str(rng.choice(list(table), p=weights / weights.sum()))


def _is_valid(A: np.ndarray) -> bool:
    return bool(np.isfinite(A).all() and (A >= 0).all())
