"""Sizes of a gradient D = F G - B: what the KKT residual and the certificate are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from enmf import parallel
from enmf.kernels import gradient
from enmf.kernels.lanes import BLOCK
from enmf.matrix.factor import collect


@dataclass(frozen=True)
class GradientMeasure:
    """Sizes of the gradient D of one factor F."""

    squares: np.ndarray  # r: sum of squares of the projected gradient of each component
    largest_product: float  # max(D * F)
    sum_product: float  # sum(D * F)
    smallest: float  # min(D)


def measure_gradient(F: Any, G: np.ndarray, B: Any) -> GradientMeasure:
    """Measure F G - B for a factor F (n x r, Fortran order)."""
    return together(collect(measure_rows, F, G, B))


def measure_rows(F: np.ndarray, G: np.ndarray, B: np.ndarray) -> GradientMeasure:
    """Measure F G - B for rows in this process."""
    n, r = F.shape
    partial = np.empty((-(-n // BLOCK), r + gradient.EXTRAS))
    bounds = parallel.even_bounds(n, 2.0 * r * r, BLOCK)
    parallel.run(gradient.measure, bounds, F.T, B.T, np.ascontiguousarray(G), partial)
    extras = partial[:, r:]
    return GradientMeasure(
        squares=partial[:, :r].sum(axis=0),
        largest_product=float(extras[:, gradient.LARGEST_PRODUCT].max()),
        sum_product=float(extras[:, gradient.SUM_PRODUCT].sum()),
        smallest=float(extras[:, gradient.SMALLEST_GRADIENT].min()),
    )


def together(parts: list[GradientMeasure]) -> GradientMeasure:
    """The measure of all rows from those of their parts."""
    if len(parts) == 1:
        return parts[0]
    return GradientMeasure(
        squares=np.sum([part.squares for part in parts], axis=0),
        largest_product=max(part.largest_product for part in parts),
        sum_product=sum(part.sum_product for part in parts),
        smallest=min(part.smallest for part in parts),
    )
