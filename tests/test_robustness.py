"""Data nobody planned for: heavy tails, deficient ranks, superfluous components. Nothing breaks, nothing lies."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import enmf
import slow
from enmf.linalg.bound import sharpen
from enmf.linalg.sketch import glance, refine
from enmf.linalg.svd import truncated_svd
from enmf.matrix.base import draw
from enmf.matrix.dense import DenseMatrix
from enmf.matrix.sparse import SparseMatrix

SEEDS = st.integers(0, 2**32 - 1)


def fit(X, rank, method="enmf", **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        return enmf.factorize(X, rank, method, **{"random_state": 0, "max_iter": 20, **options})


def heavy_tailed(n, m, seed, density=0.01):
    """Counts of which a few rows hold nearly all of the sum of squares."""
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, m), density=density, format="csr", rng=rng)
    X.data = np.ceil(rng.pareto(0.7, X.nnz)).clip(1, 1e9)
    return X


def check(result, X):
    X = X.toarray() if sp.issparse(X) else np.asarray(X)
    for F in (result.U, result.V):
        assert np.isfinite(F).all()
        assert F.min() >= 0
    error = np.linalg.norm(X - result.U.astype(float) @ result.V.T.astype(float))
    assert result.error == pytest.approx(error, rel=1e-6, abs=1e-12 * float(np.linalg.norm(X)))
    assert error <= np.linalg.norm(X)


# Samples and spectra shorter than the rank ----------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, count=st.integers(1, 40), tail=st.floats(0.0, 6.0), zeros=st.floats(0.0, 0.9))
def test_a_sample_has_an_eighth_of_the_rows_that_there_are_whatever_their_sizes(seed, count, tail, zeros):
    rng = np.random.default_rng(seed)
    squares = 10.0 ** (tail * rng.random(50)) * (rng.random(50) >= zeros)
    squares[7] = 1.0
    index, weight = draw(squares, count, rng)
    wanted = min(count, np.count_nonzero(squares))
    assert wanted / 8 - 1 <= len(index) <= wanted
    assert len(set(index)) == len(index)
    assert (squares[index] > 0).all()
    assert (weight > 0).all()


def test_a_sample_keeps_the_sum_of_squares_in_expectation():
    rng = np.random.default_rng(0)
    squares = rng.pareto(0.6, 200)
    totals = []
    for _ in range(400):
        index, weight = draw(squares, 30, rng)
        totals.append((weight**2 * squares[index]).sum())
    assert np.mean(totals) == pytest.approx(squares.sum(), rel=0.02)


@pytest.mark.parametrize("svd", ["auto", "randomized", "krylov", "exact"])
@pytest.mark.parametrize("seed", range(3))
def test_heavy_tails_are_factorized(svd, seed):
    X = heavy_tailed(1200, 1100, seed)
    check(fit(X, 20, svd=svd), X)


@pytest.mark.parametrize("svd", ["auto", "randomized", "krylov"])
@pytest.mark.parametrize("rank", [3, 20])
def test_fewer_rows_than_components_are_factorized(svd, rank):
    rng = np.random.default_rng(rank)
    X = np.zeros((1200, 1100))
    X[[5, 17, 600, 1199]] = rng.random((4, 1100))
    for store in (np.asarray, sp.csr_array):
        check(fit(store(X), rank, svd=svd, max_iter=5), X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rank", [2, 8])
def test_data_of_a_lower_rank_are_factorized(dtype, rank):
    rng = np.random.default_rng(1)
    X = (rng.random((1200, 2)) @ rng.random((2, 1100))).astype(dtype)
    result = fit(X, rank, max_iter=100)
    check(result, X)
    assert result.certificate.relative_error < 1e-4


def test_a_glance_has_as_many_triplets_as_asked_for():
    X = sp.csr_array(np.diag(np.r_[np.ones(3), np.zeros(1197)]))
    first = glance(SparseMatrix(X), 20, np.random.default_rng(0))
    assert first.V.shape == (1200, 20)
    assert first.s.shape == (20,)
    np.testing.assert_allclose(first.V.T @ first.V, np.eye(20), atol=1e-12)


def test_refining_counts_no_singular_value_of_low_rank_data_twice():
    rng = np.random.default_rng(0)
    X = DenseMatrix(rng.random((400, 3)) @ rng.random((3, 300)))
    first = glance(X, 20, rng)
    for spectrum in refine(X, X, first, 10):
        assert (spectrum.s**2).sum() == pytest.approx(X.squared_norm(), rel=1e-9)
        assert len(spectrum.s) >= 10


# Superfluous components -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", enmf.methods())
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_rank_one_matrix_with_superfluous_components_gives_no_nan(method, dtype):
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = np.outer(rng.random(40), rng.random(30)).astype(dtype)
        result = fit(X, 2 + seed % 4, method, init="random", random_state=seed, max_iter=300)
        check(result, X)
        assert result.U.any()
        if result.status in ("exact", "global_optimum"):
            assert result.certificate.relative_error <= 5e-7


def test_runs_of_stability_and_consensus_on_rank_one_data_have_errors():
    rng = np.random.default_rng(0)
    X = np.outer(rng.random(40), rng.random(30))
    for seed in range(4):
        assert np.isfinite(enmf.stability(X, 2, n_runs=4, random_state=seed).errors).all()
        assert np.isfinite(enmf.consensus(X, 2, n_runs=4, random_state=seed).errors).all()


@pytest.mark.parametrize("method", enmf.methods())
def test_block_diagonal_data_in_single_precision_give_no_nan(method):
    X = sp.csr_array(sp.block_diag([np.full((5, 3), 1 + k % 2) for k in range(5)]), dtype=np.float32)
    for init in ("nndsvda", "nndsvd", "random"):
        check(fit(X, 14, method, init=init, max_iter=5), X)


def test_a_run_out_of_time_is_no_worse_than_zero_factors():
    X = heavy_tailed(300, 200, 0, density=0.05)
    for init in enmf.initializations():
        check(fit(X, 5, "hals", init=init, max_iter=0), X)
        check(fit(X, 5, init=init, time_limit=0.0), X)


# Words ----------------------------------------------------------------------------------------------------------------


def test_global_optimum_is_said_within_the_printed_tolerance_only():
    """Nearly exact data: an error of 3e-5 of ||X|| is 1e-8 of ||X|| above the bound, and not the best possible."""
    rng = np.random.default_rng(0)
    X = np.round(rng.gamma(0.3, 1, (200, 5)) @ rng.gamma(0.3, 1, (5, 120)), 4)
    result = enmf.factorize(X, 5, random_state=0)
    ratio = result.error / slow.bound(X, 5)
    assert (result.status == "global_optimum") == (ratio <= 1 + 1e-6) == result.certificate.globally_optimal
    assert not result.certificate.exact


@pytest.mark.parametrize("method", ["enmf", "hals", "e-hals", "anls-bpp"])
@pytest.mark.parametrize("weights", [{"l1_U": 5.0, "l1_V": 5.0}, {"l1_V": 1.0, "l2_U": 1.0}], ids=str)
def test_a_penalty_is_applied_also_where_the_start_is_exact(method, weights):
    X = np.outer([1.0, 2, 3], [1.0, 1, 2, 4])
    result = fit(X, 1, method, max_iter=2000, tol=1e-5, **weights)
    assert result.status == "converged"
    assert result.n_iter > 0
    assert not result.certificate.globally_optimal
    assert not result.certificate.exact


def test_a_component_that_could_grow_is_not_stationary():
    rng = np.random.default_rng(0)
    X, U, V = rng.random((30, 20)), rng.random((30, 3)), rng.random((20, 3))
    nothing = enmf.certify(X, 0 * U, V)
    assert not nothing.stationary
    assert nothing.min_gradient == pytest.approx((-X @ V).min())
    good = enmf.factorize(X, 2, random_state=0)
    extended = enmf.certify(X, np.pad(good.U, ((0, 0), (0, 1))), np.pad(good.V, ((0, 0), (0, 1)), constant_values=1.0))
    assert not extended.stationary
    assert extended.kkt == pytest.approx(slow.kkt(X, np.c_[good.U, np.zeros(30)], np.c_[good.V, np.ones(20)]))


def test_an_exact_factorization_has_its_own_word():
    rng = np.random.default_rng(2)
    X = rng.random((40, 3)) @ rng.random((3, 30))
    result = enmf.factorize(X, 3, random_state=0)
    assert result.status == "exact"
    assert "exact" in str(result.certificate)
    assert "best possible" not in str(result.certificate).split("globally optimal")[1]


# Bounds and errors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["exact", "randomized", "krylov"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_bound_of_low_rank_and_constant_data_is_not_above_the_true_one(kind, dtype):
    rng = np.random.default_rng(0)
    blocks = np.kron(rng.random((4, 4)) < 0.4, np.full((200, 60), 0.1))
    doubled = rng.random((4, 300))[rng.integers(0, 4, 90)]
    for X in (blocks, doubled, np.full((300, 200), 0.1), rng.random((300, 5)) @ rng.random((5, 200))):
        X = X.astype(dtype)
        for matrix in (DenseMatrix(X), SparseMatrix(sp.csr_array(X))):
            spectrum = sharpen(matrix, truncated_svd(matrix, 6, kind=kind, rng=rng), rng=rng)
            for rank in range(1, 7):
                slack = 1e-14 * float(np.linalg.norm(X))
                assert spectrum.lower_bound(rank) <= slow.bound(X.astype(float), rank) * (1 + 1e-9) + slack


@pytest.mark.parametrize("rounded", ["randomized", "krylov"])
def test_a_basis_of_single_precision_gives_a_bound_all_the_same(rounded):
    rng = np.random.default_rng(0)
    X = rng.random((4, 300))[rng.integers(0, 4, 90)]
    spectrum = truncated_svd(DenseMatrix(X), 2, kind=rounded, rng=rng)
    single = type(spectrum)(
        *(F.astype(np.float32) for F in (spectrum.U, spectrum.s, spectrum.V)), (X**2).sum(), rounded
    )
    assert sharpen(DenseMatrix(X), single, rng=rng).lower_bound(2) <= slow.bound(X, 2) * (1 + 1e-12)


@pytest.mark.parametrize("noise", [1e-5, 1e-6, 1e-7])
def test_the_error_of_nearly_exact_sparse_data_has_ten_digits(noise):
    rng = np.random.default_rng(0)
    U, V = (rng.random((length, 4)) * (rng.random((length, 4)) < 0.3) for length in (300, 200))
    X = U @ V.T
    X[X > 0] *= 1 + noise * rng.standard_normal((X > 0).sum())
    c = enmf.certify(sp.csr_array(X), U, V)
    assert c.error == pytest.approx(np.linalg.norm(X - U @ V.T), rel=1e-9)


def test_the_error_of_completion_in_single_precision_is_accurate():
    rng = np.random.default_rng(1)
    X = (rng.random((1000, 5)) @ rng.random((5, 800)) * (1 + 0.002 * rng.standard_normal((1000, 800)))).astype(
        np.float32
    )
    holes = rng.random(X.shape) < 0.05
    result = enmf.complete(np.where(holes, np.nan, X).astype(np.float32), 5, random_state=0)
    residual = (X.astype(float) - result.U.astype(float) @ result.V.T.astype(float))[~holes]
    assert result.error == pytest.approx(np.linalg.norm(residual), rel=1e-6)


# What single calls of the fuzzer found --------------------------------------------------------------------------------


def test_a_rank_is_selected_for_a_matrix_of_one_entry():
    X = np.zeros((4, 21))
    X[2, 5] = 3.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert enmf.select_rank(X, range(1, 4), folds=2, random_state=0).rank == 1


def test_a_krylov_svd_of_equal_singular_values_is_the_same_for_the_same_seed():
    pytest.importorskip("scipy", minversion="1.17")  # earlier ones draw numbers that have no seed
    X = sp.csr_array(np.eye(28, 24)[np.random.default_rng(0).permutation(28)])
    first, second = (fit(X, 5, "hals", init="exterior", svd="krylov", random_state=1) for _ in range(2))
    np.testing.assert_array_equal(first.U, second.U)


def test_an_entry_of_weight_zero_may_be_anything():
    X = sp.csr_array(np.array([[1.0, np.nan], [2.0, 3.0]]))
    weights = np.array([[1.0, 0.0], [1.0, 2.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = enmf.complete(X, 1, missing="unstored", weights=weights, random_state=0)
    assert np.isfinite(result.U).all()
    assert result.certificate.observed == 3
