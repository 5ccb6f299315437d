"""Factors in an AnnData: X ~ U Vᵀ with observations in rows and variables in columns, so

adata.obsm["X_enmf"] = U      adata.varm["enmf"] = V      adata.uns["enmf"] = what is known about them
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from enmf.report.interpretation import components_of

FIGURES = ("error", "relative_error", "lower_bound", "ratio", "kkt", "stationary", "globally_optimal", "loss", "left")


def to_anndata(adata: Any, model: Any, *, key: str = "enmf", layer: str | None = None) -> Any:
    """Write a factorization into an AnnData, in place, where scanpy and its relatives look for it.

    Parameters
    ----------
    adata : anndata.AnnData
        The annotated matrix that was factorized. If the model has names (it was made from a DataFrame), its rows and
        columns are found by name: their order does not matter, and the model may have been made from some of the
        variables; the others get zeros, as in scanpy's `pca`.
    model : Result, estimator or pair (U, V)
        An estimator computes U from `adata.X`, or from the layer.
    key : str
        obsm gets `X_{key}`, varm and uns get `key`.
    layer : str, optional
        For an estimator: the layer that it was fitted to, if not X.

    Returns
    -------
    AnnData
        The same one: obsm (U), varm (V), and in uns the status, the figures of the certificate, norm and share of each
        component, and the settings of the run. All of it can be written to h5ad files.

    Examples
    --------
    >>> import anndata, enmf, numpy as np  # doctest: +SKIP
    >>> adata = anndata.AnnData(np.random.default_rng(0).random((30, 20)))  # doctest: +SKIP
    >>> adata = enmf.to_anndata(adata, enmf.factorize(adata.X, 3, random_state=0))  # doctest: +SKIP
    >>> adata.obsm["X_enmf"].shape, adata.varm["enmf"].shape  # doctest: +SKIP
    ((30, 3), (20, 3))
    """
    if not (hasattr(adata, "obsm") and hasattr(adata, "varm") and hasattr(adata, "uns")):
        raise TypeError(f"adata must be an anndata.AnnData, got {type(adata).__name__}")
    V = components_of(model).T
    columns = _places(getattr(model, "feature_names_in_", getattr(model, "feature_names", None)), adata.var_names, V, 1)
    U = _row_factors(model, adata, layer, columns)
    if len(U) == 0:
        raise ValueError("the model keeps no U: pass the Result, or an estimator, which computes it from adata.X")
    rows = _places(getattr(model, "row_names", None), adata.obs_names, U, 0)
    if len(rows) != adata.n_obs:
        raise ValueError(
            f"the model has {len(rows)} of the {adata.n_obs} observations of adata: pass that part of adata"
        )
    adata.obsm[f"X_{key}"] = _placed(U, rows, adata.n_obs)
    adata.varm[key] = _placed(V, columns, adata.n_vars)
    adata.uns[key] = _known(model, key)
    return adata


def _row_factors(model: Any, adata: Any, layer: str | None, columns: np.ndarray) -> np.ndarray:
    if hasattr(model, "U"):
        return np.asarray(model.U)
    if hasattr(model, "transform"):
        if layer is not None and layer not in adata.layers:
            raise ValueError(f"adata has no layer {layer!r}; it has {', '.join(adata.layers) or 'none'}")
        X = adata.X if layer is None else adata.layers[layer]
        with warnings.catch_warnings():  # the names have been compared
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            return np.asarray(model.transform(X if _in_order(columns, adata.n_vars) else X[:, columns]))
    if isinstance(model, tuple):
        return np.asarray(model[0])
    raise TypeError(f"{type(model).__name__} has no U; give a Result, a fitted estimator or a pair (U, V)")


def _in_order(places: np.ndarray, count: int) -> bool:
    return np.array_equal(places, np.arange(count))


def _places(names: Sequence[str] | None, wanted: Any, F: np.ndarray, side: int) -> np.ndarray:
    """Where the rows of F belong, by name if there are names, else in the order that they have."""
    what = ("observations", "variables")[side]
    if names is None:
        if len(F) != len(wanted):
            raise ValueError(
                f"adata has {len(wanted)} {what}, the model {len(F)} and no names to find them by: pass the part of "
                "adata that was factorized"
            )
        return np.arange(len(F))
    place = {str(name): k for k, name in enumerate(wanted)}
    if len(place) < len(wanted):
        raise ValueError(f"the names of the {what} of adata are not unique: adata.{what[:3]}_names_make_unique() helps")
    lacking = [name for name in names if str(name) not in place]
    if lacking:
        raise ValueError(f"{len(lacking)} of {len(names)} {what} of the model are not in adata, such as {lacking[0]!r}")
    return np.array([place[str(name)] for name in names])


def _placed(F: np.ndarray, places: np.ndarray, count: int) -> np.ndarray:
    out = np.zeros((count, F.shape[1]), F.dtype)
    out[places] = F
    return out


def _known(model: Any, key: str) -> dict[str, Any]:
    """What is known about the factors, as numbers, words and arrays that h5ad files can hold."""
    known: dict[str, Any] = {"obsm": f"X_{key}", "varm": key}
    certificate = getattr(model, "certificate", getattr(model, "certificate_", None))
    status = getattr(model, "status", getattr(model, "status_", None))
    settings = getattr(model, "settings", None) or (model.get_params() if hasattr(model, "get_params") else {})
    if status is not None:
        known["status"] = str(status)
    if certificate is not None:
        known |= {name: getattr(certificate, name) for name in FIGURES}
        known["loss_name"] = certificate.loss_name
        known |= {name: np.array([getattr(c, name) for c in certificate.components]) for name in ("norm", "share")}
    plain = {name: value for name, value in settings.items() if value is not None}
    known["params"] = {
        name: value if isinstance(value, (str, bool, int, float)) else str(value) for name, value in plain.items()
    }
    return known
