"""Messages: problems as one line each, and text that is safe to print on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

STDIN = "-"


class InputProblem(Exception):
    """A file or an option that cannot be used: where, why, and what to do about it."""

    def __init__(self, source: str, problem: str, remedy: str) -> None:
        super().__init__(f"{spoken(source)}: {problem.rstrip('.')}. {remedy}")


def spoken(source: str) -> str:
    """A data source as a message names it."""
    return "standard input" if source == STDIN else source


def one_line(problem: object) -> str:
    """The message of an exception of another library, without line breaks."""
    return " ".join(str(problem).split())[:300].rstrip(".") or type(problem).__name__


def printable(text: str) -> str:
    """The text with control characters escaped: names in files must not control the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def outline(names: Sequence[str]) -> str:
    """A list of names; the first three and the last of many."""
    shown = [name if len(name) <= 24 else f"{name[:23]}…" for name in (*names[:3], names[-1])]
    return ", ".join(shown[: len(names)]) if len(names) <= 3 else f"{', '.join(shown[:3])}, ..., {shown[3]}"


def say(text: object, file: TextIO | None = None) -> None:
    """Print text that may contain names from a file."""
    print(printable(str(text)), file=file, flush=True)
