"""Known figures on the paper's real data. Skipped where the data folder is absent."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import enmf
import slow
from enmf.certificate.words import SETTLED

pytestmark = pytest.mark.data


@pytest.mark.parametrize(
    ("name", "rank", "limit"), [("verb", 10, 14.41), ("verb", 20, 13.60), ("verb", 40, 12.34), ("face", 10, 12570.0)]
)
def test_errors_on_the_paper_s_sets(real_data, name, rank, limit):
    X = real_data(name)
    result = enmf.factorize(X, rank, random_state=0, tol=1e-5)
    assert result.status == "converged"
    assert result.error <= limit
    assert slow.kkt(X, result.U, result.V) <= 1e-5 * 1.001
    assert result.certificate.lower_bound == pytest.approx(slow.bound(X, rank), rel=1e-6)


@pytest.mark.parametrize("sparsity", [0.4, 0.5])
def test_exact_sets_are_solved(real_data, sparsity):
    X = real_data("exact", sparsity=sparsity)
    result = enmf.factorize(X, 50, random_state=0)
    assert result.status == "exact"
    assert result.certificate.relative_error < 1e-6


@pytest.mark.parametrize("kind", ["krylov", "randomized"])
def test_the_bound_of_an_iterative_svd_is_below_the_true_one_and_near(real_data, kind):
    X = real_data("single_cell")[:, :1500]
    rank = 10
    result = enmf.factorize(X, rank, svd=kind, random_state=0, tol=1e-3)
    true = slow.bound(X, rank)
    assert 0.99 * true <= result.certificate.lower_bound <= true


@pytest.mark.parametrize(("name", "rank"), [("verb", 20), ("face", 10), ("digits", 20)])
def test_a_settled_run_is_where_it_says_it_is(real_data, name, rank):
    X = real_data(name) if name != "digits" else load_digits().data
    result = enmf.factorize(X, rank, random_state=0, restarts=0)
    longer = enmf.factorize(X, rank, random_state=0, restarts=0, tol=1e-8, max_iter=10 * result.n_iter)
    assert result.status in ("settled", "converged")
    assert 0 <= result.certificate.left <= 3 * SETTLED
    assert result.error <= longer.error * 1.0005


def test_float32_on_real_data(real_data):
    X = real_data("face")
    double = enmf.factorize(X, 5, random_state=0)
    single = enmf.factorize(X.astype(np.float32), 5, random_state=0)
    assert single.error == pytest.approx(double.error, rel=1e-3)
