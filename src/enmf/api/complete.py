"""`enmf.complete`: a start, a descent and a certificate for a matrix with missing entries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np

from enmf import parallel
from enmf.api.factorize import factorize_problem, finish, plain_seed, warn_about_end
from enmf.certificate.certificate import Certificate
from enmf.exterior.softimpute import CompletionOptions, exterior_start, random_start
from enmf.kernels import masked as kernels
from enmf.linalg.rotation import Rotation
from enmf.matrix.masked import MaskedMatrix
from enmf.problem.masked import MaskedIterate, Ridge
from enmf.problem.validation.arrays import names_in
from enmf.problem.validation.factors import check_init
from enmf.problem.validation.masks import MaskedProblem, check_masked_problem, check_masked_rank
from enmf.problem.validation.numbers import check_callback, check_choice, check_threads, make_rng
from enmf.problem.validation.options import check_limits, check_options
from enmf.problem.validation.penalties import check_ridge
from enmf.problem.validation.warn import warn_outside
from enmf.run.loop import descend
from enmf.run.method import Method
from enmf.run.progress import display
from enmf.run.result import Result
from enmf.run.stopping import Monitor, Progress, Stopping, interruptible
from enmf.run.trace import Phase
from enmf.solvers.masked import METHODS, MaskedExtrapolated

DEFAULTS = Stopping(tol=1e-4, max_iter=1000)
STARTS = ("exterior", "random")
SWEEPS = 20  # coordinate sweeps that find the support of an exact solution


def complete(
    X: Any,
    rank: int,
    method: str = "enmc",
    *,
    missing: Any = None,
    mask: Any = None,
    weights: Any = None,
    ridge: float | tuple[float, float] = 0.0,
    ridge_scaling: str = "entries",
    init: str | tuple[Any, Any] | None = None,
    tol: float = DEFAULTS.tol,
    max_iter: int = DEFAULTS.max_iter,
    time_limit: float | None = None,
    target_error: float | None = None,
    random_state: Any = None,
    n_threads: int | None = None,
    callback: Callable[[Progress], object] | None = None,
    verbose: bool | int = False,
    dtype: Any = None,
    **options: Any,
) -> Result:
    """Factorize a nonnegative matrix of which entries are missing; U Vᵀ completes it.

    Minimizes 1/2 sum w_ij (x_ij - u_i . v_j)² over the observed entries plus 1/2 sum p_i ||u_i||² + 1/2 sum q_j
    ||v_j||², over U >= 0 and V >= 0.

    Parameters
    ----------
    X : array-like or scipy sparse matrix of shape (n, m)
        Nonnegative where it is observed. Never changed, never made dense.
    rank : int
        Number of components r.
    method : str
        "enmc" (softImpute-ALS, rotation, feasibility, descent) or an opponent, see `enmf.completion_methods()`.
    missing : {"nan", "unstored", "none"} or boolean matrix
        What is missing. In a dense X: NaN (the default). A sparse X needs the choice: "unstored" (all that it does not
        store; stored zeros are observed), "none" (unstored entries are zeros), "nan" (unstored entries are zeros,
        stored NaN are missing). A boolean matrix, dense or sparse, is True where an entry is missing.
    mask : boolean matrix, optional
        Instead of `missing`: True where an entry is observed.
    weights : matrix of shape (n, m), optional
        Weights w >= 0 of the observed entries, dense or sparse with their pattern; weight 0 means missing.
    ridge : float or (float, float)
        Regularisation of U and V. It has the unit of X: c X with c ridge has sqrt(c) times the factors.
    ridge_scaling : {"entries", "none"}
        "entries": p_i = ridge * (number of observed entries, or sum of the weights, of row i), q_j likewise. "none":
        p_i = q_j = ridge.
    init : str or (U, V), optional
        "exterior" (default of "enmc"), "random" (default of the others), or factors.
    tol : float
        The run has converged when the scale-free KKT residual over the observed entries, ridge included, is at most
        this.
    max_iter, time_limit, target_error, random_state, n_threads, callback, verbose, dtype
        As for `enmf.factorize`.
    **options
        Fields of `enmf.exterior.softimpute.CompletionOptions`, and parameters of the descent method.

    Returns
    -------
    Result
        As for `enmf.factorize`; `error` is the (weighted) norm over the observed entries. Rows and columns without any
        observation have zero factors. There is no Eckart-Young bound with missing entries: `certificate.lower_bound`
        is 0. A complete X without weights and ridge is handed to `enmf.factorize`.

    Examples
    --------
    >>> import numpy as np, enmf
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.random((60, 3)) @ rng.random((3, 50))
    >>> X = np.where(rng.random(truth.shape) < 0.5, np.nan, truth)
    >>> result = enmf.complete(X, 3, random_state=0, tol=1e-6)
    >>> bool(abs(result.U @ result.V.T - truth).max() < 1e-3)
    True
    """
    stopping = check_limits(tol, max_iter, time_limit, target_error)
    result = complete_problem(
        check_masked_problem(X, missing, mask, weights, dtype),
        rank,
        method,
        ridge=ridge,
        ridge_scaling=ridge_scaling,
        init=init,
        stopping=stopping,
        random_state=random_state,
        n_threads=check_threads(n_threads),
        callback=callback,
        verbose=verbose,
        exact_U=False,
        options=options,
    )
    start = init if isinstance(init, str) or init is None else "given factors"
    limits = {"tol": tol, "max_iter": max_iter, "time_limit": time_limit, "target_error": target_error}
    settings = {"method": method, "init": start, **limits, "random_state": plain_seed(random_state)}
    of_data = {"missing": missing if isinstance(missing, str) else None, "ridge": ridge, "ridge_scaling": ridge_scaling}
    rows, features = names_in(X)
    return replace(result, settings={**settings, **of_data, **options}, row_names=rows, feature_names=features)


def complete_problem(
    problem: MaskedProblem,
    rank: int,
    method: str,
    *,
    ridge: Any,
    ridge_scaling: str,
    init: str | tuple[Any, Any] | None,
    stopping: Stopping,
    random_state: Any,
    n_threads: int | None,
    callback: Callable[[Progress], object] | None,
    verbose: bool | int,
    exact_U: bool,
    options: dict[str, Any],
    rank_name: str = "rank",
) -> Result:
    """`complete` for an X that has come through the door already."""
    check_choice("method", method, completion_methods())
    check_callback(callback)
    of_rows, of_columns = check_ridge(problem, ridge, ridge_scaling)
    penalty = Ridge(of_rows, of_columns)
    X = problem.X
    if problem.complete is not None and method == "enmc" and not penalty and not options and init in (None, "exterior"):
        return factorize_problem(
            problem.complete,
            rank,
            "enmf",
            init=None,
            stopping=stopping,
            random_state=random_state,
            n_threads=n_threads,
            callback=callback,
            verbose=verbose,
            preset=None,
            bound=True,
            exact_U=exact_U,
            options={},
            rank_name=rank_name,
        )
    rng = make_rng(random_state)
    rank = check_masked_rank(rank, X, bool(penalty), rank_name)
    exterior, descent = _sort_options(method, options)
    start = _check_start(init, method, problem, rank)
    unit = problem.scale * float(np.sqrt(problem.weight_unit))
    _warn_about_cold(X)
    with parallel.limit(n_threads), display(verbose, callback) as watch:
        monitor = Monitor(stopping, X, watch, unit)
        with interruptible(monitor):
            it, status, rotation = _run(X, rank, start, exterior, descent, penalty, monitor, rng)
            if exact_U and not monitor.interrupted:
                it.set_U(solve_rows_exactly(X, it.V, penalty.rows))
            result = finish(it, status, None, rotation, monitor, problem.scale, rng, bound=False, exact_U=False)
    result = replace(result, certificate=in_units_of_weights(result.certificate, problem.weight_unit))
    warn_about_end(result, stopping, monitor.interrupted and callback is None, bool(penalty))
    return result


def completion_methods() -> list[str]:
    """Names accepted as `method` by `enmf.complete`."""
    return ["enmc", *METHODS]


def solve_rows_exactly(X: MaskedMatrix, V: np.ndarray, ridge: np.ndarray) -> np.ndarray:
    """argmin over U >= 0 for this V, row by row, exact to rounding; rows without observations become zero.

    It depends on X and V alone, so that `transform` gives what `fit_transform` gave.
    """
    V64 = np.asfortranarray(V, dtype=np.float64)
    U = np.zeros((X.shape[0], V.shape[1]), order="F")
    X.run(kernels.sweep, X.rows, U, V64, ridge, np.inf, SWEEPS, 1e-4)
    X.run(kernels.solve, X.rows, U, V64, ridge)
    U[X.rows.totals == 0] = 0
    return U.astype(X.dtype, copy=False)


def _sort_options(method: str, options: dict[str, Any]) -> tuple[CompletionOptions, Method]:
    check_options(options)
    of_start = {field.name for field in fields(CompletionOptions)}
    start = {key: value for key, value in options.items() if key in of_start}
    rest = {key: value for key, value in options.items() if key not in of_start}
    kind = MaskedExtrapolated if method == "enmc" else METHODS[method]
    try:
        return CompletionOptions(**start), kind(**rest)
    except TypeError:
        raise TypeError(
            f"unknown option {', '.join(map(repr, rest))} for method {method!r}; besides the parameters of the descent "
            f"method there are {', '.join(sorted(of_start))}"
        ) from None


def _check_start(init: Any, method: str, problem: MaskedProblem, rank: int) -> str | tuple[np.ndarray, np.ndarray]:
    if init is None:
        return "exterior" if method == "enmc" else "random"
    return check_init(init, list(STARTS), problem.X, rank, problem.scale)


def _run(
    X: MaskedMatrix,
    rank: int,
    start: str | tuple[np.ndarray, np.ndarray],
    options: CompletionOptions,
    descent: Method,
    ridge: Ridge,
    monitor: Monitor,
    rng: np.random.Generator,
) -> tuple[MaskedIterate, str, Rotation | None]:
    rotation = None
    if X.squared_norm() == 0.0:
        U, V = (np.zeros((length, rank), X.dtype, order="F") for length in X.shape)
        return MaskedIterate(X, U, V, ridge), "global_optimum", None
    if start == "exterior":
        phases = ("softimpute", "rotation", "feasibility", "descent")
        monitor.phases.update(dict.fromkeys(phases, Phase()))
        it, rotation = exterior_start(X, rank, ridge, options, monitor, rng)
    else:
        U, V = random_start(X, rank, rng) if isinstance(start, str) else start
        it = MaskedIterate(X, U, V, ridge)
    for F, side in ((it.U, X.rows), (it.V, X.columns)):
        F[side.totals == 0] = 0  # nothing is known about these rows; no method changes them
    it.U_changed()
    it.V_changed()
    return it, descend(it, descent, monitor, max_iter=monitor.stopping.max_iter), rotation


def _warn_about_cold(X: MaskedMatrix) -> None:
    rows, columns = (int((side.totals == 0).sum()) for side in (X.rows, X.columns))
    if rows or columns:
        warn_outside(
            f"{rows} of {X.shape[0]} rows and {columns} of {X.shape[1]} columns have no observed entry; "
            "their factors are zero"
        )


def in_units_of_weights(certificate: Certificate, unit: float) -> Certificate:
    """The certificate of a problem whose weights were divided by `unit`, as that of the user's weights."""
    if unit == 1.0:
        return certificate
    return replace(
        certificate,
        error=certificate.error * float(np.sqrt(unit)),
        kkt_max=certificate.kkt_max * unit,
        kkt_sum=certificate.kkt_sum * unit,
        min_gradient=certificate.min_gradient * unit,
    )
