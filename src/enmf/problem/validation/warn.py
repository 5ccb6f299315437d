"""Warnings that point at the user's own code."""

from __future__ import annotations

import sys
import warnings


def warn_outside(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's code that called into this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("enmf"):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)
