"""The paper, table by table and figure by figure: one file a thought, each a registered function that makes cases.

    python -m enmf.bench reproduce all --size small

`runs` has the common pieces, `runner` makes the tables, `views`, `pictures` and `page` show them, `claims` writes
docs/paper.md. The paper's own figures are in figures.csv.
"""

# ruff: noqa: I001  (they register themselves, in the order of the page)
from enmf.bench.paper import contests, rotation, exact, phases, equivalence, ablation, features, completion
from enmf.bench.paper import sparse, complexity
from enmf.bench.paper.case import REPRODUCTIONS, SIZES, find
from enmf.bench.paper.claims import write_claims
from enmf.bench.paper.page import show, write_page
from enmf.bench.paper.runner import overview, run

__all__ = [
    "REPRODUCTIONS",
    "SIZES",
    "ablation",
    "completion",
    "complexity",
    "contests",
    "equivalence",
    "exact",
    "features",
    "find",
    "overview",
    "phases",
    "rotation",
    "run",
    "show",
    "sparse",
    "write_claims",
    "write_page",
]
