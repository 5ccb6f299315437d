"""How far a call is from its kernel: what stands between them has to be read by whoever follows a call, and each step
of a descent on a small X pays for it."""

import threading
import traceback
from pathlib import Path

import numpy as np
import pytest

import enmf
from enmf.kernels import onepass, sweep
from problems import dense

PACKAGE = str(Path(enmf.__file__).parent)
FRAMES_AT_MOST = 8  # the call and the kernel included
RANK = 5
SHAPES = {"tall": (400, 30), "squarish": (60, 50)}


def stacks_above(kernel, module, call, monkeypatch):
    """Frames of the package, in a descent on X, from the call down to `module.kernel`, which counts as the last one."""
    real, found, here = getattr(module, kernel), [], threading.get_ident()

    def recording(*arguments):
        if threading.get_ident() == here:
            frames = traceback.extract_stack()
            ours = [f for f in frames if f.filename.startswith(PACKAGE)] + frames[-1:]
            if any(f.name == "descend" for f in ours):
                found.append(traceback.StackSummary.from_list(ours))
        return real(*arguments)

    monkeypatch.setattr(module, kernel, recording)
    call()
    assert found, f"no descent on X has reached {module.__name__}.{kernel}: this test looks at the wrong kernel"
    return found


def check(stacks):
    deepest = max(stacks, key=len)
    words = "".join(deepest.format())
    assert deepest[0].name == "factorize", words
    assert len(deepest) <= FRAMES_AT_MOST, f"{len(deepest)} frames from the call to the kernel\n{words}"


@pytest.fixture
def factorizing():
    def prepare(shape, method):
        X = dense(*SHAPES[shape])
        watch = lambda progress: None  # noqa: E731  a run that is watched goes step by step
        return lambda: enmf.factorize(X, RANK, *method, max_iter=12, tol=0, random_state=0, callback=watch)

    return prepare


@pytest.mark.parametrize("method", [("e-hals",), ()], ids=["e-hals", "default"])
def test_few_frames_lie_between_factorize_and_a_half_step_in_one_pass(factorizing, method, monkeypatch):
    """Rows that are short and many: X is read once for the product, the sweeps and the next product."""
    check(stacks_above("half_step", onepass, factorizing("tall", method), monkeypatch))


@pytest.mark.parametrize("method", [("e-hals",), ()], ids=["e-hals", "default"])
def test_few_frames_lie_between_factorize_and_a_sweep(factorizing, method, monkeypatch):
    """Any other dense X: a product, then sweeps."""
    check(stacks_above("sweep", sweep, factorizing("squarish", method), monkeypatch))


@pytest.mark.parametrize("method", [("e-hals",), ()], ids=["e-hals", "default"])
def test_few_frames_lie_between_factorize_and_the_sweeps_of_the_columns_of_a_tall_x(factorizing, method, monkeypatch):
    """The other half of a step on a tall X: sweeps of V by the products that come with the one pass."""
    check(stacks_above("sweep", sweep, factorizing("tall", method), monkeypatch))


def test_the_recorder_changes_no_number(factorizing, monkeypatch):
    """The kernels below the recorder are the real ones."""
    plain = factorizing("tall", ())()
    kept = []
    stacks_above("half_step", onepass, lambda: kept.append(factorizing("tall", ())()), monkeypatch)
    np.testing.assert_array_equal(kept[0].V, plain.V)
