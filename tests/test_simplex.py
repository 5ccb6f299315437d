"""simplex="U": every row of X is a mixture of the components."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import nnls
from sklearn.exceptions import ConvergenceWarning

import enmf
import problems
import slow
from enmf.matrix.simplex import nearest_mixture, solve_simplex


def planted(seed=0, noise=0.0, n=150, m=30, r=4):
    """Mixtures with some pure rows, of components with a feature of their own each: unique."""
    rng = np.random.default_rng(seed)
    U = np.vstack([np.eye(r), rng.dirichlet(np.full(r, 0.5), n - r)])
    V = np.vstack([3.0 * np.eye(r), 2.0 * rng.random((m - r, r))])
    return np.maximum(U @ V.T + noise * rng.standard_normal((n, m)), 0), U, V


def matched(F, truth):
    """The columns of F in the order of those of the truth, which they resemble most."""
    cosines = (F / np.linalg.norm(F, axis=0)).T @ (truth / np.linalg.norm(truth, axis=0))
    return F[:, cosines.argmax(0)], cosines.max(0)


def projected(F, D):
    """The gradient D of F with the multiplier of every row, projected."""
    D = D - (F * D).sum(1, keepdims=True) / F.sum(1, keepdims=True)
    return np.where(F > 0, D, np.minimum(D, 0))


@pytest.mark.parametrize("kind", ["regular", "equal columns", "a column of zeros"])
@pytest.mark.parametrize("r", [1, 2, 5, 9])
def test_rows_are_solved_exactly(r, kind):
    rng = np.random.default_rng(r)
    A, X = rng.random((12, r)), rng.random((60, 12))
    if r > 2 and kind != "regular":
        A[:, 1] = A[:, 0] if kind == "equal columns" else 0.0
    G, B = A.T @ A, X @ A
    for total, start in ((1.0, None), (0.25, rng.random((60, r)))):
        F = solve_simplex(G, B, total, start)
        assert F.min() >= 0
        np.testing.assert_allclose(F.sum(1), total, rtol=1e-14)
        assert abs(projected(F, F @ G - B)).max() < 1e-11
    # an equality with a large weight is nearly a constraint
    heavy = np.vstack([A, np.full(r, 1e4)])
    for x, f in zip(X[:5], solve_simplex(G, B, 1.0)):
        wanted, _ = nnls(heavy, np.append(x, 1e4))
        np.testing.assert_allclose(A @ f, A @ wanted, atol=1e-5)


def test_the_nearest_mixture_is_the_solution_for_orthonormal_components():
    Y = np.random.default_rng(0).standard_normal((40, 6))
    np.testing.assert_allclose(nearest_mixture(Y, 2.0), solve_simplex(np.eye(6), Y, 2.0), atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_planted_mixtures_are_found(seed):
    X, U, V = planted(seed)
    result = enmf.factorize(X, 4, simplex="U", random_state=seed)
    assert matched(result.V, V)[1].min() > 0.99
    np.testing.assert_allclose(result.U.sum(1), 1.0, rtol=1e-12)
    noisy = enmf.factorize(planted(seed, 0.02)[0], 4, simplex="U", random_state=seed)
    assert matched(noisy.V, V)[1].min() > 0.99
    assert matched(noisy.U, U)[1].min() > 0.99
    assert abs(matched(noisy.U, U)[0] - U).mean() < 0.05


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_the_certificate_is_that_of_the_constrained_problem_in_plain_numpy(store):
    X, *_ = planted(noise=0.3)
    result = enmf.factorize(store(X), 3, simplex="U", random_state=0, tol=1e-6)
    U, V, c = result.U, result.V, result.certificate
    assert result.status == "converged"
    assert result.error == pytest.approx(np.linalg.norm(X - U @ V.T))
    R = U @ V.T - X
    gV = R.T @ U
    d = np.linalg.norm(V, axis=0) / np.linalg.norm(U, axis=0)  # at balanced columns
    parts = (projected(U, R @ V) ** 2).sum(0) / d, (np.where(V > 0, gV, np.minimum(gV, 0)) ** 2).sum(0) * d
    residual = np.sqrt(sum(part.sum() for part in parts)) / np.linalg.norm(X) ** 1.5
    assert residual == pytest.approx(c.kkt, rel=1e-4)
    assert residual <= 1.001e-6
    assert c.lower_bound <= slow.bound(X, 3) * (1 + 1e-12) <= result.error
    assert "rows of U sum to one" in str(c)


def test_solving_is_better_than_normalizing_afterwards():
    X, *_ = planted(noise=0.3)
    result = enmf.factorize(X, 4, simplex="U", random_state=0)
    plain = enmf.factorize(X, 4, random_state=0)
    d = np.linalg.lstsq(plain.U, np.ones(len(X)), rcond=None)[0]
    U, V = np.maximum(plain.U * d, 0), plain.V / d
    normalized = np.linalg.norm(X - U / U.sum(1, keepdims=True) @ V.T)
    assert plain.error <= result.error < normalized


def test_no_step_raises_the_error():
    X, *_ = planted(noise=0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = enmf.factorize(X, 4, "hals", simplex="U", init="random", random_state=0, max_iter=40)
    errors = [row.error for row in result.trace.of("descent")]
    assert all(b <= a * (1 + 1e-12) for a, b in itertools.pairwise(errors))


def test_units_go_to_v_and_order_to_its_own_factor():
    X, *_ = planted(noise=0.05)
    rows, columns = np.random.default_rng(1).permutation(150), np.random.default_rng(2).permutation(30)
    fit = {"simplex": "U", "random_state": 0, "tol": 1e-7}
    base, other = enmf.factorize(X, 4, **fit), enmf.factorize(3e5 * X[rows][:, columns], 4, **fit)
    np.testing.assert_allclose(other.U, base.U[rows], atol=2e-3)
    np.testing.assert_allclose(other.V / 3e5, base.V[columns], atol=2e-2)


def test_known_components_leave_only_the_mixtures():
    X, _, V = planted(noise=0.1)
    result = enmf.factorize(X, 4, simplex="U", fixed=V.T)
    np.testing.assert_array_equal(result.V, V)
    np.testing.assert_allclose(result.U, solve_simplex(V.T @ V, X @ V, 1.0), atol=1e-9)


def test_single_precision_exact_u_and_no_data():
    X, *_ = planted(noise=0.05)
    result = enmf.factorize(X.astype(np.float32), 4, simplex="U", random_state=0, exact_U=True)
    assert result.U.dtype == np.float32
    np.testing.assert_allclose(result.U.sum(1), 1.0, atol=1e-6)
    U = solve_simplex(result.V.T @ result.V, X.astype(np.float32) @ result.V, 1.0)
    np.testing.assert_allclose(result.U, U, atol=1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nothing = enmf.factorize(np.zeros((5, 4)), 2, simplex="U")
    np.testing.assert_allclose(nothing.U.sum(1), 1.0)


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"simplex": "V"}, "simplex='V' is not known; choose one of 'U'"),
        ({"row_weights": np.ones(9)}, "cannot be combined with row_weights"),
        ({"support_U": np.ones((9, 2), bool)}, "cannot be combined with support_U"),
        ({"nonnegative": "V"}, "cannot be combined with nonnegative"),
        ({"smooth": 1.0}, "smooth cannot be combined with simplex"),
        ({"scale": "sum"}, "scale='sum' cannot be combined with a penalty or simplex"),
        ({"l2_U": 1.0}, "simplex cannot be combined with a penalty: the sums decide on the size"),
        ({"loss": "kullback-leibler"}, "simplex cannot be combined with another loss than 'frobenius'"),
        ({"method": "mu"}, "simplex cannot be combined with method"),
    ],
)
def test_what_is_refused(known, message):
    with pytest.raises(ValueError, match=message):
        enmf.factorize(problems.dense(9, 6), 2, **{"simplex": "U", **known})


@pytest.mark.parametrize("unit", [1e-60, 1e60])
def test_rows_sum_to_one_whatever_the_unit_of_the_known_components(unit):
    """What these explain of such an X is far below rounding, and the constraint holds all the same."""
    rng = np.random.default_rng(0)
    X, H = unit * rng.random((10, 25)), rng.random((3, 25))
    for known in (H, H[:1]):
        U = enmf.factorize(X, 3, fixed=known, simplex="U", random_state=0, max_iter=20, tol=0).U
        np.testing.assert_allclose(U.sum(axis=1), 1.0, rtol=1e-9)
