"""Batches to read once or several times: lists, functions that begin anew, X in blocks (files, Dask, Zarr, HDF5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from enmf.distributed.kinds import is_lazy
from enmf.distributed.sources import open_blocks

BLOCK_BYTES = 1 << 25  # of a batch of an X that is read in blocks


def readings(batches: Any, passes: int) -> Callable[[], Iterator[Any]]:
    """A function that begins to read the batches anew; refused for several passes over what can be read only once."""
    if is_lazy(batches):
        blocks, _ = open_blocks(batches, lambda size: min(size, BLOCK_BYTES))
        return lambda: (block.load() if hasattr(block, "load") else block.compute() for block in blocks)
    if callable(batches):
        return lambda: iter(batches())
    if hasattr(batches, "shape") or not isinstance(batches, Iterable):
        raise TypeError(
            f"batches must be a list or another iterable of matrices, or a function that returns one, got "
            f"{type(batches).__name__}. For a matrix in memory use fit, or pass [X[:1000], X[1000:2000], ...]"
        )
    if passes > 1 and iter(batches) is batches:
        raise ValueError(
            f"batches is a {type(batches).__name__}, which can be read only once, and passes={passes} reads it "
            f"{passes} times. Pass a function that returns a new one, or passes=1"
        )
    return lambda: iter(batches)
