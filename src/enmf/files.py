"""Files appear under their name complete, or not at all."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

_numbers = itertools.count()


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[str]:
    """A temporary path with the same suffix, renamed to `path` once the body is done and the data are on the disk.

    A failure leaves what was there before, and its message names `path`. Symbolic links are followed; devices and pipes
    are written directly.
    """
    target = Path(os.path.realpath(path))
    direct = target.exists() and not target.is_file()
    part = target if direct else target.with_name(f".enmf.{os.getpid()}.{next(_numbers)}.part{target.suffix[:20]}")
    try:
        yield str(part)
        if not direct:
            with open(part, "rb+") as file:
                os.fsync(file.fileno())  # or a crash could leave an empty file under the name
            os.replace(part, target)
    except OSError as problem:
        if problem.errno is None:
            raise
        raise OSError(problem.errno, problem.strerror, str(path)) from problem
    finally:
        if not direct:
            part.unlink(missing_ok=True)
