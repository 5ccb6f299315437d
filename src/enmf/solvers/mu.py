"""mu: multiplicative updates (Lee and Seung 2001).

    U <- U * (X V) / (U (VᵀV + l2 I) + l1),   then V <- V * (Xᵀ U) / (V (UᵀU + l2 I) + l1)

An entry whose denominator is zero stays as it is. Entries that have shrunk to nothing become exactly zero:
multiplication alone never gets there, and the KKT residual would not see that they have arrived. Nor does it bring them
back: a zero whose gradient asks it to grow begins anew from nothing (the lower bound of Gillis and Glineur 2008).
Without that the method stops where it must not, on Verb at rank 80 1 % to 6 % above the others.
"""

from __future__ import annotations

import numpy as np

from enmf.distributed.rows import by_rows
from enmf.parallel import matmul
from enmf.problem.state import Iterate
from enmf.run.method import Method


class MultiplicativeUpdates(Method):
    """One update for each product with X.

    Parameters
    ----------
    drop : float
        Entries below this share of the mean entry are nothing: they become zero when they still shrink.
    """

    name = "mu"
    in_blocks = True

    def __init__(self, drop: float = 1e-12) -> None:
        self.drop = drop

    def step(self, it: Iterate, objective: float) -> None:
        it.set_U(_update(it.U, *it.normal_U(), it.penalty.l1_U, self.drop * it.U.mean()))
        it.set_V(_update(it.V, *it.normal_V(), it.penalty.l1_V, self.drop * it.V.mean()))


@by_rows
def _update(F: np.ndarray, G: np.ndarray, B: np.ndarray, l1: float, nothing: float) -> np.ndarray:
    """One update; entries below `nothing` that still shrink become zero, zeros that want to grow become `nothing`.

    B has -l1 in it, which belongs into the denominator: both sides of the fraction are then nonnegative.
    """
    shift = np.asarray(l1, F.dtype)
    B, denominator = B + shift, matmul(F, G) + shift
    factor = np.ones_like(F)
    np.divide(np.maximum(B, 0), denominator, out=factor, where=denominator > 0)
    new = F * factor
    new[(new < nothing) & (factor < 1)] = 0
    new[(F == 0) & (denominator < B)] = nothing
    return np.asfortranarray(new)
