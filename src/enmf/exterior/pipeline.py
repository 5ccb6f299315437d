"""The exterior start (paper, Algorithm 3 up to the descent): svd, rotation, feasibility.

Rotation works on a sample of the rows of the thin factors. Feasibility, and a first descent, work on the core
(`enmf.exterior.core`) instead of X wherever its products are cheaper: they cost no pass over the data then, and several
rotations are tried, the one with the smallest error going on: their negative mass does not tell which that is. Two
passes then bring its factors to all rows of X. Without a core the negative mass has to tell, for data that are nearly
of low rank; others get one rotation then.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from enmf.distributed.rows import fortran
from enmf.exterior import feasibility
from enmf.exterior.core import CoreIterate, lift, make_core, sample_rows
from enmf.linalg.rotation import ROUNDING, STARTS, Rotation, negative_share, rotate, spread
from enmf.linalg.svd import (
    KINDS,
    LEAST_OVERSAMPLING,
    Spectrum,
    glance,
    look_closer,
    plan,
    power,
    refine,
    truncated_svd,
)
from enmf.matrix.base import Matrix
from enmf.matrix.lowrank import LowRankMatrix
from enmf.matrix.single import in_single
from enmf.parallel import matmul
from enmf.problem.state import Iterate
from enmf.run.loop import run_stage
from enmf.run.stopping import Monitor
from enmf.solvers.hals import ExtrapolatedHALS

ROTATION_ROWS = 20  # rows of the sample that is rotated, for each column
ROTATION_PASSES = 20  # passes over X whose cost may be spent on rotations
LONG_ROTATION, SHORT_ROTATION, LEAST_ROTATION = 100, 20, 5  # iterations: where it decides; else; whatever they cost
LOW_RANK = 0.2  # relative error of the SVD below which data are nearly of low rank
ROTATION_DECIDES = 0.08, 0.05  # such data: relative error, or negative mass of the spread start, below which it does
HARDLY_EXPLAINED = 0.95  # relative error of the SVD above which starts differ by hundredths of a percent
FEW_COLUMNS = 0.9  # the same of a sample of the rows, which flatters; no columns beyond the least are worth a product
LEAST_GAIN = 1e-4  # share of the error that ten iterations of the descent on the core must gain
NEAR_BOUND = 1.002  # squared error over that of the SVD below which the descent on the core goes on
LEAST_IN_SINGLE = 5e-3  # the same from which the SVD may be made in single precision
CORE_IN_SINGLE = 0.05  # the same from which errors of the core can be compared in single precision
NEARLY = 1e-2  # negative mass of the spread start below which an accurate SVD pays
NEGLIGIBLE = 0.007  # share of the relative error up to which negative mass is clipped: the error grows by 0.1 % at most


@dataclass(frozen=True)
class ExteriorOptions:
    """Choices of the exterior phases; the defaults measured best.

    Parameters
    ----------
    svd : {"auto", "exact", "krylov", "randomized"}
    power_iterations : float, optional
        Of the randomized SVD. Default: 1; a half for data of which this rank explains little.
    rotation : {"auto", "spread", "identity", "random"}
        Start of Algorithm 1; "auto" tries up to `starts` of them, as many as are cheap beside X; one where there is
        no surrogate to compare them and none can be expected to be nonnegative.
    starts : int, optional
        Default: "spread" and "random" for data so near to low rank that the rotation decides about the minimum, only
        "spread" for others near to it, and for data of which this rank explains little, where all starts end alike,
        else "identity" and "random"; beyond these "random" again.
    rotation_iterations : int, optional
        Default: 100 where the rotation decides, else 20 or, where they cost more than 20 passes over X, fewer.
    rotation_rho : float
    adaptive_rho : bool
    feasibility : {"path", "penalty", "penalty-fixed-step", "projection"}
    feasibility_options : dict, optional
        Passed to the stage, see `enmf.exterior.feasibility`. Default: its own; half the steps of the path for data of
        which this rank explains little.
    surrogate : bool or None
        Run feasibility and `surrogate_iterations` of descent on the low-rank matrix; None: where it is cheaper.
    surrogate_iterations : int, optional
        Default: 150 for data that are nearly of low rank, 10 for data of which this rank explains little, else 50.
    sample : bool
        Rotation and surrogate work on sampled rows; False: on all rows.
    restarts : int
        Further starts ("random") tried after a descent that was so cheap that the time does not matter (local minima of
        the digits differ by 1 %), or that ended at more than ten times the Eckart-Young bound: such data are of low
        rank, and the certificate says that a much better factorization may exist.
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
        for name, allowed in (
            ("svd", KINDS),
            ("rotation", ("auto", *STARTS)),
            ("feasibility", feasibility.NAMES),
        ):
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
class ExteriorStart:
    """Nonnegative factors, and how they came about."""

    U: np.ndarray
    V: np.ndarray
    spectrum: Spectrum
    rotation: Rotation


def exterior_start(
    X: Matrix,
    rank: int,
    options: ExteriorOptions,
    monitor: Monitor,
    rng: np.random.Generator,
    spectrum: Spectrum | None = None,
) -> ExteriorStart:
    """Phases 1 to 3 (or 2 and 3, given a spectrum). The factors are the rotated SVD itself when it is nonnegative."""
    if spectrum is None:
        spectrum = _decompose(X, rank, options, monitor, rng)
        monitor.lower_bound = spectrum.lower_bound(rank)
    U, V = spectrum.factors(rank)
    relative = spectrum.relative_error(rank)
    options = _effort(options, relative)
    enough = _clippable(spectrum, rank)
    whole = LowRankMatrix(*spectrum.factors(len(spectrum.s)))
    precision = np.dtype(np.float32) if relative >= CORE_IN_SINGLE else X.dtype
    core = make_core(whole.A, whole.B, precision, rng) if options.sample else whole
    cheaper = core.cost_per_column < 0.5 * X.cost_per_column
    surrogate = cheaper if options.surrogate is None else options.surrogate
    with monitor.phase("rotation"):
        decides = _rotation_decides(U, V, relative)
    starts = _starts(options, relative, decides)
    if not surrogate and relative >= LOW_RANK:
        starts = starts[:1]  # nothing compares them, and none will be nonnegative
    rotations = _rotate(U, V, X, enough, options, starts, decides, monitor, rng)
    best = rotations[0]
    if best.negative_mass <= enough:
        return ExteriorStart(_clipped(matmul(U, best.R)), _clipped(matmul(V, best.R)), spectrum, best)
    if surrogate:
        rest = max(X.squared_norm() - whole.squared_norm(), 0.0)
        A, B = (np.asfortranarray(F[:, :rank]) for F in (core.A, core.B))
        its = [
            _enter(CoreIterate(core, A @ rotation.R, B @ rotation.R), options, monitor, rest) for rotation in rotations
        ]
        assert options.surrogate_iterations is not None
        least = relative**2 * X.squared_norm()
        chosen = _descend_surrogate(its, options.surrogate_iterations, monitor, rest, least)
        with monitor.phase("surrogate"):
            U, V = lift(its[chosen], whole.B, X)
        return ExteriorStart(U, V, spectrum, rotations[chosen])
    it = _enter(Iterate(X, U @ best.R, V @ best.R), options, monitor)
    return ExteriorStart(it.U, it.V, spectrum, best)


def _decompose(X: Matrix, rank: int, options: ExteriorOptions, monitor: Monitor, rng: np.random.Generator) -> Spectrum:
    """Phase 1. Where the optimum seems to be near, its accuracy decides: then it is refined.

    A refined spectrum whose spread start is nonnegative is a factorization already; the trace says so.
    """
    kind, width = plan(X, rank, options.svd)
    with monitor.phase("svd") as counter:
        counter.iterations = 1
        if kind != "randomized":
            return truncated_svd(X, rank, kind=kind, rng=rng)
        rough = in_single(X)
        first = glance(rough, width, rng)
        if first.relative_error(rank) < LEAST_IN_SINGLE and rough is not X:
            rough, first = X, glance(X, width, rng)
        little = first.relative_error(rank) > FEW_COLUMNS
        if little:
            first = look_closer(rough, first.truncated(rank + LEAST_OVERSAMPLING), rng)
        turn = spread(rank).astype(X.dtype)
        if negative_share(*(matmul(F, turn) for F in first.factors(rank))) >= NEARLY:
            usual = 0.5 if little else 1
            return power(rough, first, usual if options.power_iterations is None else options.power_iterations)
        for spectrum in refine(X, rough, first, rank):
            U, V = (matmul(F, turn) for F in spectrum.factors(rank))
            if negative_share(U, V) <= _clippable(spectrum, rank):
                it = Iterate(X, _clipped(U), _clipped(V))
                with monitor.measuring():
                    error = math.sqrt(max(it.squared_error(), 0.0))
                monitor.record(counter.iterations, "svd", error, math.nan, it.U, it.V)
                if monitor.arrived(error):
                    break
            counter.iterations += 1
            if monitor.out_of_time():
                break
        return spectrum


def _clippable(spectrum: Spectrum, rank: int) -> float:
    """Negative mass that may be clipped; none of an exact spectrum, whose bound can be met to the last digit."""
    return ROUNDING if spectrum.kind == "exact" else max(ROUNDING, NEGLIGIBLE * spectrum.relative_error(rank))


def _effort(options: ExteriorOptions, relative: float) -> ExteriorOptions:
    """Iterations by what is at stake; `relative` is the relative error of the SVD."""
    near, little = relative < LOW_RANK, relative > HARDLY_EXPLAINED
    descents = 150 if near else 10 if little else 50
    steps = {"steps": feasibility.PATH_STEPS // 2} if little and options.feasibility == "path" else {}
    return replace(
        options,
        surrogate_iterations=descents if options.surrogate_iterations is None else options.surrogate_iterations,
        feasibility_options=steps if options.feasibility_options is None else options.feasibility_options,
    )


def _rotation_decides(U: np.ndarray, V: np.ndarray, relative: float) -> bool:
    """Whether the rotated optimum is nearly a factorization, so that the rotation decides about the minimum.

    Face r = 25 and the exact sets are, by their error, and synthetic data, by their negative mass. Elsewhere a long
    rotation brings nothing or, on faces r = 49, worse minima.
    """
    if relative >= LOW_RANK:
        return False
    error, mass = ROTATION_DECIDES
    turn = spread(U.shape[1]).astype(U.dtype)
    return relative < error or negative_share(*(matmul(F, turn) for F in (U, V))) < mass


def _starts(options: ExteriorOptions, relative: float, decides: bool) -> tuple[str, ...]:
    """Starts of the rotation, most promising first."""
    if options.rotation != "auto":
        return (options.rotation,)
    one = relative < LOW_RANK or relative > HARDLY_EXPLAINED
    first = ("spread", "random") if decides else ("spread",) if one else ("identity", "random")
    count = len(first) if options.starts is None else options.starts
    return (*first, *["random"] * count)[:count]


def _rotate(
    U: np.ndarray,
    V: np.ndarray,
    X: Matrix,
    enough: float,
    options: ExteriorOptions,
    starts: tuple[str, ...],
    decides: bool,
    monitor: Monitor,
    rng: np.random.Generator,
) -> list[Rotation]:
    """Algorithm 1 from each start, least negative mass first; a point with `enough` of it needs no other start."""
    found: list[Rotation] = []
    iterations = options.rotation_iterations
    with monitor.phase("rotation") as counter:
        r = U.shape[1]
        few_U, few_V = (sample_rows(F, ROTATION_ROWS * r, rng) for F in (U, V)) if options.sample else (U, V)
        iteration = 4.0 * (len(few_U) + len(few_V)) * r**2 + 150.0 * r**3  # flops; those of the SVD are slow ones
        affordable = int(ROTATION_PASSES * r * X.cost_per_column / iteration)
        if iterations is None:
            iterations = LONG_ROTATION if decides else min(max(affordable, LEAST_ROTATION), SHORT_ROTATION)
        for start in starts[: 1 + affordable // max(iterations, 1)]:
            rotation = rotate(
                few_U,
                few_V,
                start=start,
                max_iter=iterations,
                rho=options.rotation_rho,
                adapt=options.adaptive_rho,
                enough=enough,
                rng=rng,
                stop=monitor.out_of_time,
            )
            if rotation.negative_mass <= enough:  # in the sample: look at all rows
                rotation = replace(rotation, negative_mass=negative_share(*(matmul(F, rotation.R) for F in (U, V))))
            found.append(rotation)
            counter.iterations += rotation.iterations
            if rotation.negative_mass <= enough:
                break
    return sorted(found, key=lambda rotation: rotation.negative_mass)


def _enter(it: Iterate, options: ExteriorOptions, monitor: Monitor, rest: float = 0.0) -> Iterate:
    """Feasibility on X or on its surrogate (which lacks `rest` of ||X||²)."""
    stage = feasibility.make(options.feasibility, **(options.feasibility_options or {}))
    run_stage(it, stage, monitor, phase="feasibility", max_iter=10_000, extra=rest)
    it.set_U(_clipped(it.U))
    it.set_V(_clipped(it.V))
    return it


def _descend_surrogate(its: list[Iterate], iterations: int, monitor: Monitor, rest: float, least: float) -> int:
    """A first descent on the surrogate, a fifth of it for every candidate, the rest for the best one.

    It ends early where it gains little, unless its squared error may yet meet the `least` one, that of the SVD.
    """
    descents = [ExtrapolatedHALS() for _ in its]
    trial = iterations // 5 if len(its) > 1 else 0
    for it, descent in zip(its, descents):
        run_stage(it, descent, monitor, phase="surrogate", max_iter=trial, extra=rest)
    chosen = int(np.argmin([it.squared_error() for it in its]))
    left, descent = iterations - trial, descents[chosen]
    gain = LEAST_GAIN if its[chosen].squared_error() + rest > NEAR_BOUND * least else None
    run_stage(its[chosen], descent, monitor, phase="surrogate", max_iter=left, extra=rest, least_gain=gain)
    return chosen


def _clipped(F: np.ndarray) -> np.ndarray:
    return fortran(np.maximum(F, 0))
