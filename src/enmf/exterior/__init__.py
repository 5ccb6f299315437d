"""The exterior method (paper, section 4): one file a phase; pipeline.py puts them in order."""
