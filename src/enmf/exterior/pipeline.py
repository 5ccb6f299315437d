"""The exterior start (paper, Algorithm 3 up to the descent): svd, rotation, feasibility.

Rotation works on a sample of the rows of the thin factors. Feasibility, and a first descent, work on the core
(`enmf.exterior.core`) instead of X wherever its products are cheaper: they then cost no pass over the data, and several
rotations are tried; the one with the smallest error, which negative mass does not predict, continues. Two passes then
bring its factors to all rows of X. Without a core, negative mass decides for data that are nearly of low rank; others
get a single rotation. `enmf.exterior.plan` decides what is done and how often.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from enmf.exterior import plan as planned
from enmf.exterior.core import fit_here, lift, lift_rows, make_core
from enmf.exterior.feasibility import STAGES
from enmf.exterior.further import FurtherStarts
from enmf.exterior.plan import MEASURED, PARTS, SAME, Effort, ExteriorOptions, Facts, Plan, Policy
from enmf.linalg.parts import larger_parts
from enmf.linalg.rotation import Rotation, Turning, negative_share, rotate, spread
from enmf.linalg.sketch import glance, look_closer, power, refine
from enmf.linalg.spectrum import choose_kind
from enmf.linalg.svd import exact_pays, truncated_svd
from enmf.matrix.base import Matrix, sample
from enmf.matrix.factor import clipped, gather, padded
from enmf.matrix.lowrank import LowRankMatrix
from enmf.matrix.single import in_single, stored_in_single
from enmf.parallel import matmul
from enmf.problem.problem import Penalty
from enmf.problem.state import State
from enmf.run.leaps import descend_by_leaps, stride
from enmf.run.loop import Stage, descend_in_single, run_stage
from enmf.run.options import Start
from enmf.run.trace import Phase as Cost
from enmf.solvers.hals import ExtrapolatedHALS

if TYPE_CHECKING:
    from enmf.linalg.spectrum import Spectrum
    from enmf.problem.problem import Problem
    from enmf.run.monitor import Monitor
    from enmf.run.options import Phase, RunOptions
    from enmf.run.walk import Walk

USUAL = ExteriorOptions()


@dataclass(frozen=True)
class ExteriorStart(Start):
    """The start of eNMF: phases 1 to 3 before the descent, further starts after it."""

    options: ExteriorOptions = USUAL
    policy: Policy = MEASURED

    def phases(self, problem: Problem, options: RunOptions) -> Sequence[Phase]:
        if options.rank >= min(problem.X.shape) and not problem.penalty and not problem.X.signed:
            return [trivial]
        return [self.prepare, *Journey(self.options, self.policy).phases(), look_at_bound]

    def beforehand(self, problem: Problem, options: RunOptions) -> Sequence[Phase]:
        return [descend_in_single, *(further.pause for further in self._further(problem, options)), stride]

    def prepare(self, walk: Walk) -> None:
        """Set the displayed order of the phases, where rows live, and the bound, if already known."""
        walk.monitor.phases.update(dict.fromkeys(("svd", "rotation", "feasibility", "descent"), Cost()))
        walk.settle_rows()
        if not self.options.sample or self.options.feasibility != "path":
            walk.problem = walk.gathered()
        if walk.spectrum is not None:
            walk.monitor.lower_bound = walk.spectrum.lower_bound(walk.rank)

    def afterwards(self, problem: Problem, options: RunOptions) -> Sequence[Phase]:
        return [further.restart for further in self._further(problem, options)]

    def _further(self, problem: Problem, run: RunOptions) -> list[FurtherStarts]:
        """None, or one."""
        if problem.penalty or run.rank >= min(problem.X.shape) or self.options.restarts == 0:
            return []
        options, policy = self.options, self.policy
        turned = replace(options, rotation="random")
        know = partial(_know_spectrum, kind=options.svd, policy=policy)
        return [FurtherStarts(options, policy, lambda: Journey(turned, policy).phases(), know, descend_by_leaps)]


def trivial(walk: Walk) -> None:
    """X = X I or X = I X, exact, if the rank is at least the smaller dimension of X."""
    walk.settle_rows()
    X, (n, m) = walk.problem.X, walk.problem.X.shape
    identity = np.eye(min(n, m), dtype=X.dtype)
    U, V = (X.times(identity), identity) if m <= n else (identity, X.transpose_times(identity))
    walk.begin_at(*padded(U, V, walk.rank))
    walk.max_iter = 0


def look_at_bound(walk: Walk) -> None:
    """Check whether the start already meets the bound. The product this needs is the first one of the descent."""
    monitor = walk.monitor
    if walk.problem.penalty:
        monitor.lower_bound = 0.0  # with a penalty the aim is not to meet the bound of the error
    if monitor.lower_bound == 0.0 or walk.single is not None or monitor.out_of_time():
        return
    with monitor.phase("certificate"):
        error = walk.state.accurate_error()
    if monitor.proven(error) == "global_optimum":
        monitor.record(0, "certificate", error, math.nan, walk.state.U, walk.state.V)
        walk.status = "global_optimum"


def _know_spectrum(walk: Walk, kind: str, policy: Policy) -> None:
    """Compute the SVD of a run that resumed without it, if it is exact."""
    X = walk.problem.X
    if walk.spectrum is None and choose_kind(X, walk.rank, kind, policy=policy.svd)[0] == "exact":
        with walk.monitor.phase("svd"):
            walk.spectrum = truncated_svd(X, walk.rank, kind="exact", rng=walk.rng)
        walk.monitor.lower_bound = walk.spectrum.lower_bound(walk.rank)


class Journey:
    """Phases 1 to 3 of one start. The factors are the rotated SVD itself if that is nonnegative."""

    def __init__(self, options: ExteriorOptions, policy: Policy = MEASURED) -> None:
        self.options, self.policy = options, policy
        self.plan = Plan()
        self.rotations: list[Rotation] = []
        self.tried: list[tuple[State, Any]] = []  # candidates, and the memories of their descents
        self.rough: tuple[Matrix, Spectrum] | None = None  # X and a rough spectrum, if the rank hardly explains X
        self._own: np.random.Generator | None = None

    def phases(self) -> list[Phase]:
        return [self.decompose, self.onward]

    def onward(self, walk: Walk) -> None:
        """Phases 2 and 3, or a start from some rows."""
        if self.rough is not None:
            self.begin_from_rows(walk)
            return
        self.prepare_effort(walk)
        self.set_ground(walk)
        if self.effort.parts_first:
            self.try_parts(walk)
            if self.tried and walk.monitor.arrived(self.tried[0][0].error()):
                self._begin(walk, self.tried[0][0].U, self.tried[0][0].V, None)
                return
        self.rotate(walk)
        self.enter(walk)

    def chance(self, walk: Walk) -> np.random.Generator:
        """What draws sketches, samples and rotations: only a start that is asked to be random depends on the seed."""
        if self.options.rotation == "random":
            return walk.rng
        if self._own is None:
            self._own = np.random.default_rng(SAME)
        return self._own

    # Phase 1 ----------------------------------------------------------------------------------------------------------

    def decompose(self, walk: Walk) -> None:
        if walk.plan is None:
            walk.plan = self.plan
        self.rank = min(walk.rank, *walk.problem.X.shape)
        if walk.spectrum is None:
            walk.spectrum = self._spectrum(walk)
        if walk.spectrum is not None:
            self.spectrum = walk.spectrum
            walk.monitor.lower_bound = walk.spectrum.lower_bound(self.rank)

    def _spectrum(self, walk: Walk) -> Spectrum | None:
        """The SVD of X; none if a look at some rows shows that it would tell little."""
        X, rank, policy, rng = walk.problem.X, self.rank, self.policy, self.chance(walk)
        kind, width = planned.plan_svd(X, rank, self.options, policy, self.plan)
        with walk.monitor.phase("svd") as counter:
            counter.iterations = 1
            if kind != "randomized":
                return truncated_svd(X, rank, kind=kind, oversampling=width - rank, rng=rng)
            rough = in_single(X)
            first = glance(rough, width, rng, policy.svd)
            if first.relative_error(rank) < policy.single_svd and rough is not X:
                rough, first = X, glance(X, width, rng, policy.svd)
            if self.options.svd == "auto" and first.relative_error(rank) > policy.hardly_explained:
                self.rough = rough, first.truncated(rank + policy.svd.least_oversampling)
                return None
            modest = walk.monitor.arrived(first.relative_error(rank) * walk.monitor.whole)  # nobody asks for an optimum
            if modest or self._spread_mass(first, X.dtype) >= policy.nearly_nonnegative:
                return power(rough, first, planned.plan_power(self.options, policy, self.plan), policy.svd)
            because = "spread over all components it is nearly nonnegative"
            if self.options.svd == "auto" and exact_pays(X, rank):
                self.plan.note("svd", "an exact one in its place, which can prove an optimum", because)
                return truncated_svd(X, rank, kind="exact", oversampling=width - rank, rng=rng)
            self.plan.note("svd", "refined until it gains nothing", because)
            return self._refined(walk, rough, first, counter)

    def _refined(self, walk: Walk, rough: Matrix, first: Spectrum, counter: Any) -> Spectrum:
        """Refine the SVD where the optimum seems near: there its accuracy decides.

        A refined spectrum whose spread start is nonnegative is already a factorization; the trace records it.
        """
        monitor, X, rank = walk.monitor, walk.problem.X, self.rank
        turn = spread(rank).astype(X.dtype)
        for spectrum in refine(X, rough, first, rank, self.policy.svd):
            U, V = (matmul(F, turn) for F in spectrum.factors(rank))
            if negative_share(U, V) <= self._clippable(spectrum):
                state = State(_without_penalty(walk.problem), clipped(U), clipped(V))
                with monitor.measuring():
                    error = state.error()
                monitor.record(counter.iterations, "svd", error, math.nan, state.U, state.V)
                if monitor.arrived(error):
                    break
            counter.iterations += 1
            if monitor.out_of_time():
                break
        return spectrum

    def _clippable(self, spectrum: Spectrum) -> float:
        return planned.clippable(spectrum.relative_error(self.rank), spectrum.kind == "exact", self.policy)

    def _spread_mass(self, spectrum: Spectrum, dtype: np.dtype) -> float:
        turn = spread(self.rank).astype(dtype)
        return negative_share(*(matmul(F, turn) for F in spectrum.factors(self.rank)))

    # Where the rank explains little -----------------------------------------------------------------------------------

    def begin_from_rows(self, walk: Walk) -> None:
        """The larger parts of the singular pairs of some rows, and a descent on these; then U and V for all rows."""
        assert self.rough is not None
        X, monitor, (rough, spectrum) = walk.problem.X, walk.monitor, self.rough
        rows, iterations = planned.plan_some_rows(X, self.rank, self.options, self.policy, self.plan)
        with monitor.phase("surrogate"):
            few = rough.sample_rows(rows, self.chance(walk)) if rows else None
            if few is not None:
                spectrum = look_closer(few, spectrum, self.chance(walk))
            U, V = larger_parts(*spectrum.factors(self.rank))
        if few is not None:
            state = State(replace(_without_penalty(walk.problem), X=few), U, V)
            run_stage(state, ExtrapolatedHALS(), monitor, Stage("surrogate", iterations))
            V = state.V
        with monitor.phase("surrogate"):
            U, V = lift_rows(V, self.coming(walk, spectrum.relative_error(self.rank)))
        self._begin(walk, U, V, None)

    # Phases 2 and 3 ---------------------------------------------------------------------------------------------------

    def prepare_effort(self, walk: Walk) -> None:
        """Derive the facts from the spectrum and the effort from the facts."""
        X, spectrum, policy = walk.problem.X, self.spectrum, self.policy
        self.U, self.V = spectrum.factors(self.rank)
        error = spectrum.relative_error(self.rank)
        self.whole = LowRankMatrix(*spectrum.factors(len(spectrum.s)))
        precision = np.dtype(np.float32 if error >= policy.single_core else np.float64)
        affordable = policy.core_cost * X.cost_per_column if self.options.sample else math.inf
        self.core = make_core(self.whole, precision, affordable, self.chance(walk), policy)
        with walk.monitor.phase("rotation"):
            mass = self._spread_mass(spectrum, X.dtype) if error < policy.low_rank else 1.0
        step = X.half_step_flops(self.rank)
        self.facts = Facts(error, mass, spectrum.kind == "exact", self.core.half_step_flops(self.rank) / step, step)
        self.effort: Effort = planned.plan_effort(self.facts, self.options, policy, self.plan)

    def rotate(self, walk: Walk) -> None:
        """Algorithm 1 from each start, least negative mass first; once one reaches `enough`, the others are skipped."""
        options, policy, effort = self.options, self.policy, self.effort
        with walk.monitor.phase("rotation") as counter:
            iterations = planned.plan_rotation(effort, options, policy, self.plan)
            few_U, few_V = self._rotated_rows(walk, iterations)
            for start in effort.starts:
                if start == PARTS:
                    continue
                how = Turning(start, iterations, options.rotation_rho, options.adaptive_rho, enough=effort.enough)
                rotation = rotate(few_U, few_V, how, self.chance(walk), walk.monitor.out_of_time)
                if rotation.negative_mass <= effort.enough:  # so far only in the sample: check all rows
                    rotated = (matmul(F, rotation.R) for F in (self.U, self.V))
                    rotation = replace(rotation, negative_mass=negative_share(*rotated))
                self.rotations.append(rotation)
                counter.iterations += rotation.iterations
                if rotation.negative_mass <= effort.enough:
                    break
        self.rotations.sort(key=lambda rotation: rotation.negative_mass)

    def _rotated_rows(self, walk: Walk, iterations: int) -> tuple[Any, Any]:
        """The rows that are rotated: all of them where that is cheap."""
        policy, r = self.policy, self.rank
        rows: tuple[Any, ...] = self.U, self.V
        flops = 4.0 * iterations * sum(map(len, rows)) * r**2
        cheap = flops <= policy.cheap_start / 10.0
        if self.options.sample and not (cheap and fit_here(*rows)):
            rows = tuple(sample(F, policy.rotation_rows * r, self.chance(walk)) for F in rows)
        return gather(rows[0]), rows[1]

    def set_ground(self, walk: Walk) -> None:
        """Where candidates are tried: on the core, which lacks `rest` of ||X||², or on X itself."""
        X = walk.problem.X
        self.problem, self.A, self.B, self.rest = _without_penalty(walk.problem), self.U, self.V, 0.0
        if self.effort.surrogate:
            self.rest = max(X.squared_norm() - self.whole.squared_norm(), 0.0)
            self.A, self.B = (np.asfortranarray(F[:, : self.rank]) for F in (self.core.A, self.core.B))
            self.problem = replace(self.problem, X=self.core)

    def try_parts(self, walk: Walk) -> None:
        """The larger parts as a candidate: they need no path, and take its steps as further iterations."""
        if PARTS in self.effort.starts and fit_here(self.A, self.B):
            path = int(self.effort.feasibility_options.get("steps", 0))
            self._try(State(self.problem, *larger_parts(gather(self.A), self.B)), self.effort.trial + path, walk)

    def enter(self, walk: Walk) -> None:
        """Enter the orthant from every rotation, compare all candidates, and lift the best one to X."""
        best = self.rotations[0] if self.rotations else None
        if best is not None and best.negative_mass <= self.effort.enough:
            self.plan.note("feasibility", "nothing to do", "the rotated SVD is nonnegative")
            self._begin(walk, clipped(matmul(self.U, best.R)), clipped(matmul(self.V, best.R)), best)
            return
        sampled = self.core.shape != walk.problem.X.shape
        planned.explain_entry(self.facts, self.options, self.effort, sampled, self.plan)
        if not self.tried:
            self.try_parts(walk)
        for rotation in self.rotations:
            state = State(self.problem, self.A @ rotation.R, self.B @ rotation.R)
            self._feasible(state, walk.monitor)
            self._try(state, self.effort.trial, walk)
            if walk.monitor.arrived(self._error(state)):
                break
        chosen = self._best_tried(walk)
        U, V = chosen.U, chosen.V
        if self.effort.surrogate:
            with walk.monitor.phase("surrogate"):
                U, V = lift(chosen, self.core, self.whole.B, self.coming(walk, self.facts.relative_error))
        else:
            self.coming(walk, self.facts.relative_error)
        self._begin(walk, U, V, best)

    def coming(self, walk: Walk, relative_error: float) -> Matrix:
        """The X of the coming passes: in single precision where that tells errors apart and saves time."""
        X, problem = walk.problem.X, walk.problem
        layers = bool(problem.structure) or problem.penalty.layered
        if walk.single is None and not layers and planned.begins_in_single(X, self.rank, relative_error, self.policy):
            single = stored_in_single(X)
            walk.single = None if single is X else single
        return X if walk.single is None else walk.single

    def _begin(self, walk: Walk, U: Any, V: Any, rotation: Rotation | None) -> None:
        walk.rotation = rotation
        walk.begin_at(*padded(U, V, walk.rank))

    def _feasible(self, state: State, monitor: Monitor) -> None:
        """Phase 3 on X or on its core."""
        stage = replace(STAGES[self.options.feasibility], **self.effort.feasibility_options)
        run_stage(state, stage, monitor, Stage("feasibility", extra=self.rest, nonnegative=False))
        for half in state.halves:
            half.replace(clipped(half.F))

    def _try(self, state: State, iterations: int, walk: Walk) -> None:
        """A candidate descends for a while."""
        method = ExtrapolatedHALS()
        if not self.effort.surrogate and isinstance(walk.method, ExtrapolatedHALS):
            method = walk.method
        phase = "surrogate" if self.effort.surrogate else "trial"
        memory = run_stage(state, method, walk.monitor, Stage(phase, iterations, self.rest))
        self.tried.append((state, memory))

    def _error(self, state: State) -> float:
        """Of a candidate, as far as the core tells."""
        return math.sqrt(max(2.0 * state.value() + self.rest, 0.0))

    def _best_tried(self, walk: Walk) -> State:
        """The candidate with the smallest error; it goes on if that takes no pass over X.

        It ends early if it gains little, unless its squared error may yet reach the smallest one, that of the SVD.
        """
        effort, policy = self.effort, self.policy
        errors = [2.0 * state.value() for state, _ in self.tried]
        chosen = int(np.argmin(errors))
        state, memory = self.tried[chosen]
        if effort.surrogate:
            least = self.spectrum.relative_error(self.rank) ** 2 * self.spectrum.squared_norm
            near = errors[chosen] + self.rest <= policy.near_bound * least
            gain = policy.least_gain / 10.0 if near else policy.least_gain
            stage = Stage("surrogate", effort.surrogate_iterations, self.rest, gain)
            run_stage(state, ExtrapolatedHALS(), walk.monitor, stage, memory)
        return state


def _without_penalty(problem: Problem) -> Problem:
    return replace(problem, penalty=Penalty())
