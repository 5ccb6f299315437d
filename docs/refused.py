"""What cannot be combined, from `enmf.problem.refusals`:  python docs/refused.py  writes the table into structure.md.

A row is a thing that a word of `enmf.factorize` may not go with, a column a word, or several that are refused alike; a
letter stands for the reason, which is what the error message says. Methods that are refused alike share a row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from itertools import groupby
from pathlib import Path

import enmf
from enmf.api.registry import DESCENTS
from enmf.problem.refusals import REFUSED, THINGS
from enmf.problem.validation.structure import Known

PAGE = Path(__file__).with_name("structure.md")
FROM, TO = "<!-- made by docs/refused.py -->", "<!-- end -->"
OTHER = ("blocks", "batches", "missing", "other losses", "itakura-saito", "penalty", "checkpoint")
WORDS = [word.name for word in fields(Known) if word.name in {word for word, _ in REFUSED}]  # as in factorize


def reason(word: str, things: Iterable[str]) -> str:
    """Why the word does not go with the first of these things that it is refused with, in either order; or nothing."""
    pairs = ((one, two) for thing in sorted(things) for one, two in ((word, thing), (thing, word)))
    return next((REFUSED[pair] for pair in pairs if pair in REFUSED), "")


def rows() -> list[tuple[str, list[str]]]:
    """What each row is about, and the reason for every word."""
    every = [(THINGS[thing], [reason(word, [thing]) for word in WORDS]) for thing in OTHER]
    names = sorted(
        name for loss in ("frobenius", "kullback-leibler") for name in enmf.methods(loss) if name in DESCENTS
    )
    refused = {name: [reason(word, {*DESCENTS[name].needs, "another method"}) for word in WORDS] for name in names}
    alike = sorted(refused, key=lambda name: (refused[name], name))
    for whys, group in groupby(alike, key=refused.__getitem__):
        every.append((", ".join(f"`{name}`" for name in group), whys))
    return every + [(f"`{other}`", [reason(word, [other]) for word in WORDS]) for other in WORDS]


def table() -> str:
    """The table and its reasons, as Markdown."""
    every = rows()
    columns = list(zip(*(whys for _, whys in every)))
    merged: dict[tuple[str, ...], list[str]] = {}
    for word, column in zip(WORDS, columns):
        merged.setdefault(column, []).append(word)
    letters: dict[str, str] = {}
    lines = ["| | " + " | ".join(", ".join(f"`{word}`" for word in words) for words in merged.values()) + " |"]
    lines.append("|---" * (len(merged) + 1) + "|")
    for number, (what, _) in enumerate(every):
        whys = [column[number] for column in merged]
        if any(whys):
            cells = [letters.setdefault(why, chr(ord("a") + len(letters))) if why else "" for why in whys]
            lines.append(f"| {what} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", *(f"- **{letter}**: {why}" for why, letter in letters.items())])


def page() -> str:
    """The page with the table of today."""
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.split(FROM)[0], text.split(TO)[1]
    return f"{before}{FROM}\n\n{table()}\n\n{TO}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
