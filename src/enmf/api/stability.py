"""How many minima are there, and how often is each found? Many starts, clustered by equivalence (paper, section 5.4).

Run 0 is the exterior method; the others descend from random starts. Two runs have found the same minimum when all
columns of both factors match (`enmf.compare`'s rule for permutation and scaling) and the errors differ by at most
1e-4 ||X||. Every minimum is represented by its run of least error; runs join in order of their errors.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from enmf import parallel
from enmf.api.request import Request, solve
from enmf.certificate.words import TOL
from enmf.geometry.equivalence import SAME_ERROR, TOLERANCE, match
from enmf.problem.validation.arrays import check_problem
from enmf.problem.validation.losses import with_loss
from enmf.problem.validation.numbers import check_count, check_number, check_threads, make_rng
from enmf.run.checks import check_limits
from enmf.run.result import Result
from enmf.run.stopping import DEFAULTS


@dataclass(frozen=True)
class Minimum:
    """One minimum: its least error, the runs that found it (the best one first), and their share of all runs."""

    error: float
    runs: tuple[int, ...]
    frequency: float


@dataclass(frozen=True)
class Stability:
    """What `stability` found.

    Attributes
    ----------
    results : list of Result
        One per run; run 0 is the exterior method.
    minima : list of Minimum
        Distinct minima, least error first.
    labels : ndarray of shape (n_runs,)
        The minimum that each run found.
    agreement : ndarray of shape (n_runs, n_runs)
        Share of converged columns, mean of both factors, for each pair of runs.
    starts : list of str

    Examples
    --------
    >>> import enmf
    >>> X, _, _ = enmf.datasets.make_exact(40, 30, 3, 0.4, random_state=0)
    >>> found = enmf.stability(X, 3, n_runs=4, random_state=0)
    >>> len(found.results), found.starts[0], bool(found.best.error <= found.errors.min())
    (4, 'exterior', True)
    """

    results: list[Result] = field(repr=False)
    minima: list[Minimum]
    labels: np.ndarray
    agreement: np.ndarray = field(repr=False)
    starts: list[str]

    @property
    def errors(self) -> np.ndarray:
        return np.array([result.error for result in self.results])

    @property
    def best(self) -> Result:
        """The run of least error."""
        return self.results[self.minima[0].runs[0]]

    @property
    def mean_agreement(self) -> float:
        """Mean share of converged columns over all pairs of runs: 1 if all found the same minimum."""
        n = len(self.results)
        return float((self.agreement.sum() - n) / (n * (n - 1))) if n > 1 else 1.0

    def to_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        return {
            "n_minima": len(self.minima),
            "minima": [{"error": m.error, "runs": list(m.runs), "frequency": m.frequency} for m in self.minima],
            "labels": self.labels.tolist(),
            "errors": self.errors.tolist(),
            "starts": list(self.starts),
            "statuses": [result.status for result in self.results],
            "agreement": self.agreement.tolist(),
            "mean_agreement": self.mean_agreement,
        }

    def __str__(self) -> str:
        lines = [
            f"Stability: {len(self.results)} runs, {len(self.minima)} distinct minima, "
            f"mean agreement {100 * self.mean_agreement:.1f} %",
            "  minimum       error   frequency   runs",
        ]
        for k, minimum in enumerate(self.minima):
            shown = ", ".join(f"{run} ({self.starts[run]})" if run == 0 else str(run) for run in sorted(minimum.runs))
            lines.append(f"  {k + 1:>7}  {minimum.error:>10.6g}  {100 * minimum.frequency:>8.1f} %   {shown}")
        return "\n".join(lines)


def stability(
    X: Any,
    rank: int,
    n_runs: int = 20,
    *,
    loss: str | float = "frobenius",
    descent: str = "e-hals",
    tol: float = TOL,
    max_iter: int = DEFAULTS.max_iter,
    match_tol: float = TOLERANCE,
    random_state: Any = 0,
    n_threads: int | None = None,
) -> Stability:
    """Factorize from many starts and cluster the results into distinct minima.

    Parameters
    ----------
    X : array-like or scipy sparse matrix of shape (n, m)
    rank : int
    n_runs : int
        Number of runs; the first is the exterior method, the others start at random.
    loss : {"frobenius", "kullback-leibler", "itakura-saito"} or float
        What is minimized: 1/2 ||X - U Vᵀ||², or a beta divergence, 0 <= beta <= 2 (see docs/losses.md).
    descent : str
        Descent method of all runs, see `enmf.methods()`.
    tol, max_iter : float, int
        Of each run, see `enmf.factorize`. A run that does not converge may be heading for the minimum of another one,
        but counts as a separate minimum.
    match_tol : float
        A column has converged when its cosine with its partner is at least 1 - match_tol.
    random_state : int, RandomState, Generator or None
        The runs get independent streams; the same seed gives the same result, whatever the number of threads.
    n_threads : int, optional
        Number of simultaneous runs, each on one thread. Default: as many threads as BLAS may currently use.

    Examples
    --------
    >>> import enmf
    >>> X, U, V = enmf.datasets.make_exact(40, 30, 4, sparsity=0.5, random_state=0)
    >>> found = enmf.stability(X, 4, n_runs=4)
    >>> len(found.minima), found.minima[0].frequency
    (1, 1.0)
    """
    problem = with_loss(check_problem(X), loss)
    check_count("n_runs", n_runs, low=1)
    check_number("match_tol", match_tol, low=0.0)
    stopping = check_limits(tol, max_iter, None, None)
    streams = make_rng(random_state).spawn(n_runs)

    def run(index: int) -> Result:
        usual = Request(stopping=stopping, random_state=streams[index])
        if index == 0:
            return solve(problem.counted(), rank, replace(usual, options={"descent": descent}))
        return solve(problem.counted(), rank, replace(usual, method=descent, init="random", bound=False))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the statuses show which runs did not converge
        results = parallel.together(run, n_runs, check_threads(n_threads))
    agreement, same = _pairwise(results, match_tol, problem.loss.whole(problem.X) * problem.units.error(problem.loss))
    minima, labels = _cluster(results, same)
    return Stability(results, minima, labels, agreement, ["exterior"] + ["random"] * (n_runs - 1))


def _pairwise(results: list[Result], tol: float, whole: float) -> tuple[np.ndarray, np.ndarray]:
    """Agreement of each pair of runs, and whether they found the same minimum."""
    n = len(results)
    agreement, same = np.eye(n), np.eye(n, dtype=bool)
    pairs = [(np.asarray(result.U, float), np.asarray(result.V, float)) for result in results]  # U may be a Dask array
    for i in range(n):
        for j in range(i):
            found = match(pairs[i], pairs[j], tol)
            agreement[i, j] = agreement[j, i] = found.agreement
            same[i, j] = same[j, i] = found.complete and abs(results[i].error - results[j].error) <= SAME_ERROR * whole
    return agreement, same


def _cluster(results: list[Result], same: np.ndarray) -> tuple[list[Minimum], np.ndarray]:
    clusters: list[list[int]] = []
    for run in np.argsort([result.error for result in results], kind="stable").tolist():
        home = next((cluster for cluster in clusters if same[cluster[0], run]), None)
        if home is None:
            clusters.append([run])
        else:
            home.append(run)
    labels = np.empty(len(results), dtype=int)
    for k, cluster in enumerate(clusters):
        labels[cluster] = k
    return [Minimum(results[c[0]].error, tuple(c), len(c) / len(results)) for c in clusters], labels
