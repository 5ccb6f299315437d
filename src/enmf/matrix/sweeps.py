"""Coordinate sweeps of one factor while the other one is held: what a half-step does.

    min over F >= 0 of 1/2 <F, F G> - <F, B>,    with F = U: G = VᵀV, B = X V

by `enmf.kernels.sweep`, several sweeps while they still make progress, against a wall that may be soft, then
extrapolation  F <- max(0, F + beta (F - old)).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from enmf import parallel
from enmf.kernels.rowstep import row_steps
from enmf.kernels.sweep import BLOCK, RANGE, extrapolate_columns, sweep
from enmf.matrix.factor import by_rows, change


class Momentum(NamedTuple):
    """Extrapolation of a factor: F becomes max(0, F + beta (F - old)), and `old` what F was."""

    old: Any
    beta: float


class Sweep(NamedTuple):
    """What a half-step does to its factor."""

    sweeps: int = 1  # at most
    progress: float = 0.0  # they end when one changes the factor by less than this share of the first
    wall: float = np.inf  # weight that holds entries below zero back; finite: they may be negative
    momentum: Momentum | None = None


ONE_SWEEP = Sweep()


class RowSteps(NamedTuple):
    """Projected gradient steps of rows (paper, Algorithm 2)."""

    steps: int  # at most
    epsilon: float  # they end when the projected gradient has fallen by this factor
    fixed: bool = False  # the step 1 / ||G||_2 for all rows, not the optimal one of each
    literal: bool = False  # entries at zero that want to become negative count in the gradient


def product_then_sweep(half: Any, how: Sweep) -> None:
    """The half-step that every storage allows: the normal equations, then sweeps of all rows."""
    G, B = half.normal()
    F = half.F
    options = _options(G, how, None)
    if hasattr(F, "home"):
        change(_sweep_from, F, B, *options)
    else:
        bounds = parallel.even_bounds(len(F), 2.0 * F.shape[1] ** 2 * how.sweeps, RANGE)
        parallel.run(sweep, bounds, F.T, B.T, *options)
    if how.momentum is not None:
        extrapolate(F, how.momentum)
    half.changed()


def coordinate_sweeps(F: Any, G: np.ndarray, B: Any, how: Sweep = ONE_SWEEP, fixed: np.ndarray | None = None) -> None:
    """Sweeps of F (n x r, Fortran order) in place, but for the columns that are `fixed`."""
    change(_sweep_from, F, B, *_options(G, how, fixed))


def _options(G: np.ndarray, how: Sweep, fixed: np.ndarray | None) -> tuple[Any, ...]:
    skip = np.zeros(len(G), dtype=np.bool_) if fixed is None else fixed
    return np.ascontiguousarray(G), float(how.wall), how.sweeps, float(how.progress), skip


def _sweep_from(first: int, F: np.ndarray, B: np.ndarray, *options: Any) -> None:
    """Rows from number `first` on, in the blocks of rows that all of them together would have."""
    lead = min(-first % RANGE, len(F))
    if lead:
        sweep(0, lead, F.T, B.T, *options)
    bounds = lead + parallel.even_bounds(len(F) - lead, 2.0 * F.shape[1] ** 2 * options[2], RANGE)
    parallel.run(sweep, bounds, F.T, B.T, *options)


def gradient_steps(F: np.ndarray, G: np.ndarray, B: np.ndarray, how: RowSteps) -> None:
    """Row-wise projected gradient steps on F in place; see `enmf.kernels.rowstep`."""
    n, r = F.shape
    norm = float(np.linalg.norm(G, 2)) if how.fixed else 0.0
    step = 1.0 / norm if norm > 0.0 else 0.0  # 0: the optimal one
    bounds = parallel.even_bounds(n, 4.0 * r * r * how.steps, BLOCK)
    parallel.run(row_steps, bounds, F.T, B.T, np.ascontiguousarray(G), step, how.steps, how.epsilon, how.literal)


def extrapolate(F: Any, momentum: Momentum) -> None:
    """F <- max(0, F + beta (F - old)), and `old` <- F, in place."""
    old, beta = momentum
    if hasattr(F, "home"):
        new = F.copy(order="F")
        F.assign(_beyond(F, old, np.asarray(beta, F.dtype)))
        old.assign(new)
        return
    bounds = parallel.even_bounds(len(F), 10.0 * F.shape[1])
    parallel.run(extrapolate_columns, bounds, F.T, old.T, F.dtype.type(beta))


@by_rows
def _beyond(F: np.ndarray, old: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """max(0, F + beta (F - old)) of rows that stay as they are; one array is made."""
    out = F - old
    out *= beta
    out += F
    return np.maximum(out, 0, out=out)
