"""Nonnegative matrix factorization by the exterior method: X ~ U Vᵀ, with a certificate.

>>> import enmf
>>> from sklearn.datasets import load_digits
>>> X = load_digits().data
>>> result = enmf.factorize(X, 10, random_state=0)
>>> result.U.shape, result.V.shape
((1797, 10), (64, 10))
"""

from enmf import datasets, exact
from enmf.certification import certify
from enmf.completion import ENMC, complete, completion_methods
from enmf.consensus import Consensus, consensus
from enmf.equivalence import Comparison, compare
from enmf.estimators import ENMF, non_negative_factorization
from enmf.factorization import factorize
from enmf.interpretation import components_frame, top_features
from enmf.matrix.chunked import WorkersLost
from enmf.optimality import Certificate
from enmf.plots import plot_components
from enmf.rank import RankSelection, select_rank
from enmf.registry import initializations, methods
from enmf.result import Result
from enmf.stability import Stability, stability

__version__ = "0.1.0"

__all__ = [
    "ENMC",
    "ENMF",
    "Certificate",
    "Comparison",
    "Consensus",
    "RankSelection",
    "Result",
    "Stability",
    "WorkersLost",
    "certify",
    "compare",
    "complete",
    "completion_methods",
    "components_frame",
    "consensus",
    "datasets",
    "exact",
    "factorize",
    "initializations",
    "methods",
    "non_negative_factorization",
    "plot_components",
    "select_rank",
    "stability",
    "top_features",
]
