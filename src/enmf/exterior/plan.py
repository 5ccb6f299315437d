"""What the exterior method decides, as data: facts about X go in, the effort of every phase comes out.

All tuned numbers are in one frozen `Policy`; the decisions are functions of facts, options and policy, without any
numerics, and say why. The pipeline does what they say and decides nothing. `result.plan` prints what was decided.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from enmf.linalg.rotation import NONE_NEGATIVE, ROTATION_STARTS
from enmf.linalg.spectrum import KINDS, SvdPolicy, choose_kind

FEASIBILITY = ("path", "penalty", "penalty-fixed-step", "projection")  # `enmf.exterior.feasibility.STAGES`


@dataclass(frozen=True)
class Policy:
    """Every tuned number of the exterior method; above each, its reason and its lesson in docs/lessons."""

    # -- The kind of data, by the relative error of the SVD at this rank

    # below: nearly of low rank, starts differ, and a long descent on the core pays (rotation.md#rotation-decides)
    low_rank: float = 0.2
    # above: all starts end within 0.02 % (text), so every phase is kept short (starts-and-minima.md#little-explained)
    hardly_explained: float = 0.95

    # -- Phase 1

    # error of a sampled SVD (too low) above which columns beyond the minimum do not pay (svd.md#few-columns)
    few_columns: float = 0.9
    # of a randomized SVD: a second one changes no start (svd.md#half-power)
    power_iterations: float = 1.0
    # for hardly explained data: the same errors, one pass less (svd.md#half-power)
    power_iterations_little: float = 0.5
    # negative mass of the spread start below which an accurate SVD is the descent (svd.md#nearly-nonnegative)
    nearly_nonnegative: float = 1e-2
    # relative error above which single precision is enough for the SVD (svd.md#single-precision)
    single_svd: float = 5e-3

    # -- Phase 2

    # rows per column of the sample that is rotated: r x r unknowns need no more (rotation.md#rotation-rows)
    rotation_rows: int = 20
    # passes over X that rotations may cost: on Verb more cost time and gain nothing (rotation.md#rotation-budget)
    rotation_passes: float = 20.0
    # times r³: an r x r SVD in slow flops, measured against products (rotation.md#rotation-budget)
    svd_flops: float = 150.0
    # iterations where the rotation decides the minimum (Face r = 25, exact data) (rotation.md#rotation-decides)
    long_rotation: int = 100
    # iterations elsewhere: the same errors as with 100, or lower (rotation.md#rotation-decides)
    short_rotation: int = 20
    # fewest iterations, whatever they cost (rotation.md#rotation-budget)
    least_rotation: int = 5
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
    core_cost: float = 0.5
    # relative error above which single precision can tell errors of the core apart (svd.md#single-precision)
    single_core: float = 0.05
    # 40 and 250 end at the same errors, 10 at larger ones on some data (feasibility-and-core.md#path-steps)
    path_steps: int = 20
    # for hardly explained data (feasibility-and-core.md#path-steps)
    path_steps_little: int = 10
    # iterations of the first descent on the core (feasibility-and-core.md#core-descent)
    core_descent: int = 50
    # Face r = 25 takes 0.47 instead of 0.65 s (feasibility-and-core.md#core-descent)
    core_descent_low_rank: int = 150
    # for hardly explained data, on which all starts end alike (feasibility-and-core.md#core-descent)
    core_descent_little: int = 10
    # share of the iterations for every candidate before the best one continues (feasibility-and-core.md#core-trial)
    trial: float = 0.2
    # share of the error that ten iterations on the core must gain (feasibility-and-core.md#core-early-end)
    least_gain: float = 1e-4
    # squared error over the SVD's below which the core descent continues (feasibility-and-core.md#core-early-end)
    near_bound: float = 1.002
    # sweeps from the clipped least-squares solution of all rows (feasibility-and-core.md#lift)
    lift_sweeps: int = 5
    # of the mean Gram diagonal: gives a singular Gram matrix an inverse of few digits (feasibility-and-core.md#lift)
    lift_ridge: float = 1e-6

    # -- Further starts

    # flops of a step (1 ms) up to which further starts are always tried (starts-and-minima.md#small-data-starts)
    cheap_step: float = 5e7
    # error / bound above which further starts are worth their time (starts-and-minima.md#far-from-bound)
    far_from_bound: float = 10.0
    svd: SvdPolicy = field(default_factory=SvdPolicy)


MEASURED = Policy()


@dataclass(frozen=True)
class ExteriorOptions:
    """Choices of the exterior phases; None leaves them to the plan.

    Parameters
    ----------
    svd : {"auto", "exact", "krylov", "randomized"}
    power_iterations : float, optional
        Of the randomized SVD. Default: 1; a half for data that this rank hardly explains.
    rotation : {"auto", "spread", "identity", "random"}
        Start of Algorithm 1; "auto" tries up to `starts` of them, as many as are cheap compared with X; only one if
        there is no surrogate to compare them on and none can be expected to be nonnegative.
    starts : int, optional
        Default: "spread" and "random" for data so near to low rank that the rotation decides the minimum; only
        "spread" for other data near it, and for data that this rank hardly explains, on which all starts end alike;
        else "identity" and "random". Further ones are "random" again.
    rotation_iterations : int, optional
        Default: 100 where the rotation decides, else 20, or fewer if these cost more than 20 passes over X.
    rotation_rho : float
    adaptive_rho : bool
    feasibility : {"path", "penalty", "penalty-fixed-step", "projection"}
    feasibility_options : dict, optional
        Passed to the stage, see `enmf.exterior.feasibility`. Default: those of the stage; half the steps of the path
        for data that this rank hardly explains.
    surrogate : bool or None
        Run feasibility and `surrogate_iterations` of descent on the low-rank matrix; None: if that is cheaper.
    surrogate_iterations : int, optional
        Default: 150 for data that are nearly of low rank, 10 for data that this rank hardly explains, else 50.
    sample : bool
        Rotation and surrogate work on sampled rows; False: on all rows.
    restarts : int
        Further starts ("random") after a descent so cheap that the time does not matter (local minima of the digits
        differ by 1 %), or one that ended at more than ten times the Eckart-Young bound: such data are of low rank, and
        the certificate allows a much better factorization.
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
    restarts: int = 3

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
    core_cost: float  # of a product of the core with a column, relative to one of X


@dataclass(frozen=True)
class Effort:
    """What phases 2 and 3 do."""

    enough: float  # negative mass that may be clipped
    decides: bool  # whether the rotation decides the minimum
    starts: tuple[str, ...]
    surrogate: bool
    feasibility_options: dict[str, Any]
    surrogate_iterations: int


def plan_svd(
    shape: tuple[int, int], rank: int, options: ExteriorOptions, policy: Policy, plan: Plan
) -> tuple[str, int]:
    """Kind and number of triplets of phase 1."""
    kind, width = choose_kind(shape, rank, options.svd, policy=policy.svd)
    side = f"the shorter side of X has {min(shape)}"
    because = f"{side}, so its Gram matrix is cheap" if kind == "exact" else f"{side}, too many for its Gram matrix"
    plan.note("svd", f"{kind}, {width} singular triplets", "as asked" if options.svd == kind else because)
    return kind, width


def plan_power(little: bool, options: ExteriorOptions, policy: Policy, plan: Plan) -> float:
    """Power iterations of a randomized SVD."""
    usual = policy.power_iterations_little if little else policy.power_iterations
    chosen = usual if options.power_iterations is None else options.power_iterations
    why = "explains so little of X that all starts end alike" if little else "is only a start, which needs few digits"
    plan.note("svd", f"{1 + 2 * chosen:g} passes over X for it", f"at this rank it {why}")
    return chosen


def clippable(relative_error: float, exact: bool, policy: Policy) -> float:
    """Negative mass that may be clipped; none for an exact spectrum, whose bound can be met to the last digit."""
    return NONE_NEGATIVE if exact else max(NONE_NEGATIVE, policy.negligible * relative_error)


def plan_effort(facts: Facts, options: ExteriorOptions, policy: Policy, plan: Plan) -> Effort:
    """What phases 2 and 3 do for such data."""
    error = facts.relative_error
    near, little = error < policy.low_rank, error > policy.hardly_explained
    decides = near and (error < policy.decides_by_error or facts.spread_mass < policy.decides_by_mass)
    surrogate = facts.core_cost < policy.core_cost if options.surrogate is None else options.surrogate
    starts = _rotation_starts(options, near or little, decides)
    if not surrogate and not near:
        starts = starts[:1]  # nothing can compare them, and none will be nonnegative
    steps = {"steps": policy.path_steps_little if little else policy.path_steps}
    usual_stage = steps if options.feasibility == "path" else {}
    usual = policy.core_descent_low_rank if near else policy.core_descent_little if little else policy.core_descent
    effort = Effort(
        enough=clippable(error, facts.exact, policy),
        decides=decides,
        starts=starts,
        surrogate=surrogate,
        feasibility_options=usual_stage if options.feasibility_options is None else options.feasibility_options,
        surrogate_iterations=usual if options.surrogate_iterations is None else options.surrogate_iterations,
    )
    plan.note("data", f"the SVD leaves {100 * error:.3g} % of ||X||", _describe(error, decides, policy))
    return effort


def _rotation_starts(options: ExteriorOptions, one: bool, decides: bool) -> tuple[str, ...]:
    """Starts of the rotation, most promising first."""
    if options.rotation != "auto":
        return (options.rotation,)
    first = ("spread", "random") if decides else ("spread",) if one else ("identity", "random")
    count = len(first) if options.starts is None else options.starts
    return (*first, *["random"] * count)[:count]


def _describe(error: float, decides: bool, policy: Policy) -> str:
    if error < policy.low_rank:
        return (
            "nearly of this rank, so that the rotation decides about the minimum" if decides else "nearly of this rank"
        )
    return "hardly explained at this rank" if error > policy.hardly_explained else "partly explained at this rank"


def explain_entry(facts: Facts, options: ExteriorOptions, effort: Effort, plan: Plan) -> None:
    """Explain phase 3, for a plan that reaches it."""
    steps = effort.feasibility_options.get("steps")
    stage = f"{options.feasibility}, {steps} steps" if steps else options.feasibility
    cost = f"{100 * facts.core_cost:.2g} % of one with X"
    if not effort.surrogate:
        asked = options.surrogate is False
        plan.note("feasibility", f"{stage}, on X", "as asked" if asked else f"a product with a core would cost {cost}")
        return
    core = "a core of sampled rows" if options.sample else "the low-rank matrix of all rows"
    plan.note("feasibility", f"{stage}, on {core}", f"a product with it costs {cost}")
    most = effort.surrogate_iterations
    plan.note(
        "core", f"a first descent of up to {most} iterations on it", "they cost no pass over X; two passes lift it"
    )


def plan_rotation(
    effort: Effort, passes_per_iteration: float, options: ExteriorOptions, policy: Policy, plan: Plan
) -> tuple[int, int]:
    """Iterations of Algorithm 1, and how many of the starts are affordable; costs are in passes over X."""
    affordable = int(policy.rotation_passes / passes_per_iteration)
    short = min(max(affordable, policy.least_rotation), policy.short_rotation)
    iterations = policy.long_rotation if effort.decides else short
    if options.rotation_iterations is not None:
        iterations = options.rotation_iterations
    count = 1 + affordable // max(iterations, 1)
    starts = " and ".join(effort.starts[:count])
    cost = f"{policy.rotation_passes:g} passes over X pay for {affordable} iterations"
    because = "it decides about the minimum" if effort.decides else "more bring nothing on such data"
    if iterations == affordable or (effort.starts[count:] and not effort.decides):
        because = cost
    plan.note("rotation", f"from {starts}, up to {iterations} iterations each", because)
    return iterations, count


def worth_restarting(step_flops: float, error: float, bound: float, policy: Policy) -> str | None:
    """Why a further start is worth its time, or None."""
    if step_flops <= policy.cheap_step:
        return "a step takes less than a millisecond, and starts of small data can be told apart only at their end"
    if error > policy.far_from_bound * bound:
        return f"the error is more than {policy.far_from_bound:g} times the bound"
    return None
