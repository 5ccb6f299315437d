"""How kernels are compiled: without the GIL, and cached on disk if a writable place for the cache exists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

SUMS_MAY_BE_REORDERED = {"contract", "nsz", "reassoc"}


def compiled(fastmath: set[str] | bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Decorator for a kernel."""

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return njit(cache=True, nogil=True, fastmath=fastmath)(function)
        except RuntimeError:  # neither the package folder nor the user's cache folder can be written
            return njit(nogil=True, fastmath=fastmath)(function)

    return decorate
