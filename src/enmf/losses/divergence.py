"""Beta divergences: Kullback-Leibler (beta = 1), Itakura-Saito (beta = 0), and what lies between these and 2.

    d(x | m) = x log(x/m) - x + m                                                      beta = 1
               x/m - log(x/m) - 1                                                      beta = 0
               (x^beta + (beta - 1) m^beta - beta x m^(beta - 1)) / (beta (beta - 1))  else, 0 < beta < 2

A half-step takes a multiplicative and a Newton step of every row (src/kernels/divergence.h); neither raises the loss.
A factor of which columns or zeros are known takes multiplicative steps alone: each of its entries may stay, and no step
of the others raises the loss.
An extrapolated entry keeps a share of its value, since the loss is infinite where the model is zero and X is not. The
error is sqrt(2 D), as scikit-learn's `reconstruction_err_` has it.

A bound on what a single row u could still gain, for 1 <= beta <= 2 (`block_gap`): with the two parts of its gradient,
up_k = sum_j x m^(beta-2) v_jk and down_k = sum_j m^(beta-1) v_jk, A = u . up, B = u . down and rho = max up_k / down_k,
Jensen's inequality gives for every other row u*, with T = u* . down,
    D(u*) - D(u) >= B/beta ((T/B)^beta - 1) - A/(beta-1) ((rho T/A)^(beta-1) - 1),
whose smallest value over T >= 0 is at T = rho^(beta-1) A^(2-beta) B^(beta-1). For beta = 1 the gain is at most
B - A + A log rho.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from enmf import parallel
from enmf.kernels import divergence as kernels
from enmf.losses.base import Loss
from enmf.matrix.base import Matrix
from enmf.matrix.factor import by_rows, column_inner, fortran, total
from enmf.matrix.known import measure_known
from enmf.matrix.order import rowwise
from enmf.matrix.sweeps import EntrySteps, GradientMeasure, Momentum, Sweep, extrapolate, measure_gradient

MOST_SWEEPS, ACCURACY = 20, 0.1  # of the model of a Newton step: most sweeps; the share of the first that ends them
LEAST_KEPT = 0.5  # of an extrapolated entry
LEAST_ENTRY = 1e-10  # of the mean: smaller entries of multiplicative steps are zero, or this if they should grow
MOST_STEPS, SOLVED = 500, 1e-13  # of a row that is solved for
RANK_ONE = 6  # updates of the best model of rank one


@dataclass(frozen=True)
class Divergence(Loss):
    """The beta divergence sum d(x | m); its error is sqrt(2 D)."""

    beta: float = 1.0

    power = 0.5
    settles = True
    sure = 1e-5  # after it, no descent that was looked at gained 0.002 % of its loss

    @cached_property
    def rising(self) -> bool:  # type: ignore[override]
        return self.beta <= 1.0

    @cached_property
    def name(self) -> str:  # type: ignore[override]
        return {1.0: "kullback-leibler", 0.0: "itakura-saito"}.get(self.beta, f"beta={self.beta:g}")

    @property
    def degree(self) -> float:
        return self.beta

    @property
    def exponent(self) -> float:  # type: ignore[override]
        return 1.0 / (2.0 - self.beta) if self.beta < 1.0 else 1.0

    @property
    def scalings(self) -> tuple[float, ...]:  # type: ignore[override]
        """Those of the best model of rank one, half of them for beta < 1 (spectra span many orders), and none."""
        power = (2.0 - self.beta) / 2.0
        return (power if self.beta >= 1.0 else power / 2.0, 0.0)

    def offers(self, X: Matrix | None = None) -> frozenset[str]:
        has_rows = X is None or X.has_rows
        return frozenset({"half-step", "terms", "single entries", "all rows"} if has_rows else ())

    # Sizes ------------------------------------------------------------------------------------------------------------

    def mass(self, X: Matrix) -> float:
        """sum of x^beta: the sum of X, or the number of entries for Itakura-Saito."""
        with X.memo.lock:
            key = f"mass {self.beta}"
            if key not in X.memo:
                X.memo[key] = X.power_sum(self.beta)
            return X.memo[key]

    def size(self, X: Matrix) -> float:
        return float(X.sums(0).sum()) / math.sqrt(X.shape[0] * X.shape[1])

    def error(self, value: float) -> float:
        return math.sqrt(max(2.0 * value, 0.0))

    def rounding(self, X: Matrix, value: float) -> float:
        return float(np.finfo(X.dtype).eps) * (abs(value) + self.mass(X))

    def preparation(self, half: Any) -> float:
        return float(half.X.listed_entries(self.beta)) * half.F.shape[1]

    def measuring_flops(self, X: Matrix, rank: int) -> float:
        return 12.0 * X.listed_entries(self.beta) * (rank + 4.0)

    def step_flops(self, X: Matrix, rank: int) -> float:
        return 2.0 * X.listed_entries(self.beta) * rank * (rank + 16.0)

    # Half-steps and what is measured ----------------------------------------------------------------------------------

    def half_step(self, half: Any, how: Sweep) -> None:
        if half.known is None:
            self._newton(half, 1, 0.0, min(how.sweeps, MOST_SWEEPS), how.progress)
        else:
            self._multiply(half)
        if how.momentum is not None:
            extrapolate(half.F, Momentum(how.momentum.old, how.momentum.beta, LEAST_KEPT))
        half.changed()

    def _newton(self, half: Any, steps: int, progress: float, sweeps: int, accuracy: float) -> None:
        how = int(steps), float(progress), int(sweeps), float(accuracy)
        r = half.F.shape[1]
        self._run("newton", half, r * (r + 16.0), *_weights(half), half.F.T, *how)

    def _multiply(self, half: Any) -> float:
        """A multiplicative step of all entries that are free; returns the largest change, relative to a column."""
        (up, down), known = self.terms(half), half.known
        factor = np.divide(up, down, out=np.ones_like(up), where=down > 0) ** np.asarray(self.exponent, up.dtype)
        new, least = half.F * factor, LEAST_ENTRY * float(half.F.mean())
        new[(new < least) & (factor < 1)] = 0  # multiplication alone reaches no zero, and leaves none
        new[(half.F == 0) & (down < up)] = least
        if known.zeros is not None:
            new[known.zeros] = 0
        if known.fixed is not None:
            new[:, : known.fixed.shape[1]] = known.fixed
        change = float((np.abs(new - half.F).max(axis=0) / np.maximum(new.max(axis=0), np.finfo(new.dtype).tiny)).max())
        with half.editing() as F:
            F[...] = new
        return change

    def entry_steps(self, half: Any, how: EntrySteps) -> None:
        flops = 10.0 * half.F.shape[1] * how.sweeps
        self._run("entry_steps", half, flops, *_weights(half), half.F.T, how.sweeps, how.damped)
        half.changed()

    def _run(self, kernel: str, half: Any, flops: float, *arguments: Any) -> None:
        """Run a kernel on all rows of half.F; a pass over X."""
        half.X.passes += 1
        run_kernel(kernel, half.X, half.side, half.other.F, self.beta, flops, *arguments)

    def value(self, state: Any) -> float:
        if "divergence" not in state.joint:
            half = state.halves[0]
            values, nothing = np.empty(len(half.F)), np.empty((half.F.shape[1], 0), half.F.dtype)
            self._run("terms", half, 2.0 * half.F.shape[1] + 20.0, half.F.T, values, nothing, nothing)
            state.joint["divergence"] = float(values.sum())
        return state.joint["divergence"]

    def prepare(self, state: Any, kkt: bool) -> None:
        self.value(state)  # by which a method judges

    def _parts(self, half: Any) -> tuple[np.ndarray, np.ndarray]:
        """The two parts of the gradient, without the penalty."""
        key = "parts", half.side
        if key not in half.joint:
            n, r = half.F.shape
            up, down = (np.empty((r, n), half.F.dtype) for _ in range(2))
            self._run("terms", half, 6.0 * r + 20.0, half.F.T, np.empty(0), up, down)
            half.joint[key] = up.T, down.T
        return half.joint[key]

    def terms(self, half: Any) -> tuple[np.ndarray, np.ndarray]:
        up, down = self._parts(half)
        return (up, down + self._penalty(half)) if half.penalty else (up, down)

    def _penalty(self, half: Any) -> np.ndarray:
        """The gradient of the penalty."""
        l2 = half.penalty.per_row(len(half.F))[:, None].astype(half.F.dtype)
        return np.asarray(half.penalty.l1, half.F.dtype) + l2 * half.F

    def measure(self, half: Any) -> GradientMeasure:
        up, down = self.terms(half)
        G = np.zeros((half.F.shape[1],) * 2, half.F.dtype)
        B = fortran(up - down)
        if half.known is None:
            return measure_gradient(half.F, G, B)
        return measure_known(half, G, half.known.barred(B))

    def solve(self, half: Any) -> np.ndarray:
        """The best half.F for the other factor; it depends on X and that factor alone."""
        half.replace(np.ones_like(half.F))
        if half.known is not None:
            for _ in range(MOST_STEPS):
                if self._multiply(half) < SOLVED:
                    break
            return half.F
        self._newton(half, MOST_STEPS, SOLVED, MOST_SWEEPS, ACCURACY)
        half.changed()
        return half.F

    def shares(self, state: Any) -> np.ndarray:
        """Of sum m^beta: for beta = 1 the mass of a component."""
        rows = state.halves[0]
        own = column_inner(rows.F, self._parts(rows)[1])
        return own / own.sum() if own.sum() > 0 else np.zeros(state.rank)

    # What a certificate says ------------------------------------------------------------------------------------------

    def explained(self, state: Any, value: float) -> float:
        """Share of the loss of the best model of rank one."""
        X = state.X
        if "rank one" not in X.memo:
            X.memo["rank one"] = {}
        known = X.memo["rank one"]
        if self.beta not in known:
            known[self.beta] = self._rank_one(state)
        simplest = known[self.beta]
        return 1.0 - value / simplest if simplest > 0 else 1.0

    def _rank_one(self, state: Any) -> float:
        """The loss of the best model of rank one: row sums times column sums for beta = 1, else by alternating."""
        X = state.X
        total = max(float(X.sums(0).sum()), np.finfo(float).tiny)
        passes = X.passes
        one = type(state)(state.problem, X.sums(0)[:, None] / total, X.sums(1)[:, None])
        complete_counts = self.beta == 1.0 and X.complete
        for _ in range(0 if complete_counts else RANK_ONE):
            for half in one.halves:
                half.replace(_multiplied(half.F, *self._parts(half)))
        value = self.value(one)
        X.passes = passes
        return value

    def block_gap(self, half: Any) -> float:
        known = half.known
        if self.beta < 1.0 or half.penalty or (known is not None and known.fixed is not None):
            return math.nan
        sums = half.X.sums(half.side)[:, None]
        own = half.X.own(sums) if half.side == 0 else sums
        up, down = self._parts(half)
        if known is not None:
            up = np.where(known.zeros, 0.0, up)
        return float(total(_gap, half.F, up, down, own, self.beta))


@by_rows
def _multiplied(F: np.ndarray, up: np.ndarray, down: np.ndarray) -> np.ndarray:
    return np.asfortranarray(F * np.divide(up, down, out=np.zeros_like(up), where=down > 0))


def _gap(F: np.ndarray, up: np.ndarray, down: np.ndarray, sums: np.ndarray, b: float) -> float:
    """What these rows could still gain, beta being b; `sums` are those of X  # n x 1"""
    F, up, down = (part.astype(np.float64, copy=False) for part in (F, up, down))
    A, B = np.einsum("ik,ik->i", F, up), np.einsum("ik,ik->i", F, down)
    rho = np.divide(up, down, out=np.zeros_like(up), where=down > 0).max(axis=1)
    some = (A > 0) & (B > 0)
    if (sums[~some & (B == 0), 0] > 0).any():
        return math.inf  # a row of zeros that should not be one
    rest = float(B[~some].sum()) / b  # rows of zeros in X
    A, B, rho = A[some], B[some], rho[some]
    if b == 1.0:
        gaps = B - A + A * np.log(rho)
    else:
        T = rho ** (b - 1.0) * A ** (2.0 - b) * B ** (b - 1.0)
        gaps = A / (b - 1.0) * ((rho * T / A) ** (b - 1.0) - 1.0) - B / b * ((T / B) ** b - 1.0)
    return float(np.maximum(gaps, 0.0).sum()) + rest


def _weights(half: Any) -> tuple[float, np.ndarray]:
    """l1, and l2 of every row."""
    return float(half.penalty.l1), half.penalty.per_row(len(half.F)).astype(half.F.dtype, copy=False)


def run_kernel(kernel: str, X: Matrix, side: int, C: np.ndarray, beta: float, flops: float, *arguments: Any) -> None:
    """Run a kernel on all rows (side 0) or columns of X, with the other factor C held fixed."""
    source, offsets = source_of(X, side, beta)
    C = rowwise(C, C.dtype)
    base = C.sum(axis=0, dtype=np.float64).astype(C.dtype)
    bounds = parallel.balanced_bounds(offsets, flops / 4.0)
    parallel.run(getattr(source, kernel), bounds, C, base, *arguments)


def source_of(X: Matrix, side: int, beta: float) -> tuple[Any, np.ndarray]:
    """X by its rows (side 0) or columns, as the kernels see it, and offsets that divide the work evenly."""
    key = f"rows {side} for beta {beta}"
    with X.memo.lock:
        if key not in X.memo:
            X.memo[key] = _source(X, side, beta)
        return X.memo[key]


def _source(X: Matrix, side: int, beta: float) -> tuple[Any, np.ndarray]:
    source = (kernels.Double if X.dtype == np.float64 else kernels.Single)(float(beta))
    rows = X.by_rows(side)
    length, width = X.shape[side], X.shape[1 - side]
    if isinstance(rows, np.ndarray):
        source.dense(rows)
        return source, np.arange(length + 1) * width
    source.sparse(width, rows.starts, rows.indices, rows.data, rows.weights, rows.implied)
    every = rows.implied and beta != 1.0  # zeros count too
    return source, np.arange(length + 1) * width if every else rows.indptr
