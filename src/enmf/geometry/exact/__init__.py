"""Exact nonnegative factorizations: how they relate, how to find one, separable data (paper, appendix A)."""

from enmf.geometry.exact.orthant import OrthantTransform, transform_to_orthant
from enmf.geometry.exact.relation import Transform, relate, svd_factors
from enmf.geometry.exact.separability import Separability, separability

__all__ = [
    "OrthantTransform",
    "Separability",
    "Transform",
    "relate",
    "separability",
    "svd_factors",
    "transform_to_orthant",
]
