"""Beta divergences of X in blocks: what X in memory gives, by sums over the blocks."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import enmf
from enmf.distributed.rows import RowBlocks
from enmf.losses import parted
from enmf.losses.divergence import Divergence
from enmf.matrix.sweeps import Sweep
from enmf.problem.problem import Penalty, Problem, SidePenalty
from enmf.problem.state import State
from enmf.problem.validation.arrays import check_problem
from enmf.problem.validation.losses import with_loss

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

BETAS = (0.0, 0.5, 1.0, 1.5)


def counts(n=120, m=30, rank=4, seed=0, beta=1.0):
    rng = np.random.default_rng(seed)
    X = rng.poisson(rng.gamma(0.5, 2.0, (n, rank)) @ rng.gamma(0.5, 2.0, (rank, m))).astype(float)
    return X + 0.5 if beta == 0.0 else X


def in_chunks(X, height=50):
    edges = [*range(0, X.shape[0], height), X.shape[0]]
    return da.concatenate(
        [
            da.from_delayed(dask.delayed(X[a:b]), (b - a, X.shape[1]), dtype=X.dtype)
            for a, b in itertools.pairwise(edges)
        ]
    )


def pair(X, rank, seed=0):
    rng = np.random.default_rng(seed)
    size = np.sqrt(X.mean() / rank)
    return [size * rng.gamma(2.0, 0.5, (length, rank)) for length in X.shape]


def quiet(X, rank, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return enmf.factorize(X, rank, **{"random_state": 0, **options})


def states(X, beta, rank=4, seed=0, penalty=None, height=50):
    """The same pair of factors of X in blocks and of X in memory."""
    found = []
    for data in (in_chunks(X, height), X):
        problem = with_loss(check_problem(data), beta)
        if penalty is not None:
            problem = Problem(problem.X, problem.loss, penalty, problem.units)
        root = np.sqrt(problem.scale)
        found.append(State(problem, *(F / root for F in pair(X, rank, seed))))
    return found


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_certificates_agree_with_those_in_memory(beta, store):
    X = store(counts(beta=beta))
    U, V = pair(X, 4)
    found, wanted = (enmf.certify(data, U, V, loss=beta) for data in (in_chunks(X), X))
    for name in ("error", "relative_error", "loss", "kkt", "kkt_max", "kkt_sum", "min_gradient", "explained"):
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), rel=1e-9), name
    np.testing.assert_allclose(found.block_gap, wanted.block_gap, rtol=1e-8)
    np.testing.assert_allclose([c.share for c in found.components], [c.share for c in wanted.components], rtol=1e-9)


@pytest.mark.parametrize("beta", BETAS)
def test_a_fit_ends_where_one_in_memory_does(beta):
    X = counts(beta=beta)
    start = pair(X, 4)
    wanted = quiet(X, 4, loss=beta, init=start, method="e-hals", tol=1e-6)
    for data in (in_chunks(X), in_chunks(sp.csr_array(X))):
        found = quiet(data, 4, loss=beta, init=start, method="e-hals", tol=1e-6)
        assert found.status == wanted.status == "converged"
        assert found.loss == pytest.approx(wanted.loss, rel=0.02 if beta < 1 else 1e-6)  # below 1 there are many minima
        assert found.settings["loss"] == wanted.settings["loss"]


@pytest.mark.parametrize("beta", BETAS)
def test_a_default_fit_is_as_good_as_one_in_memory(beta):
    X = counts(400, 30, beta=beta)
    found, wanted = (quiet(data, 4, loss=beta) for data in (in_chunks(X), X))
    assert isinstance(found.U, da.Array)
    assert found.loss <= 1.01 * wanted.loss
    assert np.isfinite(found.certificate.kkt)


@pytest.mark.parametrize("beta", BETAS)
def test_multiplicative_updates_are_those_in_memory(beta):
    X = counts(beta=beta)
    options = {"method": "mu", "init": pair(X, 4), "loss": beta, "max_iter": 5, "tol": 0.0}
    found, wanted = (quiet(data, 4, **options) for data in (in_chunks(X), X))
    np.testing.assert_allclose(found.U.compute(), wanted.U, rtol=1e-10)
    np.testing.assert_allclose(found.V, wanted.V, rtol=1e-10)


@pytest.mark.parametrize("beta", BETAS)
def test_rows_of_U_take_the_steps_that_they_take_in_memory(beta):
    penalty = Penalty(SidePenalty(0.3, 0.2), SidePenalty())
    blocks, here = states(counts(beta=beta), beta, penalty=penalty)
    for state in (blocks, here):
        state.halves[0].sweep(Sweep(5, 0.0))
    assert isinstance(blocks.U, RowBlocks)
    np.testing.assert_allclose(blocks.U.gather(), here.U, rtol=1e-10)
    np.testing.assert_allclose(
        blocks.problem.loss.solve(blocks.halves[0]).gather(), here.problem.loss.solve(here.halves[0])
    )


def test_a_step_of_V_is_that_in_memory_if_nothing_is_far_off():
    """Then neither begins with a multiplicative step, and full steps go down."""
    blocks, here = states(counts(), 1.0)
    for state in (blocks, here):
        for half in (*state.halves, *state.halves):
            half.sweep(Sweep(5, 0.0))
    before = here.V.copy()
    blocks.halves[0].replace(blocks.X.own(here.U))
    blocks.halves[1].replace(here.V.copy(order="F"))
    for state in (blocks, here):
        state.halves[1].sweep(Sweep(5, 0.0))
    assert np.abs(here.V - before).max() > 1e-3 * before.max()
    assert (
        np.isclose(blocks.V, here.V, rtol=1e-8, atol=1e-10).all(axis=1).mean() > 0.9
    )  # others are shortened otherwise


@settings(max_examples=25, deadline=None)
@given(
    beta=st.sampled_from(BETAS),
    size=st.sampled_from([1e-6, 1.0, 1e6]),
    far=st.sampled_from([1e-3, 1.0, 1e3]),
    penalized=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_no_half_step_raises_the_objective(beta, size, far, penalized, seed):
    X = size * counts(25, 9, 3, seed, beta)
    X[3], X[:, 2] = (X[3], X[:, 2]) if beta == 0.0 else (0.0, 0.0)
    weight = 0.1 * size ** (beta - 0.5) if penalized else 0.0
    state, _ = states(X, beta, 3, seed, Penalty(SidePenalty(), SidePenalty(weight, weight)), height=7)
    state.halves[1].replace(state.V * far)
    last = state.objective()
    for half in (*state.halves, *state.halves):
        half.sweep(Sweep(3, 0.0))
        now = state.objective()
        assert now <= last + 1e-11 * (abs(last) + abs(state.problem.loss.mass(state.X)))
        last = now


def test_steps_that_are_too_long_are_shortened(monkeypatch):
    asked = []
    slopes = parted.PartedDivergence._slopes

    def spy(self, half, before, goal, shares, some):
        asked.append(len(shares))
        return slopes(self, half, before, goal, shares, some)

    monkeypatch.setattr(parted.PartedDivergence, "_slopes", spy)
    state, _ = states(counts(), 1.0)
    with state.halves[1].editing() as V:
        V[:, 0] *= 100.0
    before = state.value()
    state.halves[1].sweep(Sweep(5, 0.0))
    assert asked == [1, len(parted.SHARES)]
    assert state.value() < before


def test_columns_may_take_turns(monkeypatch):
    whole, _ = states(counts(), 1.0)
    turns, _ = states(counts(), 1.0)
    whole.halves[1].sweep(Sweep(5, 0.0))
    monkeypatch.setattr(parted, "AT_ONCE", 100)
    passes = turns.X.passes
    turns.halves[1].sweep(Sweep(5, 0.0))
    assert turns.X.passes - passes >= 12  # 30 columns of 18 numbers, five at a time
    np.testing.assert_allclose(turns.V, whole.V, rtol=1e-12)


def test_lost_rows_are_made_again_as_the_best_ones_of_the_loss():
    state, here = states(counts(), 1.0)
    rows = state.halves[0]
    rows.sweep(Sweep(5, 0.0))
    function, *arguments = state.X._again
    again = state.X.rows(function, *arguments, columns=4, dtype=np.float64).gather()
    np.testing.assert_allclose(again, here.problem.loss.solve(here.halves[0]), rtol=1e-6, atol=1e-8)


def test_workers_do_it_too():
    distributed = pytest.importorskip("distributed")
    X = counts()
    options = {"loss": "kullback-leibler", "init": pair(X, 4), "method": "e-hals", "max_iter": 8, "tol": 0.0}
    wanted = quiet(in_chunks(X), 4, **options)
    how = {"processes": False, "n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**how) as local, distributed.Client(local):
        found = quiet(in_chunks(X), 4, **options)
        assert found.loss == pytest.approx(wanted.loss, rel=1e-9)
        np.testing.assert_allclose(found.U.compute(), wanted.U.compute(), rtol=1e-6, atol=1e-9)


def test_folders_and_memory_maps_and_single_precision(tmp_path):
    X = counts().astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "parts").mkdir()
    for number, first in enumerate(range(0, len(X), 50)):
        sp.save_npz(tmp_path / "parts" / f"part-{number}.npz", sp.csr_matrix(X[first : first + 50]))
    wanted = quiet(X, 4, loss=1, init=pair(X, 4), method="e-hals", max_iter=20, tol=0.0)
    for data in (np.load(tmp_path / "x.npy", mmap_mode="r"), tmp_path / "parts"):
        found = quiet(data, 4, loss=1, init=pair(X, 4), method="e-hals", max_iter=20, tol=0.0, memory_limit=1 << 17)
        assert found.V.dtype == np.float32
        assert isinstance(found.U, np.ndarray)
        assert found.loss == pytest.approx(wanted.loss, rel=1e-3)


def test_the_estimator_transforms_to_what_it_fitted():
    X = counts()
    model = enmf.ENMF(4, beta_loss="kullback-leibler", random_state=0)
    W = model.fit_transform(in_chunks(X)).compute()
    np.testing.assert_allclose(model.transform(in_chunks(X)).compute(), W, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(model.transform(X), W, rtol=1e-6, atol=1e-8)


def test_ranks_are_compared_on_entries_that_are_brought_here():
    choice = enmf.select_rank(in_chunks(counts(60, 12)), [1, 2], loss="kullback-leibler", random_state=0)
    assert choice.rank in (1, 2)


def test_what_blocks_cannot_do_is_refused():
    X = counts()
    with pytest.raises(ValueError, match=r"'ccd' needs Newton steps of single entries .* where X is read in blocks"):
        enmf.factorize(in_chunks(X), 4, loss=1, method="ccd")
    with pytest.raises(ValueError, match=f"X has {int((X == 0).sum())} zeros"):
        enmf.factorize(in_chunks(X), 4, loss="itakura-saito")
    assert type(with_loss(check_problem(X), 1).loss) is Divergence
