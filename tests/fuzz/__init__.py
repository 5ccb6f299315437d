"""Random calls of the public interface, each judged by an oracle in plain NumPy that shares no code with the package.

A seed is a case: a matrix (`matrices`), a call (`calls`), and what must hold for its answer (`oracle`). Some hundreds
are in the suite (tests/test_fuzz.py); `make fuzz` runs thousands in processes of their own, so that a crash or a hang
is counted too. One case, with its call printed:

    python -m tests.fuzz --seed 17
"""

from .cases import Case, Outcome, draw, judge

__all__ = ["Case", "Outcome", "draw", "judge"]
