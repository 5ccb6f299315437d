"""als: alternating nonnegative least squares by projected gradient (Lin 2007, "Projected gradient methods for
nonnegative matrix factorization").

    U <- argmin_{U >= 0} 1/2 ||X - U Vᵀ||²  by steps  F(a) = max(0, F - a D),  D = F G - B, with the step a from
    Armijo's rule  (1 - s) <D, F(a) - F> + 1/2 <F(a) - F, (F(a) - F) G> <= 0,   s = 0.01,
    a divided or multiplied by 10 as long as the condition holds or fails

Each problem is solved until the projected gradient falls to a tolerance, which shrinks tenfold when the first gradient
already satisfies it. Steps are relative to 1 / ||G||, so that the first one has no unit.

als-projected: the unconstrained least squares solution, negative entries set to zero. Not a descent method: it goes
    round in circles, or stays, far from any minimum. So when some steps have hardly gained anything, it goes back to
    the best pair, and on with a proximal term,  F <- max(0, (B + w F) (G + w I)⁻¹),  w growing from a hundredth of
    ||G|| to ||G||; the step becomes nearly one of the projected gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from enmf.parallel import matmul
from enmf.problem.state import Iterate, inner
from enmf.run.method import Method

ARMIJO = 0.01
FACTOR = 10.0
PROGRESS = 1e-4  # share of the squared error that a step of als-projected must gain to count


class AlternatingNNLS(Method):
    """Both factors in turn by an iterative solver for nonnegative least squares, ever more exactly.

    Parameters
    ----------
    inner : int
        Largest number of steps of the solver for each product with X.
    first_tolerance : float
        The first subproblems end when the projected gradient fell to this share of the start's.
    """

    solver: ClassVar[Callable[..., tuple[np.ndarray, int]]]

    def __init__(self, inner: int, first_tolerance: float = 1e-3) -> None:
        self.inner, self.first_tolerance = inner, first_tolerance
        self._tolerances: list[float] = []  # for U and for V

    def step(self, it: Iterate, objective: float) -> None:
        if not self._tolerances:
            norms = (np.sqrt(gradient.squares.sum()) for gradient in (it.measure_U(), it.measure_V()))
            self._tolerances = [self.first_tolerance * float(norm) for norm in norms]
        it.set_U(self._solve(0, it.U, *it.normal_U()))
        it.set_V(self._solve(1, it.V, *it.normal_V()))

    def _solve(self, which: int, F: np.ndarray, G: np.ndarray, B: np.ndarray) -> np.ndarray:
        F, steps = type(self).solver(F, G, B, self._tolerances[which], self.inner)
        if steps == 0:
            self._tolerances[which] /= 10.0
        return F


def projected_gradient_nnls(
    F: np.ndarray, G: np.ndarray, B: np.ndarray, tolerance: float, max_steps: int
) -> tuple[np.ndarray, int]:
    """min over F >= 0 of 1/2 <F, F G> - <F, B> from the given F; the solution and the number of steps."""
    norm = float(np.linalg.norm(G, 2))
    if norm == 0.0:
        return F, 0
    step = 1.0 / norm
    for count in range(max_steps):
        D = matmul(F, G) - B
        projected = D[(D < 0) | (F > 0)].astype(np.float64, copy=False)
        if np.sqrt(projected @ projected) <= tolerance:
            return F, count
        F, step = _armijo(F, D, G, step)
    return F, max_steps


def _armijo(F: np.ndarray, D: np.ndarray, G: np.ndarray, step: float) -> tuple[np.ndarray, float]:
    """The largest of step * 10^k for which a sufficient decrease holds, searched from `step` up or down."""

    def trial(size: float) -> tuple[np.ndarray, bool]:
        new = np.maximum(F - np.asarray(size, F.dtype) * D, 0)
        d = new - F
        return new, (1.0 - ARMIJO) * inner(D, d) + 0.5 * inner(d, matmul(d, G)) <= 0.0

    new, enough = trial(step)
    if enough:
        for _ in range(20):
            further, still = trial(step * FACTOR)
            if not still or np.array_equal(further, new):
                break
            new, step = further, step * FACTOR
        return np.asfortranarray(new), step
    for _ in range(20):
        step /= FACTOR
        new, enough = trial(step)
        if enough:
            return np.asfortranarray(new), step
    return F, step


class ALS(AlternatingNNLS):
    """Alternating projected gradient."""

    name = "als"
    solver = staticmethod(projected_gradient_nnls)

    def __init__(self, inner: int = 5, first_tolerance: float = 1e-3) -> None:
        super().__init__(inner, first_tolerance)


class ProjectedALS(Method):
    """Unconstrained least squares and projection.

    Parameters
    ----------
    patience : int
        Steps that hardly gain anything after which the proximal term grows.
    """

    name = "als-projected"
    monotone = False

    def __init__(self, patience: int = 5) -> None:
        self.patience = patience
        self._weight = 0.0  # of the proximal term, relative to ||G||
        self._best = np.inf
        self._kept: tuple[np.ndarray, np.ndarray] | None = None  # the best pair
        self._waited = 0

    def forget(self) -> None:
        self._best, self._kept = np.inf, None

    def step(self, it: Iterate, objective: float) -> None:
        if objective < self._best:
            gained = objective < (1.0 - PROGRESS) * self._best
            self._best, self._waited = objective, 0 if gained else self._waited + 1
            self._kept = it.U, it.V  # a step makes new ones
        else:
            self._waited += 1
        if self._waited >= self.patience and self._kept is not None:
            it.set_U(self._kept[0])
            it.set_V(self._kept[1])
            self._weight, self._waited = min(max(0.01, 2.0 * self._weight), 1.0), 0
        it.set_U(_project(it.U, *it.normal_U(), self._weight))
        it.set_V(_project(it.V, *it.normal_V(), self._weight))


def _project(F: np.ndarray, G: np.ndarray, B: np.ndarray, weight: float) -> np.ndarray:
    """max(0, (B + w F) (G + w I)⁺), w relative to ||G||; F itself where G has no finite inverse."""
    if not np.sqrt(np.finfo(G.dtype).tiny) < float(np.trace(G)) < np.inf:
        return F
    if weight == 0.0:
        inverse = np.linalg.pinv(G, hermitian=True)
    else:
        w = np.asarray(weight * np.linalg.norm(G, 2), G.dtype)
        inverse, B = np.linalg.inv(G + w * np.eye(len(G), dtype=G.dtype)), B + w * F
    return np.asfortranarray(np.maximum(matmul(B, inverse), 0))
