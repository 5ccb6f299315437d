"""Held-out error of a rank, and how well its components recur, from masked entries of a sample of X in several folds.

A tenth of the entries is hidden, the rest is completed (`enmf.complete`), and what was hidden is compared with U Vᵀ,

    held-out error = ||X - U Vᵀ|| / ||X||     over the hidden entries.

Another loss is minimized over the visible entries and summed over the hidden ones, relative to rank 1:

    held-out error = sum d(x | u . v) / sum d(x | u1 v1)

A small ridge holds factors that few visible entries determine, and no estimate exceeds twice the largest visible entry
of its row and column. For other losses none is below a hundredth of (row sum) (column sum) / (sum) of the visible
entries either: a hidden entry whose estimate is zero would be infinitely bad. These affect only fits that would be
worthless anyway: at the true rank none is noticeable.

More components always fit the visible entries better, but the hidden ones only up to the true rank. Every fold hides
different entries and starts at random, so that its components also show what recurs:

    stability = mean of cos(u_j, u'_j) cos(v_j, v'_j)     over matched components and pairs of folds.

A component that is in the data is found by every fold; one that fits noise is not.

Where most entries are zero, as many zeros as nonzeros are hidden, and weighted to stand for all zeros. A large X is
sampled: rows, and then columns, by their squared norm, each once and without weights. A submatrix of U Vᵀ + noise has
the same form and the same rank.
"""

from __future__ import annotations

import itertools
import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from enmf import parallel
from enmf.api.request import Request, solve
from enmf.geometry.equivalence import match
from enmf.losses.base import Loss
from enmf.losses.entries import divergence
from enmf.matrix.base import Matrix, draw
from enmf.problem.problem import FROBENIUS
from enmf.problem.validation.factors import with_ridge
from enmf.problem.validation.masks import check_masked_problem
from enmf.run.stopping import Stopping

HIDDEN = 0.1  # share of the entries that a fold hides (less with more than ten folds)
RIDGE = 1e-3  # of the root mean square of the entries: it takes the same share of ||X|| off each component
ABOVE = 2.0  # largest estimate, relative to the largest visible entry of its row and column
BELOW = 0.01  # smallest estimate, relative to that from the sums of its row and column
NEW_COMPONENTS = 0.5  # size of the components added to a warm start, relative to the existing ones
LIMITS = Stopping(tol=1e-3, max_iter=200)
SIDE_PER_RANK = 6  # a sample has at least this many rows and columns per component

Factors = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Evidence:
    """What the folds say about one rank."""

    errors: list[float]  # held-out error of each fold
    stability: float
    factors: list[Factors]  # of each fold; the next larger rank starts from them


@dataclass(frozen=True)
class Hidden:
    """Entries that a fold hides, and how many entries each one stands for."""

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    weights: np.ndarray
    limits: np.ndarray  # upper limits of the estimates
    floors: np.ndarray  # lower limits, for losses that are infinite at zero


class HeldOut:
    """Folds of hidden entries of a sample of X; call `look` with increasing ranks."""

    def __init__(self, X: Matrix, folds: int, side: int, seed: int, loss: Loss = FROBENIUS) -> None:
        self.folds, self.seed, self.loss = folds, seed, loss.in_memory()  # visible entries are brought here
        rng = np.random.default_rng([seed, 0])
        self.sample = draw_sample(X, side, rng)
        self.hidden = hide(self.sample, folds, rng)
        values = self.sample.data if sp.issparse(self.sample) else self.sample
        self.squared_norm = float(np.square(values, dtype=np.float64).sum())
        size = math.sqrt(self.squared_norm / math.prod(self.sample.shape))
        self.ridge = RIDGE * size ** (loss.degree - 1.0) if size > 0 else 0.0
        self.simplest: dict[int, float] = {}  # the loss of the hidden entries at rank 1, by fold

    def look(self, rank: int, before: list[Factors] | None, n_threads: int | None) -> Evidence:
        """Complete the sample at this rank in every fold; `before` are the factors of a smaller rank."""

        def one(fold: int) -> tuple[float, Factors]:
            return self._fold(rank, fold, None if before is None else before[fold])

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a fold that ends early does not concern the user
            found = parallel.together(one, self.folds, n_threads)
        factors = [pair for _, pair in found]
        agreements = [_agreement(a, b) for a, b in itertools.combinations(factors, 2)]
        return Evidence([error for error, _ in found], float(np.mean(agreements)), factors)

    def _fold(self, rank: int, fold: int, before: Factors | None) -> tuple[float, Factors]:
        hidden = self.hidden[fold]
        U, V = self._complete(rank, fold, before)
        estimates = np.minimum(_products(U, V, hidden), hidden.limits)
        if self.loss.bounded:
            squares = hidden.weights * (hidden.values - estimates) ** 2
            error = math.sqrt(float(squares.sum()) / self.squared_norm) if self.squared_norm > 0 else 0.0
            return error, (U, V)
        if fold not in self.simplest:
            one = np.minimum(_products(*self._complete(1, fold, None), hidden), hidden.limits)
            self.simplest[fold] = self._loss(hidden, one)
        whole = self.simplest[fold]
        return self._loss(hidden, estimates) / whole if whole > 0 else 0.0, (U, V)

    def _loss(self, hidden: Hidden, estimates: np.ndarray) -> float:
        losses = divergence(hidden.values, np.maximum(estimates, hidden.floors), self.loss.degree)
        return float(hidden.weights @ losses)

    def _complete(self, rank: int, fold: int, before: Factors | None) -> Factors:
        """Factors of the visible entries."""
        rng = np.random.default_rng([self.seed, rank, 1 + fold])
        hidden = self.hidden[fold]
        pattern = sp.csr_array((np.ones(len(hidden.rows), np.bool_), (hidden.rows, hidden.columns)), self.sample.shape)
        masked = check_masked_problem(self.sample, missing=pattern if sp.issparse(self.sample) else pattern.toarray())
        warm = before is not None and all(F.any() for F in before)
        request = Request(
            method="enmc",
            init=_enlarged(*before, rank, rng) if before is not None and warm else "random",
            stopping=LIMITS,
            random_state=rng,
            n_threads=1,
        )
        problem = with_ridge(replace(masked, loss=self.loss), self.ridge, "entries")
        result = solve(problem, rank, request)
        return result.U, result.V


def _products(U: np.ndarray, V: np.ndarray, hidden: Hidden) -> np.ndarray:
    return np.einsum("ij,ij->i", U[hidden.rows], V[hidden.columns], dtype=np.float64)


def sample_side(entries: int, largest_rank: int) -> int:
    """Side of a square sample of that many entries, large enough for that rank."""
    return max(math.isqrt(entries), SIDE_PER_RANK * largest_rank)


def draw_sample(X: Matrix, side: int, rng: np.random.Generator) -> Any:
    """A submatrix of X with about side² entries, as square as X allows; larger and CSR where most entries are zero."""
    n, m = X.shape
    density = min(1.0, X.cost_per_column / (2.0 * n * m)) or 1.0  # an X of zeros counts as dense
    side = int(side / math.sqrt(density))
    rows = min(n, max(side, side * side // m))
    columns = min(m, max(side, side * side // rows))
    chosen = _choose(X.row_squares(), rows, rng)
    array: Any = X.pick(chosen)
    squares = array.multiply(array).sum(axis=0) if sp.issparse(array) else np.einsum("ij,ij->j", array, array)
    array = array[:, _choose(np.asarray(squares, dtype=np.float64).ravel(), columns, rng)]
    if density == 1.0:
        return np.ascontiguousarray(array.toarray() if sp.issparse(array) else array)
    return sp.csr_array(array)


def hide(sample: Any, folds: int, rng: np.random.Generator) -> list[Hidden]:
    """Disjoint sets, each the share HIDDEN of the entries, but no more zeros than nonzeros."""
    coo = sp.coo_array(sample)
    filled = np.sort(coo.coords[0].astype(np.int64) * sample.shape[1] + coo.coords[1])
    size = sample.shape[0] * sample.shape[1]
    zeros = size - len(filled)
    share = min(HIDDEN, 1.0 / folds)
    counts = [math.ceil(share * len(filled)), math.ceil(share * min(zeros, len(filled)))]
    empty = _places_of_zeros(filled, size, folds * counts[1], rng)
    counts = [min(counts[0], len(filled) // folds), min(counts[1], len(empty) // folds)]
    weights = [whole / max(1, count) for whole, count in zip((len(filled), zeros), counts)]
    orders = [rng.permutation(places) for places in (filled, empty)]
    found = []
    for fold in range(folds):
        parts = [order[fold * count : (fold + 1) * count] for order, count in zip(orders, counts)]
        rows, columns = np.divmod(np.concatenate(parts), sample.shape[1])
        weight = np.repeat(weights, [len(part) for part in parts])
        values = np.asarray(sample[rows, columns], np.float64).ravel()
        found.append(Hidden(rows, columns, values, weight, *_limits(coo, rows, columns)))
    return found


def _limits(coo: sp.coo_array, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Upper and lower limits of the estimates.

    The largest entry of a row or column may be hidden: when estimates were limited to the second largest, a few such
    entries made most of the held-out error of nearly exact data, however well they were estimated.
    """
    width = coo.shape[1]
    i, j = coo.coords
    visible = ~np.isin(i.astype(np.int64) * width + j, rows * width + columns)
    values = coo.data[visible].astype(np.float64)
    largest, sums = [], []
    for index, length in zip((i, j), coo.shape):
        largest.append(np.zeros(length))
        np.maximum.at(largest[-1], index[visible], values)
        total = np.bincount(index[visible], values, length)
        sums.append(np.where(total > 0, total, total.mean()))  # an empty row counts as an average one
    floors = BELOW / max(values.sum(), np.finfo(np.float64).tiny) * sums[0][rows] * sums[1][columns]
    return ABOVE * np.maximum(largest[0][rows], largest[1][columns]), floors


def _places_of_zeros(filled: np.ndarray, size: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """At least `count` row-major indices that are not `filled`, or all of them, without listing all n m."""
    if size <= 4 * (len(filled) + count):
        return np.setdiff1d(np.arange(size), filled, assume_unique=True)
    drawn = np.unique(rng.integers(0, size, 2 * count))  # at least three quarters are zeros, and few are drawn twice
    return np.setdiff1d(drawn, filled, assume_unique=True)


def _choose(squares: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """All, or about `count` different indices, drawn by their squared norm."""
    if count >= len(squares) or not squares.any():
        return np.arange(min(count, len(squares)))
    return draw(squares, count, rng)[0]


def _enlarged(U: np.ndarray, V: np.ndarray, rank: int, rng: np.random.Generator) -> Factors:
    """The factors, padded to the rank with random columns of similar size."""
    more = rank - U.shape[1]
    new = (NEW_COMPONENTS * F.mean() * rng.random((len(F), more)) for F in (U, V))
    return tuple(np.hstack([F, G]).astype(F.dtype) for F, G in zip((U, V), new))  # type: ignore[return-value]


def _agreement(A: Factors, B: Factors) -> float:
    """Mean of cos(u, u') cos(v, v') over matched components."""
    (Ua, Va), (Ub, Vb) = (tuple(F.astype(np.float64) for F in pair) for pair in (A, B))
    found = match((Ua, Va), (Ub, Vb))
    return float(np.mean(found.cosines_U * found.cosines_V))
