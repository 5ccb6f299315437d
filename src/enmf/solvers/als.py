"""als: alternating nonnegative least squares by projected gradient (Lin 2007, "Projected gradient methods for
nonnegative matrix factorization").

    U <- argmin_{U >= 0} 1/2 ||X - U Vᵀ||²  by steps  F(a) = max(0, F - a D),  D = F G - B, with the step a from
    Armijo's rule  (1 - s) <D, F(a) - F> + 1/2 <F(a) - F, (F(a) - F) G> <= 0,   s = 0.01,
    a divided or multiplied by 10 as long as the condition holds or fails

Each problem is solved until the projected gradient falls to a tolerance, which shrinks tenfold when the first gradient
already satisfies it. Steps are relative to 1 / ||G||, so that the first one is unit-free.

als-projected: the unconstrained least squares solution, negative entries set to zero. Not a descent method: it cycles
    or gets stuck far from any minimum. So when several steps have gained almost nothing, it returns to the best pair
    and continues with a proximal term,  F <- max(0, (B + w F) (G + w I)⁻¹),  w growing from a hundredth of ||G|| to
    ||G||; the step becomes nearly a projected gradient step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from enmf.matrix.factor import inner
from enmf.parallel import matmul
from enmf.problem.state import State
from enmf.run.method import Method

ARMIJO = 0.01
FACTOR = 10.0
PROGRESS = 1e-4  # share of the squared error that a step of als-projected must gain to count


@dataclass(frozen=True)
class AlternatingNNLS(Method):
    """Both factors in turn, ever more accurately, by an iterative solver for nonnegative least squares.

    Parameters
    ----------
    inner : int
        Largest number of steps of the solver per product with X.
    first_tolerance : float
        The first subproblems end when the projected gradient has fallen to this share of its initial size.
    """

    inner: int = 5
    first_tolerance: float = 1e-3

    solver: ClassVar[Callable[..., tuple[np.ndarray, int]]]

    def begin(self, state: State) -> list[float]:
        """Tolerances for U and for V; the first step sets them."""
        return []

    def step(self, state: State, memory: list[float], objective: float) -> None:
        if not memory:
            norms = (np.sqrt(half.measure().squares.sum()) for half in state.halves)
            memory.extend(self.first_tolerance * float(norm) for norm in norms)
        for half in state.halves:
            G, B = half.normal()
            F, steps = type(self).solver(half.F, G, B, memory[half.side], self.inner)
            half.replace(F)
            if steps == 0:
                memory[half.side] /= 10.0


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


@dataclass(frozen=True)
class ALS(AlternatingNNLS):
    """Alternating projected gradient."""

    solver = staticmethod(projected_gradient_nnls)


@dataclass
class Best:
    """The memory of als-projected."""

    weight: float = 0.0  # of the proximal term, relative to ||G||
    objective: float = np.inf
    pair: tuple[np.ndarray, np.ndarray] | None = None
    waited: int = 0


@dataclass(frozen=True)
class ProjectedALS(Method):
    """Unconstrained least squares and projection.

    Parameters
    ----------
    patience : int
        Number of steps with almost no gain after which the proximal term grows.
    """

    patience: int = 5

    monotone = False
    judges = True

    def begin(self, state: State) -> Best:
        return Best()

    def rescaled(self, state: State, memory: Best) -> Best:
        return replace(memory, objective=np.inf, pair=None)

    def step(self, state: State, memory: Best, objective: float) -> None:
        if objective < memory.objective:
            gained = objective < (1.0 - PROGRESS) * memory.objective
            memory.objective, memory.waited = objective, 0 if gained else memory.waited + 1
            memory.pair = state.U, state.V  # no copy needed: a step makes new arrays
        else:
            memory.waited += 1
        if memory.waited >= self.patience and memory.pair is not None:
            state.replace(*memory.pair)
            memory.weight, memory.waited = min(max(0.01, 2.0 * memory.weight), 1.0), 0
        for half in state.halves:
            half.replace(_project(half.F, *half.normal(), memory.weight))


def _project(F: np.ndarray, G: np.ndarray, B: np.ndarray, weight: float) -> np.ndarray:
    """max(0, (B + w F) (G + w I)⁺), w relative to ||G||; F itself if G has no finite inverse."""
    if not np.sqrt(np.finfo(G.dtype).tiny) < float(np.trace(G)) < np.inf:
        return F
    if weight == 0.0:
        inverse = np.linalg.pinv(G, hermitian=True)
    else:
        w = np.asarray(weight * np.linalg.norm(G, 2), G.dtype)
        inverse, B = np.linalg.inv(G + w * np.eye(len(G), dtype=G.dtype)), B + w * F
    return np.asfortranarray(np.maximum(matmul(B, inverse), 0))
