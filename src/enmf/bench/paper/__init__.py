"""The paper, table by table and figure by figure: one file a thought, each a registered function that makes cases.

    python -m enmf.bench reproduce all --size small

`runs` has the common pieces, `runner` makes the tables, `pictures` and `page` show them, `claims` writes docs/paper.md.
The paper's own figures are in figures.csv.
"""

from enmf.bench.paper import (  # noqa: F401  (they register themselves, in the order of the page)
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
)
from enmf.bench.paper.case import REPRODUCTIONS, SIZES, find
from enmf.bench.paper.runner import run

__all__ = ["REPRODUCTIONS", "SIZES", "find", "run"]
