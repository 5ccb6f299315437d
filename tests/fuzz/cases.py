"""A case is a seed: a matrix, a call, and the outcome of the call."""

from __future__ import annotations

import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import enmf

from . import calls, matrices, oracle

PACKAGE = Path(enmf.__file__).parent
STREAM = 19  # so that the seeds of cases are not those inside the calls

RIGHT, REFUSED, WRONG, INTERNAL, CRASH, HANG = "right", "refused", "WRONG", "internal error", "crash", "hang"
BEYOND = "all components would be zero"  # a penalty that outweighs X by many orders of magnitude may be refused
OUTCOMES = (RIGHT, REFUSED, WRONG, INTERNAL, CRASH, HANG)
FAULTS = (WRONG, INTERNAL, CRASH, HANG)


@dataclass(frozen=True)
class Case:
    seed: int
    sample: matrices.Sample
    call: calls.Call

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.call.text}"


@dataclass(frozen=True)
class Outcome:
    """A word of OUTCOMES, and what there is to say about it."""

    word: str
    details: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """One line: the last one, which is that of the error where the details are a traceback."""
        return self.details[0].strip().splitlines()[-1] if self.details else ""

    @property
    def fault(self) -> bool:
        return self.word in FAULTS


def draw(seed: int) -> Case:
    rng = np.random.default_rng([seed, STREAM])
    sample = matrices.draw(rng)
    return Case(seed, sample, calls.draw(rng, sample))


def judge(case: Case) -> Outcome:
    """Make the call, and judge it."""
    before = [oracle.fingerprint(value) for value in case.call.owned]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome = _outcome(case.call)
    complaints = list(outcome.details) if outcome.word == WRONG else []
    if [oracle.fingerprint(value) for value in case.call.owned] != before:
        complaints.append("what the caller owns has changed")
    if case.sample.kind == matrices.ORDINARY:
        complaints += sorted({f"RuntimeWarning: {w.message}" for w in caught if issubclass(w.category, RuntimeWarning)})
    return Outcome(WRONG, tuple(complaints)) if complaints and outcome.word != INTERNAL else outcome


def _outcome(call: calls.Call) -> Outcome:
    try:
        complaints = call.run()
    except (ValueError, TypeError) as refusal:
        return _refusal(refusal, call.expected)
    except Exception:
        return Outcome(INTERNAL, (traceback.format_exc(),))
    if call.expected == calls.REFUSED:
        complaints = ["invalid input was accepted"]
    return Outcome(WRONG, tuple(complaints)) if complaints else Outcome(RIGHT)


def _refusal(refusal: Exception, expected: str) -> Outcome:
    """Errors that the package raises itself are refusals; those of libraries below it (or of this oracle) are not."""
    raised_in = Path(traceback.extract_tb(refusal.__traceback__)[-1].filename)
    if not raised_in.is_relative_to(PACKAGE) or not str(refusal):
        return Outcome(INTERNAL, ("".join(traceback.format_exception(refusal)),))
    if expected == calls.RIGHT and BEYOND not in str(refusal):
        return Outcome(WRONG, (f"a valid call was refused: {refusal}",))
    return Outcome(REFUSED, (str(refusal),))
