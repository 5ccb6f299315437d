"""X in memory, dense or sparse: from what the user passes to a `Matrix`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from enmf.distributed.kinds import half_of_memory, is_lazy, is_mapped
from enmf.matrix.dense import DenseMatrix
from enmf.matrix.sparse import SparseMatrix
from enmf.matrix.stacked import stack
from enmf.problem.problem import Problem, Units
from enmf.problem.structure import Structure
from enmf.problem.validation.convert import check_dense, check_sparse, refuse_containers, refuse_masked
from enmf.problem.validation.entries import checked_entries, within_range
from enmf.problem.validation.numbers import check_memory_limit


def check_problem(X: Any, dtype: Any = None, memory_limit: Any = None, negative: bool = False) -> Problem:
    """Turn the user's X into a `Matrix`: dense (ndarray, frame, memmap, nested lists), scipy sparse, or in blocks.

    float32 and float64 stay as they are; integers, booleans and float16 become float64, or `dtype`. Dask arrays, Zarr,
    HDF5 and folders of parts are read in blocks; so are memory maps with a `memory_limit`, or larger than half the
    memory of this machine. Entries below zero are refused, unless `negative` ones are to be kept.
    """
    refuse_containers(X)
    limit = check_memory_limit(memory_limit)
    refuse_masked(X)
    if is_lazy(X) or (is_mapped(X) and (limit is not None or X.nbytes > half_of_memory())):
        from enmf.problem.validation.blocks import check_blocks

        if negative:
            raise ValueError("negative entries are kept in an X in memory only, and X is read in blocks: load it")

        return check_blocks(X, dtype, limit)
    array = check_sparse(X, dtype) if sp.issparse(X) else check_dense(X, dtype)
    array, scale = checked_entries(array, negative=negative)
    matrix = SparseMatrix(array) if sp.issparse(array) else DenseMatrix(array)
    if negative:
        matrix.signed = bool((array.data if sp.issparse(array) else array).min(initial=0.0) < 0)
    return Problem(within_range(matrix, scale), units=Units(scale))


def check_tables(tables: list[Any], dtype: Any = None, negative: bool = False) -> Problem:
    """The problem of several tables with the same columns, one below the other."""
    problems = []
    for number, table in enumerate(tables):
        try:
            problems.append(check_problem(table, dtype, None, negative))
            problems[-1].X.raw()
        except (TypeError, ValueError) as bad:
            kind = TypeError if isinstance(bad, TypeError) else ValueError
            raise kind(f"table {number}: {bad}") from None
    widths, kinds = {problem.X.shape[1] for problem in problems}, {problem.X.dtype for problem in problems}
    if len(widths) > 1:
        shapes = ", ".join(str(problem.X.shape) for problem in problems)
        raise ValueError(
            f"the tables must have the same columns, they have shapes {shapes}. Transpose those that share rows"
        )
    if len(kinds) > 1:
        return check_tables(tables, np.float64, negative)
    scale = max(problem.scale for problem in problems)
    matrices = [
        problem.X
        if problem.scale == scale
        else problem.X.scaled(np.full(problem.X.shape[0], problem.scale / scale), None)
        for problem in problems
    ]
    structure = Structure(tables=tuple(problem.X.shape[0] for problem in problems))
    return replace(problems[0], X=within_range(stack(matrices), scale), units=Units(scale), structure=structure)
