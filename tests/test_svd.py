"""Phase 1: singular triplets, their signs, and the bound that must never be above the true one."""

import numpy as np
import pytest
import scipy.sparse as sp

import problems
import slow
from enmf.linalg.bound import sharpen
from enmf.linalg.sketch import glance, look_closer, refine
from enmf.linalg.svd import truncated_svd
from enmf.matrix.dense import DenseMatrix
from enmf.matrix.single import in_single
from enmf.matrix.sparse import SparseMatrix

KINDS = ["exact", "krylov", "randomized"]


def spectra():
    """Matrices with fast, slow and flat spectra, tall and wide."""
    rng = np.random.default_rng(0)
    n, m = 150, 220
    Q, P = np.linalg.qr(rng.standard_normal((n, n)))[0], np.linalg.qr(rng.standard_normal((m, n)))[0]
    decays = {"fast": 0.7 ** np.arange(n), "slow": 1 / np.sqrt(1 + np.arange(n)), "flat": np.ones(n)}
    for name, s in decays.items():
        yield name, (Q * s) @ P.T
    yield "uniform", rng.random((n, m))
    yield "uniform tall", rng.random((m, n))
    yield "counts", problems.counts(200, 150)


@pytest.mark.parametrize(("name", "X"), list(spectra()), ids=lambda v: v if isinstance(v, str) else "")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("store", [DenseMatrix, lambda X: SparseMatrix(sp.csr_array(X))], ids=["dense", "sparse"])
def test_the_bound_is_never_above_the_true_one(name, X, kind, store):
    matrix = store(X)
    for rank in (1, 5, 20):
        for seed in range(3):
            rng = np.random.default_rng(seed)
            spectrum = sharpen(matrix, truncated_svd(matrix, rank, kind=kind, rng=rng), rng=rng)
            found, true = spectrum.lower_bound(rank), slow.bound(X, rank)
            assert found <= true * (1 + 1e-12)
            if kind == "exact":
                assert found == pytest.approx(true, rel=1e-6)
            elif name == "fast" and rank >= 5:
                assert found == pytest.approx(true, rel=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_a_poor_subspace_gives_a_weak_bound_not_a_false_one(seed):
    X = np.random.default_rng(seed).random((300, 200))
    matrix, rng = DenseMatrix(X), np.random.default_rng(seed)
    spectrum = truncated_svd(matrix, 10, kind="randomized", power_iterations=0, rng=rng)
    naive = np.sqrt(matrix.squared_norm() - (spectrum.s[:10] ** 2).sum())
    true = slow.bound(X, 10)
    assert naive > true  # what the Ritz values alone would claim
    assert sharpen(matrix, spectrum, rng=rng, power_iterations=0).lower_bound(10) <= true


@pytest.mark.parametrize("iterations", [0, 0.5, 1, 1.5])
def test_every_half_power_iteration_ends_with_singular_triplets(iterations):
    X = problems.counts(2000, 150)
    matrix = DenseMatrix(X)
    found = truncated_svd(matrix, 10, kind="randomized", power_iterations=iterations, rng=np.random.default_rng(0))
    for F in (found.U, found.V):
        np.testing.assert_allclose(F.T @ F, np.eye(len(found.s)), atol=1e-8)
    np.testing.assert_allclose(found.U.T @ X @ found.V, np.diag(found.s), atol=1e-8 * found.s[0])
    assert matrix.passes == 1 + 2 * iterations


def test_the_bound_of_nearly_low_rank_data_keeps_its_digits():
    rng = np.random.default_rng(0)
    X = rng.random((80, 5)) @ rng.random((5, 60)) + 1e-9 * rng.random((80, 60))
    spectrum = truncated_svd(DenseMatrix(X), 5, rng=rng)
    true = slow.bound(X, 5)
    assert 0.99 * true <= spectrum.lower_bound(5) <= true


@pytest.mark.parametrize("kind", KINDS)
def test_triplets(kind):
    X = problems.low_rank_noisy(120, 90)
    spectrum = truncated_svd(DenseMatrix(X), 4, kind=kind, rng=np.random.default_rng(0))
    s = np.linalg.svd(X, compute_uv=False)
    np.testing.assert_allclose(spectrum.s[:4], s[:4], rtol=1e-6)
    for F in (spectrum.U, spectrum.V):
        np.testing.assert_allclose(F.T @ F, np.eye(F.shape[1]), atol=1e-10)
    assert spectrum.U[:, 0].min() >= 0
    assert spectrum.V[:, 0].min() >= 0
    again = truncated_svd(DenseMatrix(X), 4, kind=kind, rng=np.random.default_rng(0))
    assert (again.U == spectrum.U).all()


def test_one_spectrum_serves_all_smaller_ranks():
    X = problems.dense()
    spectrum = truncated_svd(DenseMatrix(X), 12, rng=np.random.default_rng(0))
    for rank in range(1, 13):
        assert spectrum.lower_bound(rank) == pytest.approx(slow.bound(X, rank), rel=1e-9)


@pytest.mark.parametrize(("dtype", "single"), [(np.float64, False), (np.float64, True), (np.float32, False)])
def test_refining_reaches_the_optimum_of_a_flat_spectrum(dtype, single):
    """Krylov steps from a rough spectrum: the error falls to the true one, and the triplets stay orthonormal.

    That the first one is made in single precision does not show at the end.
    """
    rng = np.random.default_rng(0)
    X = (rng.random((700, 200)) @ rng.random((200, 600))).astype(dtype)
    matrix, rank = DenseMatrix(X), 20
    rough = in_single(matrix) if single else matrix
    first = glance(rough, 40, rng)
    true = slow.bound(X.astype(np.float64), rank) / np.linalg.norm(X)
    spectra = list(refine(matrix, rough, first, rank))
    errors, last = [spectrum.relative_error(rank) for spectrum in spectra], spectra[-1]
    assert spectra[0].V.dtype == rough.dtype
    assert last.V.dtype == matrix.dtype
    captured = np.linalg.svd(X @ first.V, compute_uv=False)[:rank].astype(np.float64)
    assert np.sqrt(matrix.squared_norm() - (captured**2).sum()) > 1.02 * true * np.linalg.norm(X)  # was to be refined
    assert 1 <= len(errors) <= 2
    assert errors[0] <= 1.005 * true
    precision = 1e-4 if dtype == np.float64 else 1e-3
    assert errors[-1] == pytest.approx(true, rel=precision)
    for F in (last.U, last.V):
        np.testing.assert_allclose(
            F[:, :rank].T @ F[:, :rank], np.eye(rank), atol=1e-8 if dtype == np.float64 else 1e-3
        )
    np.testing.assert_allclose(X @ last.V[:, :5], last.U[:, :5] * last.s[:5], rtol=1e-3, atol=1e-2 * last.s[4])


def test_a_closer_look_is_worth_its_rows():
    """Counts: the larger sample captures more of X."""
    rng = np.random.default_rng(0)
    topics = rng.gamma(0.1, size=(20, 800)) * rng.gamma(0.3, size=(20, 1))
    X = rng.poisson(0.3 * rng.dirichlet(np.full(20, 0.1), 6000) @ topics).astype(np.float64)
    matrix = SparseMatrix(sp.csr_array(X))
    first = glance(matrix, 20, rng)
    sample = matrix.sample_rows(1500, rng)
    closer = look_closer(sample, first, rng)
    assert closer.U.shape == (sample.shape[0], 20)
    captured = [np.linalg.norm(X @ found.V) for found in (first, closer)]
    best = np.linalg.norm(np.linalg.svd(X, compute_uv=False)[:20])
    assert best - captured[1] < 0.5 * (best - captured[0])
    np.testing.assert_allclose(closer.V.T @ closer.V, np.eye(20), atol=1e-8)
