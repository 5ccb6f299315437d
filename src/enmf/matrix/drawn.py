"""Weighted rows or columns of X that stand for all of them, in losses that add up over rows and columns.

The loss of row i under the best u_i is a number f_i, whatever the other rows are: sum_i f_i is estimated without bias
by the rows of a sample with probabilities p_i, each with weight w_i = 1 / p_i. Multiplying row i by c multiplies its
loss by c^degree, so a row times w^(1/degree) has weight w. The more a row can contribute, the likelier it has to be: p
is proportional to s_i^degree, s being the sums of X, and a few rows that hold most of X are certain.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from enmf.matrix.base import Matrix, draw
from enmf.matrix.dense import DenseMatrix
from enmf.matrix.sparse import SparseMatrix


def drawn(X: Matrix, side: int, count: int, degree: float, rng: np.random.Generator) -> Matrix:
    """About `count` weighted rows (side 0) or columns of X; unweighted ones for a degree below 1.

    There a weight w^(1/degree) would outgrow all numbers, and rows differ less in what they contribute.
    """
    if degree < 1.0:
        index = np.sort(rng.choice(X.shape[side], count, replace=False))
        return _part(X, side, index, np.ones(count, X.dtype))
    index, root = draw(X.sums(side).astype(np.float64) ** degree, count, rng)
    return _part(X, side, index, (root ** (2.0 / degree)).astype(X.dtype))


def _part(X: Matrix, side: int, index: np.ndarray, weight: np.ndarray) -> Matrix:
    if side == 0:
        return X._rows(index, weight)
    part = X.raw()[:, index]
    if sp.issparse(part):
        return SparseMatrix(sp.csr_array(part @ sp.diags_array(weight)))
    return DenseMatrix(np.ascontiguousarray(part * weight))
