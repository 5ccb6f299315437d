"""Linear algebra that everybody needs."""
