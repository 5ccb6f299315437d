"""What the exterior method decides, as data: facts about X go in, the effort of every phase comes out.

All tuned numbers are in one frozen `Policy`; the decisions are functions of facts, options and policy, without any
numerics, and say why. The pipeline does what they say and decides nothing. `result.plan` prints what was decided.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from enmf.linalg.rotation import NONE_NEGATIVE, ROTATION_STARTS
from enmf.linalg.spectrum import KINDS, SvdPolicy, choose_kind
from enmf.matrix.base import Matrix

SAME = 0  # seed of what all runs draw alike
PARTS = "parts"  # a candidate that is not rotated: the larger parts of the singular pairs (`enmf.linalg.parts`)
FEASIBILITY = ("path", "penalty", "penalty-fixed-step", "projection")  # `enmf.exterior.feasibility.STAGES`


@dataclass(frozen=True)
class Policy:
    """Every tuned number of the exterior method; above each, its reason and its lesson in docs/lessons."""

    # -- The kind of data, by the relative error of the SVD at this rank

    # below: nearly of low rank, starts differ, and a long descent on the core pays (rotation.md#rotation-decides)
    low_rank: float = 0.2
    # above: all starts end within 0.02 % (text) (starts-and-minima.md#little-explained)
    hardly_explained: float = 0.9

    # -- Phase 1

    # of a randomized SVD: a second one changes no start (svd.md#half-power)
    power_iterations: float = 1.0
    # negative mass of the spread start below which an accurate SVD is the descent (svd.md#nearly-nonnegative)
    nearly_nonnegative: float = 1e-2
    # relative error above which single precision is enough for the SVD (svd.md#single-precision)
    single_svd: float = 5e-3

    # -- In place of all phases, where the rank explains little

    # rows per component of a sample that stands in for X; a quarter of them must do (starts-and-minima.md#some-rows)
    some_rows: int = 192
    # iterations of the descent on them (starts-and-minima.md#some-rows)
    some_rows_descent: int = 8

    # -- Phase 2

    # rows per column of the sample that is rotated: r x r unknowns need no more (rotation.md#rotation-rows)
    rotation_rows: int = 20
    # iterations where the rotation decides the minimum (Face r = 25, exact data) (rotation.md#rotation-decides)
    long_rotation: int = 100
    # iterations elsewhere: the same errors as with 100, or lower (rotation.md#rotation-decides)
    short_rotation: int = 20
    # relative error below which the rotation decides (rotation.md#rotation-decides)
    decides_by_error: float = 0.08
    # negative mass of the spread start below which the rotation decides (rotation.md#rotation-decides)
    decides_by_mass: float = 0.05
    # share of the relative error that may be clipped: the error grows by at most 0.1 % (rotation.md#clipping)
    negligible: float = 0.007

    # -- Phase 3, on the core

    # rows per column; with 60, Face r = 10 often finds its worse minimum (feasibility-and-core.md#core-rows)
    core_rows: int = 120
    # share of the cost of a product with X below which the core replaces X (feasibility-and-core.md#core)
    core_cost: float = 0.6
    # flops of an iteration on X below which the calls of a core would take longer: it takes none, and all candidates
    # are tried on X, the cheapest one first (feasibility-and-core.md#tiny)
    tiny_step: float = 1e7
    # relative error above which single precision can tell errors of the core apart (svd.md#single-precision)
    single_core: float = 0.05
    # budget below which a core must be cheaper than that, in proportion (feasibility-and-core.md#core)
    long_descent: float = 16.0
    # over the relative error: iterations on X that the descent on the core may cost (feasibility-and-core.md#budget)
    budget: float = 4.0
    # the least and the most of them (feasibility-and-core.md#budget)
    budget_range: tuple[float, float] = (4.0, 40.0)
    # iterations on X that comparing candidates may cost (starts-and-minima.md#core-starts)
    candidates: float = 12.0
    # flops that each of both may always cost: some tens of milliseconds (feasibility-and-core.md#budget)
    cheap_start: float = 1e9
    # most steps, the least are half of them (feasibility-and-core.md#path-steps)
    path_steps: int = 10
    # iterations until candidates are compared (feasibility-and-core.md#path-steps)
    trial: int = 20
    # most iterations of the first descent on the core (feasibility-and-core.md#core-descent)
    core_descent: int = 150
    # share of the error that ten iterations on the core must gain (feasibility-and-core.md#core-early-end)
    least_gain: float = 1e-4
    # squared error over the SVD's below which the core descent continues (feasibility-and-core.md#core-early-end)
    near_bound: float = 1.002

    # -- Further starts

    # flops of the trials of all further starts: some hundredths of a second (starts-and-minima.md#small-data-starts)
    restart_flops: float = 1.6e9
    # the least and the most of them: fewer hardly find another minimum (starts-and-minima.md#small-data-starts)
    restarts_range: tuple[int, int] = (5, 8)
    # flops of a long descent's first part, after which further starts join it (starts-and-minima.md#long-descents)
    pause_flops: float = 1.5e10
    # error / bound above which further starts are worth their time (starts-and-minima.md#far-from-bound)
    far_from_bound: float = 10.0
    # how many then (starts-and-minima.md#far-from-bound)
    restarts_far_off: int = 3
    svd: SvdPolicy = field(default_factory=SvdPolicy)


MEASURED = Policy()
LARGEST_SAMPLE = 1 << 25  # stored entries of a sample of rows: 128 MB in single precision


@dataclass(frozen=True)
class ExteriorOptions:
    """Choices of the exterior phases; None leaves them to the plan.

    Parameters
    ----------
    svd : {"auto", "exact", "krylov", "randomized"}
    power_iterations : float, optional
        Of the randomized SVD. Default: 1.
    rotation : {"auto", "spread", "identity", "random"}
        Start of Algorithm 1; "auto" compares up to `starts` candidates.
    starts : int, optional
        Candidates: rotations from "spread" and "identity", then the larger parts of the singular pairs (as in nndsvd),
        and "random" rotations for every further one. Default: three, or as many as a few iterations on X pay for.
    rotation_iterations : int, optional
        Default: 100 where the rotation decides about the minimum, else 20.
    rotation_rho : float
    adaptive_rho : bool
    feasibility : {"path", "penalty", "penalty-fixed-step", "projection"}
    feasibility_options : dict, optional
        Passed to the stage, see `enmf.exterior.feasibility`. Default: those of the stage; fewer steps of the path where
        they cost more than a few iterations on X.
    surrogate : bool or None
        Run feasibility and `surrogate_iterations` of descent on the low-rank matrix; None: if that is cheaper.
    surrogate_iterations : int, optional
        Default: what the other phases leave of the cost of a few iterations on X (more, the better the rank explains
        X), at most 150.
    sample : bool
        Rotation and surrogate may work on sampled rows where all rows would cost more; False: on all rows.
    restarts : int, optional
        Further random starts after the descent; the best is kept. Default: as many as cost little (local minima of
        small data differ by 1 %), 5 at most; 3 random rotations if it ended at more than ten times the Eckart-Young
        bound: such data are of low rank, and the certificate allows a much better factorization.
    """

    svd: str = "auto"
    power_iterations: float | None = None
    rotation: str = "auto"
    starts: int | None = None
    rotation_iterations: int | None = None
    rotation_rho: float = 1.0
    adaptive_rho: bool = True
    feasibility: str = "path"
    feasibility_options: dict[str, Any] | None = None
    surrogate: bool | None = None
    surrogate_iterations: int | None = None
    sample: bool = True
    restarts: int | None = None

    def __post_init__(self) -> None:
        for name, allowed in (("svd", KINDS), ("rotation", ("auto", *ROTATION_STARTS)), ("feasibility", FEASIBILITY)):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}={getattr(self, name)!r} is not one of {', '.join(map(repr, allowed))}")


PAPER = {
    "svd": "exact",
    "rotation": "identity",
    "rotation_iterations": 100,
    "adaptive_rho": False,
    "feasibility": "penalty",
    "feasibility_options": {"literal": True},
    "surrogate": False,
    "sample": False,
    "restarts": 0,
}


@dataclass(frozen=True)
class Decision:
    """One line of a plan."""

    phase: str
    what: str
    because: str


class Plan(list[Decision]):
    """What was decided for an X, and why."""

    ORDER = ("svd", "data", "rotation", "feasibility", "core", "restart")

    def note(self, phase: str, what: str, because: str) -> None:
        self.append(Decision(phase, what, because))

    def __str__(self) -> str:
        rows = sorted(self, key=lambda decision: self.ORDER.index(decision.phase))
        wide = max(map(len, self.ORDER))
        return "\n".join(["Plan", *(f"  {d.phase:<{wide}}  {d.what}: {d.because}" for d in rows)])


@dataclass(frozen=True)
class Facts:
    """What is known about X once its spectrum is computed."""

    relative_error: float  # of the SVD at this rank
    spread_mass: float  # negative mass of the spread start
    exact: bool  # whether the spectrum is exact
    core_cost: float  # of an iteration on the core, relative to one on X
    step_flops: float  # of an iteration on X


@dataclass(frozen=True)
class Effort:
    """What phases 2 and 3 do."""

    enough: float  # negative mass that may be clipped
    decides: bool  # whether the rotation decides the minimum
    starts: tuple[str, ...]
    surrogate: bool
    parts_first: bool  # whether PARTS is tried before anything is rotated
    feasibility_options: dict[str, Any]
    trial: int  # iterations after which candidates are compared
    surrogate_iterations: int  # after these, for the best one


def plan_svd(X: Matrix, rank: int, options: ExteriorOptions, policy: Policy, plan: Plan) -> tuple[str, int]:
    """Kind and number of triplets of phase 1."""
    kind, width = choose_kind(X, rank, options.svd, policy=policy.svd)
    side = f"the shorter side of X has {min(X.shape)}"
    cheap = "cheap" if kind == "exact" else "dear compared with passes over X"
    because = f"{side}, so that the eigenvectors of its Gram matrix are {cheap}"
    plan.note("svd", f"{kind}, {width} singular triplets", "as asked" if options.svd == kind else because)
    return kind, width


def plan_power(options: ExteriorOptions, policy: Policy, plan: Plan) -> float:
    """Power iterations of a randomized SVD."""
    chosen = policy.power_iterations if options.power_iterations is None else options.power_iterations
    plan.note("svd", f"{1 + 2 * chosen:g} passes over X for it", "it is only a start, which needs few digits")
    return chosen


def plan_some_rows(X: Matrix, rank: int, options: ExteriorOptions, policy: Policy, plan: Plan) -> tuple[int, int]:
    """For data that the rank hardly explains: how many rows stand in for X, none if they would be too many of them, and
    the iterations of the descent on them."""
    n = X.shape[0]
    in_a_row = max(0.5 * X.cost_per_column / n, 1.0)
    rows = int(min(policy.some_rows * rank, n / 4, LARGEST_SAMPLE / in_a_row))
    plan.note(
        "svd", "that of a sample of the rows", "at this rank it explains so little of X that all starts end alike"
    )
    if 4 * rows < policy.some_rows * rank or not options.sample or options.surrogate is False:
        plan.note("core", "none", "X has too few rows to let some stand in for all" if options.sample else "as asked")
        return 0, 0
    asked = options.surrogate_iterations
    iterations = policy.some_rows_descent if asked is None else asked
    because = f"these cost as much as {iterations * rows / n:.2g} on X; two passes bring the factors to all rows"
    plan.note("core", f"{iterations} iterations of a descent on {rows} of {n} rows", because)
    return rows, iterations


def begins_in_single(X: Matrix, rank: int, relative_error: float, policy: Policy) -> bool:
    """Whether the descent begins in single precision."""
    return relative_error >= policy.single_core and 2.0 * X.half_step_flops(rank) > policy.tiny_step


def clippable(relative_error: float, exact: bool, policy: Policy) -> float:
    """Negative mass that may be clipped; none for an exact spectrum, whose bound can be met to the last digit."""
    return NONE_NEGATIVE if exact else max(NONE_NEGATIVE, policy.negligible * relative_error)


def plan_effort(facts: Facts, options: ExteriorOptions, policy: Policy, plan: Plan) -> Effort:
    """What phases 2 and 3 do for such data, for the cost of a few iterations on X.

    The better the rank explains X, the more iterations a descent takes, and the more a good start is worth.
    """
    error = facts.relative_error
    near = error < policy.low_rank
    decides = near and (error < policy.decides_by_error or facts.spread_mass < policy.decides_by_mass)
    little = error > policy.hardly_explained
    least, most = policy.budget_range
    budget = min(max(policy.budget / max(error, 1e-9), least), most)
    tiny = facts.step_flops <= policy.tiny_step
    pays = not tiny and facts.core_cost <= policy.core_cost * min(budget / policy.long_descent, 1.0)
    surrogate = pays if options.surrogate is None else options.surrogate
    budget = max(budget, policy.cheap_start / facts.step_flops)
    share = facts.core_cost if surrogate else 1.0
    steps = int(min(max(budget / share / 2, policy.path_steps / 2), policy.path_steps))
    candidates = max(policy.candidates, policy.cheap_start / facts.step_flops) / share / (steps + policy.trial)
    count = 1 if little else int(min(max(candidates, 1 + surrogate), 3))
    usual = int(min(budget / share, policy.core_descent)) * surrogate
    usual_stage = {"steps": steps} if options.feasibility == "path" else {}
    starts = _candidates(options, count)
    if starts == ("spread",) and options.rotation == "auto" and not (surrogate or near):
        starts = (PARTS,)  # steps of a path on X would cost more than the descent that they shorten
    effort = Effort(
        enough=clippable(error, facts.exact, policy),
        decides=decides,
        starts=starts,
        surrogate=surrogate,
        parts_first=tiny and not surrogate and facts.spread_mass > policy.nearly_nonnegative,
        feasibility_options=usual_stage if options.feasibility_options is None else options.feasibility_options,
        trial=policy.trial if len(starts) > 1 else 0,
        surrogate_iterations=usual if options.surrogate_iterations is None else options.surrogate_iterations,
    )
    plan.note("data", f"the SVD leaves {100 * error:.3g} % of ||X||", _describe(error, decides, policy))
    return effort


def _candidates(options: ExteriorOptions, affordable: int) -> tuple[str, ...]:
    """Starts of the rotation, and PARTS, most promising first."""
    if options.rotation != "auto":
        return (options.rotation,)
    count = affordable if options.starts is None else options.starts
    return ("spread", "identity", PARTS, *["random"] * count)[:count]


def _describe(error: float, decides: bool, policy: Policy) -> str:
    if error < policy.low_rank:
        return (
            "nearly of this rank, so that the rotation decides about the minimum" if decides else "nearly of this rank"
        )
    return "hardly explained at this rank" if error > policy.hardly_explained else "partly explained at this rank"


def explain_entry(facts: Facts, options: ExteriorOptions, effort: Effort, sampled: bool, plan: Plan) -> None:
    """Explain phase 3, for a plan that reaches it."""
    if effort.starts == (PARTS,):
        plan.note("feasibility", "nothing to do", "the parts are nonnegative")
        return
    steps = effort.feasibility_options.get("steps")
    stage = f"{options.feasibility}, {steps} steps" if steps else options.feasibility
    cost = f"{100 * facts.core_cost:.2g} % of one with X"
    if not effort.surrogate:
        asked = options.surrogate is False
        plan.note("feasibility", f"{stage}, on X", "as asked" if asked else f"an iteration on a core would cost {cost}")
        return
    core = "a core of sampled rows" if sampled else "the low-rank matrix of all rows"
    plan.note("feasibility", f"{stage}, on {core}", f"an iteration on it costs {cost}")
    most = effort.trial + effort.surrogate_iterations
    plan.note(
        "core", f"a first descent of up to {most} iterations on it", "they cost no pass over X; two passes lift it"
    )


def plan_rotation(effort: Effort, options: ExteriorOptions, policy: Policy, plan: Plan) -> int:
    """Iterations of Algorithm 1."""
    iterations = policy.long_rotation if effort.decides else policy.short_rotation
    because = "it decides about the minimum" if effort.decides else "more bring nothing on such data"
    if options.rotation_iterations is not None:
        iterations, because = options.rotation_iterations, "as asked"
    *most, last = [start for start in effort.starts if start != PARTS] or [""]
    starts = f"{', '.join(most)} and {last}" if most else last
    if last:
        plan.note("rotation", f"from {starts}, up to {iterations} iterations each", because)
    if effort.starts == (PARTS,):
        plan.note(
            "rotation", "none, but the larger parts of the singular pairs", "a path on X would cost more than it gains"
        )
    elif PARTS in effort.starts:
        plan.note("rotation", "beside them the larger parts of the singular pairs", "a candidate that costs nothing")
    return iterations


def plan_restarts(
    trial_flops: float, ratio: float, options: ExteriorOptions, policy: Policy, plan: Plan | None
) -> tuple[int, bool]:
    """How many further starts there are, by the cost of a trial of one, and whether they are exterior ones. `ratio` is
    error / bound, 0 if it is not known.
    """
    least, most = policy.restarts_range
    count = int(min(most, policy.restart_flops / max(trial_flops, 1.0)))
    count = 0 if count < least else count
    because = "their trials cost little, and starts of small data cannot be told apart before"
    far_off = ratio > policy.far_from_bound
    if options.restarts is not None:
        count, because = options.restarts, "as asked"
    elif far_off:
        count, because = policy.restarts_far_off, f"the error is more than {policy.far_from_bound:g} times the bound"
    if count and plan is not None:
        plan.note(
            "restart", f"{count} further starts, {'random rotations' if far_off else 'parts and random'}", because
        )
    return count, far_off


def note_rivals(count: int, pause: int, plan: Plan | None) -> None:
    if plan is not None:
        because = f"the descent has taken {pause} iterations, and may take many more"
        plan.note("restart", f"{count} further starts, parts and random", because)
