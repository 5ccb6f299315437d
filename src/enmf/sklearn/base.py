"""What both estimators share: the limits of their parameters, how they ask for a fit, what they keep of it."""

from __future__ import annotations

import os
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from enmf.api.request import Request
from enmf.problem.scale import SIZES
from enmf.run.checks import check_limits
from enmf.run.result import Result
from enmf.run.stopping import Stopping
from enmf.sklearn.tasks import Tasks

COUNT = Interval(Integral, 1, None, closed="left")
SEED = Interval(Integral, 0, None, closed="left")
LIMIT = Interval(Real, 0, None, closed="left")
NONNEGATIVE = Interval(Real, 0, np.inf, closed="left")
SHARED: dict[str, list[Any]] = {  # limits of the parameters that both have
    "tol": [NONNEGATIVE, None],
    "max_iter": [COUNT],
    "random_state": [SEED, np.random.RandomState, np.random.Generator, np.random.SeedSequence, None],
    "time_limit": [LIMIT, None],
    "target_error": [LIMIT, None],
    "callback": [callable, None],
    "n_threads": [COUNT, None],
    "verbose": ["verbose"],
    "options": [dict, None],
    "scale": [StrOptions(set(SIZES))],
}


class Factorizer(Tasks, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """An estimator whose fit is a run that yields a Result."""

    def report(self, path: str | os.PathLike[str], X: Any = None, **options: Any) -> str:
        """Write one offline HTML page about the fit; returns its path.

        X is what the model was fitted to; without it the page leaves out where the fit is good or bad (and, for a model
        that does not keep W, everything about the rows).
        The options are those of `enmf.report.write`: row_names, column_names, image_shape, kind, title, command,
        source.
        """
        from enmf.report.page import write

        check_is_fitted(self)
        if not hasattr(self, "trace_"):
            raise ValueError(
                "a stream has no history of a run to report about: print(model.certificate_) tells its figures"
            )
        settings = {name: value for name, value in self.get_params().items() if value is not None}
        W, H = self._row_factors(X), self.components_
        result = Result(
            *(W, H.T, self.status_, self.n_iter_, self.certificate_, self.trace_, self.phases_),
            settings=settings,
            feature_names=getattr(self, "feature_names_in_", None),
        )
        return write(path, result, X, **{"command": f"{self!r}.fit(X)", **options})

    def _row_factors(self, X: Any) -> np.ndarray:
        """W of the fit, from the X it was fitted to (or None) if the model does not keep it."""
        raise NotImplementedError

    def _begin(self) -> Stopping:
        """Check the parameters; the time limit counts from here."""
        self._validate_params()
        return check_limits(self.tol, self.max_iter, self.time_limit, self.target_error)

    def _request(self, X: Any, stopping: Stopping, **more: Any) -> Request:
        """What the parameters ask for. The fit to X begins."""
        return Request(
            stopping=stopping,
            random_state=self.random_state,
            n_threads=self.n_threads,
            callback=self._begin_task(X),
            verbose=self.verbose,
            exact_U=True,
            scale=self.scale,
            rank_name="n_components",
            **more,
        )

    def _keep(self, result: Result) -> None:
        """The fitted attributes."""
        self.components_ = np.ascontiguousarray(result.V.T)
        self.n_components_ = len(self.components_)
        self.n_iter_ = max(1, result.n_iter)
        self.status_ = result.status
        self.certificate_ = result.certificate
        self.reconstruction_err_ = result.error
        self.trace_ = result.trace
        self.phases_ = result.phases

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
