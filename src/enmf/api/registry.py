"""Names of methods and starts. A new one is one file and one line here; the contract test finds it.

A method is a class with a `step`; its constructor's parameters are its options. "enmf" is the exterior start followed
by the descent method named in its option `descent`, so "exterior" is a start for every other method too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from enmf.matrix.base import Matrix
from enmf.run.method import Method
from enmf.solvers.admm import AOADMM, NMFADMM
from enmf.solvers.als import ALS, ProjectedALS
from enmf.solvers.anls_bpp import ANLSBPP
from enmf.solvers.grad_mult import GradMult
from enmf.solvers.gradient import Gradient
from enmf.solvers.hals import HALS, AcceleratedHALS, ExtrapolatedHALS
from enmf.solvers.mu import MultiplicativeUpdates
from enmf.solvers.nesterov import FPGM, NeNMF
from enmf.solvers.r1d import R1D
from enmf.starts import heuristic, kmeans, nica, nndsvd, random, spa

Start = Callable[[Matrix, int, np.random.Generator], tuple[np.ndarray, np.ndarray]]

DESCENTS: dict[str, type[Method]] = {
    method.name: method
    for method in (
        HALS,
        AcceleratedHALS,
        ExtrapolatedHALS,
        MultiplicativeUpdates,
        GradMult,
        ALS,
        ProjectedALS,
        AOADMM,
        NMFADMM,
        NeNMF,
        FPGM,
        R1D,
        ANLSBPP,
        Gradient,
    )
}

STARTS: dict[str, Start] = {
    "random": random.random,
    "nndsvd": nndsvd.nndsvd,
    "nndsvda": nndsvd.nndsvda,
    "nndsvdar": nndsvd.nndsvdar,
    "kmeans": kmeans.kmeans,
    "heuristic": heuristic.heuristic,
    "nica": nica.nica,
    "spa": spa.spa,
}


def methods() -> list[str]:
    """Names accepted as `method` by `enmf.factorize`."""
    return ["enmf", *DESCENTS]


def initializations() -> list[str]:
    """Names accepted as `init` by `enmf.factorize`."""
    return ["exterior", *STARTS]
