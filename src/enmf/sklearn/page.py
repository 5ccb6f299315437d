"""The report page of a fitted estimator."""

from __future__ import annotations

import os
from typing import Any

from enmf.report.page import write
from enmf.run.result import Result


def write_model(path: str | os.PathLike[str], model: Any, U: Any, X: Any, options: dict[str, Any]) -> str:
    """The page of a fitted estimator, from what it stores, and U if it is known."""
    settings = {name: value for name, value in model.get_params().items() if value is not None}
    result = Result(
        *(U, model.components_.T, model.status_, model.n_iter_, model.certificate_, model.trace_, model.phases_),
        settings=settings,
        feature_names=getattr(model, "feature_names_in_", None),
    )
    return write(path, result, X, **{"command": f"{model!r}.fit(X)", **options})
