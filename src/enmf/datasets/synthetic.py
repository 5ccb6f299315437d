"""The paper's generated data (section 5.1)."""

from __future__ import annotations

from typing import Any

import numpy as np

from enmf.problem.validation.numbers import make_rng


def make_synthetic(
    n: int = 1000, m: int = 1000, inner_rank: int = 200, snr: float = 60.0, *, random_state: Any = None
) -> np.ndarray:
    """Dense data X = |W H + N| with W (n x inner_rank) and H uniform on [0, 1] and Gaussian N.

    `snr` is the signal-to-noise ratio in dB, 20 log10(||W H|| / ||N||). The paper's size is 5000 x 5000, inner rank
    1000, and snr 20 to 100.

    Examples
    --------
    >>> from enmf.datasets import make_synthetic
    >>> X = make_synthetic(60, 50, 20, snr=40, random_state=0)
    >>> X.shape, bool(X.min() >= 0)
    ((60, 50), True)
    """
    rng = make_rng(random_state)
    X = rng.random((n, inner_rank)) @ rng.random((inner_rank, m))
    noise = rng.standard_normal((n, m))
    noise *= np.linalg.norm(X) / np.linalg.norm(noise) * 10.0 ** (-snr / 20.0)
    X += noise
    return np.abs(X, out=X)


def make_exact(
    n: int = 500, m: int = 400, rank: int = 50, sparsity: float = 0.3, *, random_state: Any = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X = U Vᵀ exactly, with U and V uniform on [0, 1] outside a random mask of zeros; returns X, U, V.

    `sparsity` is the expected share of zeros in U and V.

    Examples
    --------
    >>> from enmf.datasets import make_exact
    >>> X, U, V = make_exact(30, 20, 4, 0.3, random_state=0)
    >>> bool(abs(X - U @ V.T).max() < 1e-12)
    True
    """
    rng = make_rng(random_state)
    U, V = (rng.random((length, rank)) * (rng.random((length, rank)) >= sparsity) for length in (n, m))
    return U @ V.T, U, V
