"""What must hold for an answer, from the definitions in the docstrings, in plain NumPy and extended precision.

Every function returns its complaints; an empty list means that the answer is right. X is divided by its largest entry
first (extended precision has the range for that), so that no square overflows where the answer itself does not.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from enmf.certificate.words import SMALL_ERROR, STATUSES

PROVEN = 1e-6  # error / bound - 1 up to which an answer may be called the best possible
DOUBLE, SINGLE = np.dtype(np.float64), np.dtype(np.float32)
EXACT = {DOUBLE: 1e-8, SINGLE: 5e-7}  # share of ||X|| up to which it may be called exact
ON_THE_WAY = 1e-3  # a trace is no more accurate than this, in single precision
SUBNORMAL = 5e-324  # the smallest number: figures in users' units are no more accurate
PENALTIES = ("l1_U", "l2_U", "l1_V", "l2_V")


@dataclass(frozen=True)
class Rounding:
    """What is rounding, and not a wrong figure: of relative errors and KKT residuals, relative and absolute."""

    error: float
    error_floor: float
    kkt: float
    kkt_floor: float

    @classmethod
    def of(cls, dtype: np.dtype) -> Rounding:
        return cls(1e-3, 3e-6, 5e-2, 2e-5) if dtype == SINGLE else cls(1e-6, 1e-12, 1e-4, 1e-11)


@dataclass(frozen=True)
class Problem:
    """min 1/2 ||W^½ o (X - U Vᵀ)||² + l1 and l2 penalties, over U >= 0 and V >= 0.

    X and W are zero where an entry is missing; a ridge of `complete` is an l2 for each row of U and V.
    """

    X: np.ndarray
    W: np.ndarray | None = None
    weight_unit: float = 1.0
    l1: tuple[float, float] = (0.0, 0.0)
    l2: tuple[Any, Any] = (0.0, 0.0)
    dtype: np.dtype = DOUBLE

    @property
    def penalized(self) -> bool:
        return any(self.l1) or any(np.any(weight) for weight in self.l2)

    @property
    def masked(self) -> bool:
        return self.W is not None


@dataclass(frozen=True)
class Figures:
    error: float
    relative_error: float
    kkt: float
    whole: float  # the norm of X
    size: float  # of all components together over that of X: so much is rounding in a gradient larger than X's

    def kkt_floor(self, dtype: np.dtype) -> float:
        return Rounding.of(dtype).kkt_floor * max(1.0, self.size) ** 1.5


def figures(problem: Problem, U: Any, V: Any) -> Figures:
    """Error and scale-free KKT residual: the projected gradient at balanced columns over ||X||^1.5."""
    with np.errstate(all="ignore"):
        X, U, V = (np.asarray(F, dtype=np.longdouble) for F in (problem.X, U, V))
        unit = X.max() if X.max() > 0 else np.longdouble(1)
        root = np.sqrt(unit)
        X, U, V = X / unit, U / root, V / root
        W = np.longdouble(1) if problem.W is None else problem.W.astype(np.longdouble) / problem.weight_unit
        R = W * (U @ V.T - X)
        whole = np.sqrt((W * X**2).sum())
        error = np.sqrt((W * (U @ V.T - X) ** 2).sum())
        gradients = R @ V, R.T @ U
        squares = [
            (_projected(F, D + l1 / unit / root + _column(l2) / unit * F) ** 2).sum(axis=0)
            for F, D, l1, l2 in zip((U, V), gradients, problem.l1, problem.l2)
        ]
        total = sum(part.sum() for part in squares) if problem.penalized else _balanced(U, V, *squares, whole)
        in_users_units = unit * np.sqrt(np.longdouble(problem.weight_unit))
        return Figures(
            float(error * in_users_units),
            float(error / whole) if whole > 0 else 0.0,
            float(np.sqrt(total) / whole**1.5) if whole > 0 else 0.0,
            float(whole * in_users_units),
            float((np.sqrt((U**2).sum(axis=0)) @ np.sqrt((V**2).sum(axis=0))) / whole) if whole > 0 else 0.0,
        )


def _column(weight: Any) -> Any:
    return np.asarray(weight, dtype=np.longdouble)[:, None] if np.ndim(weight) else np.longdouble(weight)


def _projected(F: np.ndarray, D: np.ndarray) -> np.ndarray:
    return np.where(F > 0, D, np.minimum(D, 0))


def _balanced(U: np.ndarray, V: np.ndarray, of_U: np.ndarray, of_V: np.ndarray, size: Any) -> Any:
    """Squares of the gradient of components with ||u_j|| = ||v_j||.

    Where one of them is zero the other one has the size of a component that explains X, ||v_j||² = ||X||; where both
    are, there is none.
    """
    u, v = np.sqrt((U**2).sum(axis=0)), np.sqrt((V**2).sum(axis=0))
    return sum(
        np.where(other > 0, squares * np.where(own > 0, own / other, size / other**2), 0).sum()
        for squares, own, other in ((of_U, u, v), (of_V, v, u))
    )


def bound(X: np.ndarray, rank: int) -> float:
    """Eckart-Young, relative to ||X||."""
    if rank >= min(X.shape) or X.max() == 0:
        return 0.0
    s = np.linalg.svd(X / X.max(), compute_uv=False)
    return float(np.sqrt((s[rank:] ** 2).sum() / (s**2).sum()))


# Complaints ----------------------------------------------------------------------------------------------------------


def of_factors(U: Any, V: Any, shape: tuple[int, int], rank: int, dtype: np.dtype | None = None) -> list[str]:
    """Shape, precision, finite, nonnegative."""
    found = []
    for name, F, length in (("U", np.asarray(U), shape[0]), ("V", np.asarray(V), shape[1])):
        if F.shape != (length, rank):
            found.append(f"{name} has shape {F.shape}, not {(length, rank)}")
        elif not np.isfinite(F).all():
            found.append(f"{name} has {np.sum(~np.isfinite(F))} entries that are not finite")
        elif F.min() < 0:
            found.append(f"{name} has negative entries, the smallest is {F.min():.3g}")
        if dtype is not None and F.dtype != dtype:
            found.append(f"{name} is {F.dtype}, not {dtype}")
    return found


def of_result(result: Any, problem: Problem, rank: int, options: dict[str, Any]) -> list[str]:
    """Factors, certificate and status of `factorize` and `complete`."""
    found = of_factors(result.U, result.V, problem.X.shape, rank, problem.dtype)
    if found:
        return found
    true = figures(problem, result.U, result.V)
    found += of_certificate(result.certificate, problem, true)
    found += list(_status(result, problem, true, options))
    return found


def of_certificate(c: Any, problem: Problem, true: Figures, kkt: bool = True) -> list[str]:
    """Figures of a certificate against the true ones of the factors."""
    numbers = {name: getattr(c, name) for name in ("error", "relative_error", "lower_bound", "gap", "kkt")}
    bad = [f"certificate.{name} is {value}" for name, value in numbers.items() if not math.isfinite(value)]
    if bad:
        return bad
    rounding, floor, found = Rounding.of(problem.dtype), true.kkt_floor(problem.dtype), []
    slack = rounding.error * true.relative_error + rounding.error_floor
    if abs(c.relative_error - true.relative_error) > slack:
        found.append(f"relative error is said to be {c.relative_error!r}, is {true.relative_error!r}")
    if abs(c.error - true.error) > slack * true.whole + 2 * SUBNORMAL:
        found.append(f"error is said to be {c.error!r}, is {true.error!r}")
    if kkt and abs(c.kkt - true.kkt) > rounding.kkt * true.kkt + floor:
        found.append(f"KKT residual is said to be {c.kkt!r}, is {true.kkt!r}")
    if c.stationary and kkt and true.kkt > 1.05 * c.tol + floor:
        found.append(f"stationary, with a KKT residual of {true.kkt!r}")
    return found + list(_bound(c, problem, true))


def _bound(c: Any, problem: Problem, true: Figures) -> Iterator[str]:
    """The bound is one, and nothing is called proven that is not."""
    best = 0.0 if problem.masked else bound(problem.X, c.rank)
    rounding = Rounding.of(problem.dtype).error_floor
    said = c.lower_bound / true.whole if 0 < true.whole < math.inf else 0.0
    last_bit = 2 * SUBNORMAL / true.whole if true.whole > 0 else 0.0
    if said > best * (1 + 1e-9) + rounding + last_bit:
        yield f"lower bound is said to be {said!r} of ||X||, is {best!r}"
    if c.globally_optimal:
        yield from _proof("globally optimal", best, problem, true)
    if getattr(c, "exact", False):
        yield from _exact("exact", problem, true)


def _proof(word: str, best: float, problem: Problem, true: Figures) -> Iterator[str]:
    rounding = Rounding.of(problem.dtype).error_floor
    if problem.penalized and true.whole > 0:
        yield f"{word}, with a penalty that the bound knows nothing of"
    elif true.relative_error > best * (1 + PROVEN) * (1 + 1e-9) + rounding:
        yield f"{word}, with a relative error of {true.relative_error!r} where {best!r} is possible"


def _exact(word: str, problem: Problem, true: Figures) -> Iterator[str]:
    if problem.penalized and true.whole > 0:
        yield f"{word}, with a penalty"
    elif true.relative_error > 1.001 * EXACT[problem.dtype]:
        yield f"{word}, with a relative error of {true.relative_error!r}"


def _status(result: Any, problem: Problem, true: Figures, options: dict[str, Any]) -> Iterator[str]:
    status, rounding = result.status, Rounding.of(problem.dtype)
    if status not in STATUSES:
        yield f"status {status!r} is not known"
    if status == "global_optimum" and not result.certificate.globally_optimal:
        best = 0.0 if problem.masked else bound(problem.X, result.U.shape[1])
        yield from _proof("status global_optimum", best, problem, true)
    if status == "exact":
        yield from _exact("status exact", problem, true)
    if status == "converged" and not options.get("exact_U"):
        yield from _converged(result, problem, true, options)
    target = options.get("target_error")
    if status == "target_reached" and (
        target is None or true.error > target * 1.001 + rounding.error_floor * true.whole
    ):
        yield f"status target_reached with an error of {true.error!r}, target_error={target!r}"
    if status == "timeout" and options.get("time_limit") is None:
        yield "status timeout without a time limit"
    if status == "interrupted" and options.get("callback") is None:
        yield "status interrupted, by nobody"
    if result.n_iter > options.get("max_iter", math.inf):
        yield f"{result.n_iter} iterations, max_iter={options['max_iter']}"
    if true.relative_error > 1 + 1e-6 and _had_its_time(options) and not problem.penalized:
        yield f"worse than zero factors: the relative error is {true.relative_error:.3g}"
    best = min((row.error for row in result.trace.of("descent") if math.isfinite(row.error)), default=math.inf)
    if true.error > (1 + ON_THE_WAY) * best + ON_THE_WAY * true.whole and not problem.penalized:
        yield f"error {true.error!r}, though factors on the way had {best!r}"


def _converged(result: Any, problem: Problem, true: Figures, options: dict[str, Any]) -> Iterator[str]:
    """The KKT residual is at most tol, which shrinks with the relative error where that is below 1 %."""
    tol = options.get("tol", 1e-4 if problem.masked else 1e-5) * min(1.0, true.relative_error / SMALL_ERROR)
    if true.kkt > 1.05 * tol + true.kkt_floor(problem.dtype):
        yield f"status converged with a KKT residual of {true.kkt!r}, tolerance {tol:.3g}"
    if not result.U.any() and true.relative_error > 0 and not problem.penalized:
        yield "status converged with zero factors"


def _had_its_time(options: dict[str, Any]) -> bool:
    limits = ("time_limit", "target_error", "callback")
    return options.get("max_iter", 1000) >= 60 and all(options.get(name) is None for name in limits)


def same(first: Any, second: Any, times: float = 1.0) -> bool:
    """Whether two results have the same factors to the last bit, those of the second one `times` as large.

    Subnormal numbers lose bits when they are multiplied; they count as zero.
    """
    pairs = ((first.U, second.U), (first.V, second.V))
    return all(np.allclose(F * F.dtype.type(times), G, rtol=0, atol=times * np.finfo(F.dtype).tiny) for F, G in pairs)


# What the caller owns ------------------------------------------------------------------------------------------------


def fingerprint(value: Any) -> Any:
    """A summary of everything in X that a call might change."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.strides, value.flags.writeable, _digest(value)
    if sp.issparse(value):
        arrays = (getattr(value, name, None) for name in ("data", "indices", "indptr", "coords"))
        return value.format, value.shape, tuple(map(fingerprint, arrays))
    if isinstance(value, (tuple, list)) and any(isinstance(item, np.ndarray) for item in value):
        return tuple(map(fingerprint, value))
    if isinstance(value, pd.DataFrame):
        return tuple(value.dtypes), tuple(value.columns), repr(value.to_numpy().tolist())
    return repr(value)


def _digest(array: np.ndarray) -> str:
    content = repr(array.tolist()).encode() if array.dtype == object else np.ascontiguousarray(array).tobytes()
    return hashlib.sha1(content).hexdigest()
