"""One side of X: the names of its rows or columns, and their positions along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from enmf.report.numbers import increasing, ticks
from enmf.report.pictures import Ticks


@dataclass(frozen=True)
class Axis:
    """Names of the rows or columns; `numbers` is set if the names are increasing numbers, or if there are none."""

    what: str  # "row" or "column"
    names: list[str]
    numbers: np.ndarray | None
    named: bool

    @staticmethod
    def of(what: str, given: Sequence[str] | None, count: int) -> Axis:
        """Check the names; without names, rows and columns are numbered from 1."""
        if given is None:
            return Axis(what, [f"{what} {k + 1}" for k in range(count)], np.arange(1.0, count + 1), False)
        if len(given) != count:
            raise ValueError(f"{what}_names has {len(given)} names for {count} {what}s")
        names = [str(name) for name in given]
        numbers = increasing(names)
        return Axis(what, names, None if numbers is None else np.array(numbers), True)

    @property
    def ordered(self) -> bool:
        """Whether the order carries meaning, so that neighbours belong together."""
        return self.numbers is not None

    def places(self) -> np.ndarray:
        """Position of each row or column, from 0 to 1: by its number, or evenly spaced."""
        at = self.numbers if self.numbers is not None else np.arange(float(len(self.names)))
        span = at[-1] - at[0]
        return (at - at[0]) / span if span > 0 else np.zeros(len(at))

    def ticks(self, count: int = 6) -> Ticks:
        """Round numbers along the axis; the first and the last name if the names are not numbers."""
        if self.numbers is None:
            return [(0.0, self.names[0]), (1.0, self.names[-1])]
        low, high = float(self.numbers[0]), float(self.numbers[-1])
        marks = ticks(low, high, count, not self.named)
        return [((value - low) / (high - low) if high > low else 0.0, label) for value, label in marks]

    def cell_ticks(self) -> Ticks:
        """The same for an image with one cell of equal width per row or column."""
        if self.numbers is None:
            return []
        low, high = float(self.numbers[0]), float(self.numbers[-1])
        middles = np.arange(0.5, len(self.names)) / len(self.names)
        marks = ticks(low, high, 6, not self.named)
        return [(float(np.interp(value, self.numbers, middles)), label) for value, label in marks]
