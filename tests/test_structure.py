"""What people already know about their data: weights, known components, zeros, signs, symmetry, several tables."""

import importlib.util
import itertools
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment, linprog, nnls
from sklearn.exceptions import ConvergenceWarning

import enmf
from enmf.api.registry import DESCENTS
from enmf.exterior.structured import LONG_TRIAL, TRIAL, _trial, match, positive_combination
from enmf.linalg.eigen import positive_part
from enmf.matrix.dense import DenseMatrix
from enmf.matrix.less import LessMatrix
from enmf.matrix.sparse import SparseMatrix
from enmf.matrix.stacked import StackedMatrix
from enmf.problem.problem import Problem
from enmf.problem.refusals import REFUSED, THINGS, refuse
from enmf.problem.structure import Side, Structure
from enmf.solvers.symmetric import _best_step
from problems import low_rank_noisy

RNG = np.random.default_rng
SEEDS = range(5)
RANK = 4


def planted(seed, n=60, m=40, rank=RANK, density=0.5):
    """Sparse factors, which determine each other up to order and scale."""
    rng = RNG(seed)
    return [rng.random((length, rank)) * (rng.random((length, rank)) < density) for length in (n, m)]


def cosines(A, B):
    A, B = (F / np.linalg.norm(F, axis=0) for F in (A, B))
    return A.T @ B


def matched(A, B):
    """The smallest cosine of columns that belong together."""
    C = cosines(A, B)
    return C[linear_sum_assignment(-C)].min()


def projected(F, D, free, signed=False):
    """The projected gradient, by definition."""
    return np.where(free, D if signed else np.where(F > 0, D, np.minimum(D, 0)), 0.0)


def residual(X, U, V, free_U=True, free_V=True, signed=(False, False)):
    """The KKT residual of balanced factors over ||X||^1.5 in plain NumPy."""
    u, v = np.linalg.norm(U, axis=0), np.linalg.norm(V, axis=0)
    s = np.sqrt(np.divide(v, u, out=np.ones_like(u), where=(u > 0) & (v > 0)))
    U, V = U * s, V / s
    E = U @ V.T - X
    parts = projected(U, E @ V, free_U, signed[0]), projected(V, E.T @ U, free_V, signed[1])
    return np.sqrt(sum((part**2).sum() for part in parts)) / np.linalg.norm(X) ** 1.5


# Weights --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("loss", "power"), [("frobenius", 0.5), ("kullback-leibler", 1.0)])
@pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_weights_are_those_of_a_scaled_problem(loss, power, store):
    rng, X = RNG(0), low_rank_noisy(40, 30)
    w, c = rng.uniform(0.1, 100, 40), rng.uniform(0.1, 2, 30)
    one = enmf.factorize(store(X), RANK, loss=loss, row_weights=w, column_weights=c, random_state=0, restarts=0)
    r, d = w**power, c**power
    two = enmf.factorize(store(r[:, None] * X * d), RANK, loss=loss, random_state=0, restarts=0)
    assert one.error == pytest.approx(two.error, rel=1e-10)
    np.testing.assert_allclose(one.U @ one.V.T, (two.U / r[:, None]) @ (two.V / d[:, None]).T, rtol=1e-8, atol=1e-10)
    if loss == "frobenius":
        direct = np.sqrt(np.sum(np.outer(w, c) * (X - one.U @ one.V.T) ** 2))
        assert one.error == pytest.approx(direct, rel=1e-10)
        values = np.linalg.svd(r[:, None] * X * d, compute_uv=False)
        assert one.certificate.lower_bound == pytest.approx(np.sqrt((values[RANK:] ** 2).sum()), rel=1e-8)
        again = enmf.certify(X, one.U, one.V, row_weights=w, column_weights=c)
        assert (again.error, again.kkt) == pytest.approx((one.error, one.certificate.kkt), rel=1e-6)


def test_weights_of_rows_and_columns_are_those_of_all_their_entries():
    rng, X = RNG(1), low_rank_noisy(25, 20)
    w, c = rng.uniform(0.5, 3, 25), rng.uniform(0.5, 3, 20)
    init = rng.random((25, 3)), rng.random((20, 3))
    how = {"init": init, "tol": 1e-9, "max_iter": 5000}
    one = enmf.factorize(X, 3, "hals", row_weights=w, column_weights=c, **how)
    two = enmf.complete(X, 3, "masked-scd", weights=np.outer(w, c), **how)
    assert one.error == pytest.approx(two.error, rel=1e-6)


def test_large_and_small_weights_change_nothing_but_the_unit():
    X = low_rank_noisy(30, 20)
    one = enmf.factorize(X, 3, row_weights=np.full(30, 1e150), random_state=0)
    two = enmf.factorize(X, 3, row_weights=np.full(30, 1e-150), random_state=0)
    plain = enmf.factorize(X, 3, random_state=0)
    assert one.error * 1e-75 == pytest.approx(plain.error, rel=1e-6) == pytest.approx(two.error * 1e75, rel=1e-6)


# Known components and zeros -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_known_components_stay_and_the_others_are_found(seed, store):
    U, V = planted(seed)
    H = 3.0 * V[:, :2].T
    result = enmf.factorize(store(U @ V.T), RANK, fixed=H, random_state=seed, tol=1e-8)
    assert (result.V[:, :2] == H.T).all()
    assert matched(result.V[:, 2:], V[:, 2:]) > 0.999
    assert result.certificate.relative_error < 1e-6


@pytest.mark.parametrize("which", [("support_U",), ("support_V",), ("support_U", "support_V")], ids=" and ".join)
@pytest.mark.parametrize("seed", SEEDS)
def test_zeros_are_exact_in_every_iteration_and_the_truth_is_found(which, seed):
    U, V = planted(seed)
    supports = {name: {"support_U": U, "support_V": V}[name] > 0 for name in which}
    seen = []
    options = {"callback": lambda now: seen.append((now.phase, now.U.copy(), now.V.copy())) and None}
    result = enmf.factorize(U @ V.T, RANK, random_state=seed, tol=1e-8, **supports, **options)
    for _, left, right in [*(one for one in seen if one[0] == "descent"), ("end", result.U, result.V)]:
        assert "support_U" not in which or not left[U == 0].any()
        assert "support_V" not in which or not right[V == 0].any()
    assert np.diag(cosines(result.V, V)).min() > 0.999


@pytest.mark.parametrize(("loss", "tol"), [("frobenius", 1e-7), ("kullback-leibler", 2e-3)])
def test_the_kkt_residual_counts_what_is_free(loss, tol):
    rng, X = RNG(0), low_rank_noisy(40, 30)
    support = rng.random((40, RANK)) < 0.7
    H = X[:1] + 0.1
    result = enmf.factorize(X, RANK, loss=loss, fixed=H, support_U=support, random_state=0, tol=tol)
    free = np.broadcast_to(np.arange(RANK) >= 1, (30, RANK))
    assert result.certificate.kkt <= tol
    assert not result.U[~support].any()
    assert (result.V[:, 0] == H[0]).all()
    if loss == "frobenius":
        own = residual(X, result.U, result.V, support, free)
        assert result.certificate.kkt == pytest.approx(own, rel=1e-3, abs=1e-12)
        worse = enmf.certify(X, result.U * 1.1, result.V, fixed=H, support_U=support)
        assert worse.kkt == pytest.approx(residual(X, result.U * 1.1, result.V, support, free), rel=1e-6)
    assert "1 fixed" in str(result.certificate)


def test_all_components_known_is_nonnegative_least_squares():
    X, H = low_rank_noisy(30, 20), RNG(0).random((3, 20))
    expected = np.array([nnls(H.T, row)[0] for row in X])
    result = enmf.factorize(X, 3, fixed=H)
    np.testing.assert_allclose(result.U, expected, atol=1e-10)
    model = enmf.ENMF(3, fixed=H)
    np.testing.assert_allclose(model.fit_transform(X), expected, atol=1e-10)
    np.testing.assert_allclose(model.transform(X[::2]), expected[::2], atol=1e-10)
    assert (model.components_ == H).all()


def test_structure_follows_permutations_scales_and_start():
    U, V = planted(3)
    X, support = U @ V.T + 0.05 * RNG(0).random((60, 40)), V > 0
    base = enmf.factorize(X, RANK, support_V=support, random_state=0, tol=1e-9)
    order = RNG(1).permutation(40)
    turned = enmf.factorize(8.0 * X[:, order], RANK, support_V=support[order], random_state=0, tol=1e-9)
    assert turned.error == pytest.approx(8.0 * base.error, rel=1e-6)
    assert matched(turned.V, base.V[order]) > 0.9999
    given = enmf.factorize(X, RANK, support_V=support, init=(base.U, base.V), tol=1e-9)
    assert given.error == pytest.approx(base.error, rel=1e-8)
    named = enmf.factorize(X, RANK, "mu", init="random", support_V=support, random_state=0, max_iter=50, tol=0)
    assert not named.V[~support].any()


@pytest.mark.parametrize("word", ["fixed", "support_U", "support_V", "weights"])
def test_what_is_known_is_permuted_and_transposed_with_x(word):
    (U, V), rng = planted(1), RNG(1)
    X = U @ V.T + 0.05 * rng.random((60, 40))
    w, c, H = rng.uniform(0.2, 5, 60), rng.uniform(0.2, 5, 40), V[:, :2].T
    known = {
        "fixed": lambda p, q: {"fixed": H[:, q]},
        "support_U": lambda p, q: {"support_U": U[p] > 0},
        "support_V": lambda p, q: {"support_V": V[q] > 0},
        "weights": lambda p, q: {"row_weights": w[p], "column_weights": c[q]},
    }[word]
    across = {"support_U": "support_V", "support_V": "support_U"}
    across |= {"row_weights": "column_weights", "column_weights": "row_weights"}
    p, q = rng.permutation(60), rng.permutation(40)
    base = enmf.factorize(X, RANK, random_state=0, tol=1e-9, **known(np.arange(60), np.arange(40)))
    model = base.U @ base.V.T
    turned = enmf.factorize(X[p][:, q], RANK, random_state=0, tol=1e-9, **known(p, q))
    np.testing.assert_allclose(turned.U @ turned.V.T, model[p][:, q], atol=1e-3 * np.abs(model).max())
    if word == "fixed":
        return  # components of the rows cannot be fixed
    there = {across[name]: of for name, of in known(..., ...).items()}
    other = enmf.factorize(X.T, RANK, random_state=0, tol=1e-9, **there)
    np.testing.assert_allclose(other.V @ other.U.T, model, atol=1e-3 * np.abs(model).max())


def test_an_x_of_zeros_keeps_its_known_components():
    result = enmf.factorize(np.zeros((6, 5)), 2, fixed=np.ones((1, 5)))
    assert (result.V[:, 0] == 1).all()
    assert not result.U.any()


@pytest.mark.data
@pytest.mark.parametrize("seed", SEEDS)
def test_half_of_a_converged_fit_determines_the_other_half(real_data, seed):
    """Heavy-tailed counts: the refit ends at the error of the fit, and what it was given stays."""
    X = np.ascontiguousarray(real_data("mutations")[:, ::20])
    whole = enmf.factorize(X, 8, random_state=0, tol=1e-6, max_iter=3000)
    H = whole.V[:, np.sort(RNG(seed).choice(8, 4, replace=False))].T
    again = enmf.factorize(X, 8, fixed=H, random_state=seed)
    assert again.error <= 1.001 * whole.error
    assert (again.V[:, :4] == H.T).all()
    model = enmf.ENMF(8, fixed=whole.V.T, random_state=0).fit(X[:20])
    expected = np.array([nnls(whole.V, row)[0] for row in X])
    np.testing.assert_allclose(model.transform(X), expected, atol=1e-8 * expected.max())


def test_starts_beside_fixed_components_are_compared_for_as_long_as_steps_cost_little():
    """Fixed components leave many minima, and early errors hardly tell which one a start will reach."""
    steps = []
    for n, m in ((60, 40), (4000, 3000)):
        walk = SimpleNamespace(problem=Problem(DenseMatrix(RNG(0).random((n, m), np.float32))), rank=20)
        steps.append(_trial(walk, 3))
    assert steps == [LONG_TRIAL, TRIAL]


def test_trials_count_in_the_outlook_of_the_descent_and_not_in_its_iterations():
    """Otherwise a pause in a long descent looks like the end of one that has just begun."""
    U, V = planted(0)
    X = U @ V.T + 0.1 * RNG(0).random((60, 40))
    with pytest.warns(ConvergenceWarning):
        result = enmf.factorize(X, RANK, fixed=V[:, :2].T, random_state=0, max_iter=5, tol=1e-12)
    assert result.n_iter == 5
    rows = list(result.trace.of("descent"))
    assert [row.iteration for row in rows] == list(range(LONG_TRIAL, LONG_TRIAL + 6))
    assert result.phases["restart"].iterations > 0  # the descent as if nothing were known


# Signs ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("side", ["U", "V"])
def test_one_factor_may_be_negative(side, store):
    rng, (_, F) = RNG(0), planted(0, m=30)
    X = rng.standard_normal((50, RANK)) @ F.T + 0.3 * rng.standard_normal((50, 30))
    X = X.T.copy() if side == "U" else X
    result = enmf.factorize(store(X), RANK, nonnegative=side, random_state=0, tol=1e-5)
    one, other = (result.U, result.V) if side == "U" else (result.V, result.U)
    assert one.min() >= 0 > other.min()
    own = residual(X, result.U, result.V, signed=(side == "V", side == "U"))
    assert result.certificate.kkt == pytest.approx(own, rel=1e-3, abs=1e-12)
    assert own < 1e-4  # it ends at the bound
    assert result.certificate.lower_bound <= result.error == pytest.approx(np.linalg.norm(X - result.U @ result.V.T))
    assert result.error < enmf.factorize(X, RANK, negative="keep", random_state=0).error
    again = enmf.certify(X, result.U, result.V, nonnegative=side)
    assert again.kkt == pytest.approx(own, rel=1e-3, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_semi_nmf_is_the_svd_where_the_constraint_does_not_bind(seed):
    """Rows are centred, so that V has both signs; the leading left singular vector is positive."""
    rng = RNG(seed)
    X = rng.random((50, 6)) @ rng.standard_normal((6, 30)) + 0.1 * rng.standard_normal((50, 30))
    X -= X.mean(axis=1, keepdims=True)
    X[:, 0] += 20.0  # all rows point in about the same direction
    result = enmf.factorize(X, 3, nonnegative="U", random_state=seed)
    best = np.sqrt((np.linalg.svd(X, compute_uv=False)[3:] ** 2).sum())
    assert result.error == pytest.approx(best, rel=1e-6)
    assert result.status == "global_optimum"


@pytest.mark.parametrize(("n", "rank"), [(80, 5), (300, 15)])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_positive_combination_of_columns_is_found_where_there_is_one(seed, n, rank):
    rng = RNG(seed)
    F = rng.standard_normal((n, rank))
    F[:, 0] = 0.1 * np.abs(F[:, 0]) + 0.01 * (seed > 0)
    Q = np.linalg.qr(F @ rng.standard_normal((rank, rank)))[0]
    p = positive_combination(Q)
    assert p.min() > 0
    np.testing.assert_allclose(Q @ (Q.T @ p), p, atol=1e-9 * p.max())
    Q[: n // 2] = -Q[n // 2 :]  # now none is
    assert linprog(np.zeros(rank), -Q, -np.ones(n), bounds=[(None, None)]).status == 2
    assert positive_combination(Q) is None


@pytest.mark.parametrize("side", ["U", "V"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_level_of_all_rows_makes_semi_nmf_of_centred_data_the_svd(side, dtype):
    """The level is no singular vector: a combination of all of them is positive."""
    rng = RNG(3)
    level, pattern = rng.random(80) + 0.5, rng.standard_normal(40)
    X = 10 * np.outer(level, pattern) + rng.standard_normal((80, 3)) @ rng.standard_normal((3, 40))
    X += 0.3 * rng.standard_normal((80, 40))
    X = (X - X.mean(axis=1, keepdims=True)).astype(dtype)
    result = enmf.factorize(X if side == "U" else X.T, 5, nonnegative=side, random_state=0)
    model = result.U.astype(float) @ result.V.T.astype(float)
    best = np.sqrt((np.linalg.svd(X.astype(float), compute_uv=False)[5:] ** 2).sum())
    assert np.linalg.norm((X if side == "U" else X.T) - model) == pytest.approx(best, rel=1e-6)
    assert (result.U if side == "U" else result.V).min() >= 0
    assert result.status == "global_optimum"
    assert result.n_iter < 10


@pytest.mark.parametrize("seed", SEEDS)
def test_one_signed_factor_beside_known_zeros_is_found(seed):
    """Adding one vector to all singular vectors would be no start where zeros are known."""
    _, V = planted(seed)
    U = RNG(seed).standard_normal((60, RANK))
    result = enmf.factorize(U @ V.T, RANK, nonnegative="V", support_V=V > 0, random_state=0)
    assert result.certificate.relative_error < 1e-7
    assert np.diag(cosines(result.U, U)).min() > 0.999


def test_negative_entries_stay_on_request_and_the_message_says_so():
    X = RNG(0).standard_normal((30, 20)) + 0.5
    with pytest.raises(ValueError, match=r"negative='keep'.*nonnegative='V'"):
        enmf.factorize(X, 3)
    result = enmf.factorize(X, 3, negative="keep", random_state=0, tol=1e-8)
    assert min(result.U.min(), result.V.min()) >= 0
    assert residual(X, result.U, result.V) < 1e-7
    W = enmf.ENMF(3, nonnegative="V", random_state=0).fit_transform(X)
    assert W.min() < 0


@pytest.mark.parametrize("side", ["U", "V"])
def test_a_fit_with_signs_can_be_continued(side):
    """Factors to start from may be negative where the result may."""
    X = RNG(0).standard_normal((20, 15))
    first = enmf.factorize(X, 3, nonnegative=side, random_state=0, max_iter=5, tol=0)
    again = enmf.factorize(X, 3, nonnegative=side, init=(first.U, first.V), max_iter=5, tol=0)
    assert again.error <= first.error * (1 + 1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_semi_nmf_of_centred_data_uses_one_component_for_the_level(seed):
    """Columns are centred: no combination of singular vectors is positive, but [Q + p, 1] is, of one fewer."""
    X = RNG(seed).standard_normal((40, 20))
    X -= X.mean(axis=0)
    result = enmf.factorize(X, 4, nonnegative="U", random_state=seed)
    values = np.linalg.svd(X, compute_uv=False)
    assert np.sqrt((values[4:] ** 2).sum()) < result.error <= np.sqrt((values[3:] ** 2).sum())


# Symmetry -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_symmetric_truth_is_found_and_both_factors_are_equal(seed):
    U, _ = planted(seed)
    result = enmf.factorize(U @ U.T, RANK, symmetric=True, random_state=seed)
    assert (result.U == result.V).all()
    assert matched(result.U, U) > 0.999


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_block_models_are_found(store):
    rng = RNG(0)
    z = rng.integers(0, 3, 90)
    A = np.triu(rng.random((90, 90)) < np.where(z[:, None] == z, 0.6, 0.05), 1).astype(float)
    A += A.T
    result = enmf.factorize(store(A), 3, symmetric=True, random_state=0, tol=1e-7)
    found = result.U.argmax(axis=1)
    assert all(len(set(z[found == k])) == 1 for k in range(3))
    values = np.sort(np.linalg.eigvalsh(A))[::-1][:3]
    bound = np.sqrt(np.linalg.norm(A) ** 2 - (np.maximum(values, 0) ** 2).sum())
    assert result.certificate.lower_bound == pytest.approx(bound, rel=1e-9)
    assert residual(A, result.U, result.U) < 1e-6
    errors = [row.error for row in result.trace.of("descent")]
    assert all(b <= a * (1 + 1e-9) for a, b in itertools.pairwise(errors))
    order = rng.permutation(90)
    other = enmf.factorize(store(A[order][:, order]), 3, symmetric=True, random_state=0, tol=1e-7)
    assert other.error == pytest.approx(result.error, rel=1e-6)


def test_the_step_of_a_symmetric_descent_is_the_best_one():
    rng = RNG(0)
    X, U, D = rng.random((12, 12)), rng.random((12, 3)), rng.standard_normal((12, 3))
    X += X.T
    D *= -np.sign(np.vdot((U @ U.T - X) @ U, D))
    t = _best_step(U, U.T @ U, X @ U, D, X @ D)
    values = [np.linalg.norm(X - (U + s * D) @ (U + s * D).T) for s in np.linspace(0, 1, 2001)]
    assert t == pytest.approx(np.argmin(values) / 2000, abs=1e-3)


def test_eigenvectors_of_a_large_matrix_come_from_products(monkeypatch):
    rng = RNG(0)
    A = rng.random((80, 5))
    X = DenseMatrix(A @ A.T - 0.5)
    exact = positive_part(X, 3, rng)
    monkeypatch.setattr("enmf.linalg.eigen.WHOLE", 10)
    iterative = positive_part(X, 3, rng)
    np.testing.assert_allclose(iterative.s[:3], exact.s, rtol=1e-4)


@pytest.mark.parametrize("negative", [0, 40])
def test_a_large_symmetric_x_is_searched_among_its_positive_eigenvalues(negative, monkeypatch):
    """Also where many negative ones, which are larger, leave no room for them in a block of singular vectors."""
    rng = RNG(1)
    Q = np.linalg.qr(rng.standard_normal((150, 4 + negative)))[0]
    X = DenseMatrix((Q * np.append(np.full(negative, -9.0), [4.0, 3.0, 2.0, 1.0])) @ Q.T)
    monkeypatch.setattr("enmf.linalg.eigen.WHOLE", 10)
    found = positive_part(X, 4, rng)
    np.testing.assert_allclose(found.s[:4], [4.0, 3.0, 2.0, 1.0], rtol=1e-3)
    assert found.kind == ("krylov" if negative else "randomized")


@pytest.mark.parametrize("sides", [1, 2])
def test_a_large_symmetric_x_begins_at_a_start_without_symmetry_if_its_factors_agree(sides, monkeypatch):
    """Those of a graph with two sides do not: its components come in pairs (u, v) and (v, u)."""
    rng = RNG(0)
    z = rng.integers(0, 4, 200)
    linked = z[:, None] == z if sides == 1 else (z[:, None] // 2 == z // 2) & (z[:, None] != z)
    A = np.triu(rng.random((200, 200)) < np.where(linked, 0.5, 0.05), 1).astype(float)
    A += A.T
    small = enmf.factorize(A, 4, symmetric=True, random_state=0)
    monkeypatch.setattr("enmf.linalg.eigen.WHOLE", 10)
    searched = []
    monkeypatch.setattr("enmf.exterior.symmetric.positive_part", lambda *of: searched.append(of) or positive_part(*of))
    result = enmf.factorize(A, 4, symmetric=True, random_state=0)
    assert bool(searched) == (sides == 2)
    assert result.error == pytest.approx(small.error, rel=1e-3)
    assert result.certificate.lower_bound <= small.error
    assert (result.U == result.V).all()


@pytest.mark.data
def test_a_network_of_people_is_explained_as_well_by_one_factor_as_by_two(real_data):
    X = real_data("friends")
    one = enmf.factorize(X, 30, symmetric=True, random_state=0)
    two = enmf.factorize(X, 30, random_state=0)
    assert (one.U == one.V).all()
    assert one.error <= 1.001 * two.error
    assert one.n_iter <= 4 * two.n_iter


# Several tables -------------------------------------------------------------------------------------------------------


def test_tables_are_one_matrix_with_one_v():
    X = low_rank_noisy(60, 20)
    whole = enmf.factorize(X, 3, random_state=0, tol=1e-9, row_weights=np.repeat([1.0, 5.0], [25, 35]))
    for first, second in itertools.product([np.asarray, sp.csr_array], repeat=2):
        tables = [first(X[:25]), second(X[25:])]
        result = enmf.factorize(tables, 3, random_state=0, tol=1e-9, row_weights=[1.0, np.full(35, 5.0)])
        assert result.error == pytest.approx(whole.error, rel=1e-6)
        assert [len(U) for U in result.tables] == [25, 35]
        assert result.certificate.lower_bound == pytest.approx(whole.certificate.lower_bound, rel=1e-6)
    assert len(whole.tables) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_private_components_belong_to_one_table(seed):
    U, V = planted(seed, n=80)
    U[:30, 3], U[30:, 2] = 0, 0
    tables = [U[:30] @ V.T, sp.csr_array(U[30:] @ V.T)]
    support = [[True, True, True, False], [True, True, False, True]]
    result = enmf.factorize(tables, RANK, support_U=support, random_state=seed, tol=1e-8)
    assert np.diag(cosines(result.V, V))[2:].min() > 0.99
    assert not result.tables[0][:, 3].any()
    assert not result.tables[1][:, 2].any()


def test_stacked_and_lessened_matrices_are_what_they_stand_for():
    rng = RNG(0)
    X = rng.random((30, 12)) * (rng.random((30, 12)) < 0.5)
    A, B = rng.random((30, 2)), rng.random((12, 2))
    stacked = StackedMatrix([DenseMatrix(X[:10]), SparseMatrix(sp.csr_array(X[10:]))])
    for matrix, plain in ((stacked, X), (LessMatrix(stacked, A, B), X - A @ B.T)):
        U, V = rng.random((30, 3)), rng.random((12, 3))
        raw = matrix.raw()
        np.testing.assert_allclose(raw.toarray() if sp.issparse(raw) else raw, plain)
        np.testing.assert_allclose(matrix.times(V), plain @ V)
        np.testing.assert_allclose(matrix.transpose_times(U), plain.T @ U)
        np.testing.assert_allclose(matrix.gram(), plain.T @ plain, atol=1e-12)
        np.testing.assert_allclose(matrix.row_squares(), (plain**2).sum(axis=1))
        assert matrix.squared_residual(U, V) == pytest.approx(np.linalg.norm(plain - U @ V.T) ** 2)
        picked = matrix._rows(np.array([1, 5, 17]), np.array([1.0, 2.0, 3.0]))
        np.testing.assert_allclose(picked.times(V), (plain[[1, 5, 17]] * [[1], [2], [3]]) @ V)


# Elsewhere ------------------------------------------------------------------------------------------------------------


def test_the_command_line_reads_what_is_known_from_files(tmp_path):
    runner = pytest.importorskip("typer.testing").CliRunner()
    from enmf.cli.commands import app

    rng = RNG(0)
    X, H, w = low_rank_noisy(20, 8), rng.random((1, 8)), rng.uniform(1, 2, 20)
    for name, values in {"X": X, "H": H, "w": w[:, None], "S": np.arange(24).reshape(8, 3) > 5}.items():
        np.savetxt(tmp_path / f"{name}.csv", values, delimiter=",")
    files = ["--fixed", tmp_path / "H.csv", "--row-weights", tmp_path / "w.csv"]
    out = ["--out", tmp_path / "r.npz", "--force"]
    done = runner.invoke(app, ["factorize", str(tmp_path / "X.csv"), "-r", "3", *map(str, [*files, *out])])
    assert done.exit_code == 0, done.output
    assert "1 fixed components; weights" in done.output
    result = enmf.factorize(X, 3, fixed=H, row_weights=w, random_state=0)
    with np.load(tmp_path / "r.npz") as saved:
        np.testing.assert_allclose(saved["V"][:, 0], H[0], rtol=1e-15)  # the other two are free to turn
        np.testing.assert_allclose(saved["U"] @ saved["V"].T, result.U @ result.V.T, rtol=1e-5, atol=1e-9)
    support = ["--support-v", str(tmp_path / "S.csv")]
    done = runner.invoke(app, ["factorize", str(tmp_path / "X.csv"), "-r", "3", *support, *map(str, out)])
    assert done.exit_code == 0, done.output
    with np.load(tmp_path / "r.npz") as saved:
        assert not saved["V"][:2].any()


def test_estimators_take_the_same_words():
    X = low_rank_noisy(40, 15)
    c = RNG(0).uniform(0.5, 2, 15)
    model = enmf.ENMF(3, column_weights=c, random_state=0)
    W = model.fit_transform(X)
    np.testing.assert_allclose(model.transform(X), W, rtol=1e-6, atol=1e-9)
    root = np.sqrt(c)
    expected = np.array([nnls((model.components_ * root).T, row * root)[0] for row in X])
    np.testing.assert_allclose(W, expected, atol=1e-8)
    model = enmf.ENMF(2, symmetric=True, random_state=0).fit(X.T @ X)
    assert (model.fit_transform(X.T @ X) == model.components_.T).all()


# What is refused ------------------------------------------------------------------------------------------------------

SQUARE = low_rank_noisy(12, 12) + low_rank_noisy(12, 12).T
WORDS = {
    "fixed": np.ones((1, 12)),
    "support_U": np.arange(24).reshape(12, 2) > 0,
    "support_V": np.arange(24).reshape(12, 2) > 0,
    "row_weights": np.arange(1.0, 13.0),
    "column_weights": np.arange(1.0, 13.0),
    "nonnegative": "V",
    "negative": "keep",
    "symmetric": True,
    "simplex": "U",
    "smooth": 0.5,
    "total_variation": 0.05,
    "guide": [[0, 1]],
}
LOSSES = {"frobenius": set(), "kullback-leibler": {"other losses"}, "itakura-saito": {"other losses", "itakura-saito"}}


def stored(kind, X):
    if kind == "blocks":
        import h5py

        file = h5py.File("structure", "w", driver="core", backing_store=False)
        return file.create_dataset("X", data=X, chunks=(4, 12))
    makers = {
        "dense": np.asarray,
        "sparse": sp.csr_array,
        "single": np.float32,
        "sparse single": lambda X: sp.csr_array(X.astype(np.float32)),
        "integers": lambda X: np.round(8 * X).astype(int),
        "tables": lambda X: [X[:5], sp.csr_array(X[5:])],
        "tables in single": lambda X: [X[:5].astype(np.float32), X[5:].astype(np.float32)],
        "masked": lambda X: np.ma.masked_greater(X, X.mean()),
    }
    return makers[kind](X)


def attempt(X, method, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        options |= {"restarts": 0} if method == "enmf" else {}
        return enmf.factorize(X, 2, method, max_iter=2, random_state=0, **options)


def check_obeyed(result, word):
    """What is known is obeyed, whatever the method, after few iterations."""
    U, V = result.U, result.V
    assert np.isfinite(U).all()
    assert np.isfinite(V).all()
    assert np.isfinite([result.error, result.certificate.kkt]).all()
    assert word == "nonnegative" or U.min() >= 0
    assert V.min() >= 0
    if word == "fixed":
        assert (V[:, :1] == WORDS["fixed"].T).all()
    if word.startswith("support"):
        assert not (U if word == "support_U" else V)[~WORDS[word]].any()
    if word == "symmetric":
        assert (U == V).all()
    if word == "simplex":
        np.testing.assert_allclose(U.sum(axis=1), 1, rtol=1e-5)


STORAGE = ["dense", "sparse", "single", "sparse single", "integers", "tables", "tables in single", "masked", "blocks"]


@pytest.mark.parametrize("kind", STORAGE)
@pytest.mark.parametrize("word", WORDS)
def test_every_combination_works_or_is_refused_by_the_table(word, kind):
    """Structure x method x storage x loss."""
    if kind == "blocks":
        pytest.importorskip("h5py")
    X = stored(kind, np.maximum(SQUARE, 0.1) - (word == "negative"))
    for loss, things in LOSSES.items():
        for method in enmf.methods(loss):
            needs = set(DESCENTS[method].needs if method in DESCENTS else {"half-step"})
            needs |= {"another method"} if method in DESCENTS else set()
            needs |= {"blocks"} if kind == "blocks" else set()
            refused = any((word, thing) in REFUSED for thing in needs | things)
            if kind == "masked":
                with pytest.raises(ValueError, match="is a masked array"):
                    attempt(X, method, loss=loss, **{word: WORDS[word]})
            elif refused:
                with pytest.raises(ValueError, match=r"cannot be combined|blocks|negative|needs"):
                    attempt(X, method, loss=loss, **{word: WORDS[word]})
            elif kind != "blocks":
                check_obeyed(attempt(X, method, loss=loss, **{word: WORDS[word]}), word)


@pytest.mark.parametrize(("one", "two"), list(itertools.combinations(WORDS, 2)))
def test_words_go_together_or_are_refused_by_the_table(one, two):
    if (one, two) in REFUSED or (two, one) in REFUSED or (one, two) == ("support_U", "nonnegative"):
        with pytest.raises(ValueError, match=r"cannot be combined|is for a nonnegative factor"):
            attempt(SQUARE, "enmf", **{word: WORDS[word] for word in (one, two)})
    else:
        words = {word: WORDS[word] for word in (one, two)}
        words |= (
            {"fixed": np.full((1, 12), 1.0) * (~words["support_V"][:, 0] == 0)}
            if {one, two} == {"fixed", "support_V"}
            else {}
        )
        assert np.isfinite(attempt(SQUARE, "enmf", **words).error)


@pytest.fixture(scope="module")
def refused():
    """docs/refused.py, which makes the table of the page."""
    spec = importlib.util.spec_from_file_location("refused", Path(__file__).parents[1] / "docs" / "refused.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_shows_the_table(refused):
    assert refused.page() == refused.PAGE.read_text(encoding="utf-8"), "run python docs/refused.py"


def test_the_table_has_every_word_method_and_reason(refused):
    shown = refused.table()
    methods = {*enmf.methods(), *enmf.methods("kullback-leibler")} - {"enmf"}
    assert [name for name in (*WORDS, *sorted(methods)) if f"`{name}`" not in shown] == []
    assert all(f": {reason}\n" in shown + "\n" for reason in set(REFUSED.values()))
    for (word, thing), reason in REFUSED.items():
        with pytest.raises(ValueError, match="cannot be combined") as error:
            refuse([word], [thing])
        assert str(error.value) == f"{word} cannot be combined with {THINGS.get(thing, thing)}: {reason}"
        assert "\n" not in reason


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fixed": np.ones((3, 12))}, "fixed must have shape"),
        ({"fixed": np.ones((1, 11))}, "fixed must have shape"),
        ({"fixed": np.zeros((1, 12))}, "components that are zero"),
        ({"fixed": -np.ones((1, 12))}, "negative entries"),
        ({"support_V": np.ones((12, 2))}, "must be boolean"),
        ({"support_V": np.ones((12, 3), bool)}, "must have shape"),
        ({"support_U": np.arange(24).reshape(12, 2) % 2 > 0}, "leaves 1 components nothing"),
        ({"fixed": np.ones((1, 12)), "support_V": WORDS["support_V"]}, "of the fixed components"),
        ({"row_weights": np.ones(11)}, "12 numbers, one for each row"),
        ({"column_weights": np.zeros(12)}, "must be positive and finite: 12 of 12"),
        ({"nonnegative": "W"}, "not known"),
        ({"negative": "drop"}, "not known"),
        ({"symmetric": 1}, "True or False"),
        ({"nonnegative": "V", "l1_U": 1.0}, "a penalty"),
        ({"fixed": np.ones((1, 12)), "checkpoint": "somewhere"}, "checkpoint"),
        ({"fixed": [[1, 2], [1]]}, "fixed must be an array: its rows have different lengths"),
        ({"support_U": [[True], [True, False]]}, "support_U must be an array: its rows have different lengths"),
        ({"symmetric": True, "init": "random"}, "two different factors"),
        ({"symmetric": True, "init": (np.eye(12, 2), np.ones((12, 2)))}, "equal factors"),
        ({"symmetric": True, "scale": "sum"}, "U and V would differ"),
        ({"nonnegative": "U", "scale": "sum"}, "may be negative is no size"),
        ({"fixed": np.full((1, 12), 1e200)}, "too large or too small for X, the first is row 0"),
        ({"fixed": np.full((1, 12), 1e-200)}, "too large or too small for X"),
        ({"fixed": np.full((1, 12), 1e60), "dtype": np.float32}, "too large or too small for X"),
        ({"row_weights": np.logspace(-300, 300, 12)}, "row_weights are too far apart"),
        ({"column_weights": np.logspace(-1, 1, 12), "loss": 0.01}, "column_weights are too far apart"),
        ({"row_weights": np.full(12, 5e-324)}, "entries of the weighted X are too small"),
        ({"guide_weight": 2.0}, "give guide, too"),
        (
            {"fixed": np.ones((1, 12)), "descent": "anls-bpp"},
            "fixed cannot be combined with method 'anls-bpp': its steps",
        ),
        ({"support_V": np.arange(24).reshape(12, 2) > 1, "loss": "kullback-leibler"}, "belong to no component"),
        ({"fixed": np.eye(12)[:2], "loss": "itakura-saito"}, "because of fixed, 120 positive entries"),
        ({"support_U": np.eye(12, 2) > 0, "loss": 0.5}, "the first at row 2, column 0, belong to no component"),
    ],
)
def test_bad_words_are_refused_by_one_sentence(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        attempt(SQUARE, "enmf", **options)


def test_a_loss_may_be_infinite_elsewhere_than_where_x_is_zero():
    """Components of two blocks, and zeros between them; squares and beta > 1 are finite everywhere."""
    blocks = np.kron(np.eye(2), np.ones((3, 4)))
    supports = {"support_U": blocks[:, ::4] > 0, "support_V": blocks[::3].T > 0}
    for store in (np.asarray, sp.csr_array):
        result = enmf.factorize(store(blocks), 2, loss="kullback-leibler", **supports)
        np.testing.assert_allclose(result.U @ result.V.T, blocks, atol=1e-6)
        supports["support_V"][0, 0] = False
        with pytest.raises(ValueError, match="3 positive entries of X, the first at row 0, column 0"):
            enmf.factorize(store(blocks), 2, loss="kullback-leibler", **supports)
        assert np.isfinite(enmf.factorize(store(blocks), 2, loss=1.5, **supports).error)
        supports["support_V"][0, 0] = True


@pytest.mark.parametrize("word", WORDS)
def test_words_that_mean_nothing_elsewhere_are_refused_there(word):
    """Batches of rows, missing entries: they would be ignored, or called unknown."""
    if word not in ("support_U", "support_V", "row_weights"):
        for learn in ("partial_fit", "fit_stream"):
            with pytest.raises(ValueError, match=f"{word} cannot be combined with batches of rows"):
                getattr(enmf.ENMF(2, **{word: WORDS[word]}), learn)([SQUARE] if learn == "fit_stream" else SQUARE)
    with pytest.raises(ValueError, match=f"{word} cannot be combined with missing entries"):
        enmf.complete(np.where(SQUARE.mean() < SQUARE, np.nan, SQUARE), 2, **{word: WORDS[word]})
    if word in ("negative", "nonnegative"):
        for masked in ({"mask": SQUARE > 1}, {"weights": SQUARE}, {"ridge": 0.1}):
            with pytest.raises(ValueError, match=f"{word} cannot be combined with missing entries"):
                enmf.certify(SQUARE, np.ones((12, 2)), np.ones((12, 2)), **masked, **{word: WORDS[word]})


def test_tables_are_certified_as_they_are_factorized():
    X = low_rank_noisy(40, 12)
    tables, weights = [X[:15], sp.csr_array(X[15:])], [1.0, 3.0]
    result = enmf.factorize(tables, 2, row_weights=weights, random_state=0)
    again = enmf.certify(tables, result.U, result.V, row_weights=weights)
    assert (again.error, again.kkt) == pytest.approx((result.error, result.certificate.kkt), rel=1e-6)
    with pytest.raises(ValueError, match="X is a list of tables"):
        enmf.certify(tables, result.U, result.V, ridge=0.1)


def test_an_x_that_is_all_negative_has_zero_factors_without_a_warning_of_numpy():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.warns(UserWarning, match="all components are zero"):
            assert not enmf.factorize(-SQUARE, 2, negative="keep", random_state=0).U.any()


def test_a_matrix_that_is_not_symmetric_and_tables_that_do_not_fit_are_refused():
    X = SQUARE.copy()
    X[0, 1] += 1
    with pytest.raises(ValueError, match="1 pairs of entries differ"):
        enmf.factorize(X, 2, symmetric=True)
    with pytest.raises(ValueError, match="square"):
        enmf.factorize(X[:5], 2, symmetric=True)
    with pytest.raises(ValueError, match="same columns"):
        enmf.factorize([X[:5], X[:, :5]], 2)
    with pytest.raises(ValueError, match=r"row_weights of table 1 must have shape \(\) or \(5,\)"):
        enmf.factorize([X, X[:5]], 2, row_weights=[1, [1, 2]])
    with pytest.raises(ValueError, match="support_U of table 0 must have shape"):
        enmf.factorize([X, X[:5]], 2, support_U=[None, [True, True]])
    with pytest.raises(ValueError, match="table 1"):
        enmf.factorize([X[:5], -X], 2)
    with pytest.raises(ValueError, match="not zero where support_V"):
        enmf.certify(X, np.ones((12, 2)), np.ones((12, 2)), support_V=WORDS["support_V"])


def test_tables_with_names_have_the_same_ones_in_the_same_order():
    """They would be added up by place, and nobody would notice."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(SQUARE, columns=list("abcdefghijkl"))
    with pytest.raises(ValueError, match="in the same order: reorder"):
        enmf.factorize([frame, frame[frame.columns[::-1]]], 2)
    with pytest.raises(ValueError, match="one has 'z', another has not"):
        enmf.factorize([frame, frame.rename(columns={"a": "z"})], 2)
    assert enmf.factorize([frame, SQUARE], 2).feature_names == list("abcdefghijkl")


def test_a_component_that_resembles_a_fixed_one_gives_way_not_a_small_one():
    V = np.eye(6)[:, :3] + 0.01
    U = np.ones((5, 3)) * [10.0, 1.0, 0.01]
    slightly_off = V[:, [0]] + 0.05 * V[:, [1]]
    places = match(U, V, Structure(V=Side(fixed=slightly_off)))
    assert places[0] == 0
    assert sorted(places) == [0, 1, 2]
