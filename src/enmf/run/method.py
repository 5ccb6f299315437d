"""What a descent method supplies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from enmf import parallel
from enmf.distributed.parts import Part
from enmf.distributed.rows import RowBlocks
from enmf.kernels.sweep import RANGE, extrapolate_columns, sweep
from enmf.matrix.base import Momentum
from enmf.problem.state import Iterate


class Method(ABC):
    """A method changes an iterate, one step at a time. It knows no tolerances, clocks or printing."""

    name: ClassVar[str]
    monotone: ClassVar[bool] = True  # the objective never increases
    reuses_products: ClassVar[bool] = True  # a step begins with the X V of the iterate, so that measuring it is free
    one_pass: ClassVar[bool] = False  # a step needs the X V of the iterate only where X does not allow one pass
    in_blocks: ClassVar[bool] = False  # a step works on a U that lives with the blocks of X (`RowBlocks`)
    default_start: ClassVar[Callable[..., tuple[np.ndarray, np.ndarray]] | None] = None  # if the method has its own

    @abstractmethod
    def step(self, it: Iterate, objective: float) -> None:
        """One iteration, in place. `objective` is the squared error (plus penalty) of the iterate as it comes in."""

    def forget(self) -> None:  # noqa: B027 (most methods remember nothing)
        """The iterate was rescaled: whatever the method remembers of it is void."""

    def finished(self, it: Iterate) -> bool:
        """A stage with an end of its own (not a tolerance) says so here."""
        return False

    def step_flops(self, it: Iterate) -> float:
        """Rough cost of a step, for deciding how often measuring is worth it."""
        n, m = it.X.shape
        return 2.0 * it.rank * it.X.cost_per_column + 4.0 * (n + m) * it.rank**2


def sweep_U(
    it: Iterate,
    max_sweeps: int = 1,
    progress: float = 0.0,
    momentum: Momentum | None = None,
    wall: float = np.inf,
) -> None:
    """Coordinate sweeps of U, then extrapolation; together with the products of the new U where X allows it."""
    if it.sweep_U_with_products(max_sweeps, progress, momentum, wall):
        return
    G, B = it.normal_U()
    coordinate_sweeps(it.U, G, B, max_sweeps=max_sweeps, progress=progress, wall=wall)
    if momentum is not None:
        extrapolate(it.U, momentum)
    it.U_changed()


def sweep_V(
    it: Iterate,
    max_sweeps: int = 1,
    progress: float = 0.0,
    momentum: Momentum | None = None,
    wall: float = np.inf,
) -> None:
    """The same for V."""
    if it.sweep_V_with_products(max_sweeps, progress, momentum, wall):
        return
    G, B = it.normal_V()
    coordinate_sweeps(it.V, G, B, max_sweeps=max_sweeps, progress=progress, wall=wall)
    if momentum is not None:
        extrapolate(it.V, momentum)
    it.V_changed()


def extrapolate(F: np.ndarray, momentum: Momentum) -> None:
    """F <- max(0, F + beta (F - old)), and `old` <- F, in place."""
    old, beta = momentum
    if isinstance(F, RowBlocks):
        new = F.copy(order="F")
        F.assign(F.make(_beyond, F, old, np.asarray(beta, F.dtype)))
        old.assign(new)
        return
    bounds = parallel.even_bounds(len(F), 10.0 * F.shape[1])
    parallel.run(extrapolate_columns, bounds, F.T, old.T, F.dtype.type(beta))


def _beyond(_: object, F: np.ndarray, old: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """max(0, F + beta (F - old)) of rows that stay as they are; one array is made."""
    out = F - old
    out *= beta
    out += F
    return np.maximum(out, 0, out=out)


def coordinate_sweeps(
    F: np.ndarray,
    G: np.ndarray,
    B: np.ndarray,
    *,
    max_sweeps: int = 1,
    progress: float = 0.0,
    wall: float = np.inf,
    fixed: np.ndarray | None = None,
) -> None:
    """Coordinate sweeps on the factor F (n x r, Fortran order) in place; see `enmf.kernels.sweep`."""
    r = F.shape[1]
    skip = np.zeros(r, dtype=np.bool_) if fixed is None else fixed
    options = (np.ascontiguousarray(G), float(wall), max_sweeps, float(progress), skip)
    if isinstance(F, RowBlocks):
        F.assign(F.home.rows(_sweep_part, F, B, *options, columns=r, dtype=F.dtype))
        return
    _sweep(F, B, *options)


def _sweep(
    F: np.ndarray, B: np.ndarray, G: np.ndarray, wall: float, max_sweeps: int, progress: float, skip: np.ndarray
) -> None:
    n, r = F.shape
    bounds = parallel.even_bounds(n, 2.0 * r * r * max_sweeps, RANGE)
    parallel.run(sweep, bounds, F.T, B.T, G, wall, max_sweeps, progress, skip)


def _sweep_part(part: Part, F: np.ndarray, B: np.ndarray, *options: Any) -> np.ndarray:
    """The same on the rows of a part, in the blocks of rows that all of them together would have."""
    F = F.copy(order="F")
    lead = min(-part.first % RANGE, len(F))
    if lead:
        sweep(0, lead, F.T, B.T, *options)
    bounds = lead + parallel.even_bounds(len(F) - lead, 2.0 * F.shape[1] ** 2 * options[2], RANGE)
    parallel.run(sweep, bounds, F.T, B.T, *options)
    return F
