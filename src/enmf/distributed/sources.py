"""Where the row blocks of a large X come from: a Dask array, a memory map, Zarr, HDF5, or a folder of parts.

A source is opened once and gives a list of blocks. A block is either a Dask `Delayed` or an object with `load()`; both
give an ndarray or a scipy sparse matrix of consecutive rows. Objects with `load()` are sent to workers as a name and a
range of rows, never as data.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import scipy.sparse as sp

from enmf.distributed.blocks import as_block
from enmf.distributed.kinds import family, order_of
from enmf.matrix.structure import check_structure

SUFFIXES = (".npz", ".npy", ".parquet")

BlockBytes = Callable[[int], int]  # from the size of X to that of a block


@dataclass(frozen=True)
class MappedRows:
    """Rows of a memory-mapped file. Each load opens a new map and drops it, so that no page stays resident."""

    path: str
    dtype: np.dtype
    offset: int  # bytes before the first entry of X
    shape: tuple[int, int]
    order: str
    rows: tuple[int, int]

    def load(self) -> np.ndarray:
        first, last = self.rows
        if self.order == "C":
            skip = self.offset + first * self.shape[1] * self.dtype.itemsize
            part = np.memmap(self.path, self.dtype, "r", skip, (last - first, self.shape[1]))
            return np.array(part)
        return np.array(np.memmap(self.path, self.dtype, "r", self.offset, self.shape, "F")[first:last])


@dataclass(frozen=True)
class StoredRows:
    """Rows of an array that reads slices on demand (Zarr)."""

    array: Any
    rows: tuple[int, int]

    def load(self) -> np.ndarray:
        return np.asarray(self.array[self.rows[0] : self.rows[1]])


class DatasetRows:
    """Rows of an HDF5 dataset: read through the open file in this process, through the name of the file elsewhere."""

    def __init__(self, dataset: Any, rows: tuple[int, int]) -> None:
        self.dataset, self.rows = dataset, rows
        self.path, self.name = dataset.file.filename, dataset.name

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "dataset": None}

    def load(self) -> np.ndarray:
        first, last = self.rows
        if self.dataset is not None:
            return self.dataset[first:last]
        import h5py

        with h5py.File(self.path, "r") as file:
            return file[self.name][first:last]


@dataclass(frozen=True)
class PartFile:
    """A file of a folder: npz (scipy.sparse.save_npz, or one dense array), npy or parquet."""

    path: str

    def load(self) -> Any:
        try:
            part = self._read()
            if sp.issparse(part):
                check_structure(part)
            return part
        except (OSError, ValueError, KeyError, EOFError, BadZipFile) as problem:
            raise ValueError(f"the part {self.path!r} of X cannot be read: {problem}") from problem

    def _read(self) -> Any:
        if self.path.endswith(".parquet"):
            return _read_parquet(self.path)
        if self.path.endswith(".npy"):
            return np.load(self.path)
        with np.load(self.path) as content:
            names = list(content)
            if "format" in names:
                return sp.load_npz(self.path)
            if len(names) != 1:
                raise ValueError(f"it must hold one array or one sparse matrix, it holds {', '.join(names)}")
            return content[names[0]]


def _read_parquet(path: str) -> np.ndarray:
    import pandas

    try:
        return pandas.read_parquet(path).to_numpy()
    except ImportError:
        raise ImportError(f"{path!r}: parquet files need pyarrow: pip install pyarrow") from None


class LazyBlock:
    """A block of a Dask array that is recomputed each time it is needed, by the task that needs it."""

    def __init__(self, delayed: Any) -> None:
        self.delayed = delayed

    @classmethod
    def of(cls, delayed: Any) -> LazyBlock:
        import dask

        return cls(dask.optimize(delayed)[0])  # with only its part of the graph

    def load(self) -> Any:
        import dask

        return dask.compute(self.delayed, scheduler="sync", optimize_graph=False)[0]


def futures_in(block: Any) -> list[Any]:
    """What workers already hold of a Dask block (or array): the block itself, or its inputs."""
    if not hasattr(block, "dask") or "distributed" not in sys.modules:
        return []
    from distributed.client import futures_of

    held = futures_of(block)
    return [future for future in held if future.key == getattr(block, "key", None)] or held


def is_held(block: Any) -> bool:
    """Whether only the workers can provide a Dask block: from their futures, or from keys that only they know."""
    if not hasattr(block, "dask"):
        return False
    graph = dict(block.dask)
    needed = {block.key, *(key for task in graph.values() for key in getattr(task, "dependencies", ()))}
    return bool(futures_in(block)) or not needed <= set(graph)


def open_blocks(X: Any, block_bytes: BlockBytes) -> tuple[list[Any], int]:
    """The blocks of X, of about the wanted size if we may choose, and the number of its column chunks."""
    if isinstance(X, (str, Path)):
        path = Path(X)
        if path.suffix != ".npy" or not path.is_file():
            return _open_folder(path), 1
        X = np.load(path, mmap_mode="r")
    if len(X.shape) != 2:
        raise ValueError(f"X must be a matrix with 2 dimensions, got {len(X.shape)} (shape {tuple(X.shape)})")
    if family(X) == "dask":
        return _open_dask(X, block_bytes)
    if isinstance(X, np.memmap):
        return _open_mapped(X, block_bytes), 1
    make: Any = DatasetRows if family(X) == "h5py" else StoredRows
    chunk = X.chunks[0] if getattr(X, "chunks", None) else 1  # whole stored chunks: none is read twice
    return [make(X, rows) for rows in _ranges(X.shape, X.dtype.itemsize, block_bytes, chunk)], 1


def _ranges(shape: tuple[int, ...], itemsize: int, block_bytes: BlockBytes, multiple: int = 1) -> list[tuple[int, int]]:
    n, m = shape
    height = max(1, block_bytes(n * m * itemsize) // max(1, m * itemsize))
    height = max(multiple, height // multiple * multiple)
    return [(first, min(first + height, n)) for first in range(0, n, height)]


def _open_mapped(X: np.memmap, block_bytes: BlockBytes) -> list[Any]:
    root = X
    while isinstance(root.base, np.memmap):
        root = root.base
    offset = root.offset + X.ctypes.data - root.ctypes.data
    order = order_of(X)
    assert order is not None
    ranges = _ranges(X.shape, X.dtype.itemsize, block_bytes)
    return [MappedRows(str(X.filename), X.dtype, offset, X.shape, order, rows) for rows in ranges]


def _open_folder(folder: Path) -> list[Any]:
    if not folder.is_dir():
        problem = "this is not" if folder.exists() else "there is no such file or folder. A string must name"
        raise ValueError(f"X is {str(folder)!r}: {problem} an npy file or a folder of npz, npy or parquet parts")
    parts = sorted((p for p in folder.iterdir() if p.suffix in SUFFIXES), key=_natural)
    if not parts:
        raise ValueError(f"the folder {str(folder)!r} holds no npz, npy or parquet files")
    strange = [p.name for p in parts if not (p.is_file() or p.is_dir())]
    if strange:  # reading a pipe would wait for its writer
        raise ValueError(f"{strange[0]!r} in the folder {str(folder)!r} is not a file. Remove it")
    return [PartFile(str(p)) for p in parts]


def _natural(path: Path) -> list[tuple[int, str]]:
    """part-2 before part-10."""
    return [(int(text), "") if text.isdigit() else (-1, text) for text in re.split(r"(\d+)", path.name)]


def _open_dask(X: Any, block_bytes: BlockBytes) -> tuple[list[Any], int]:
    """One block per row of chunks; many small ones are merged, so that tasks stay coarse."""
    grid = X.to_delayed(optimize_graph=not futures_in(X))  # optimizing may lose futures of a persisted array
    rows, columns = grid.shape
    lines = [list(grid[i]) for i in range(rows)]
    known = not any(np.isnan(size) for size in X.chunks[0])
    row = max(1, X.shape[1] * X.dtype.itemsize)
    height = max(1, block_bytes(X.shape[0] * row) // row) if known else 1
    groups: list[list[list[Any]]] = []
    filled = height + 1
    for line, size in zip(lines, X.chunks[0]):
        if not known or filled + size > height:
            groups.append([])
            filled = 0
        groups[-1].append(line)
        filled += 0 if not known else int(size)
    return [_joined(group) for group in groups], columns


def _joined(group: list[list[Any]]) -> Any:
    if len(group) == 1 and len(group[0]) == 1:
        return group[0][0]
    import dask

    return dask.delayed(stack, pure=False)(group)


def stack(parts: list[list[Any]]) -> Any:
    """The block assembled from a grid of chunks."""
    checked = [[as_block(chunk) for chunk in line] for line in parts]
    lines = [(sp.hstack(line, "csr") if sp.issparse(line[0]) else np.hstack(line)) for line in checked]
    return sp.vstack(lines, "csr") if sp.issparse(lines[0]) else np.vstack(lines)
