"""Fair clocks: the paper's two protocols (section 5.3) for our methods and for other libraries.

The clock charges initialization, SVD and every phase, and stands still while error and KKT residual are measured.
Everything has run once before it starts. Every opponent has the same number of threads. Each run is a row of a table.
"""

from enmf.bench.protocols import Setting, equal_error, equal_time
from enmf.bench.table import Table, summarize

__all__ = ["Setting", "Table", "equal_error", "equal_time", "summarize"]
