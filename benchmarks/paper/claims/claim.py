"""What a claim is, and the words its verdict is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from paper.case import Row
from paper.published import Said, said
from paper.tidy import Rows, each, failed

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
    missing = [name for name in one.tables if name not in tables or tables[name].empty]
    if missing:
        return "not run", f"There is no table of {', '.join(missing)}."
    good = {name: rows[~failed(rows)] for name, rows in tables.items()}
    try:
        return one.judge(good)
    except (ValueError, KeyError, IndexError, ZeroDivisionError) as trouble:
        return "not decided", f"The tables are incomplete: {type(trouble).__name__} {trouble}."


def least(rows: Rows, name: str) -> Row:
    """The row with the smallest value."""
    return each(rows.loc[[rows[name].idxmin()]])[0]


def most(rows: Rows, name: str) -> Row:
    """The row with the largest value."""
    return each(rows.loc[[rows[name].idxmax()]])[0]


def place(row: Row) -> str:
    return f"{row['data']} r = {row['rank']}"


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


def by(rows: Rows, test: Callable[[Row], bool], name: Callable[[Row], str] = place) -> str:
    """The verdict over rows that are settings."""
    return verdict({name(row): test(row) for row in each(rows)})


def markdown(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    """Lines of a table."""
    names = list(heads)
    body = [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows]
    return [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}", *body]
