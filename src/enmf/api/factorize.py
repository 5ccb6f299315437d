"""`enmf.factorize`: a start, a descent, a certificate (paper, Algorithm 3)."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from enmf.api.request import Request, prepare
from enmf.matrix.stacked import holds_tables
from enmf.problem.validation.arrays import check_problem, check_tables
from enmf.problem.validation.convert import names_in, names_of
from enmf.problem.validation.layers import guide_columns
from enmf.problem.validation.losses import with_loss
from enmf.problem.validation.structure import Known
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
    tol: float | None = DEFAULTS.tol,
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
    scale: str = "balanced",
    memory_limit: int | str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    fixed: Any = None,
    support_U: Any = None,
    support_V: Any = None,
    row_weights: Any = None,
    column_weights: Any = None,
    smooth: float | None = None,
    total_variation: float | None = None,
    grid: tuple[int, ...] | None = None,
    nonnegative: str = "both",
    negative: str = "refuse",
    symmetric: bool = False,
    simplex: str | None = None,
    guide: Any = None,
    guide_weight: float = 1.0,
    **options: Any,
) -> Result:
    """Factorize a nonnegative matrix, X ~ U Vᵀ with U >= 0 and V >= 0.

    Parameters
    ----------
    X : array-like or scipy sparse matrix of shape (n, m)
        Nonnegative, complete. Rows are samples. Unstored entries of a sparse X are zeros. Never changed. Read in blocks
        and never loaded whole: a Dask array, a Zarr array, an HDF5 dataset, the name of an npy file or of a folder of
        npz, npy or parquet parts, and with `memory_limit` a memory map (see docs/scaling.md). A list of matrices with
        the same columns, dense or sparse, is one X with one V for all; `Result.tables` has the U of each.
    rank : int
        Number of components r.
    method : str
        "enmf" (the exterior method) or a descent method by name, see `enmf.methods()`.
    loss : {"frobenius", "kullback-leibler", "itakura-saito"} or float
        What is minimized: 1/2 ||X - U Vᵀ||², or a beta divergence, 0 <= beta <= 2 (see docs/losses.md).
    init : str or (U, V), optional
        Start by name, see `enmf.initializations()`, or factors to start from; with (None, V), U starts as the best one
        for V. Default: "exterior" for "enmf", "nndsvdar" otherwise.
    tol : float, optional
        The run has converged when the scale-free KKT residual (`Certificate.kkt`) is at most `tol`. When the relative
        error is below 1 %, the threshold shrinks in proportion, so that a nearly exact factorization does not end
        early. Default: the run ends when going on is expected to gain less than 0.02 % of the error ("settled", see
        `Certificate.left`); for other losses than the Frobenius norm, 1e-5.
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
    scale : {"balanced", "sum", "max", "norm"}
        Scale of the columns, which the model leaves open: ||u_j|| = ||v_j||, or each column of V has the sum, the
        maximum or the norm 1 and U the rest (see docs/structure.md).
    memory_limit : int or str, optional
        Bytes ("2GB") that an X read in blocks may take on this machine; blocks being processed take at most a quarter
        of it, blocks kept between passes half of it. The factors come on top.
    checkpoint : path, optional
        A folder: the factors are saved there during the descent, and a later call with the same X and rank resumes
        from them.
    fixed : array-like of shape (k, m), optional
        Known components, in rows as in scikit-learn's H: they are the first k columns of V and stay as they are, the
        other rank - k are found.
    support_U, support_V : boolean array or sparse matrix of shape (n, rank) and (m, rank), optional
        Where False, the factor is zero: in every iteration, exactly. The KKT figures refer to the other entries.
    row_weights, column_weights : array-like of shape (n,) and (m,), optional
        Positive weights: the loss of entry (i, j) counts row_weights[i] * column_weights[j] times. All figures refer to
        the weighted loss, the bound included. (`enmf.complete` has a weight for each entry.)
    smooth, total_variation : float, optional
        Weight of a penalty on differences of neighbouring features, squared or absolute, in every component u_k v_kᵀ
        (docs/structure.md): 1/2 smooth ||u_k||² (v_jk - v_lk)², or total_variation s ||u_k|| |v_jk - v_lk| with
        s = ||X|| / sqrt(m).
    grid : tuple of int, optional
        Features are the cells of a grid of this shape (images: height, width), row by row. Default: a line.
    nonnegative : {"both", "V", "U"}
        Which factors are nonnegative. "V": U may have any sign (semi-NMF), and so may X; "U" likewise.
    negative : {"refuse", "keep"}
        What to do with an X that has negative entries, if both factors are nonnegative.
    symmetric : bool
        V = U, for a symmetric X (similarities, adjacency).
    simplex : {"U"}, optional
        Rows of U sum to one: every row of X is a mixture of the columns of V, its components (abundances, proportions).
    guide : dict or list, optional
        Features that the first components should contain, {"sports": ["ball", "game"], ...} or a list of such lists:
        names of columns (of a DataFrame) or their numbers. They are a start and a penalty, never a constraint;
        `result.guides` says what became of them.
    guide_weight : float
        Weight of that penalty, in units of a typical entry of X: the sum of what other components explain of these
        features is added to the loss, times this and the root mean square of X. 0: only a start.
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
    >>> result.status in ("settled", "converged")
    True
    >>> bool(result.U.min() >= 0), bool(result.V.min() >= 0)
    (True, True)
    >>> result.certificate.left < 6e-4  # what going on is expected to gain
    True
    """
    stopping = check_limits(tol, max_iter, time_limit, target_error)
    several = holds_tables(X)
    rows, features = names_of(X) if several else names_in(X)
    guide = guide_columns(guide, features)
    known = Known.of(locals())
    request = Request.of(locals())
    if several:
        problem = check_tables(X, dtype, known.keeps_negative)
    else:
        problem = check_problem(X, dtype, memory_limit, known.keeps_negative)
    result = run(*prepare(with_loss(problem, loss), rank, request))
    return replace(result, row_names=rows, feature_names=features)
