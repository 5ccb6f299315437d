"""The paper, table by table and figure by figure: one file per thought, each a registered function that makes cases.

    python benchmarks/reproduce.py all --size small

`runs` has the common pieces, `runner` makes the tables, `views`, `pictures` and `page` show them, `claims` writes
docs/paper.md. The paper's own figures are in figures.csv.
"""

# ruff: noqa: F401, I001  (they register themselves, in the order of the page)
from paper import (
    contests,
    rotation,
    exact,
    phases,
    equivalence,
    ablation,
    features,
    completion,
    sparse,
    complexity,
    losses,
)
from paper.case import REPRODUCTIONS, Row, find
from paper.claims import write_claims
from paper.page import show, write_page
from paper.runner import FOLDER, overview, run

__all__ = ["FOLDER", "REPRODUCTIONS", "Row", "find", "overview", "run", "show", "write_claims", "write_page"]
