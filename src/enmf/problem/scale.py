"""The scale of a result: (U D, V D⁻¹) is the same model for every positive diagonal D, and one of them is returned.

balanced   ||u_j|| = ||v_j||
sum        sum(v_j) = 1: components are distributions over the features. U then has the unit of X, and the sum of a row
           of U is the sum of that row of U Vᵀ
max        max(v_j) = 1: components are profiles that peak at one, amplitudes are in U
norm       ||v_j|| = 1: u_ij is the length of component j in sample i

A component with v_j = 0 keeps its scale.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

SIZES: dict[str, Callable[[np.ndarray], np.ndarray] | None] = {
    "balanced": None,  # what every run ends with
    "sum": lambda V: V.sum(axis=0),
    "max": lambda V: V.max(axis=0),
    "norm": lambda V: np.linalg.norm(V, axis=0),
}


def rescaled(U: Any, V: np.ndarray, scale: str) -> tuple[Any, np.ndarray]:
    """Balanced factors on another scale: v_j divided by its size, u_j multiplied by it."""
    size = SIZES[scale]
    if size is None:
        return U, V
    sizes = size(V.astype(np.float64))
    sizes = np.where(sizes == 0.0, 1.0, sizes).astype(V.dtype)
    return U * sizes, V / sizes
