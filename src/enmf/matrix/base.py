"""The interface of every kind of X.

Blocks of columns (factors, products) are n x r in Fortran order: one component is contiguous, and the transposed view
is the r x n array the kernels work on.
"""

from __future__ import annotations

import copy
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from enmf.kernels import BLOCK
from enmf.matrix.factor import gather, inner, row_blocks
from enmf.parallel import matmul

SUMMED = 1 << 20  # entries that are added up at a time
BLOCK_BYTES = 1 << 19  # size of a block of rows that stays in the cache


class Ledger:
    """Number of passes of a run over the data."""

    passes = 0


class Memo(dict[str, Any]):
    """What has already been computed about the data; shared by all views and threads."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.RLock()


class once:
    """A property that is computed on first use and kept in the memo of the matrix."""

    def __init__(self, compute: Callable[[Any], Any]) -> None:
        self.compute, self.name = compute, compute.__name__

    def __get__(self, X: Any, owner: Any = None) -> Any:
        memo = X.memo
        try:
            return memo[self.name]
        except KeyError:
            with memo.lock:
                if self.name not in memo:
                    memo[self.name] = self.compute(X)
            return memo[self.name]


class Listed(NamedTuple):
    """Rows by some of their entries, in blocks of columns; others are zeros of weight 1 (`implied`) or missing."""

    starts: np.ndarray  # blocks x (rows + 1)
    indices: np.ndarray
    data: np.ndarray
    indptr: np.ndarray  # entries before each row, in all blocks
    weights: np.ndarray  # empty: all are 1
    implied: bool


class Matrix(ABC):
    """An n x m matrix X seen through its products; `passes` counts the passes over the data.

    Methods that take a `half` see one side of a factorization (`enmf.problem.state.Half`): its factor F, the other
    factor C, and what is known about them.
    """

    shape: tuple[int, int]
    dtype: np.dtype
    holds_data = True  # False: products cost no pass over data
    stays = True  # False: its data are elsewhere, and may be gone after the run
    complete = True  # False: entries are missing or weighted, and every row has its own normal equations
    fused = False  # True: it has its own `half_step(half, how)`; else products come first, then sweeps
    has_entries = False  # True: `raw` is an ndarray with every entry
    has_rows = False  # True: `by_rows` gives its entries, for losses that need each of them
    signed = False  # True: it may have negative entries
    observed: int | None = None  # number of observed entries, if others may be missing

    def __init__(self, shape: tuple[int, int], dtype: np.dtype) -> None:
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.ledger, self.memo = Ledger(), Memo()

    @property
    def passes(self) -> int:
        return self.ledger.passes

    @passes.setter
    def passes(self, count: int) -> None:
        self.ledger.passes = count

    def counted(self) -> Any:
        """The same data with a separate ledger, for a concurrent run."""
        other = copy.copy(self)
        other.ledger = Ledger()
        return other

    def gathered(self) -> Matrix:
        """The same data for methods that need all rows of U and X V in this process."""
        return self

    def totals(self, side: int) -> np.ndarray:
        """Sum of the weights of every row (side 0) or column (side 1): the number of entries if none is missing."""
        return np.full(self.shape[side], float(self.shape[1 - side]))

    def by_rows(self, side: int) -> np.ndarray | Listed:
        """The entries, row by row (side 0) or column by column (side 1)."""
        raise TypeError(f"{type(self).__name__} has no rows in this process")

    def sums(self, side: int) -> np.ndarray:
        """Sum of every row (side 0) or column (side 1), each observed entry times its weight, in double precision."""
        return self._sums[side]

    @once
    def _sums(self) -> list[np.ndarray]:
        return [_row_sums(self.by_rows(side), lambda x: x) for side in (0, 1)]

    def power_sum(self, power: float) -> float:
        """Sum of x^power over the observed entries, each times its weight."""
        rows = self.by_rows(0)
        total = float(_row_sums(rows, lambda x: np.power(x, power, where=x > 0, out=np.zeros_like(x))).sum())
        return total if power > 0 else float(self.totals(0).sum())

    def zeros_in(self) -> int:
        """Number of observed entries that are zero."""
        rows = self.by_rows(0)
        if isinstance(rows, np.ndarray):
            return rows.size - int(np.count_nonzero(rows))
        known = rows.weights > 0 if rows.weights.size else True  # missing entries are listed with weight 0
        zeros = int(np.count_nonzero((rows.data == 0) & known))
        return zeros + (self.shape[0] * self.shape[1] - rows.data.size if rows.implied else 0)

    def listed_entries(self, beta: float) -> int:
        """Entries that count in a divergence: for beta = 1, zeros of a complete X do not."""
        rows = self.by_rows(0)
        if isinstance(rows, np.ndarray):
            return rows.size
        return len(rows.data) if beta == 1.0 or not rows.implied else self.shape[0] * self.shape[1]

    def product(self, side: int, C: Any) -> tuple[Any, np.ndarray | None]:
        """X C (side 0) or Xᵀ C (side 1), and Cᵀ C if it comes at no extra cost."""
        return (self.times if side == 0 else self.transpose_times)(C), None

    # The half-step, and what is measured between half-steps -----------------------------------------------------------

    def wall(self, half: Any, relative: float) -> float:
        """A wall relative to the mean Gram diagonal, converted to the unit of the Gram matrix."""
        return relative * float(np.diag(half.other.gram).mean())

    def terms(self, half: Any) -> tuple[Any, Any]:
        """The two nonnegative parts of the gradient with respect to half.F: second minus first."""
        penalty, F = half.penalty, half.F
        G, _ = penalty.normal(half.other.gram, None)
        model = matmul(F, G)
        return half.product, model + np.asarray(penalty.l1, F.dtype) if penalty.l1 else model

    def gradient(self, half: Any) -> tuple[np.ndarray, Any]:
        """G and B such that the gradient with respect to half.F is F G - B, penalty included, at this F."""
        return half.gradient()

    def prepare(self, state: Any, kkt: bool) -> None:
        """Compute the product that the next step needs, so that measuring costs nothing."""
        _ = state.halves[0].product

    def squared_error(self, state: Any) -> float:
        """||X - U Vᵀ||² from the known products if that keeps enough digits, else from the residual."""
        rows, columns = state.halves
        cross = state.joint.get("cross")
        if cross is None:
            half = columns if columns.knows_product and not rows.knows_product else rows
            cross = inner(half.product, half.F)
        first = self.squared_norm() - 2.0 * cross
        value = first + inner(rows.gram, columns.gram)
        if self.dtype == np.float32 and value < GRAMS_IN_DOUBLE * self.squared_norm():
            value = first + inner(rows.exact_gram, columns.exact_gram)
        return value if self.keeps_digits(value) else self.squared_residual(rows.F, columns.F)

    def keeps_digits(self, squared_error: float) -> bool:
        """Whether ||X||² - 2<XV,U> + <UᵀU,VᵀV> of this size has enough digits."""
        return squared_error >= safe_share(self.dtype) * self.squared_norm()

    def burst(self, rank: int) -> Any:
        """A kernel that takes several steps in one call (`enmf.run.bursts`), or None if steps are long enough."""
        return None

    def half_step_flops(self, rank: int) -> float:
        """Rough cost of half-steps of both factors."""
        return 2.0 * rank * self.cost_per_column + 4.0 * (self.shape[0] + self.shape[1]) * rank**2

    def measuring_flops(self, rank: int) -> float:
        """Rough cost of a KKT residual when the products are known."""
        return 2.0 * (self.shape[0] + self.shape[1]) * rank**2

    # Products ---------------------------------------------------------------------------------------------------------

    def times(self, V: np.ndarray) -> np.ndarray:
        """X V  # n x r"""
        self.ledger.passes += self.holds_data
        return self._times(V)

    def transpose_times(self, U: np.ndarray) -> np.ndarray:
        """Xᵀ U  # m x r"""
        self.ledger.passes += self.holds_data
        return self._transpose_times(U)

    def gram_times(self, Q: np.ndarray) -> np.ndarray:
        """Xᵀ (X Q)  # m x r, two passes"""
        return self.transpose_times(self.times(Q))

    def gram_times_in_double(self, Q: np.ndarray) -> np.ndarray:
        """Xᵀ (X Q) in double precision arithmetic, whatever the dtype of X: for results that must be rigorous."""
        if self.dtype == np.float64:
            return self.gram_times(Q)
        self.passes += 2
        return self._gram_times_in_double(Q)

    def _gram_times_in_double(self, Q: np.ndarray) -> np.ndarray:
        raise TypeError(f"{type(self).__name__} has no products in double precision")

    def there_and_back(self, Q: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """X Q, and Xᵀ (X Q) if it comes at little extra cost."""
        return self.times(Q), None

    @property
    def narrow(self) -> bool:
        """Whether there are many rows, so short that a block of them stays in the cache.

        Dense data in C order then allow one pass; what a run does depends on the shape alone, not on how X is stored.
        """
        n, m = self.shape
        return n >= 4 * m and BLOCK * m * self.dtype.itemsize <= BLOCK_BYTES

    @property
    def allows_one_pass(self) -> bool:
        """Whether U is better swept together with its products than after a separate X V: `DenseMatrix.half_step` then
        reads X once, and workers that hold X are sent one message."""
        return False

    def unchanged(self) -> bool:
        """Whether the entries still have the norm that they had when X was first looked at."""
        return self._compute_squared_norm() == self.squared_norm()

    def squared_norm(self) -> float:
        """||X||_F², accumulated in double precision; computed once."""
        return self._squared_norm

    @once
    def _squared_norm(self) -> float:
        return self._compute_squared_norm()

    def sample_rows(self, count: int, rng: np.random.Generator) -> Matrix:
        """A matrix S of at most `count` weighted rows, drawn by their squared norm, such that E[SᵀS] = XᵀX."""
        index, weight = draw(self.row_squares(), count, rng)
        return self._rows(index, weight.astype(self.dtype))

    def mean(self) -> float:
        """Mean entry."""
        ones = np.ones((self.shape[1], 1), dtype=self.dtype)
        return float(self._times(ones).sum(dtype=np.float64)) / (self.shape[0] * self.shape[1])

    def squared_residual(self, U: np.ndarray, V: np.ndarray, share: float = 1e-11) -> float:
        """||X - U Vᵀ||_F² from the residual itself, so that a tiny error keeps its digits.

        If that takes all n m entries of a sparse or masked X, it is done only below this `share` of ||X||².
        """
        self.passes += self.holds_data
        return self._squared_residual(U, V, share)

    def scaled(self, rows: np.ndarray | None, columns: np.ndarray | None) -> Matrix:
        """D_r X D_c: rows and columns times these numbers, in memory of its own."""
        raise TypeError(f"{type(self).__name__} has no entries to scale")

    def zeros(self, rank: int) -> Any:
        """A U of zeros, in the form this matrix works with."""
        return np.zeros((self.shape[0], rank), self.dtype, order="F")

    def own(self, U: Any) -> Any:
        """U (n x r) in the form this matrix works with: in Fortran order, or with its blocks."""
        return np.asfortranarray(U, dtype=self.dtype)

    def public(self, U: Any) -> Any:
        """U (n x r) as the user gets it."""
        return np.ascontiguousarray(U)

    @property
    @abstractmethod
    def cost_per_column(self) -> float:
        """Cost of X times one column, in flops of a dense product that takes as long.

        It decides how much work is done between passes. It depends on the values of X, not on how they are stored: a
        matrix gives the same result dense and sparse.
        """

    def raw(self) -> Any:
        """The underlying ndarray or CSR array, for other libraries; not to be modified."""
        raise TypeError(f"{type(self).__name__} has no plain array")

    def pick(self, index: np.ndarray) -> Any:
        """These rows, in increasing order, as an ndarray or CSR array; not to be modified."""
        return self._rows(index, np.ones(len(index), self.dtype)).raw()

    @abstractmethod
    def gram(self) -> np.ndarray:
        """X Xᵀ or Xᵀ X, whichever is smaller, in double precision (only for matrices with a small side)."""

    @abstractmethod
    def row_squares(self) -> np.ndarray:
        """Squared norm of every row, in double precision."""

    @abstractmethod
    def _rows(self, index: np.ndarray, weight: np.ndarray) -> Matrix:
        """These rows, each times its weight."""

    @abstractmethod
    def _times(self, V: np.ndarray) -> np.ndarray: ...

    @abstractmethod
    def _transpose_times(self, U: np.ndarray) -> np.ndarray: ...

    @abstractmethod
    def _compute_squared_norm(self) -> float: ...

    @abstractmethod
    def _squared_residual(self, U: np.ndarray, V: np.ndarray, share: float) -> float: ...


def draw(squares: np.ndarray, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Systematic sample with probability p proportional to `squares`: indices (each once), and weights 1/sqrt(count p).

    Rows F[index] times their weights have the sum of squares of F in expectation. Large rows are drawn more than once
    but listed once; if that would leave only a handful, see `certain`.
    """
    sizes, count = certain(squares, count)
    edges = np.cumsum(sizes)
    stride = edges[-1] / count
    ticks = (np.arange(count) + rng.random()) * stride
    index = np.searchsorted(edges, ticks, side="right").clip(0, np.flatnonzero(sizes)[-1])
    index, times = np.unique(index, return_counts=True)
    return index, np.sqrt(times * stride / sizes[index])


def certain(squares: np.ndarray, count: int) -> tuple[np.ndarray, int]:
    """Sizes by which `count` rows are drawn, and how many: heavy tails must not leave a sample of a few rows.

    If a few rows would be drawn repeatedly, their sizes are capped so that each of them is drawn once, with weight 1.
    """
    total = float(squares.sum())
    if not repeats(squares, total, count):
        return squares, count
    cap, count = largest_size(np.sort(squares)[::-1][:count], total, count)
    return np.minimum(squares, cap), count


def repeats(squares: np.ndarray, total: float, count: int) -> bool:
    """Whether most of the draws would fall on rows that were drawn before, judging by the `count` largest.

    Samples of X have eight rows per column: with fewer than an eighth of them left, they do not span its columns.
    """
    return float(np.maximum(squares * (count / total) - 1.0, 0.0).sum()) > 7 * count / 8


def largest_size(leading: np.ndarray, total: float, count: int) -> tuple[float, int]:
    """The cap c with  sum min(squares, c) = count c,  from the `count` largest squares, decreasing.

    If fewer than `count` rows are nonzero, all of them are drawn.
    """
    nonzero = int(np.count_nonzero(leading))
    if nonzero < count:
        return float(leading[nonzero - 1]), nonzero
    # with the k largest rows certain, the others share count - k ticks
    rest = np.maximum(total - np.concatenate([[0.0], np.cumsum(leading)[:-1]]), leading)
    caps = rest / (count - np.arange(count))
    return float(caps[np.argmax(caps >= leading)]), count


def sample(F: Any, count: int, rng: np.random.Generator) -> np.ndarray:
    """At most `count` weighted rows of F, or F itself if it has less than twice as many."""
    if len(F) < 2 * count:
        return gather(F)
    if hasattr(F, "home"):
        return F.fetch_sample(count, rng)
    squares = np.einsum("ij,ij->i", F, F, dtype=np.float64)
    index, weight = draw(squares, count, rng)
    return np.asfortranarray(F[index] * weight[:, None].astype(F.dtype))


def dense_squared_residual(block: np.ndarray, U: np.ndarray, V: np.ndarray, work: np.ndarray | None = None) -> float:
    """||block - U Vᵀ||², differences in the precision of V, sums in double; overwrites the first rows of `work`."""
    out = None if work is None else work[: len(block)]
    difference = np.matmul(U.astype(V.dtype), V.T, out=out)
    np.subtract(block, difference, out=difference)
    flat = difference.ravel().astype(np.float64, copy=False)
    return float(flat @ flat)


def _row_sums(rows: np.ndarray | Listed, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Sum of function(x) over every row, in double precision, a part of the rows at a time."""
    if isinstance(rows, np.ndarray):
        out = np.empty(len(rows))
        for part in row_blocks(*rows.shape):
            out[part] = function(rows[part]).sum(axis=1, dtype=np.float64)
        return out
    out = np.zeros(rows.starts.shape[1] - 1)
    for starts in rows.starts:
        edges = np.unique(np.searchsorted(starts, np.arange(starts[0], starts[-1] + SUMMED, SUMMED)))
        for top, bottom in pairwise([0, *edges[(edges > 0) & (edges < len(out))], len(out)]):
            first, last = starts[top], starts[bottom]
            values = function(rows.data[first:last]).astype(np.float64)
            if len(rows.weights):
                values *= rows.weights[first:last]
            totals = np.concatenate([[0.0], np.cumsum(values)])
            out[top:bottom] += np.diff(totals[starts[top : bottom + 1] - first])
    return out


# share of ||X||² below which Gram matrices in single precision move the error by more than 0.001 %: a run of thousands
# of steps would keep the luckiest pair instead of the best one
GRAMS_IN_DOUBLE = 1e-2


def safe_share(dtype: np.dtype) -> float:
    """Share of ||X||² below which a difference of sums of that size has lost too many digits.

    In single precision products move such a difference by some 1e-7 of ||X||²: errors of 1.3 % by 0.05 % of themselves.
    """
    return 1e-11 if dtype == np.float64 else 1e-3


def product_cost(n: int, m: int, nonzeros: int) -> float:
    """Flops of a dense product that takes as long as the faster of the dense and the sparse one.

    An entry gathered individually costs eight times as much as in a dense product (measured: 7 against 60 GF/s).
    """
    return 2.0 * min(n * m, 8.0 * nonzeros)
