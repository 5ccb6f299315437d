"""Further starts: tried for a while, compared, and the best pair of all goes on."""

import numpy as np
import pytest

import enmf
import problems
from enmf.exterior import further


def valleys(seed=0):
    """A table whose descents take long: few rows, heavy tails."""
    rng = np.random.default_rng(seed)
    return rng.gamma(0.3, size=(24, 4)) @ rng.gamma(0.3, size=(4, 90)) + 0.3 * rng.gamma(0.3, size=(24, 90))


@pytest.fixture
def early(monkeypatch):
    """A descent is long after sixteen iterations."""
    monkeypatch.setattr(further, "PAUSE", 16)
    monkeypatch.setattr(further, "TRIAL", 8)


def rows(result, phase):
    return [row for row in result.trace if row.phase == phase]


def test_a_long_descent_gets_rivals_and_the_best_pair_goes_on(early):
    X = valleys()
    result = enmf.factorize(X, 6, random_state=0, tol=1e-8, surrogate=False)
    alone = enmf.factorize(X, 6, random_state=0, tol=1e-8, surrogate=False, restarts=0)
    assert result.phases["restart"].iterations >= further.RIVALS
    assert any("6 further starts" in decision.what for decision in result.plan)
    assert result.certificate.stationary
    numbers = [row.iteration for row in rows(result, "descent")]
    assert numbers == sorted(numbers)
    assert numbers[-1] > further.PAUSE
    assert result.n_iter == numbers[-1]
    before = min(row.error for row in rows(result, "descent")[: further.PAUSE])
    assert result.error < before
    assert result.error <= alone.error * 1.05  # another minimum, hardly a worse one


def test_a_pause_without_rivals_changes_nothing_but_momentum(early, monkeypatch):
    X = valleys(1)
    monkeypatch.setattr(further, "RIVALS", 0)
    paused = enmf.factorize(X, 6, random_state=0, tol=1e-9, max_iter=30_000)
    alone = enmf.factorize(X, 6, random_state=0, tol=1e-9, max_iter=30_000, restarts=0)
    assert paused.error == pytest.approx(alone.error, rel=1e-6)


def test_limits_hold_across_the_pause(early):
    X = valleys(2)
    assert enmf.factorize(X, 6, random_state=0, tol=0, max_iter=20).n_iter == 20
    target = enmf.factorize(X, 6, random_state=0, tol=0, max_iter=40, restarts=0).error * 1.02
    reached = enmf.factorize(X, 6, random_state=0, target_error=target)
    assert reached.status == "target_reached"
    assert reached.error <= target
    seen = []
    stopped = enmf.factorize(X, 6, random_state=0, tol=0, callback=lambda now: seen.append(now.row) or len(seen) > 60)
    assert stopped.status == "interrupted"


def test_the_same_fit_whatever_the_seed_and_the_threads(early):
    X = valleys(3)
    fits = [enmf.factorize(X, 5, random_state=seed, n_threads=threads) for seed, threads in ((0, 1), (1, 2), (2, 1))]
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.U, fits[0].U)


def test_only_the_most_promising_starts_go_on():
    X = problems.counts()
    result = enmf.factorize(X, 4, random_state=0, restarts=6)
    ends = [row.iteration for row in rows(result, "restart")]
    begins = [i for i in range(1, len(ends)) if ends[i] < ends[i - 1]]
    assert len(begins) >= 5  # every start begins at zero
    later = [row for row in rows(result, "restart") if row.iteration > further.TRIAL]
    assert len({row.iteration for row in later}) * further.FINALISTS >= len(later)
