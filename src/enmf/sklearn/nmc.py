"""The scikit-learn interface to completion: ratings in, predictions and recommendations out."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from enmf import parallel
from enmf.api.complete import DEFAULTS, complete_problem
from enmf.api.registry import COMPLETION
from enmf.kernels import masked as kernels
from enmf.losses.entries import divergence
from enmf.problem.problem import Problem
from enmf.problem.state import best_U
from enmf.problem.validation.factors import with_ridge
from enmf.problem.validation.losses import LOSSES, with_loss
from enmf.problem.validation.masks import MISSING, check_masked_problem, check_places
from enmf.problem.validation.numbers import check_range, check_threads
from enmf.sklearn.base import COUNT, NONNEGATIVE, SHARED, Factorizer
from enmf.sklearn.tasks import told


class ENMC(Factorizer):
    """Nonnegative matrix completion by the exterior method: X ~ W H on the observed entries.

    Parameters
    ----------
    n_components : int
        Rank.
    missing : {"nan", "unstored", "none"} or None
        What is missing, see `enmf.complete`. None: NaN in a dense X; a sparse X is then refused. For ratings in a
        sparse matrix use "unstored".
    ridge : float or (float, float)
        Regularisation, in the unit of X; decisive for predictions (0.02 to 0.03 of the mean rating is a good first
        guess).
    ridge_scaling : {"entries", "none"}
        Whether the ridge grows with the number of observations of the row or column.
    clip : (low, high) or None
        Range of the predictions, for example (1, 5).
    solver : str
        "enmc" or another name of `enmf.completion_methods()`.
    beta_loss : {"frobenius", "kullback-leibler", "itakura-saito"} or float
        What is minimized over the observed entries; a number is the beta of a beta divergence, 0 <= beta <= 2.
    init, tol, max_iter, random_state, time_limit, target_error, callback, n_threads, verbose : optional
        See `enmf.complete`.
    scale : {"balanced", "sum", "max", "norm"}
        Scale of the components, without a ridge: ||w_j|| = ||h_j||, or each has the sum, the maximum or the norm 1.
    options : dict, optional
        Further options of `enmf.complete`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        H = Vᵀ.
    row_factors_ : ndarray of shape (n_samples, n_components)
        W = U, solved to optimality for H; `fit_transform` returns it.
    cold_rows_, cold_columns_ : ndarray of int
        Rows and columns without observations: their factors are zero, and predictions use the average of the others.
    n_components_, n_iter_, n_features_in_ : int
    reconstruction_err_ : float
        Norm of the residual over the observed entries, or sqrt(2 loss).
    certificate_, status_, trace_, phases_
        As for `ENMF`; the KKT residual is that of the observed entries, ridge included.

    Examples
    --------
    >>> import numpy as np
    >>> from enmf import ENMC
    >>> ratings = np.array([[5, 4, np.nan, 1], [4, np.nan, 1, 1], [1, 1, 5, np.nan], [np.nan, 1, 4, 5]])
    >>> model = ENMC(2, ridge=0.1, clip=(1, 5), random_state=0).fit(ratings)
    >>> bool(model.predict([0], [2])[0] < model.predict([3], [2])[0])
    True
    >>> columns, scores = model.recommend(1, k=1)
    >>> columns.tolist()
    [1]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SHARED,
        "n_components": [COUNT],
        "missing": [StrOptions(set(MISSING)), None],
        "ridge": [NONNEGATIVE, tuple, list],
        "ridge_scaling": [StrOptions({"entries", "none"})],
        "solver": [StrOptions(set(COMPLETION.methods()))],
        "beta_loss": [StrOptions(set(LOSSES)), Interval(Real, 0, 2, closed="both")],
        "init": [StrOptions(set(COMPLETION.initializations())), tuple, list, None],
    }

    def __init__(
        self,
        n_components: int = 10,
        *,
        missing: str | None = None,
        ridge: float | tuple[float, float] = 0.0,
        ridge_scaling: str = "entries",
        clip: tuple[float, float] | None = None,
        solver: str = "enmc",
        init: str | None = None,
        tol: float | None = DEFAULTS.tol,
        max_iter: int = DEFAULTS.max_iter,
        random_state: Any = None,
        time_limit: float | None = None,
        target_error: float | None = None,
        callback: Any = None,
        n_threads: int | None = None,
        verbose: int = 0,
        options: dict[str, Any] | None = None,
        beta_loss: str | float = "frobenius",
        scale: str = "balanced",
    ) -> None:
        self.n_components = n_components
        self.missing = missing
        self.ridge = ridge
        self.ridge_scaling = ridge_scaling
        self.clip = clip
        self.solver = solver
        self.init = init
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.time_limit = time_limit
        self.target_error = target_error
        self.callback = callback
        self.n_threads = n_threads
        self.verbose = verbose
        self.options = options
        self.beta_loss = beta_loss
        self.scale = scale

    @told
    def fit(self, X: Any, y: Any = None, mask: Any = None, weights: Any = None) -> ENMC:
        """Learn both factors from the observed entries of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : ignored
        mask : boolean matrix, optional
            True where an entry is observed; replaces `missing`.
        weights : matrix, optional
            Weights of the observed entries.
        """
        stopping = self._begin()
        check_range(self.clip)
        problem = self._problem(X, mask, weights)
        validate_data(self, X=X, skip_check_array=True)
        request = self._request(X, stopping, method=self.solver, init=self.init, options=self.options or {})
        result = complete_problem(with_ridge(problem, self.ridge, self.ridge_scaling), self.n_components, request)
        self._keep(result)
        self.row_factors_ = result.U
        self._remember_pattern(problem.X)
        self._end_task(X)
        return self

    def fit_transform(self, X: Any, y: Any = None, mask: Any = None, weights: Any = None) -> np.ndarray:
        """Learn both factors and return W."""
        return self.fit(X, y, mask, weights).row_factors_

    def transform(self, X: Any, mask: Any = None, weights: Any = None) -> np.ndarray:
        """W for new rows, from their observed entries: the best one for the learned components, with the ridge.

        A row without observations becomes zero.
        """
        check_is_fitted(self)
        problem = self._problem(X, mask, weights)
        validate_data(self, X=X, reset=False, skip_check_array=True)
        with parallel.limit(check_threads(self.n_threads)):
            return best_U(with_ridge(problem, self.ridge, self.ridge_scaling), self.components_)

    def predict(self, rows: Any, columns: Any = None) -> np.ndarray:
        """Predicted entries at the positions (rows[e], columns[e]) of the fitted matrix, clipped to `clip`."""
        check_is_fitted(self)
        if columns is None:
            raise TypeError("predict needs rows and columns: the positions in the fitted matrix to predict")
        return self._predict(rows, columns)

    def _predict(self, rows: Any, columns: Any) -> np.ndarray:
        shape = (len(self.row_factors_), self.components_.shape[1])
        rows, columns, target = check_places(rows, columns, shape)
        U, V = self._factors_for_prediction()
        out = np.empty(len(rows), U.dtype)
        with parallel.limit(check_threads(self.n_threads)):
            bounds = parallel.even_bounds(len(rows), 4.0 * U.shape[1])
            parallel.run(kernels.pair_products, bounds, rows, columns, U, V, out)
        return self._clipped(_finite(out)).reshape(target)

    def recommend(self, row: int, k: int = 10, exclude_seen: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """The k columns with the largest predictions for a row of the fitted matrix, best first, and their predictions.

        Columns observed in this row are excluded unless exclude_seen=False; fewer than k may remain.
        """
        check_is_fitted(self)
        check_places([row], [0], (len(self.row_factors_), 1))
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        U, V = self._factors_for_prediction()
        scores = V @ U[row]
        candidates = np.arange(len(scores))
        if exclude_seen:
            candidates = np.setdiff1d(candidates, self._seen(row), assume_unique=True)
        order = np.argsort(-scores[candidates], kind="stable")[:k]  # unclipped: clipping would create ties
        best = candidates[order]
        return best, self._clipped(_finite(scores[best]))

    def score(self, X: Any, y: Any = None, mask: Any = None) -> float:
        """Negative root mean squared error of `predict` on the observed entries of X, whose rows are those of the fit.

        Pass held-out entries: an X of the same shape in which only they are observed. For other losses: the negative
        square root of twice the mean loss of an entry, which is infinite where a prediction is zero and the entry is
        not (beta <= 1); `clip=(low, high)` with low > 0 avoids that.
        """
        check_is_fitted(self)
        problem = self._problem(X, mask)
        validate_data(self, X=X, reset=False, skip_check_array=True)
        shape = (len(self.row_factors_), self.components_.shape[1])
        if problem.X.shape != shape:
            raise ValueError(
                f"X has shape {problem.X.shape}, the fitted matrix {shape}: score compares with held-out entries of "
                "the fitted rows. For new rows compare with transform(X) @ components_"
            )
        total = 0.0
        masked: Any = problem.X
        for rows, columns, values in masked.observed_entries():
            data = values.astype(np.float64) * problem.scale
            total += float(divergence(data, self._predict(rows, columns), problem.loss.degree).sum())
        return -float(np.sqrt(2.0 * total / masked.observed))

    def _problem(self, X: Any, mask: Any = None, weights: Any = None) -> Problem:
        problem = check_masked_problem(X, None if mask is not None else self.missing, mask, weights)
        return with_loss(problem, self.beta_loss, "beta_loss")

    def _row_factors(self, X: Any) -> np.ndarray:
        return self.row_factors_

    def _remember_pattern(self, X: Any) -> None:
        self.cold_rows_ = np.flatnonzero(X.rows.totals == 0)
        self.cold_columns_ = np.flatnonzero(X.columns.totals == 0)
        # the pattern of the rows, by observed or by missing entries, whichever the matrix keeps
        self._pattern = X.rows.indptr, X.rows.indices, X.rows.from_base

    def _seen(self, row: int) -> np.ndarray:
        indptr, indices, by_missing = self._pattern
        stored = indices[indptr[row] : indptr[row + 1]]
        if by_missing[row]:
            return np.setdiff1d(np.arange(self.components_.shape[1]), stored)
        return stored

    def _factors_for_prediction(self) -> tuple[np.ndarray, np.ndarray]:
        """Factors in which cold rows are the average of the others: a generic prediction."""
        return (
            _with_average(np.ascontiguousarray(self.row_factors_), self.cold_rows_),
            _with_average(np.ascontiguousarray(self.components_.T), self.cold_columns_),
        )

    def _clipped(self, values: np.ndarray) -> np.ndarray:
        limits = check_range(self.clip)
        return values if limits is None else np.clip(values, *limits)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing in (None, "nan")
        tags.input_tags.sparse = self.missing is not None
        return tags


def _with_average(F: np.ndarray, cold: np.ndarray) -> np.ndarray:
    if len(cold) == 0:
        return F
    F = F.copy()
    F[cold] = F.sum(axis=0) / (len(F) - len(cold))
    return F


def _finite(predictions: np.ndarray) -> np.ndarray:
    """Predictions without overflow: without a ridge nothing bounds what was not observed."""
    return np.minimum(predictions, np.finfo(predictions.dtype).max)
