"""Options of a run: those of the methods, by name, and the limits that end it."""

from __future__ import annotations

import os
import time
from typing import Any

from enmf.problem.validation.numbers import check_flag, check_number
from enmf.run.stopping import Stopping

# Ranges of the options by name: exterior phases, feasibility stages and descent methods.
_COUNT, _SOME, _SHARE = {"integer": True, "low": 0}, {"integer": True, "low": 1}, {"low": 0.0}
_POSITIVE, _GROWTH = {"above": 0.0}, {"low": 1.0}
NUMBERS: dict[str, dict[str, Any]] = {
    "power_iterations": {**_SHARE, "optional": True},
    "starts": {**_SOME, "optional": True},
    "rotation_iterations": {**_COUNT, "optional": True},
    "rotation_rho": _POSITIVE,
    "surrogate_iterations": {**_COUNT, "optional": True},
    "restarts": {**_COUNT, "optional": True},
    "softimpute_iterations": _COUNT,
    "softimpute_tol": _SHARE,
    "steps": _SOME,
    "softest": _POSITIVE,
    "hardest": _POSITIVE,
    "inner": _SOME,
    "epsilon": _SHARE,
    "alpha": _SHARE,
    "progress": _SHARE,
    "beta": {"low": 0.0, "high": 1.0},
    "growth": _GROWTH,
    "cap_growth": _GROWTH,
    "shrink": _GROWTH,
    "drop": _SHARE,
    "reach": _POSITIVE,
    "sigma": _POSITIVE,
    "delta": _POSITIVE,
    "first_tolerance": _SHARE,
    "patience": _SOME,
    "rho": _POSITIVE,
    "gamma": _POSITIVE,
    "sweeps": _SOME,
    "max_sweeps": {**_SOME, "optional": True},
}
FLAGS = ("adaptive_rho", "sample", "surrogate", "optimal_step", "literal", "damped")
OPTIONAL_FLAGS = ("surrogate",)


def check_options(options: dict[str, Any]) -> None:
    """Type and range of the options of the exterior phases and of descent methods. Unknown names pass."""
    for name, value in options.items():
        if name in NUMBERS:
            check_number(name, value, finite=True, **NUMBERS[name])
        elif name in FLAGS:
            check_flag(name, value, optional=name in OPTIONAL_FLAGS)
    stage = options.get("feasibility_options")
    if stage is not None:
        if not isinstance(stage, dict):
            raise TypeError(f"feasibility_options must be a dict or None, got {stage!r}")
        check_options(stage)


def check_limits(tol: Any, max_iter: Any, time_limit: Any, target_error: Any) -> Stopping:
    """The limits of a run. The time limit counts from here: call this before reading X."""
    check_number("tol", tol, low=0.0, optional=True)
    check_number("max_iter", max_iter, low=0, integer=True)
    check_number("time_limit", time_limit, low=0.0, optional=True)
    check_number("target_error", target_error, low=0.0, optional=True)
    tol = None if tol is None else float(tol)
    return Stopping(tol, int(max_iter), time_limit, target_error, began=time.perf_counter())


def check_wishes(callback: Any, checkpoint: Any, flags: dict[str, Any]) -> None:
    """What a run is to call, where it is to save, and what it is to do at its end."""
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be a function of one argument or None, got {callback!r}")
    if checkpoint is not None and not isinstance(checkpoint, (str, os.PathLike)):
        raise TypeError(f"checkpoint must be a path or None, got {checkpoint!r}")
    for name, value in flags.items():
        check_flag(name, value)
