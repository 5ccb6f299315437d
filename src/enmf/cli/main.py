"""Runs the command line; `enmf` and `python -m enmf` come here."""

from __future__ import annotations

import io
import sys

from enmf.cli.commands import app
from enmf.cli.exits import listen


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a character the terminal lacks must not end the command
    listen()
    app()


if __name__ == "__main__":
    main()
