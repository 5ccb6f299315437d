"""Cases for timing the kernels of row problems: masked, nnls, pivoting.

Each case is (name, module, function, make): make(dtype) returns the arguments after start and stop, and stop. Arrays
that a kernel writes to have to be copied before every call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

Make = Callable[[Any], tuple[tuple[Any, ...], int]]


@cache
def _ratings(n: int, m: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A pattern like that of ratings: a few rows have many entries, most of them few."""
    rng = np.random.default_rng(0)
    share = rng.lognormal(0, 1, n)
    lengths = np.clip((count * share / share.sum()).astype(int), 1, m // 2)
    popular = rng.lognormal(0, 1, m)
    indices = [np.sort(rng.choice(m, k, replace=False, p=popular / popular.sum())) for k in lengths]
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return indptr, np.concatenate(indices).astype(np.int32), rng.integers(1, 6, indptr[-1]).astype(float)


@cache
def _gaps(n: int, m: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    rows, columns = np.nonzero(np.random.default_rng(0).random((n, m)) < share)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))]).astype(np.int64)
    return indptr, columns.astype(np.int32)


def _observed(r: int, dtype: Any, shape: tuple[int, int, int] = (6000, 3700, 1_000_000)) -> tuple[Any, ...]:
    n, m, count = shape
    indptr, indices, x = _ratings(n, m, count)
    rng = np.random.default_rng(1)
    weights = np.ones(len(x), dtype)
    C, F = rng.random((m, r)).astype(dtype), rng.random((r, n)).astype(dtype)
    nothing = np.zeros((r, r), dtype), np.zeros((r, 0), dtype)
    ridge = np.full(n, 0.1, dtype)
    return (indptr, indices, weights, x.astype(dtype), np.zeros(n, bool)), C, nothing, ridge, F


def _based(r: int, dtype: Any) -> tuple[Any, ...]:
    n, m = 2000, 1000
    indptr, indices = _gaps(n, m, 0.1)
    rng = np.random.default_rng(1)
    C, F = rng.random((m, r)), rng.random((r, n))
    X = rng.random((n, r)) @ C.T
    X[np.repeat(np.arange(n), np.diff(indptr)), indices] = 0
    base = (C.T @ C).astype(dtype), np.ascontiguousarray((X @ C).T, dtype)
    count = len(indices)
    entries = indptr, indices, np.full(count, -1, dtype), np.zeros(count, dtype), np.ones(n, bool)
    return entries, C.astype(dtype), base, np.full(n, 0.1, dtype), F.astype(dtype)


def _row_kernel(data: Callable[..., Any], r: int, more: tuple[Any, ...], dtype: Any) -> tuple[tuple[Any, ...], int]:
    entries, C, base, ridge, F = data(r, dtype)
    return (*entries, C, *base, ridge, F, *more), F.shape[1]


def _solve(data: Callable[..., Any], r: int, dtype: Any) -> tuple[tuple[Any, ...], int]:
    """Entries in the precision of the data, factors in double; started from some of the components."""
    entries, C, base, ridge, F = data(r, np.float64)
    entries = *entries[:2], entries[2].astype(dtype), entries[3].astype(dtype), entries[4]
    return (*entries, C, *base, ridge, np.maximum(F - 0.5, 0)), F.shape[1]


def _residual(data: Callable[..., Any], r: int, dtype: Any) -> tuple[tuple[Any, ...], int]:
    entries, C, _, _, F = data(r, dtype)
    return (*entries, np.ascontiguousarray(F.T), C, C, np.empty_like(F), np.empty(F.shape[1])), F.shape[1]


def _pairs(r: int, dtype: Any) -> tuple[tuple[Any, ...], int]:
    rng = np.random.default_rng(0)
    U, V = rng.random((6000, r)).astype(dtype), rng.random((3700, r)).astype(dtype)
    count = 500_000
    return (rng.integers(0, 6000, count), rng.integers(0, 3700, count), U, V, np.empty(count, dtype)), count


def _gram(r: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    A = rng.random((3 * r, r)) * (rng.random((3 * r, r)) < 0.5)
    return A.T @ A, rng.random((n, 3 * r)) @ A


def _nnls(r: int, start: str, dtype: Any) -> tuple[tuple[Any, ...], int]:
    """From nothing, or from nearly the right support, as after sweeps."""
    n = 5000
    G, B = _gram(r, n)
    F = np.zeros((n, r))
    if start == "warm":
        for _ in range(10):
            for k in range(r):
                F[:, k] = np.maximum(F[:, k] + (B[:, k] - F @ G[:, k]) / G[k, k], 0)
    return (G, np.ascontiguousarray(B.T), np.ascontiguousarray(F.T)), n


def _groups(r: int, sets: int, dtype: Any) -> tuple[tuple[Any, ...], int]:
    n = 5000
    G, B = _gram(r, n)
    rng = np.random.default_rng(2)
    own = rng.integers(0, sets, n)
    passive = (rng.random((sets, r)) < 0.6)[own]
    order = np.argsort(own, kind="stable")
    borders = np.append(np.flatnonzero(np.append(True, np.diff(own[order]) > 0)), n)
    return (G, B, passive, order, borders, np.zeros((n, r)), -B, np.zeros(n, bool)), len(borders) - 1


CASES: list[tuple[str, str, str, Make]] = [
    *((f"masked.sweep observed r={r}", "masked", "sweep", partial(_row_kernel, _observed, r, (np.inf, 10, 0.01)))
      for r in (10, 20, 50)),
    *((f"masked.sweep based r={r}", "masked", "sweep", partial(_row_kernel, _based, r, (np.inf, 10, 0.01)))
      for r in (10, 20, 50)),
    *((f"masked.row_steps observed r={r}", "masked", "row_steps", partial(_row_kernel, _observed, r, (5, 1e-3)))
      for r in (10, 50)),
    *((f"masked.solve observed r={r}", "masked", "solve", partial(_solve, _observed, r)) for r in (10, 50)),
    *((f"masked.residual_times observed r={r}", "masked", "residual_times", partial(_residual, _observed, r))
      for r in (10, 20, 50)),
    *((f"masked.residual_times based r={r}", "masked", "residual_times", partial(_residual, _based, r)) for r in (20,)),
    *((f"masked.pair_products r={r}", "masked", "pair_products", partial(_pairs, r)) for r in (10, 20, 50)),
    *((f"nnls {start} r={r}", "nnls", "nnls", partial(_nnls, r, start))
      for start in ("warm", "cold") for r in (10, 20, 50)),
    *((f"pivoting {sets} sets r={r}", "pivoting", "solve_groups", partial(_groups, r, sets))
      for sets in (50, 5000) for r in (10, 20, 50)),
]  # fmt: skip
