"""Matrices with missing entries: eNMC, its opponents, and the estimator for ratings."""

from enmf.completion.complete import complete, completion_methods
from enmf.completion.estimator import ENMC

__all__ = ["ENMC", "complete", "completion_methods"]
