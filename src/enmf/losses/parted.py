"""Beta divergences of an X in blocks of rows, which are in the hands of others.

A row of U needs only its own row of X, and V: the half-step of U is done where the rows are. A row of V needs a column
of X, of which every block has a piece, but all that a step needs of it adds up over the blocks:

    its model     G = sum_i a_i u_i u_iᵀ,  up = sum_i x_i m_i^(beta-2) u_i,  down = sum_i m_i^(beta-1) u_i
    its judgement the slope of the (convex) replacement at some shares of the step, and a bound on its change

with a and the replacement as in src/kernels/divergence.h. So V takes the Newton steps that it takes in memory, by two
sums: the first brings r (r + 1) / 2 + 2 r numbers for every column, the caller minimizes the models by coordinate
sweeps, and the second tells for each column whether its step goes down. Where it does not, a third one, over these
columns alone, finds the largest share of SHARES that does; where there is none, the multiplicative step, which both
parts of the gradient give, takes its place. No step raises the loss. Columns do not depend on each other, and where
their models would fill more than AT_ONCE numbers, they take turns.

An iteration reads X four times: for U, the models of V, their judgement, and the loss by which extrapolation is judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from enmf import parallel
from enmf.kernels import divergence as kernels
from enmf.losses.divergence import ACCURACY, LEAST_KEPT, MOST_STEPS, MOST_SWEEPS, SOLVED, Divergence, run_kernel
from enmf.matrix.base import Matrix
from enmf.matrix.sweeps import Momentum, Sweep, extrapolate

AT_ONCE = 1 << 23  # numbers of the models that are summed at a time: 64 MB
SHARES = tuple(2.0**-k for k in range(1, 11))  # of a step that is too long


class PartedDivergence(Divergence):
    """The same loss, where `X.rows` and `X.total` compute with the parts of X (`enmf.distributed.chunked`)."""

    def offers(self, X: Matrix | None = None) -> frozenset[str]:
        return frozenset({"half-step", "terms"}) if X is not None else super().offers()

    def in_memory(self) -> Divergence:
        return Divergence(self.beta)

    def half_step(self, half: Any, how: Sweep) -> None:
        sweeps = min(how.sweeps, MOST_SWEEPS)
        if half.side == 0:
            half.F.assign(self._newton_rows(half, 1, 0.0, sweeps, how.progress))
        else:
            self._step_columns(half, sweeps, how.progress)
        if how.momentum is not None:
            extrapolate(half.F, Momentum(how.momentum.old, how.momentum.beta, LEAST_KEPT))
        half.changed()

    def _newton_rows(self, half: Any, *how: Any) -> Any:
        X, F = half.X, half.F
        X.passes += 1
        penalty = float(half.penalty.l1), float(half.penalty.l2)
        V = X.kept_for_later(half.other.F, _solved, self.beta, penalty)
        return X.rows(_newton, F, self.beta, V, penalty, *how, columns=F.shape[1], dtype=F.dtype)

    def solve(self, half: Any) -> Any:
        """The best U for V; it depends on X and V alone."""
        half.replace(half.X.zeros(half.F.shape[1]) + np.ones((), half.F.dtype))
        half.replace(self._newton_rows(half, MOST_STEPS, SOLVED, MOST_SWEEPS, ACCURACY))
        return half.F

    # V ----------------------------------------------------------------------------------------------------------------

    def _step_columns(self, half: Any, sweeps: int, accuracy: float) -> None:
        """A Newton step of every row of V."""
        X, U, l1, l2 = half.X, half.other.F, float(half.penalty.l1), float(half.penalty.l2)
        for some in _turns(*half.F.shape):
            before = np.asfortranarray(half.F[some])
            models = self._sum(X, _models, U, before, some)
            goal = before.copy(order="F")
            bounds = parallel.even_bounds(len(goal), 4.0 * goal.shape[1] ** 2 * sweeps)
            parallel.run(kernels.sweep_models, bounds, models, l1, l2, goal.T, int(sweeps), float(accuracy))
            half.F[some] = self._judged(half, some, models, before, goal)

    def _judged(self, half: Any, some: slice, models: np.ndarray, before: np.ndarray, goal: np.ndarray) -> np.ndarray:
        """What is left of the steps from `before` to `goal`, so that none raises the loss."""
        X, r = half.X, before.shape[1]
        slope, rise = self._slopes(half, before, goal, (1.0,), some).T
        late = np.flatnonzero(~((slope <= 0.0) | (rise <= 0.0)))
        if len(late) == 0:
            return goal
        at = np.arange(X.shape[1])[some][late]
        fits = self._slopes(half, before[late], goal[late], SHARES, at)[:, :-1] <= 0.0
        share = np.where(fits.any(axis=1), np.asarray(SHARES)[fits.argmax(axis=1)], 0.0).astype(goal.dtype)
        new = before[late] + share[:, None] * (goal[late] - before[late])
        up, down = models[late, -2 * r : -r], models[late, -r:]
        below = down + half.penalty.l1 + half.penalty.l2 * before[late]
        factor = np.divide(up, below, out=np.ones_like(up), where=below > 0)
        goal[late] = np.where(share[:, None] > 0, new, before[late] * factor**self.exponent)
        return goal

    def _slopes(self, half: Any, before: np.ndarray, goal: np.ndarray, shares: Any, some: Any) -> np.ndarray:
        """Slopes at the shares of the steps, and a bound on their change, penalty included  # columns x (shares + 1)"""
        at = np.asarray(shares, np.float64)
        found = self._sum(half.X, _slopes, half.other.F, before, some, goal, at)
        l1, l2 = half.penalty.l1, half.penalty.l2
        step = (goal - before).astype(np.float64)
        along, square, linear = (step * before).sum(axis=1), (step * step).sum(axis=1), step.sum(axis=1)
        halfway = np.append(at, 0.5)  # the change is the slope halfway, for a quadratic function
        return found + l1 * linear[:, None] + l2 * (along[:, None] + np.outer(square, halfway))

    def _sum(self, X: Any, function: Any, U: Any, *arguments: Any) -> Any:
        X.passes += 1
        return X.total(function, U, self.beta, *arguments)

    # What is measured -------------------------------------------------------------------------------------------------

    def value(self, state: Any) -> float:
        if "divergence" not in state.joint:
            state.joint["divergence"] = float(self._sum(state.X, _value, state.U, state.V.copy(order="F")))
        return state.joint["divergence"]

    def _parts(self, half: Any) -> tuple[Any, Any]:
        key = "parts", half.side
        if key not in half.joint:
            X, r = half.X, half.F.shape[1]
            if half.side == 1:
                half.joint[key] = self._sum(X, _column_parts, half.other.F, half.F.copy(order="F"))
            else:
                X.passes += 1
                V = half.other.F.copy(order="F")
                both = X.rows(_row_parts, half.F, self.beta, V, columns=2 * r, dtype=half.F.dtype)
                half.joint[key] = both[:, slice(0, r)], both[:, slice(r, 2 * r)]
        return half.joint[key]

    def _penalty(self, half: Any) -> Any:
        dtype = half.F.dtype
        return half.F * np.asarray(half.penalty.l2, dtype) + np.asarray(half.penalty.l1, dtype)


def _turns(m: int, r: int) -> Iterator[slice]:
    """All columns of X, in as few turns as AT_ONCE allows."""
    count = max(1, AT_ONCE // _model_numbers(r))
    for first in range(0, m, count):
        yield slice(first, min(first + count, m))


def _model_numbers(r: int) -> int:
    return r * (r + 1) // 2 + 2 * r


# What parts do --------------------------------------------------------------------------------------------------------


def _newton(part: Any, F: np.ndarray, beta: float, V: np.ndarray, penalty: tuple[float, float], *how: Any) -> Any:
    """Newton steps of the rows of U."""
    steps, progress, sweeps, accuracy = how
    out, r, (l1, l2) = F.copy(order="F"), F.shape[1], penalty
    for rows, block in part.matrices():
        ridge = np.full(block.shape[0], l2, out.dtype)
        arguments = l1, ridge, out.T[:, rows], int(steps), float(progress), int(sweeps), float(accuracy)
        run_kernel("newton", block, 0, V, beta, r * (r + 16.0), *arguments)
    return out


def _solved(part: Any, beta: float, penalty: tuple[float, float], V: np.ndarray) -> np.ndarray:
    """The best rows of U for this V."""
    ones = np.ones((part.height, V.shape[1]), V.dtype, order="F")
    return _newton(part, ones, beta, V, penalty, MOST_STEPS, SOLVED, MOST_SWEEPS, ACCURACY)


def _models(part: Any, U: np.ndarray, beta: float, V: np.ndarray, some: Any) -> np.ndarray:
    sums = np.zeros((len(V), _model_numbers(V.shape[1])))
    for rows, block in part.matrices(some):
        run_kernel("models", block, 1, U[rows], beta, V.shape[1] * (V.shape[1] + 16.0), V.T, sums)
    return sums


def _slopes(part: Any, U: np.ndarray, beta: float, V: np.ndarray, some: Any, goal: np.ndarray, at: Any) -> np.ndarray:
    sums, none = np.zeros((len(V), len(at) + 1)), np.zeros(len(V), V.dtype)
    V, goal = np.asfortranarray(V), np.asfortranarray(goal)
    for rows, block in part.matrices(some):
        flops = 4.0 * V.shape[1] + 20.0 * len(at)
        run_kernel("slopes", block, 1, U[rows], beta, flops, none, V.T, goal.T, at, sums)
    return sums


def _value(part: Any, U: np.ndarray, beta: float, V: np.ndarray) -> float:
    total = 0.0
    for rows, block in part.matrices():
        values, nothing = np.empty(block.shape[0]), np.empty((V.shape[1], 0), V.dtype)
        flops = 2.0 * V.shape[1] + 20.0
        run_kernel("terms", block, 0, V, beta, flops, U.T[:, rows], values, nothing, nothing)
        total += float(values.sum())
    return total


def _row_parts(part: Any, U: np.ndarray, beta: float, V: np.ndarray) -> np.ndarray:
    """Both parts of the gradient of U, side by side."""
    r = V.shape[1]
    out = np.empty((len(U), 2 * r), U.dtype, order="F")
    for rows, block in part.matrices():
        both = out.T[:r, rows], out.T[r:, rows]
        run_kernel("terms", block, 0, V, beta, 6.0 * r + 20.0, U.T[:, rows], np.empty(0), *both)
    return out


def _column_parts(part: Any, U: np.ndarray, beta: float, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both parts of the gradient of V."""
    sums = [np.zeros(V.shape, V.dtype, order="F") for _ in range(2)]
    for rows, block in part.matrices():
        both = np.empty_like(V.T), np.empty_like(V.T)
        run_kernel("terms", block, 1, U[rows], beta, 6.0 * V.shape[1] + 20.0, V.T, np.empty(0), *both)
        for total, one in zip(sums, both):
            total += one.T
    return sums[0], sums[1]
