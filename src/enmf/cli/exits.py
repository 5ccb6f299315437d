"""How a command ends: exit codes, problems as one line, Ctrl-C and SIGTERM.

0 done; 2 bad input, with one line that names the file, the place and the remedy; 3 not converged; 130 interrupted; 143
terminated. With the last three, the factors reached so far have been written.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import Any

import typer
from typer.core import TyperGroup

from enmf.io.messages import InputProblem, say

BAD_INPUT, NOT_CONVERGED, INTERRUPTED, TERMINATED = 2, 3, 130, 143
_terminated = False


class Guarded(TyperGroup):
    """The one place where problems become a line and an exit code; ENMF_TRACEBACK=1 shows the traceback instead."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            print("enmf: interrupted", file=sys.stderr)
            raise typer.Exit(interrupted()) from None
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader, such as head, has closed it
            raise typer.Exit(0) from None
        except (InputProblem, ValueError, TypeError, OSError, MemoryError, ImportError) as problem:
            if os.environ.get("ENMF_TRACEBACK"):
                raise
            say(f"enmf: {' '.join(str(problem).split()) or type(problem).__name__}", sys.stderr)
            raise typer.Exit(BAD_INPUT) from None


def listen() -> None:
    """SIGTERM, which batch systems send, ends a run like Ctrl-C; before the run begins, both end the process."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and hasattr(signal, "pthread_sigmask"):
        # in the background of a shell Ctrl-C must have no effect, yet SIGTERM needs a handler to call
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    signal.signal(signal.SIGINT, _leave)
    signal.signal(signal.SIGTERM, _terminate)


def run_begins() -> None:
    """From now on an interrupt is an exception, and the run returns the factors it has reached."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def interrupted() -> int:
    """The exit code after an interrupt."""
    return TERMINATED if _terminated else INTERRUPTED


def _leave(number: int, frame: FrameType | None) -> None:
    """While modules are imported and data are read: an exception could get lost there, and no work is lost."""
    os.write(2, b"enmf: interrupted\n")
    os._exit(interrupted())


def _terminate(number: int, frame: FrameType | None) -> None:
    global _terminated
    _terminated = True
    handler = signal.getsignal(signal.SIGINT)
    assert callable(handler)
    handler(number, frame)
