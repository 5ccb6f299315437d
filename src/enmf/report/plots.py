"""Plots with matplotlib, if it is installed: components, the ranks of a sweep, the clustergram of a consensus.

Every function draws into the given axes or makes a figure, and returns the axes; nothing is shown or saved.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from enmf.problem.validation.numbers import check_choice
from enmf.report.interpretation import components_of, names_of, top_features
from enmf.report.numbers import increasing

if TYPE_CHECKING:
    from enmf.api.consensus import Consensus
    from enmf.api.rank import RankSelection

KINDS = ("bar", "image", "heatmap", "spectrum", "overlay")
COLUMNS = 5  # plots side by side


def pyplot() -> Any:
    """matplotlib.pyplot, or an error that says how to install it."""
    try:
        from matplotlib import pyplot as plt
    except ImportError:
        raise ImportError("plots need matplotlib: pip install matplotlib") from None
    return plt


def plot_components(
    model: Any, kind: str = "bar", *, names: Any = None, image_shape: tuple[int, int] | None = None, n: int = 10
) -> Any:
    """Draw the components of a model.

    Parameters
    ----------
    model : Result, estimator, pair (U, V) or array of shape (r, m)
    kind : {"bar", "image", "heatmap", "spectrum", "overlay"}
        "bar": the n largest features of each component. "image": each component as an image of `image_shape`.
        "heatmap": all components in one image. "spectrum": each component as a curve over the features (over the
        names if they are numbers). "overlay": all of these curves in one plot.
    names : sequence of str, optional
        Names of the features. Default: those of the DataFrame that was factorized, or numbers.
    image_shape : (int, int), optional
        Height and width. Default: square, if the number of features is a square.
    n : int
        Number of features for "bar".

    Returns
    -------
    matplotlib axes
        An array with one entry per component; a single one for "heatmap" and "overlay".

    Examples
    --------
    >>> import enmf
    >>> from sklearn.datasets import load_digits
    >>> result = enmf.factorize(load_digits().data, 6, random_state=0)
    >>> enmf.plot_components(result, "image", image_shape=(8, 8)).shape
    (6,)
    """
    check_choice("kind", kind, list(KINDS))
    plt = pyplot()
    components = components_of(model)
    rank, features = components.shape
    labels = names_of(model, names, features)
    if kind == "heatmap":
        _, axes = plt.subplots(figsize=(min(12.0, 3.0 + 0.15 * features), 1.5 + 0.25 * rank), layout="constrained")
        scaled = components / np.maximum(components.max(axis=1, keepdims=True), np.finfo(float).tiny)
        axes.imshow(scaled, aspect="auto", cmap="viridis", interpolation="nearest")
        axes.set(xlabel="feature", ylabel="component")
        axes.set_yticks(range(rank), numbers(rank))
        if features <= 60:
            axes.set_xticks(range(features), labels, rotation=90)
        return axes
    if kind == "image":
        shape = _image_shape(features, image_shape)
        return _grid(rank, (1.6, 1.7), lambda axes, k: _draw_image(axes, components[k].reshape(shape)))
    places = increasing(labels) or range(features)
    if kind == "overlay":
        _, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
        for k, each in enumerate(components):
            dash = ("-", "--", ":", "-.")[k // 10 % 4]  # colours repeat after ten
            axes.plot(places, each, dash, linewidth=1.2, label=str(k + 1))
        axes.legend(title="component", frameon=False, ncols=max(1, rank // 8))
        return axes
    if kind == "spectrum":
        return _grid(rank, (2.6, 1.8), lambda axes, k: axes.plot(places, components[k], linewidth=1))
    top = top_features(components, labels, n)
    return _grid(rank, (2.8, 0.8 + 0.2 * n), lambda axes, k: _draw_bars(axes, top[top["component"] == k]))


def plot_ranks(selection: RankSelection, axes: Any = None) -> Any:
    """Error and bound (or the loss), held-out error and stability against the rank, with the suggested rank marked.

    Parameters
    ----------
    selection : RankSelection
        What `enmf.select_rank` returns.
    axes : three matplotlib axes, optional

    Examples
    --------
    >>> import enmf
    >>> X, _, _ = enmf.datasets.make_exact(40, 30, 3, random_state=0)
    >>> len(enmf.plot_ranks(enmf.select_rank(X, range(2, 5))))
    3
    """
    if axes is None:
        _, axes = pyplot().subplots(3, 1, figsize=(6, 8), sharex=True, layout="constrained")
    table, ranks = selection.table, selection.table.index.to_numpy()
    fit, held, stable = axes
    bounded = selection.loss_name == "frobenius"
    if bounded:
        fit.plot(ranks, table["error"], "o-", label="error reached")
        fit.plot(ranks, table["bound"], "--", label="lower bound (SVD)")
        fit.legend()
    else:
        fit.plot(ranks, table["loss"], "o-")
    fit.set_ylabel("||X - U Vᵀ||" if bounded else f"loss ({selection.loss_name})")
    held.errorbar(ranks, 100 * table["held_out"], 100 * table["held_out_se"], fmt="o-", capsize=3)
    held.set_ylabel("held-out error in %" if bounded else "held-out loss, % of that at rank 1")
    stable.plot(ranks, table["stability"], "o-")
    stable.set(ylabel="stability", ylim=(0, 1.02), xlabel="rank")
    for each in axes:
        each.axvline(selection.rank, color="gray", linestyle=":")
    fit.set_title(f"suggested rank: {selection.rank}")
    return axes


def plot_clustergram(consensus: Consensus, axes: Any = None) -> Any:
    """Distances between all components of all runs, by cluster, and a histogram of the density that marks outliers.

    Parameters
    ----------
    consensus : Consensus
        What `enmf.consensus` returns.
    axes : two matplotlib axes, optional

    Examples
    --------
    >>> import enmf
    >>> X, _, _ = enmf.datasets.make_exact(40, 30, 3, random_state=0)
    >>> len(enmf.plot_clustergram(enmf.consensus(X, 3, n_runs=4)))
    2
    """
    if axes is None:
        _, axes = pyplot().subplots(1, 2, figsize=(9, 4.5), layout="constrained")
    order = np.lexsort([consensus.density, consensus.labels, consensus.labels < 0])
    map_axes, density_axes = axes
    picture = map_axes.imshow(consensus.distances()[np.ix_(order, order)], cmap="viridis", interpolation="nearest")
    map_axes.figure.colorbar(picture, ax=map_axes, label="distance")
    map_axes.set(title="components of all runs, by cluster", xticks=[], yticks=[])
    kept = consensus.labels[order] >= 0
    for edge in np.flatnonzero(np.diff(consensus.labels[order])) + 0.5:
        map_axes.axhline(edge, color="white", linewidth=0.5)
        map_axes.axvline(edge, color="white", linewidth=0.5)
    edges = np.linspace(0.0, max(float(consensus.density.max()), consensus.threshold), 31)  # from 0: bars stay visible
    density_axes.hist([consensus.density[order][kept], consensus.density[order][~kept]], bins=edges, stacked=True)
    density_axes.axvline(consensus.threshold, color="gray", linestyle=":")
    density_axes.set(xlabel="mean distance to the nearest components", ylabel="components", title="outliers")
    density_axes.legend(["threshold", "kept", "dropped"])
    return axes


def numbers(count: int) -> list[str]:
    """What components are called in plots, on pages and in certificates: 1, 2, ..."""
    return [str(k + 1) for k in range(count)]


def _grid(count: int, size: tuple[float, float], draw: Any) -> np.ndarray:
    columns = min(COLUMNS, count)
    rows = math.ceil(count / columns)
    width, height = size
    _, axes = pyplot().subplots(
        rows, columns, figsize=(width * columns, height * rows), squeeze=False, layout="constrained"
    )
    for k, each in enumerate(axes.flat):
        if k < count:
            draw(each, k)
            each.set_title(str(k + 1))
        else:
            each.set_axis_off()
    return axes.ravel()[:count]


def _draw_image(axes: Any, image: np.ndarray) -> None:
    axes.imshow(image, cmap="gray_r", interpolation="nearest")
    axes.set_axis_off()


def _draw_bars(axes: Any, top: Any) -> None:
    axes.barh(range(len(top)), top["weight"])
    axes.set_yticks(range(len(top)), top["feature"])
    axes.invert_yaxis()
    axes.set_xticks([])


def _image_shape(features: int, shape: tuple[int, int] | None) -> tuple[int, int]:
    side = math.isqrt(features)
    height, width = (side, side) if shape is None else shape
    if height * width != features:
        remedy = "give image_shape=(height, width)" if shape is None else f"image_shape is {height} x {width}"
        raise ValueError(f"components have {features} features, which do not fill an image: {remedy}")
    return height, width
