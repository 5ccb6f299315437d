"""Compiled loops on plain arrays and scalars (C++, src/kernels). They do not depend on the rest of the package.

A factor is stored with one component per row (r x n, C order), so that inner loops run across rows of X and vectorise.
Every kernel takes a range `start, stop` of columns and touches only that range: `enmf.parallel.run` hands ranges to
threads. A slow, obvious version of each kernel is in tests/slow.py.

The same source is compiled for several instruction sets; the best one that this machine has is in use, or the one that
the environment variable ENMF_KERNELS names. `python -m enmf.kernels` tells which.
"""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType

from enmf.kernels import _baseline

LEVELS = ("baseline", "avx2", "avx512")  # the slowest first


def available() -> tuple[str, ...]:
    """The instruction sets of this machine for which there are kernels."""
    return LEVELS[: _baseline.best_level() + 1]


def load(level: str) -> ModuleType:
    """The kernels for an instruction set."""
    if level not in available():
        raise ImportError(f"ENMF_KERNELS={level}: this machine has {', '.join(available())}")
    return import_module(f"enmf.kernels._{level}")


level = os.environ.get("ENMF_KERNELS") or available()[-1]  # the instruction set in use
_loaded = load(level)
BLOCK, LANE_BYTES, RANGE = _loaded.BLOCK, _loaded.LANE_BYTES, _loaded.RANGE
admm, burst, dense, divergence = _loaded.admm, _loaded.burst, _loaded.dense, _loaded.divergence
gradient, masked, nnls, onepass = _loaded.gradient, _loaded.masked, _loaded.nnls, _loaded.onepass
pivoting, rotation, rowstep = _loaded.pivoting, _loaded.rotation, _loaded.rowstep
sparse, sweep = _loaded.sparse, _loaded.sweep
