"""What the command line says: problems as one line each, and text that is safe to print on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

STDIN = "-"


class InputProblem(Exception):
    """A file or an option that cannot be used: what is wrong where, and what to do."""

    def __init__(self, source: str, problem: str, remedy: str) -> None:
        super().__init__(f"{spoken(source)}: {problem.rstrip('.')}. {remedy}")


def spoken(source: str) -> str:
    """A source of data in words."""
    return "standard input" if source == STDIN else source


def one_line(problem: BaseException) -> str:
    """The message of another library, without its line breaks."""
    return " ".join(str(problem).split())[:300].rstrip(".") or type(problem).__name__


def printable(text: str) -> str:
    """The text with control characters spelt out: names in files must not steer the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def outline(names: Sequence[str]) -> str:
    """The first and last of many names."""
    shown = [name if len(name) <= 24 else f"{name[:23]}…" for name in (*names[:3], names[-1])]
    return ", ".join(shown[: len(names)]) if len(names) <= 3 else f"{', '.join(shown[:3])}, ..., {shown[3]}"
