"""The one format of saved state: checkpoints of runs, checkpoints of rank sweeps, and results.

A file is an npz archive of plain arrays (no pickles). One of them, `about`, is a JSON object with

kind      "run", "sweep" or "result"
version   of the format; a reader refuses versions newer than its own
...       the problem it belongs to, which must match before a checkpoint is used, and what is known about the content

Files written before the format had versions have neither `kind` nor `version`; everything else is the same, so they are
still read. A file is written under a temporary name next to its place and then renamed, so it is complete at any time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from enmf.files import whole_file
from enmf.problem.validation.numbers import warn_outside

VERSION = 1
KINDS = {
    "run": "the checkpoint of a run",
    "sweep": "the checkpoint of a rank sweep",
    "result": "a result",
    "stream": "a stream",
}
TELLING = {"run": "method", "sweep": "folds", "result": "certificate"}  # key unique to a kind, for files without `kind`
CLOSE = 1e-6  # relative difference of two floats that describe the same problem

Content = tuple[dict[str, Any] | None, dict[str, np.ndarray]]  # `about` and the other arrays


class Unusable(ValueError):
    """A saved file that is refused: the reason, and what to do about it."""

    def __init__(self, why: str, remedy: str, path: Path | None = None) -> None:
        super().__init__(why if path is None else f"the checkpoint {str(path)!r} cannot be used: {why}. {remedy}")
        self.why, self.remedy = why, remedy


@dataclass
class SavedFile:
    """A file of one kind, which must belong to the problem at hand."""

    path: Path
    kind: str
    belongs_to: dict[str, Any] = field(default_factory=dict)
    remedy: str = "Delete it, or choose another place"
    _warned: bool = False

    @contextmanager
    def reading(self, plain: bool = False) -> Iterator[Content]:
        """The content; anything that goes wrong in the body is `Unusable`.

        `plain`: also accept archives of other programs, which have no `about` (it is then None).
        """
        try:
            arrays = _load(self.path)
            about = None if plain and "about" not in arrays else self._checked(json.loads(str(arrays.pop("about"))))
            yield about, arrays
        except PermissionError:
            raise
        except Exception as problem:
            why = f"it has no {problem}" if isinstance(problem, KeyError) else str(problem)
            raise Unusable(why, getattr(problem, "remedy", self.remedy), self.path) from None

    def _checked(self, about: Any) -> dict[str, Any]:
        """`about`, if its kind and problem are these and its version can be read."""
        if not isinstance(about, dict):
            raise ValueError("its 'about' is not a JSON object")
        version, kind = about.get("version", 0), about.get("kind") or _old_kind(about) or self.kind
        if not isinstance(version, int):
            raise ValueError(f"its format version is {version!r}, not a number")
        if version > VERSION:
            why = f"it was written by a newer enmf (format version {version}, this one reads up to {VERSION})"
            raise Unusable(why, "Update enmf, or choose another file")
        if kind != self.kind:
            theirs = KINDS.get(str(kind), f"of kind {kind!r}")
            raise Unusable(f"it is {theirs}, not {KINDS[self.kind]}", "Choose another file")
        for key, value in self.belongs_to.items():
            if not _same(about.get(key), value):
                raise ValueError(f"it belongs to another {self.kind}: its {key} is {about.get(key)!r}, not {value!r}")
        return about

    def write(self, about: dict[str, Any] | None = None, **arrays: Any) -> None:
        """Replace the whole file."""
        said = {"kind": self.kind, "version": VERSION, **self.belongs_to, **(about or {})}
        with whole_file(self.path) as place, open(place, "wb") as file:  # given a name, numpy would add a suffix
            np.savez(file, about=np.array(json.dumps(said)), **arrays)

    def try_write(self, **arrays: Any) -> None:
        """Replace the file, or leave it as it was: a run must not fail because it cannot save. Warns once."""
        try:
            self.write(**arrays)
        except OSError as problem:
            if not self._warned:
                self._warned = True
                kept = "; the last saved state is kept" if self.path.exists() else ""
                reason = problem.strerror or problem
                warn_outside(f"the checkpoint {str(self.path)!r} cannot be written: {reason}. The run continues{kept}")


def check_factor(F: np.ndarray, name: str, rows: int | None, rank: int) -> np.ndarray:
    """A factor as a run would have saved it."""
    if F.dtype.kind != "f" or F.ndim != 2 or F.shape[1] != rank or rows not in (None, F.shape[0]):
        wanted = f"({'any' if rows is None else rows}, {rank})"
        raise ValueError(f"its {name} must be numbers of shape {wanted}, got {F.dtype} of shape {F.shape}")
    with np.errstate(over="ignore"):
        usable = F.size == 0 or (F.min() >= 0 and np.isfinite(np.square(F, dtype=F.dtype).sum()))  # False with NaN
    if not usable:
        raise ValueError(f"its {name} has entries that are negative, NaN or too large")
    return F


def _load(path: Path) -> dict[str, np.ndarray]:
    with open(path, "rb") as file:
        if file.read(2) != b"PK":
            raise ValueError("it is not an npz archive")
        file.seek(0)
        try:
            return dict(np.load(file, allow_pickle=False))
        except Exception as problem:  # damaged zip files raise many kinds of errors
            raise ValueError(f"it is damaged or truncated ({str(problem).rstrip('.')})") from None


def _old_kind(about: dict[str, Any]) -> str | None:
    return next((kind for kind, key in TELLING.items() if key in about), None)


def _same(theirs: Any, value: Any) -> bool:
    if isinstance(value, float) and isinstance(theirs, float):
        return abs(value - theirs) <= CLOSE * abs(value)
    return bool(theirs == value)
