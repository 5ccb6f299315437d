"""`enmf.select_rank`: what each rank costs and gains, and which one to choose.

One SVD, at the largest rank, serves all ranks: their bounds, and the starts of their fits. For each rank there are

bound, error, gap   of a fit of X by the exterior method, at a loose tolerance
held_out            error on entries that the fit did not see, and its standard error over the folds
stability           agreement of the components over folds and starts  (both in `enmf.api.heldout`)

The suggestion is the smallest rank whose held-out error exceeds the lowest one by no more than chance would: by at most
one standard error of the differences, fold by fold, or a thousandth of what the lowest gains over the highest.

Other losses than the Frobenius norm have no bound and need no SVD for it; loss and explained share take the place of
bound and gap.
"""

from __future__ import annotations

import json
import math
import os
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from enmf import parallel
from enmf.api.heldout import Factors, HeldOut, sample_side
from enmf.api.request import Request, solve
from enmf.linalg.spectrum import Spectrum
from enmf.linalg.svd import bounded
from enmf.problem.problem import Problem
from enmf.problem.validation.arrays import check_problem
from enmf.problem.validation.factors import check_ranks
from enmf.problem.validation.losses import with_loss
from enmf.problem.validation.numbers import check_count, check_threads, make_rng, warn_outside
from enmf.run.checks import check_limits
from enmf.run.result import Result
from enmf.run.saved import SavedFile, check_factor
from enmf.run.stopping import Stopping

if TYPE_CHECKING:
    import pandas

NEGLIGIBLE = 1e-3  # of the range of the held-out errors

Row = dict[str, Any]


@dataclass(frozen=True)
class RankSelection:
    """What `select_rank` found.

    Attributes
    ----------
    rank : int
        The suggestion.
    reason : str
        Why, in a sentence.
    table : DataFrame
        One row per rank: bound, error, gap ((error - bound) / ||X||), relative_error, loss, explained, held_out,
        held_out_se (standard error), stability, status and seconds. Errors and bounds have the unit of X, held-out
        errors are relative. For other losses than the Frobenius norm the error is sqrt(2 loss), the bound 0 and the gap
        nan, since no bound is known; the held-out error is the loss of the hidden entries over that at rank 1.
    folds : DataFrame
        Held-out error, one row per rank, one column per fold.
    complete : bool
        False if the sweep was interrupted: the larger ranks are missing.
    loss_name : str
        What was minimized.

    Examples
    --------
    >>> import enmf
    >>> X, _, _ = enmf.datasets.make_exact(40, 30, 3, 0.4, random_state=0)
    >>> found = enmf.select_rank(X, range(2, 6))
    >>> found.rank, found.complete
    (3, True)
    >>> found.table.index.tolist(), bool((found.table["error"] >= 0.999 * found.table["bound"]).all())
    ([2, 3, 4, 5], True)
    """

    rank: int
    reason: str
    table: pandas.DataFrame = field(repr=False)
    folds: pandas.DataFrame = field(repr=False)
    complete: bool = True
    loss_name: str = "frobenius"

    def to_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        rows = [{"rank": int(rank), **row} for rank, row in zip(self.table.index, self.table.to_dict("records"))]
        held = self.folds.to_numpy().tolist()
        rows = [{**row, "folds": errors} for row, errors in zip(rows, held)]
        about = {"rank": self.rank, "reason": self.reason, "complete": self.complete, "loss_name": self.loss_name}
        return {**about, "table": rows}

    def plot(self, axes: Any = None) -> Any:
        """Error and bound (or loss), held-out error and stability against the rank; returns three matplotlib axes."""
        from enmf.report.plots import plot_ranks

        return plot_ranks(self, axes)

    def __str__(self) -> str:
        lines = [f"Rank {self.rank}. {self.reason}", "", "  " + heading(self.loss_name == "frobenius")]
        for rank, row in self.table.iterrows():
            lines.append(("> " if rank == self.rank else "  ") + format_row(int(rank), row))
        return "\n".join(lines)


def heading(bounded: bool = True) -> str:
    """The line above those of `format_row`, for a loss with a bound or without one."""
    own = "     bound       error        gap" if bounded else "            loss   explained"
    return f"rank  {own}   held-out           stability   seconds"


def format_row(rank: int, row: Any) -> str:
    """One line below the heading."""
    own = f"{row['bound']:>10.5g}  {row['error']:>10.5g}  {100 * row['gap']:>7.3f} %"
    if math.isnan(row["gap"]):
        own = f"{row['loss']:>16.8g}  {round(100 * row['explained'], 3) + 0.0:>8.3f} %"
    return (
        f"{rank:>4}  {own}  "
        f"{100 * row['held_out']:>7.3f} ± {100 * row['held_out_se']:<6.3f} %  {row['stability']:>9.3f}  "
        f"{row['seconds']:>8.2f}"
    )


def select_rank(
    X: Any,
    ranks: Iterable[int],
    *,
    loss: str | float = "frobenius",
    folds: int = 4,
    sample: int | None = 100_000,
    tol: float = 3e-3,
    max_iter: int = 200,
    random_state: Any = 0,
    n_threads: int | None = None,
    callback: Callable[[Row], object] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    **options: Any,
) -> RankSelection:
    """Bound, error, held-out error and stability of every rank, and a suggestion.

    Parameters
    ----------
    X : array-like or scipy sparse matrix of shape (n, m)
        Nonnegative and complete, as for `enmf.factorize`.
    ranks : iterable of int
        Ranks to try, smaller than both dimensions of X.
    loss : {"frobenius", "kullback-leibler", "itakura-saito"} or float
        What is minimized, both on X and on the visible entries, see `enmf.factorize`. The held-out error of another
        loss than the Frobenius norm is the loss of the hidden entries, relative to that of a fit of rank 1.
    folds : int
        Number of folds, at least 2; each hides different entries and starts at random.
    sample : int or None
        Held-out error and stability are measured on about this many entries of X (all of them if X has no more).
        None: all of X.
    tol, max_iter : float, int
        Of the fits of X, see `enmf.factorize`. At the default the error of a fit is usually within a tenth of a percent
        of where a strict tolerance ends.
    random_state : int, RandomState, Generator or None
    n_threads : int, optional
    callback : callable, optional
        Called after every rank with its row of the table, a dict; a true return value ends the sweep.
    checkpoint : path, optional
        An npz file with the finished ranks. A later call with the same X and settings (larger ranks may be
        added) resumes after them and gives the same result as an uninterrupted one.
    **options
        Further options of `enmf.factorize` for the fits of X.

    Returns
    -------
    RankSelection
        rank, reason, table, folds; `print` shows them, `plot()` draws them.

    Examples
    --------
    >>> import numpy as np, enmf
    >>> X, U, V = enmf.datasets.make_exact(60, 40, 4, sparsity=0.3, random_state=0)
    >>> X = np.abs(X + 0.05 * np.random.default_rng(0).standard_normal(X.shape))
    >>> enmf.select_rank(X, range(2, 8)).rank
    4
    """
    problem = with_loss(check_problem(X), loss)
    wanted = check_ranks(ranks, problem.X)
    check_count("folds", folds, low=2)
    if sample is not None:
        check_count("sample", sample, low=1)
    stopping = check_limits(tol, max_iter, None, None)
    seed = int(make_rng(random_state).integers(2**63))
    n, m = problem.X.shape
    norm = math.sqrt(problem.X.squared_norm()) * problem.scale
    side = sample_side(n * m if sample is None else sample, wanted[-1])
    about = {"shape": [n, m], "norm of X": f"{norm:.6g}", "seed": seed, "folds": folds, "side of the sample": side}
    about["loss"] = None if problem.loss.bounded else problem.loss.name  # files of earlier versions name none
    sweep = _Sweep(problem, wanted, folds, side, stopping, seed, options)
    saved = _Saved(checkpoint, about) if checkpoint is not None else None
    if saved is not None:
        sweep.rows, sweep.factors = saved.load(wanted)
    complete = sweep.run(check_threads(n_threads), callback, saved)
    rows = [row for row in sweep.rows if row["rank"] in wanted]
    table, held = _tables(rows)
    whole = "the size of the data" if problem.loss.bounded else "that at rank 1"
    rank, reason = suggest(held.index.to_numpy(), held.to_numpy(), table["stability"].to_numpy(), whole)
    if not complete:
        warn_outside(f"the sweep was interrupted: ranks above {rows[-1]['rank']} are missing")
    return RankSelection(rank, reason, table, held, complete, problem.loss.name)


def suggest(
    ranks: np.ndarray, errors: np.ndarray, stability: np.ndarray, whole: str = "the size of the data"
) -> tuple[int, str]:
    """The rank and the reason, from held-out errors (one row per rank, one column per fold), as shares of the whole."""
    means = errors.mean(axis=1)
    lowest = int(np.argmin(means))
    differences = errors - errors[lowest]
    chance = differences.std(axis=1, ddof=1) / math.sqrt(errors.shape[1])
    near = differences.mean(axis=1) <= np.maximum(chance, NEGLIGIBLE * (means.max() - means.min()))
    chosen = int(np.argmax(near))
    share = f"{100 * means[chosen]:.3g} % of {whole}"
    if chosen == lowest:
        reason = f"Entries that were hidden from the fits are predicted best at rank {ranks[chosen]} (error {share})"
    else:
        reason = (
            f"Entries that were hidden from the fits are predicted as well as at rank {ranks[lowest]}, the best one, "
            f"within the standard error (error {share})"
        )
    if len(ranks) > 1 and chosen == len(ranks) - 1:
        reason += "; that is the largest rank tried, and larger ones may be better"
    elif len(ranks) > 1 and chosen == 0:
        reason += "; that is the smallest rank tried"
    return int(ranks[chosen]), f"{reason}. Components agree to {100 * stability[chosen]:.0f} % between the fits."


class _Sweep:
    """The ranks in increasing order; each starts its folds from the factors of the previous rank."""

    def __init__(
        self,
        problem: Problem,
        ranks: list[int],
        folds: int,
        side: int,
        stopping: Stopping,
        seed: int,
        options: dict[str, Any],
    ) -> None:
        self.problem, self.ranks, self.stopping, self.seed = problem, ranks, stopping, seed
        self.folds, self.side = folds, side
        self.options = options
        self.rows: list[Row] = []
        self.factors: list[Factors] | None = None

    def run(self, n_threads: int | None, callback: Callable[[Row], object] | None, saved: _Saved | None) -> bool:
        """Run all ranks that are not done yet; False when interrupted after the first one."""
        done = {row["rank"] for row in self.rows}
        todo = [rank for rank in self.ranks if rank not in done]
        if not todo:
            return True
        try:
            with parallel.limit(n_threads):
                spectrum = self._spectrum(max(self.ranks)) if self.problem.loss.bounded else None
                held = HeldOut(self.problem.X, self.folds, self.side, self.seed, self.problem.loss)
                for rank in todo:
                    row = self._rank(rank, spectrum, held, n_threads)
                    self.rows.append(row)
                    if saved is not None:
                        assert self.factors is not None
                        saved.save(self.rows, self.factors)
                    if callback is not None and callback(dict(row)):
                        return rank == todo[-1]
        except KeyboardInterrupt:
            if not self.rows:
                raise
            return False
        return True

    def _spectrum(self, rank: int) -> Spectrum:
        rng = np.random.default_rng([self.seed, rank])
        X = self.problem.X
        return bounded(X, None, rank, rng)

    def _rank(self, rank: int, spectrum: Spectrum | None, held: HeldOut, n_threads: int | None) -> Row:
        began = time.perf_counter()
        fit = self._fit(rank, None if spectrum is None else spectrum.leading(rank))
        evidence = held.look(rank, self.factors, n_threads)
        self.factors = evidence.factors
        c = fit.certificate
        return {
            "rank": rank,
            "bound": c.lower_bound,
            "error": c.error,
            "gap": c.gap if self.problem.loss.bounded else math.nan,
            "relative_error": c.relative_error,
            "loss": c.loss,
            "explained": c.explained,
            "held_out": float(np.mean(evidence.errors)),
            "held_out_se": float(np.std(evidence.errors, ddof=1) / math.sqrt(len(evidence.errors))),
            "stability": evidence.stability,
            "status": fit.status,
            "seconds": time.perf_counter() - began,
            "folds": evidence.errors,
        }

    def _fit(self, rank: int, spectrum: Spectrum | None) -> Result:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the status column reports it
            seed = np.random.default_rng([self.seed, rank])
            request = Request(stopping=self.stopping, random_state=seed, bound=False, options=dict(self.options))
            result = solve(self.problem, rank, request, spectrum)
        if result.status == "interrupted":
            raise KeyboardInterrupt
        return result


class _Saved:
    """The checkpoint file of a sweep: the finished ranks, and the factors from which the next one starts."""

    def __init__(self, path: str | os.PathLike[str], about: dict[str, Any]) -> None:
        self.file = SavedFile(Path(path), "sweep", about)

    def load(self, ranks: list[int]) -> tuple[list[Row], list[Factors] | None]:
        if not self.file.path.exists():
            return [], None
        with self.file.reading() as (_, arrays):
            rows = [dict(row) for row in json.loads(str(arrays["rows"]))]
            done = [int(row["rank"]) for row in rows]
            if not done:
                raise ValueError("it contains no finished rank")
            factors = [_saved_pair(arrays, fold, done[-1]) for fold in range(self.file.belongs_to["folds"])]
            missing = [rank for rank in ranks if rank < done[-1] and rank not in done]
            if missing:
                raise ValueError(
                    f"it has reached rank {done[-1]} without rank {missing[0]}; only larger ranks can be added"
                )
        return rows, factors

    def save(self, rows: list[Row], factors: list[Factors]) -> None:
        arrays = {f"{name}{f}": F for f, pair in enumerate(factors) for name, F in zip("UV", pair)}
        self.file.try_write(rows=np.array(json.dumps(rows)), **arrays)


def _saved_pair(arrays: dict[str, np.ndarray], fold: int, rank: int) -> Factors:
    U, V = (check_factor(arrays[f"{name}{fold}"], f"{name}{fold}", None, rank) for name in "UV")
    return U, V


def _tables(rows: list[Row]) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    import pandas

    held = pandas.DataFrame([row["folds"] for row in rows], index=[row["rank"] for row in rows])
    held.index.name, held.columns.name = "rank", "fold"
    plain = [{key: value for key, value in row.items() if key != "folds"} for row in rows]
    return pandas.DataFrame(plain).set_index("rank"), held
