"""`enmf.consensus`: components that many runs agree on.

As in consensus NMF for single cells (Kotliar et al. 2019, eLife 8:e43803): the components of all runs, scaled to unit
length, are points. Outliers, whose mean distance to their nearest neighbours is large, are dropped; k-means makes
`rank` clusters of the rest; the median of each cluster is a component; usages U >= 0 come from least squares.

Runs keep their components only (n_runs r x m); usages of single runs are never stored, and nothing is n x n.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from enmf import parallel
from enmf.api.certify import certify_problem
from enmf.api.request import Request, solve
from enmf.certificate.certificate import Certificate
from enmf.certificate.words import TOL
from enmf.problem.state import State, best_U
from enmf.problem.validation.arrays import check_problem
from enmf.problem.validation.convert import names_in
from enmf.problem.validation.factors import check_rank
from enmf.problem.validation.losses import with_loss
from enmf.problem.validation.numbers import check_count, check_number, check_threads, make_rng
from enmf.run.checks import check_limits

NEIGHBOURS = 0.3  # nearest neighbours of a component, as a share of the number of runs


@dataclass(frozen=True)
class Consensus:
    """What `consensus` found.

    Attributes
    ----------
    U, V : ndarray of shape (n, r) and (m, r)
        Usages and consensus components; ||u_j|| = ||v_j||, largest component first.
    certificate : Certificate
        Of U and V. A median is not a minimum: for a stationary point use them as `init` of `enmf.factorize`.
    spectra : ndarray of shape (n_runs r, m)
        All components of all runs, unit length.
    labels : ndarray of shape (n_runs r,)
        The consensus component to which each one belongs; -1 for outliers.
    density : ndarray of shape (n_runs r,)
        Mean distance to the nearest neighbours.
    threshold : float
        Density above which a component is an outlier.
    stability : ndarray of shape (r,)
        Mean cosine of each consensus component with those it is the median of.
    support : ndarray of shape (r,)
        Number of runs that found each consensus component.
    errors : ndarray of shape (n_runs,)
        ||X - U Vᵀ|| of each run.
    feature_names : list of str or None
        Names of the columns of X, if it was a pandas or polars frame.

    Examples
    --------
    >>> import enmf
    >>> X, _, _ = enmf.datasets.make_exact(40, 30, 3, 0.4, random_state=0)
    >>> agreed = enmf.consensus(X, 3, n_runs=4)
    >>> agreed.support.tolist(), agreed.outliers
    ([4, 4, 4], 0)
    >>> agreed.components_frame().shape
    (3, 30)
    """

    U: np.ndarray = field(repr=False)
    V: np.ndarray = field(repr=False)
    certificate: Certificate = field(repr=False)
    spectra: np.ndarray = field(repr=False)
    labels: np.ndarray = field(repr=False)
    density: np.ndarray = field(repr=False)
    threshold: float
    stability: np.ndarray
    support: np.ndarray
    errors: np.ndarray = field(repr=False)
    feature_names: list[str] | None = field(default=None, repr=False)

    @property
    def error(self) -> float:
        return self.certificate.error

    @property
    def outliers(self) -> int:
        """Number of components that were dropped."""
        return int((self.labels < 0).sum())

    def distances(self) -> np.ndarray:
        """Euclidean distances between all components of all runs."""
        return np.sqrt(np.maximum(2.0 - 2.0 * self.spectra @ self.spectra.T, 0.0))

    def components_frame(self, names: Any = None) -> Any:
        """The components as a DataFrame, see `enmf.components_frame`."""
        from enmf.report.interpretation import components_frame

        return components_frame(self, names)

    def plot(self, axes: Any = None) -> Any:
        """The clustergram and the histogram of densities; returns both matplotlib axes."""
        from enmf.report.plots import plot_clustergram

        return plot_clustergram(self, axes)

    def __str__(self) -> str:
        best = float(self.errors.min())
        lines = [
            f"Consensus of {len(self.errors)} runs: {len(self.labels)} components, {self.outliers} outliers dropped "
            f"(mean distance above {self.threshold:g})",
            f"error {self.error:.6g}, best run {best:.6g}, worst {float(self.errors.max()):.6g}",
            "component   runs   agreement",
        ]
        for k, (runs, agreement) in enumerate(zip(self.support, self.stability)):
            lines.append(f"{k + 1:>9}  {runs:>5}  {agreement:>10.4f}")
        return "\n".join(lines)


def consensus(
    X: Any,
    rank: int,
    n_runs: int = 20,
    *,
    loss: str | float = "frobenius",
    threshold: float = 0.5,
    method: str = "e-hals",
    tol: float = 1e-4,
    max_iter: int = 500,
    random_state: Any = 0,
    n_threads: int | None = None,
) -> Consensus:
    """Factorize from many random starts and keep the components that recur.

    Parameters
    ----------
    X : array-like or scipy sparse matrix of shape (n, m)
    rank : int
    n_runs : int
        At least 2.
    loss : {"frobenius", "kullback-leibler", "itakura-saito"} or float
        What is minimized: 1/2 ||X - U Vᵀ||², or a beta divergence, 0 <= beta <= 2 (see docs/losses.md).
    threshold : float
        A component is an outlier when its mean distance to its nearest neighbours in all runs (3 per 10 runs) is above
        this. Components have unit length, so distances range from 0 to sqrt(2): a threshold of 2 drops none.
    method, tol, max_iter
        Of each run, see `enmf.factorize`.
    random_state : int, RandomState, Generator or None
        The same seed gives the same result, whatever the number of threads.
    n_threads : int, optional
        Number of simultaneous runs, each on one thread.

    Examples
    --------
    >>> import enmf
    >>> X, U, V = enmf.datasets.make_exact(60, 40, 4, sparsity=0.5, random_state=0)
    >>> found = enmf.consensus(X, 4, n_runs=6)
    >>> found.V.shape, bool(found.stability.min() > 0.9)
    ((40, 4), True)
    """
    problem = with_loss(check_problem(X), loss)
    rank = check_rank(rank, problem.X)
    check_count("n_runs", n_runs, low=2)
    check_number("threshold", threshold, low=0.0)
    stopping = check_limits(tol, max_iter, None, None)
    rng = make_rng(random_state)
    streams = rng.spawn(n_runs)

    usual = Request(method=method, init="random", stopping=stopping, bound=False)

    def run(index: int) -> tuple[np.ndarray, float]:
        result = solve(problem.counted(), rank, replace(usual, random_state=streams[index]))
        return result.V.T, result.error

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a run that ends early is one voice among many
        found = parallel.together(run, n_runs, check_threads(n_threads))
    spectra = _unit_rows(np.vstack([V for V, _ in found]))
    density = local_density(spectra, max(1, math.ceil(NEIGHBOURS * n_runs)))
    labels, medians = _cluster(spectra, density, rank, threshold, int(rng.integers(2**31)))
    with parallel.limit(check_threads(n_threads)):
        U, V, order = _balanced(np.asarray(best_U(problem, medians)), medians.T)
        root = problem.units.factor(U.dtype)
        certificate = certify_problem(problem, State(problem, U / root, V / root), TOL, 0)
    place = np.argsort(order)  # position of each cluster after sorting
    labels = np.where(labels >= 0, place[labels], -1)
    runs = np.repeat(np.arange(n_runs), rank)
    units = _unit_rows(V.T)
    return Consensus(
        U=U,
        V=V,
        certificate=certificate,
        spectra=spectra,
        labels=labels,
        density=density,
        threshold=float(threshold),
        stability=np.array([float(np.mean(spectra[labels == k] @ units[k])) for k in range(rank)]),
        support=np.array([len(np.unique(runs[labels == k])) for k in range(rank)]),
        errors=np.array([error for _, error in found]),
        feature_names=names_in(X)[1],
    )


def local_density(points: np.ndarray, neighbours: int) -> np.ndarray:
    """Mean distance of each point to its nearest neighbours; infinite for a zero point, which is not a component."""
    from sklearn.neighbors import NearestNeighbors

    count = min(neighbours, len(points) - 1)
    distances, _ = NearestNeighbors(n_neighbors=count + 1, algorithm="brute").fit(points).kneighbors(points)
    return np.where(points.any(axis=1), distances[:, 1:].mean(axis=1), np.inf)  # the nearest one is the point itself


def _cluster(
    spectra: np.ndarray, density: np.ndarray, rank: int, threshold: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Labels, -1 for outliers, and the median of each cluster."""
    from sklearn.cluster import KMeans

    kept = density <= threshold
    labels = np.full(len(spectra), -1)
    distinct = len(np.unique(spectra[kept], axis=0))
    if distinct >= rank:
        labels[kept] = KMeans(rank, n_init=10, random_state=seed).fit_predict(spectra[kept])
        distinct = len(np.unique(labels[kept]))
    if distinct < rank:
        raise ValueError(
            f"{int(kept.sum())} of {len(kept)} components have neighbours within threshold={threshold:g}, {distinct} "
            f"of them distinct: too few for {rank} clusters. Raise the threshold, use more runs or a smaller rank"
        )
    medians = np.array([np.median(spectra[labels == k], axis=0) for k in range(rank)])
    empty = ~medians.any(axis=1)  # a median of sparse spectra may vanish where their mean does not
    for k in np.flatnonzero(empty):
        medians[k] = spectra[labels == k].mean(axis=0)
    return labels, _unit_rows(medians)


def _unit_rows(points: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(points, axis=1, keepdims=True)
    return points / np.where(length > 0, length, 1.0)


def _balanced(U: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns with ||u_j|| = ||v_j||, largest first, and their order; the columns of V have unit length."""
    size = np.linalg.norm(U, axis=0)
    order = np.argsort(-size, kind="stable")
    root = np.sqrt(np.where(size > 0, size, 1.0))[order].astype(U.dtype)
    return U[:, order] / root, V[:, order].astype(U.dtype) * root, order
