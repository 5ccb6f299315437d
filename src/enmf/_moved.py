"""Modules of earlier versions under their old names, for pickles of fitted estimators and imports in users' code.

Nothing of this is imported until somebody asks for an old name.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "certification": "api.certify",
    "completion": "api.complete",
    "completion.complete": "api.complete",
    "completion.estimator": "sklearn.nmc",
    "components": "certificate.components",
    "equivalence": "geometry.equivalence",
    "estimators": "sklearn.nmf",
    "exact": "geometry.exact",
    "factorization": "api.factorize",
    "heldout": "api.heldout",
    "interpretation": "report.interpretation",
    "matrix.chunked": "distributed.chunked",
    "matrix.engine": "distributed.engine",
    "optimality": "certificate.certificate",
    "plots": "report.plots",
    "rank": "api.rank",
    "registry": "api.registry",
    "result": "run.result",
    "stopping": "run.stopping",
    "trace": "run.trace",
    "uniqueness": "certificate.uniqueness",
    "exterior.rotation": "linalg.rotation",
    "exterior.svd": "linalg.svd",
}


class Moved(MetaPathFinder, Loader):
    """Finds a module that has moved where it is now."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, name = fullname.partition(".")
        return ModuleSpec(fullname, self) if package == "enmf" and name in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return import_module(f"enmf.{MOVED[spec.name.removeprefix('enmf.')]}")

    def exec_module(self, module: ModuleType) -> None:
        """It has been executed under its own name."""


def install() -> None:
    if not any(isinstance(finder, Moved) for finder in sys.meta_path):
        sys.meta_path.append(Moved())
