"""The progress display behind `verbose`: one live line, on a terminal or in a log."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from enmf.run.monitor import Progress


@contextmanager
def display(
    verbose: bool | int, callback: Callable[[Progress], object] | None
) -> Iterator[Callable[[Progress], object] | None]:
    """The callback of the run: the user's, preceded by the display if `verbose` is set."""
    if not verbose:
        yield callback
        return
    from rich.console import Console

    console = Console(stderr=True)
    last = 0.0

    def show(progress: Progress) -> object:
        nonlocal last
        if progress.seconds - last >= 0.1 or progress.row.iteration == 0:
            last = progress.seconds
            status.update(describe(progress))
            if not console.is_terminal:
                console.print(describe(progress))
        return callback(progress) if callback is not None else None

    with console.status("enmf: singular value decomposition") as status:
        yield show


def describe(progress: Progress) -> str:
    """One line: phase, iteration, seconds, error, distance to the bound, KKT residual."""
    row = progress.row
    text = f"enmf: {row.phase} {row.iteration:5d}  {row.seconds:7.1f} s  error {row.error:.6g}"
    if progress.lower_bound > 0:
        text += f"  ({row.error / progress.lower_bound:.5f} x bound)"
    if not math.isnan(row.kkt):
        text += f"  kkt {row.kkt:.1e}"
    return text
