"""Results in files: npz for programs (`enmf.run.saved`), tables and JSON for everything else."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from enmf.certificate.certificate import Certificate
from enmf.certificate.components import Component
from enmf.certificate.uniqueness import Uniqueness
from enmf.files import whole_file
from enmf.io.messages import InputProblem, one_line
from enmf.io.tables import check_exists, install
from enmf.run.result import Result
from enmf.run.saved import SavedFile, Unusable
from enmf.run.trace import Phase, Trace, TraceRow

Names = list[str] | None
REMEDY = "Write the file again with `enmf factorize`, or save U and V (or W and H) with numpy.savez"


def save_result(path: str, result: Result, rows: Names, columns: Names) -> None:
    """Factors, names (of the file, or of the frame that was factorized) and everything known about them."""
    rows, columns = rows or result.row_names, columns or result.feature_names
    about = {
        "status": result.status,
        "n_iter": result.n_iter,
        "certificate": result.certificate.to_dict(),
        "phases": {name: asdict(phase) for name, phase in result.phases.items()},
        "trace": [list(row) for row in result.trace],
        "settings": result.settings,
    }
    names = {key: np.array(held) for key, held in (("row_names", rows), ("column_names", columns)) if held}
    with explained(path):
        SavedFile(Path(path), "result").write(_plain(about), U=result.U, V=result.V, **names)


def load_result(source: str) -> tuple[Result | tuple[np.ndarray, np.ndarray], Names, Names]:
    """What `save_result` wrote; a plain pair (U, V) for the npz files of others (U and V, or W and H)."""
    check_exists(source)
    try:
        with SavedFile(Path(source), "result", remedy=REMEDY).reading(plain=True) as (about, arrays):
            U, V = _factors(arrays)
            rows, columns = (arrays[key].tolist() if key in arrays else None for key in ("row_names", "column_names"))
            found = _result(U, V, rows, columns, about) if about is not None else (U, V)
    except Unusable as problem:
        raise InputProblem(source, f"cannot be used: {one_line(problem.why)}", problem.remedy) from None
    return found, rows, columns


def _factors(arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    if {"U", "V"} <= arrays.keys():
        return arrays["U"], arrays["V"]
    if {"W", "H"} <= arrays.keys():
        return arrays["W"], arrays["H"].T
    raise ValueError(f"it holds no factors (found: {', '.join(arrays) or 'nothing'})")


def _result(U: np.ndarray, V: np.ndarray, rows: Names, columns: Names, about: dict[str, Any]) -> Result:
    c = about["certificate"]
    c = {key: math.inf if value is None and key in ("ratio", "kkt") else value for key, value in c.items()}
    parts = tuple(Component(**part) for part in c.pop("components"))
    c |= {key: math.nan for key in ("loss", "explained") if c.get(key, 0.0) is None}
    gaps = c.pop("block_gap", None)
    unique = c.pop("uniqueness")
    dead = tuple(c.pop("dead_components"))
    certificate = Certificate(
        **c,
        components=parts,
        dead_components=dead,
        uniqueness=Uniqueness(**unique) if unique else None,
        block_gap=None if gaps is None else tuple(math.nan if gap is None else gap for gap in gaps),  # type: ignore[arg-type]
    )
    trace = Trace(TraceRow._make(math.nan if value is None else value for value in row) for row in about["trace"])
    phases = {name: Phase(**phase) for name, phase in about["phases"].items()}
    return Result(
        *(U, V, about["status"], about["n_iter"], certificate, trace, phases),
        settings=about.get("settings", {}),
        row_names=rows,
        feature_names=columns,
    )


def save_labelled(paths: Sequence[str], result: Result, rows: Names, columns: Names) -> None:
    """U and V as tables with names, csv or parquet by the ending of the two paths."""
    for path, F, names, side in zip(paths, (result.U, result.V), (rows, columns), ("row", "column")):
        save_table(path, F, names, side)


def save_table(path: str, F: np.ndarray, names: Names, side: str) -> None:
    """A factor as a table with names, csv or parquet by the ending of the path."""
    import pandas

    index = pandas.Index(names if names else range(1, len(F) + 1), name=side)
    frame = pandas.DataFrame(F, index=index, columns=[f"component {j + 1}" for j in range(F.shape[1])])
    save(path, frame.to_csv if path.endswith(".csv") else frame.to_parquet)


def save_json(path: str, content: Any) -> None:
    save(path, lambda place: Path(place).write_text(to_json(content) + "\n", encoding="utf-8"))


def to_json(content: Any) -> str:
    """JSON with null for numbers that are not finite."""
    return json.dumps(_plain(content), indent=1)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(held) for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(held) for held in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def save(path: str, write: Callable[[str], object]) -> None:
    """Let `write` produce the file, as a whole or not at all."""
    with explained(path), whole_file(path) as place:
        write(place)


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Says in one line why a file cannot be written."""
    try:
        yield
    except ImportError:
        raise InputProblem(path, "the package that writes it is not installed", install(path)) from None
    except OSError as problem:
        raise InputProblem(
            path, f"cannot be written ({problem.strerror or problem})", "Free some space, or choose another place"
        ) from None
