"""Separable data: X = U Vᵀ where U contains, up to scale and order, the rows of the identity.

Then r rows of X are the columns of V up to scale, every other row is a nonnegative combination of them, and exact NMF
is easy: successive projection (`src/enmf/starts/spa.py`) finds these rows. The same holds for Xᵀ. The paper's exact
sets are of this kind (the first 50 rows of U are the identity); data from `enmf.datasets.make_exact` are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from enmf import parallel
from enmf.problem.validation.arrays import check_problem
from enmf.problem.validation.numbers import check_count, check_number
from enmf.starts.spa import Extraction, extract


@dataclass(frozen=True)
class Separability:
    """Whether X is separable at a rank.

    Attributes
    ----------
    separable : bool
        Whether the better of the two sides explains X to within `tol`.
    side : {"rows", "columns"}
        Whether the pure entries are rows or columns of X.
    anchors : tuple of int
        Their positions.
    relative_error : float
        ||X - U Vᵀ|| / ||X||, where V consists of those rows (or U of those columns) and the other factor is solved for.
    U, V : ndarray
        That factorization.
    tol : float

    Examples
    --------
    >>> import enmf, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> U, V = np.vstack([np.eye(3), rng.random((20, 3))]), rng.random((15, 3))
    >>> found = enmf.exact.separability(U @ V.T, 3)
    >>> found.separable, sorted(found.anchors)
    (True, [0, 1, 2])
    """

    separable: bool
    side: str
    anchors: tuple[int, ...]
    relative_error: float
    U: np.ndarray
    V: np.ndarray
    tol: float

    def __repr__(self) -> str:
        found = f"separable by {len(self.anchors)} {self.side}" if self.separable else "not separable"
        return f"Separability({found}, relative_error={self.relative_error:.3g})"


def separability(X: Any, rank: int, *, tol: float = 1e-6) -> Separability:
    """Test whether X is separable: whether r of its rows (or columns) generate all others.

    Successive projection finds the generating rows of every separable X whose generators are linearly independent
    (Araújo et al. 2001; Gillis and Vavasis 2014, theorem 3, also under small noise). So for exact data of that rank
    the answer "no" is as reliable as "yes"; for noisy data it means "not to within this tolerance".

    Parameters
    ----------
    X : array-like or scipy sparse matrix of shape (n, m)
    rank : int
    tol : float
        Largest relative error at which X counts as explained.

    Examples
    --------
    >>> import enmf, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> U, V = np.vstack([np.eye(3), rng.random((20, 3))]), rng.random((15, 3))
    >>> enmf.exact.separability(U @ V.T, 3).anchors
    (0, 1, 2)
    >>> enmf.exact.separability(rng.random((20, 3)) @ V.T, 3).separable
    False
    """
    problem = check_problem(X)
    check_count("rank", rank, low=1)
    check_number("tol", tol, low=0.0)
    with parallel.limit(None):
        best: Extraction = extract(problem.X, min(int(rank), *problem.X.shape))
    root = np.asarray(np.sqrt(problem.scale), problem.X.dtype)
    return Separability(
        separable=best.relative_error <= tol,
        side=best.side,
        anchors=tuple(sorted(best.anchors)),
        relative_error=best.relative_error,
        U=best.U * root,
        V=best.V * root,
        tol=tol,
    )
