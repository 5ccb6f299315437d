"""A folder from which a run resumes after its process has ended, for whatever reason.

One file, `factors.npz` (see `enmf.run.saved`), holds the factors of the last saved iteration. A run that finds one
starts its descent there, and the earlier iterations count. Saving takes at most a twentieth of the time. A file that is
damaged or belongs to another problem is refused, and the error names it; if saving fails (a full disk), there is one
warning, the last saved state is kept, and the run continues.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from enmf.matrix.factor import home_of
from enmf.run.monitor import Progress
from enmf.run.saved import SavedFile, check_factor

SHARE = 0.05  # largest share of the time spent on saving
FILE = "factors.npz"


@dataclass(frozen=True)
class Saved:
    """Factors in the units of the scaled problem, and the number of descent iterations that led to them.

    A U that lives on the workers is not saved: the run resumes with the best U for V.
    """

    U: np.ndarray | None
    V: np.ndarray
    iterations: int


class Checkpoint:
    """The checkpoint folder of one problem; a run resumes from a file whose `about` agrees."""

    def __init__(self, folder: str | os.PathLike[str], about: dict[str, Any]) -> None:
        self.folder, self.about = Path(folder), about
        self.folder.mkdir(parents=True, exist_ok=True)
        if not os.access(self.folder, os.W_OK):
            raise PermissionError(errno.EACCES, "the checkpoint folder is not writable", str(self.folder))
        self.file = SavedFile(self.folder / FILE, "run", about)
        self.before = 0  # iterations of earlier runs
        self._next = 0.0

    def load(self) -> Saved | None:
        """What an earlier run of the same problem saved, or None; a file of another problem is an error."""
        if not self.file.path.exists():
            return None
        with self.file.reading() as (_, arrays):
            saved = self._checked(arrays.get("U"), arrays["V"], int(arrays["iterations"]))
        self.before = saved.iterations
        return saved

    def _checked(self, U: np.ndarray | None, V: np.ndarray, iterations: int) -> Saved:
        (n, m), rank, dtype = self.about["shape"], self.about["rank"], self.about["dtype"]
        if iterations < 0:
            raise ValueError(f"its number of iterations is {iterations}")
        if U is not None:
            U = np.asfortranarray(check_factor(U, "U", n, rank), dtype)
        return Saved(U, np.asfortranarray(check_factor(V, "V", m, rank), dtype), iterations)

    def save(self, U: Any, V: np.ndarray, iterations: int) -> None:
        home = home_of(U)
        if home is not None and home.gathers_cheaply:
            home, U = None, U.gather()
        of_U: dict[str, Any] = {} if home is not None else {"U": U}
        self.file.try_write(V=V, **of_U, iterations=np.int64(iterations))

    def watching(self, callback: Callable[[Progress], object] | None) -> Callable[[Progress], object]:
        """The callback of a run, which also saves the factors of the descent when due."""

        def keep(progress: Progress) -> object:
            if progress.row.phase == "descent" and time.perf_counter() >= self._next:
                began = time.perf_counter()
                self.save(progress.U, progress.V, self.before + progress.row.iteration)
                ended = time.perf_counter()
                self._next = ended + (ended - began) / SHARE
            return callback(progress) if callback is not None else None

        return keep
