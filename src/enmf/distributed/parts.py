"""A part of X: consecutive blocks of rows processed by one task, with the rows of the factors that belong to them.

A task is a small program, `run`: n x k arrays made from others (a product with X, a sweep, a sum), and one outcome that
is sent back (a Gram matrix, Xᵀ U, an error). Arrays that are needed again stay in the memory of the process that made
them, under the number of their step; they are never sent. If one of them is missing (another process has taken over
the part), the outcome is `Lost`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from enmf import parallel
from enmf.distributed.blocks import Preparation, as_block, as_matrix
from enmf.matrix.base import Matrix
from enmf.matrix.dense import DenseMatrix

ALIGNMENT = 16  # bytes

_held: dict[tuple[str, int], dict[int, np.ndarray]] = {}  # run and part -> number of a step -> its rows


class Part:
    """Blocks of X behind the products that a task needs; a block that is not kept is read when needed."""

    def __init__(self, blocks: Sequence[Any], heights: Sequence[int], first: int, preparation: Preparation) -> None:
        self.blocks, self.heights, self.preparation = list(blocks), list(heights), preparation
        self.first = first  # row of X
        self.height = sum(heights)

    def loaded(self) -> Part:
        """The part with all blocks in memory, ready for use."""
        blocks = [_aligned(block) for _, block in self._ready()]
        return Part(blocks, self.heights, self.first, Preparation(self.preparation.dtype))

    def _ready(self) -> Iterator[tuple[slice, Any]]:
        start = 0
        for block, height in zip(self.blocks, self.heights):
            raw = block.load() if hasattr(block, "load") else block
            yield slice(start, start + height), self.preparation.apply(raw)
            start += height

    def matrices(self, columns: Any = None) -> Iterator[tuple[slice, Matrix]]:
        """The blocks, or these columns of them, and the rows of the part that they have."""
        for rows, block in self._ready():
            whole = columns is None or (isinstance(columns, slice) and columns == slice(0, block.shape[1]))
            yield rows, as_matrix(block if whole else as_block(block[:, columns]))

    def times(self, V: np.ndarray) -> np.ndarray:
        out = np.empty((self.height, V.shape[1]), self.preparation.dtype, order="F")
        for rows, block in self.matrices():
            out[rows] = block._times(V)
        return out

    def transpose_times(self, U: np.ndarray) -> np.ndarray:
        return _total(_transpose_times(block, U[rows]) for rows, block in self._ready())

    def gram_times(self, Q: np.ndarray) -> np.ndarray:
        """Both products while a block is in memory."""
        return _total(_transpose_times(block, as_matrix(block)._times(Q)) for _, block in self._ready())

    def gram_times_in_double(self, Q: np.ndarray) -> np.ndarray:
        return _total(block._gram_times_in_double(Q) for _, block in self.matrices())

    def squared_residual(self, U: np.ndarray, V: np.ndarray, share: float) -> float:
        return sum(block._squared_residual(U[rows], V, share) for rows, block in self.matrices())

    def row_squares(self) -> np.ndarray:
        squares = [block.row_squares() for _, block in self.matrices()]
        return np.concatenate(squares)[:, None]

    def pick(self, index: np.ndarray) -> Any:
        """These rows, from one block or stacked from several."""
        found = []
        for rows, block in self._ready():
            mine = index[(index >= rows.start) & (index < rows.stop)] - rows.start
            if len(mine):
                found.append(block[mine])
        return found

    def gram(self) -> np.ndarray:
        """XᵀX of the part in double precision."""
        total: Any = 0.0
        for _, block in self._ready():
            wide = block.astype(np.float64, copy=False)
            product = wide.T @ wide
            total = total + (product.toarray() if sp.issparse(product) else product)
        return total

    def cross(self, others: Any) -> np.ndarray:
        """X Oᵀ of the part in double precision."""
        other = others.astype(np.float64, copy=False).T
        found = [block.astype(np.float64, copy=False) @ other for _, block in self._ready()]
        return np.vstack([product.toarray() if sp.issparse(product) else product for product in found])


def _aligned(block: Any) -> Any:
    """The aligned block: a dense one from the network may start anywhere; products then take half as long again."""
    return block.copy() if isinstance(block, np.ndarray) and block.ctypes.data % ALIGNMENT else block


def _total(products: Iterator[np.ndarray]) -> np.ndarray:
    """Their sum, accumulated in the first: Dask workers return freed memory at once, and fresh memory is expensive."""
    total = np.asfortranarray(next(products))
    for product in products:
        total += product
    return total


def _transpose_times(block: Any, U: np.ndarray) -> np.ndarray:
    if sp.issparse(block):  # one scattered sum: no transposed copy of the block is made
        return np.asfortranarray(block.T @ np.ascontiguousarray(U, dtype=block.dtype))
    return DenseMatrix(block)._transpose_times(U)


# Programs -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """Placeholder for the rows of a step in the arguments of another step."""

    key: int


@dataclass(frozen=True)
class Sent:
    """Placeholder for an array that was sent separately from the program."""

    index: int


@dataclass(frozen=True)
class Instruction:
    """function(part, *arguments); `key` is the number of the step, and `keep` whether its rows stay in this process."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    key: int = -1
    keep: bool = False


@dataclass(frozen=True)
class Lost:
    """The numbers of the parts whose rows are not where they were left."""

    parts: tuple[int, ...]


class Packed:
    """Keeps Dask from looking for tasks inside its content."""

    def __init__(self, content: Any) -> None:
        self.content = content


class _MissingRows(Exception):
    pass


def run(
    run_name: str, number: int, work: Packed, forget: Sequence[int], threads: int, part: Part, *sent: np.ndarray
) -> Any:
    """Forget rows that are no longer needed, make those of the program, and return the outcome."""
    program, outcome = work.content
    held = _held.setdefault((run_name, number), {})
    for key in forget:
        held.pop(key, None)
    made: dict[int, np.ndarray] = {}

    def value(argument: Any) -> Any:
        if isinstance(argument, Rows):
            found = made.get(argument.key, held.get(argument.key))
            if found is None:
                raise _MissingRows
            return found
        return sent[argument.index] if isinstance(argument, Sent) else argument

    last = {a.key: i for i, one in enumerate([*program, outcome]) for a in one.arguments if isinstance(a, Rows)}
    with parallel.limit(threads):
        try:
            for i, one in enumerate(program):
                made[one.key] = np.asfortranarray(one.function(part, *map(value, one.arguments)))
                for key in [k for k in made if last.get(k, -1) <= i and not _kept(program, k)]:
                    del made[key]
            result = outcome.function(part, *map(value, outcome.arguments))
        except _MissingRows:
            return Lost((number,))
    held.update({one.key: made[one.key] for one in program if one.keep})
    return result


def published(run_name: str, number: int, key: int) -> np.ndarray:
    """Rows that outlive the run. If their worker is lost after it, they cannot be made again."""
    rows = _held.get((run_name, number), {}).get(key)
    if rows is None:
        raise RuntimeError("rows of U were lost with their worker; V determines them: factorize with init=(None, V)")
    return rows


def _kept(program: Sequence[Instruction], key: int) -> bool:
    return any(one.key == key and one.keep for one in program)


class Hand:
    """Works on a part for a caller that addresses it directly (a Dask actor)."""

    def __init__(self, part: Part, threads: int) -> None:
        self.part, self.threads = part, threads

    def run(self, run_name: str, number: int, work: Packed, forget: Sequence[int]) -> Any:
        return run(run_name, number, work, forget, self.threads, self.part)


def drop(run_name: str) -> None:
    """Forget all rows of a run in this process."""
    for name in [name for name in _held if name[0] == run_name]:
        del _held[name]


def add(parts: Sequence[Any]) -> Any:
    """Sum in the given order, also of tuples. The parts are results of other tasks and must not be modified."""
    lost = [number for part in parts if isinstance(part, Lost) for number in part.parts]
    if lost:
        return Lost(tuple(lost))
    if isinstance(parts[0], tuple):
        return tuple(add(column) for column in zip(*parts))
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def make_part(blocks: Sequence[Any], heights: Sequence[int], first: int, preparation: Preparation, keep: bool) -> Part:
    part = Part(blocks, heights, first, preparation)
    return part.loaded() if keep else part
