"""A folder from which a run goes on after its process has ended, however that came about.

One file, `factors.npz`, holds the factors of the last saved iteration and what they belong to. It is written beside
itself and then put in place by one rename, so that there is a whole file at any time. A run that finds one starts its
descent there; the iterations done before count. Saving takes a twentieth of the time at most.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from enmf.matrix import RowBlocks
from enmf.stopping import Progress

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


class Checkpoint:
    """The checkpoint folder of one problem; `about` must be equal for a run to go on from what another one saved."""

    def __init__(self, folder: str | os.PathLike[str], about: dict[str, Any]) -> None:
        self.folder, self.about = Path(folder), about
        self.folder.mkdir(parents=True, exist_ok=True)
        self.before = 0  # iterations of earlier runs
        self._next = 0.0

    def load(self) -> Saved | None:
        """What an earlier run of the same problem left, or None; a file of another problem is an error."""
        path = self.folder / FILE
        if not path.exists():
            return None
        with np.load(path) as content:
            found = json.loads(str(content["about"]))
            U, V, iterations = content.get("U"), content["V"], int(content["iterations"])
        for key, value in self.about.items():
            theirs = found.get(key)
            close = isinstance(value, float) and isinstance(theirs, float) and abs(value - theirs) <= 1e-6 * abs(value)
            if not close and theirs != value:
                raise ValueError(
                    f"the checkpoint in {str(self.folder)!r} belongs to another run: its {key} is {theirs!r}, here it "
                    f"is {value!r}. Choose another folder, or delete {FILE} there"
                )
        self.before = iterations
        return Saved(None if U is None else np.asfortranarray(U), np.asfortranarray(V), iterations)

    def save(self, U: np.ndarray, V: np.ndarray, iterations: int) -> None:
        if isinstance(U, RowBlocks) and U.home.engine.client is None:
            U = U.gather()
        of_U: dict[str, Any] = {} if isinstance(U, RowBlocks) else {"U": U}
        part = self.folder / f"{FILE}.{os.getpid()}.part"
        with open(part, "wb") as file:
            np.savez(file, V=V, **of_U, iterations=np.int64(iterations), about=np.array(json.dumps(self.about)))
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, self.folder / FILE)

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
