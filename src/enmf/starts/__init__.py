"""Starts for descent methods, one file each: a function (X, rank, rng) -> U, V, both nonnegative."""
