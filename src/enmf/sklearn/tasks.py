"""Callbacks of scikit-learn 1.9 (`set_callbacks`): a fit is a task, every iteration of its run a task within it.

They are told of the begin and the end of each, with a model that transforms as if the fit had stopped there. Earlier
versions of scikit-learn have none: the estimators then lack `set_callbacks`, and nothing else changes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

try:
    from sklearn.callback import CallbackSupportMixin as Callbacks
    from sklearn.callback import with_callbacks
except ImportError:  # before scikit-learn 1.9

    class Callbacks:  # type: ignore[no-redef]
        """Nothing to set."""

    def with_callbacks(method: Any) -> Any:
        return method


def told(fit: Any) -> Any:
    """A method that fits, and ends what it has told callbacks even if it fails; without any it is the method itself."""
    watched = with_callbacks(fit)

    @functools.wraps(fit)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return (watched if hasattr(self, "_skl_callbacks") else fit)(self, *args, **kwargs)

    return method


OUTSIDE = "feasibility"  # iterates of this phase are not nonnegative yet: no model has them


class Tasks(Callbacks):  # type: ignore[misc, unused-ignore]
    """An estimator that tells scikit-learn's callbacks about its fit."""

    callback: Any
    components_: np.ndarray

    def _begin_task(self, X: Any) -> Callable[[Any], object] | None:
        """The callback of the run: the parameter `callback`, and those of `set_callbacks`."""
        if not hasattr(self, "_skl_callbacks"):
            return self.callback
        task = self._init_callback_context(max_subtasks=None)
        task.call_on_fit_task_begin(estimator=self, X=X)

        def tell(progress: Any) -> bool:
            stop = self.callback is not None and bool(self.callback(progress))
            step = task.subcontext(task_name=progress.phase)
            step.call_on_fit_task_begin(estimator=self, X=X)
            now = None if progress.phase == OUTSIDE else lambda: _attributes(progress.V.T)
            return step.call_on_fit_task_end(estimator=self, X=X, reconstruction_attributes=now) or stop

        return tell

    def _end_task(self, X: Any) -> None:
        if hasattr(self, "_callback_fit_ctx"):
            self._callback_fit_ctx.call_on_fit_task_end(
                estimator=self, X=X, reconstruction_attributes=lambda: _attributes(self.components_)
            )


def _attributes(components: np.ndarray) -> dict[str, Any]:
    """What `transform` needs."""
    return {"components_": np.array(components, order="C"), "n_components_": len(components)}
