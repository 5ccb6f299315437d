"""The paper's claims one by one, judged by our tables: docs/paper.md.

What the paper says is in figures.csv; what we measured is in the result tables; here is only how the one is judged by
the other. No sentence holds a figure (tests/test_paper.py looks), and each adapts to what the rows say.
"""

# ruff: noqa: I001  (they register themselves, in the order of the document)
from paper.claims import contests, geometry, method, large, downstream, reach
from paper.claims.claim import CLAIMS, judge
from paper.claims.document import write_claims

__all__ = ["CLAIMS", "contests", "downstream", "geometry", "judge", "large", "method", "reach", "write_claims"]
