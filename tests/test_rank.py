"""Choosing the rank: planted ranks are found, the table is right, a sweep can be resumed."""

import numpy as np
import pytest
import scipy.sparse as sp

import enmf
from enmf.api.heldout import HeldOut, draw_sample, hide
from enmf.api.rank import suggest
from enmf.matrix.dense import DenseMatrix
from enmf.problem.validation.arrays import check_problem


def planted(n, m, rank, sparsity, noise, seed):
    X, _, _ = enmf.datasets.make_exact(n, m, rank, sparsity, random_state=seed)
    N = np.random.default_rng(seed).standard_normal(X.shape)
    return np.maximum(X + noise * np.linalg.norm(X) / np.linalg.norm(N) * N, 0)


# benchmarks/rank.py has all of them
@pytest.mark.parametrize(
    ("n", "m", "rank", "sparsity", "noise"), [(120, 80, 3, 0.0, 0.05), (100, 150, 7, 0.5, 0.2), (300, 60, 10, 0.3, 0.1)]
)
def test_a_planted_rank_is_found(n, m, rank, sparsity, noise):
    found = enmf.select_rank(planted(n, m, rank, sparsity, noise, 1), range(rank - 2, rank + 4))
    assert abs(found.rank - rank) <= 1
    assert found.table.loc[rank, "stability"] > found.table.loc[rank + 3, "stability"]
    assert f"rank {found.rank}" in found.reason.lower() or "standard error" in found.reason


def test_exact_data_need_no_more_than_their_rank():
    X, _, _ = enmf.datasets.make_exact(80, 60, 5, 0.5, random_state=0)
    assert enmf.select_rank(X, range(2, 9)).rank == 5


def test_the_table_says_what_single_fits_say():
    X = planted(90, 70, 4, 0.4, 0.1, 0)
    found = enmf.select_rank(X, [6, 2, 4, 4], tol=1e-6, max_iter=2000)
    assert found.table.index.tolist() == [2, 4, 6]
    s = np.linalg.svd(X, compute_uv=False)
    for rank, row in found.table.iterrows():
        assert row["bound"] == pytest.approx(np.sqrt((s[rank:] ** 2).sum()), rel=1e-6)
        assert row["error"] == pytest.approx(enmf.factorize(X, rank, random_state=0).error, rel=5e-3)
        assert row["gap"] == pytest.approx((row["error"] - row["bound"]) / np.linalg.norm(X))
    np.testing.assert_allclose(found.folds.mean(axis=1), found.table["held_out"])
    assert f"> {found.rank:>4}" in str(found)
    assert found.to_dict()["table"][0]["rank"] == 2


def test_units_and_storage_do_not_matter():
    X = planted(60, 50, 3, 0.7, 0.1, 2)
    X = np.where(np.median(X) > X, 0, X)
    first = enmf.select_rank(X, [2, 3, 4])
    for other, unit in ((sp.csr_array(X), 1.0), (X * 2.0**20, 2.0**20)):
        found = enmf.select_rank(other, [2, 3, 4])
        np.testing.assert_allclose(found.folds, first.folds, rtol=1e-6)
        np.testing.assert_allclose(found.table["error"], first.table["error"] * unit, rtol=1e-6)


def test_a_sweep_resumes_where_it_ended(tmp_path):
    X = planted(60, 50, 3, 0.3, 0.1, 0)
    whole = enmf.select_rank(X, range(2, 6))
    seen = []
    with pytest.warns(UserWarning, match="interrupted: ranks above 3"):
        part = enmf.select_rank(
            X, range(2, 6), checkpoint=tmp_path / "c.npz", callback=lambda row: seen.append(row) or row["rank"] == 3
        )
    assert not part.complete
    assert [row["rank"] for row in seen] == [2, 3]
    rest = enmf.select_rank(X, range(2, 6), checkpoint=tmp_path / "c.npz", callback=seen.append)
    assert rest.complete
    assert [row["rank"] for row in seen] == [2, 3, 4, 5]
    np.testing.assert_array_equal(rest.folds, whole.folds)
    assert rest.table.drop(columns="seconds").equals(whole.table.drop(columns="seconds"))
    with pytest.raises(ValueError, match="another sweep: its seed"):
        enmf.select_rank(X, range(2, 6), checkpoint=tmp_path / "c.npz", random_state=7)
    with pytest.raises(ValueError, match="without rank 1"):
        enmf.select_rank(X, range(1, 6), checkpoint=tmp_path / "c.npz")


def test_the_rule():
    ranks = np.array([2, 3, 4, 5])
    sure = np.array([[5.0, 5.1], [3.0, 3.1], [2.0, 2.1], [2.5, 2.6]])
    assert suggest(ranks, sure, np.ones(4))[0] == 4
    doubtful = np.array([[5.0, 5.1], [2.0, 2.4], [2.1, 2.1], [2.5, 2.6]])
    rank, reason = suggest(ranks, doubtful, np.ones(4))
    assert rank == 3
    assert "as well as at rank 4" in reason
    falling = np.array([[5.0, 5.1], [4.0, 4.1], [3.0, 3.1], [2.0, 2.1]])
    rank, reason = suggest(ranks, falling, np.ones(4))
    assert rank == 5
    assert "larger ones may be better" in reason


@pytest.mark.parametrize("density", [1.0, 0.3, 0.01])
def test_hidden_entries_stand_for_all(density):
    rng = np.random.default_rng(0)
    X = rng.random((200, 150)) * (rng.random((200, 150)) < density)
    sample = X if density > 0.1 else sp.csr_array(X)
    folds = hide(sample, 4, rng)
    places = np.concatenate([fold.rows * 150 + fold.columns for fold in folds])
    assert len(np.unique(places)) == len(places)  # no two folds share an entry
    for fold in folds:
        np.testing.assert_array_equal(fold.values, X[fold.rows, fold.columns])
        assert fold.weights.sum() == pytest.approx(X.size)
        assert (fold.weights * fold.values**2).sum() == pytest.approx((X**2).sum(), rel=0.5)


def test_large_data_are_sampled():
    rng = np.random.default_rng(0)
    X = rng.random((2000, 300))
    X[:1000] = 0
    sample = draw_sample(DenseMatrix(X), 100, rng)
    assert sample.shape == (100, 100)
    assert sample.any(axis=1).all()  # drawn by norm: no empty rows
    dense = sp.random_array((2000, 3000), density=0.01, random_state=0, format="csr")
    sparse = draw_sample(check_problem(dense).X, 100, rng)
    assert sp.issparse(sparse)
    assert sparse.nnz > 1000
    assert HeldOut(check_problem(np.zeros((20, 10))).X, 2, 100, 0).squared_norm == 0.0


def test_zeros_need_one_component():
    assert enmf.select_rank(np.zeros((20, 10)), [1, 2, 3]).rank == 1


def test_bad_ranks():
    X = np.ones((10, 8))
    with pytest.raises(ValueError, match="not below min"):
        enmf.select_rank(X, [2, 8])
    with pytest.raises(ValueError, match="empty"):
        enmf.select_rank(X, [])
    with pytest.raises(TypeError, match="several integers"):
        enmf.select_rank(X, 3)
    with pytest.raises(ValueError, match="folds must be at least 2"):
        enmf.select_rank(X, [2], folds=1)


def test_plot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    found = enmf.select_rank(planted(60, 50, 3, 0.3, 0.1, 0), [2, 3, 4])
    axes = found.plot()
    np.testing.assert_array_equal(axes[0].lines[0].get_ydata(), found.table["error"])
    assert axes[0].get_title() == f"suggested rank: {found.rank}"
    matplotlib.pyplot.close("all")


@pytest.mark.parametrize(("rank", "seed"), [(4, 0), (4, 1), (4, 2), (5, 0)])
def test_the_held_out_error_of_nearly_exact_data_is_that_of_their_noise(rank, seed):
    rng = np.random.default_rng(seed)
    X = rng.gamma(1.0, 1.0, (60, rank)) @ rng.gamma(1.0, 1.0, (rank, 15))  # the largest entry stands out in its row
    X = X * (1 + 0.01 * rng.standard_normal(X.shape))
    found = enmf.select_rank(X, range(rank - 1, rank + 2))
    assert found.rank == rank
    assert 0.01 < found.table.loc[rank, "held_out"] < 0.03


# ---------------------------------------------------------------- other losses


def planted_counts(seed=0, rank=4):
    rng = np.random.default_rng(seed)
    return rng.poisson(6 * rng.gamma(0.3, 1, (90, rank)) @ rng.gamma(0.3, 1, (rank, 60))).astype(float)


def test_the_rank_of_counts_by_their_own_loss(tmp_path):
    X, saved = planted_counts(), tmp_path / "ranks.npz"
    found = enmf.select_rank(X, [1, 3, 4, 6], loss="kullback-leibler", checkpoint=saved)
    assert (found.rank, found.loss_name) == (4, "kullback-leibler")
    assert "% of that at rank 1" in found.reason
    assert found.table.loc[1, "held_out"] == pytest.approx(1.0, rel=1e-3)
    assert found.table.loc[1, "explained"] == pytest.approx(0.0, abs=1e-4)
    assert (found.table["bound"] == 0).all()
    assert found.table["gap"].isna().all()
    fit = enmf.factorize(X, 4, loss=1, random_state=0)
    assert found.table.loc[4, "loss"] == pytest.approx(fit.loss, rel=5e-3)
    assert "explained" in str(found)
    assert "bound" not in str(found)
    stored = enmf.select_rank(sp.csr_array(X), [1, 3, 4, 6], loss=1)
    assert stored.rank == 4
    again = enmf.select_rank(X * 1024, [3, 4, 6], loss=1)  # units do not matter
    np.testing.assert_allclose(again.table["explained"], found.table["explained"][1:], rtol=1e-2)
    with pytest.raises(ValueError, match="its loss is 'kullback-leibler'"):
        enmf.select_rank(X, [1, 3, 4, 6], checkpoint=saved)


def test_the_rank_of_power_spectra_is_seen_by_their_own_loss_only():
    rng = np.random.default_rng(0)
    M = (0.05 + rng.gamma(0.3, 1, (120, 4))) @ (0.05 + rng.gamma(0.3, 1, (4, 80)))
    X = M * rng.gamma(4, 0.25, M.shape)
    assert enmf.select_rank(X, [2, 3, 4, 6], loss="itakura-saito").rank == 4
    assert enmf.select_rank(X, [2, 3, 4, 6]).rank < 4


def test_the_plot_of_another_loss_speaks_of_it():
    pytest.importorskip("matplotlib").use("agg")
    fit, held, _ = enmf.select_rank(planted_counts(), [2, 3], loss=1.5).plot()
    assert fit.get_ylabel() == "loss (beta=1.5)"
    assert len(fit.lines) == 2  # the curve and the mark of the suggestion
    assert held.get_ylabel() == "held-out loss, % of that at rank 1"
