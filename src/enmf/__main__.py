"""The command `enmf`. Ctrl-C while it is still starting ends it without a word."""

from __future__ import annotations


def main() -> None:
    try:
        from enmf.cli.commands import main as run

        run()
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
