"""What a reproduction is: settings for each size, and cases that each make some rows of a tidy table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

Row = dict[str, Any]


class Case(NamedTuple):
    """Rows that are made together. `key` is in each of them, and tells whether they have been made already."""

    key: Row
    run: Callable[[], Row | Iterable[Row]]


@dataclass(frozen=True)
class Reproduction:
    """One thought of the paper.

    Attributes
    ----------
    name : str
    shows : tuple of str
        The paper's tables and figures, as names of the command too.
    title, text : str
        What is compared, and in what we differ from the paper.
    sizes : dict
        Arguments of `cases` for "tiny" (tests; not all have it), "small" (committed) and "paper".
    cases : callable
    """

    name: str
    shows: tuple[str, ...]
    title: str
    text: str
    sizes: dict[str, dict[str, Any]]
    cases: Callable[..., Iterator[Case]]


REPRODUCTIONS: dict[str, Reproduction] = {}


def reproduces(
    name: str, shows: tuple[str, ...], title: str, **sizes: dict[str, Any]
) -> Callable[[Callable[..., Iterator[Case]]], Callable[..., Iterator[Case]]]:
    """Register a function that makes cases; its docstring is the text of the page."""

    def register(cases: Callable[..., Iterator[Case]]) -> Callable[..., Iterator[Case]]:
        text = " ".join((cases.__doc__ or "").split())
        REPRODUCTIONS[name] = Reproduction(name, shows, title, text, sizes, cases)
        return cases

    return register


def find(name: str) -> list[Reproduction]:
    """The reproductions behind a name of ours or of the paper; "all" are all of them."""
    if name == "all":
        return list(REPRODUCTIONS.values())
    plain = name.lower().replace(" ", "").replace("-", "")
    found = [
        one
        for one in REPRODUCTIONS.values()
        if plain in (other.lower().replace(" ", "").replace("-", "") for other in (one.name, *one.shows))
    ]
    if not found:
        known = ", ".join(f"{one.name} ({', '.join(one.shows)})" for one in REPRODUCTIONS.values())
        raise ValueError(f"{name!r} is not known; there are all, {known}")
    return found
