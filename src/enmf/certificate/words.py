"""What the words promise with which a run ends.

The first two speak of the error, so no run with a penalty ends with them: its aim is another one. The bound behind
`global_optimum` is rigorous (`enmf.linalg.bound`); error = bound = 0 is the case of an X reproduced to the last digit.
"""

from __future__ import annotations

import numpy as np

TOL = 1e-5  # KKT residual up to which a pair counts as stationary, unless another is asked for
PROVEN = 1e-6  # share of the bound by which the error of a "global_optimum" may exceed it
EXACT = 1e-8  # share of ||X|| up to which the error of a double precision factorization is called exact
SMALL_ERROR = 0.01  # relative error below which the tolerance shrinks with the error

STATUSES = {
    "global_optimum": f"error <= (1 + {PROVEN:.0e}) bound: nobody can do better by more than that share",
    "exact": "U Vᵀ is X up to 1e-8 ||X|| (5e-7 in single precision)",
    "converged": "the KKT residual is at most tol: stationary, which says nothing about other minima",
    "target_reached": "the error is at most target_error",
    "max_iter": "the largest number of iterations was reached",
    "timeout": "the time limit was reached",
    "stalled": "the objective has stopped falling (rounding) before the KKT residual came below tol",
    "interrupted": "Ctrl-C, or the callback asked to stop",
}


def effective_tol(tol: float, error: float, whole: float) -> float:
    """The KKT residual at which a run has converged: it shrinks with the error where that is small."""
    return tol * min(1.0, error / (SMALL_ERROR * whole)) if whole > 0 else tol


def exactness(dtype: np.dtype) -> float:
    """Relative error up to which a factorization is exact: EXACT, or what single precision can tell from zero."""
    return max(EXACT, 4.0 * float(np.finfo(dtype).eps))
