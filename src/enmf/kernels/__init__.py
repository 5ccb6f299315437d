"""Compiled loops on plain arrays and scalars. They know nothing of the rest of the package.

A factor is stored one component a row (r x n, C order), so that the inner loops run across rows of X and vectorise.
Every kernel takes a range `start, stop` of columns and touches only that range: `enmf.parallel.run` hands ranges to
threads. The slow, obvious twin of each kernel is in tests/slow.py.
"""
