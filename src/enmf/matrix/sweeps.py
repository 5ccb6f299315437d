"""One factor with the other one held fixed: the coordinate sweeps that make up a half-step, the exact solution,
and the sizes of the gradient.

    min over F >= 0 of 1/2 <F, F G> - <F, B>,    with F = U: G = VᵀV, B = X V

by src/kernels/sweep.h: several sweeps while they still make progress, against a wall that may be soft, followed by
extrapolation  F <- max(0, F + beta (F - old)).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from enmf import parallel
from enmf.kernels import BLOCK, LANE_BYTES, RANGE, burst, gradient, onepass, rowstep, sweep
from enmf.kernels import nnls as active_set
from enmf.matrix.factor import by_rows, change, collect, row_blocks

SUPPORT_SWEEPS = 20  # coordinate sweeps that find the support
SHORT_STEP = 50_000_000  # flops of a step that is shorter than about a millisecond
PARTS = 16  # into which the rows of a half-step in one pass are split, whatever the number of threads
AT_ONCE = 1 << 22  # entries of F solved for at a time in double precision


class Momentum(NamedTuple):
    """Extrapolation of a factor: F becomes max(least F, F + beta (F - old)), and `old` the previous F."""

    old: Any
    beta: float
    least: float = 0.0


class Sweep(NamedTuple):
    """What a half-step does to its factor."""

    sweeps: int = 1  # maximum
    progress: float = 0.0  # sweeps end when one changes the factor by less than this share of the first
    wall: float = np.inf  # weight that holds back negative entries; if finite, they may stay negative
    momentum: Momentum | None = None


ONE_SWEEP = Sweep()


class RowSteps(NamedTuple):
    """Projected gradient steps of rows (paper, Algorithm 2)."""

    steps: int  # maximum
    epsilon: float  # steps end when the projected gradient has fallen by this factor
    fixed: bool = False  # step size 1 / ||G||_2 for all rows, not the optimal one of each
    literal: bool = False  # entries at zero that would become negative count in the gradient


class EntrySteps(NamedTuple):
    """Newton steps of single entries of rows, one after another."""

    sweeps: int  # over the entries of a row
    damped: bool  # steps that could raise a self-concordant loss are shortened


def product_then_sweep(half: Any, how: Sweep) -> None:
    """The half-step that every storage allows: the normal equations, then sweeps of all rows."""
    G, B = half.normal()
    F = half.F
    options = _options(G, how, None)
    if hasattr(F, "home"):
        change(_sweep_from, F, B, *options)
    else:
        bounds = parallel.even_bounds(len(F), 2.0 * F.shape[1] ** 2 * how.sweeps, RANGE)
        parallel.run(sweep.sweep, bounds, F.T, B.T, *options)
    if how.momentum is not None:
        extrapolate(F, how.momentum)
    half.changed()


def coordinate_sweeps(F: Any, G: np.ndarray, B: Any, how: Sweep = ONE_SWEEP, fixed: np.ndarray | None = None) -> None:
    """Sweep F (n x r, Fortran order) in place, except the columns that are `fixed`."""
    change(_sweep_from, F, B, *_options(G, how, fixed))


def _options(G: np.ndarray, how: Sweep, fixed: np.ndarray | None) -> tuple[Any, ...]:
    skip = _none(len(G)) if fixed is None else fixed
    return np.ascontiguousarray(G), float(how.wall), how.sweeps, float(how.progress), skip


def one_pass_options(G: np.ndarray, how: Sweep) -> tuple[Any, ...]:
    """Arguments of both half-steps in one pass, after their matrices."""
    old, beta, _ = how.momentum or (np.empty((0, 0), G.dtype), 0.0, 0.0)
    return *_options(G, how, None), old.T, float(beta)


class Parts:
    """The parts into which the rows are split, with the sums Xᵀ U (r x m) and Uᵀ U of each."""

    def __init__(self, n: int, m: int, rank: int, dtype: np.dtype) -> None:
        lanes = LANE_BYTES // dtype.itemsize
        self.height = max(1, -(-n // (PARTS * lanes))) * lanes
        self.count = -(-n // self.height)
        self.sums = np.empty((self.count, rank, m), dtype), np.empty((self.count, rank, rank), dtype)

    def added(self) -> tuple[np.ndarray, np.ndarray]:
        """The sums over all parts."""
        onepass.add_parts(*self.sums)
        return self.sums[0][0], self.sums[1][0].copy()


@cache
def _none(rank: int) -> np.ndarray:
    """No column is fixed; never changed."""
    return np.zeros(rank, dtype=np.bool_)


def _sweep_from(first: int, F: np.ndarray, B: np.ndarray, *options: Any) -> None:
    """Sweep rows from number `first` on, in the same blocks as a sweep of all rows."""
    lead = min(-first % RANGE, len(F))
    if lead:
        sweep.sweep(0, lead, F.T, B.T, *options)
    bounds = lead + parallel.even_bounds(len(F) - lead, 2.0 * F.shape[1] ** 2 * options[2], RANGE)
    parallel.run(sweep.sweep, bounds, F.T, B.T, *options)


def gradient_steps(F: np.ndarray, G: np.ndarray, B: np.ndarray, how: RowSteps) -> None:
    """Row-wise projected gradient steps on F in place; see src/kernels/rowstep.h."""
    n, r = F.shape
    norm = float(np.linalg.norm(G, 2)) if how.fixed else 0.0
    step = 1.0 / norm if norm > 0.0 else 0.0  # 0: the optimal step
    bounds = parallel.even_bounds(n, 4.0 * r * r * how.steps, BLOCK)
    options = step, how.steps, float(how.epsilon), bool(how.literal)
    parallel.run(rowstep.row_steps, bounds, F.T, B.T, np.ascontiguousarray(G), *options)


def new_burst(X: Any, rank: int) -> Any:
    """A kernel for several steps in one call, still without its matrix, if steps take less than about a millisecond."""
    if X.half_step_flops(rank) > SHORT_STEP:
        return None
    return (burst.Double if X.dtype == np.float64 else burst.Single)(*X.shape, rank)


def extrapolate(F: Any, momentum: Momentum) -> None:
    """F <- max(least F, F + beta (F - old)), and `old` <- F, in place."""
    old, beta, least = momentum
    if hasattr(F, "home"):
        new = F.copy(order="F")
        F.assign(_beyond(F, old, np.asarray(beta, F.dtype), np.asarray(least, F.dtype)))
        old.assign(new)
        return
    bounds = parallel.even_bounds(len(F), 10.0 * F.shape[1])
    parallel.run(sweep.extrapolate_columns, bounds, F.T, old.T, float(beta), float(least))


@by_rows
def _beyond(F: np.ndarray, old: np.ndarray, beta: np.ndarray, least: np.ndarray) -> np.ndarray:
    """max(least F, F + beta (F - old)) in a new array; F and old are unchanged."""
    out = F - old
    out *= beta
    out += F
    return np.maximum(out, least * F if least else 0, out=out)


@by_rows
def solve_nnls(G: np.ndarray, B: np.ndarray) -> np.ndarray:
    """argmin over F >= 0 of 1/2 <F, F G> - <F, B>, row by row (F, B: n x r; G: r x r), exact to rounding.

    The result depends on G and B alone, not on a start, so that `transform` returns what `fit_transform` did.
    """
    G64 = np.ascontiguousarray(G, dtype=np.float64)
    out = np.empty(B.shape, B.dtype, order="F")
    for rows in row_blocks(len(B), B.shape[1], AT_ONCE):
        out[rows] = _solve(G64, np.asfortranarray(B[rows], dtype=np.float64))
    return out


def _solve(G: np.ndarray, B: np.ndarray) -> np.ndarray:
    F = np.zeros(B.shape, order="F")
    coordinate_sweeps(F, G, B, Sweep(SUPPORT_SWEEPS, 1e-4))
    parallel.run(active_set.nnls, parallel.even_bounds(len(B), len(G) ** 3 / 3.0), G, B.T, F.T)
    return F


@dataclass(frozen=True)
class GradientMeasure:
    """Sizes of the gradient D of one factor F."""

    squares: np.ndarray  # r: sum of squares of the projected gradient of each component
    largest_product: float  # max(D * F)
    sum_product: float  # sum(D * F)
    smallest: float  # min(D)


def measure_gradient(F: Any, G: np.ndarray, B: Any) -> GradientMeasure:
    """Measure F G - B for a factor F (n x r, Fortran order)."""
    return together(collect(measure_rows, F, G, B))


def measure_rows(F: np.ndarray, G: np.ndarray, B: np.ndarray) -> GradientMeasure:
    """Measure F G - B for rows in this process."""
    n, r = F.shape
    partial = np.empty((-(-n // BLOCK), r + gradient.EXTRAS))
    bounds = parallel.even_bounds(n, 2.0 * r * r, BLOCK)
    parallel.run(gradient.measure, bounds, F.T, B.T, np.ascontiguousarray(G), partial)
    extras = partial[:, r:]
    return GradientMeasure(
        squares=partial[:, :r].sum(axis=0),
        largest_product=float(extras[:, gradient.LARGEST_PRODUCT].max()),
        sum_product=float(extras[:, gradient.SUM_PRODUCT].sum()),
        smallest=float(extras[:, gradient.SMALLEST_GRADIENT].min()),
    )


def together(parts: list[GradientMeasure]) -> GradientMeasure:
    """The measure of all rows from those of their parts."""
    if len(parts) == 1:
        return parts[0]
    return GradientMeasure(
        squares=np.sum([part.squares for part in parts], axis=0),
        largest_product=max(part.largest_product for part in parts),
        sum_product=sum(part.sum_product for part in parts),
        smallest=min(part.smallest for part in parts),
    )
