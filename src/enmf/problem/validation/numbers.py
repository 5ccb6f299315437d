"""Single arguments: numbers, choices, flags, paths, memory limits, random states."""

from __future__ import annotations

import math
import numbers
import re
import sys
import warnings
from typing import Any

import numpy as np


def check_number(
    name: str,
    value: Any,
    *,
    low: float = -math.inf,
    above: float = -math.inf,
    high: float = math.inf,
    integer: bool = False,
    optional: bool = False,
    finite: bool = False,
) -> None:
    """A number of at least `low` (or greater than `above`) and at most `high`."""
    if optional and value is None:
        return
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral if integer else numbers.Real):
        wanted = "an integer" if integer else "a number"
        raise TypeError(f"{name} must be {wanted}{' or None' if optional else ''}, got {value!r}")
    number: Any = value
    for fine, problem in (
        (number >= low, f"at least {low}"),  # False for NaN
        (above == -math.inf or number > above, f"greater than {above}"),
        (number <= high, f"at most {high}"),
        (not finite or number < math.inf, "finite"),
    ):
        if not fine:
            raise ValueError(f"{name} must be {problem}, got {value}")


def check_count(name: str, value: Any, *, low: int) -> int:
    check_number(name, value, low=low, integer=True)
    return int(value)


def check_range(clip: Any) -> tuple[float, float] | None:
    """A pair (low, high) or None."""
    if clip is None:
        return None
    try:
        low, high = (float(end) for end in clip)
    except (TypeError, ValueError):
        raise TypeError(f"clip must be a pair (low, high) or None, got {clip!r}") from None
    if not low <= high:
        raise ValueError(f"clip must be a pair (low, high) with low <= high, got {clip!r}")
    return low, high


def check_choice(name: str, value: Any, allowed: list[str]) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name}={value!r} is not known; choose one of {', '.join(map(repr, allowed))}")
    return value


def check_flag(name: str, value: Any, *, optional: bool = False) -> None:
    if not (isinstance(value, (bool, np.bool_)) or (optional and value is None)):
        raise TypeError(f"{name} must be True{', False or None' if optional else ' or False'}, got {value!r}")


def check_threads(n_threads: Any) -> int | None:
    check_number("n_threads", n_threads, low=1, integer=True, optional=True)
    return n_threads


def check_memory_limit(limit: Any) -> int | None:
    """Bytes, from a number or a string such as "2GB"."""
    if limit is None:
        return None
    if isinstance(limit, str):
        limit = _parse_bytes(limit)
    check_number("memory_limit", limit, low=1)
    if not math.isfinite(limit):
        raise ValueError("memory_limit must be a finite number of bytes; None means no limit")
    return int(limit)


def _parse_bytes(text: str) -> float:
    """2GB is 2e9, 2GiB is 2 * 2**30. Case does not matter; B and a space before the unit are optional."""
    found = re.fullmatch(r"\s*(\d*\.?\d+(?:e[+-]?\d+)?)\s*(?:([kmgtp])(i)?)?b?\s*", text.lower())
    if found is None:
        raise ValueError(f"memory_limit must be a number of bytes or a string such as '2GB', got {text!r}")
    number, prefix, binary = found.groups()
    return float(number) * (1024.0 if binary else 1000.0) ** (" kmgtp".index(prefix) if prefix else 0)


def make_rng(random_state: Any) -> np.random.Generator:
    """A Generator from None, an integer, a RandomState, a SeedSequence or a Generator."""
    if isinstance(random_state, np.random.Generator):
        if isinstance(random_state.bit_generator.seed_seq, np.random.bit_generator.ISpawnableSeedSequence):
            return random_state
        return np.random.default_rng(random_state.integers(0, 2**31 - 1, size=4))  # this one can spawn children
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1, size=4))
    if isinstance(random_state, numbers.Integral) and int(random_state) < 0:
        raise ValueError(f"random_state must not be negative, got {random_state}")
    if random_state is None or isinstance(random_state, (numbers.Integral, np.random.SeedSequence)):
        return np.random.default_rng(None if random_state is None else random_state)  # type: ignore[arg-type]
    raise TypeError(
        f"random_state must be None, an integer, numpy RandomState or Generator, got {type(random_state).__name__}"
    )


def warn_outside(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's code that called into this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("enmf"):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)
