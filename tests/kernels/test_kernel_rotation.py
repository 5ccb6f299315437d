"""Iterations of the rotation's ADMM against their slow twin."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import slow

ITERATIONS = 12  # rounding grows from one to the next
RULES = np.array([10.0, 2.0, 1e-3, 1e3, 0.01, 1e-13, 20.0])
NEVER_ENDS = np.array([10.0, 2.0, 1e-3, 1e3, 0.01, -1.0, 1e6])


def rows(n, r, rng):
    """Nonnegative rows, rotated away from the orthant."""
    W = np.maximum(rng.standard_normal((n, r)) + 0.3, 0) @ np.linalg.qr(rng.standard_normal((r, r)))[0]
    return W / np.abs(W).mean()


class Run:
    def __init__(self, kernels, W, R, rho=1.0, rules=RULES, most=ITERATIONS, dtype=np.float64):
        self.kernels, self.rho, self.rules, self.iteration = kernels, rho, rules, 0
        self.W = np.ascontiguousarray(W.T, dtype)
        self.WR, self.Y = np.full_like(self.W, 7), np.zeros_like(self.W)
        self.turns, self.masses = np.full((3, *R.shape), 7.0), np.full(most + 1, 7.0)
        self.turns[0] = R

    def turn(self, stop):
        state = self.W, self.WR, self.Y, self.turns, self.masses
        self.iteration, self.rho = self.kernels.rotation.turn(self.iteration, stop, *state, self.rho, self.rules)
        return self


@settings(max_examples=60, deadline=None)
@given(
    n=st.sampled_from([1, 3, 8, 17, 60, 200, 1000]),
    r=st.sampled_from([1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 30]),
    rho=st.sampled_from([0.1, 1.0, 30.0]),
    adapts=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_turn(kernels, n, r, rho, adapts, seed):
    rng = np.random.default_rng(seed)
    W, R = rows(n + 10 * r, r, rng), np.linalg.qr(rng.standard_normal((r, r)))[0]
    assume(np.linalg.cond(W.T @ slow.admm_split(W @ R, 0.0, 1 / rho)[0]) < 1e6)  # the first R is determined
    rules = RULES.copy()
    rules[1] = 2.0 if adapts else 1.0
    run = Run(kernels, W, R, rho, rules).turn(ITERATIONS)
    best, masses, last_rho = slow.turn(W, R, rho, rules, ITERATIONS)
    assert run.iteration == len(masses) - 1
    assert run.rho == last_rho
    np.testing.assert_allclose(run.masses[: run.iteration + 1], masses, atol=1e-7)
    np.testing.assert_allclose(run.turns[1], best, atol=1e-6)
    assert (run.masses[run.iteration + 1 :] == 7).all()
    for Q in run.turns[:2]:
        np.testing.assert_allclose(Q @ Q.T, np.eye(r), atol=1e-13)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_it_does_not_matter_where_a_call_ends(kernels, dtype):
    rng = np.random.default_rng(3)
    W, R = rows(333, 6, rng), np.eye(6)
    once, often = (Run(kernels, W, R, rules=NEVER_ENDS, most=150, dtype=dtype) for _ in range(2))
    once.turn(150)
    for stop in (0, 1, 2, 7, 63, 64, 65, 149, 150):
        often.turn(stop)
    for one, other in zip((once.WR, once.Y, once.turns, once.masses), (often.WR, often.Y, often.turns, often.masses)):
        np.testing.assert_array_equal(one, other)
    assert once.rho == often.rho


@pytest.mark.parametrize("r", [4, 20])
def test_single_precision_reaches_the_same_mass(kernels, r):
    rng = np.random.default_rng(r)
    W, R = rows(40 * r, r, rng), np.eye(r)
    double, single = (Run(kernels, W, R, most=100, dtype=dtype).turn(100) for dtype in (np.float64, np.float32))
    masses = [run.masses[: run.iteration + 1].min() for run in (double, single)]
    assert masses[1] == pytest.approx(masses[0], abs=0.01)
    np.testing.assert_allclose(single.turns[1] @ single.turns[1].T, np.eye(r), atol=1e-6)


def test_it_ends_when_the_mass_is_small_enough_or_falls_no_longer(kernels):
    rng = np.random.default_rng(0)
    W = rng.random((80, 5))
    assert Run(kernels, W, np.eye(5)).turn(ITERATIONS).iteration == 0  # nonnegative as it is
    W = rng.standard_normal((500, 5))
    run = Run(kernels, W, np.eye(5), most=1000).turn(1000)
    assert 20 <= run.iteration < 1000
    assert run.turn(1000).iteration == len(slow.turn(W, np.eye(5), 1.0, RULES, 1000)[1]) - 1


@settings(max_examples=40, deadline=None)
@given(r=st.integers(1, 12), rank=st.integers(0, 4), seed=st.integers(0, 100))
def test_rotations_of_singular_matrices_are_orthogonal(kernels, r, rank, seed):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((30, min(rank, r))) @ rng.standard_normal((min(rank, r), r))
    run = Run(kernels, W, np.eye(r), rules=NEVER_ENDS).turn(ITERATIONS)
    assert run.iteration == ITERATIONS
    for Q in run.turns:
        np.testing.assert_allclose(Q @ Q.T, np.eye(r), atol=1e-12)


def test_equal_singular_values(kernels):
    """Of orthonormal columns every rotation is a matrix of right singular vectors."""
    W = np.linalg.qr(np.random.default_rng(0).standard_normal((50, 8)))[0]
    W /= np.abs(W).mean()
    run = Run(kernels, W, np.eye(8)).turn(ITERATIONS)
    best, masses, _ = slow.turn(W, np.eye(8), 1.0, RULES, ITERATIONS)
    np.testing.assert_allclose(run.turns[1], best, atol=1e-7)
    np.testing.assert_allclose(run.masses[: len(masses)], masses, atol=1e-8)


def test_many_iterations_stay_orthogonal(kernels):
    r = 20
    W = rows(400, r, np.random.default_rng(0))
    run = Run(kernels, W, np.eye(r), rules=NEVER_ENDS, most=1000).turn(1000)
    assert np.linalg.norm(run.turns[0] @ run.turns[0].T - np.eye(r)) < 1e-12


def test_what_does_not_fit_is_refused(kernels):
    W, Y, WR = (np.ones((3, 10)) for _ in range(3))
    turns, masses = np.zeros((3, 3, 3)), np.empty(6)
    turn = kernels.rotation.turn
    with pytest.raises(ValueError, match="shares memory"):
        turn(0, 5, W, W, Y, turns, masses, 1.0, RULES)
    with pytest.raises(ValueError, match="range"):
        turn(0, 6, W, WR, Y, turns, masses, 1.0, RULES)
    with pytest.raises(ValueError, match="shape of W"):
        turn(0, 5, W, WR[:2], Y, turns, masses, 1.0, RULES)
    with pytest.raises(ValueError, match="contiguous"):
        turn(0, 5, W[:, :5].copy(), WR[:, :5], Y[:, :5].copy(), turns, masses, 1.0, RULES)
    with pytest.raises(ValueError, match="3 x r x r"):
        turn(0, 5, W, WR, Y, turns[:2], masses, 1.0, RULES)
    with pytest.raises(ValueError, match="seven"):
        turn(0, 5, W, WR, Y, turns, masses, 1.0, RULES[:3])
    with pytest.raises(ValueError, match="positive"):
        turn(0, 5, W, WR, Y, turns, masses, 0.0, RULES)
    with pytest.raises(TypeError, match="Y has to be float64, and is float32"):
        turn(0, 5, W, WR, Y.astype(np.float32), turns, masses, 1.0, RULES)
