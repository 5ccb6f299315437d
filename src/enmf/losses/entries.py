"""Beta divergences of single entries, for what is measured rather than minimized: held-out entries, rows, columns."""

from __future__ import annotations

from typing import Any

import numpy as np


def divergence(x: Any, m: Any, beta: float) -> np.ndarray:
    """d(x | m) of every entry, as in `enmf.losses.divergence`; 1/2 (x - m)² for beta = 2.

    It is infinite where the model m is zero and x is not (for beta <= 1), and where x is zero (for beta = 0).
    """
    x, m = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(m, np.float64))
    if beta == 2.0:
        return 0.5 * (x - m) ** 2
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if beta == 1.0:
            found = np.where(x > 0, x * np.log(x / m), 0.0) - x + m
        elif beta == 0.0:
            found = np.where((x > 0) & (m > 0), x / m - np.log(x / m) - 1.0, np.inf)
        else:
            mixed = np.where(x > 0, x * m ** (beta - 1.0), 0.0)
            found = (x**beta + (beta - 1.0) * m**beta - beta * mixed) / (beta * (beta - 1.0))
    return np.maximum(found, 0.0)
