"""The user's X, masks and factors as ndarrays and CSR matrices of numbers."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from enmf import parallel
from enmf.distributed.kinds import is_lazy
from enmf.matrix.structure import as_csr
from enmf.problem.validation.entries import SAFE_RANGE, EntryError, first_place

TOUCHED = 20.0  # flops that take as long as to copy a number into fresh memory


def names_in(X: Any) -> tuple[list[str] | None, list[str] | None]:
    """Row names and column names of a frame (pandas, polars, Arrow, or one by protocol), None where there are none."""
    if _is_frame_by_protocol(X):
        return None, _names(list(X.__dataframe__().column_names()))
    if not hasattr(X, "columns") or not isinstance(getattr(X, "shape", None), tuple):  # a Dask task has everything
        return None, None
    return _names(getattr(X, "index", ())), _names(getattr(X, "column_names", X.columns))  # an Arrow table has both


def names_of(tables: list[Any]) -> tuple[list[str] | None, list[str] | None]:
    """Row names of all tables, one after another, and the column names of the first one that has some."""
    rows, columns = zip(*(names_in(table) for table in tables))
    named = [names for names in columns if names]
    for names in named:
        if names != named[0]:
            wrong = [name for name in names if name not in set(named[0])]
            what = f"one has {wrong[0]!r}, another has not" if wrong else "reorder them, as in table[first.columns]"
            raise ValueError(f"the tables must have the same columns in the same order: {what}")
    every = [name for names in rows for name in names or ()]
    return (every if all(rows) else None), next((names for names in columns if names), None)


def _names(labels: Any) -> list[str] | None:
    """Labels as strings; a mere numbering from 0 does not count as names."""
    names = [str(label) for label in labels]
    return None if names == [str(k) for k in range(len(names))] else names


def check_values(X: Any, shape: tuple[int, int]) -> Any:
    """The values of X, CSR or ndarray, NaN where they are missing; None if X is read in blocks."""
    if is_lazy(X):
        return None
    values = check_sparse(X, None) if sp.issparse(X) else check_dense(X, None)
    if values.shape != shape:
        raise ValueError(f"X has shape {values.shape}, the factors belong to a matrix of shape {shape}")
    return values


def refuse_containers(X: Any) -> None:
    """Refuse objects that contain a matrix but are not one, and say what to pass instead; imports nothing."""
    family, kind = type(X).__module__.partition(".")[0], type(X).__name__
    instead = None
    if family == "anndata":
        instead = "X.X or one of X.layers" if hasattr(X, "layers") else "X.to_memory(), which reads it from the file"
    elif family in ("dask", "dask_expr") and not hasattr(type(X), "chunks"):
        instead = "X.to_dask_array(lengths=True)" if hasattr(type(X), "to_dask_array") else "a Dask array"
    elif family in ("h5py", "zarr") and not hasattr(X, "shape"):
        instead = "one of its arrays, X[name]"
    elif family == "polars" and kind == "LazyFrame":
        instead = "X.collect()"
    if instead is not None:
        raise TypeError(f"X is a {kind} from {family}, not a matrix. Pass {instead}")


def refuse_masked(X: Any, advice: str = "") -> None:
    """Refuse a masked array where a complete matrix is needed: values under a mask are not data."""
    hidden = hidden_entries(X)
    if hidden is None:
        return
    count, (row, column) = int(hidden.sum()), first_place(X, hidden)
    raise EntryError(
        f"Input X is a masked array: {count} of {hidden.size} entries are masked, the first at row {row}, column "
        f"{column}. {advice or 'Use enmf.complete or ENMC, which treat them as missing, or fill them: X.filled(0)'}",
        "masked",
        count,
        (row, column),
    )


def hidden_entries(X: Any) -> np.ndarray | None:
    """The entries of X hidden by a mask of numpy.ma; None if there are none."""
    if isinstance(X, (list, tuple)) and any(isinstance(row, np.ma.MaskedArray) for row in X):
        X = np.ma.array(X)
    masked = isinstance(X, np.ma.MaskedArray) and X.ndim == 2 and np.ma.is_masked(X)
    return np.ma.getmaskarray(X) if masked else None


def unmasked(array: Any, name: str) -> np.ndarray:
    """The array; an error if numpy.ma masks some of its entries."""
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise ValueError(f"{name} has {int(np.ma.count_masked(array))} masked entries. Fill them: {name}.filled(...)")
    return even(array, name)


def even(values: Any, name: str) -> np.ndarray:
    """The values as an array; an error if they are lists of different lengths."""
    try:
        return np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must be an array: its rows have different lengths") from None


def check_dense(X: Any, dtype: Any) -> np.ndarray:
    """X as a contiguous array of real numbers, which may still be NaN, infinite or negative."""
    if isinstance(X, np.matrix):
        raise TypeError("X is a numpy.matrix, which behaves unlike arrays; pass np.asarray(X)")
    array = even(_from_protocol(X) if _is_frame_by_protocol(X) else X, "X")
    if array.dtype == object:
        try:
            array = without_na(array).astype(np.float64)
        except (TypeError, ValueError) as problem:
            raise type(problem)(
                f"X holds objects that are not numbers ({problem}); convert its columns to numbers first"
            ) from None
    if array.ndim != 2:
        hint = (
            ". Reshape your data: a single sample is X.reshape(1, -1), a single feature X.reshape(-1, 1)"
            if array.ndim == 1
            else ""
        )
        raise ValueError(f"X must be a matrix with 2 dimensions, got {array.ndim} (shape {array.shape}){hint}")
    check_size(array.shape)
    array = array.astype(target_dtype(array.dtype, dtype), copy=False)
    return array if array.flags.c_contiguous or array.flags.f_contiguous else np.ascontiguousarray(array)


def _is_frame_by_protocol(X: Any) -> bool:
    """A frame that says what it holds by the dataframe protocol alone."""
    return hasattr(type(X), "__dataframe__") and not hasattr(type(X), "__array__")


def _from_protocol(X: Any) -> Any:
    from pandas.api.interchange import from_dataframe

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pandas would rather have frames speak another protocol
        return from_dataframe(X)


def check_sparse(X: Any, dtype: Any) -> sp.csr_array:
    """X in canonical CSR form; its entries may still be NaN, infinite or negative."""
    if X.ndim != 2:
        raise ValueError(f"X must be a matrix with 2 dimensions, got {X.ndim} (shape {X.shape})")
    check_size(X.shape)
    csr = canonical(X, "X")
    return csr.astype(target_dtype(csr.dtype, dtype), copy=False)


def canonical(S: Any, name: str) -> sp.csr_array:
    """CSR, sorted and without duplicates. The caller's arrays are shared if they are already canonical."""
    try:
        csr = as_csr(S)
    except ValueError as problem:
        raise ValueError(f"{name}: {problem}") from None
    if not csr.has_canonical_format:
        csr = sp.csr_array(tuple(map(_copied, (csr.data, csr.indices, csr.indptr))), shape=csr.shape)
        csr.sum_duplicates()
    return csr


def _copied(array: np.ndarray) -> np.ndarray:
    """A copy by all threads: the first touch of fresh memory takes most of its time."""
    out = np.empty_like(array)

    def some(start: int, stop: int) -> None:
        out[start:stop] = array[start:stop]

    parallel.run(some, parallel.even_bounds(len(array), TOUCHED))
    return out


def check_size(shape: tuple[int, ...]) -> None:
    if 0 in shape:
        what = "sample(s)" if shape[0] == 0 else "feature(s)"
        raise ValueError(f"X is empty: it has 0 {what} (shape={shape}) while a minimum of 1 is required.")


def target_dtype(given: np.dtype, dtype: Any) -> np.dtype:
    """The dtype to compute in: `dtype` if the user asks for one, else that of X if it is float32, else float64."""
    if given.kind == "c":
        raise ValueError(f"Complex data not supported: X has dtype {given}. Factorize its magnitude, np.abs(X)")
    if given.kind not in "biuf":
        meaning = {"m": "time spans", "M": "dates"}.get(given.kind, "text")
        raise ValueError(f"X holds {meaning} (dtype {given}); it must hold numbers. Convert it with X.astype(float)")
    if dtype is not None:
        try:
            wanted = np.dtype(dtype)
        except (TypeError, ValueError):
            wanted = None
        if wanted not in SAFE_RANGE:
            raise TypeError(f"dtype must be float32 or float64, got {dtype if wanted is None else wanted}")
        return wanted
    return given if given in SAFE_RANGE else np.dtype(np.float64)


def without_na(array: np.ndarray) -> np.ndarray:
    """NaN in place of what pandas treats as missing: pd.NA, None."""
    import pandas

    return np.where(pandas.isna(array), np.nan, array)
