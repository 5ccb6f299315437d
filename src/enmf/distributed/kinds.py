"""Which X is read in blocks: decided by its type alone, without importing anything."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np


def is_dask(X: Any) -> bool:
    return family(X) == "dask"


def is_lazy(X: Any) -> bool:
    """Whether X is of a kind that is read block by block (a memory map is, if its size demands it)."""
    return isinstance(X, (str, Path)) or family(X) in ("dask", "zarr", "h5py")


def family(X: Any) -> str:
    """The library an array comes from, found without importing anything."""
    return type(X).__module__.partition(".")[0]


def is_mapped(X: Any) -> bool:
    """Whether X is a whole memory map or consecutive rows of one."""
    return isinstance(X, np.memmap) and X.ndim == 2 and X.filename is not None and order_of(X) is not None


def half_of_memory() -> int:
    """Half the memory of this machine in bytes. Larger memory maps are read in blocks."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):  # not on Windows
        return 4 << 30


def order_of(X: np.memmap) -> str | None:
    return "C" if X.flags.c_contiguous else "F" if X.flags.f_contiguous else None
