"""Starts of losses other than squares: candidates, and the weighted sample on which they are tried."""

import numpy as np
import pytest
import scipy.sparse as sp

import enmf
from enmf.exterior import borrowed
from enmf.matrix.drawn import drawn
from enmf.problem.validation.arrays import check_problem
from enmf.problem.validation.losses import with_loss


def counts(n=400, m=15, rank=3, seed=0):
    """Counts whose rows differ by orders in their sums."""
    rng = np.random.default_rng(seed)
    rows = rng.gamma(0.3, 1.0, (n, rank)) * 10.0 ** rng.uniform(0, 3, (n, 1))
    X = rng.poisson(rows @ rng.gamma(0.5, 1.0, (rank, m))).astype(float)
    return X[:, X.sum(0) > 0]


@pytest.fixture
def sampled(monkeypatch):
    """Small data are treated as if they were dear, and a sample of them as if it were enough."""
    monkeypatch.setattr(borrowed, "CHEAP", 0.0)
    monkeypatch.setattr(borrowed, "ENOUGH", 5)


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("side", [0, 1])
def test_weighted_rows_have_the_sum_of_all(side, store):
    X = counts() if side == 0 else counts().T
    few = drawn(check_problem(store(X)).X, side, 50, 1.0, np.random.default_rng(1))
    assert few.shape[1 - side] == X.shape[1 - side]
    assert 25 <= few.shape[side] <= 50
    largest = X.sum(1 - side).max()
    assert abs(few.sums(side).sum() - X.sum()) <= max(largest, X.sum() / 10)
    raw = few.raw().toarray() if store is sp.csr_array else few.raw()
    raw, X = (raw, X) if side == 0 else (raw.T, X.T)
    shares = {tuple(np.round(row / row.sum(), 9)) for row in X if row.sum() > 0}
    assert all(tuple(np.round(row / row.sum(), 9)) in shares for row in raw)  # rows of X, times weights


def test_rows_that_hold_most_of_the_data_are_in_every_sample():
    X = np.ones((1000, 4))
    X[[17, 500]] = 1e6
    for seed in range(5):
        few = drawn(check_problem(X).X, 0, 20, 1.0, np.random.default_rng(seed)).raw()
        assert np.sum(few.max(axis=1) > 1e5) == 2


@pytest.mark.parametrize("loss", ["kullback-leibler", 1.5, "itakura-saito"])
@pytest.mark.parametrize("wide", [False, True])
def test_a_start_from_a_sample_leads_to_a_stationary_point(loss, wide, sampled):
    X = counts(150, 10) + (loss == "itakura-saito")
    X = np.ascontiguousarray(X.T) if wide else X
    fit = enmf.factorize(X, 3, loss=loss, random_state=0, restarts=0, tol=1e-4, n_threads=1)
    assert fit.status == "converged"
    assert fit.phases["trial"].iterations > borrowed.DESCENT
    assert enmf.certify(X, fit.U, fit.V, loss=loss).kkt < 1e-3


def test_a_start_from_a_sample_is_the_same_for_sparse_data(sampled):
    X = counts()
    dense, sparse = (
        enmf.factorize(kind(X), 3, loss="kullback-leibler", random_state=0, restarts=0, max_iter=0)
        for kind in (np.asarray, sp.csr_array)
    )
    assert sparse.loss == pytest.approx(dense.loss, rel=1e-4)  # found in single precision


def test_a_column_that_no_row_of_the_sample_has_gets_a_model(sampled):
    X = np.zeros((400, 16))
    X[:, :15] = counts()[:, :15] + 1.0
    X[3, 15] = 1e-3
    fit = enmf.factorize(X, 3, loss="kullback-leibler", random_state=0, restarts=0, max_iter=0)
    assert np.isfinite(fit.loss)
    assert fit.U[3] @ fit.V[15] > 0


@pytest.mark.parametrize("loss", ["kullback-leibler", "itakura-saito"])
def test_the_start_draws_nothing_from_the_seed(loss, sampled):
    X = counts() + (loss == "itakura-saito")
    first, second = (enmf.factorize(X, 3, loss=loss, random_state=s, restarts=0, max_iter=2) for s in (0, 1))
    assert np.array_equal(first.V, second.V)


def test_a_trial_ends_where_its_gains_do_not_reach_the_rival():
    falling = [100.0 / (k + 1) for k in range(9)]
    assert not borrowed._behind(falling, 5.0)
    assert borrowed._behind([10.0 + 0.1 / (k + 1) for k in range(9)], 5.0)
    assert not borrowed._behind([10.0, 9.0], 0.0)


def test_a_lift_begins_near_the_rows_of_the_data(sampled, monkeypatch):
    """With all rows alike at first, steps that end after three would leave the longer factor far from X."""
    X = counts(600, 20)
    full = enmf.factorize(X, 3, loss="kullback-leibler", random_state=0, restarts=0)
    monkeypatch.setattr(borrowed, "LIFT", 3)
    lifted = enmf.factorize(X, 3, loss="kullback-leibler", random_state=0, restarts=0, max_iter=0)
    assert lifted.loss < 1.15 * full.loss


def test_candidates_are_tried_in_single_precision_where_steps_are_dear(monkeypatch):
    X = counts()
    assert borrowed._in_single(with_loss(check_problem(X), "kullback-leibler"), 3) is None
    monkeypatch.setattr(borrowed, "CHEAP", 0.0)
    for store in (np.asarray, sp.csr_array):
        single = borrowed._in_single(with_loss(check_problem(store(X)), "kullback-leibler"), 3)
        assert single.dtype == np.float32
    fit = enmf.factorize(X, 3, loss="kullback-leibler", random_state=0, restarts=0)
    assert fit.U.dtype == np.float64
    assert enmf.certify(X, fit.U, fit.V, loss="kullback-leibler").error == pytest.approx(fit.error, rel=1e-12)
