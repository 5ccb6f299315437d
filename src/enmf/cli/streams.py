"""`enmf factorize --stream`: files larger than memory, and standard input, read once and in parts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enmf.cli.inputs import read_or_open, working_on
from enmf.cli.outputs import Outputs, watched
from enmf.io.messages import STDIN, InputProblem, say
from enmf.io.reading import Reading

if TYPE_CHECKING:
    from enmf.cli.options import Solving
    from enmf.io.tables import Table


def refuse_for_streams(**options: Any) -> None:
    """Refuse options that a stream does not have."""
    for name, value in options.items():
        if value is not None:
            what = "no sums of fixed size determine this loss" if name == "loss" else "streams do not have it"
            raise InputProblem(f"--{name.replace('_', '-')}", f"cannot be used with --stream: {what}", "Leave it out")


def learn_stream(
    data: str, rank: int, reading: Reading, outputs: Outputs, solving: Solving, batch: int, forget: float
) -> None:
    """Learn from every part in turn; progress is one line a part."""
    from enmf import Stream

    stream = Stream(rank, forget=forget, random_state=solving.seed, n_threads=solving.threads)
    columns = None
    show = watched(outputs.quiet)
    for table in _parts(data, reading, batch):
        with working_on(table):
            stream.partial_fit(table.values)
        columns = table.columns
        if show:
            say(f"{stream.rows} rows, error at most {stream.certificate.relative_error:.4%} of the norm", sys.stderr)
    if stream.rows == 0:
        raise InputProblem(data, "there are no rows", "Export it again")
    stream.renew()
    outputs.finish_stream(stream, columns, data)


def _parts(data: str, reading: Reading, lines: int) -> Iterator[Table]:
    from enmf.io.tables import Table, read_parts

    place = Path(data)
    if data == STDIN or not (place.is_dir() or place.suffix.lower() == ".npy"):
        yield from read_parts(data, reading, lines)
        return
    from enmf.stream.batches import readings

    opened = read_or_open(data, reading, True, True)
    for values in readings(opened.values, 1)():
        yield Table(values, None, None, data)
