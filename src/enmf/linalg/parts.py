"""Nonnegative factors from singular pairs, without a rotation (Boutsidis and Gallopoulos 2008).

u_j = sqrt(p) a/||a||,  v_j = sqrt(p) b/||b||,   p = ||a|| ||b||,
(a, b) the positive or the negative parts of the j-th pair of columns, whichever have the larger p
"""

from __future__ import annotations

import numpy as np


def larger_parts(A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of every pair of columns the positive or the negative parts, whichever are larger, with equal norms."""
    parts = [[np.maximum(sign * F, 0) for F in (A, B)] for sign in (1, -1)]
    norms = np.array([[np.linalg.norm(part, axis=0) for part in pair] for pair in parts])  # sign x factor x column
    negative = norms[1].prod(axis=0) > norms[0].prod(axis=0)
    size = np.where(negative, norms[1], norms[0])
    root = np.sqrt(size.prod(axis=0))
    scale = np.divide(root, size, out=np.zeros_like(size), where=size > 0).astype(A.dtype)
    U, V = (np.where(negative, parts[1][side], parts[0][side]) * scale[side] for side in (0, 1))
    return np.asfortranarray(U), np.asfortranarray(V)
