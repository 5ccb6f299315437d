"""X in blocks of rows that are never all in memory at once, or not on this machine.

    X V = [X_1 V; ...; X_P V]          Xᵀ U = X_1ᵀ U_1 + ... + X_Pᵀ U_P          Xᵀ X Q = sum of X_pᵀ (X_p Q)

The blocks are divided among parts, one for each thread of the workers (`enmf.distributed.engine`). U, X V and whatever
else has n rows live with the parts (`enmf.distributed.rows`); V, Gram matrices and other r x r arrays live with the
caller. An iteration of HALS is one task per part: it takes V, computes X V, updates U and sends back Xᵀ U and Uᵀ U,
which also give the error. If a KKT residual is wanted, an earlier task takes V, keeps X V, and sends back <X V, U> and
the gradient of U. Blocks that fit into the available memory are read once and kept; others are read again each time.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from enmf import parallel
from enmf.distributed.blocks import Preparation, Survey
from enmf.distributed.engine import Engine, Job
from enmf.distributed.parts import Instruction, Lost, Part
from enmf.distributed.rows import Pieces, RowBlocks, Step, Value, program, resolved
from enmf.distributed.sources import is_held
from enmf.kernels import nnls
from enmf.matrix.base import Matrix, largest_size, once, product_cost, repeats
from enmf.matrix.dense import DenseMatrix
from enmf.matrix.factor import WorkersLost, collect, gather, inner, row_blocks
from enmf.matrix.sparse import SparseMatrix
from enmf.matrix.sweeps import GradientMeasure, measure_rows, together

LOSSES = 5  # times that rows may be found missing in one pass, each time with another worker gone
LONG = 3000  # steps that are remembered at most, and ...
HEAVY = 1 << 28  # ... bytes of V in them; rows lost later are rebuilt from the V of that time


class ChunkedMatrix(Matrix):
    """Blocks of rows behind the interface of `Matrix`. `surveys` belong to the prepared blocks; none is empty.

    Products X V stay with the parts, as `RowBlocks`; `gathered()` is the same X for methods that need them locally.
    `lazy`: results of length n are Dask arrays.
    """

    stays = False

    def __init__(
        self, blocks: Sequence[Any], surveys: Sequence[Survey], preparation: Preparation, engine: Engine, lazy: bool
    ) -> None:
        heights = [survey.shape[0] for survey in surveys]
        super().__init__((sum(heights), surveys[0].shape[1]), preparation.dtype)
        self.engine, self.lazy = engine, lazy or engine.client is not None
        self.sparse = any(survey.sparse for survey in surveys)
        self._nonzeros = sum(survey.nonzeros for survey in surveys)
        self.memo["_squared_norm"] = float(sum(survey.squared_norm for survey in surveys))
        self.blocks = list(blocks)
        self.kept = engine.holds(sum(survey.nbytes for survey in surveys)) or any(map(is_held, blocks))
        groups = _divide([survey.nbytes for survey in surveys], engine.slots())
        tall = [[heights[i] for i in group] for group in groups]
        engine.place([[blocks[i] for i in group] for group in groups], tall, preparation, self.kept)
        self.heights = [sum(part) for part in tall]
        self._values: weakref.WeakSet[Value] = weakref.WeakSet()
        self._unused: list[int] = []  # rows that are no longer referenced
        self._again: tuple[Any, ...] = (_nothing,)  # how lost rows of U are made without their history
        self._heavy = 0
        weakref.finalize(self, engine.release)

    def __copy__(self) -> ChunkedMatrix:
        """For a concurrent run: the same parts, but separate rows."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__, _values=weakref.WeakSet(), _unused=[])
        return other

    @property
    def cost_per_column(self) -> float:
        return product_cost(*self.shape, self._nonzeros)

    @property
    def allows_one_pass(self) -> bool:
        """X V, sweeps of U and Xᵀ U in one task per part: one message to each worker and back."""
        return True

    def gathered(self) -> Matrix:
        return GatheredMatrix.of(self)

    @property
    def gathers_cheaply(self) -> bool:
        """Whether the rows are in this process anyway."""
        return self.engine.client is None

    def raw(self) -> Any:
        raise TypeError("X is not in memory: this method or start needs it whole. Choose another one, such as 'enmf'")

    # Rows -------------------------------------------------------------------------------------------------------------

    def rows(self, function: Callable[..., Any], *arguments: Any, columns: int, dtype: Any) -> RowBlocks:
        """Rows made by function(part, *arguments), when they are needed."""
        inputs = [a.value for a in arguments if isinstance(a, RowBlocks)]
        value = Value(Step(function, _steps(arguments)), inputs)
        self._values.add(value)
        weakref.finalize(value, self._unused.append, value.step.key).atexit = False
        return RowBlocks(self, value, columns, dtype)

    def zeros(self, rank: int) -> Any:
        return self.rows(_zeros, rank, columns=rank, dtype=self.dtype)

    def own(self, U: Any) -> Any:
        if isinstance(U, RowBlocks):
            return U.astype(self.dtype, copy=False)
        return self._cut(np.asfortranarray(U, dtype=self.dtype))

    def public(self, U: Any) -> Any:
        """Rows for the user: a Dask array if X is one or workers hold the rows, else an ndarray."""
        if not isinstance(U, RowBlocks):
            return np.ascontiguousarray(U)
        if not self.lazy:
            return np.ascontiguousarray(U.gather())
        self.total(_nothing, U)
        return self.engine.publish(U.value.step.key, self.heights, U.shape[1], U.dtype)

    def total(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The sum of function(part, *arguments) over the parts."""
        return self._run(function, arguments, total=True)

    def collect(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """function(part, *arguments) for each part."""
        return self._run(function, arguments, total=False)

    def _run(self, function: Callable[..., Any], arguments: tuple[Any, ...], total: bool) -> Any:
        steps = _steps(arguments)
        needed = [a for a in steps if isinstance(a, Step)]
        for _ in range(LOSSES):
            forget, self._unused[:] = list(self._unused), []
            jobs = [
                Job(p, program(needed, p), Instruction(function, resolved(steps, p))) for p in range(len(self.heights))
            ]
            try:
                found = self.engine.run(jobs, forget, total)
            except BaseException:
                self._unused.extend(forget)
                raise
            if not isinstance(found, Lost):
                self._stored(jobs)
                return found
            self._unused.extend(forget)
            for value in self._values:
                value.stored.difference_update(found.parts)
            self.engine.find_homes()
        raise WorkersLost("workers were lost faster than a pass over X could be repeated")

    def _stored(self, jobs: Sequence[Job]) -> None:
        made = {(one.key, job.part) for job in jobs for one in job.program if one.keep}
        heavy = self._heavy > HEAVY
        for value in list(self._values):
            mine = {part for key, part in made if key == value.step.key}
            if not mine:
                continue
            value.stored |= mine
            if len(value.stored) == len(self.heights):
                value.inputs = ()
                if self.engine.client is None:
                    value.step.begin_anew(_nothing)  # local rows cannot be lost
                elif value.step.depth > LONG or (heavy and value.step.depth > LONG // 50):
                    value.step.begin_anew(*self._again)
                    self._heavy = 0

    # Products ---------------------------------------------------------------------------------------------------------

    def _times(self, V: np.ndarray) -> Any:
        return self.rows(_times, self.kept_for_later(V, _best_for), columns=V.shape[1], dtype=self.dtype)

    def kept_for_later(self, V: np.ndarray, best: Callable[..., np.ndarray], *arguments: Any) -> np.ndarray:
        """A copy of V: the caller changes V in place, and steps are remembered.

        best(part, *arguments, V) are the best rows of U for V, which stand in for rows that are lost later.
        """
        V = np.array(V, dtype=self.dtype, order="F")
        self._again, self._heavy = (best, *arguments, V), self._heavy + V.nbytes
        return V

    def _transpose_times(self, U: Any) -> np.ndarray:
        return self._with_gram(U)[0]

    def product(self, side: int, C: Any) -> tuple[Any, np.ndarray | None]:
        """Xᵀ U also brings Uᵀ U: one message for both."""
        if side == 0:
            return self.times(C), None
        self.passes += 1
        return self._with_gram(C)

    def _with_gram(self, U: Any) -> tuple[np.ndarray, np.ndarray]:
        return self.total(_transpose_times, U if isinstance(U, RowBlocks) else self._cut(U))

    def prepare(self, state: Any, kkt: bool) -> None:
        """One message brings what the error and, with `kkt`, the KKT residual need of the rows: <X V, U> and the
        gradient of U."""
        half = state.halves[0]
        XV = half.product
        if not kkt:
            state.joint["cross"] = inner(XV, half.F)
            return
        found = collect(_meet, XV, half.F, *half.normal())
        state.joint["cross"] = sum(cross for cross, _ in found)
        state.joint["gradient", 0] = together([measure for _, measure in found])

    def _cut(self, U: np.ndarray) -> RowBlocks:
        pieces = Pieces(np.split(U, np.cumsum(self.heights)[:-1]))
        return self.rows(_given, pieces, columns=U.shape[1], dtype=U.dtype)

    def gram_times(self, Q: np.ndarray) -> np.ndarray:
        """Both products while a block is in memory: X is read once, and nothing of length n is transferred."""
        self.passes += 2
        return self.total(_gram_times, Q)

    def _gram_times_in_double(self, Q: np.ndarray) -> np.ndarray:
        return self.total(_gram_times_in_double, Q)

    def _compute_squared_norm(self) -> float:
        raise AssertionError("known from the surveys")

    def row_squares(self) -> np.ndarray:
        return self._squares().gather()[:, 0]

    @once
    def _sums(self) -> list[np.ndarray]:
        rows, columns = zip(*self.collect(_both_sums))
        return [np.concatenate(rows), np.sum(columns, axis=0)]

    def power_sum(self, power: float) -> float:
        return float(self.total(_power_sum, power)) if power > 0 else float(self.shape[0]) * self.shape[1]

    def zeros_in(self) -> int:
        return self.shape[0] * self.shape[1] - self._nonzeros

    def listed_entries(self, beta: float) -> int:
        return self._nonzeros if self.sparse and beta == 1.0 else self.shape[0] * self.shape[1]

    def _squares(self) -> RowBlocks:
        return self.rows(_row_squares, columns=1, dtype=np.float64)

    def sample_rows(self, count: int, rng: np.random.Generator) -> Matrix:
        found, weight = self.draw(self._squares(), _pick, (), count, rng)
        return self._stacked(found, weight.astype(self.dtype))

    def draw(
        self, squares: RowBlocks, pick: Callable[..., Any], more: tuple[Any, ...], count: int, rng: np.random.Generator
    ) -> tuple[list[Any], np.ndarray]:
        """`enmf.matrix.base.draw` where the rows live: what pick(part, index, *more) returns, and the weights."""
        squares, count = self._certain(squares, count)
        edges = np.cumsum([0.0, *self.collect(_mass, squares)])
        stride = edges[-1] / count
        ticks = (np.arange(count) + rng.random()) * stride
        last = int(np.flatnonzero(np.diff(edges))[-1])
        owner = (np.searchsorted(edges, ticks, side="right") - 1).clip(0, last)
        mine = Pieces([ticks[owner == part] for part in range(len(self.heights))])
        found = self.collect(_draw, squares, mine, Pieces(edges[:-1].tolist()), pick, *more)
        blocks = [block for part, _, _ in found for block in part]
        size, times = (np.concatenate(column) for column in list(zip(*found))[1:])
        return blocks, np.sqrt(times * stride / size)

    def _certain(self, squares: RowBlocks, count: int) -> tuple[RowBlocks, int]:
        """`enmf.matrix.base.certain` where the rows live."""
        found = self.collect(_leading, squares, count)
        total = sum(mass for mass, _ in found)
        leading = np.sort(np.concatenate([values for _, values in found]))[::-1][:count]
        if not repeats(leading, total, count):
            return squares, count
        cap, count = largest_size(leading, total, count)
        return squares.make(_capped, squares, cap), count

    def _rows(self, index: np.ndarray, weight: np.ndarray) -> Matrix:
        edges = np.cumsum([0, *self.heights])
        inside = Pieces([index[(index >= a) & (index < b)] - a for a, b in itertools.pairwise(edges)])
        found = self.collect(_pick, inside)
        return self._stacked([block for part in found for block in part], weight)

    def _stacked(self, blocks: list[Any], weight: np.ndarray) -> Matrix:
        if self.sparse:
            stacked = sp.csr_array(sp.vstack(blocks, "csr"))
            return SparseMatrix(sp.csr_array(sp.diags_array(weight) @ stacked))
        return DenseMatrix(np.vstack(blocks) * weight[:, None])

    def _squared_residual(self, U: Any, V: np.ndarray, share: float) -> float:
        return float(self.total(_residual, U if isinstance(U, RowBlocks) else self._cut(U), V, share))

    def gram(self) -> np.ndarray:
        n, m = self.shape
        if m <= n:
            self.passes += 1
            return self.total(_gram)
        gram = np.empty((n, n))
        for rows in row_blocks(n, m, 1 << 23):  # every block is multiplied by every other one
            self.passes += 1
            beside = self._rows(np.arange(n)[rows], np.ones(rows.stop - rows.start, self.dtype)).raw()
            gram[:, rows] = np.vstack(self.collect(_cross, beside))
        return gram


class GatheredMatrix(ChunkedMatrix):
    """X in blocks, for methods that need U and X V in this process."""

    allows_one_pass = False

    @classmethod
    def of(cls, X: ChunkedMatrix) -> GatheredMatrix:
        other = cls.__new__(cls)
        # the same parts, rows and ledger, and X itself, which owns the parts
        other.__dict__.update(X.__dict__, whole=X)
        return other

    def gathered(self) -> Matrix:
        return self

    def own(self, U: Any) -> np.ndarray:
        return np.asfortranarray(gather(U), dtype=self.dtype)

    def _times(self, V: np.ndarray) -> np.ndarray:
        return super()._times(V).gather()

    product, prepare, zeros = Matrix.product, Matrix.prepare, Matrix.zeros


def _divide(sizes: Sequence[int], count: int) -> list[list[int]]:
    """Consecutive numbers of blocks in at most `count` groups of about the same size, none of them empty."""
    middles = np.cumsum(sizes, dtype=np.float64) - np.asarray(sizes) / 2.0
    whole = max(float(np.sum(sizes, dtype=np.float64)), 1.0)
    owner = np.minimum((middles / whole * count).astype(int), count - 1)
    return [np.flatnonzero(owner == number).tolist() for number in np.unique(owner)]


def _steps(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(a.value.step if isinstance(a, RowBlocks) else a for a in arguments)


# What parts do --------------------------------------------------------------------------------------------------------


def _times(part: Part, V: np.ndarray) -> np.ndarray:
    return part.times(V)


def _transpose_times(part: Part, U: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return part.transpose_times(U), U.T @ U


def _meet(XV: np.ndarray, U: np.ndarray, G: np.ndarray, B: np.ndarray) -> tuple[float, GradientMeasure]:
    return inner(XV, U), measure_rows(U, G, B)


def _gram_times(part: Part, Q: np.ndarray) -> np.ndarray:
    return part.gram_times(Q)


def _gram(part: Part) -> np.ndarray:
    return part.gram()


def _cross(part: Part, others: Any) -> np.ndarray:
    return part.cross(others)


def _gram_times_in_double(part: Part, Q: np.ndarray) -> np.ndarray:
    return part.gram_times_in_double(Q)


def _residual(part: Part, U: np.ndarray, V: np.ndarray, share: float) -> float:
    return part.squared_residual(U, V, share)


def _both_sums(part: Part) -> tuple[np.ndarray, np.ndarray]:
    found = [(block.sums(0), block.sums(1)) for _, block in part.matrices()]
    return np.concatenate([rows for rows, _ in found]), np.sum([columns for _, columns in found], axis=0)


def _power_sum(part: Part, power: float) -> float:
    return sum(block.power_sum(power) for _, block in part.matrices())


def _given(part: Part, rows: np.ndarray) -> np.ndarray:
    return rows


def _zeros(part: Part, rank: int) -> np.ndarray:
    return np.zeros((part.height, rank), part.preparation.dtype, order="F")


def _nothing(part: Part, *_: Any) -> int:
    return 0


def _row_squares(part: Part) -> np.ndarray:
    return part.row_squares()


def _mass(part: Part, squares: np.ndarray) -> float:
    return float(np.cumsum(squares[:, 0])[-1])


def _leading(part: Part, squares: np.ndarray, count: int) -> tuple[float, np.ndarray]:
    return _mass(part, squares), np.sort(squares[:, 0])[::-1][:count]


def _capped(_: object, squares: np.ndarray, cap: float) -> np.ndarray:
    return np.minimum(squares, cap)


def _draw(
    part: Part, squares: np.ndarray, ticks: np.ndarray, offset: float, pick: Callable[..., Any], *more: Any
) -> tuple[list[Any], np.ndarray, np.ndarray]:
    if len(ticks) == 0:
        return [], np.empty(0), np.empty(0)
    edges = np.cumsum(np.concatenate([[offset], squares[:, 0]]))[1:]
    index = np.searchsorted(edges, ticks, side="right").clip(0, np.flatnonzero(squares)[-1])
    index, times = np.unique(index, return_counts=True)
    return pick(part, index, *more), squares[index, 0], times


def _pick(part: Part, index: np.ndarray) -> list[Any]:
    return part.pick(index) if len(index) else []


def _best_for(part: Part, V: np.ndarray) -> np.ndarray:
    """The best rows of U for this V."""
    G = np.ascontiguousarray(V.T @ V, dtype=np.float64)
    B = np.asfortranarray(part.times(V), dtype=np.float64)
    F = np.zeros(B.shape, order="F")
    parallel.run(nnls.nnls, parallel.even_bounds(len(F), len(G) ** 3 / 3.0), G, B.T, F.T)
    return F.astype(V.dtype)
