"""The paper, table by table and figure by figure: one file per thought, each a registered function that makes cases.

    python benchmarks/reproduce.py all --size small

`runs` has the common pieces, `runner` makes the tables, `views`, `pictures` and `page` show them, `claims` writes
docs/paper.md. The paper's own figures are in figures.csv.
"""

# ruff: noqa: I001  (they register themselves, in the order of the page)
from paper import contests, rotation, exact, phases, equivalence, ablation, features, completion
from paper import sparse, complexity
from paper.case import REPRODUCTIONS, Row, find
from paper.claims import write_claims
from paper.page import show, write_page
from paper.runner import FOLDER, overview, run

__all__ = [
    "FOLDER",
    "REPRODUCTIONS",
    "Row",
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
