"""Matrices to try things on: the paper's synthetic families, and real sets read from a data folder."""

from enmf.datasets.folder import DataFolderMissing, load
from enmf.datasets.synthetic import make_exact, make_synthetic

__all__ = ["DataFolderMissing", "load", "make_exact", "make_synthetic"]
