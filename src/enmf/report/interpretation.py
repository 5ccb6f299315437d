"""Components in terms of the data: tables with feature names, and the features with the largest weights.

A model is anything that has components: a `Result`, a `Consensus`, a fitted `ENMF`, `ENMC` or scikit-learn estimator, a
pair (U, V), or the components themselves (r x m).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from enmf.problem.validation.numbers import check_count

if TYPE_CHECKING:
    import pandas


def components_of(model: Any) -> np.ndarray:
    """The components of a model, one per row (r x m)."""
    if hasattr(model, "components_"):
        return np.asarray(model.components_)
    if hasattr(model, "V"):
        return np.asarray(model.V).T
    found = np.asarray(model[1]).T if isinstance(model, tuple) and len(model) == 2 else np.asarray(model)
    if found.ndim != 2 or found.dtype.kind not in "biuf":
        raise TypeError(
            f"{type(model).__name__} has no components; give a Result, a fitted estimator, a pair (U, V) or an array"
        )
    return found


def names_of(model: Any, names: Any, count: int) -> list[str]:
    """Names of the features: the given ones, those of the DataFrame that was factorized, or numbers."""
    if names is None:
        names = getattr(model, "feature_names_in_", getattr(model, "feature_names", None))
    if names is None:
        return [str(j) for j in range(count)]
    found = [str(name) for name in names]
    if len(found) != count:
        raise ValueError(f"there are {len(found)} names for the {count} columns of the components")
    return found


def components_frame(model: Any, names: Any = None) -> pandas.DataFrame:
    """The components as a table: one row per component, one named column per feature.

    Parameters
    ----------
    model : Result, estimator, pair (U, V) or array of shape (r, m)
    names : sequence of str, optional
        Names of the m features. Default: those of the DataFrame that was factorized, or numbers.

    Examples
    --------
    >>> import enmf
    >>> enmf.components_frame([[2.0, 0.0, 1.0]], ["sun", "rain", "wind"]).loc[0, "wind"].item()
    1.0
    """
    import pandas

    components = components_of(model)
    index = pandas.RangeIndex(len(components), name="component")
    return pandas.DataFrame(components, index=index, columns=names_of(model, names, components.shape[1]))


def top_features(model: Any, names: Any = None, n: int = 10) -> pandas.DataFrame:
    """The n features with the largest weights in each component.

    Parameters
    ----------
    model : Result, estimator, pair (U, V) or array of shape (r, m)
    names : sequence of str, optional
    n : int

    Returns
    -------
    DataFrame
        component, place (0 is the largest), feature, weight, and the share of the component's sum; features of weight
        0 are omitted.

    Examples
    --------
    >>> import enmf
    >>> top = enmf.top_features([[2.0, 0.0, 1.0], [0.0, 3.0, 1.0]], ["sun", "rain", "wind"], n=2)
    >>> top.groupby("component")["feature"].apply(list).tolist()
    [['sun', 'wind'], ['rain', 'wind']]
    """
    import pandas

    check_count("n", n, low=1)
    components = components_of(model)
    labels = names_of(model, names, components.shape[1])
    rows = []
    for k, weights in enumerate(components):
        total = float(weights.sum()) or 1.0
        for place, j in enumerate(np.argsort(-weights, kind="stable")[:n]):
            if weights[j] > 0:
                rows.append((k, place, labels[j], float(weights[j]), float(weights[j]) / total))
    return pandas.DataFrame(rows, columns=["component", "place", "feature", "weight", "share"])
