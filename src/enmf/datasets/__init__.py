"""Example matrices: the paper's synthetic families, and real data sets read from a data folder."""

from enmf.datasets.folder import DataFolderMissing, load, load_rcv1
from enmf.datasets.ratings import Ratings, leave_one_out, read_movielens, split_by_row
from enmf.datasets.synthetic import make_exact, make_sparse, make_synthetic

__all__ = [
    "DataFolderMissing",
    "Ratings",
    "leave_one_out",
    "load",
    "load_rcv1",
    "make_exact",
    "make_sparse",
    "make_synthetic",
    "read_movielens",
    "split_by_row",
]
