"""The exterior method (paper, section 4): one file per phase; pipeline.py puts them in order."""
