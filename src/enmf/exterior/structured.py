"""Starts of problems in which something is known about the factors.

The exterior start knows nothing of it. Its components are matched with what is known: a component takes the place of
the fixed one that it resembles most, or the place whose zeros cost it least, and loses what contradicts. Where
components are fixed, a second start works on what the best U for them leaves over,
    X - U_k V_kᵀ,    U_k = argmin over U >= 0 of D(X | U V_kᵀ),
whose exterior start supplies the others; a third one lets the exterior start descend to its end, as if nothing were
known, before it is matched. Where zeros are known, another one is spread over all other entries. The one with the
smallest objective after a trial goes on; fixed components leave many minima, and early errors hardly tell which is
near, so that the trial is long where steps cost little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

from enmf.linalg.rotation import ROTATION_STARTS, Turning, rotate
from enmf.linalg.svd import truncated_svd
from enmf.matrix.less import LessMatrix
from enmf.problem.problem import FROBENIUS, NO_PENALTY, Problem
from enmf.problem.state import State
from enmf.problem.structure import NO_STRUCTURE, Structure
from enmf.run.loop import Stage, descend, run_stage
from enmf.run.options import Given, Made, Start
from enmf.solvers.hals import ExtrapolatedHALS

if TYPE_CHECKING:
    from enmf.run.options import Phase, RunOptions
    from enmf.run.walk import Walk

NEWTON = 50  # steps that look for a positive vector: at most 17 were needed where the widest margin was above 0.001
ENOUGH = 0.5  # of the margin that is aimed at: it is positive, which is all that is needed
GAIN, LEAST = 1e-4, 1e-10  # share of the gain of a linear function that a step must have, and the shortest step
TRIAL, LONG_TRIAL = 20, 200  # steps after which starts are compared, at least and at most
RACE_FLOPS = 1e10  # of all trials together, for more than the least: a second or two
FREELY = 100  # steps of a trial from which on a whole descent as if nothing were known is affordable, too
SPREAD = 0.1  # share of its mean that a column gets where a component has lost everything, or a loss needs a model > 0


@dataclass(frozen=True, eq=False)
class StructuredStart(Start):
    """Another start, made to obey what is known."""

    inner: Start
    options: RunOptions | None = None

    def phases(self, problem: Problem, options: RunOptions) -> Sequence[Phase]:
        return [replace(self, options=options).begin]

    def begin(self, walk: Walk) -> None:
        structure = walk.problem.structure
        if structure.count == walk.rank:
            starts: list[Callable[[], State]] = [partial(_only_fixed, walk.problem)]
        elif structure.signed and not isinstance(self.inner, (Given, Made)):
            starts = _of_one_sign(walk)
        else:
            starts = self._starts(walk)
        state, errors = _race(walk, starts)
        walk.begin_at(state.U, state.V)
        walk.go_on_after(errors)

    def _starts(self, walk: Walk) -> list[Callable[[], State]]:
        """The inner start, matched, and further ones unless it was asked for by name."""
        structure, inside = walk.problem.structure, cache(partial(self._free, walk))
        starts: list[Callable[[], State]] = [partial(self._matched, walk, inside)]
        if isinstance(self.inner, (Given, Made)):
            return starts
        if structure.count:
            starts.append(partial(self._leftover, walk))
        if structure.count and _trial(walk, len(starts)) >= FREELY:
            starts.append(partial(self._matched, walk, inside, freely=True))
        return starts + [partial(_spread, walk)] * structure.named

    def _free(self, walk: Walk) -> Walk:
        """The inner start of the same problem, were nothing known."""
        problem = walk.problem
        inside = self._inside(walk, replace(problem, structure=NO_STRUCTURE, penalty=NO_PENALTY), walk.rank)
        if problem.loss.has_bound(problem.X) and inside.spectrum is not None:
            walk.spectrum = inside.spectrum
            walk.monitor.lower_bound = 0.0 if problem.penalty else inside.spectrum.lower_bound(walk.rank)
        walk.plan, walk.rotation = inside.plan, inside.rotation
        return inside

    def _matched(self, walk: Walk, inside: Callable[[], Walk], freely: bool = False) -> State:
        """The inner start, its components in the places that suit them; `freely`: after a descent without what is
        known."""
        problem, free = walk.problem, inside()
        if freely:
            free.method = ExtrapolatedHALS()
            with free.monitor.restarting():  # its iterations are not those of the descent to come
                descend(free)
        U, V = free.state.U, free.state.V
        if not isinstance(self.inner, Given):
            places = match(U, V, problem.structure)
            U, V = U[:, places], V[:, places]
        return _obeying(problem, walk.rng, U, V)

    def _leftover(self, walk: Walk) -> State:
        """The fixed components, and the inner start of what they leave over."""
        problem, fixed = walk.problem, walk.problem.structure.V.fixed
        assert fixed is not None
        alone = State(replace(problem, structure=NO_STRUCTURE), problem.X.zeros(fixed.shape[1]), fixed)
        U = problem.loss.solve(alone.halves[0])
        rest = Problem(LessMatrix(problem.X, U, fixed), FROBENIUS, NO_PENALTY)
        if rest.X.squared_norm() <= np.finfo(problem.X.dtype).eps * problem.X.squared_norm():
            U, V = (np.pad(F, ((0, 0), (0, walk.rank - F.shape[1]))) for F in (U, fixed))
            return _obeying(problem, walk.rng, U, V)
        inside = self._inside(walk, rest, walk.rank - fixed.shape[1]).state
        return _obeying(problem, walk.rng, np.hstack([U, inside.U]), np.hstack([fixed, inside.V]))

    def _inside(self, walk: Walk, problem: Problem, rank: int) -> Walk:
        """The inner start of another problem."""
        assert self.options is not None
        inner = getattr(self.inner, "inner", self.inner) if problem.loss is FROBENIUS else self.inner
        return walk.inside(inner, problem, replace(self.options, rank=rank))


def match(U: np.ndarray, V: np.ndarray, structure: Structure) -> np.ndarray:
    """For each place the number of the component that suits it: first of all the largest sum of cosines with the fixed
    columns, then that of squared sizes, each times the shares of both columns that the zeros leave.

    Sizes do not count for a fixed place: a small component would give way at no cost, and one that resembles the fixed
    column would stay beside it.
    """
    from scipy.optimize import linear_sum_assignment

    squares = [np.square(F, dtype=np.float64) for F in (U, V)]
    u, v = (square.sum(axis=0) for square in squares)
    suits = np.ones((U.shape[1],) * 2)
    for square, total, known in zip(squares, (u, v), (structure.U, structure.V)):
        if known.zeros is not None:
            kept = square.T @ ~known.zeros
            suits *= np.divide(kept, total[:, None], out=np.zeros_like(kept), where=total[:, None] > 0)
    suits *= (u * v)[:, None]
    if structure.V.fixed is not None:
        fixed = structure.V.fixed.astype(np.float64)
        lengths = np.outer(np.sqrt(v), np.sqrt(np.square(fixed).sum(axis=0)))
        inner = V.T.astype(np.float64) @ fixed
        cosines = np.divide(inner, lengths, out=np.zeros_like(inner), where=lengths > 0)
        suits[:, : fixed.shape[1]] = len(u) * max((u * v).sum(), np.finfo(float).tiny) * cosines
    components, places = linear_sum_assignment(suits, maximize=True)
    return components[np.argsort(places)]


def _obeying(problem: Problem, rng: np.random.Generator, U: np.ndarray, V: np.ndarray) -> State:
    """The state nearest to these factors that obeys what is known; U is the best one for V."""
    structure, factors = problem.structure, []
    if structure.U.total is not None:
        U, V = mixing(U, V, structure.U.total)
    for F, known in zip((U, V), (structure.U, structure.V)):
        F = np.array(F, problem.X.dtype, order="F")
        if known.zeros is not None:
            F[known.zeros] = 0
        factors.append(F)
    for F, known in zip(factors, (structure.U, structure.V)):
        alive = factors[0].any(axis=0) & factors[1].any(axis=0)
        dead = ~alive | (problem.loss is not FROBENIUS)
        size = F.mean() or 1.0
        F[:, dead] += np.asarray(SPREAD * size, F.dtype) * rng.random((len(F), int(dead.sum()))).astype(F.dtype)
        if known.zeros is not None:
            F[known.zeros] = 0
    if structure.V.fixed is not None:
        factors[1][:, : structure.count] = structure.V.fixed
    state = State(problem, *factors)
    if problem.loss is FROBENIUS:
        half = state.halves[1 if structure.V.signed else 0]
        half.replace(problem.loss.solve(half))
    return state


def mixing(U: np.ndarray, V: np.ndarray, total: float) -> tuple[np.ndarray, np.ndarray]:
    """(U D, V D⁻¹) with the D >= 0 that brings the sums of the rows of U nearest to the total."""
    from scipy.optimize import nnls

    sizes, _ = nnls(U.astype(np.float64), np.full(len(U), total))
    sizes = np.maximum(sizes, SPREAD * np.median(sizes[sizes > 0])) if sizes.any() else np.ones_like(sizes)
    return U * sizes, V / sizes


def _of_one_sign(walk: Walk) -> list[Callable[[], State]]:
    """Starts with one nonnegative factor, from the SVD: its side of it, turned toward the orthant, and clipped.

    If the singular vectors of that side span a positive vector p, adding multiples of p makes all of them nonnegative,
    and the other factor undoes it: the optimum is that of the SVD (Gillis and Kumar 2015).
    """
    problem, rank = walk.problem, min(walk.rank, *walk.problem.X.shape)
    side = 0 if problem.structure.V.signed else 1
    with walk.monitor.phase("svd"):
        walk.spectrum = truncated_svd(problem.X, rank, rng=walk.rng)
    walk.monitor.lower_bound = 0.0 if problem.penalty else walk.spectrum.lower_bound(walk.rank)
    Q = walk.spectrum.factors(rank)[side]
    zeros = (problem.structure.U, problem.structure.V)[side].zeros
    p = positive_combination(Q) if zeros is None else None  # zeros would spoil it
    if p is not None:
        lifted = np.maximum(Q + p[:, None] * np.max(-Q / p[:, None], axis=0).clip(min=0.0), 0)  # rounding
        return [partial(_with_one, walk, lifted, side)]
    turned = (rotate(Q, Q[:0], Turning(start), walk.rng, walk.monitor.out_of_time) for start in ROTATION_STARTS)
    return [partial(_with_one, walk, np.maximum(Q @ turn.R, 0), side) for turn in turned]


def _with_one(walk: Walk, F: np.ndarray, side: int) -> State:
    """The state of one factor, padded to the rank, and the best other one."""
    F = np.pad(F, ((0, 0), (0, walk.rank - F.shape[1])))
    other = np.zeros((walk.problem.X.shape[1 - side], walk.rank))
    other[:, F.any(axis=0)] = 1.0
    return _obeying(walk.problem, walk.rng, *((F, other) if side == 0 else (other, F)))


def positive_combination(Q: np.ndarray) -> np.ndarray | None:
    """A vector p = Q y that is positive wherever Q has a row, or None if none was found.

    By Newton's method on  1/2 ||max(0, 1 - Q y)||²,  for rows of length 1; the columns of Q are orthogonal. Full steps
    alone would go in circles: a step is halved until it gains something.
    """
    lengths = np.linalg.norm(Q, axis=1)
    rows = Q[lengths > 0].astype(np.float64) / lengths[lengths > 0, None]
    y, lacking = np.zeros(Q.shape[1]), np.ones(len(rows))
    for _ in range(NEWTON):
        if (lacking < ENOUGH).all():
            p = np.ones(len(Q))  # any number will do where Q has no row
            p[lengths > 0] = Q[lengths > 0].astype(np.float64) @ y
            return p.astype(Q.dtype)
        short = rows[lacking > 0]
        slope = short.T @ lacking[lacking > 0]
        step = np.linalg.lstsq(short.T @ short, slope, rcond=None)[0]
        share, before, along = 1.0, _shortage(lacking), rows @ step
        while share > LEAST and _shortage(lacking - share * along) > before - GAIN * share * float(slope @ step):
            share /= 2.0
        y, lacking = y + share * step, lacking - share * along
    return None


def _shortage(lacking: np.ndarray) -> float:
    return 0.5 * float(np.square(np.maximum(lacking, 0.0)).sum())


def _only_fixed(problem: Problem) -> State:
    """All components are known: only U is unknown."""
    state = State(problem, problem.X.zeros(problem.structure.count), problem.structure.V.fixed)
    rows = state.halves[0]
    rows.replace(problem.loss.solve(rows))
    return state


def _spread(walk: Walk) -> State:
    """Random numbers wherever no zero is known."""
    X, rank = walk.problem.X, walk.rank
    size = (X.squared_norm() / (X.shape[0] * X.shape[1] * rank**2)) ** 0.25
    U, V = (size * (0.5 + walk.rng.random((length, rank))) for length in X.shape)
    return _obeying(walk.problem, walk.rng, U, V)


def _trial(walk: Walk, starts: int) -> int:
    """Steps that each of these starts may take before they are compared."""
    affordable = RACE_FLOPS / (starts * max(walk.problem.loss.step_flops(walk.problem.X, walk.rank), 1.0))
    return int(min(max(affordable, TRIAL), LONG_TRIAL))


def _race(walk: Walk, starts: Sequence[Callable[[], State]]) -> tuple[State, list[float]]:
    """The start with the smallest objective after a trial, and the errors of its trial; a single one needs none."""
    best: tuple[float, State, list[float]] | None = None
    stage = Stage("trial", _trial(walk, len(starts)))
    for start in starts:
        state, monitor = start(), walk.monitor.within(walk.problem)
        if len(starts) > 1:
            run_stage(state, ExtrapolatedHALS(), monitor, stage)
        value = state.objective()
        if best is None or value < best[0]:
            errors = [row.error / monitor.unit for row in monitor.trace]
            best = value, state, [*errors, state.error()] if errors and not walk.problem.penalty else []
        if walk.monitor.out_of_time():
            break
    assert best is not None
    return best[1:]
