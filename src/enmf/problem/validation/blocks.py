"""X in blocks of rows: every block is checked once before any work. Imported only if X is read in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from enmf.distributed.blocks import Preparation, Survey, look
from enmf.distributed.chunked import ChunkedMatrix
from enmf.distributed.engine import Engine
from enmf.distributed.kinds import is_dask
from enmf.distributed.sources import open_blocks
from enmf.problem.problem import Problem, Units
from enmf.problem.validation.convert import check_size, target_dtype
from enmf.problem.validation.entries import TINY_NEGATIVE, power_of_four, within_range
from enmf.problem.validation.numbers import warn_outside


def check_blocks(X: Any, dtype: Any, limit: int | None) -> Problem:
    """Check every block once; errors name the block and the entry."""
    engine = Engine(limit)
    blocks, columns = open_blocks(X, engine.block_bytes)
    if columns > 1:
        warn_outside(
            f"X is split into {columns} chunks along its columns; every block of rows is assembled from them, which "
            "moves all of X between the workers. Chunks of whole rows are cheaper: X.rechunk({1: -1})"
        )
    if not blocks:
        check_size(tuple(X.shape))
    surveys = engine.look(look, blocks, None)
    wanted = target_dtype(np.result_type(*(survey.dtype for survey in surveys)), dtype)
    filled = [(block, survey) for block, survey in zip(blocks, surveys) if survey.shape[0]]
    check_size((sum(survey.shape[0] for _, survey in filled), max(survey.shape[1] for survey in surveys)))
    blocks, surveys = [list(column) for column in zip(*filled)]
    _check_surveys(surveys)
    largest, smallest = max(s.largest for s in surveys), min(s.smallest for s in surveys)
    clip = smallest < 0
    if clip:
        _check_negative(surveys, smallest, largest, wanted)
    preparation = Preparation(wanted, power_of_four(largest, wanted), clip)
    if clip or preparation.scale != 1.0:
        surveys = engine.look(look, blocks, preparation)
    chunked = ChunkedMatrix(blocks, surveys, preparation, engine, is_dask(X))
    return Problem(within_range(chunked, preparation.scale), units=Units(preparation.scale))


def _check_surveys(surveys: list[Survey]) -> None:
    first = 0
    for number, survey in enumerate(surveys):
        rows = f"block {number} (rows {first} to {first + survey.shape[0] - 1})"
        if survey.shape[1] != surveys[0].shape[1]:
            raise ValueError(
                f"{rows} of X has {survey.shape[1]} columns, the blocks before it have {surveys[0].shape[1]}"
            )
        if survey.bad is not None:
            kind, count, row, column = survey.bad
            raise ValueError(
                f"Input X contains {'NaN' if kind == 'NaN' else 'infinity'}: {count} entries of {rows} are {kind}, the "
                f"first at row {first + row}, column {column}. Fill or remove them first"
            )
        first += survey.shape[0]


def _check_negative(surveys: list[Survey], smallest: float, largest: float, dtype: np.dtype) -> None:
    """Rounding noise below zero is clipped when a block is read, with a warning; real negative entries are an error."""
    count = sum(survey.negative[0] for survey in surveys if survey.negative)
    if -smallest <= TINY_NEGATIVE * np.finfo(dtype).eps * max(largest, 0.0):
        warn_outside(
            f"{count} entries of X are negative by rounding only (the smallest is {smallest:.3g}); they are treated "
            "as zero"
        )
        return
    first = 0
    for number, survey in enumerate(surveys):
        if survey.negative:
            _, row, column = survey.negative
            raise ValueError(
                f"Negative values in data passed to enmf: X has {count} negative entries, the smallest is "
                f"{smallest:.6g}, the first at row {first + row}, column {column}, in block {number} (rows {first} to "
                f"{first + survey.shape[0] - 1}). NMF needs X >= 0"
            )
        first += survey.shape[0]
