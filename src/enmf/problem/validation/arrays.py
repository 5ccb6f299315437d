"""X in memory, dense or sparse: from what the user passes to a `Matrix`."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp

from enmf.distributed.kinds import half_of_memory, is_lazy, is_mapped
from enmf.matrix.dense import DenseMatrix
from enmf.matrix.sparse import SparseMatrix
from enmf.problem.problem import Problem, Units
from enmf.problem.validation.convert import check_dense, check_sparse, refuse_containers, refuse_masked
from enmf.problem.validation.entries import checked_entries, within_range
from enmf.problem.validation.numbers import check_memory_limit


def check_problem(X: Any, dtype: Any = None, memory_limit: Any = None) -> Problem:
    """Turn the user's X into a `Matrix`: dense (ndarray, frame, memmap, nested lists), scipy sparse, or in blocks.

    float32 and float64 stay as they are; integers, booleans and float16 become float64, or `dtype`. Dask arrays, Zarr,
    HDF5 and folders of parts are read in blocks; so are memory maps with a `memory_limit`, or larger than half the
    memory of this machine.
    """
    refuse_containers(X)
    limit = check_memory_limit(memory_limit)
    refuse_masked(X)
    if is_lazy(X) or (is_mapped(X) and (limit is not None or X.nbytes > half_of_memory())):
        from enmf.problem.validation.blocks import check_blocks

        return check_blocks(X, dtype, limit)
    array, scale = checked_entries(check_sparse(X, dtype) if sp.issparse(X) else check_dense(X, dtype))
    matrix = SparseMatrix(array) if sp.issparse(array) else DenseMatrix(array)
    return Problem(within_range(matrix, scale), units=Units(scale))
