"""One self-contained HTML page: what was found, how good it is, what the components are, where the fit is poor."""

from enmf.report.page import write

__all__ = ["write"]
