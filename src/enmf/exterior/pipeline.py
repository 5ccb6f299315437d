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
from typing import TYPE_CHECKING, Any

import numpy as np

from enmf.certificate.words import LIMITED
from enmf.exterior import plan as planned
from enmf.exterior.core import lift, make_core
from enmf.exterior.feasibility import STAGES
from enmf.exterior.plan import MEASURED, Effort, ExteriorOptions, Facts, Plan, Policy
from enmf.linalg.rotation import Rotation, Turning, negative_share, rotate, spread
from enmf.linalg.sketch import glance, look_closer, power, refine
from enmf.linalg.spectrum import choose_kind
from enmf.linalg.svd import truncated_svd
from enmf.matrix.base import Matrix, sample
from enmf.matrix.factor import clipped, widened
from enmf.matrix.lowrank import LowRankMatrix
from enmf.matrix.single import in_single
from enmf.parallel import matmul
from enmf.problem.problem import Penalty
from enmf.problem.state import State
from enmf.run.loop import Stage, descend, run_stage
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
        if options.rank >= min(problem.X.shape) and not problem.penalty:
            return [trivial]
        return [self.prepare, *Journey(self.options, self.policy).phases(), look_at_bound]

    def prepare(self, walk: Walk) -> None:
        """Set the displayed order of the phases, where rows live, and the bound, if already known."""
        walk.monitor.phases.update(dict.fromkeys(("svd", "rotation", "feasibility", "descent"), Cost()))
        walk.settle_rows()
        if not self.options.sample or self.options.feasibility != "path":
            walk.problem = walk.gathered()
        if walk.spectrum is not None:
            walk.monitor.lower_bound = walk.spectrum.lower_bound(walk.rank)

    def afterwards(self, problem: Problem, options: RunOptions) -> Sequence[Phase]:
        few = problem.penalty or options.rank >= min(problem.X.shape) or not self.options.restarts
        return [] if few else [self.restart]

    def restart(self, walk: Walk) -> None:
        """Try further starts where they are worth their time; keeps the best pair of all.

        They depend on the seed alone, and a checkpoint belongs to the first descent: an interrupted run that resumes
        from it tries the same ones.
        """
        step_flops = walk.method.step_flops(walk.state)
        for child in walk.rng.spawn(self.options.restarts):
            if walk.status in LIMITED or walk.monitor.out_of_time():
                break
            _know_spectrum(walk, self.options.svd, self.policy)
            if walk.spectrum is None or walk.spectrum.kind != "exact":  # an iterative SVD has no bound yet
                break
            bound = max(walk.monitor.lower_bound, 1e-8 * walk.monitor.whole)
            reason = planned.worth_restarting(step_flops, walk.state.error(), bound, self.policy)
            if reason is None:
                break
            if walk.plan is not None and walk.plan[-1].phase != "restart":
                walk.plan.note("restart", f"up to {self.options.restarts} further starts", reason)
            other = walk.anew(child)
            journey = Journey(replace(self.options, rotation="random"), self.policy)
            with walk.monitor.restarting():
                for phase in (*journey.phases(), descend):
                    phase(other)
            if other.state.value() < walk.state.value():
                walk.take(other)


def trivial(walk: Walk) -> None:
    """X = X I or X = I X, exact, if the rank is at least the smaller dimension of X."""
    walk.settle_rows()
    X, (n, m) = walk.problem.X, walk.problem.X.shape
    identity = np.eye(min(n, m), dtype=X.dtype)
    U, V = (X.times(identity), identity) if m <= n else (identity, X.transpose_times(identity))
    walk.begin_at(*_padded(U, V, walk.rank))
    walk.max_iter = 0


def _padded(U: Any, V: Any, rank: int) -> tuple[Any, Any]:
    """The factors padded to the rank with zero components."""
    missing = rank - V.shape[1]
    return (U, V) if missing <= 0 else (widened(U, missing), widened(V, missing))


def look_at_bound(walk: Walk) -> None:
    """Check whether the start already meets the bound. The product this needs is the first one of the descent."""
    monitor = walk.monitor
    if walk.problem.penalty:
        monitor.lower_bound = 0.0  # with a penalty the aim is not to meet the bound of the error
    if monitor.lower_bound == 0.0 or monitor.out_of_time():
        return
    with monitor.phase("certificate"):
        error = walk.state.accurate_error()
    if monitor.proven(error) == "global_optimum":
        monitor.record(0, "certificate", error, math.nan, walk.state.U, walk.state.V)
        walk.status = "global_optimum"


def _know_spectrum(walk: Walk, kind: str, policy: Policy) -> None:
    """Compute the SVD of a run that resumed without it, if it is exact."""
    X = walk.problem.X
    if walk.spectrum is None and choose_kind(X.shape, walk.rank, kind, policy=policy.svd)[0] == "exact":
        with walk.monitor.phase("svd"):
            walk.spectrum = truncated_svd(X, walk.rank, kind="exact", rng=walk.rng)
        walk.monitor.lower_bound = walk.spectrum.lower_bound(walk.rank)


class Journey:
    """Phases 1 to 3 of one start. The factors are the rotated SVD itself if that is nonnegative."""

    def __init__(self, options: ExteriorOptions, policy: Policy = MEASURED) -> None:
        self.options, self.policy = options, policy
        self.plan = Plan()
        self.rotations: list[Rotation] = []

    def phases(self) -> list[Phase]:
        return [self.decompose, self.prepare_effort, self.rotate, self.enter]

    # Phase 1 ----------------------------------------------------------------------------------------------------------

    def decompose(self, walk: Walk) -> None:
        if walk.plan is None:
            walk.plan = self.plan
        self.rank = min(walk.rank, *walk.problem.X.shape)
        if walk.spectrum is None:
            walk.spectrum = self._spectrum(walk)
            walk.monitor.lower_bound = walk.spectrum.lower_bound(self.rank)
        self.spectrum = walk.spectrum

    def _spectrum(self, walk: Walk) -> Spectrum:
        X, rank, policy = walk.problem.X, self.rank, self.policy
        kind, width = planned.plan_svd(X.shape, rank, self.options, policy, self.plan)
        with walk.monitor.phase("svd") as counter:
            counter.iterations = 1
            if kind != "randomized":
                return truncated_svd(X, rank, kind=kind, oversampling=width - rank, rng=walk.rng)
            rough = in_single(X)
            first = glance(rough, width, walk.rng, policy.svd)
            if first.relative_error(rank) < policy.single_svd and rough is not X:
                rough, first = X, glance(X, width, walk.rng, policy.svd)
            little = first.relative_error(rank) > policy.few_columns
            if little:
                narrow = first.truncated(rank + policy.svd.least_oversampling)
                first = look_closer(rough, narrow, walk.rng, policy.svd)
            if self._spread_mass(first, X.dtype) >= policy.nearly_nonnegative:
                iterations = planned.plan_power(little, self.options, policy, self.plan)
                return power(rough, first, iterations, policy.svd)
            self.plan.note(
                "svd", "refined until it gains nothing", "spread over all components it is nearly nonnegative"
            )
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

    # Phases 2 and 3 ---------------------------------------------------------------------------------------------------

    def prepare_effort(self, walk: Walk) -> None:
        """Derive the facts from the spectrum and the effort from the facts."""
        X, spectrum, policy = walk.problem.X, self.spectrum, self.policy
        self.U, self.V = spectrum.factors(self.rank)
        error = spectrum.relative_error(self.rank)
        self.whole = LowRankMatrix(*spectrum.factors(len(spectrum.s)))
        precision = np.dtype(np.float32) if error >= policy.single_core else X.dtype
        sampled = self.options.sample
        self.core = make_core(self.whole, precision, walk.rng, policy) if sampled else self.whole
        with walk.monitor.phase("rotation"):
            mass = self._spread_mass(spectrum, X.dtype) if error < policy.low_rank else 1.0
        cost = self.core.cost_per_column / X.cost_per_column
        self.facts = Facts(error, mass, spectrum.kind == "exact", cost)
        self.effort: Effort = planned.plan_effort(self.facts, self.options, policy, self.plan)

    def rotate(self, walk: Walk) -> None:
        """Algorithm 1 from each start, least negative mass first; once one reaches `enough`, the others are skipped."""
        options, policy, effort, r = self.options, self.policy, self.effort, self.rank
        with walk.monitor.phase("rotation") as counter:
            rows = policy.rotation_rows * r
            few_U, few_V = (sample(F, rows, walk.rng) if options.sample else F for F in (self.U, self.V))
            flops = 4.0 * (len(few_U) + len(few_V)) * r**2 + policy.svd_flops * r**3
            cost = flops / (r * walk.problem.X.cost_per_column)
            iterations, count = planned.plan_rotation(effort, cost, options, policy, self.plan)
            for start in effort.starts[:count]:
                how = Turning(start, iterations, options.rotation_rho, options.adaptive_rho, enough=effort.enough)
                rotation = rotate(few_U, few_V, how, walk.rng, walk.monitor.out_of_time)
                if rotation.negative_mass <= effort.enough:  # so far only in the sample: check all rows
                    rotated = (matmul(F, rotation.R) for F in (self.U, self.V))
                    rotation = replace(rotation, negative_mass=negative_share(*rotated))
                self.rotations.append(rotation)
                counter.iterations += rotation.iterations
                if rotation.negative_mass <= effort.enough:
                    break
        self.rotations.sort(key=lambda rotation: rotation.negative_mass)

    def enter(self, walk: Walk) -> None:
        """Enter the orthant, on the core or on X, and lift from the core to X."""
        best = self.rotations[0]
        if best.negative_mass <= self.effort.enough:
            self.plan.note("feasibility", "nothing to do", "the rotated SVD is nonnegative")
            self._begin(walk, clipped(matmul(self.U, best.R)), clipped(matmul(self.V, best.R)), best)
            return
        planned.explain_entry(self.facts, self.options, self.effort, self.plan)
        if self.effort.surrogate:
            self._enter_on_core(walk)
        else:
            state = State(_without_penalty(walk.problem), self.U @ best.R, self.V @ best.R)
            self._feasible(state, walk.monitor)
            self._begin(walk, state.U, state.V, best)

    def _begin(self, walk: Walk, U: Any, V: Any, rotation: Rotation) -> None:
        walk.rotation = rotation
        walk.begin_at(*_padded(U, V, walk.rank))

    def _enter_on_core(self, walk: Walk) -> None:
        """Every rotation enters the orthant and descends for a while; the best one continues and is lifted to X."""
        X, monitor = walk.problem.X, walk.monitor
        rest = max(X.squared_norm() - self.whole.squared_norm(), 0.0)
        A, B = (np.asfortranarray(F[:, : self.rank]) for F in (self.core.A, self.core.B))
        problem = replace(_without_penalty(walk.problem), X=self.core)
        states = [State(problem, A @ rotation.R, B @ rotation.R) for rotation in self.rotations]
        for state in states:
            self._feasible(state, monitor, rest)
        chosen = self._descend_on_core(states, monitor, rest)
        with monitor.phase("surrogate"):
            U, V = lift(states[chosen], self.core, self.whole.B, X, self.policy)
        self._begin(walk, U, V, self.rotations[chosen])

    def _feasible(self, state: State, monitor: Monitor, rest: float = 0.0) -> None:
        """Phase 3 on X or on its core (which lacks `rest` of ||X||²)."""
        stage = replace(STAGES[self.options.feasibility], **self.effort.feasibility_options)
        run_stage(state, stage, monitor, Stage("feasibility", extra=rest))
        for half in state.halves:
            half.replace(clipped(half.F))

    def _descend_on_core(self, states: list[State], monitor: Monitor, rest: float) -> int:
        """A first descent on the core: a share of the iterations for every candidate, the rest for the best one.

        It ends early if it gains little, unless its squared error may yet reach the smallest one, that of the SVD.
        """
        iterations, policy, method = self.effort.surrogate_iterations, self.policy, ExtrapolatedHALS()
        trial = int(policy.trial * iterations + 1e-9) if len(states) > 1 else 0
        stage = Stage("surrogate", trial, rest)
        memories = [run_stage(state, method, monitor, stage) for state in states]
        errors = [2.0 * state.value() for state in states]
        chosen = int(np.argmin(errors))
        least = self.spectrum.relative_error(self.rank) ** 2 * self.spectrum.squared_norm
        gain = policy.least_gain if errors[chosen] + rest > policy.near_bound * least else None
        stage = Stage("surrogate", iterations - trial, rest, gain)
        run_stage(states[chosen], method, monitor, stage, memories[chosen])
        return chosen


def _without_penalty(problem: Problem) -> Problem:
    return replace(problem, penalty=Penalty())
