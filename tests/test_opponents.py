"""Opponents against their published pseudo-code on small cases."""

import numpy as np
import pytest
import scipy.sparse as sp

import enmf
import problems
from enmf.api.registry import STARTS
from enmf.matrix.dense import DenseMatrix
from enmf.matrix.sparse import SparseMatrix
from enmf.matrix.sweeps import solve_nnls
from enmf.problem.problem import Problem
from enmf.problem.state import State
from enmf.solvers.admm import AOADMM
from enmf.solvers.als import projected_gradient_nnls
from enmf.solvers.grad_mult import GradMult
from enmf.solvers.mu import MultiplicativeUpdates
from enmf.solvers.nesterov import optimal_gradient_nnls
from enmf.starts.heuristic import heuristic
from enmf.starts.kmeans import kmeans
from enmf.starts.nica import nica
from enmf.starts.nndsvd import nndsvd
from enmf.starts.r1d import r1d


@pytest.fixture
def pair():
    rng = np.random.default_rng(0)
    return problems.counts(), rng.random((80, 4)), rng.random((50, 4))


def test_mu(pair):
    X, U, V = pair
    state = State(Problem(DenseMatrix(X)), U, V)
    for _ in range(7):
        MultiplicativeUpdates().step(state, None, 0.0)
        U = U * (X @ V) / np.maximum(U @ (V.T @ V), 1e-300)
        V = V * (X.T @ U) / np.maximum(V @ (U.T @ U), 1e-300)
    np.testing.assert_allclose(state.U, U, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(state.V, V, rtol=1e-8, atol=1e-12)


def test_mu_brings_zeros_back_that_want_to_grow(pair):
    X, U, V = pair
    U[::2, :2] = V[1::3] = 0.0
    found = enmf.factorize(X, 4, "mu", init=(U, V), max_iter=20_000, tol=1e-5, bound=False)
    assert found.status == "converged"
    assert found.certificate.stationary
    assert (found.V[1::3] > 0).any()


def test_nmf_admm_does_not_diverge_at_high_ranks():
    """With a penalty relative to the mean diagonal of the Gram matrices it does from random starts."""
    X = problems.counts()
    options = {"init": "random", "random_state": 0, "max_iter": 2000, "bound": False, "tol": 0.0}
    found, wanted = (enmf.factorize(X, 30, method, **options) for method in ("nmf-admm", "e-hals"))
    assert found.error < 1.1 * wanted.error


def test_als_projected_ends_near_a_minimum():
    """Plain least squares and projection end 5 % above here."""
    X = problems.counts()
    options = {"init": "random", "random_state": 0, "max_iter": 3000, "bound": False, "tol": 0.0}
    found, wanted = (enmf.factorize(X, 20, method, **options) for method in ("als-projected", "e-hals"))
    assert found.error < 1.02 * wanted.error


def test_grad_mult(pair):
    """Lin (2007): H - Hbar / (WᵀW Hbar + delta) * gradient, entry by entry."""
    X, U, V = pair
    U[3, 1] = 0.0
    state = State(Problem(DenseMatrix(X)), U, V)
    sigma = 1e-8 * U.mean()
    D = U @ V.T @ V - X @ V
    expected = np.empty_like(U)
    bar = np.where(D < 0, np.maximum(U, sigma), U)
    denominator = bar @ (V.T @ V)
    delta = 1e-8 * denominator.mean()
    for i in range(80):
        for j in range(4):
            expected[i, j] = max(U[i, j] - bar[i, j] / (denominator[i, j] + delta) * D[i, j], 0.0)
    found = GradMult()._update(state.U, *state.halves[0].normal())
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-13)


def test_projected_gradient_follows_the_published_rule(pair):
    """Lin's nlssubprob: the step size is carried from one step to the next and changed by factors of ten."""
    X, U, V = pair
    G, B = V.T @ V, X @ V
    beta, sigma = 0.1, 0.01
    F, alpha = U.copy(), 1.0 / np.linalg.norm(G, 2)
    for _ in range(4):
        D = F @ G - B

        def enough(new, F=F, D=D):
            d = new - F
            return (1 - sigma) * (D * d).sum() + 0.5 * (d * (d @ G)).sum() <= 0

        new = np.maximum(F - alpha * D, 0)
        if enough(new):
            while True:
                further = np.maximum(F - alpha / beta * D, 0)
                if not enough(further) or (further == new).all():
                    break
                new, alpha = further, alpha / beta
        else:
            while not enough(new):
                alpha *= beta
                new = np.maximum(F - alpha * D, 0)
        F = new
    found, steps = projected_gradient_nnls(U.copy(order="F"), G, B, 0.0, 4)
    assert steps == 4
    np.testing.assert_allclose(found, F, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("solve", [projected_gradient_nnls, optimal_gradient_nnls])
def test_gradient_solvers_reach_the_exact_solution(pair, solve):
    X, U, V = pair
    G, B = V.T @ V, X @ V
    found, _ = solve(np.asfortranarray(U), G, B, 1e-10 * np.linalg.norm(B), 5000)
    np.testing.assert_allclose(found, solve_nnls(G, B), atol=1e-6)


def test_ao_admm_solves_its_subproblem(pair):
    X, U, V = pair
    G, B = V.T @ V, X @ V
    found, _ = AOADMM(inner=3000, epsilon=0.0)._solve(U, None, G, B)
    np.testing.assert_allclose(found, solve_nnls(G, B), atol=1e-6)


@pytest.mark.parametrize("name", STARTS)
@pytest.mark.parametrize("store", [DenseMatrix, lambda X: SparseMatrix(sp.csr_array(X))], ids=["dense", "sparse"])
@pytest.mark.parametrize(("shape", "rank"), [((80, 44), 4), ((5, 7), 5), ((5, 7), 9), ((1, 6), 2)])
def test_starts_are_feasible_and_reproducible(name, store, shape, rank):
    X = store(problems.counts()[: shape[0], 6 : 6 + shape[1]])
    if X.squared_norm() == 0:
        pytest.skip("nothing to start from")
    U, V = STARTS[name](X, rank, np.random.default_rng(0))
    again = STARTS[name](X, rank, np.random.default_rng(0))
    assert U.shape == (shape[0], rank)
    assert V.shape == (shape[1], rank)
    for F, G in zip((U, V), again):
        assert np.isfinite(F).all()
        assert F.min() >= 0
        assert (F == G).all()
    assert np.linalg.norm(U @ V.T) <= 3 * np.sqrt(X.squared_norm())


@pytest.mark.parametrize("start", [nndsvd, kmeans, heuristic, nica])
def test_starts_beat_random_ones(start):
    X = problems.low_rank_noisy()
    random = STARTS["random"](DenseMatrix(X), 4, np.random.default_rng(0))
    U, V = start(DenseMatrix(X), 4, np.random.default_rng(0))
    assert np.linalg.norm(X - U @ V.T) < np.linalg.norm(X - random[0] @ random[1].T)


def test_nndsvd_equals_its_definition():
    X = problems.counts()
    U, S, Vt = np.linalg.svd(X, full_matrices=False)
    found_U, found_V = nndsvd(DenseMatrix(X), 4, np.random.default_rng(0))
    for j in range(4):
        u, v = U[:, j], Vt[j]
        plus, minus = (np.linalg.norm(np.maximum(s * u, 0)) * np.linalg.norm(np.maximum(s * v, 0)) for s in (1, -1))
        s = 1 if plus >= minus else -1
        a, b = np.maximum(s * u, 0), np.maximum(s * v, 0)
        expected = S[j] * max(plus, minus) * np.outer(a / np.linalg.norm(a), b / np.linalg.norm(b))
        np.testing.assert_allclose(np.outer(found_U[:, j], found_V[:, j]), expected, atol=1e-9)


def test_rank_one_downdates_find_disjoint_blocks():
    rng = np.random.default_rng(0)
    X = np.zeros((30, 25))
    X[:10, :8] = 3 * np.outer(rng.random(10) + 0.5, rng.random(8) + 0.5)
    X[10:, 8:] = np.outer(rng.random(20) + 0.5, rng.random(17) + 0.5)
    for store in (DenseMatrix, lambda X: SparseMatrix(sp.csr_array(X))):
        U, V = r1d(store(X), 2, rng)
        np.testing.assert_allclose(U @ V.T, X, atol=1e-10)
