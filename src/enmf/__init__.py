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

from enmf import _moved

TYPE_CHECKING = False  # as in `_moved`
if TYPE_CHECKING:
    from typing import Any

    from enmf import datasets
    from enmf.api.certify import certify
    from enmf.api.complete import complete
    from enmf.api.consensus import Consensus, consensus
    from enmf.api.factorize import factorize
    from enmf.api.rank import RankSelection, select_rank
    from enmf.api.registry import completion_methods, initializations, methods
    from enmf.api.stability import Stability, stability
    from enmf.certificate.certificate import Certificate
    from enmf.geometry import exact
    from enmf.geometry.equivalence import Comparison, compare
    from enmf.io.annotated import to_anndata
    from enmf.matrix.factor import WorkersLost
    from enmf.report.diagnostics import (
        plot_comparison,
        plot_convergence,
        plot_reconstruction,
        plot_residuals,
        plot_stability,
        plot_usages,
    )
    from enmf.report.interpretation import components_frame, top_features
    from enmf.report.plots import plot_clustergram, plot_components, plot_ranks
    from enmf.run.result import Result
    from enmf.sklearn.nmc import ENMC
    from enmf.sklearn.nmf import ENMF, non_negative_factorization
    from enmf.stream.certificate import StreamCertificate
    from enmf.stream.stream import Stream

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
    "Stream",
    "StreamCertificate",
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
    "plot_clustergram",
    "plot_comparison",
    "plot_components",
    "plot_convergence",
    "plot_ranks",
    "plot_reconstruction",
    "plot_residuals",
    "plot_stability",
    "plot_usages",
    "select_rank",
    "stability",
    "to_anndata",
    "top_features",
]

# Modules are imported when one of their names is first used: `enmf --help` needs none of them.
_HOMES = {
    "api.certify": ("certify",),
    "api.complete": ("complete",),
    "api.consensus": ("Consensus", "consensus"),
    "api.factorize": ("factorize",),
    "api.rank": ("RankSelection", "select_rank"),
    "api.registry": ("completion_methods", "initializations", "methods"),
    "api.stability": ("Stability", "stability"),
    "certificate.certificate": ("Certificate",),
    "io.annotated": ("to_anndata",),
    "matrix.factor": ("WorkersLost",),
    "geometry.equivalence": ("Comparison", "compare"),
    "report.interpretation": ("components_frame", "top_features"),
    "report.diagnostics": (
        "plot_comparison",
        "plot_convergence",
        "plot_reconstruction",
        "plot_residuals",
        "plot_stability",
        "plot_usages",
    ),
    "report.plots": ("plot_clustergram", "plot_components", "plot_ranks"),
    "run.result": ("Result",),
    "sklearn.nmc": ("ENMC",),
    "sklearn.nmf": ("ENMF", "non_negative_factorization"),
    "stream.certificate": ("StreamCertificate",),
    "stream.stream": ("Stream",),
}
_ROOMS = {"datasets": "datasets", "exact": "geometry.exact"}  # modules that are public themselves
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        found = getattr(import_module(f"enmf.{_HOME_OF[name]}"), name)
    elif name in _ROOMS:
        found = import_module(f"enmf.{_ROOMS[name]}")
    else:
        raise AttributeError(f"module 'enmf' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """`enmf.stability` and `enmf.consensus` are functions, also once modules of these (old) names are imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME_OF and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
_moved.install()
