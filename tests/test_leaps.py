"""Leaps: long descents end sooner, where they would have ended, alike on any number of threads."""

import numpy as np
import pytest

import enmf
from enmf.run import leaps


def crawling(seed=2):
    """Spectra of overlapping lines, on which descents crawl: the rank is below the number of lines."""
    rng = np.random.default_rng(seed)
    lines = np.exp(-((np.linspace(0, 1, 80)[:, None] - rng.random(12)) ** 2) / 0.02)
    return rng.gamma(0.5, size=(150, 12)) @ lines.T


def fit(X, **options):
    return enmf.factorize(X, 8, restarts=0, bound=False, **options)


@pytest.mark.parametrize("seed", [2, 7])
def test_a_long_descent_takes_fewer_iterations_to_the_same_error(seed, monkeypatch):
    X = crawling(seed)
    leaping = fit(X, tol=1e-7)
    monkeypatch.setattr(leaps, "BEGIN", 10**9)
    plain = fit(X, tol=1e-7)
    assert plain.n_iter > 2000
    assert leaping.n_iter + leaping.phases["restart"].iterations < 0.6 * plain.n_iter
    assert leaping.error == pytest.approx(plain.error, rel=1e-5)


def test_short_descents_do_not_leap():
    result = fit(crawling(), max_iter=leaps.BEGIN)
    assert result.n_iter == leaps.BEGIN
    assert "restart" not in result.phases


def test_max_iter_and_a_target_end_a_leaping_descent():
    X = crawling()
    limited = fit(X, tol=0, max_iter=leaps.BEGIN + 2 * leaps.STRIDE + 10)
    assert limited.n_iter == leaps.BEGIN + 2 * leaps.STRIDE + 10
    assert limited.status == "max_iter"
    reached = fit(X, tol=0, target_error=limited.error * 1.0000001)
    assert reached.status == "target_reached"
    assert reached.error <= limited.error * 1.0000001


def test_leaps_are_the_same_on_any_number_of_threads():
    X = crawling()
    one, two = (fit(X, tol=1e-6, n_threads=threads) for threads in (1, 2))
    assert one.n_iter == two.n_iter
    np.testing.assert_array_equal(one.U, two.U)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_leaps_is_nonnegative_and_goes_down(dtype):
    result = fit(crawling().astype(dtype), tol=0, max_iter=800)
    assert result.U.min() >= 0
    assert result.V.min() >= 0
    ends = [row.error for row in result.trace if row.phase == "descent" and row.iteration % leaps.STRIDE == 0]
    assert np.all(np.diff(np.minimum.accumulate(ends)) <= 0)
    assert result.error <= min(ends) * (1 + 1e-5)
