"""The one run: a start, a descent, a certificate (paper, Algorithm 3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from enmf import parallel
from enmf.certificate.certificate import Certificate, make_certificate
from enmf.certificate.words import BY_USER, effective_tol
from enmf.linalg.bound import bound_passes
from enmf.linalg.svd import Spectrum, bounded
from enmf.losses.base import NEEDS
from enmf.matrix.factor import WorkersLost, by_rows
from enmf.parallel import matmul
from enmf.problem.problem import Problem
from enmf.problem.scale import rescaled
from enmf.problem.state import Half, State
from enmf.problem.validation.numbers import warn_outside
from enmf.run.checkpoint import Checkpoint
from enmf.run.loop import descend
from enmf.run.method import Method
from enmf.run.monitor import Monitor, display, interruptible
from enmf.run.options import Given, Phase, RunOptions
from enmf.run.prospect import SUREST
from enmf.run.result import Result
from enmf.run.stopping import Stopping
from enmf.run.trace import Phase as Cost
from enmf.run.walk import Walk

NEAR = 1.001  # error over that of the SVD below which a bound may prove the result to be the best one
ROUNDING = 32.0  # units of rounding of ||X||² in an error without signs: four times the most seen (waveforms, float32)
CLEARLY = 2e-5  # share of the squared error that is no rounding, and ten times what "global_optimum" allows


def run(problem: Problem, options: RunOptions, spectrum: Spectrum | None = None) -> Result:
    """Go through the phases of the options; a known spectrum saves the SVD."""
    check_needs(options.method, options.name, problem)
    with parallel.limit(options.n_threads), display(options.verbose, options.callback) as watch:
        saved, watch = _resume(problem, options, watch)
        monitor = Monitor(problem, options.stopping, watch)
        done = saved.iterations if saved is not None else 0
        max_iter = max(0, options.stopping.max_iter - done)
        walk = Walk(problem, options.rank, options.method, monitor, options.rng, max_iter, spectrum)
        if done:
            monitor.phases["descent"] = Cost(iterations=done)
        with interruptible(monitor), keeping_factors(monitor, problem):
            for phase in _phases(problem, options, saved):
                phase(walk)
                if walk.status is not None and phase is not descend:
                    break
            result = finish(walk, options)
            U, V = rescaled(result.U, result.V, options.scale)
            result = replace(result, U=U, V=V)
    warn_about_end(result, options.stopping, monitor.interrupted and options.callback is None, problem)
    return result


def check_needs(method: Method, name: str, problem: Problem) -> None:
    """Refuse a method that needs something this loss does not offer for this X."""
    lacking = method.needs - problem.loss.offers(problem.X)
    if lacking:
        what = " and ".join(NEEDS[need] for need in sorted(lacking))
        where = "" if problem.X.complete else ", where entries are missing or weighted"
        if problem.X.complete and lacking <= problem.loss.in_memory().offers(None):
            where = ", where X is read in blocks"
        raise ValueError(f"method {name!r} needs {what}, which the loss {problem.loss.name!r} does not offer{where}")


def _resume(problem: Problem, options: RunOptions, watch: Any) -> tuple[Any, Any]:
    """What an earlier run left in the checkpoint folder, and the callback that saves this one there."""
    if options.checkpoint is None:
        return None, watch
    X = problem.X
    about = {
        "shape": list(X.shape),
        "dtype": str(X.dtype),
        "norm of X": math.sqrt(X.squared_norm()) * problem.scale,
        "rank": options.rank,
        "method": options.name,
    }
    if problem.loss.name != "frobenius":  # files of earlier versions do not name the loss
        about["loss"] = problem.loss.name
    kept = Checkpoint(options.checkpoint, about)
    return kept.load(), kept.watching(watch)


def _phases(problem: Problem, options: RunOptions, saved: Any) -> list[Phase]:
    if problem.loss.mass(problem.X) == 0.0:
        return [zero_factors]
    start = Given(saved.U, saved.V) if saved is not None else options.start
    first = [*start.phases(problem, options), *start.beforehand(problem, options)]
    return [*first, forget_unobserved, descend, *options.start.afterwards(problem, options)]


def zero_factors(walk: Walk) -> None:
    """Zero factors, the best ones for an X of zeros."""
    X, fixed = walk.problem.X, walk.problem.structure.V.fixed
    U, V = X.zeros(walk.rank), np.zeros((X.shape[1], walk.rank))
    if walk.problem.structure.U.total is not None:
        U += np.asarray(walk.problem.structure.U.total / walk.rank, X.dtype)
    if fixed is not None:
        V[:, : fixed.shape[1]] = fixed
    walk.begin_at(U, V)
    walk.status = "global_optimum"


def forget_unobserved(walk: Walk) -> None:
    """Set the factors of rows and columns without observations to zero: nothing is known about them, and no method
    changes them."""
    if walk.problem.X.complete:
        return
    for half in walk.state.halves:
        with half.editing() as F:
            F[walk.problem.X.totals(half.side) == 0] = 0


@contextmanager
def keeping_factors(monitor: Monitor, problem: Problem) -> Iterator[None]:
    """Attach the last factors, in the user's units, to an error about lost workers."""
    try:
        yield
    except WorkersLost as lost:
        if monitor.latest is not None:
            root = problem.units.factor(problem.X.dtype)
            lost.U, lost.V = (
                None if F is None else np.ascontiguousarray(np.maximum(F, 0) * root) for F in monitor.latest
            )
        raise


def finish(walk: Walk, options: RunOptions) -> Result:
    """Order and scale of the components, bound, certificate, and the user's units."""
    state, monitor, problem = walk.state, walk.monitor, walk.problem
    loss, X = problem.loss, problem.X
    with monitor.phase("certificate"):
        if state.fixes_scale:
            state.sort()
        else:
            if not state.penalized and not problem.structure.count:
                loss.improve_scale(state)  # a run cut short at a poor start must not be worse than zero factors
            state.balance()
        _remove_dust(state)
    if options.exact_U and not problem.structure.symmetric:
        with monitor.phase("solve"):
            rows, columns = state.halves
            columns.changed()  # recompute the product: U must depend on X and V alone
            rows.replace(loss.solve(rows))
    with monitor.phase("certificate"):
        later = _can_wait(walk, options)
        skipped = False if later else _make_bound(walk, options)
        bound = walk.spectrum.lower_bound(walk.rank) if walk.spectrum is not None and loss.has_bound(X) else 0.0
        certificate = make_certificate(state, bound, options.stopping.stationary_kkt)
        certificate = replace(certificate, bound_skipped=skipped, left=_left(walk, certificate, options.stopping))
    assert walk.status is not None
    root = problem.units.factor(X.dtype)
    status = _confirmed(walk.status, certificate, monitor.whole)
    certificate = certificate.in_units(problem.units, loss)
    return Result(
        U=problem.structure.public(X.public(state.U * root), 0),
        V=problem.structure.public(np.ascontiguousarray(state.V * root), 1),
        status=status,
        n_iter=monitor.phases["descent"].iterations if "descent" in monitor.phases else 0,
        certificate=certificate.awaiting(_later_bound(walk, options)) if later else certificate,
        trace=monitor.trace,
        phases=monitor.phases,
        rotation=walk.rotation,
        spectrum=walk.spectrum,
        settings=options.settings,
        plan=walk.plan,
        table_rows=problem.structure.tables,
        guides=() if problem.penalty.guide is None else problem.penalty.guide.outcome(state.U, state.V),
    )


def _left(walk: Walk, certificate: Certificate, stopping: Stopping) -> float:
    """What going on is expected to gain: no more than the bound leaves, unknown where no descent was long enough."""
    left = max(walk.left, SUREST) if walk.status == "settled" else walk.left
    if walk.status == "converged" and stopping.settles:  # stationary before its gains could be compared
        left = min(left, SUREST)
    left = min(left, 1.0 - 1.0 / certificate.ratio) if certificate.bounded else left
    return 0.0 if certificate.exact else left if math.isfinite(left) else math.nan


def _can_wait(walk: Walk, options: RunOptions) -> bool:
    """Whether the bound can be left until somebody asks: it is known to prove nothing about the status, X stays in this
    process, and no limit of time has to be kept."""
    X, spectrum, rank = walk.problem.X, walk.spectrum, walk.rank
    if not options.bound or options.stopping.time_limit is not None or not X.stays:
        return False
    if not walk.problem.loss.has_bound(X) or walk.monitor.interrupted or rank >= min(X.shape):
        return False
    if spectrum is not None and (spectrum.kind == "exact" or spectrum.lower_bound(rank) > 0.0):
        return False
    return _is_beyond_bound(walk)


def _is_beyond_bound(walk: Walk) -> bool:
    """Whether a better factorization without signs is at hand: the SVD, or one of the factors if it may be negative."""
    state, spectrum = walk.state, walk.spectrum
    error = state.error()
    if spectrum is not None and error > NEAR * spectrum.relative_error(walk.rank) * walk.monitor.whole:
        return True
    if state.penalized or walk.problem.structure:
        return False
    rounding = ROUNDING * float(np.finfo(state.X.dtype).eps) * state.X.squared_norm()
    return any(error**2 - _without_signs(half) > CLEARLY * error**2 + rounding for half in state.halves)


def _without_signs(half: Half) -> float:
    """The smallest ||X - F Cᵀ||² of all real F."""
    B, G = half.product, half.other.gram.astype(np.float64)
    BtB = matmul(B.T, B).astype(np.float64)
    return half.X.squared_norm() - float((np.linalg.pinv(G, rcond=1e-10, hermitian=True) * BtB).sum())


def _later_bound(walk: Walk, options: RunOptions) -> Callable[[], float]:
    """The bound, computed when it is called, in the user's units."""
    problem, rank, spectrum = walk.problem, walk.rank, walk.spectrum
    rng, unit = walk.rng.spawn(1)[0], walk.monitor.unit

    def bound() -> float:
        if not problem.X.unchanged():
            warn_outside(
                "X has changed since it was factorized, so its bound is not known any more (0 stands for it): "
                "enmf.certify(X, U, V) certifies the factors for what X is now"
            )
            return 0.0
        with parallel.limit(options.n_threads):
            return bounded(problem.X, spectrum, rank, rng).lower_bound(rank) * unit

    return bound


def _make_bound(walk: Walk, options: RunOptions) -> bool:
    """Give the spectrum a rigorous bound, if there is one and it is wanted; returns whether time did not allow it."""
    X, rank = walk.problem.X, walk.rank
    wanted = options.bound and walk.problem.loss.has_bound(X) and not walk.monitor.interrupted
    if not wanted or rank >= min(X.shape) or X.squared_norm() == 0.0:
        return False
    if not walk.monitor.affords(bound_passes(X, walk.spectrum, rank)):
        return True
    walk.spectrum = bounded(X, walk.spectrum, rank, walk.rng)
    return False


def _confirmed(status: str, certificate: Certificate, whole: float) -> str:
    """The status that the certificate of the final factors allows."""
    if status in BY_USER:
        return status
    if certificate.globally_optimal:
        return "global_optimum"
    if certificate.exact:
        return "exact"
    if status in ("global_optimum", "exact"):  # rounding in the last steps (such as exact_U) has moved the error
        stationary = certificate.kkt <= effective_tol(certificate.tol, certificate.error, whole)
        return "converged" if stationary else "stalled"
    return status


def _remove_dust(state: State) -> None:
    """Set dust to zero; the known products stay valid for the factors without it."""
    U, V = state.U, state.V
    for half, F, C in zip(state.halves, (U, V), (V, U)):
        mixed = half.known is not None and half.known.total is not None  # the sums of its rows are given
        if not half.signed and not mixed:
            half.F = _without_dust(F, _dust(state, C))


def _dust(state: State, C: np.ndarray) -> np.ndarray:
    """Entries whose products with the columns of C are negligible relative to ||X||, given the number of digits."""
    largest = (C if not state.problem.structure else np.abs(C)).max(axis=0).astype(np.float64)
    nothing = float(np.finfo(state.X.dtype).eps) ** 3 * state.problem.loss.size(state.X)
    return np.divide(nothing, largest, out=np.zeros_like(largest), where=largest > 0)


@by_rows
def _without_dust(F: np.ndarray, dust: np.ndarray) -> np.ndarray:
    """F with zeros for dust: near underflow such entries would depend on the unit of X."""
    some = (dust > F) & (F > 0)
    return np.asfortranarray(np.where(some, 0, F)) if some.any() else F


def _what_is_missing(c: Certificate, stopping: Stopping) -> str:
    remedy = "Increase max_iter or tol (tol=0 silences this warning)"
    if not stopping.settles:
        return f"the KKT residual is {c.kkt:.1e}, tol is {stopping.tol:.1e}. {remedy}"
    if math.isnan(c.left):
        return f"too few to tell what going on would gain; the KKT residual is {c.kkt:.1e}. {remedy}"
    return f"going on is expected to gain {100 * c.left:.2g} % of the error. {remedy}"


def warn_about_end(result: Result, stopping: Stopping, by_user: bool, problem: Problem) -> None:
    """One warning for a run that did not end as wished, with the value reached and the remedy."""
    c = result.certificate
    early = None
    if result.status == "max_iter" and stopping.least_kkt > 0 and not c.stationary:
        early = f"not converged after max_iter={stopping.max_iter} iterations: {_what_is_missing(c, stopping)}"
    elif result.status == "interrupted" and by_user:
        early = (
            f"interrupted after {result.n_iter} iterations: these are the best factors so far, with a KKT residual "
            f"of {c.kkt:.1e}"
        )
    if early is not None:
        from sklearn.exceptions import ConvergenceWarning  # here: no other part of a fit needs scikit-learn

        warn_outside(early, ConvergenceWarning)
    if len(c.dead_components) == c.rank and c.relative_error > 0:
        penalized = "the penalty outweighs the data. Decrease it"
        remedy = penalized if problem.penalty else "another start may find better ones"
        warn_outside(f"all components are zero: {remedy}")
    elif c.dead_components and c.relative_error > 1e-8:
        warn_outside(
            f"{len(c.dead_components)} of {c.rank} components are zero: a smaller rank gives the same error, "
            f"or another random_state a smaller one",
            UserWarning,
        )
