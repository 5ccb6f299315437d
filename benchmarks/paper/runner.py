"""Run reproductions: rows that are there already are not made again, and a failing case is a row, not a crash."""

from __future__ import annotations

import datetime
import platform
import time
import warnings
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path

import pandas as pd

from enmf import parallel
from paper import tidy
from paper.case import Reproduction, Row
from paper.tidy import Rows

FOLDER = Path("benchmarks") / "paper"


def run(
    chosen: list[Reproduction],
    size: str,
    folder: Path = FOLDER,
    *,
    threads: int | None = None,
    seconds: float = float("inf"),
    again: bool = False,
    say: Callable[[str], None] = print,
) -> bool:
    """Make what is missing in folder/size/<name>.csv; False where the time was up before the end."""
    end = time.perf_counter() + seconds
    with parallel.limit(threads) as used:
        for one in chosen:
            if size not in one.sizes:
                continue
            path, about = folder / size / f"{one.name}.csv", folder / size / "about.csv"
            table = pd.DataFrame() if again else tidy.read(path)
            if again and about.exists():
                tidy.write(tidy.replace(tidy.read(about), {"name": one.name}, []), about)
            for case in one.cases(**one.sizes[size]):
                if tidy.has(table, case.key):
                    continue
                if time.perf_counter() > end:
                    return False
                began = time.perf_counter()
                table = tidy.replace(table, case.key, _rows(case.run))
                tidy.write(table, path)
                spent = time.perf_counter() - began
                say(f"{one.name}: {', '.join(f'{k} {v}' for k, v in case.key.items())}  ({spent:.1f} s)")
                command = f"python benchmarks/reproduce.py {one.name} --size {size} --threads {used}"
                _note(about, one.name, case.key, spent, {"machine": _machine(used), "command": command})
    return True


def _rows(make: Callable[[], Row | Iterable[Row]]) -> list[Row]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = make()
            return [found] if isinstance(found, dict) else list(found)
    except Exception as problem:
        return [{"status": f"failed: {type(problem).__name__}: {' '.join(str(problem).split())}"[:200]}]


def _machine(threads: int) -> str:
    return f"{platform.machine()}, {threads} thread{'s' if threads > 1 else ''}"


def _spent(about: Rows, name: str) -> Row:
    """What the cases of a reproduction have taken so far."""
    found = tidy.each(tidy.pick(about, name=name))
    return found[0] if found else {"cases": 0, "seconds": 0.0, "longest": "", "longest_seconds": 0.0}


def _note(path: Path, name: str, key: Row, spent: float, made: Row) -> None:
    about = tidy.read(path)  # as it is now: another run may write to it as well
    before = _spent(about, name)
    longest = before["longest_seconds"]
    row = {
        "cases": before["cases"] + 1,
        "seconds": round(before["seconds"] + spent, 1),
        "longest": before["longest"] if longest > spent else " ".join(str(value) for value in key.values()),
        "longest_seconds": round(max(longest, spent), 1),
        "date": str(datetime.date.today()),
        "versions": versions(),
        **made,
    }
    tidy.write(tidy.replace(about, {"name": name}, [row]), path)


def overview(chosen: list[Reproduction], size: str, folder: Path = FOLDER) -> list[Row]:
    """What each reproduction shows, how many of its cases are there, and what they took."""
    about = tidy.read(folder / size / "about.csv")
    lines = []
    for one in chosen:
        if size not in one.sizes:
            continue
        table = tidy.read(folder / size / f"{one.name}.csv")
        cases = [case.key for case in one.cases(**one.sizes[size])]
        took = _spent(about, one.name)
        lines.append(
            {
                "name": one.name,
                "shows": ", ".join(one.shows),
                "done": sum(tidy.has(table, key) for key in cases),
                "cases": len(cases),
                "seconds": took["seconds"],
                "longest": f"{took['longest']} ({took['longest_seconds']:g} s)" if took["longest"] else "",
            }
        )
    return lines


def versions() -> str:
    names = ("numpy", "scipy", "scikit-learn", "enmf")
    return ", ".join([f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in names)])


def read(folder: Path, size: str) -> dict[str, Rows]:
    """All tables of a size, by name."""
    return {path.stem: tidy.read(path) for path in sorted((folder / size).glob("*.csv"))}
