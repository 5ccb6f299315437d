"""Random calls of the public interface: the first seeds of `make fuzz`, which runs thousands of them."""

import pytest

import fuzz

CASES, CHUNK = 600, 30


@pytest.mark.parametrize("first", range(0, CASES, CHUNK))
def test_random_calls_are_answered_rightly_or_refused(first):
    faults = []
    for seed in range(first, first + CHUNK):
        case = fuzz.draw(seed)
        outcome = fuzz.judge(case)
        if outcome.fault:
            faults.append("\n".join([str(case), outcome.word, *outcome.details]))
    assert not faults, "\n\n".join([f"replay with python -m tests.fuzz --seed N; {len(faults)} faults", *faults])
