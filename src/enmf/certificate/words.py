"""What the words promise with which a run ends.

The first two speak of the error, so no run with a penalty ends with them: its aim is another one. The bound behind
`global_optimum` is rigorous (`enmf.linalg.bound`); error = bound = 0 is the case of an X reproduced to the last digit.
"""

from __future__ import annotations

import numpy as np

TOL = 1e-5  # KKT residual up to which a pair counts as stationary, unless another is asked for
SETTLED = 2e-4  # share of the error that going on may be expected to gain where a run without a tolerance ends
PROVEN = 1e-6  # share of the bound by which the error of a "global_optimum" may exceed it
EXACT = 1e-8  # share of ||X|| up to which the error of a double precision factorization is called exact
SMALL_ERROR = 0.01  # relative error below which the tolerance shrinks with the error

# what a status means, for people; the exact promises are in docs/certificate.md and in `Certificate`
STATUSES = {
    "global_optimum": "The result is proven to be the best possible: no factorization of this rank has an error that "
    "is smaller by more than one part in a million.",
    "exact": "The components reproduce the data up to rounding.",
    "converged": "The run converged: no small change of the factors improves the result.",
    "settled": "The run ended because going on promises too little: less than 0.02 % of the error.",
    "target_reached": "The run ended when it reached the requested error.",
    "max_iter": "The run reached the iteration limit; more iterations may improve the result.",
    "timeout": "The run reached the time limit; more time may improve the result.",
    "stalled": "The run stopped because rounding errors hide further progress.",
    "interrupted": "The run was interrupted; these are the best factors found before that.",
}
DONE = ("global_optimum", "exact", "converged", "settled", "target_reached")  # ended as it was meant to: exit code 0
BY_USER = ("target_reached", "timeout", "interrupted")  # words that stay, whatever the certificate proves
LIMITED = (*BY_USER, "max_iter", "global_optimum", "exact")  # no further start: none is needed, or none is allowed


def effective_tol(tol: float, error: float, whole: float) -> float:
    """The KKT residual at which a run has converged: it shrinks with the error where that is small."""
    return tol * min(1.0, error / (SMALL_ERROR * whole)) if whole > 0 else tol


def exactness(dtype: np.dtype) -> float:
    """Relative error up to which a factorization is exact: EXACT, or what single precision can tell from zero."""
    return max(EXACT, 4.0 * float(np.finfo(dtype).eps))
