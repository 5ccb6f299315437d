"""Smooth components: penalties on differences of neighbouring features, judged by plain NumPy."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import nnls

import enmf
import problems
from enmf.linalg.obstacle import Obstacle
from enmf.problem.layers import Smooth
from enmf.problem.problem import Penalty, Problem
from enmf.problem.state import State
from enmf.problem.validation.arrays import check_problem
from enmf.solvers.hals import HALS

KINDS = ["smooth", "total_variation"]


def neighbours(grid):
    """D: one row for each pair of neighbouring cells."""
    index = np.arange(np.prod(grid)).reshape(grid)
    pairs = [
        (a, b)
        for axis in range(index.ndim)
        for a, b in zip(np.delete(index, -1, axis).ravel(), np.delete(index, 0, axis).ravel())
    ]
    D = np.zeros((len(pairs), index.size))
    for e, (a, b) in enumerate(pairs):
        D[e, a], D[e, b] = -1.0, 1.0
    return D


def gradients(X, U, V, grid, weight, kind):
    """Of loss plus penalty, by the formulas of docs/structure.md."""
    D, a, R = neighbours(grid), (U**2).sum(0), U @ V.T - X
    d = D @ V
    typical = np.linalg.norm(X) / np.sqrt(X.shape[1])
    w = weight if kind == "smooth" else weight * typical / np.sqrt(a * d**2 + (1e-3 * typical) ** 2)
    return R @ V + U * (w * d**2).sum(0), R.T @ U + D.T @ (a * w * d)


def objective(X, U, V, grid, weight, kind):
    q = (U**2).sum(0) * (neighbours(grid) @ V) ** 2
    s = np.linalg.norm(X) / np.sqrt(X.shape[1])
    penalty = q.sum() / 2 if kind == "smooth" else s * (np.sqrt(q + (1e-3 * s) ** 2) - 1e-3 * s).sum()
    return ((X - U @ V.T) ** 2).sum() / 2 + weight * penalty


def peaks(n=60, m=80, noise=0.3, seed=0):
    """Smooth bumps on a line, and flat ones."""
    rng, t = np.random.default_rng(seed), np.linspace(0, 1, m)
    U = rng.gamma(1.0, 1.0, (n, 3)) * (rng.random((n, 3)) < 0.6)
    bumps = np.stack([np.exp(-(((t - c) / 0.08) ** 2)) for c in (0.2, 0.5, 0.75)], 1)
    steps = np.stack([(abs(t - c) < 0.12).astype(float) for c in (0.2, 0.5, 0.75)], 1)
    return [(np.maximum(U @ V.T + noise * rng.standard_normal((n, m)), 0), V) for V in (bumps, steps)]


def cosines(V, truth):
    V, truth = (F / np.linalg.norm(F, axis=0) for F in (V, truth))
    return (V.T @ truth).max(0)


@pytest.mark.parametrize("grid", [(12,), (3, 4), (2, 3, 2)])
def test_the_obstacle_problem_is_solved_exactly(grid):
    rng, m = np.random.default_rng(0), 12
    smooth, D = Smooth(1.0, grid), neighbours(grid)
    for strength in (0.1, 1.0, 30.0):
        couplings = {s: strength * there for s, there in smooth.axes.items()}
        M, c = 0.7 * np.eye(m) + strength * D.T @ D, rng.standard_normal(m)
        root = np.linalg.cholesky(M).T
        wanted, _ = nnls(root, np.linalg.solve(root.T, c))
        for guess in (np.ones(m, bool), np.zeros(m, bool), rng.random(m) < 0.5):
            np.testing.assert_allclose(Obstacle(0.7, couplings, c).solve(guess), wanted, atol=1e-12)


@pytest.mark.parametrize("grid", [(48,), (8, 6)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_stationary_points_satisfy_the_kkt_conditions_in_plain_numpy(kind, grid, store):
    X = problems.counts(50, 48)
    weight = {"smooth": 0.3, "total_variation": 0.03}[kind]
    result = enmf.factorize(store(X), 3, random_state=0, tol=1e-7, **{kind: weight, "grid": grid})
    assert result.status == "converged"
    U, V = result.U, result.V
    np.testing.assert_allclose(np.linalg.norm(U, axis=0), np.linalg.norm(V, axis=0))
    projected = [np.where(F > 0, g, np.minimum(g, 0)) for F, g in zip((U, V), gradients(X, U, V, grid, weight, kind))]
    residual = np.sqrt(sum((P**2).sum() for P in projected)) / np.linalg.norm(X) ** 1.5
    assert residual == pytest.approx(result.certificate.kkt, rel=1e-4, abs=1e-12)
    assert residual <= 1.001e-7
    assert not result.certificate.globally_optimal
    assert result.certificate.lower_bound <= result.error


@pytest.mark.parametrize("kind", KINDS)
def test_the_formulas_of_the_penalty_are_those_of_its_value(kind):
    """Gradients against differences of the value, and the value against plain NumPy."""
    rng, grid, weight = np.random.default_rng(0), (3, 4), 0.4
    X, U, V = rng.random((7, 12)), rng.random((7, 2)), rng.random((12, 2))
    for F, analytic, place in zip((U, V), gradients(X, U, V, grid, weight, kind), ("U", "V")):
        for i, k in ((0, 0), (3, 1), (6, 0)):
            step = np.zeros_like(F)
            step[i, k] = 1e-6
            ends = [(U + s * step, V) if place == "U" else (U, V + s * step) for s in (1, -1)]
            slope = (objective(X, *ends[0], grid, weight, kind) - objective(X, *ends[1], grid, weight, kind)) / 2e-6
            assert analytic[i, k] == pytest.approx(slope, rel=1e-5)
    s = np.linalg.norm(X) / np.sqrt(12)
    smooth = Smooth(weight, grid) if kind == "smooth" else Smooth(weight * s, grid, 1e-3 * s)
    state = State(Problem(check_problem(X).X, penalty=Penalty(smooth=smooth)), U, V)
    assert state.objective() == pytest.approx(objective(X, U, V, grid, weight, kind), rel=1e-9)


@pytest.mark.parametrize("grid", [(48,), (8, 6)])
@pytest.mark.parametrize("kind", KINDS)
def test_no_half_step_raises_the_objective(kind, grid):
    rng, X = np.random.default_rng(0), problems.counts(50, 48)
    s = np.linalg.norm(X) / np.sqrt(48)
    smooth = Smooth(0.3, grid) if kind == "smooth" else Smooth(0.1 * s, grid, 1e-3 * s)
    state = State(Problem(check_problem(X).X, penalty=Penalty(smooth=smooth)), rng.random((50, 3)), rng.random((48, 3)))
    values = [state.objective()]
    memory = HALS(sweeps=2).begin(state)
    for _ in range(15):
        for half, how in zip(state.halves, memory):
            half.sweep(how)
            values.append(state.objective())
    assert all(b <= a * (1 + 1e-12) for a, b in itertools.pairwise(values))
    assert values[-1] < 0.9 * values[0]


@pytest.mark.parametrize("seed", range(5))
def test_planted_components_are_found_better_than_without(seed):
    (bumpy, bumps), (flat, steps) = peaks(noise=0.5, seed=seed)
    for X, truth, known in ((bumpy, bumps, {"smooth": 1.0}), (flat, steps, {"total_variation": 0.1})):
        plain, smooth = (cosines(enmf.factorize(X, 3, random_state=seed, **k).V, truth) for k in ({}, known))
        assert smooth.mean() > plain.mean()
    (quiet, bumps), (flat, steps) = peaks(noise=0.1, seed=seed)
    assert cosines(enmf.factorize(quiet, 3, random_state=seed, smooth=0.1).V, bumps).min() > 0.99
    assert cosines(enmf.factorize(flat, 3, random_state=seed, total_variation=0.01).V, steps).min() > 0.99


@pytest.mark.parametrize("seed", range(5))
def test_images_on_a_grid_need_the_grid(seed):
    rng, (y, x) = np.random.default_rng(seed), np.mgrid[:12, :10]
    truth = np.stack([((y - a) ** 2 + (x - b) ** 2 < 9).ravel() for a, b in ((3, 3), (8, 3), (6, 7))], 1).astype(float)
    X = rng.poisson(2.0 * rng.gamma(1.0, 1.0, (30, 3)) @ truth.T + 0.2).astype(float)
    plain, on_line, on_grid = (
        cosines(enmf.factorize(X, 3, random_state=0, **known).V, truth).mean()
        for known in ({}, {"total_variation": 0.05}, {"total_variation": 0.05, "grid": (12, 10)})
    )
    assert plain < on_line < on_grid


@pytest.mark.parametrize("kind", KINDS)
def test_units_reversal_and_order_of_rows_change_nothing_else(kind):
    X, order = peaks()[0][0], np.random.default_rng(1).permutation(60)
    fit = {"random_state": 0, "tol": 1e-8, kind: 0.05, "scale": "norm"}
    base = enmf.factorize(X, 3, **fit)
    for other, V in (
        (enmf.factorize(1024.0 * X, 3, **fit), lambda V: V),
        (enmf.factorize(X[order], 3, **fit), lambda V: V),
        (enmf.factorize(X[:, ::-1].copy(), 3, **fit), lambda V: V[::-1]),
    ):
        np.testing.assert_allclose(V(other.V), base.V, atol=1e-5)


def test_single_precision_and_exact_u():
    X = peaks()[0][0]
    single = enmf.factorize(X.astype(np.float32), 3, smooth=1.0, random_state=0, exact_U=True)
    double = enmf.factorize(X, 3, smooth=1.0, random_state=0, exact_U=True)
    assert single.V.dtype == np.float32
    assert single.error == pytest.approx(double.error, rel=1e-3)
    g = gradients(X, double.U, double.V, (80,), 1.0, "smooth")[0]
    assert abs(g * double.U).max() < 1e-9 * np.linalg.norm(X) ** 2


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"smooth": -1.0}, "smooth must be at least 0"),
        ({"smooth": 1.0, "total_variation": 1.0}, "they are two kinds of one penalty"),
        ({"grid": (2, 3)}, "grid says where features have neighbours: give smooth or total_variation"),
        ({"smooth": 1.0, "grid": (2, 4)}, r"grid \(2, 4\) has 8 cells, X has 6 columns"),
        ({"smooth": 1.0, "loss": "kullback-leibler"}, "smooth cannot be combined with another loss than 'frobenius'"),
        ({"smooth": 1.0, "method": "mu"}, "smooth cannot be combined with method .mu."),
    ],
)
def test_what_is_refused(known, message):
    with pytest.raises(ValueError, match=message):
        enmf.factorize(problems.dense(9, 6), 2, **known)
