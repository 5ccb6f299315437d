"""Known figures on the paper's real data. Skipped where the data folder is absent."""

import numpy as np
import pytest

import enmf
import slow

pytestmark = pytest.mark.data


@pytest.mark.parametrize(
    ("name", "rank", "limit"), [("verb", 10, 14.39), ("verb", 20, 13.60), ("verb", 40, 12.33), ("face", 10, 12570.0)]
)
def test_errors_on_the_paper_s_sets(real_data, name, rank, limit):
    X = real_data(name)
    result = enmf.factorize(X, rank, random_state=0)
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


def test_the_default_tolerance_is_a_promise(real_data):
    X = real_data("verb")
    result = enmf.factorize(X, 20, random_state=0)
    longer = enmf.factorize(X, 20, random_state=0, tol=0.0, max_iter=10 * result.n_iter)
    assert result.error <= longer.error * 1.001
    assert enmf.factorize(X, 20, init=(result.U, result.V)).n_iter <= 2


def test_float32_on_real_data(real_data):
    X = real_data("face")
    double = enmf.factorize(X, 5, random_state=0)
    single = enmf.factorize(X.astype(np.float32), 5, random_state=0)
    assert single.error == pytest.approx(double.error, rel=1e-3)
