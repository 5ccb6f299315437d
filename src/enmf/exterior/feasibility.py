"""Phase 3: step from the rotated point into the nonnegative orthant (paper, section 4.2 and Algorithm 2).

penalty             negative entries move toward zero by a constant step (eq. 5 and 6), never past it; nonnegative
                    entries take projected row-wise gradient steps of optimal size (eq. 8 to 11) in between
penalty-fixed-step  the same with the step 1 / ||G||_2 for all rows (the paper's ablation)
projection          negative entries become zero at once (the paper's ablation)
path                coordinate sweeps with a soft wall: an entry whose minimizer z / G_kk is negative goes to
                    z / (G_kk + delta), delta growing from 1e-3 to 1e2 of the mean Gram diagonal; no step size is needed

Each is a method for the loop: a step touches X twice. They end by themselves, at a nonnegative pair.
"""

from __future__ import annotations

import numpy as np

from enmf import parallel
from enmf.kernels.rowstep import row_steps
from enmf.kernels.sweep import BLOCK
from enmf.problem.state import Iterate
from enmf.run.method import Method, sweep_U, sweep_V

PATH_STEPS = 20  # 40 and 250 end at the same errors, 10 on some data at larger ones


class Projection(Method):
    """Clip both factors at zero."""

    name = "projection"
    monotone = False

    def step(self, it: Iterate, objective: float) -> None:
        it.set_U(np.maximum(it.U, 0))
        it.set_V(np.maximum(it.V, 0))

    def finished(self, it: Iterate) -> bool:
        return _nonnegative(it)


class Penalty(Method):
    """The exterior penalty stage.

    Parameters
    ----------
    steps : int
        Steps in which the most negative entry reaches zero: the constant step rho * delta of eq. 5 and 6, unit-free.
    inner : int
        Largest number of row steps for each product with X (`max_iter` of Algorithm 2).
    epsilon : float
        Row steps end when the projected gradient fell by this factor (`epsilon` of Algorithm 2).
    optimal_step : bool
        Step sizes of eq. 10 and 11; False: 1 / ||G||_2.
    literal : bool
        Follow Algorithm 2 to the letter: entries at zero that want to become negative count in the gradient.
    """

    name = "penalty"
    monotone = False

    def __init__(
        self,
        steps: int = 20,
        inner: int = 10,
        epsilon: float = 0.1,
        optimal_step: bool = True,
        literal: bool = False,
    ) -> None:
        self.steps, self.inner, self.epsilon = steps, inner, epsilon
        self.optimal_step, self.literal = optimal_step, literal
        self._stride_U: float | None = None
        self._stride_V: float | None = None

    def step(self, it: Iterate, objective: float) -> None:
        if self._stride_U is None or self._stride_V is None:
            self._stride_U, self._stride_V = (max(-float(F.min()), 0.0) / self.steps for F in (it.U, it.V))
        _raise_negatives(it.U, self._stride_U)
        self._row_steps(it.U, *it.normal_U())
        it.U_changed()
        _raise_negatives(it.V, self._stride_V)
        self._row_steps(it.V, *it.normal_V())
        it.V_changed()

    def finished(self, it: Iterate) -> bool:
        return _nonnegative(it)

    def _row_steps(self, F: np.ndarray, G: np.ndarray, B: np.ndarray) -> None:
        n, r = F.shape
        norm = float(np.linalg.norm(G, 2))
        fixed = 0.0 if self.optimal_step or norm == 0.0 else 1.0 / norm
        bounds = parallel.even_bounds(n, 4.0 * r * r * self.inner, BLOCK)
        arguments = (F.T, B.T, np.ascontiguousarray(G), fixed, self.inner, self.epsilon, self.literal)
        parallel.run(row_steps, bounds, *arguments)


class Path(Method):
    """Coordinate sweeps against a wall that grows from soft to hard."""

    name = "path"
    monotone = False

    def __init__(self, steps: int = PATH_STEPS, softest: float = 1e-3, hardest: float = 1e2) -> None:
        self.walls = np.geomspace(softest, hardest, steps)
        self._done = 0

    def step(self, it: Iterate, objective: float) -> None:
        wall = self.walls[self._done]
        self._done += 1
        sweep_U(it, wall=wall * float(np.diag(it.VtV).mean()))
        if self._done == len(self.walls):
            it.set_U(np.maximum(it.U, 0))
        sweep_V(it, wall=wall * float(np.diag(it.UtU).mean()))
        if self._done == len(self.walls):
            it.set_V(np.maximum(it.V, 0))

    def finished(self, it: Iterate) -> bool:
        return self._done == len(self.walls)


def make(name: str, **options: object) -> Method:
    """The feasibility stage of that name."""
    if name == "penalty-fixed-step":
        return Penalty(optimal_step=False, **options)  # type: ignore[arg-type]
    return {"penalty": Penalty, "projection": Projection, "path": Path}[name](**options)


NAMES = ("path", "penalty", "penalty-fixed-step", "projection")


def _nonnegative(it: Iterate) -> bool:
    return bool(it.U.min() >= 0 and it.V.min() >= 0)


def _raise_negatives(F: np.ndarray, stride: float) -> None:
    """Negative entries move up by `stride`, at most to zero; in place."""
    np.minimum(F + np.asarray(stride, F.dtype), 0, out=F, where=F < 0)
