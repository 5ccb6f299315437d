"""`enmf.complete`: a start, a descent and a certificate for a matrix with missing entries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from enmf.api.request import Request, solve
from enmf.problem.problem import Problem
from enmf.problem.validation.convert import names_in
from enmf.problem.validation.factors import with_ridge
from enmf.problem.validation.losses import with_loss
from enmf.problem.validation.masks import check_masked_problem
from enmf.run.checks import check_limits
from enmf.run.monitor import Progress
from enmf.run.result import Result
from enmf.run.stopping import Stopping

DEFAULTS = Stopping(tol=1e-4, max_iter=1000)


def complete(
    X: Any,
    rank: int,
    method: str = "enmc",
    *,
    loss: str | float = "frobenius",
    missing: Any = None,
    mask: Any = None,
    weights: Any = None,
    ridge: float | tuple[float, float] = 0.0,
    ridge_scaling: str = "entries",
    init: str | tuple[Any, Any] | None = None,
    tol: float | None = DEFAULTS.tol,
    max_iter: int = DEFAULTS.max_iter,
    time_limit: float | None = None,
    target_error: float | None = None,
    random_state: Any = None,
    n_threads: int | None = None,
    callback: Callable[[Progress], object] | None = None,
    verbose: bool | int = False,
    dtype: Any = None,
    scale: str = "balanced",
    **options: Any,
) -> Result:
    """Factorize a nonnegative matrix with missing entries; U Vᵀ completes it.

    Minimizes 1/2 sum w_ij (x_ij - u_i . v_j)² (or another loss, each term times its weight) over the observed entries
    plus 1/2 sum p_i ||u_i||² + 1/2 sum q_j ||v_j||², over U >= 0 and V >= 0.

    Parameters
    ----------
    X : array-like or scipy sparse matrix of shape (n, m)
        Nonnegative where it is observed. Never changed, never made dense.
    rank : int
        Number of components r.
    method : str
        "enmc" (softImpute-ALS, rotation, feasibility, descent) or an opponent, see `enmf.completion_methods()`.
    loss : {"frobenius", "kullback-leibler", "itakura-saito"} or float
        What is minimized: 1/2 ||X - U Vᵀ||², or a beta divergence, 0 <= beta <= 2 (see docs/losses.md).
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
    scale : {"balanced", "sum", "max", "norm"}
        As for `enmf.factorize`; a ridge decides on the scale itself.
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
    details = {"missing": missing if isinstance(missing, str) else None, "ridge": ridge, "ridge_scaling": ridge_scaling}
    request = Request.of(locals())
    problem = with_loss(check_masked_problem(X, missing, mask, weights, dtype), loss)
    problem = with_ridge(problem, ridge, ridge_scaling)
    result = complete_problem(problem, rank, request)
    rows, features = names_in(X)
    return replace(result, row_names=rows, feature_names=features)


def complete_problem(problem: Problem, rank: int, request: Request) -> Result:
    """`complete` for an X and a ridge that are already validated; plain eNMF where no entry is missing or weighted,
    there is no ridge, and method, init and options are the defaults."""
    usual = request.method == "enmc" and not request.options and request.init in (None, "exterior")
    if problem.whole is None or problem.penalty or not usual:
        return solve(problem, rank, request)
    return solve(problem.whole, rank, replace(request, method="enmf", init=None))
