"""Nonnegative matrix factorization by the exterior method: X ~ U Vᵀ, with a certificate.

>>> import enmf
>>> from sklearn.datasets import load_digits
>>> X = load_digits().data
>>> result = enmf.factorize(X, 10, random_state=0)
>>> result.U.shape, result.V.shape
((1797, 10), (64, 10))
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from enmf import datasets, exact
    from enmf.certification import certify
    from enmf.completion import ENMC, completion_methods
    from enmf.completion.complete import complete
    from enmf.consensus import Consensus, consensus
    from enmf.equivalence import Comparison, compare
    from enmf.estimators import ENMF, non_negative_factorization
    from enmf.factorization import factorize
    from enmf.interpretation import components_frame, top_features
    from enmf.matrix.chunked import WorkersLost
    from enmf.optimality import Certificate
    from enmf.plots import plot_components
    from enmf.rank import RankSelection, select_rank
    from enmf.registry import initializations, methods
    from enmf.result import Result
    from enmf.stability import Stability, stability

__version__ = "0.1.0"

__all__ = [
    "ENMC",
    "ENMF",
    "Certificate",
    "Comparison",
    "Consensus",
    "RankSelection",
    "Result",
    "Stability",
    "WorkersLost",
    "certify",
    "compare",
    "complete",
    "completion_methods",
    "components_frame",
    "consensus",
    "datasets",
    "exact",
    "factorize",
    "initializations",
    "methods",
    "non_negative_factorization",
    "plot_components",
    "select_rank",
    "stability",
    "top_features",
]

# Modules are imported when one of their names is first used: `enmf --help` needs none of them.
_HOMES = {
    "certification": ("certify",),
    "completion": ("ENMC", "complete", "completion_methods"),
    "consensus": ("Consensus", "consensus"),
    "datasets": (),
    "equivalence": ("Comparison", "compare"),
    "estimators": ("ENMF", "non_negative_factorization"),
    "exact": (),
    "factorization": ("factorize",),
    "interpretation": ("components_frame", "top_features"),
    "matrix.chunked": ("WorkersLost",),
    "optimality": ("Certificate",),
    "plots": ("plot_components",),
    "rank": ("RankSelection", "select_rank"),
    "registry": ("initializations", "methods"),
    "result": ("Result",),
    "stability": ("Stability", "stability"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        found = getattr(import_module(f"enmf.{_HOME_OF[name]}"), name)
    elif name in _HOMES:
        found = import_module(f"enmf.{name}")
    else:
        raise AttributeError(f"module 'enmf' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """`enmf.stability` and `enmf.consensus` are functions, also once the modules of these names are imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME_OF and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
