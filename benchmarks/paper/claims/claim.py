"""What a claim is, and the words its verdict is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from paper.published import Said, said
from paper.tidy import number
from paper.views import Rows

HOLDS, NOT, CANNOT = "holds", "does not hold", "cannot hold"
MOST = 8  # names in a list

Tables = dict[str, Rows]
Found = tuple[str, str]  # verdict, evidence
Judge = Callable[[Tables], Found]


@dataclass(frozen=True)
class Claim:
    """What the paper says, from which of our tables it is judged, and how."""

    said: Said
    tables: tuple[str, ...]
    judge: Judge


CLAIMS: list[Claim] = []


def claim(*tables: str) -> Callable[[Judge], Judge]:
    """Register the judge of the claim that has its name in figures.csv."""

    def register(judge: Judge) -> Judge:
        CLAIMS.append(Claim(said(judge.__name__), tables, judge))
        return judge

    return register


def judge(one: Claim, tables: Tables) -> Found:
    """The verdict, from rows that did not fail."""
    missing = [name for name in one.tables if not tables.get(name)]
    if missing:
        return "not run", f"There is no table of {', '.join(missing)}."
    good = {
        name: [row for row in rows if not row.get("status", "").startswith("failed")] for name, rows in tables.items()
    }
    try:
        return one.judge(good)
    except (ValueError, KeyError, IndexError, ZeroDivisionError) as trouble:
        return "not decided", f"The tables are incomplete: {type(trouble).__name__} {trouble}."


def place(row: dict[str, str]) -> str:
    return f"{row['data']} r = {row['rank']}"


def value(row: dict[str, str], name: str) -> float:
    return number(row[name])


def share(part: int, whole: int) -> str:
    return f"{part} of {whole}"


def span(values: Iterable[float], form: str = ".3g") -> str:
    """Smallest to largest."""
    some = list(values)
    return " to ".join(dict.fromkeys(f"{end:{form}}" for end in (min(some), max(some))))


def listed(names: list[str]) -> str:
    return ", ".join(names[:MOST]) + (f" and {len(names) - MOST} more" if len(names) > MOST else "") or "none"


def verdict(found: dict[str, bool], settings: str = "settings") -> str:
    """From the settings, and whether the claim holds there; the shorter list is printed."""
    if not found:
        raise ValueError("no setting has been run")
    held, failed = ([name for name, holds in found.items() if holds == wanted] for wanted in (True, False))
    if not failed:
        return HOLDS
    if not held:
        return NOT
    names = listed(held) if len(held) <= len(failed) else f"all but {listed(failed)}"
    return f"holds only in {share(len(held), len(found))} {settings}: {names}"


def by(rows: Rows, test: Callable[[dict[str, str]], bool], name: Callable[[dict[str, str]], str] = place) -> str:
    """The verdict over rows that are settings."""
    return verdict({name(row): test(row) for row in rows})


def markdown(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    """Lines of a table."""
    names = list(heads)
    body = [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows]
    return [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}", *body]
