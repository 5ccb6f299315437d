"""mu: multiplicative updates (Lee and Seung 2001; Lin and Boutros 2018 where entries are missing).

    U <- U * (X V) / (U (VᵀV + l2 I) + l1),   then V <- V * (Xᵀ U) / (V (UᵀU + l2 I) + l1)

An entry whose denominator is zero stays as it is. Entries that have become negligible are set to exactly zero:
multiplication alone never gets there, and the KKT residual would not see that they have converged. Nor does it bring
them back: a zero whose gradient asks it to grow restarts at the threshold (the lower bound of Gillis and Glineur 2008).
Without that the method gets stuck, on Verb at rank 80 1 % to 6 % above the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from enmf.matrix.factor import by_rows
from enmf.problem.state import State
from enmf.run.method import Method


@dataclass(frozen=True)
class MultiplicativeUpdates(Method):
    """One update per product with X.

    Parameters
    ----------
    drop : float
        Entries below this share of the mean entry become zero if they still shrink.
    """

    drop: float = 1e-12

    needs = frozenset({"terms"})

    def step(self, state: State, memory: Any, objective: float) -> None:
        for half in state.halves:
            half.replace(_update(half.F, *half.loss.terms(half), half.loss.exponent, self.drop * half.F.mean()))


@by_rows
def _update(
    F: np.ndarray, numerator: np.ndarray, denominator: np.ndarray, exponent: float, nothing: float
) -> np.ndarray:
    """One update; entries below `nothing` that still shrink become zero, zeros that should grow become `nothing`."""
    factor = np.ones_like(F)
    np.divide(np.maximum(numerator, 0), denominator, out=factor, where=denominator > 0)
    new = F * (factor if exponent == 1.0 else factor**exponent)
    new[(new < nothing) & (factor < 1)] = 0
    new[(F == 0) & (denominator < numerator)] = nothing
    return np.asfortranarray(new)
