"""Factors, and other arrays with n rows, wherever their rows are.

A factor is an ndarray of n x r numbers, or rows that live with the blocks of X (`enmf.distributed.rows.RowBlocks`),
which have a `home`. The functions here accept both, so that no other code has to distinguish them. Rows elsewhere are
processed there: nothing of length n is transferred unless `gather` asks for it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np


class WorkersLost(RuntimeError):
    """No worker is left to resume with. `V` is the last one of the run, None before the first one.

    `U` is None if its rows lived with the workers. V determines it: `factorize` with init=(None, V) resumes.

    Examples
    --------
    >>> import enmf
    >>> try:
    ...     raise enmf.WorkersLost("no worker for 60 seconds")
    ... except enmf.WorkersLost as lost:
    ...     print(lost, lost.V)  # with a V: enmf.factorize(X, r, init=(None, lost.V)) goes on
    no worker for 60 seconds None
    """

    U: np.ndarray | None = None
    V: np.ndarray | None = None


def home_of(*arguments: Any) -> Any:
    """Where the rows of the arguments live; None if all of them are plain arrays."""
    return next((a.home for a in arguments if hasattr(a, "home")), None)


def by_rows(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for a function that makes each row of its result from that row of its arguments and small arguments."""

    @functools.wraps(function)
    def called(*arguments: Any) -> Any:
        rows = next((a for a in arguments if hasattr(a, "home")), None)
        return function(*arguments) if rows is None else rows.make(_call, called, *arguments)

    return called


def total(function: Callable[..., Any], *arguments: Any) -> Any:
    """function(*arguments), a sum over the rows; summed over the parts if the rows live elsewhere."""
    home = home_of(*arguments)
    return function(*arguments) if home is None else home.total(_call, function, *arguments)


def collect(function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """function(*arguments) of every part of the rows; a single part if they are in this process."""
    home = home_of(*arguments)
    return [function(*arguments)] if home is None else home.collect(_call, function, *arguments)


def change(function: Callable[..., None], F: Any, *arguments: Any) -> None:
    """Change F in place by function(first, F, *arguments); `first` is the number of the first row it gets."""
    if not hasattr(F, "home"):
        function(0, F, *arguments)
    else:
        F.assign(F.home.rows(_changed, function, F, *arguments, columns=F.shape[1], dtype=F.dtype))


def gather(F: Any) -> np.ndarray:
    """All rows, in this process."""
    return F.gather() if hasattr(F, "home") else F


def here(F: Any) -> np.ndarray | None:
    """F itself, or None if its rows live elsewhere."""
    return None if hasattr(F, "home") else F


def snapshot(F: Any) -> Any:
    """F for others to see: read only or, if its rows live elsewhere, their current version."""
    if hasattr(F, "home"):
        return F.copy()
    view = F.view()
    view.flags.writeable = False
    return view


def copied(F: Any) -> Any:
    """A copy of F."""
    return F.copy() if hasattr(F, "home") else F.copy(order="F")


def in_double(F: Any) -> Any:
    """F for products in double precision."""
    return F.in_double() if hasattr(F, "home") else F.astype(np.float64, copy=False)


def inner(A: Any, B: Any) -> float:
    """<A, B> accumulated in double precision."""
    if hasattr(A, "home"):
        return A.home.total(_call, inner, A, B)
    if A.dtype == np.float64:
        return float(np.vdot(A.T, B.T))
    return float(np.einsum("ij,ij->", A.T, B.T, dtype=np.float64))


def column_inner(A: Any, B: Any) -> np.ndarray:
    """<a_j, b_j> of every column, in double precision."""
    return total(_column_inner, A, B)


def _column_inner(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->j", A, B, dtype=np.float64)


@by_rows
def fortran(F: np.ndarray) -> np.ndarray:
    """F in Fortran order."""
    return np.asfortranarray(F)


@by_rows
def clipped(F: np.ndarray) -> np.ndarray:
    """max(0, F), in Fortran order."""
    return np.asfortranarray(np.maximum(F, 0))


@by_rows
def beside(*arrays: np.ndarray) -> np.ndarray:
    """Arrays with the same rows side by side."""
    return np.hstack(arrays)


@by_rows
def arranged(F: np.ndarray, order: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Columns in this order, each times its scale."""
    out = F.T[order].T  # the only copy, in Fortran order
    out *= scale
    return out


@by_rows
def widened(F: np.ndarray, more: int) -> np.ndarray:
    """F and `more` zero columns."""
    return np.asfortranarray(np.pad(F, ((0, 0), (0, more))))


def padded(U: Any, V: Any, rank: int) -> tuple[Any, Any]:
    """The factors padded to the rank with zero components."""
    missing = rank - V.shape[1]
    return (U, V) if missing <= 0 else (widened(U, missing), widened(V, missing))


def row_blocks(n: int, m: int, numbers: int = 1 << 20) -> list[slice]:
    """Slices of rows such that a block of them holds about `numbers` entries."""
    height = max(1, min(n, numbers // max(1, m)))
    return [slice(a, min(a + height, n)) for a in range(0, n, height)]


def _call(_: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def _changed(part: Any, function: Callable[..., None], F: np.ndarray, *arguments: Any) -> np.ndarray:
    F = F.copy(order="F")
    function(part.first, F, *arguments)
    return F
