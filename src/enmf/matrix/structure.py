"""Whether the indices of a scipy sparse matrix lie inside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp


def as_csr(S: Any) -> sp.csr_array:
    """Any scipy sparse matrix in CSR form (a new object that shares the arrays of a CSR one), its structure checked."""
    check_structure(S)
    csr = sp.csr_array(S)
    if S.format not in ("csr", "csc", "bsr", "coo"):
        check_structure(csr)  # built from lists, which are still unchecked
    csr.prune()  # entries after the last row belong to no row
    return csr


def check_structure(S: Any) -> None:
    """Raise ValueError unless all indices of a scipy sparse matrix lie inside it.

    Compiled code, ours and scipy's, reads and writes wherever they point, so this comes before any use. One pass
    over the indices.
    """
    if S.format == "coo":
        for name, index, length in zip(("row", "column"), S.coords, S.shape):
            _check_inside(name, index, length, len(S.data))
    elif S.format in ("csr", "csc", "bsr"):
        _check_compressed(S)


def _check_compressed(S: Any) -> None:
    names, shape = (("row", "column"), S.shape) if S.format != "csc" else (("column", "row"), S.shape[::-1])
    if S.format == "bsr":
        names, shape = ("row of blocks", "column of blocks"), tuple(a // b for a, b in zip(shape, S.blocksize))
    indptr = S.indptr
    if len(indptr) != shape[0] + 1 or indptr[0] != 0:
        raise _broken(f"indptr must begin with 0 and have {shape[0] + 1} entries for shape {S.shape}")
    falls = np.flatnonzero(indptr[1:] < indptr[:-1])
    if len(falls):
        raise _broken(f"indptr decreases at {len(falls)} places, first after {names[0]} {falls[0]}")
    stored = min(len(S.indices), len(S.data))
    if indptr[-1] > stored:
        raise _broken(f"indptr ends at {indptr[-1]}, but {stored} entries are stored")
    _check_inside(names[1], S.indices[: indptr[-1]], shape[1], int(indptr[-1]), names[0], indptr)


def _check_inside(
    name: str, index: np.ndarray, length: int, stored: int, other: str = "entry", indptr: np.ndarray | None = None
) -> None:
    if index.dtype.kind not in "iu" or len(index) != stored:
        raise _broken(f"there must be {stored} integers as {name} indices, got {len(index)} of dtype {index.dtype}")
    if stored == 0 or (index.min() >= 0 and index.max() < length):
        return
    outside = np.flatnonzero((index < 0) | (index >= length))
    first = outside[0] if indptr is None else np.searchsorted(indptr, outside[0], side="right") - 1
    raise _broken(
        f"{len(outside)} of {stored} {name} indices lie outside 0..{length - 1}, the first is {index[outside[0]]} "
        f"at {other} {first}"
    )


def _broken(problem: str) -> ValueError:
    return ValueError(f"the sparse matrix is damaged: {problem}. Rebuild it from rows, columns and values")
