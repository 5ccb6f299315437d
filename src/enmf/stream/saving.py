"""The memory of a stream in an npz file, without pickle: numbers as arrays, the rest as JSON."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from enmf.matrix.stack import from_arrays, to_arrays
from enmf.run.saved import SavedFile
from enmf.stream.memory import Memory
from enmf.stream.reservoir import Reservoir
from enmf.stream.sketch import Sketch
from enmf.stream.sums import Sums

PARTS: dict[str, Any] = {"sketch": Sketch, "directions": Sketch, "reservoir": Reservoir, "codes": Sums, "fresh": Sums}
REMEDY = "Choose a file that Stream.save has written"


def save(path: Any, memory: Memory | None, options: dict[str, Any]) -> None:
    """Write a stream; `options` are those of its constructor."""
    arrays: dict[str, np.ndarray] = {}
    plain: dict[str, Any] = {}
    if memory is not None:
        _sort(memory, "", arrays, plain)
        for name in PARTS:
            _sort(getattr(memory, name), f"{name}.", arrays, plain)
        plain["weights"] = [root for _, root in memory.waiting]
        for number, (X, _) in enumerate(memory.waiting):
            arrays.update({f"waiting.{number}.{key}": array for key, array in to_arrays(X).items()})
    SavedFile(Path(path), "stream").write({"options": options, "state": plain}, **arrays)


def _sort(part: Any, prefix: str, arrays: dict[str, np.ndarray], plain: dict[str, Any]) -> None:
    for field in fields(part):
        value = getattr(part, field.name)
        if isinstance(value, np.ndarray):
            arrays[prefix + field.name] = value
        elif isinstance(value, (bool, int, float)):
            plain[prefix + field.name] = value if isinstance(value, (bool, int)) else float(value).hex()


def load(path: Any) -> tuple[Memory | None, dict[str, Any]]:
    """What `save` has written."""
    with SavedFile(Path(path), "stream", remedy=REMEDY).reading() as (about, arrays):
        assert about is not None
        plain = about["state"]
        if not plain:
            return None, about["options"]
        parts = {name: kind(**_of(name + ".", kind, arrays, plain)) for name, kind in PARTS.items()}
        waiting = []
        for number, root in enumerate(plain["weights"]):
            prefix = f"waiting.{number}."
            held = {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}
            waiting.append((from_arrays(held), root))
        return Memory(**parts, **_of("", Memory, arrays, plain), waiting=tuple(waiting)), about["options"]


def _of(prefix: str, kind: Any, arrays: dict[str, np.ndarray], plain: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in fields(kind):
        name = prefix + field.name
        if name in arrays:
            found[field.name] = arrays[name]
        elif name in plain:
            value = plain[name]
            found[field.name] = float.fromhex(value) if isinstance(value, str) else value
    return found
