"""Run reproductions: rows that are there already are not made again, and a failing case is a row, not a crash."""

from __future__ import annotations

import csv
import datetime
import platform
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path

import numba
import numpy
import scipy
import sklearn

import enmf
from enmf import parallel
from paper.case import Reproduction, Row
from paper.tidy import Tidy

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
            table = Tidy(folder / size / f"{one.name}.csv")
            about = folder / size / "about.csv"
            if again:
                table.rows = []
                Tidy(about).replace({"name": one.name}, [])
            for case in one.cases(**one.sizes[size]):
                if table.has(case.key):
                    continue
                if time.perf_counter() > end:
                    return False
                began = time.perf_counter()
                table.replace(case.key, _rows(case.run))
                spent = time.perf_counter() - began
                say(f"{one.name}: {', '.join(f'{k} {v}' for k, v in case.key.items())}  ({spent:.1f} s)")
                _note(about, one.name, size, case.key, spent, used)
    return True


def _rows(make: Callable[[], Row | Iterable[Row]]) -> list[Row]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = make()
            return [found] if isinstance(found, dict) else list(found)
    except Exception as problem:
        return [{"status": f"failed: {type(problem).__name__}: {' '.join(str(problem).split())}"[:200]}]


def _note(path: Path, name: str, size: str, key: Row, spent: float, threads: int) -> None:
    about = Tidy(path)  # as it is now: another run may write to it as well
    before = (about.of(name=name) or [{}])[0]
    longest = float(before.get("longest_seconds") or 0.0)
    row = {
        "cases": int(before.get("cases") or 0) + 1,
        "seconds": round(float(before.get("seconds") or 0.0) + spent, 1),
        "longest": before["longest"] if longest > spent else " ".join(str(value) for value in key.values()),
        "longest_seconds": round(max(longest, spent), 1),
        "date": str(datetime.date.today()),
        "machine": f"{platform.machine()}, {threads} thread{'s' if threads > 1 else ''}",
        "versions": versions(),
        "command": f"python benchmarks/reproduce.py {name} --size {size} --threads {threads}",
    }
    about.replace({"name": name}, [row])


def overview(chosen: list[Reproduction], size: str, folder: Path = FOLDER) -> list[Row]:
    """What each reproduction shows, how many of its cases are there, and what they took."""
    about = Tidy(folder / size / "about.csv")
    lines = []
    for one in chosen:
        if size not in one.sizes:
            continue
        table = Tidy(folder / size / f"{one.name}.csv")
        cases = [case.key for case in one.cases(**one.sizes[size])]
        took = (about.of(name=one.name) or [{}])[0]
        lines.append(
            {
                "name": one.name,
                "shows": ", ".join(one.shows),
                "done": sum(table.has(key) for key in cases),
                "cases": len(cases),
                "seconds": float(took.get("seconds") or 0.0),
                "longest": f"{took.get('longest', '')} ({took['longest_seconds']} s)" if took.get("longest") else "",
            }
        )
    return lines


def versions() -> str:
    return (
        f"Python {platform.python_version()}, numpy {numpy.__version__}, scipy {scipy.__version__}, "
        f"scikit-learn {sklearn.__version__}, numba {numba.__version__}, enmf {enmf.__version__}"
    )


def read(folder: Path, size: str) -> dict[str, list[dict[str, str]]]:
    """All tables of a size, by name."""
    found = {}
    for path in sorted((folder / size).glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            found[path.stem] = list(csv.DictReader(file))
    return found
