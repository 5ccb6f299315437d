"""What happened in a run: one row per iteration, and what each phase cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pandas


class TraceRow(NamedTuple):
    """State of a run after `iteration` steps of `phase`.

    `seconds` and `passes` exclude the cost of measuring; `kkt` is nan if it was not measured. In the phases before
    "descent" the factors may be negative or belong to a low-rank surrogate of X; `error` is then an estimate. The phase
    "svd" has rows only if its factors need no more than a rotation to be nonnegative: these are exact.
    The descent from a further start is the phase "restart".
    """

    iteration: int
    phase: str
    seconds: float
    error: float
    kkt: float
    passes: int


class Trace(list[TraceRow]):
    """Rows of a run, in order."""

    def to_frame(self) -> pandas.DataFrame:
        """The rows as a pandas DataFrame."""
        import pandas

        return pandas.DataFrame(list(self), columns=list(TraceRow._fields))

    def of(self, phase: str) -> Iterator[TraceRow]:
        """The rows of one phase."""
        return (row for row in self if row.phase == phase)


@dataclass(frozen=True)
class Phase:
    """Cost of a phase: seconds, passes over X, iterations."""

    seconds: float = 0.0
    passes: int = 0
    iterations: int = 0

    def __add__(self, other: Phase) -> Phase:
        return Phase(self.seconds + other.seconds, self.passes + other.passes, self.iterations + other.iterations)
