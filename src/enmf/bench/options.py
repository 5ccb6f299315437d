"""Typer commands whose options are the fields of a dataclass, and options that several values may follow."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Any, get_type_hints

from typer.core import TyperCommand


def taking(options: type, run: Callable[[Any], None]) -> Callable[..., None]:
    """A command with one option per field of the dataclass; it calls `run` with an instance."""

    def command(**given: Any) -> None:
        run(options(**given))

    command.__doc__ = options.__doc__
    command.__annotations__ = get_type_hints(options, include_extras=True)
    command.__signature__ = inspect.signature(options, eval_str=True)  # type: ignore[attr-defined]
    return command


class SeveralValues(TyperCommand):
    """Takes `--data a b` as `--data a --data b`, for every option that may be repeated."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        repeatable = {name for one in self.params if getattr(one, "multiple", False) for name in one.opts}
        return super().parse_args(ctx, repeated(args, repeatable))


def repeated(arguments: list[str], options: Collection[str]) -> list[str]:
    """The arguments with each of these options written before each of its values."""
    found: list[str] = []
    current = ""
    for word in arguments:
        if word.startswith("--"):
            current = word.split("=")[0]
        elif current in options and found[-1] != current:
            found.append(current)
        found.append(word)
    return found
