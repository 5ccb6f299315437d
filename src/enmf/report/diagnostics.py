"""Plots of how a run went and what it found: course, fit of rows, residuals, usages, minima, matched components.

As in `enmf.report.plots`, every function draws into the given axes or makes a figure, and returns the axes.
Colours are those of Okabe and Ito, which readers with colour blindness can tell apart; runs differ by their dashes too.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from enmf.problem.validation.convert import check_values
from enmf.report.fit import grouped
from enmf.report.page import descents
from enmf.report.plots import numbers, pyplot
from enmf.report.terms import terms_of

if TYPE_CHECKING:
    from enmf.api.stability import Stability
    from enmf.geometry.equivalence import Comparison
    from enmf.run.result import Result

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1)), (0, (5, 1, 1, 1)))
TILES = (80, 160)  # rows and columns of a map of residuals
ROWS = 5  # rows shown beside their fit


def plot_convergence(results: Result | Sequence[Result], names: Sequence[str] | None = None, axes: Any = None) -> Any:
    """Error of every iterate of the descent, in % of ||X||, and the bound; for other losses the loss.

    Parameters
    ----------
    results : Result or sequence of Result
        Several results of the same data and loss are drawn together, each with its best start.
    names : sequence of str, optional
        Names of the results.
    axes : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import enmf
    >>> from sklearn.datasets import load_digits
    >>> X = load_digits().data
    >>> options = {"init": "random", "random_state": 0, "tol": 0, "max_iter": 20}
    >>> runs = [enmf.factorize(X, 5, method, **options) for method in ("mu", "hals")]
    >>> axes = enmf.plot_convergence(runs, ["mu", "hals"])
    >>> axes.get_xlabel()
    'iterations'
    """
    held: list[Any] = [results] if hasattr(results, "certificate") else list(results)
    if not held:
        raise ValueError("results is empty: give at least one result")
    called = [f"result {k + 1}" for k in range(len(held))] if names is None else [str(name) for name in names]
    if len(called) != len(held):
        raise ValueError(f"names has {len(called)} names for {len(held)} results")
    terms = terms_of(held[0].certificate)
    if any(terms_of(result.certificate) != terms for result in held):
        raise ValueError("the results minimize different losses, whose values cannot be compared")
    axes = _axes(axes, (6.4, 3.8))
    for k, (result, name) in enumerate(zip(held, called)):
        runs = descents(result.trace)
        best = min(runs, key=lambda rows: rows[-1].error, default=[])
        shown = [terms.shown(row.error, result.certificate) for row in best]
        style = {"color": COLOURS[k % len(COLOURS)], "linestyle": DASHES[k % len(DASHES)]}
        axes.plot([row.iteration for row in best], shown, label=name, **style)
    bounds = {terms.shown(result.certificate.lower_bound, result.certificate) for result in held}
    for bound in sorted(bounds - {0.0}):
        axes.axhline(bound, color="gray", linestyle=":", label="bound")
    axes.set(xlabel="iterations", ylabel=terms.axis)
    if len(held) > 1 or bounds - {0.0}:
        axes.legend(frameon=False)
    return axes


def plot_reconstruction(
    result: Any, X: Any, rows: Sequence[int] | None = None, *, image_shape: tuple[int, int] | None = None
) -> Any:
    """Some rows of X beside their fit: three images each, or two curves.

    Parameters
    ----------
    result : Result or pair (U, V)
    X : matrix that was factorized
    rows : sequence of int, optional
        Default: five rows from the best to the worst fit.
    image_shape : (int, int), optional
        Every row of X is an image of this height and width: data, fit and absolute difference are drawn. Otherwise data
        and fit are drawn as curves.

    Returns
    -------
    ndarray of matplotlib axes
        One line per row: three axes for images, one for curves.

    Examples
    --------
    >>> import enmf
    >>> from sklearn.datasets import load_digits
    >>> X = load_digits().data
    >>> result = enmf.factorize(X, 10, random_state=0)
    >>> enmf.plot_reconstruction(result, X, [0, 1], image_shape=(8, 8)).shape
    (2, 3)
    """
    U, V = _factors(result)
    X = check_values(X, (len(U), len(V)))
    chosen = _from_best_to_worst(X, U, V) if rows is None else [int(i) for i in rows]
    if not chosen or not all(-len(U) <= i < len(U) for i in chosen):
        raise ValueError(f"rows must name at least one of the {len(U)} rows of X, got {chosen}")
    plt, width = pyplot(), 3 if image_shape is not None else 1
    size = (1.6 * width, 1.7 * len(chosen)) if width == 3 else (6.4, 1.6 * len(chosen))
    _, axes = plt.subplots(len(chosen), width, figsize=size, squeeze=False, layout="constrained", sharex=True)
    for line, i in zip(axes, chosen):
        data, fit = np.nan_to_num(_dense_row(X, i)), U[i] @ V.T
        if image_shape is None:
            line[0].plot(data, color=COLOURS[0], linewidth=1, label="data")
            line[0].plot(fit, color=COLOURS[1], linewidth=1, linestyle=DASHES[1], label="fit")
            line[0].set_ylabel(f"row {i}")
            continue
        top = float(max(data.max(), fit.max()))
        for each, values, name in zip(line, (data, fit, np.abs(data - fit)), ("data", "fit", "difference")):
            each.imshow(values.reshape(image_shape), cmap="gray_r", vmin=0, vmax=top, interpolation="nearest")
            each.set(xticks=[], yticks=[])
            if line is axes[0]:
                each.set_title(name)
        line[0].set_ylabel(f"row {i}")
    if image_shape is None:
        axes[0, 0].legend(frameon=False)
    return axes


def plot_residuals(result: Any, X: Any, axes: Any = None) -> Any:
    """The residual X - U Vᵀ as a map: means of neighbours, rows and columns grouped by their largest component.

    Blue: the model is too large; red: too small. What a component is missing shows as a patch.

    Parameters
    ----------
    result : Result or pair (U, V)
    X : matrix that was factorized
    axes : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import enmf
    >>> X = enmf.datasets.make_synthetic(60, 40, 10, random_state=0)
    >>> axes = enmf.plot_residuals(enmf.factorize(X, 3, random_state=0), X)
    >>> axes.images[0].get_array().shape
    (60, 40)
    """
    U, V = _factors(result)
    X = check_values(X, (len(U), len(V)))
    down, across = (np.array_split(grouped(F), min(most, len(F))) for F, most in zip((U, V), TILES))
    tiles = np.empty((len(down), len(across)))
    order = np.concatenate(across)
    starts = np.cumsum([0, *(len(part) for part in across)])
    for i, block in enumerate(down):
        data = X[block].toarray() if sp.issparse(X) else np.asarray(X[block], dtype=np.float64)
        rest = np.nan_to_num(data - U[block] @ V.T)[:, order].mean(axis=0)
        tiles[i] = [rest[a:b].mean() for a, b in pairwise(starts)]
    axes = _axes(axes, (7, 4))
    top = float(np.abs(tiles).max()) or 1.0
    picture = axes.imshow(tiles, cmap="RdBu_r", vmin=-top, vmax=top, aspect="auto", interpolation="nearest")
    axes.figure.colorbar(picture, ax=axes, label="data - fit")
    axes.set(xlabel="columns, by component", ylabel="rows, by component", xticks=[], yticks=[])
    return axes


def plot_usages(result: Any, groups: Sequence[Any] | None = None, axes: Any = None) -> Any:
    """How much each group of rows uses each component: mean of U, each component divided by its largest mean.

    Parameters
    ----------
    result : Result, Consensus, pair (U, V) or array of shape (n, r)
    groups : sequence, optional
        The group of each row, such as a label or a batch. Default: every row by itself, in the order of the largest
        components.
    axes : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import enmf
    >>> from sklearn.datasets import load_digits
    >>> digits = load_digits()
    >>> result = enmf.factorize(digits.data, 10, random_state=0)
    >>> axes = enmf.plot_usages(result, digits.target)
    >>> [label.get_text() for label in axes.get_yticklabels()][:3]
    ['0', '1', '2']
    """
    U = np.asarray(result) if isinstance(result, np.ndarray) else _factors(result)[0]
    axes = _axes(axes, (6.4, 4.2))
    if groups is None:
        shown = U[grouped(U)]
        axes.set(yticks=[], ylabel="rows, by component")
    else:
        labels = np.asarray(groups)
        if labels.shape != (len(U),):
            raise ValueError(f"groups has {labels.size} entries for {len(U)} rows")
        names, place = np.unique(labels, return_inverse=True)
        shown = np.zeros((len(names), U.shape[1]))
        np.add.at(shown, place, U)
        shown /= np.bincount(place)[:, None]
        axes.set_yticks(range(len(names)), [str(name) for name in names])
        axes.set_ylabel("group")
    shown = shown / np.maximum(shown.max(axis=0), np.finfo(float).tiny)
    picture = axes.imshow(shown, cmap="viridis", aspect="auto", interpolation="nearest")
    axes.figure.colorbar(picture, ax=axes, label="usage, largest of each component = 1")
    axes.set_xticks(range(U.shape[1]), numbers(U.shape[1]))
    axes.set_xlabel("component")
    return axes


def plot_stability(stability: Stability, axes: Any = None) -> Any:
    """The error of every run, coloured by the minimum that it found; run 0 is the exterior method.

    Parameters
    ----------
    stability : Stability
        What `enmf.stability` returns.
    axes : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import enmf
    >>> X = enmf.datasets.make_synthetic(40, 30, 6, snr=20, random_state=0)
    >>> axes = enmf.plot_stability(enmf.stability(X, 3, n_runs=4, random_state=0))
    >>> axes.get_xlabel()
    'run'
    """
    axes = _axes(axes, (6.4, 3.6))
    for k, minimum in enumerate(stability.minima):
        runs = list(minimum.runs)
        colour = COLOURS[k % len(COLOURS)] if k < len(COLOURS) else "gray"
        label = f"minimum {k + 1}: {len(runs)} of {len(stability.labels)} runs" if k < len(COLOURS) else None
        axes.scatter(runs, stability.errors[runs], color=colour, marker="os^Dv*"[min(k, 5)], label=label)
    axes.set(xlabel="run", ylabel="||X - U Vᵀ||")
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))  # runs may be anywhere in the plot
    return axes


def plot_comparison(comparison: Comparison, axes: Any = None) -> Any:
    """The cosine of every pair of components that `enmf.compare` has matched, for U and for V.

    Parameters
    ----------
    comparison : Comparison
        What `enmf.compare` returns.
    axes : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import enmf
    >>> X, U, V = enmf.datasets.make_exact(40, 30, 4, random_state=0)
    >>> axes = enmf.plot_comparison(enmf.compare((U, V), enmf.factorize(X, 4, random_state=0), X))
    >>> axes.get_ylabel()
    'cosine'
    """
    axes = _axes(axes, (6.4, 3.6))
    matching = comparison.matching
    places = np.arange(len(matching.pairs))
    axes.bar(places - 0.2, matching.cosines_U, 0.4, color=COLOURS[0], label="columns of U")
    axes.bar(places + 0.2, matching.cosines_V, 0.4, color=COLOURS[1], label="columns of V", hatch="//")
    axes.axhline(0.95, color="gray", linestyle=":", label="converged from here")
    axes.set_xticks(places, [f"{a + 1} - {b + 1}" for a, b in matching.pairs], rotation=90 if len(places) > 12 else 0)
    axes.set(xlabel="component of the first - of the second", ylabel="cosine", ylim=(0, 1.02))
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)  # above: bars fill the plot
    return axes


def _axes(axes: Any, size: tuple[float, float]) -> Any:
    return pyplot().subplots(figsize=size, layout="constrained")[1] if axes is None else axes


def _factors(result: Any) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(result, tuple) and len(result) == 2:
        return np.asarray(result[0]), np.asarray(result[1])
    if not (hasattr(result, "U") and hasattr(result, "V")):
        raise TypeError(f"{type(result).__name__} has no factors; give a Result or a pair (U, V)")
    return np.asarray(result.U), np.asarray(result.V)


def _dense_row(X: Any, i: int) -> np.ndarray:
    row = X[[i]].toarray() if sp.issparse(X) else np.asarray(X[i])
    return row.ravel().astype(np.float64)


def _from_best_to_worst(X: Any, U: np.ndarray, V: np.ndarray) -> list[int]:
    """A few rows by their relative error; of a large X, among the first thousand."""
    some = range(min(len(U), 1000))
    rest = []
    for i in some:
        row = _dense_row(X, i)
        whole = float(np.nansum(row * row))
        rest.append(float(np.nansum((row - U[i] @ V.T) ** 2)) / whole if whole > 0 else np.inf)
    order = np.argsort(rest)
    order = order[np.isfinite(np.asarray(rest)[order])]
    return [int(order[k]) for k in np.unique(np.linspace(0, len(order) - 1, ROWS).astype(int))] if len(order) else []
