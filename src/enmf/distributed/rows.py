"""Arrays of length n that live with the blocks of X: `RowBlocks`, used like an ndarray of n x k numbers.

Whatever makes rows from rows is recorded as a step and done later, when a number that needs them is asked for: a sum
over all rows (`A.T @ B`, `inner`, Xᵀ U). One task per part then does all the steps at once and sends back its summand.
Rows that are still referenced stay in the memory of the process that made them.

A step remembers how it was made, back to the first one. When a worker is lost, its rows are made again from these
steps: the same products, the same sweeps, the same rows.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from enmf.distributed.parts import Instruction, Part, Rows
from enmf.matrix.factor import row_blocks

if TYPE_CHECKING:
    from enmf.distributed.chunked import ChunkedMatrix

_numbers = itertools.count()


class Pieces(list[Any]):
    """One argument for each part."""


class Step:
    """How rows are made: function(part, *arguments), other steps among the arguments."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.key = next(_numbers)
        self.function, self.arguments = function, arguments
        self.depth: int = 1 + max((a.depth for a in arguments if isinstance(a, Step)), default=0)
        self.value: Callable[[], Value | None] = lambda: None

    def begin_anew(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Forget how the rows were made; if they are lost, they are made this way."""
        self.function, self.arguments, self.depth = function, arguments, 1


class Value:
    """The rows of a step, as long as they are referenced; `stored` are the parts that have made them."""

    def __init__(self, step: Step, inputs: Iterable[Value]) -> None:
        self.step, self.inputs = step, tuple(inputs)  # inputs must live until the rows are made
        self.stored: set[int] = set()
        step.value = weakref.ref(self)


class RowBlocks(np.lib.mixins.NDArrayOperatorsMixin):
    """n x k numbers in parts of rows. Arithmetic with scalars, small arrays and other `RowBlocks` works row by row;
    assignment to an `out` rebinds it to the new rows. `wide`: matrix products of these rows are computed in double
    precision, some rows at a time, whatever their dtype."""

    ndim = 2

    def __init__(self, home: ChunkedMatrix, value: Value, columns: int, dtype: Any, wide: bool = False) -> None:
        self.home, self.value, self.wide = home, value, wide
        self.shape, self.dtype = (home.shape[0], columns), np.dtype(dtype)

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]

    @property
    def T(self) -> Transposed:
        return Transposed(self)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError("these rows live with the blocks of X; `gather` brings them to the caller")

    def copy(self, order: str = "F") -> RowBlocks:
        return RowBlocks(self.home, self.value, self.shape[1], self.dtype)

    def in_double(self) -> RowBlocks:
        """The same rows, with products in double precision."""
        return RowBlocks(self.home, self.value, self.shape[1], self.dtype, wide=True)

    def assign(self, other: RowBlocks) -> None:
        self.value, self.shape, self.dtype = other.value, other.shape, other.dtype

    def astype(self, dtype: Any, copy: bool = True) -> RowBlocks:
        return self.copy() if self.dtype == dtype else self.make(_astype, self, np.dtype(dtype))

    def __getitem__(self, key: Any) -> RowBlocks:
        rows, columns = key
        if rows != slice(None):
            raise TypeError("rows that live with the blocks of X cannot be picked by number")
        return self.make(_columns, self, columns)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        if method != "__call__" or options:
            return NotImplemented
        if self.wide and ufunc is np.matmul and inputs[0] is self:
            return self.make(_wide_times, *inputs).in_double()
        found = self.make(_elementwise, ufunc, *inputs)
        if out is None:
            return found
        out[0].assign(found)
        return out[0]

    def make(self, function: Callable[..., Any], *arguments: Any) -> RowBlocks:
        """Rows by function(part, *arguments), which ignores the part."""
        empty = [np.empty((0, a.shape[1]), a.dtype) if isinstance(a, RowBlocks) else _first(a) for a in arguments]
        like = function(None, *empty)
        return self.home.rows(function, *arguments, columns=like.shape[1], dtype=like.dtype)

    def sum(self, dtype: Any = None) -> float:
        return float(self.home.total(_sum, self, dtype))

    def mean(self) -> float:
        return self.sum(np.float64) / max(1, self.size)

    def min(self) -> float:
        return float(min(self.home.collect(_min, self)))

    def max(self, axis: int = 0) -> np.ndarray:
        """Largest entry of each column."""
        return np.max(self.home.collect(_column_max, self), axis=0)

    def svd(self) -> tuple[RowBlocks, np.ndarray, np.ndarray]:
        """U, s and Tᵀ: QR of every part, then the SVD of all R stacked."""
        corners = self.home.collect(_corner, self)
        left, s, Tt = np.linalg.svd(np.vstack(corners), full_matrices=False)
        borders = np.cumsum([len(R) for R in corners])[:-1]
        return self.make(_times_corner, self, Pieces(np.split(left, borders))), s, Tt

    def gather(self) -> np.ndarray:
        """All rows, in this process."""
        return np.asfortranarray(np.vstack(self.home.collect(_same, self)))

    def fetch_sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """At most `count` weighted rows, drawn by their squared norm."""
        found, weight = self.home.draw(self.make(_squares, self), _pick, (self,), count, rng)
        return np.asfortranarray(np.vstack(found) * weight[:, None].astype(self.dtype))


class Transposed:
    """The transpose of `RowBlocks`, for products."""

    __array_ufunc__ = None

    def __init__(self, rows: RowBlocks) -> None:
        self.T = rows

    def __matmul__(self, other: RowBlocks) -> np.ndarray:
        rows = self.T
        if not isinstance(other, RowBlocks):
            return NotImplemented
        if rows.wide and rows.value is other.value:
            return rows.home.total(_wide_gram, rows)
        return rows.home.total(_product, rows, other)

    def __rmatmul__(self, small: np.ndarray) -> Transposed:
        return Transposed(self.T @ small.T)


def program(steps: Iterable[Step], part: int) -> list[Instruction]:
    """What a part has to do to make the rows of these steps."""
    done: dict[int, Instruction] = {}
    todo = list(steps)
    while todo:
        step = todo[-1]
        value = step.value()
        if step.key in done or (value is not None and part in value.stored):
            todo.pop()
            continue
        missing = [a for a in step.arguments if isinstance(a, Step) and not _at_hand(a, part, done)]
        if missing:
            todo.extend(missing)
            continue
        todo.pop()
        done[step.key] = Instruction(step.function, resolved(step.arguments, part), step.key, value is not None)
    return list(done.values())


def _at_hand(step: Step, part: int, done: dict[int, Instruction]) -> bool:
    value = step.value()
    return step.key in done or (value is not None and part in value.stored)


def resolved(arguments: Iterable[Any], part: int) -> tuple[Any, ...]:
    """Arguments as the part sees them."""
    return tuple(Rows(a.key) if isinstance(a, Step) else a[part] if isinstance(a, Pieces) else a for a in arguments)


def _first(argument: Any) -> Any:
    return argument[0] if isinstance(argument, Pieces) else argument


# What parts do with rows ----------------------------------------------------------------------------------------------


def _elementwise(part: Part, ufunc: np.ufunc, *arguments: Any) -> np.ndarray:
    return ufunc(*arguments)


def _astype(part: Part, F: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return F.astype(dtype)


def _columns(part: Part, F: np.ndarray, columns: Any) -> np.ndarray:
    return F[:, columns]


def _sum(part: Part, F: np.ndarray, dtype: Any) -> Any:
    return F.sum(dtype=dtype)


def _min(part: Part, F: np.ndarray) -> Any:
    return F.min(initial=np.inf)


def _column_max(part: Part, F: np.ndarray) -> np.ndarray:
    return F.max(axis=0, initial=-np.inf)


def _product(part: Part, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return A.T @ B


def _wide_gram(part: Part, F: np.ndarray) -> np.ndarray:
    gram = np.zeros((F.shape[1], F.shape[1]))
    for rows in row_blocks(*F.shape):
        some = F[rows].astype(np.float64)
        gram += some.T @ some
    return gram


def _wide_times(part: Part, F: np.ndarray, small: np.ndarray) -> np.ndarray:
    out = np.empty((len(F), small.shape[1]), F.dtype, order="F")
    for rows in row_blocks(*F.shape):
        out[rows] = F[rows].astype(np.float64) @ small
    return out


def _corner(part: Part, F: np.ndarray) -> np.ndarray:
    return np.linalg.qr(F.astype(np.float64, copy=False))[1]


def _times_corner(part: Part, F: np.ndarray, corner: np.ndarray) -> np.ndarray:
    if len(F) == 0:
        return np.empty((0, corner.shape[1]), F.dtype)
    return (np.linalg.qr(F.astype(np.float64, copy=False))[0] @ corner).astype(F.dtype)


def _same(part: Part, F: np.ndarray) -> np.ndarray:
    return F


def _squares(part: Part, F: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", F, F, dtype=np.float64)[:, None]


def _pick(part: Part, index: np.ndarray, F: np.ndarray) -> list[np.ndarray]:
    return [F[index]] if len(index) else []
