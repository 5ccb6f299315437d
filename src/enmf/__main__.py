"""The command `enmf`. Ctrl-C while it is still starting ends it without a word."""

from __future__ import annotations

import sys


def main() -> None:
    try:
        from enmf.cli import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
