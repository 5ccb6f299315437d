"""ENMC: predictions, recommendations, new rows, scikit-learn's conventions; MovieLens files, splits and measures."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

import enmf
from enmf.datasets import leave_one_out, read_movielens, split_by_row
from ranking import rank_items, root_mean_square
from test_completion import as_sparse, ratings


@pytest.fixture(scope="module")
def fitted():
    X = ratings()
    return X, enmf.ENMC(3, ridge=0.05, random_state=0, tol=1e-5).fit(X)


class Transformer(enmf.ENMC):
    """ENMC without `predict`, which takes places of the fitted matrix where scikit-learn's checks give samples."""

    @property
    def predict(self):
        raise AttributeError("predict")


@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_s_checks():
    check_estimator(Transformer(2, ridge=0.01))


def test_clone_and_pickle(fitted):
    _, model = fitted
    assert clone(model).get_params() == model.get_params()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict([1, 2], [3, 4]), model.predict([1, 2], [3, 4]))
    assert model.__sklearn_tags__().input_tags.allow_nan


def test_predictions_are_the_product(fitted):
    _, model = fitted
    product = model.row_factors_ @ model.components_
    rows, columns = np.array([0, 4, 89]), np.array([59, 0, 7])
    np.testing.assert_allclose(model.predict(rows, columns), product[rows, columns])
    np.testing.assert_allclose(model.predict(rows[:, None], columns), product[np.ix_(rows, columns)])
    assert model.predict([], []).shape == (0,)
    for bad in ((90, 0), (0, 60), (-1, 0)):
        with pytest.raises(IndexError, match="outside 0"):
            model.predict([bad[0]], [bad[1]])
    with pytest.raises(TypeError, match="integers"):
        model.predict([0.5], [0])


def test_clipping_is_an_option():
    X = ratings()
    model = enmf.ENMC(3, ridge=0.05, clip=(2, 3), random_state=0).fit(X)
    everything = model.predict(np.arange(90)[:, None], np.arange(60))
    assert everything.min() >= 2
    assert everything.max() <= 3
    for wrong, error in (((3, 2), ValueError), (4, TypeError)):
        with pytest.raises(error, match="clip must be a pair"):
            enmf.ENMC(3, clip=wrong).fit(X)


def test_recommendations(fitted):
    X, model = fitted
    product = model.row_factors_ @ model.components_
    columns, scores = model.recommend(7, k=5)
    unseen = np.flatnonzero(np.isnan(X[7]))
    expected = unseen[np.argsort(-product[7, unseen])][:5]
    np.testing.assert_array_equal(columns, expected)
    np.testing.assert_allclose(scores, product[7, expected])
    everything, _ = model.recommend(7, k=1000, exclude_seen=False)
    assert sorted(everything) == list(range(60))
    assert len(model.recommend(7, k=1000)[0]) == len(unseen)
    with pytest.raises(IndexError, match="row index 90"):
        model.recommend(90)
    with pytest.raises(ValueError, match="k must be at least 1"):
        model.recommend(0, k=0)


def test_recommendations_where_most_entries_are_present():
    X = ratings(share=0.1)
    model = enmf.ENMC(3, ridge=0.05, random_state=0).fit(X)
    columns, _ = model.recommend(7, k=1000)
    np.testing.assert_array_equal(np.sort(columns), np.flatnonzero(np.isnan(X[7])))


@pytest.mark.parametrize("share", [0.75, 0.1])
def test_new_rows_are_solved_to_optimality(share):
    X = ratings(share=share)
    model = enmf.ENMC(3, ridge=0.05, random_state=0)
    W = model.fit_transform(X)
    np.testing.assert_allclose(model.transform(X), W, rtol=1e-6, atol=1e-9)
    new = np.full((2, 60), np.nan)
    new[0, [3, 9]] = 4.0, 2.0
    found = model.transform(new)
    assert (found[1] == 0).all()  # nothing is known about it
    H, w = model.components_[:, [3, 9]], found[0]
    gradient = (w @ H - [4.0, 2.0]) @ H.T + 2 * 0.05 * w
    assert (w >= 0).all()
    assert gradient.min() >= -1e-9
    assert abs(gradient @ w) <= 1e-9


def test_the_score_is_the_negative_root_mean_square_of_held_out_entries(fitted):
    X, model = fitted
    held_out = np.full(X.shape, np.nan)
    held_out[[0, 5], [1, 2]] = 3.0, 4.0
    expected = -np.sqrt(np.mean((model.predict([0, 5], [1, 2]) - [3.0, 4.0]) ** 2))
    assert model.score(held_out) == pytest.approx(expected)
    present = np.nan_to_num(X, nan=2.0)  # nothing missing: the full products
    everything = model.predict(np.arange(90)[:, None], np.arange(60))
    assert model.score(present) == pytest.approx(-np.sqrt(np.mean((everything - present) ** 2)))
    with pytest.raises(ValueError, match="score compares with held-out entries"):
        model.score(held_out[:5])


def test_sparse_ratings_need_the_choice():
    X = as_sparse(ratings())
    with pytest.raises(ValueError, match="say what its unstored entries are"):
        enmf.ENMC(3).fit(X)
    sparse = enmf.ENMC(3, missing="unstored", ridge=0.05, random_state=0).fit(X)
    dense = enmf.ENMC(3, ridge=0.05, random_state=0).fit(ratings())
    np.testing.assert_allclose(sparse.components_, dense.components_, atol=1e-9)
    assert sparse.score(X) == pytest.approx(dense.score(ratings()))


def test_cold_rows_and_columns_get_average_predictions():
    X = ratings()
    X[3], X[:, 5] = np.nan, np.nan
    with pytest.warns(UserWarning, match="1 of 90 rows and 1 of 60 columns"):
        model = enmf.ENMC(3, ridge=0.05, random_state=0).fit(X)
    assert model.cold_rows_.tolist() == [3]
    assert model.cold_columns_.tolist() == [5]
    warm = np.delete(np.arange(90), 3)
    assert model.predict([3], [8])[0] == pytest.approx(model.predict(warm, np.full(89, 8)).mean())
    assert 1.0 < model.predict([3], [5])[0] < 5.0
    assert len(model.recommend(3, k=4)[0]) == 4


FORMATS = {
    "ratings.dat": "1::10::5::100\n1::30::3::200\n7::10::4::300\n",
    "u.data": "1\t10\t5\t100\n1\t30\t3\t200\n7\t10\t4\t300\n",
    "ratings.csv": "userId,movieId,rating,timestamp\n1,10,5.0,100\n1,30,3.0,200\n7,10,4.0,300\n",
}


@pytest.mark.parametrize("name", FORMATS)
def test_movielens_files(tmp_path, name):
    (tmp_path / name).write_text(FORMATS[name])
    for place in (tmp_path, tmp_path / name):
        found = read_movielens(place)
        assert found.user_ids.tolist() == [1, 7]
        assert found.item_ids.tolist() == [10, 30]
        assert found.times.tolist() == [100, 200, 300]
        np.testing.assert_array_equal(found.matrix().toarray(), [[5, 3], [4, 0]])
        assert found.matrix(found.times > 150).nnz == 2


def test_movielens_files_that_are_none(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"ratings\.dat"):
        read_movielens(tmp_path)
    for text in ("1 10 5\n", "1,10\n", "1::10::five::3\n"):
        (tmp_path / "ratings.csv").write_text(text)
        with pytest.raises(ValueError, match=r"ratings\.csv"):
            read_movielens(tmp_path)


def test_splits():
    rows = np.repeat(np.arange(6), [1, 2, 3, 10, 20, 47])
    part = split_by_row(rows, random_state=0)
    for user, sizes in enumerate(([1, 0, 0], [2, 0, 0], [3, 0, 0], [8, 1, 1], [16, 2, 2], [37, 5, 5])):
        assert np.bincount(part[rows == user], minlength=3).tolist() == sizes
    np.testing.assert_array_equal(part, split_by_row(rows, random_state=0))
    assert (part != split_by_row(rows, random_state=1)).any()
    one = leave_one_out(rows, random_state=0)
    for user, size in enumerate([1, 2, 3, 10, 20, 47]):
        assert np.bincount(one[rows == user], minlength=3).tolist() == ([size, 0, 0] if size < 3 else [size - 2, 1, 1])
    with pytest.raises(ValueError, match="sum to 1"):
        split_by_row(rows, (0.5, 0.4))


def test_measures_of_rankings():
    U, V = np.ones((2, 1)), np.array([[5.0], [4.0], [3.0], [2.0], [1.0]])  # items in order 0, 1, 2, 3, 4
    train = sp.csr_array(([1.0], ([0], [1])), shape=(2, 5))
    held_out = sp.csr_array((np.ones(2), ([0, 0], [2, 4])), shape=(2, 5))
    found = rank_items(U, V, train, held_out, k=3)  # user 0 sees 0, 2, 3
    assert found.recall[0] == 0.5
    assert found.ndcg[0] == pytest.approx((1 / np.log2(3)) / (1 + 1 / np.log2(3)))
    assert np.isnan(found.recall[1])
    assert root_mean_square(U, V, held_out) == pytest.approx(np.sqrt(((3 - 1) ** 2 + 0) / 2))
    assert root_mean_square(U, V, held_out, clip=(0, 2)) == pytest.approx(np.sqrt(0.5))


@pytest.mark.data
def test_held_out_ratings_of_movielens(real_data):
    from enmf.datasets import load

    real_data("movielens_1m")
    X, labels = load("movielens_1m")
    row, col, train = labels["row"], labels["col"], np.asarray(labels["train"], dtype=bool)
    values = np.asarray(X[row, col]).ravel()
    parts = [sp.csr_array((values[p], (row[p], col[p])), shape=X.shape) for p in (train, ~train)]
    with pytest.warns(UserWarning, match="28 of 3706 columns"):
        model = enmf.ENMC(10, missing="unstored", ridge=0.05, clip=(1, 5), random_state=0, max_iter=30, tol=0).fit(
            parts[0]
        )
    assert -model.score(parts[1]) < 0.852


# ---------------------------------------------------------------- other losses


def counts_with_gaps(shift=0.0):
    rng = np.random.default_rng(0)
    X = rng.poisson(2 * rng.gamma(0.5, 1, (60, 3)) @ rng.gamma(0.5, 1, (3, 40))) + shift
    gaps = rng.random(X.shape) < 0.2
    return np.where(gaps, np.nan, X), np.where(gaps, X, np.nan)


@pytest.mark.parametrize("beta", [1.0, 0.5, 0.0])
def test_another_loss_is_minimized_and_scored(beta):
    seen, hidden = counts_with_gaps(shift=0.1)
    model = enmf.ENMC(3, beta_loss=beta, random_state=0, clip=(0.01, np.inf)).fit(seen)
    assert model.status_ == "converged"
    assert model.reconstruction_err_ == pytest.approx(np.sqrt(2 * model.certificate_.loss))
    observed = np.isfinite(seen)
    assert model.set_params(clip=None).score(seen) == pytest.approx(-model.reconstruction_err_ / observed.sum() ** 0.5)
    assert model.score(seen) > enmf.ENMC(3, random_state=0).fit(seen).set_params(beta_loss=beta).score(seen)
    model.set_params(clip=(0.01, np.inf))
    x, m = hidden[~observed], model.predict(*np.nonzero(~observed))
    by_hand = {
        1.0: x * np.log(x / m) - x + m,
        0.5: 2 * (np.sqrt(x) - np.sqrt(m)) ** 2 / np.sqrt(m),
        0.0: x / m - np.log(x / m) - 1,
    }[beta]
    assert model.score(hidden) == pytest.approx(-np.sqrt(2 * by_hand.mean()))
    np.testing.assert_allclose(model.transform(seen), model.row_factors_, rtol=1e-6)


def test_a_prediction_of_zero_where_there_is_something_is_infinitely_bad():
    seen, hidden = counts_with_gaps()
    model = enmf.ENMC(3, beta_loss="kullback-leibler", random_state=0).fit(seen)
    model.components_[:, 0] = 0
    assert model.score(np.where(hidden > 0, hidden, np.nan)) == -np.inf
    assert np.isfinite(model.set_params(clip=(0.01, 100)).score(hidden))
    with pytest.raises(ValueError, match=r"beta_loss='itakura-saito' is infinite where X is zero, and X has \d+ zeros"):
        enmf.ENMC(3, beta_loss=0).fit(seen)
