"""Compiled loops on plain arrays and scalars. They do not depend on the rest of the package.

A factor is stored with one component per row (r x n, C order), so that inner loops run across rows of X and vectorise.
Every kernel takes a range `start, stop` of columns and touches only that range: `enmf.parallel.run` hands ranges to
threads. A slow, obvious version of each kernel is in tests/slow.py.
"""
