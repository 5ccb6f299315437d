"""One offline HTML page for a person: what was found, how good it is, what the components are, where it fits badly."""

from enmf.report.page import write, write_model

__all__ = ["write", "write_model"]
