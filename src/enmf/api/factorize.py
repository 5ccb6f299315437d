"""`enmf.factorize`: a start, a descent, a certificate (paper, Algorithm 3)."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from enmf import parallel
from enmf.api import registry
from enmf.certificate.certificate import Certificate, accurate_error, balance, make_certificate
from enmf.distributed.chunked import ChunkedMatrix
from enmf.distributed.engine import WorkersLost
from enmf.distributed.rows import by_rows
from enmf.exterior.pipeline import PAPER, ExteriorOptions, exterior_start
from enmf.linalg.nnls import solve_nnls
from enmf.linalg.rotation import Rotation
from enmf.linalg.svd import Spectrum, bound_passes, plan, sharpen, truncated_svd
from enmf.matrix.base import Matrix
from enmf.parallel import matmul
from enmf.problem.state import Iterate, Penalty
from enmf.problem.validation.arrays import Problem, check_problem, names_in
from enmf.problem.validation.factors import check_init, check_rank
from enmf.problem.validation.numbers import (
    check_callback,
    check_choice,
    check_flag,
    check_path,
    check_threads,
    make_rng,
)
from enmf.problem.validation.options import check_limits, check_options
from enmf.problem.validation.penalties import check_penalty
from enmf.problem.validation.warn import warn_outside
from enmf.run.checkpoint import Checkpoint
from enmf.run.loop import descend
from enmf.run.method import Method
from enmf.run.progress import display
from enmf.run.result import Result
from enmf.run.stopping import Monitor, Progress, Stopping, effective_tol, interruptible
from enmf.run.trace import Phase

LARGE_U = 1 << 29  # bytes of U from which bringing it to the caller is worth a warning
FAR = 10.0  # error / bound from which a further start is worth its time
CHEAP = 5e7  # flops of a step (a millisecond) up to which it always is
DEFAULTS = Stopping()


def factorize(
    X: Any,
    rank: int,
    method: str = "enmf",
    *,
    init: str | tuple[Any, Any] | None = None,
    tol: float = DEFAULTS.tol,
    max_iter: int = DEFAULTS.max_iter,
    time_limit: float | None = None,
    target_error: float | None = None,
    random_state: Any = None,
    n_threads: int | None = None,
    callback: Callable[[Progress], object] | None = None,
    verbose: bool | int = False,
    preset: str | None = None,
    dtype: Any = None,
    bound: bool = True,
    exact_U: bool = False,
    memory_limit: int | str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Result:
    """Factorize a nonnegative matrix, X ~ U Vᵀ with U >= 0 and V >= 0, in the Frobenius norm.

    Parameters
    ----------
    X : array-like or scipy sparse matrix of shape (n, m)
        Nonnegative, complete. Rows are samples. Unstored entries of a sparse X are zeros. Never changed. Read in blocks
        and never loaded whole: a Dask array, a Zarr array, an HDF5 dataset, the name of an npy file or of a folder of
        npz, npy or parquet parts, and with `memory_limit` a memory map (see docs/scaling.md).
    rank : int
        Number of components r.
    method : str
        "enmf" (the exterior method) or a descent method by name, see `enmf.methods()`.
    init : str or (U, V), optional
        Start by name, see `enmf.initializations()`, or factors to start from; with (None, V), U begins as the best one
        for V. Default: "exterior" for "enmf", "nndsvdar" otherwise.
    tol : float
        The run has converged when the scale-free KKT residual (`Certificate.kkt`) is at most `tol`. When the relative
        error is below 1 %, the threshold shrinks in proportion, so that a nearly exact factorization is not ended
        early.
    max_iter : int
        Largest number of descent iterations.
    time_limit : float, optional
        Seconds after which the factors reached so far are returned. They count from the call; a bound that would take
        longer is left out (`Certificate.bound_skipped`).
    target_error : float, optional
        End as soon as ||X - U Vᵀ||_F is at most this.
    random_state : int, RandomState, Generator or None
        Seed; the same seed gives the same result, whatever the number of threads.
    n_threads : int, optional
        Threads for BLAS and for our kernels. Default: what BLAS may use now.
    callback : callable, optional
        Called with a `Progress` (iteration, phase, seconds, error, kkt, passes, U, V) each iteration; a true return
        value ends the run with status "interrupted".
    verbose : bool
        Show progress while running.
    preset : {"paper"}, optional
        Follow the paper to the letter: exact SVD, rotation from the identity with constant rho, penalty stage and HALS
        on X. Options given explicitly still win.
    dtype : {float32, float64}, optional
        Precision to work in. Default: that of X if it is one of these, else float64.
    bound : bool
        Compute the Eckart-Young bound of the certificate also where that needs extra passes over X (large X). With
        False it is 0 there, which is a bound too.
    exact_U : bool
        Finish with U solved to optimality for the final V (nonnegative least squares), as `ENMF` does: U then depends
        on X and V alone.
    memory_limit : int or str, optional
        Bytes ("2GB") that an X read in blocks may take on this machine; blocks in work take a quarter of it at most,
        blocks that are kept between passes half of it. The factors come on top.
    checkpoint : path, optional
        A folder: the factors are saved there during the descent, and a later call with the same X and rank goes on
        from them.
    **options
        Fields of `enmf.exterior.pipeline.ExteriorOptions` (svd, rotation, feasibility, surrogate, ...), `descent` (the
        descent method of "enmf", default "e-hals"), parameters of the descent method, and penalty weights l1_U, l2_U,
        l1_V, l2_V.

    Returns
    -------
    Result
        U, V, error, status, certificate, trace, phases.

    Examples
    --------
    >>> import enmf
    >>> from sklearn.datasets import load_digits
    >>> result = enmf.factorize(load_digits().data, 10, random_state=0)
    >>> result.status
    'converged'
    >>> bool(result.U.min() >= 0), bool(result.V.min() >= 0)
    (True, True)
    >>> result.certificate.stationary
    True
    """
    stopping = check_limits(tol, max_iter, time_limit, target_error)
    result = factorize_problem(
        check_problem(X, dtype, memory_limit),
        rank,
        method,
        init=init,
        stopping=stopping,
        random_state=random_state,
        n_threads=check_threads(n_threads),
        callback=callback,
        verbose=verbose,
        preset=preset,
        bound=bound,
        exact_U=exact_U,
        options=options,
        checkpoint=checkpoint,
    )
    start = init if isinstance(init, str) or init is None else "given factors"
    limits = {"tol": tol, "max_iter": max_iter, "time_limit": time_limit, "target_error": target_error}
    settings = {"method": method, "init": start, **limits, "random_state": plain_seed(random_state), "preset": preset}
    rows, features = names_in(X)
    return replace(result, settings={**settings, **options}, row_names=rows, feature_names=features)


def plain_seed(random_state: Any) -> Any:
    """What a reader can repeat: a number, or the kind of generator it came from."""
    return random_state if random_state is None or isinstance(random_state, int) else type(random_state).__name__


def factorize_problem(
    problem: Problem,
    rank: int,
    method: str,
    *,
    init: str | tuple[Any, Any] | None,
    stopping: Stopping,
    random_state: Any,
    n_threads: int | None,
    callback: Callable[[Progress], object] | None,
    verbose: bool | int,
    preset: str | None,
    bound: bool,
    exact_U: bool,
    options: dict[str, Any],
    checkpoint: str | os.PathLike[str] | None = None,
    spectrum: Spectrum | None = None,
    rank_name: str = "rank",
) -> Result:
    """`factorize` for an X that has come through the door already; a spectrum at hand saves the SVD."""
    check_choice("method", method, registry.methods())
    check_callback(callback)
    check_path("checkpoint", checkpoint)
    check_flag("bound", bound)
    check_flag("exact_U", exact_U)
    rng = make_rng(random_state)
    rank = check_rank(rank, problem.X, rank_name)
    choices = _sort_options(method, preset, options)
    penalty = check_penalty(problem, **choices.weights)
    start = _check_start(init, method, problem, rank)
    with parallel.limit(n_threads), display(verbose, callback) as watch:
        saved = None
        if checkpoint is not None:
            kept = Checkpoint(checkpoint, _about(problem, rank, method))
            watch, saved = kept.watching(watch), kept.load()
        monitor = Monitor(stopping, problem.X, watch, problem.scale)
        if saved is not None:
            choices.resumed, start = start == "exterior", (saved.U, saved.V)
            monitor.phases["descent"] = Phase(iterations=saved.iterations)
        with interruptible(monitor), keeping_factors(monitor, problem.scale):
            it, status, spectrum, rotation = _run(problem.X, rank, start, choices, penalty, monitor, rng, spectrum)
            del choices  # the method may hold rows of its own
            result = finish(it, status, spectrum, rotation, monitor, problem.scale, rng, bound, exact_U)
    warn_about_end(result, stopping, monitor.interrupted and callback is None, bool(penalty))
    return result


def _scatter(X: Matrix, wanted: bool, rank: int) -> None:
    """Leave what has n rows with the blocks of X, or bring it here for phases that need it so."""
    if not isinstance(X, ChunkedMatrix):
        return
    nbytes = X.shape[0] * rank * X.dtype.itemsize
    if X.scattered and not wanted and nbytes > LARGE_U:
        warn_outside(
            f"this start or method brings U and X V ({X.shape[0]} x {rank}, {nbytes / 1e9:.1f} GB each) to the caller. "
            "'enmf' with its default options leaves them with the blocks of X"
        )
    X.scattered = wanted


def _about(problem: Problem, rank: int, method: str) -> dict[str, Any]:
    """What a checkpoint must agree in."""
    X = problem.X
    norm = math.sqrt(X.squared_norm()) * problem.scale
    return {"shape": list(X.shape), "dtype": str(X.dtype), "norm of X": norm, "rank": rank, "method": method}


@contextmanager
def keeping_factors(monitor: Monitor, scale: float) -> Iterator[None]:
    """An error about lost workers leaves with the last factors, in the user's units."""
    try:
        yield
    except WorkersLost as lost:
        if monitor.latest is not None:
            root = np.asarray(math.sqrt(scale), monitor.X.dtype)
            U, V = monitor.latest
            lost.V = np.ascontiguousarray(np.maximum(V, 0) * root)
            if U is not None:
                lost.U = np.ascontiguousarray(np.maximum(U, 0) * root)
        raise


class _Choices:
    """Options sorted by whom they concern."""

    def __init__(
        self, exterior: ExteriorOptions, make_descent: Callable[[], Method], weights: dict[str, float]
    ) -> None:
        self.exterior, self.make_descent, self.weights = exterior, make_descent, weights
        self.descent = make_descent()  # of the first start; a further one begins with a method that remembers nothing
        self.resumed = False  # whether given factors are those of an exterior start


def _sort_options(method: str, preset: str | None, options: dict[str, Any]) -> _Choices:
    if preset not in (None, "paper"):
        raise ValueError(f"preset={preset!r} is not known; choose 'paper' or None")
    options = {**(PAPER if preset == "paper" else {}), **options}
    default = "hals" if preset == "paper" else "e-hals"
    name = options.pop("descent", default) if method == "enmf" else method
    check_choice("descent", name, list(registry.DESCENTS))
    check_options(options)
    of_exterior = {field.name for field in fields(ExteriorOptions)}
    of_penalty = {field.name for field in fields(Penalty)}
    exterior = {key: value for key, value in options.items() if key in of_exterior}
    if method != "enmf":
        exterior.setdefault("restarts", 0)  # one start, then the method
    weights = {key: value for key, value in options.items() if key in of_penalty}
    rest = {key: value for key, value in options.items() if key not in of_exterior | of_penalty}
    try:
        return _Choices(ExteriorOptions(**exterior), partial(registry.DESCENTS[name], **rest), weights)
    except TypeError:
        known = sorted(of_exterior | of_penalty | {"descent"})
        raise TypeError(
            f"unknown option {', '.join(map(repr, rest))} for method {method!r} with descent {name!r}; besides the "
            f"parameters of the descent method there are {', '.join(known)}"
        ) from None


def _check_start(init: Any, method: str, problem: Problem, rank: int) -> str | tuple[np.ndarray | None, np.ndarray]:
    if init is None:
        own = method != "enmf" and registry.DESCENTS[method].default_start is not None
        return "exterior" if method == "enmf" else "own" if own else "nndsvdar"
    return check_init(init, registry.initializations(), problem.X, rank, problem.scale, best_U=True)


def _run(
    X: Matrix,
    rank: int,
    start: str | tuple[np.ndarray | None, np.ndarray],
    choices: _Choices,
    penalty: Penalty,
    monitor: Monitor,
    rng: np.random.Generator,
    spectrum: Spectrum | None = None,
) -> tuple[Iterate, str, Spectrum | None, Rotation | None]:
    """Start and descent; the spectrum and the rotation where the start has them."""
    done = monitor.phases["descent"].iterations if "descent" in monitor.phases else 0  # before a checkpoint
    max_iter = max(0, monitor.stopping.max_iter - done)
    if X.squared_norm() == 0.0:
        U, V = (np.zeros((length, rank), X.dtype, order="F") for length in X.shape)
        return Iterate(X, U, V, penalty), "global_optimum", None, None
    if start == "exterior" and rank >= min(X.shape) and not penalty:
        it = Iterate(X, *_trivial(X, rank))
        return it, descend(it, choices.descent, monitor, max_iter=0), None, None
    if start != "exterior":
        if isinstance(start, str):
            make_start = choices.descent.default_start if start == "own" else registry.STARTS[start]
            assert make_start is not None
            _scatter(X, False, rank)
            with monitor.phase("init"):
                U, V = make_start(X, rank, rng)
            _scatter(X, choices.descent.in_blocks, rank)
        else:
            _scatter(X, choices.descent.in_blocks, rank)
            given, V = start
            if given is None:
                with monitor.phase("init"):
                    given = solve_nnls(matmul(V.T, V), X.times(V))
            U = given
        it = Iterate(X, U, V, penalty)
        status = descend(it, choices.descent, monitor, max_iter=max_iter)
        if not choices.resumed:
            return it, status, None, None
        return _best_of_starts(it, status, None, None, choices, monitor, rng)

    monitor.phases.update(dict.fromkeys(("svd", "rotation", "feasibility", "descent"), Phase()))
    exterior = choices.exterior
    if spectrum is not None:
        monitor.lower_bound = spectrum.lower_bound(rank)
    _scatter(X, choices.descent.in_blocks and exterior.sample and exterior.feasibility == "path", rank)
    found = exterior_start(X, min(rank, *X.shape), exterior, monitor, rng, spectrum)
    if penalty:
        monitor.lower_bound = 0.0  # meeting the bound of the error is not the aim then
    it = Iterate(X, *_padded(found.U, found.V, rank), penalty)
    if _is_global_optimum(it, monitor):
        return it, "global_optimum", found.spectrum, found.rotation
    status = descend(it, choices.descent, monitor, max_iter=max_iter)
    return _best_of_starts(it, status, found.spectrum, found.rotation, choices, monitor, rng)


def _best_of_starts(
    it: Iterate,
    status: str,
    spectrum: Spectrum | None,
    rotation: Rotation | None,
    choices: _Choices,
    monitor: Monitor,
    rng: np.random.Generator,
) -> tuple[Iterate, str, Spectrum | None, Rotation | None]:
    """Further starts where they are worth their time; the best pair of all.

    They depend on the seed alone, and a checkpoint is one of the first descent: a run that was cut off and goes on from
    there tries the same ones.
    """
    X, rank, exterior = it.X, it.rank, choices.exterior
    if it.penalty or rank >= min(X.shape):
        return it, status, spectrum, rotation
    cheap = choices.descent.step_flops(it) <= CHEAP
    for child in rng.spawn(exterior.restarts):
        if status not in ("converged", "stalled") or monitor.out_of_time():
            break
        if spectrum is None and plan(X, rank, exterior.svd)[0] == "exact":
            with monitor.phase("svd"):
                spectrum = truncated_svd(X, rank, kind="exact", rng=rng)
            monitor.lower_bound = spectrum.lower_bound(rank)
        if spectrum is None or spectrum.kind != "exact":  # an iterative one has no bound yet
            break
        if not cheap and not _far_from_bound(it, monitor):
            break
        with monitor.restarting():
            again = exterior_start(X, rank, replace(exterior, rotation="random"), monitor, child, spectrum)
            other = Iterate(X, again.U, again.V)
            other_status = descend(other, choices.make_descent(), monitor, max_iter=monitor.stopping.max_iter)
        if other.squared_error() < it.squared_error():
            it, status, rotation = other, other_status, again.rotation
    return it, status, spectrum, rotation


def _is_global_optimum(it: Iterate, monitor: Monitor) -> bool:
    """Whether the start meets the bound already. The product this needs is the first one of the descent."""
    if monitor.lower_bound == 0.0 or monitor.out_of_time():
        return False
    with monitor.phase("certificate"):
        error = accurate_error(it)
    if monitor.proven(error) != "global_optimum":
        return False
    monitor.record(0, "certificate", error, math.nan, it.U, it.V)
    return True


def _far_from_bound(it: Iterate, monitor: Monitor) -> bool:
    return math.sqrt(max(it.squared_error(), 0.0)) > FAR * max(monitor.lower_bound, 1e-8 * monitor.whole)


def _trivial(X: Matrix, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """X = X I or X = I X, exact, where the rank is not below a side of X."""
    n, m = X.shape
    identity = np.eye(min(n, m), dtype=X.dtype)
    if m <= n:
        return _padded(X.times(identity), identity, rank)
    return _padded(identity, X.transpose_times(identity), rank)


def _padded(U: np.ndarray, V: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Zero components up to the rank."""
    missing = rank - U.shape[1]
    if missing <= 0:
        return U, V
    return _widened(U, missing), _widened(V, missing)


@by_rows
def _widened(F: np.ndarray, missing: int) -> np.ndarray:
    return np.asfortranarray(np.pad(F, ((0, 0), (0, missing))))


def finish(
    it: Iterate,
    status: str,
    spectrum: Spectrum | None,
    rotation: Rotation | None,
    monitor: Monitor,
    scale: float,
    rng: np.random.Generator,
    bound: bool,
    exact_U: bool,
) -> Result:
    """Order and scale of the components, bound, certificate, and the user's units."""
    X, rank = it.X, it.rank
    with monitor.phase("certificate"):
        if not it.penalty and it.squared_error() > X.squared_norm():
            it.fit_scale()  # a run that was cut short at a poor start is no worse than zero factors
        if it.penalty:
            size = np.sqrt(np.diag(it.UtU).astype(np.float64) * np.diag(it.VtV))
            it.arrange(np.argsort(-size, kind="stable"), np.ones(rank))
        else:
            balance(it)
        # the products at hand are those of the factors without dust, too
        it.U, it.V = _without_dust(it.U, _dust(it, it.V)), _without_dust(it.V, _dust(it, it.U))
        if exact_U:
            it.V_changed()  # the product anew: U must depend on X and V alone
            it.set_U(solve_nnls(*it.normal_U()))
        wanted = bound and not monitor.interrupted and rank < min(X.shape) and X.squared_norm() > 0
        skipped = wanted and not monitor.affords(bound_passes(X, spectrum, rank))
        if wanted and not skipped:
            if spectrum is None:
                spectrum = truncated_svd(X, rank, rng=rng)
            spectrum = sharpen(X, spectrum, rng=rng)
        lower_bound = spectrum.lower_bound(rank) if spectrum is not None else 0.0
        certificate = replace(make_certificate(it, lower_bound, monitor.stopping.tol), bound_skipped=skipped)
    status = _confirmed(status, certificate, math.sqrt(X.squared_norm()))
    root = np.asarray(math.sqrt(scale), X.dtype)
    return Result(
        U=X.public(it.U * root),
        V=np.ascontiguousarray(it.V * root),
        status=status,
        n_iter=monitor.phases["descent"].iterations if "descent" in monitor.phases else 0,
        certificate=in_users_units(certificate, scale),
        trace=monitor.trace,
        phases=monitor.phases,
        rotation=rotation,
        spectrum=spectrum,
    )


def _confirmed(status: str, certificate: Certificate, whole: float) -> str:
    """The status that the certificate of the final factors allows."""
    if status not in ("global_optimum", "exact", "converged", "stalled", "max_iter"):
        return status
    if certificate.globally_optimal:
        return "global_optimum"
    if certificate.exact:
        return "exact"
    if status in ("global_optimum", "exact"):  # rounding in the last steps (exact_U, say) has moved it
        stationary = certificate.kkt <= effective_tol(certificate.tol, certificate.error, whole)
        return "converged" if stationary else "stalled"
    return status


def _dust(it: Iterate, C: np.ndarray) -> np.ndarray:
    """Entries beside the columns of C whose products with them are nothing beside ||X||, by the number of digits."""
    largest = C.max(axis=0).astype(np.float64)
    nothing = float(np.finfo(it.X.dtype).eps) ** 3 * math.sqrt(it.X.squared_norm())
    return np.divide(nothing, largest, out=np.zeros_like(largest), where=largest > 0)


@by_rows
def _without_dust(F: np.ndarray, dust: np.ndarray) -> np.ndarray:
    """Zeros for entries of no weight: near the end of the number range they would depend on the unit of X."""
    return np.asfortranarray(np.where(dust > F, 0, F))


def in_users_units(certificate: Certificate, scale: float) -> Certificate:
    """The certificate of X / scale as that of X."""
    if scale == 1.0:
        return certificate
    return replace(
        certificate,
        error=certificate.error * scale,
        lower_bound=certificate.lower_bound * scale,
        kkt_max=certificate.kkt_max * scale * scale,
        kkt_sum=certificate.kkt_sum * scale * scale,
        min_gradient=certificate.min_gradient * scale * math.sqrt(scale),
        components=tuple(replace(c, norm=c.norm * scale) for c in certificate.components),
    )


def warn_about_end(result: Result, stopping: Stopping, by_user: bool, penalized: bool) -> None:
    """One warning for a run that did not end as wished, with the value reached and the remedy."""
    c = result.certificate
    if result.status == "max_iter" and stopping.tol > 0 and not c.stationary:
        warn_outside(
            f"not converged after max_iter={stopping.max_iter} iterations: the KKT residual is {c.kkt:.1e}, "
            f"tol is {stopping.tol:.1e}. Increase max_iter or tol (tol=0 silences this warning)",
            ConvergenceWarning,
        )
    elif result.status == "interrupted" and by_user:
        warn_outside(
            f"interrupted after {result.n_iter} iterations: these are the best factors so far, with a KKT residual "
            f"of {c.kkt:.1e}",
            ConvergenceWarning,
        )
    if len(c.dead_components) == c.rank and c.relative_error > 0:
        remedy = "the penalty outweighs the data. Decrease it" if penalized else "another start may find better ones"
        warn_outside(f"all components are zero: {remedy}")
    elif c.dead_components and c.relative_error > 1e-8:
        warn_outside(
            f"{len(c.dead_components)} of {c.rank} components are zero: a smaller rank gives the same error, "
            f"or another random_state a smaller one",
            UserWarning,
        )


__all__ = ["factorize"]
