"""The scikit-learn interface: parameters and fitted attributes, no algorithm.

In scikit-learn's notation X ~ W H with W = U and H = Vᵀ: samples in rows, `components_` is H.
"""

from __future__ import annotations

import os
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from enmf import parallel
from enmf.api import registry
from enmf.api.request import solve
from enmf.problem.problem import Problem
from enmf.problem.refusals import refuse
from enmf.problem.state import State, best_pair, best_U
from enmf.problem.validation.arrays import check_problem
from enmf.problem.validation.convert import names_in
from enmf.problem.validation.factors import as_numbers, check_given, with_penalty
from enmf.problem.validation.layers import guide_columns, with_layers
from enmf.problem.validation.losses import LOSSES, with_loss
from enmf.problem.validation.numbers import check_threads, make_rng, warn_outside
from enmf.problem.validation.structure import Known, with_structure
from enmf.run.stopping import DEFAULTS
from enmf.sklearn.base import COUNT, NONNEGATIVE, SHARED, Factorizer
from enmf.sklearn.tasks import told
from enmf.stream.batches import readings
from enmf.stream.stream import Stream

AUTO_COMPONENTS = 10
SOLVERS = {"cd": "hals"}  # scikit-learn's names for methods of ours


class ENMF(Factorizer):
    """Nonnegative matrix factorization by the exterior method; takes the place of `sklearn.decomposition.NMF`.

    Parameters
    ----------
    n_components : int or "auto"
        Rank. "auto": 10, or the smaller dimension of X if that is less, or the rank of custom factors.
    init : str or None
        A name of `enmf.initializations()`, or "custom" with W and H given to `fit` or `fit_transform`. Default:
        "exterior" for the solver "enmf", else "nndsvdar".
    solver : str
        "enmf", or another name of `enmf.methods()`; scikit-learn's "cd" is "hals".
    beta_loss : {"frobenius", "kullback-leibler", "itakura-saito"} or float
        What is minimized; a number is the beta of a beta divergence, 0 <= beta <= 2.
    tol : float, optional
        Scale-free KKT residual at which the fit has converged, the same for every solver and start. Default: the fit
        ends when going on is expected to gain less than 0.02 % of the error; for another `beta_loss`, 1e-5.
    max_iter : int
    random_state : int, RandomState, Generator or None
    alpha_W, alpha_H : float
        Weights of the penalties, scaled as in scikit-learn; alpha_H "same" means alpha_W.
    l1_ratio : float
        Share of the penalty that is l1 (the rest is l2).
    verbose : int
        Show progress.
    shuffle : bool
        Accepted for compatibility; the order of the coordinates does not matter here.
    time_limit, target_error, callback, n_threads, preset : optional
        See `enmf.factorize`. With scikit-learn 1.9 `set_callbacks` works besides.
    memory_limit, checkpoint : optional
        See `enmf.factorize`; the limit also applies to `transform` and `score`.
    scale : {"balanced", "sum", "max", "norm"}
        Scale of the components: as described below for `components_`, or each with the sum, the maximum or the norm 1.
    warm_start : bool
        Start from the last solution if it fits X.
    options : dict, optional
        Further options of `enmf.factorize`; for `partial_fit` and `fit_stream`, of `enmf.Stream`.
    forget : float
        For `partial_fit` and `fit_stream`: share of their weight that earlier rows lose with every batch.
    fixed : array-like of shape (k, n_features), optional
        Known components: they are the first k rows of `components_` and stay as they are.
    support_V : boolean array or sparse matrix of shape (n_features, n_components), optional
        Where False, `components_.T` is zero.
    column_weights : array-like of shape (n_features,), optional
        Weights of the features, in `fit`, `transform` and `score`.
    nonnegative : {"both", "V", "U"}
        "V": only the components are nonnegative (semi-NMF), and X may be negative; "U": only W.
    negative : {"refuse", "keep"}
        What to do with an X that has negative entries, if both factors are nonnegative.
    symmetric : bool
        W = Hᵀ in `fit`, for a symmetric X; `transform` gives the best W for the components.
    simplex : {"U"}, optional
        Rows of W sum to one, in `transform` and `score`, too.
    smooth, total_variation, grid : optional
        Smooth components, see `enmf.factorize`; `transform` knows of `smooth`, not of `total_variation`.
    guide, guide_weight : optional
        Features that the first components should contain, see `enmf.factorize`; `guides_` says what became of them.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        H, largest component first (by ||w_j|| ||h_j||), scaled such that ||w_j|| = ||h_j|| before the last solve for W,
        or by `scale`.
    n_components_, n_iter_, n_features_in_ : int
    reconstruction_err_ : float
        ||X - W H||_F, or sqrt(2 loss).
    certificate_ : Certificate
        Of W and H: distance to the best possible error, KKT residual.
    status_ : str
    trace_ : Trace
    phases_ : dict of Phase
    n_samples_seen_ : int
        Only after `partial_fit` and `fit_stream`, as a `certificate_` that is a `StreamCertificate`; there are no
        `trace_` and `phases_` then.
    guides_ : tuple of Guided

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from enmf import ENMF
    >>> X = load_digits().data
    >>> model = ENMF(n_components=10, random_state=0)
    >>> W = model.fit_transform(X)
    >>> W.shape, model.components_.shape
    ((1797, 10), (10, 64))
    >>> bool(model.score(X) > 0.85)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SHARED,
        "n_components": [COUNT, StrOptions({"auto"}), None],
        "init": [StrOptions({*registry.initializations(), "custom"}), None],
        "solver": [StrOptions({*registry.methods(), *SOLVERS})],
        "beta_loss": [StrOptions(set(LOSSES)), Interval(Real, 0, 2, closed="both")],
        "alpha_W": [NONNEGATIVE],
        "alpha_H": [NONNEGATIVE, StrOptions({"same"})],
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
        "shuffle": ["boolean"],
        "preset": [StrOptions({"paper"}), None],
        "warm_start": ["boolean"],
        "memory_limit": [COUNT, str, None],
        "checkpoint": [str, os.PathLike, None],
        "forget": [Interval(Real, 0, 1, closed="left")],
        "fixed": ["array-like", "sparse matrix", None],
        "support_V": ["array-like", "sparse matrix", None],
        "column_weights": ["array-like", None],
        "nonnegative": [StrOptions({"both", "V", "U"})],
        "negative": [StrOptions({"refuse", "keep"})],
        "symmetric": ["boolean"],
        "simplex": [StrOptions({"U"}), None],
        "smooth": [NONNEGATIVE, None],
        "total_variation": [NONNEGATIVE, None],
        "grid": [tuple, list, None],
        "guide": [dict, list, tuple, None],
        "guide_weight": [NONNEGATIVE],
    }

    def __init__(
        self,
        n_components: int | str = "auto",
        *,
        init: str | None = None,
        solver: str = "enmf",
        beta_loss: str | float = "frobenius",
        tol: float | None = DEFAULTS.tol,
        max_iter: int = DEFAULTS.max_iter,
        random_state: Any = None,
        alpha_W: float = 0.0,
        alpha_H: float | str = "same",
        l1_ratio: float = 0.0,
        verbose: int = 0,
        shuffle: bool = False,
        time_limit: float | None = None,
        target_error: float | None = None,
        callback: Any = None,
        n_threads: int | None = None,
        preset: str | None = None,
        warm_start: bool = False,
        options: dict[str, Any] | None = None,
        memory_limit: int | str | None = None,
        checkpoint: Any = None,
        forget: float = 0.0,
        scale: str = "balanced",
        fixed: Any = None,
        support_V: Any = None,
        column_weights: Any = None,
        nonnegative: str = "both",
        negative: str = "refuse",
        symmetric: bool = False,
        simplex: str | None = None,
        smooth: float | None = None,
        total_variation: float | None = None,
        grid: tuple[int, ...] | None = None,
        guide: Any = None,
        guide_weight: float = 1.0,
    ) -> None:
        self.n_components = n_components
        self.init = init
        self.solver = solver
        self.beta_loss = beta_loss
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.alpha_W = alpha_W
        self.alpha_H = alpha_H
        self.l1_ratio = l1_ratio
        self.verbose = verbose
        self.shuffle = shuffle
        self.time_limit = time_limit
        self.target_error = target_error
        self.callback = callback
        self.n_threads = n_threads
        self.preset = preset
        self.warm_start = warm_start
        self.options = options
        self.memory_limit = memory_limit
        self.checkpoint = checkpoint
        self.forget = forget
        self.scale = scale
        self.fixed = fixed
        self.support_V = support_V
        self.column_weights = column_weights
        self.nonnegative = nonnegative
        self.negative = negative
        self.symmetric = symmetric
        self.simplex = simplex
        self.smooth = smooth
        self.total_variation = total_variation
        self.grid = grid
        self.guide = guide
        self.guide_weight = guide_weight

    def fit(self, X: Any, y: Any = None, W: Any = None, H: Any = None) -> ENMF:
        """Learn the components of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : ignored
        W, H : array-like, optional
            Start for init="custom".
        """
        self._fit(X, W, H)
        return self

    def fit_transform(self, X: Any, y: Any = None, W: Any = None, H: Any = None) -> np.ndarray:
        """Learn the components of X and return W."""
        return self._fit(X, W, H)

    def partial_fit(self, X: Any, y: Any = None) -> ENMF:
        """Learn from a batch of rows; earlier batches are not needed again (`enmf.Stream`, docs/streams.md).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : ignored

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from enmf import ENMF
        >>> X = load_digits().data
        >>> model = ENMF(n_components=10)
        >>> for first in range(0, len(X), 300):
        ...     _ = model.partial_fit(X[first : first + 300])
        >>> model.n_samples_seen_, model.certificate_.ratio < 1.5
        (1797, True)
        """
        self._validate_params()
        refuse(self._known().words(), ["batches"])
        columns = check_problem(X).X.shape[1]
        first = not hasattr(self, "_stream")
        stream: Stream = self._new_stream(columns) if first else self._stream
        if not first:
            validate_data(self, X=X, reset=False, skip_check_array=True)
        stream.partial_fit(X)
        if first:
            validate_data(self, X=X, reset=True, skip_check_array=True)
        return self._keep_stream(stream)

    def fit_stream(self, batches: Any, passes: int = 2) -> ENMF:
        """Learn from all batches, in one or more passes, see `enmf.Stream.fit_stream`."""
        self._validate_params()
        refuse(self._known().words(), ["batches"])
        read = readings(batches, passes)
        first = next(read(), None) if passes > 1 or not hasattr(batches, "__next__") else None
        if first is not None:
            columns = check_problem(first).X.shape[1]
            validate_data(self, X=first, reset=True, skip_check_array=True)
        else:
            columns = AUTO_COMPONENTS  # known with the first batch only
        stream = self._new_stream(columns).fit_stream(batches, passes)
        self.n_features_in_ = stream.V.shape[0]
        return self._keep_stream(stream)

    def _new_stream(self, columns: int) -> Stream:
        """A stream with these parameters, if it can do what they ask for."""
        for name, usual in (("solver", "enmf"), ("alpha_W", 0.0), ("preset", None), ("checkpoint", None)):
            if getattr(self, name) != usual:
                raise ValueError(f"{name}={getattr(self, name)!r} is not available for streams; use fit")
        if self.alpha_H not in ("same", 0.0) or self.init not in (None, "exterior"):
            raise ValueError("alpha_H and init are not available for streams, which start by themselves; use fit")
        if self.beta_loss not in ("frobenius", 2):
            raise ValueError(
                f"beta_loss={self.beta_loss!r} is not available for streams: its value depends on every entry and its "
                "model, and no sums of fixed size determine it, as they do for 'frobenius'. Use fit on all rows"
            )
        seed = self.random_state if isinstance(self.random_state, (int, np.integer)) else None
        if seed is None and self.random_state is not None:
            seed = int(make_rng(self.random_state).integers(2**31))
        more = {"random_state": int(seed or 0), "n_threads": self.n_threads, "forget": self.forget}
        rank = self._given_rank or min(AUTO_COMPONENTS, columns)
        try:
            return Stream(rank, **{**more, **(self.options or {})})
        except TypeError as problem:
            raise TypeError(f"options for a stream are those of enmf.Stream: {problem}") from None

    def _keep_stream(self, stream: Stream) -> ENMF:
        """The fitted attributes."""
        for name in ("trace_", "phases_", "_last_W"):
            self.__dict__.pop(name, None)
        self._stream = stream
        self.components_ = stream.components
        self.n_components_ = len(self.components_)
        self.n_iter_ = stream.batches
        self.n_samples_seen_ = stream.rows
        self.status_ = stream.status
        self.certificate_ = stream.certificate  # type: ignore[assignment]
        self.reconstruction_err_ = self.certificate_.error
        return self

    def transform(self, X: Any) -> np.ndarray:
        """W for the learned components: (nonnegative) least squares, solved to optimality."""
        problem = self._for_rows(self._checked(X))
        with parallel.limit(check_threads(self.n_threads)):
            return best_U(self._penalized(problem), self.components_)

    def _checked(self, X: Any, learning: bool = False) -> Problem:
        """X to learn from, or for the learnt components."""
        if not learning:
            check_is_fitted(self)
        problem = self._with_loss(check_problem(X, None, self.memory_limit, self._known().keeps_negative))
        with_shape = problem.X if isinstance(X, (str, Path)) else X  # a name has no number of features
        validate_data(self, X=with_shape, reset=learning, skip_check_array=True)
        return problem

    def _known(self) -> Known:
        return Known.of(self.get_params(deep=False))

    def _for_rows(self, problem: Problem) -> Problem:
        """The problem with what is known that concerns new rows."""
        known = Known(column_weights=self.column_weights, nonnegative=self.nonnegative, simplex=self.simplex)
        return with_structure(problem, self.n_components_, known)

    def _with_loss(self, problem: Problem) -> Problem:
        if self.solver == "cd" and self.beta_loss not in ("frobenius", 2):
            raise ValueError(
                f"Invalid beta_loss parameter: solver 'cd' does not handle beta_loss = {self.beta_loss!r}; "
                "solver='enmf' does"
            )
        return with_loss(problem, self.beta_loss, "beta_loss")

    def _penalized(self, problem: Problem) -> Problem:
        weights = penalty_weights(self.alpha_W, self.alpha_H, self.l1_ratio, *problem.X.shape)
        problem = with_penalty(problem, weights)
        if not (self.smooth or self.guide):
            return problem
        names = getattr(self, "feature_names_in_", None)
        guide = guide_columns(self.guide, None if names is None else list(names))
        layers = Known(smooth=self.smooth, grid=self.grid, guide=guide, guide_weight=self.guide_weight)
        return with_layers(problem, self.n_components_, layers)

    def inverse_transform(self, X: Any) -> np.ndarray:
        """W H for a given W."""
        check_is_fitted(self)
        W = X if sp.issparse(X) or hasattr(X, "iloc") else as_numbers(X, "W")  # a DataFrame keeps its index
        if W.ndim != 2 or W.shape[1] != self.n_components_:
            raise ValueError(f"W must have shape (n_samples, {self.n_components_}), got {W.shape}")
        return W @ self.components_

    def score(self, X: Any, y: Any = None) -> float:
        """Share that the components explain, with the best W: 1 - ||X - W H||² / ||X||². Higher is better.

        For other losses: of the loss that the best model of rank one has.
        """
        problem = self._for_rows(self._checked(X))
        whole = problem.X.squared_norm()
        if whole == 0.0:
            return 1.0
        with parallel.limit(check_threads(self.n_threads)):
            U, V = best_pair(self._penalized(problem), self.components_)
            if problem.loss.bounded:
                return 1.0 - problem.X.squared_residual(U, V) / whole
            state = State(problem, U, V)
            return problem.loss.explained(state, state.value())

    def components_frame(self, names: Any = None) -> Any:
        """The components as a DataFrame with the names of the features, see `enmf.components_frame`."""
        from enmf.report.interpretation import components_frame

        check_is_fitted(self)
        return components_frame(self, names)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.negative != "keep" and self.nonnegative == "both"
        return tags

    def _row_factors(self, X: Any) -> np.ndarray:
        return np.zeros((0, self.n_components_)) if X is None else self.transform(X)

    @told
    def _fit(self, X: Any, W: Any, H: Any) -> np.ndarray:
        stopping = self._begin()
        for name in ("_stream", "n_samples_seen_"):
            self.__dict__.pop(name, None)
        problem = self._checked(X, learning=True)
        n, m = problem.X.shape
        start = self._start(W, H, problem)
        weights = penalty_weights(self.alpha_W, self.alpha_H, self.l1_ratio, n, m)
        request = self._request(
            X,
            stopping,
            method=SOLVERS.get(self.solver, self.solver),
            init=start,
            preset=self.preset,
            checkpoint=self.checkpoint,
            known=replace(self._known(), guide=guide_columns(self.guide, names_in(X)[1])),
            options={**weights, **(self.options or {})},
        )
        result = solve(problem, self._rank(n, m, start), request)
        self._keep(result)
        self.guides_ = result.guides
        if self.warm_start:
            self._last_W = result.U
        self._end_task(X)
        return result.U

    def _start(self, W: Any, H: Any, problem: Problem) -> Any:
        n, m = problem.X.shape
        if self.init == "custom":
            if W is None or H is None:
                raise ValueError("init='custom' needs both W and H, given to fit or fit_transform")
            H = check_given(H, "H", (self._given_rank, m), problem.X.dtype)
            return check_given(W, "W", (n, len(H)), problem.X.dtype), H.T
        if W is not None or H is not None:
            warn_outside(
                "When init!='custom', provided W or H are ignored. Set init='custom' to use them as initialization.",
                RuntimeWarning,
            )
        last = getattr(self, "_last_W", None)
        fits = last is not None and (len(last), self.components_.shape[1]) == (n, m) and last.any()
        return (last, self.components_.T) if self.warm_start and fits else self.init

    @property
    def _given_rank(self) -> int | None:
        return None if self.n_components in ("auto", None) else self.n_components  # type: ignore[return-value]

    def _rank(self, n: int, m: int, start: Any) -> int:
        free = start[0].shape[1] if isinstance(start, tuple) else min(AUTO_COMPONENTS, n, m)
        return self._given_rank or free


def non_negative_factorization(
    X: Any,
    W: Any = None,
    H: Any = None,
    n_components: int | str = "auto",
    *,
    init: str | None = None,
    update_H: bool = True,
    solver: str = "enmf",
    beta_loss: str | float = "frobenius",
    tol: float | None = DEFAULTS.tol,
    max_iter: int = DEFAULTS.max_iter,
    alpha_W: float = 0.0,
    alpha_H: float | str = "same",
    l1_ratio: float = 0.0,
    random_state: Any = None,
    verbose: int = 0,
    shuffle: bool = False,
) -> tuple[np.ndarray, np.ndarray, int]:
    """W, H and the number of iterations, with scikit-learn's signature.

    With update_H=False, W is solved to optimality for the given H. Parameters as for `ENMF`.

    Examples
    --------
    >>> import enmf
    >>> W, H, n_iter = enmf.non_negative_factorization([[1.0, 1.0], [2.0, 1.0], [3.0, 1.2]], n_components=1)
    >>> W.shape, H.shape
    ((3, 1), (1, 2))
    """
    given = locals()
    model = ENMF(**{name: given[name] for name in ENMF._get_param_names() if name in given})
    if not update_H:
        return _with_fixed_H(model, X, W, H)
    W = model.fit_transform(X, W=W, H=H)
    return W, model.components_, model.n_iter_


def _with_fixed_H(model: ENMF, X: Any, W: Any, H: Any) -> tuple[np.ndarray, np.ndarray, int]:
    """The best W for a given H."""
    model._validate_params()
    if H is None:
        raise ValueError("update_H=False needs H, the components to keep")
    if W is not None:
        warn_outside("When update_H=False, the provided initial W is not used.", RuntimeWarning)
    problem = model._with_loss(check_problem(X))
    H = check_given(H, "H", (model._given_rank, problem.X.shape[1]), problem.X.dtype)
    return best_U(model._penalized(problem), H), H, 1


def penalty_weights(alpha_W: float, alpha_H: float | str, l1_ratio: float, n: int, m: int) -> dict[str, float]:
    """Weights of our penalty from scikit-learn's: alpha_W counts once per feature, alpha_H once per sample."""
    if isinstance(alpha_H, str):  # "same"
        alpha_H = alpha_W
    if (alpha_W > 0) != (alpha_H > 0):
        warn_outside(
            "only one of alpha_W and alpha_H is positive: the penalty can be escaped by scaling the other factor up. "
            "Set both, or alpha_H='same'"
        )
    return {
        "l1_U": m * alpha_W * l1_ratio,
        "l2_U": m * alpha_W * (1.0 - l1_ratio),
        "l1_V": n * alpha_H * l1_ratio,
        "l2_V": n * alpha_H * (1.0 - l1_ratio),
    }
