"""Modules of earlier versions under their old names, for pickles of fitted estimators and imports in users' code.

Nothing of this is imported until somebody asks for an old name.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

TYPE_CHECKING = False  # typing's own, without its import: `import enmf` takes next to no time
if TYPE_CHECKING:
    from collections.abc import Sequence

MOVED = {
    "certification": "api.certify",
    "completion.complete": "api.complete",
    "completion.estimator": "sklearn.nmc",
    "components": "certificate.components",
    "consensus": "api.consensus",
    "equivalence": "geometry.equivalence",
    "estimators": "sklearn.nmf",
    "exact": "geometry.exact",
    "exterior.rotation": "linalg.rotation",
    "exterior.svd": "linalg.svd",
    "factorization": "api.factorize",
    "interpretation": "report.interpretation",
    "matrix.chunked": "distributed.chunked",
    "matrix.engine": "distributed.engine",
    "optimality": "certificate.certificate",
    "plots": "report.plots",
    "rank": "api.rank",
    "registry": "api.registry",
    "result": "run.result",
    "stability": "api.stability",
    "stopping": "run.stopping",
    "trace": "run.trace",
    "uniqueness": "certificate.uniqueness",
}
OPENED = {"completion": ("ENMC", "complete", "completion_methods")}  # packages that are no more, and what is public


class Moved:
    """Finds a module that has moved where it is now.

    A finder and a loader by its methods alone: importing the classes of `importlib.abc` takes longer than all of this.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, name = fullname.partition(".")
        if package != "enmf" or (name not in MOVED and name not in OPENED):
            return None
        return ModuleSpec(fullname, self, is_package=name in OPENED)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        name = spec.name.removeprefix("enmf.")
        if name in OPENED:
            return None  # an empty one
        module = import_module(f"enmf.{MOVED[name]}")
        spec.loader_state = module.__spec__
        inside = [(place, part) for place, part in sys.modules.items() if place.startswith(f"{module.__name__}.")]
        for place, part in inside:  # known already, so that no import of one replaces a function of the same name
            sys.modules.setdefault(spec.name + place.removeprefix(module.__name__), part)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """One that has moved has been executed under its own name, which it keeps."""
        spec = module.__spec__
        assert spec is not None
        name = spec.name.removeprefix("enmf.")
        if name not in OPENED:
            module.__spec__ = spec.loader_state
            return
        for old in MOVED:
            if old.startswith(f"{name}."):
                import_module(f"enmf.{old}")  # now: later it would replace a function of the same name
        for public in OPENED[name]:
            setattr(module, public, getattr(import_module("enmf"), public))


def install() -> None:
    """First of all finders: the path of a package that has moved would lead to second copies of its modules."""
    if not any(isinstance(finder, Moved) for finder in sys.meta_path):
        sys.meta_path.insert(0, Moved())
