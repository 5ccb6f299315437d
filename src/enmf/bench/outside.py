"""Opponents from other libraries, through the interface the protocols need: go on from (W, H) for some iterations.

They run with tolerances off, so that the protocol decides when they end, and are judged by our error and certificate.
A library that is not installed is not offered.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

Advance = Callable[..., tuple[np.ndarray, np.ndarray]]
ANY_BETA = ("sklearn-mu",)  # these take a beta; the others minimize the Frobenius norm


def _sklearn(
    X: Any, W: np.ndarray, H: np.ndarray, iterations: int, beta: float = 2.0, *, solver: str
) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.decomposition import non_negative_factorization

    options = {"init": "custom", "solver": solver, "beta_loss": beta, "tol": 0.0, "max_iter": iterations}
    W, H, _ = non_negative_factorization(X, W, H, n_components=W.shape[1], **options)
    return W, H


def _tensorly(X: Any, W: np.ndarray, H: np.ndarray, iterations: int) -> tuple[np.ndarray, np.ndarray]:
    from tensorly.cp_tensor import CPTensor
    from tensorly.decomposition import non_negative_parafac_hals

    start = CPTensor((np.ones(W.shape[1]), [W.copy(), H.T.copy()]))
    cp = non_negative_parafac_hals(X, W.shape[1], n_iter_max=iterations, init=start, tol=0.0)
    return cp.factors[0] * cp.weights, cp.factors[1].T


def _nn_fac(X: Any, W: np.ndarray, H: np.ndarray, iterations: int) -> tuple[np.ndarray, np.ndarray]:
    from nn_fac.nmf import nmf

    found = nmf(X, W.shape[1], init="custom", U_0=W.copy(), V_0=H.copy(), n_iter_max=iterations, tol=0.0)
    return found[0], found[1]


def _torchnmf(X: Any, W: np.ndarray, H: np.ndarray, iterations: int) -> tuple[np.ndarray, np.ndarray]:
    import torch
    from torchnmf.nmf import NMF

    model = NMF(W=torch.as_tensor(H.T.copy()), H=torch.as_tensor(W.copy()))
    model.fit(torch.as_tensor(X), beta=2, tol=0.0, max_iter=iterations)
    return model.H.detach().numpy(), model.W.detach().numpy().T


def _nmf_torch(X: Any, W: np.ndarray, H: np.ndarray, iterations: int) -> tuple[np.ndarray, np.ndarray]:
    """Its default algorithm. It knows no start but its own, so ours is put in its place; it prints, to nobody."""
    import torch
    from nmf.nmf_models import NMFBatchHALS

    class FromHere(NMFBatchHALS):
        def _initialize_H_W(self, eps: float = 0.0) -> None:
            self.H, self.W = torch.as_tensor(W.copy()), torch.as_tensor(H.copy())

    precision = "double" if W.dtype == np.float64 else "float"
    model = FromHere(
        W.shape[1], "random", 2.0, 0.0, 0, 0.0, 0.0, 0.0, 0.0, precision, "cpu", max_iter=iterations, hals_tol=0.05
    )
    with contextlib.redirect_stdout(io.StringIO()):
        model.fit(X)
    return model.H.numpy(), model.W.numpy()


_KNOWN: dict[str, tuple[str, bool, Advance]] = {  # package, takes sparse X, how to go on
    "sklearn-cd": ("sklearn", True, partial(_sklearn, solver="cd")),
    "sklearn-mu": ("sklearn", True, partial(_sklearn, solver="mu")),
    "tensorly": ("tensorly", False, _tensorly),
    "nn-fac": ("nn_fac", False, _nn_fac),
    "torchnmf": ("torchnmf", False, _torchnmf),
    "nmf-torch": ("nmf", False, _nmf_torch),
}


def names() -> list[str]:
    """Opponents whose library is installed."""
    return [name for name, (package, _, _) in _KNOWN.items() if importlib.util.find_spec(package) is not None]


def takes(name: str, beta: float) -> bool:
    """Whether an opponent minimizes this beta divergence."""
    return beta == 2.0 or name in ANY_BETA


def advance(
    name: str, X: Any, W: np.ndarray, H: np.ndarray, iterations: int, beta: float = 2.0
) -> tuple[np.ndarray, np.ndarray]:
    """Some iterations of an opponent from (W, H), for this beta divergence."""
    _, takes_sparse, function = _KNOWN[name]
    if sp.issparse(X) and not takes_sparse:
        raise TypeError(f"{name} does not take sparse matrices")
    if not takes(name, beta):
        raise TypeError(f"{name} minimizes the Frobenius norm only; {', '.join(ANY_BETA)} takes other losses")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(X, W, H, iterations, beta) if name in ANY_BETA else function(X, W, H, iterations)
