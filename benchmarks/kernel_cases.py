"""Cases for timing kernels, at the sizes of text, tables, images and ratings (benchmarks/kernels.py).

`make(dtype)` of a case gives the end of the range (None: the kernel has no range) and the arguments after start and
stop, as the present kernel takes them. `restored` are the positions of arguments that a call changes, so that the next
one would have less to do. Where the kernel of the older version has another name or other arguments, `before` gives
both, from the arguments of the present one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

BLOCK, CHUNK, LANE_BYTES, PARTS, PANEL = 128, 8192, 1024, 16, 4
BOTH = ("float64", "float32")
Call = tuple[int | None, tuple[Any, ...]]


class Case(NamedTuple):
    kernel: str  # module.function
    name: str
    make: Callable[[Any], Call]
    restored: tuple[int, ...] = ()
    precisions: tuple[str, ...] = BOTH
    before: Callable[..., tuple[str, tuple[Any, ...]]] | None = None


class Held(NamedTuple):
    """The object whose method the kernel is, as the first argument of its case: what it is made of, and how."""

    options: tuple[Any, ...]
    fill: str  # the method that takes the arrays
    arrays: tuple[Any, ...]

    def made(self, module: Any, precision: str) -> Any:
        found = (module.Double if precision == "float64" else module.Single)(*self.options)
        getattr(found, self.fill)(*self.arrays)
        return found


def normal(n: int, r: int, dtype: Any) -> tuple[np.ndarray, ...]:
    """F, B and G of sweeps and steps."""
    rng = np.random.default_rng(0)
    V = rng.random((r + 5, r))
    G = V.T @ V
    F = rng.random((r, n)) * (rng.random((r, n)) < 0.7)
    return tuple(A.astype(dtype) for A in (F, G @ F + rng.standard_normal((r, n)), G))


def sweep(n: int, r: int, wall: float, dtype: Any) -> Call:
    return n, (*normal(n, r, dtype), wall, 3, 0.0, np.zeros(r, bool))


def extrapolate_columns(n: int, r: int, dtype: Any) -> Call:
    rng = np.random.default_rng(0)
    return n, (rng.random((r, n)).astype(dtype), rng.random((r, n)).astype(dtype), dtype(0.5))


def measure(n: int, r: int, dtype: Any) -> Call:
    return n, (*normal(n, r, dtype), np.zeros((-(-n // BLOCK), r + 3)))


def row_steps(n: int, r: int, optimal: bool, dtype: Any) -> Call:
    F, B, G = normal(n, r, dtype)
    return n, (F, B, G, 0.0 if optimal else 1.0 / float(np.linalg.norm(G, 2)), 3, 0.0, False)


def sums(parts: int, m: int, r: int, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros((parts, r, m), dtype), np.zeros((parts, r, r), dtype)


def pass_over(low_rank: bool, n: int, m: int, r: int, dtype: Any) -> Call:
    """A half-step in one pass: X or its factor, the height of a part, F, the other side, options, sums of the parts."""
    rng = np.random.default_rng(0)
    lanes = LANE_BYTES // np.dtype(dtype).itemsize
    height = -(-n // (PARTS * lanes)) * lanes
    X, V, F = (rng.random(shape).astype(dtype) for shape in ((n, m), (r, m), (r, n)))
    shift = () if low_rank else (dtype(0.1),)
    options = V @ V.T, np.inf, 3, 0.0, np.zeros(r, bool), F.copy(), dtype(0.5)
    X = np.ascontiguousarray(X.T) if low_rank else X
    parts = -(-n // height)
    return parts, (X, height, F, V, *shift, *options, *sums(parts, m, r, dtype))


def add_parts(parts: int, m: int, r: int, dtype: Any) -> Call:
    return None, sums(parts, m, r, dtype)


def padded(A: np.ndarray, *axes: int) -> np.ndarray:
    return np.pad(A, [(0, -A.shape[axis] % PANEL if axis in axes else 0) for axis in range(A.ndim)])


def half_step_before(X, height, F, V, shift, G, wall, sweeps, progress, skip, old, beta, XtU, UtU):  # type: ignore
    V, XtU, UtU = padded(V, 0), padded(XtU, 1), padded(UtU, 1, 2)
    return "onepass.half_step", (X, height, F, V, G, shift, sweeps, progress, skip, old, beta, XtU, UtU)


def core_step_before(A, height, F, M, G, wall, sweeps, progress, skip, old, beta, AtU, UtU):  # type: ignore
    M, AtU, UtU = padded(M, 0, 1), padded(AtU, 1, 2), padded(UtU, 1, 2)
    return "core.core_step", (A, height, F, M, G, wall, sweeps, progress, old, beta, AtU, UtU)


def add_parts_before(XtU, UtU):  # type: ignore
    return "onepass.add_parts", (padded(XtU, 1), padded(UtU, 1, 2))


@cache
def text(n: int, m: int, entries: int, dtype: Any) -> sp.csr_array:
    """Counts with columns as unequal as words."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, n, entries)
    columns = np.minimum(m * rng.random(entries) ** 3, m - 1).astype(np.int64)
    X = sp.coo_array((rng.random(entries).astype(dtype), (rows, columns)), shape=(n, m)).tocsr()
    X.sum_duplicates()
    return X


def block_height(X: sp.csr_array) -> int:
    n, m = X.shape
    return max(min(8192, -(-n // 8)), 8 * n * m // X.nnz, 1)


@cache
def blocks(n: int, m: int, entries: int, dtype: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Xᵀ by blocks of rows of X."""
    X = text(n, m, entries, dtype)
    height = block_height(X)
    parts, starts, before = [], [], 0
    for first in range(0, n, height):
        part = X[first : first + height].T.tocsr()
        part.sort_indices()
        starts.append(part.indptr + before)
        before += part.nnz
        parts.append((part.indices + first, part.data))
    indices = np.concatenate([i for i, _ in parts]).astype(X.indices.dtype)
    return np.array(starts, dtype=X.indptr.dtype), indices, np.concatenate([d for _, d in parts])


def times(shape: tuple[int, int, int], r: int, dtype: Any) -> Call:
    X, (n, m, _) = text(*shape, dtype), shape
    C = np.random.default_rng(1).random((m, r)).astype(dtype)
    return n, (X.indptr[None], X.indices, X.data, C, np.zeros((r, n), dtype))


def transpose_times(shape: tuple[int, int, int], r: int, dtype: Any) -> Call:
    n, m, _ = shape
    C = np.random.default_rng(1).random((n, r)).astype(dtype)
    return m, (*blocks(*shape, dtype), C, np.zeros((r, m), dtype))


def transpose(shape: tuple[int, int, int], dtype: Any) -> Call:
    X, (n, m, _) = text(*shape, dtype), shape
    height = block_height(X)
    count = -(-n // height)
    into = np.zeros((count, m + 1), X.indptr.dtype), np.zeros_like(X.indices), np.zeros_like(X.data)
    return count, (X.indptr, X.indices, X.data, height, *into)


def row_squares(shape: tuple[int, int, int], dtype: Any) -> Call:
    X = text(*shape, dtype)
    return shape[0], (X.indptr, X.data, np.zeros(shape[0]))


def residual(shape: tuple[int, int, int], r: int, dtype: Any) -> Call:
    X, rng, (n, m, _) = text(*shape, dtype), np.random.default_rng(1), shape
    return n, (X.indptr, X.indices, X.data, rng.random((n, r)), rng.random((m, r)), np.zeros(n))


def survey(n: int, m: int, dtype: Any) -> Call:
    return n, (np.random.default_rng(0).random((n, m)).astype(dtype), np.zeros(n), np.zeros(n, np.int64))


def split(size: int, dtype: Any) -> Call:
    rng = np.random.default_rng(0)
    return size, (*(rng.standard_normal(size).astype(dtype) for _ in range(4)), dtype(0.5))


def update_dual(size: int, dtype: Any) -> Call:
    rng = np.random.default_rng(0)
    WR, before, Y = (rng.standard_normal(size).astype(dtype) for _ in range(3))
    return size, (WR, before, Y, WR.copy(), np.zeros((-(-size // CHUNK), 4)))  # Z = WR: Y stays the same


def turn(r: int, dtype: Any) -> Call:
    """Twenty iterations from the beginning; the older version has none of them."""
    rng = np.random.default_rng(0)
    W = (np.maximum(rng.standard_normal((40 * r, r)) + 0.3, 0) @ np.linalg.qr(rng.standard_normal((r, r)))[0]).T
    W = np.ascontiguousarray(W / np.abs(W).mean(), dtype)
    turns, rules = np.stack([np.eye(r)] * 3), np.array([10.0, 2.0, 1e-3, 1e3, 0.01, -1.0, 100.0])
    return 20, (W, W.copy(), np.zeros_like(W), turns, np.empty(21), 1.0, rules)


Problems = tuple[tuple[np.ndarray, ...], np.ndarray, tuple[np.ndarray, np.ndarray], np.ndarray, np.ndarray]


@cache
def ratings(n: int, m: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A pattern like that of ratings: a few rows have many entries, most of them few."""
    rng = np.random.default_rng(0)
    share = rng.lognormal(0, 1, n)
    lengths = np.clip((count * share / share.sum()).astype(int), 1, m // 2)
    popular = rng.lognormal(0, 1, m)
    indices = [np.sort(rng.choice(m, k, replace=False, p=popular / popular.sum())) for k in lengths]
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return indptr, np.concatenate(indices).astype(np.int32), rng.integers(1, 6, indptr[-1]).astype(float)


def observed(r: int, dtype: Any) -> Problems:
    """Few entries are observed."""
    n, m = 1500, 3700
    indptr, indices, x = ratings(n, m, 250_000)
    rng = np.random.default_rng(1)
    C, F = rng.random((m, r)).astype(dtype), rng.random((r, n)).astype(dtype)
    nothing = np.zeros((r, r), dtype), np.zeros((r, 0), dtype)
    entries = indptr, indices, np.ones(len(x), dtype), x.astype(dtype), np.zeros(n, bool)
    return entries, C, nothing, np.full(n, 0.1, dtype), F


def based(r: int, dtype: Any) -> Problems:
    """Few entries are missing."""
    n, m = 1000, 1000
    rows, columns = np.nonzero(np.random.default_rng(0).random((n, m)) < 0.1)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))]).astype(np.int64)
    rng = np.random.default_rng(1)
    C, F = rng.random((m, r)), rng.random((r, n))
    X = rng.random((n, r)) @ C.T
    X[rows, columns] = 0
    base = (C.T @ C).astype(dtype), np.ascontiguousarray((X @ C).T, dtype)
    count = len(columns)
    entries = indptr, columns.astype(np.int32), np.full(count, -1, dtype), np.zeros(count, dtype), np.ones(n, bool)
    return entries, C.astype(dtype), base, np.full(n, 0.1, dtype), F.astype(dtype)


def row_problems(data: Callable[..., Problems], r: int, options: tuple[Any, ...], dtype: Any) -> Call:
    entries, C, base, ridge, F = data(r, dtype)
    return F.shape[1], (*entries, C, *base, ridge, F, *options)


def masked_solve(data: Callable[..., Problems], r: int, dtype: Any) -> Call:
    """Entries in the precision of the data, factors in double; started from some of the components."""
    entries, C, base, ridge, F = data(r, np.float64)
    entries = *entries[:2], entries[2].astype(dtype), entries[3].astype(dtype), entries[4]
    return F.shape[1], (*entries, C, *base, ridge, np.maximum(F - 0.5, 0))


def residual_times(data: Callable[..., Problems], r: int, dtype: Any) -> Call:
    entries, C, _, _, F = data(r, dtype)
    return F.shape[1], (*entries, np.ascontiguousarray(F.T), C, C, np.zeros_like(F), np.zeros(F.shape[1]))


def pair_products(r: int, dtype: Any) -> Call:
    rng = np.random.default_rng(0)
    U, V = rng.random((6000, r)).astype(dtype), rng.random((3700, r)).astype(dtype)
    count = 250_000
    return count, (rng.integers(0, 6000, count), rng.integers(0, 3700, count), U, V, np.zeros(count, dtype))


def gram(r: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    A = rng.random((3 * r, r)) * (rng.random((3 * r, r)) < 0.5)
    return A.T @ A, rng.random((n, 3 * r)) @ A


def nnls(r: int, warm: bool, dtype: Any) -> Call:
    """From nothing, or from nearly the right support, as after sweeps."""
    n = 2000
    G, B = gram(r, n)
    F = np.zeros((n, r))
    for _ in range(10 if warm else 0):
        for k in range(r):
            F[:, k] = np.maximum(F[:, k] + (B[:, k] - F @ G[:, k]) / G[k, k], 0)
    return n, (G, np.ascontiguousarray(B.T), np.ascontiguousarray(F.T))


def groups(r: int, sets: int, dtype: Any) -> Call:
    n = 2000
    G, B = gram(r, n)
    rng = np.random.default_rng(2)
    own = rng.integers(0, sets, n)
    passive = (rng.random((sets, r)) < 0.6)[own]
    order = np.argsort(own, kind="stable")
    borders = np.append(np.flatnonzero(np.append(True, np.diff(own[order]) > 0)), n)
    return len(borders) - 1, (G, B, passive, order, borders, np.zeros((n, r)), -B, np.zeros(n, bool))


def words(shape: tuple[int, int, int], beta: float, dtype: Any) -> tuple[Held, np.ndarray]:
    """Counts of words, and their shape."""
    X = text(*shape, dtype).copy()
    X.data[:] = 1.0 + np.floor(3.0 * X.data**4)
    none = np.empty(0, dtype)
    return Held((beta,), "sparse", (shape[1], X.indptr[None], X.indices, X.data, none, True)), np.array(X.shape)


def spectrum(shape: tuple[int, int], beta: float, dtype: Any) -> tuple[Held, np.ndarray]:
    X = np.random.default_rng(0).gamma(0.5, 1.0, shape).astype(dtype) + dtype(1e-3)
    return Held((beta,), "dense", (X,)), np.array(shape)


def divergence(data: Callable[..., Any], shape: Any, beta: float, r: int, kernel: str, dtype: Any) -> Call:
    """A kernel on the rows of X: factors, and what it takes besides."""
    held, (n, m) = data(shape, beta, dtype)
    rng = np.random.default_rng(1)
    C, U = rng.gamma(1.0, 1.0, (m, r)).astype(dtype), rng.gamma(1.0, 0.1, (r, n)).astype(dtype)
    none, wide = np.zeros(n, dtype), r * (r + 1) // 2 + 2 * r
    more = {
        "newton": (0.0, none, U, 1, 0.0, 5, 0.1),
        "entry_steps": (0.0, none, U, 1, False),
        "terms": (U, np.zeros(n), np.zeros_like(U), np.zeros_like(U)),
        "models": (U, np.zeros((n, wide))),
        "slopes": (none, U, U * dtype(1.1), np.ones(1), np.zeros((n, 2))),
    }[kernel]
    return int(n), (held, C, C.sum(axis=0), *more)


def sweep_models(n: int, r: int, dtype: Any) -> Call:
    F, _, G = normal(n, r, np.float64)
    parts = np.random.default_rng(2).random((2, n, r))
    lines = np.hstack([np.tile(G[np.tril_indices(r)], (n, 1)), *parts])
    return n, (lines, 0.0, 0.0, F.astype(dtype), 5, 0.1)


TEXT, SMALL, TINY = (18000, 10000, 1_200_000), (282, 1528, 12_000), (96, 21, 600)
RANKS = (1, 4, 10, 20, 50, 100, 200)
SWEPT = [(n, r) for r in RANKS for n in (64, 2000, 20_000, 100_000) if n * r * r <= 250_000_000]
DENSE = (
    (96, 21, 4), (1797, 64, 10), (1797, 64, 20), (10_000, 103, 10), (20_000, 200, 10), (20_000, 200, 20),
    (10_000, 400, 50),
)  # fmt: skip
CORES = ((2000, 12, 4), (5000, 20, 10), (5000, 40, 20), (5000, 60, 50))
STEPS = ((96, 4), (20_000, 4), (20_000, 10), (20_000, 20), (20_000, 50), (5000, 100))
PROBLEMS = {"observed": observed, "based": based}
WORDS, SPECTRUM = (4000, 3000, 250_000), (300, 500)
DIVERGENCE = {"newton": (5,), "entry_steps": (5,), "terms": (), "models": (), "slopes": ()}  # and where U is changed
F = (9,)  # the position of F in row problems

CASES = [
    *(Case("sweep.sweep", f"{n} x {r} {name}", partial(sweep, n, r, wall), (0,))
      for name, wall in (("hard", np.inf), ("soft", 0.5)) for n, r in SWEPT),
    *(Case("sweep.extrapolate_columns", f"{n} x {r}", partial(extrapolate_columns, n, r))
      for n, r in ((64, 4), (2000, 20), (100_000, 10))),
    *(Case("onepass.half_step", f"{n} x {m} x {r}", partial(pass_over, False, n, m, r), (2, 10), BOTH, half_step_before)
      for n, m, r in DENSE),
    *(Case("onepass.core_step", f"{n} x {m} x {r}", partial(pass_over, True, n, m, r), (2, 9), BOTH, core_step_before)
      for n, m, r in CORES),
    *(Case("onepass.add_parts", f"{parts} x {m} x {r}", partial(add_parts, parts, m, r), (), BOTH, add_parts_before)
      for parts, m, r in ((1, 21, 4), (15, 64, 20), (16, 200, 10), (16, 400, 50))),
    *(Case("sparse.times", f"text x {r}", partial(times, TEXT, r)) for r in RANKS),
    *(Case("sparse.times", f"text in blocks x {r}", partial(transpose_times, TEXT, r)) for r in (10, 20, 50, 100)),
    *(Case("sparse.times", f"small x {r}", partial(times, SMALL, r)) for r in (4, 10, 50)),
    Case("sparse.times", "small in blocks x 10", partial(transpose_times, SMALL, 10)),
    Case("sparse.times", "tiny x 4", partial(times, TINY, 4)),
    *(Case("sparse.transpose", name, partial(transpose, shape)) for name, shape in (("text", TEXT), ("small", SMALL))),
    *(Case("sparse.row_squares", name, partial(row_squares, shape))
      for name, shape in (("text", TEXT), ("small", SMALL))),
    *(Case("sparse.residual", f"text x {r}", partial(residual, TEXT, r)) for r in (4, 10, 20, 50, 100)),
    Case("sparse.residual", "small x 10", partial(residual, SMALL, 10)),
    *(Case("dense.survey", f"{n} x {m}", partial(survey, n, m)) for n, m in ((96, 21), (2000, 400), (400, 10_000))),
    *(Case("admm.split", f"{size}", partial(split, size)) for size in (400, 50_000, 2_000_000)),
    *(Case("admm.update_dual", f"{size}", partial(update_dual, size)) for size in (400, 50_000, 2_000_000)),
    *(Case("rotation.turn", f"{r}", partial(turn, r), (2, 3)) for r in (4, 10, 20, 40)),
    *(Case("gradient.measure", f"{n} x {r}", partial(measure, n, r)) for n, r in ((20_000, 1), *STEPS)),
    *(Case("rowstep.row_steps", f"{n} x {r}", partial(row_steps, n, r, True), (0,)) for n, r in STEPS),
    Case("rowstep.row_steps", "20000 x 20 fixed", partial(row_steps, 20_000, 20, False), (0,)),
    *(Case("masked.sweep", f"{name} x {r}", partial(row_problems, data, r, (np.inf, 10, 0.0)), F)
      for name, data in PROBLEMS.items() for r in (10, 20, 50)),
    *(Case("masked.row_steps", f"observed x {r}", partial(row_problems, observed, r, (5, 0.0)), F) for r in (10, 50)),
    *(Case("masked.solve", f"observed x {r}", partial(masked_solve, observed, r), F) for r in (10, 50)),
    *(Case("masked.residual_times", f"observed x {r}", partial(residual_times, observed, r)) for r in (10, 20, 50)),
    Case("masked.residual_times", "based x 20", partial(residual_times, based, 20)),
    *(Case("masked.pair_products", f"{r}", partial(pair_products, r)) for r in (10, 20, 50)),
    *(Case(f"divergence.{kernel}", f"words x {r}", partial(divergence, words, WORDS, 1.0, r, kernel), changed)
      for kernel, changed in DIVERGENCE.items() for r in (10, 20, 50)),
    *(Case(f"divergence.{kernel}", f"spectrum x 20 beta {beta:g}",
           partial(divergence, spectrum, SPECTRUM, beta, 20, kernel), changed)
      for kernel, changed in DIVERGENCE.items() for beta in (0.0, 0.5, 1.0)),
    *(Case("divergence.sweep_models", f"{n} x {r}", partial(sweep_models, n, r), (3,))
      for n, r in ((2000, 10), (2000, 20), (500, 50))),
    *(Case("nnls.nnls", f"{'warm' if warm else 'cold'} x {r}", partial(nnls, r, warm), (2,), ("float64",))
      for warm in (True, False) for r in (10, 20, 50)),
    *(Case("pivoting.solve_groups", f"{sets} sets x {r}", partial(groups, r, sets), (), ("float64",))
      for sets in (50, 2000) for r in (10, 20, 50)),
]  # fmt: skip
