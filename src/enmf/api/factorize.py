"""`enmf.factorize`: a start, a descent, a certificate (paper, Algorithm 3)."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from enmf.api.request import Request, prepare
from enmf.problem.validation.arrays import check_problem
from enmf.problem.validation.convert import names_in
from enmf.problem.validation.losses import with_loss
from enmf.run.checks import check_limits
from enmf.run.monitor import Progress
from enmf.run.result import Result
from enmf.run.run import run
from enmf.run.stopping import DEFAULTS


def factorize(
    X: Any,
    rank: int,
    method: str = "enmf",
    *,
    loss: str | float = "frobenius",
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
    """Factorize a nonnegative matrix, X ~ U Vᵀ with U >= 0 and V >= 0.

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
    loss : {"frobenius", "kullback-leibler", "itakura-saito"} or float
        What is minimized: 1/2 ||X - U Vᵀ||², or a beta divergence, 0 <= beta <= 2 (see docs/losses.md).
    init : str or (U, V), optional
        Start by name, see `enmf.initializations()`, or factors to start from; with (None, V), U starts as the best one
        for V. Default: "exterior" for "enmf", "nndsvdar" otherwise.
    tol : float
        The run has converged when the scale-free KKT residual (`Certificate.kkt`) is at most `tol`. When the relative
        error is below 1 %, the threshold shrinks in proportion, so that a nearly exact factorization does not end
        early.
    max_iter : int
        Maximum number of descent iterations.
    time_limit : float, optional
        Seconds, counted from the call, after which the factors reached so far are returned; a bound that would take
        longer is skipped (`Certificate.bound_skipped`).
    target_error : float, optional
        End as soon as the error (||X - U Vᵀ||_F, or sqrt(2 loss) for other losses) is at most this.
    random_state : int, RandomState, Generator or None
        Seed; the same seed gives the same result, whatever the number of threads.
    n_threads : int, optional
        Threads for BLAS and for our kernels. Default: as many as BLAS may currently use.
    callback : callable, optional
        Called with a `Progress` (iteration, phase, seconds, error, kkt, passes, U, V) every iteration; a true return
        value ends the run with status "interrupted".
    verbose : bool
        Show progress while running.
    preset : {"paper"}, optional
        Follow the paper to the letter: exact SVD, rotation from the identity with constant rho, penalty stage and HALS
        on X. Options given explicitly take precedence. For other losses, whose best unconstrained factors have no
        closed form, the same phases run on X divided by powers of its row and column sums (docs/losses.md).
    dtype : {float32, float64}, optional
        Precision to work in. Default: that of X if it is one of these, else float64.
    bound : bool
        Compute the Eckart-Young bound of the certificate even if that takes extra passes over X (large X). With False
        it is then 0, which is also a valid bound.
    exact_U : bool
        Finish with U solved to optimality for the final V (nonnegative least squares), as `ENMF` does: U then depends
        on X and V alone.
    memory_limit : int or str, optional
        Bytes ("2GB") that an X read in blocks may take on this machine; blocks being processed take at most a quarter
        of it, blocks kept between passes half of it. The factors come on top.
    checkpoint : path, optional
        A folder: the factors are saved there during the descent, and a later call with the same X and rank resumes
        from them.
    **options
        Fields of `enmf.exterior.plan.ExteriorOptions` (svd, rotation, feasibility, surrogate, ...), `descent` (the
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
    request = Request.of(locals())
    problem = with_loss(check_problem(X, dtype, memory_limit), loss)
    result = run(*prepare(problem, rank, request))
    rows, features = names_in(X)
    return replace(result, row_names=rows, feature_names=features)
