"""A folder from which a run goes on after its process has ended, however that came about.

One file, `factors.npz`, holds the factors of the last saved iteration and what they belong to. It is written beside
itself and then put in place by one rename, so that there is a whole file at any time. A run that finds one starts its
descent there; the iterations done before count. Saving takes a twentieth of the time at most. A file that is damaged or
belongs to something else is refused by its name; where saving fails (a full disk), one warning says so, what was saved
before stays, and the run goes on.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from enmf.matrix.factor import home_of
from enmf.problem.validation.warn import warn_outside
from enmf.run.monitor import Progress

SHARE = 0.05  # of the time that may go into saving
FILE = "factors.npz"


@dataclass(frozen=True)
class Saved:
    """Factors in the units of the scaled problem, and the descent iterations that led to them.

    A U that lives with the workers is not saved: the run goes on with the best one for V.
    """

    U: np.ndarray | None
    V: np.ndarray
    iterations: int


class SavedFile:
    """An npz file that is replaced as a whole; what is wrong with it is told with its name."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._warned = False

    @contextmanager
    def reading(self) -> Iterator[Any]:
        """The content of the file; whatever goes wrong in the body is a ValueError that says to delete it."""
        try:
            with np.load(self.path) as content:
                yield content
        except PermissionError:
            raise
        except Exception as problem:  # damaged zip files raise many kinds of errors
            why = f"it has no {problem}" if isinstance(problem, KeyError) else str(problem) or "it is cut off"
            name = str(self.path)
            raise ValueError(
                f"the checkpoint {name!r} cannot be used: {why}. Delete it, or choose another place"
            ) from None

    def write(self, **arrays: Any) -> None:
        """Put these arrays in the place of the file, or leave it as it was with one warning."""
        part = self.path.with_name(f"{self.path.name}.{os.getpid()}.part")
        try:
            with open(part, "wb") as file:
                np.savez(file, **arrays)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, self.path)
        except OSError as problem:
            self._warn(problem)
        finally:
            part.unlink(missing_ok=True)

    def _warn(self, problem: OSError) -> None:
        if not self._warned:
            self._warned = True
            kept = "; what was saved before is kept" if self.path.exists() else ""
            reason = problem.strerror or problem
            warn_outside(f"the checkpoint {str(self.path)!r} cannot be written: {reason}. The run goes on{kept}")


def check_saved_factor(F: np.ndarray, name: str, rows: int | None, rank: int) -> np.ndarray:
    """A factor as a run would have saved it."""
    if F.dtype.kind != "f" or F.ndim != 2 or F.shape[1] != rank or rows not in (None, F.shape[0]):
        wanted = f"({'any' if rows is None else rows}, {rank})"
        raise ValueError(f"its {name} must be numbers of shape {wanted}, got {F.dtype} of shape {F.shape}")
    with np.errstate(over="ignore"):
        usable = F.size == 0 or (F.min() >= 0 and np.isfinite(np.square(F, dtype=F.dtype).sum()))  # False with NaN
    if not usable:
        raise ValueError(f"its {name} has entries that are negative, NaN or too large")
    return F


class Checkpoint:
    """The checkpoint folder of one problem; `about` must be equal for a run to go on from what another one saved."""

    def __init__(self, folder: str | os.PathLike[str], about: dict[str, Any]) -> None:
        self.folder, self.about = Path(folder), about
        self.folder.mkdir(parents=True, exist_ok=True)
        if not os.access(self.folder, os.W_OK):
            raise PermissionError(errno.EACCES, "the checkpoint folder may not be written to", str(self.folder))
        self.file = SavedFile(self.folder / FILE)
        self.before = 0  # iterations of earlier runs
        self._next = 0.0

    def load(self) -> Saved | None:
        """What an earlier run of the same problem left, or None; a file of another problem is an error."""
        if not self.file.path.exists():
            return None
        with self.file.reading() as content:
            self._check_about(dict(json.loads(str(content["about"]))))
            saved = self._checked(content.get("U"), content["V"], int(content["iterations"]))
        self.before = saved.iterations
        return saved

    def _check_about(self, found: dict[str, Any]) -> None:
        for key, value in self.about.items():
            theirs = found.get(key)
            close = isinstance(value, float) and isinstance(theirs, float) and abs(value - theirs) <= 1e-6 * abs(value)
            if not close and theirs != value:
                raise ValueError(f"it belongs to another run, its {key} is {theirs!r}, here it is {value!r}")

    def _checked(self, U: np.ndarray | None, V: np.ndarray, iterations: int) -> Saved:
        (n, m), rank, dtype = self.about["shape"], self.about["rank"], self.about["dtype"]
        if iterations < 0:
            raise ValueError(f"it counts {iterations} iterations")
        if U is not None:
            U = np.asfortranarray(check_saved_factor(U, "U", n, rank), dtype)
        return Saved(U, np.asfortranarray(check_saved_factor(V, "V", m, rank), dtype), iterations)

    def save(self, U: Any, V: np.ndarray, iterations: int) -> None:
        home = home_of(U)
        if home is not None and home.gathers_cheaply:
            home, U = None, U.gather()
        of_U: dict[str, Any] = {} if home is not None else {"U": U}
        self.file.write(V=V, **of_U, iterations=np.int64(iterations), about=np.array(json.dumps(self.about)))

    def watching(self, callback: Callable[[Progress], object] | None) -> Callable[[Progress], object]:
        """The callback of a run, preceded by saving the factors of the descent when it is time to."""

        def keep(progress: Progress) -> object:
            if progress.row.phase == "descent" and time.perf_counter() >= self._next:
                began = time.perf_counter()
                self.save(progress.U, progress.V, self.before + progress.row.iteration)
                ended = time.perf_counter()
                self._next = ended + (ended - began) / SHARE
            return callback(progress) if callback is not None else None

        return keep
