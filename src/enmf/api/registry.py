"""Names of methods and starts. A new one is one file and one line here; the contract test finds it.

A method is a frozen dataclass with a `step`; its fields are its options, and the instances here hold their defaults.
"enmf" and "enmc" are the exterior start followed by the descent method named in the option `descent`, so "exterior" is
a start for every other method too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from enmf.exterior.pipeline import ExteriorStart
from enmf.exterior.plan import ExteriorOptions
from enmf.exterior.softimpute import CompletionOptions, CompletionStart
from enmf.problem.validation.losses import check_loss
from enmf.run.method import Method
from enmf.run.options import MakeStart, Start
from enmf.solvers.adm import ADM
from enmf.solvers.admm import AOADMM, NMFADMM
from enmf.solvers.als import ALS, ProjectedALS
from enmf.solvers.anls_bpp import ANLSBPP
from enmf.solvers.coordinate_newton import CoordinateNewton
from enmf.solvers.grad_mult import GradMult
from enmf.solvers.gradient import Gradient
from enmf.solvers.hals import HALS, R1D, AcceleratedHALS, ExtrapolatedHALS
from enmf.solvers.mu import ExtrapolatedUpdates, MultiplicativeUpdates
from enmf.solvers.nesterov import FPGM, NeNMF
from enmf.solvers.symmetric import SymmetricHALS
from enmf.starts.heuristic import heuristic
from enmf.starts.kmeans import kmeans
from enmf.starts.nica import nica
from enmf.starts.nndsvd import nndsvd, nndsvda, nndsvdar
from enmf.starts.r1d import r1d
from enmf.starts.random import observed, random
from enmf.starts.spa import spa

DESCENTS: dict[str, Method] = {
    "hals": HALS(),
    "a-hals": AcceleratedHALS(),
    "e-hals": ExtrapolatedHALS(),
    "mu": MultiplicativeUpdates(),
    "mu-e": ExtrapolatedUpdates(),
    "ccd": CoordinateNewton(),
    "sn": CoordinateNewton(damped=True),
    "grad-mult": GradMult(),
    "als": ALS(),
    "als-projected": ProjectedALS(),
    "ao-admm": AOADMM(),
    "nmf-admm": NMFADMM(),
    "nenmf": NeNMF(),
    "fpgm": FPGM(),
    "r1d": R1D(),
    "anls-bpp": ANLSBPP(),
    "gradient": Gradient(),
}

STARTS: dict[str, MakeStart] = {
    "random": random,
    "nndsvd": nndsvd,
    "nndsvda": nndsvda,
    "nndsvdar": nndsvdar,
    "kmeans": kmeans,
    "heuristic": heuristic,
    "nica": nica,
    "spa": spa,
}

OWN_DESCENTS: dict[str, Method] = {"symmetric": SymmetricHALS()}  # descents that belong to what is known
OWN_STARTS: dict[str, MakeStart] = {"r1d": r1d}  # starts that belong to one method

COMPLETIONS: dict[str, Method] = {
    "masked-scd": HALS(sweeps=50, progress=1e-4),
    "masked-e-scd": ExtrapolatedHALS(max_sweeps=10, progress=0.01),
    "masked-mu": MultiplicativeUpdates(),
    "adm": ADM(),
}


@dataclass(frozen=True)
class Catalogue:
    """The methods and starts for one kind of X."""

    own: str  # name of the exterior method
    descents: dict[str, Method]
    starts: dict[str, MakeStart]
    descent: str  # default descent of the exterior method
    start: str  # default start of the other methods
    options: type  # options of the exterior phases
    exterior: Callable[[Any], Start]
    penalties: bool  # whether l1 and l2 are accepted as options

    def methods(self) -> list[str]:
        return [self.own, *self.descents]

    def initializations(self) -> list[str]:
        return ["exterior", *self.starts]


FACTORIZATION = Catalogue(
    "enmf", DESCENTS, STARTS, "e-hals", "nndsvdar", ExteriorOptions, ExteriorStart, penalties=True
)
COMPLETION = Catalogue(
    "enmc",
    COMPLETIONS,
    {"random": observed},
    "masked-e-scd",
    "random",
    CompletionOptions,
    CompletionStart,
    penalties=False,
)


def methods(loss: str | float = "frobenius") -> list[str]:
    """Names accepted as `method` by `enmf.factorize` for this loss.

    Examples
    --------
    >>> import enmf
    >>> enmf.methods()[:4]
    ['enmf', 'hals', 'a-hals', 'e-hals']
    >>> "anls-bpp" in enmf.methods("kullback-leibler")
    False
    """
    offered = check_loss(loss).offers()
    return [FACTORIZATION.own, *(name for name, method in DESCENTS.items() if method.needs <= offered)]


def initializations() -> list[str]:
    """Names accepted as `init` by `enmf.factorize`.

    Examples
    --------
    >>> import enmf
    >>> enmf.initializations()[:3]
    ['exterior', 'random', 'nndsvd']
    """
    return FACTORIZATION.initializations()


def completion_methods() -> list[str]:
    """Names accepted as `method` by `enmf.complete`.

    Examples
    --------
    >>> import enmf
    >>> enmf.completion_methods()
    ['enmc', 'masked-scd', 'masked-e-scd', 'masked-mu', 'adm']
    """
    return COMPLETION.methods()
