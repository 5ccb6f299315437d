"""The exterior start of a loss whose best unconstrained factors are not known in closed form.

Near the best model of rank one, r cᵀ / N with row sums r and column sums c, a beta divergence is a weighted sum of
squares, with weights (r_i c_j)^(beta - 2). So its best unconstrained factors are nearly those of an ordinary SVD, of
    D_r^-p X D_c^-p,    p = (2 - beta) / 2        (for Kullback-Leibler p = 1/2: correspondence analysis)
Positive scaling keeps signs: rotation and feasibility work on the scaled matrix as they are, and their factors are
scaled back. Candidates are this start, that of X itself (p = 0), the larger parts of the singular pairs of both, and
random ones. None of them is the best on all data, and a start can be behind by a factor and end ahead by percents: only
TRIAL steps tell them apart, for as many candidates as time allows. They are made on a weighted sample of the rows or
columns of X (`enmf.matrix.drawn`), which tells the end of a descent on X, as long as it has many entries for every
unknown. Its other factor begins at weighted least squares. Where no sample is enough and steps are dear, two candidates
are tried on X: that of data scaled by half of the power, which rare rows do not rule as they do with the whole one, nor
frequent ones as with none, and a random one, which ends lower on most text. Where steps are dear all this, and the
first iterations of the descent, are in single precision. A trial ends early where the gains of its last steps promise
no better end.
Where entries are missing, the start is that of least squares, with a ridge that is as strong there: x^(2 - beta) times
as large, x being the mean entry.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from enmf.certificate.words import LIMITED
from enmf.exterior.core import RIDGE
from enmf.exterior.pipeline import trivial
from enmf.linalg.parts import larger_parts
from enmf.losses.base import Loss
from enmf.losses.divergence import ACCURACY, MOST_SWEEPS
from enmf.matrix.base import Matrix
from enmf.matrix.drawn import drawn
from enmf.matrix.factor import fortran
from enmf.matrix.scaled import ScaledMatrix
from enmf.matrix.single import copied_in_single
from enmf.matrix.sweeps import Sweep
from enmf.problem.problem import FROBENIUS, NO_PENALTY, Penalty, Problem, SidePenalty
from enmf.problem.state import State
from enmf.run.loop import Stage, descend, descend_in_single, run_stage
from enmf.run.options import Start
from enmf.run.trace import Phase as Cost
from enmf.solvers.hals import ExtrapolatedHALS
from enmf.starts.random import random

if TYPE_CHECKING:
    from enmf.run.options import Phase, RunOptions
    from enmf.run.walk import Walk

TRIAL = 20  # steps of a trial; after 2 or 5 the loss does not tell which start ends lower, after 20 it mostly does
TOO_EARLY = 8  # steps before which a trial is not judged: losses still fall by factors
AHEAD = 2.0  # times the gain of the last doubling of the steps: the most that all later steps are expected to gain
SMOOTH = 0.01  # share of a component that is spread like the sums of X: no model is zero where X is not
CORE_DESCENT = 20  # iterations on the core of the scaled matrix; 50 led to the same minima
SHARE = 8  # trials are made on an eighth of the rows
ENOUGH = 20  # entries for each number of the factor that they have in common with X: fewer fit it to themselves
LEAST_GAIN = 4  # times as many entries as a sample has X at least, or the sample saves too little
RACE = 8  # times the cost of a step that trials on a sample may take: three of them on an eighth of the rows
DESCENT = 30  # further steps of the best on the sample
SAME = 0  # seed of what all runs draw alike: two fits differ only where further starts are tried
CHEAP = 1e8  # flops of a step that takes some milliseconds: more starts are tried, and on X itself
RESTARTS = 3  # random starts after a short descent
IN_SINGLE = 40  # most iterations in single precision: near its end a long descent gains less than that tells apart
LIFT, LIFTED = 30, 0.01  # most steps of the longer factor after a trial on a sample; the gain that ends them


@dataclass(frozen=True, eq=False)
class BorrowedStart(Start):
    """Candidates from the start of least squares on scaled data."""

    inner: Start
    options: RunOptions | None = None

    def phases(self, problem: Problem, options: RunOptions) -> Sequence[Phase]:
        if options.rank >= min(problem.X.shape) and not problem.penalty and problem.X.complete:
            return [trivial]
        return [replace(self, options=options).candidates]

    def afterwards(self, problem: Problem, options: RunOptions) -> Sequence[Phase]:
        restarts = getattr(getattr(self.inner, "options", None), "restarts", 0)
        restarts = RESTARTS if restarts is None else restarts
        few = problem.penalty or options.rank >= min(problem.X.shape) or not problem.X.complete or not restarts
        return [] if few else [partial(_restart, restarts)]

    def beforehand(self, problem: Problem, options: RunOptions) -> Sequence[Phase]:
        return [_descend_in_single]

    def candidates(self, walk: Walk) -> None:
        """The best of several starts, on X or on a sample of it."""
        walk.monitor.phases.update(dict.fromkeys(("svd", "rotation", "feasibility", "surrogate", "trial"), Cost()))
        walk.settle_rows()
        X, side, rng = walk.problem.X, int(np.argmax(walk.problem.X.shape)), np.random.default_rng(SAME)
        if not X.complete:
            only = self._borrowed(walk, walk.problem, 0.0)[0]
            walk.begin_at(only.U, only.V)
            return
        with walk.monitor.phase("trial"):
            walk.single = _in_single(walk.problem, walk.rank)
            whole = walk.problem if walk.single is None else replace(walk.problem, X=walk.single)
            few = replace(whole, X=_sample(whole, side, walk.rank, rng))
        on_sample = few.X is not whole.X
        if on_sample and walk.monitor.stopping.target_error is not None and self._suffices(walk, whole):
            return
        share = few.loss.step_flops(few.X, walk.rank) / few.loss.step_flops(walk.problem.X, walk.rank)
        most = math.ceil(RACE / (TRIAL * share)) if on_sample else None
        best = _race(walk, few, islice(self._starts(walk, few, rng), most))
        if not on_sample:
            walk.begin_at(best.U, best.V)
            return
        run_stage(best, ExtrapolatedHALS(), walk.monitor.within(few), Stage("trial", DESCENT))
        _lift(walk, whole, best, side)

    def _suffices(self, walk: Walk, whole: Problem) -> bool:
        """Whether a single start and a few steps on X itself reach the target; a sample cannot tell."""
        target = walk.monitor.stopping.target_error
        assert target is not None
        state = self._borrowed(walk, whole, whole.loss.scalings[0])[0]
        _try(walk, whole, state, (target / walk.monitor.unit) ** 2 / 2.0)
        if _arrived(walk, state):
            walk.begin_at(state.U, state.V)
        return _arrived(walk, state)

    def _starts(self, walk: Walk, problem: Problem, rng: np.random.Generator) -> Iterator[State]:
        """The candidates, most promising first, each made when it is its turn; two of them where steps are dear."""
        loss, rank = problem.loss, walk.rank
        if _is_whole(walk, problem.X) and loss.step_flops(problem.X, rank) > CHEAP:
            yield self._borrowed(walk, problem, _half(loss))[0]
            yield State(problem, *random(problem.X, rank, rng))
            return
        scaled, plain = loss.scalings
        yield from self._borrowed(walk, problem, scaled)
        yield State(problem, *random(problem.X, rank, rng))
        yield from self._borrowed(walk, problem, plain)
        yield State(problem, *random(problem.X, rank, rng))

    def _borrowed(self, walk: Walk, problem: Problem, power: float) -> list[State]:
        """The start of least squares on data scaled by this power; and the larger parts of its singular pairs."""
        X = problem.X
        sums = X.sums(0), X.sums(1)
        rows, columns = map(_relative, sums)
        scaled = ScaledMatrix(X, rows**-power, columns**-power) if power > 0 else X
        squares = Problem(scaled, FROBENIUS, NO_PENALTY if X.complete else _for_squares(problem))
        assert self.options is not None
        inside = walk.inside(self._shorter(), squares, self.options)
        walk.plan = inside.plan if walk.plan is None else walk.plan
        walk.rotation = inside.rotation if walk.rotation is None else walk.rotation
        factors = [F * (size**power)[:, None] for F, size in zip((inside.state.U, inside.state.V), (rows, columns))]
        states = [State(problem, *_smoothed(factors, sums))]
        if inside.spectrum is not None:
            pairs = inside.spectrum.factors(walk.rank)
            parts = [F * (size**power)[:, None] for F, size in zip(larger_parts(*pairs), (rows, columns))]
            states.append(State(problem, *_smoothed(parts, sums)))
        return states

    def _shorter(self) -> Start:
        """The start of least squares with a short descent on its core: that of the loss follows."""
        options = getattr(self.inner, "options", None)
        if getattr(options, "surrogate_iterations", 0) is not None:
            return self.inner
        return replace(self.inner, options=replace(options, surrogate_iterations=CORE_DESCENT))  # type: ignore[type-var]


def _race(walk: Walk, problem: Problem, starts: Iterable[State]) -> State:
    """The start with the smallest objective after its trial, or the first one that reaches the target."""
    best, lowest = None, math.inf
    for state in starts:
        _try(walk, problem, state, lowest)
        value = state.objective()
        if best is None or value < lowest:
            best, lowest = state, value
        if walk.monitor.out_of_time() or _arrived(walk, state):
            break
    assert best is not None
    return best


def _try(walk: Walk, problem: Problem, state: State, rival: float) -> None:
    """A trial, which ends where the target is reached, or where the rival will not be."""
    own = _is_whole(walk, problem.X)  # then these are factors of X, and the trace has their errors
    memory, monitor, values = None, walk.monitor if own else walk.monitor.within(problem), [state.objective()]
    while len(values) <= TRIAL and not (_arrived(walk, state) or monitor.out_of_time() or _behind(values, rival)):
        memory = run_stage(state, ExtrapolatedHALS(), monitor, Stage("trial", 1), memory)
        values.append(min(state.objective(), values[-1]))  # the next step needs it


def _behind(values: list[float], rival: float) -> bool:
    """Whether a descent with these values will hardly come below that of its rival."""
    steps = len(values) - 1
    return steps >= TOO_EARLY and values[-1] - AHEAD * (values[steps // 2] - values[-1]) > rival


def _arrived(walk: Walk, state: State) -> bool:
    """Whether factors of X itself, not of a sample, have reached the target."""
    monitor = walk.monitor
    return _is_whole(walk, state.X) and monitor.stopping.target_error is not None and monitor.arrived(state.error())


def _is_whole(walk: Walk, X: Matrix) -> bool:
    """Whether this is X itself, in either precision, and not a sample."""
    return X is walk.problem.X or X is walk.single


def _in_single(problem: Problem, rank: int) -> Matrix | None:
    """X in single precision, in which a step takes three quarters of the time; none where steps cost little."""
    layers = bool(problem.structure) or problem.penalty.layered
    return None if layers or problem.loss.step_flops(problem.X, rank) <= CHEAP else copied_in_single(problem.X)


def _descend_in_single(walk: Walk) -> None:
    """The first iterations of a descent that ends where it settles, after which the copy of X is of no use."""
    if walk.settles:
        most, walk.max_iter = walk.max_iter, min(walk.max_iter, IN_SINGLE)
        descend_in_single(walk)
        walk.max_iter = most
    walk.single = None


def _lift(walk: Walk, whole: Problem, found: State, side: int) -> None:
    """From factors of a sample of the rows (side 0) or columns to those of X: steps of the longer factor from its least
    squares, which have each row of X near its components; from a factor that treats all rows alike it takes four times
    as many."""
    X = whole.X
    known, longer = (half.F for half in (found.halves[1 - side], found.halves[side]))
    known, mean = _without_zeros(known, X.sums(1 - side)), longer.mean(axis=0)
    unknown = np.outer(X.sums(side) / max(float(known.sum(axis=0) @ mean), np.finfo(float).tiny), mean)
    if whole.loss.degree >= 1.0:  # below, spectra span many orders, and least squares see the largest entries alone
        weighted = known * (_relative(X.sums(1 - side)) ** (-2.0 * _half(whole.loss)))[:, None].astype(known.dtype)
        products = X.times(weighted) if side == 0 else X.transpose_times(weighted)
        squares = _least_squares(known.T @ weighted, products)
        unknown = (1.0 - SMOOTH) * squares * _ratio(X.sums(side), squares @ known.sum(axis=0)) + SMOOTH * unknown
    unknown = fortran(unknown.astype(X.dtype))
    state, before = State(whole, *((unknown, known) if side == 0 else (known, unknown))), math.inf
    with walk.monitor.phase("trial"):  # the descent would spoil the known factor to make up for the unknown one
        for _ in range(LIFT):
            state.halves[side].sweep(Sweep(MOST_SWEEPS, ACCURACY))
            value = state.value()
            if value > (1.0 - LIFTED) * before or walk.monitor.out_of_time():
                break
            before = value
    walk.begin_at(state.U, state.V)


def _least_squares(G: np.ndarray, products: np.ndarray) -> np.ndarray:
    """The positive parts of the solution F of F G = products."""
    G = G.astype(np.float64)
    G += (RIDGE * np.trace(G) / len(G) + np.finfo(float).tiny) * np.eye(len(G))
    return np.maximum(np.linalg.solve(G, products.T.astype(np.float64)).T, 0.0)


def _ratio(sums: np.ndarray, own: np.ndarray) -> np.ndarray:
    """What brings rows to the sums of X."""
    return np.divide(sums, own, out=np.ones(len(sums)), where=own > 0)[:, None]


def _without_zeros(F: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """F with a share of the sums of X in rows of zeros, those of which the sample has seen nothing."""
    unseen = (F.max(axis=1, initial=0.0) == 0.0) & (sums > 0)
    share = sums[unseen] / max(float(sums[~unseen].sum()), np.finfo(float).tiny)
    F = F.copy(order="F")
    F[unseen] = share[:, None] * F.sum(axis=0)
    return F


def _restart(count: int, walk: Walk) -> None:
    """Try random starts where steps are so short that they cost little; keeps the best pair of all.

    Minima of small counts lie some percent apart, and starts can be told apart only at their end.
    """
    if walk.method.step_flops(walk.state) > CHEAP:
        return
    for child in walk.rng.spawn(count):
        if walk.status in LIMITED or walk.monitor.out_of_time():
            return
        if walk.plan is not None and walk.plan[-1].phase != "restart":
            walk.plan.note("restart", f"{count} random starts", "a step takes some milliseconds")
        other = walk.anew(child)
        other.begin_at(*random(walk.problem.X, walk.rank, child))
        with walk.monitor.restarting():
            descend(other)
        if other.state.value() < walk.state.value():
            walk.take(other)


def _sample(problem: Problem, side: int, rank: int, rng: np.random.Generator) -> Matrix:
    """X, or a share of its rows (side 0) or columns if that is worth it and leaves enough entries for every unknown."""
    X, loss = problem.X, problem.loss
    count = max(X.shape[side] // SHARE, ENOUGH * rank)
    if loss.step_flops(X, rank) <= CHEAP or problem.penalty or 2 * count > X.shape[side]:
        return X
    few = drawn(X, side, count, loss.degree, rng)
    entries, unknowns = few.listed_entries(loss.degree), rank * X.shape[1 - side]
    enough = entries >= ENOUGH / 2 * unknowns  # rows that are drawn more than once are listed once
    return few if enough and entries <= X.listed_entries(loss.degree) / LEAST_GAIN else X


def _for_squares(problem: Problem) -> Penalty:
    """The penalty of least squares that is as strong as that of the problem."""
    X, sides = problem.X, (problem.penalty.U, problem.penalty.V)
    mean = float(X.sums(0).sum()) / max(float(X.totals(0).sum()), np.finfo(float).tiny)
    unit = mean ** (2.0 - problem.loss.degree)
    return Penalty(*(SidePenalty(side.l1 * unit, side.l2 * unit) for side in sides))


def _half(loss: Loss) -> float:
    """Half of the power by which the best model of rank one scales data."""
    return (2.0 - loss.degree) / 4.0


def _relative(sums: np.ndarray) -> np.ndarray:
    """Sums relative to their mean; 1 where there are none."""
    mean = sums.mean()
    return np.where(sums > 0, sums / mean, 1.0) if mean > 0 else np.ones_like(sums)


def _smoothed(factors: list[Any], sums: tuple[np.ndarray, np.ndarray]) -> list[Any]:
    """Every component gets a small share of the sums of X."""
    total = max(float(sums[0].sum()), np.finfo(float).tiny)
    return [
        fortran(F + (SMOOTH / total) * np.outer(own, F.sum(axis=0)).astype(F.dtype)) for F, own in zip(factors, sums)
    ]
