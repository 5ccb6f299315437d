"""ENMF as a scikit-learn citizen."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.optimize
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF
from sklearn.decomposition import non_negative_factorization as sklearn_factorization
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import enmf
import problems
from enmf import ENMC, ENMF


@parametrize_with_checks([ENMF()])
def test_scikit_learn_checks_with_default_parameters(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array, pd.DataFrame])
@pytest.mark.parametrize("solver", ["enmf", "cd", "hals"])
def test_fit_transform_equals_transform(store, solver):
    X = store(problems.counts())
    model = ENMF(5, solver=solver, random_state=0)
    W = model.fit_transform(X)
    np.testing.assert_allclose(model.transform(X), W, rtol=1e-6, atol=1e-9 * W.max())
    fitted = ENMF(5, solver=solver, random_state=0).fit(X)
    np.testing.assert_array_equal(fitted.components_, model.components_)


def test_attributes_describe_the_returned_factors():
    X = problems.counts()
    model = ENMF(5, tol=1e-5, random_state=0)
    W = model.fit_transform(X)
    assert model.n_components_ == 5
    assert model.components_.shape == (5, 50)
    assert model.reconstruction_err_ == pytest.approx(np.linalg.norm(X - W @ model.components_))
    assert model.status_ == "converged"
    assert model.n_iter_ >= 1
    certificate = enmf.certify(X, W, model.components_.T)
    assert model.certificate_.kkt == pytest.approx(certificate.kkt, rel=1e-6)
    assert model.certificate_.kkt <= 2e-5
    assert set(model.phases_) >= {"svd", "rotation", "descent"}
    assert len(model.trace_) > 0
    np.testing.assert_allclose(model.inverse_transform(W), W @ model.components_)


def test_transform_solves_to_optimality():
    X = load_digits().data
    model = ENMF(12, random_state=0).fit(X[:1000])
    W = model.transform(X[1000:])
    H = model.components_
    D = W @ (H @ H.T) - X[1000:] @ H.T
    projected = np.where(W > 0, D, np.minimum(D, 0))
    assert np.abs(projected).max() <= 1e-8 * np.abs(X @ H.T).max()
    best = [scipy.optimize.nnls(H.T, row)[1] for row in X[1000:1100]]
    np.testing.assert_allclose(np.linalg.norm(X[1000:1100] - W[:100] @ H, axis=1), best, rtol=1e-9)


def test_score_is_the_explained_share():
    X = problems.counts()
    model = ENMF(5, random_state=0).fit(X)
    expected = 1 - model.reconstruction_err_**2 / (X**2).sum()
    assert model.score(X) == pytest.approx(expected, rel=1e-9)
    assert model.score(sp.csr_array(X)) == pytest.approx(expected, rel=1e-9)
    scores = [ENMF(k, random_state=0).fit(X).score(X) for k in (1, 3, 6)]
    assert scores == sorted(scores)


def test_pipeline_grid_search_clone_and_pickle():
    X = load_digits().data[:200]
    search = GridSearchCV(
        make_pipeline(MinMaxScaler(clip=True), ENMF(random_state=0, tol=1e-4)), {"enmf__n_components": [2, 5]}, cv=3
    ).fit(X)
    assert search.best_params_ == {"enmf__n_components": 5}
    model = clone(search.best_estimator_[-1]).set_params(n_components=3).fit(X)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(X), model.transform(X))


def test_names_in_and_out():
    X = pd.DataFrame(problems.counts(), columns=[f"gene{i}" for i in range(50)], index=[f"cell{i}" for i in range(80)])
    model = ENMF(3, random_state=0).set_output(transform="pandas")
    W = model.fit_transform(X)
    assert list(W.columns) == ["enmf0", "enmf1", "enmf2"]
    assert list(W.index[:2]) == ["cell0", "cell1"]
    assert list(model.feature_names_in_[:2]) == ["gene0", "gene1"]
    assert list(model.get_feature_names_out()) == list(W.columns)
    with pytest.raises(ValueError, match="feature names"):
        model.transform(X.rename(columns={"gene0": "other"}))


def test_float32_is_kept():
    X = problems.counts(dtype=np.float32)
    model = ENMF(3, random_state=0)
    assert model.fit_transform(X).dtype == np.float32
    assert model.components_.dtype == np.float32
    assert model.transform(X).dtype == np.float32


def test_custom_start_and_warm_start():
    X = problems.counts()
    model = ENMF(4, tol=1e-5, random_state=0)
    W = model.fit_transform(X)
    again = ENMF(4, init="custom", tol=1e-5).fit(X, W=W, H=model.components_)
    assert again.trace_[-1].iteration <= 2
    warm = ENMF(4, warm_start=True, tol=1e-5, random_state=0).fit(X)
    first = warm.trace_[-1].iteration
    assert warm.fit(X).trace_[-1].iteration <= 2 < first
    with pytest.raises(ValueError, match="needs both W and H"):
        ENMF(4, init="custom").fit(X, W=W)


def test_default_number_of_components_is_small():
    assert ENMF().fit(problems.dense(60, 40)).n_components_ == 10
    assert ENMF().fit(problems.dense(60, 4)).n_components_ == 4


def test_other_losses_are_minimized_and_refused_by_coordinate_descent_as_in_scikit_learn():
    X = problems.counts()
    model = ENMF(3, beta_loss="kullback-leibler", random_state=0).fit(X)
    assert model.certificate_.loss_name == "kullback-leibler"
    assert model.reconstruction_err_ == pytest.approx(np.sqrt(2.0 * model.certificate_.loss))
    with pytest.raises(ValueError, match="solver 'cd' does not handle beta_loss"):
        ENMF(3, solver="cd", beta_loss="kullback-leibler").fit(X)


def test_penalties_mean_what_they_mean_in_scikit_learn():
    X = problems.counts()
    options = {"alpha_W": 0.01, "alpha_H": 0.02, "l1_ratio": 0.5}

    def objective(W, H):
        n, m = X.shape
        return (
            0.5 * np.linalg.norm(X - W @ H) ** 2
            + m * 0.01 * (0.5 * W.sum() + 0.25 * (W**2).sum())
            + n * 0.02 * (0.5 * H.sum() + 0.25 * (H**2).sum())
        )

    model = ENMF(4, random_state=0, tol=1e-7, **options)
    W = model.fit_transform(X)
    reference = NMF(4, init="custom", tol=1e-10, max_iter=20_000, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        W2 = reference.fit_transform(X, W=W.copy(), H=model.components_.copy())
    assert objective(W, model.components_) <= objective(W2, reference.components_) * (1 + 1e-5)
    with pytest.warns(UserWarning, match="only one of alpha_W and alpha_H"):
        ENMF(4, alpha_W=0.1, alpha_H=0.0).fit(X)


def test_non_negative_factorization_has_scikit_learn_s_shape():
    X = problems.counts()
    W, H, n_iter = enmf.non_negative_factorization(X, n_components=4, random_state=0)
    assert W.shape == (80, 4)
    assert H.shape == (4, 50)
    assert n_iter >= 1
    fixed, same, _ = enmf.non_negative_factorization(X, H=H, n_components=4, update_H=False)
    np.testing.assert_allclose(fixed, W, rtol=1e-6, atol=1e-9)
    assert (same == H).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = sklearn_factorization(X, n_components=4, init="nndsvd", random_state=0, max_iter=500)
    assert np.linalg.norm(X - W @ H) <= np.linalg.norm(X - theirs[0] @ theirs[1]) * 1.01
    with pytest.raises(ValueError, match="wrong second dimension passed to NMF"):
        enmf.non_negative_factorization(X, H=H.T, update_H=False)


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array, sp.csr_matrix, pd.DataFrame])
def test_inverse_transform_gives_what_scikit_learn_gives(store):
    X = problems.counts()
    model, reference = ENMF(3, random_state=0), NMF(3, init="nndsvd")
    W = model.fit_transform(X)
    reference.fit(X)
    found, wanted = model.inverse_transform(store(W)), reference.inverse_transform(store(W))
    assert type(found) is type(wanted)
    np.testing.assert_allclose(found, W @ model.components_)
    with pytest.raises(ValueError, match="W must have shape"):
        model.inverse_transform(store(W[:, :2]))


@pytest.mark.parametrize(
    ("H", "message"),
    [
        (-np.ones((2, 50)), r"Negative values in data passed to NMF \(input H\): 100 entries"),
        (np.full((2, 50), np.nan), "H has 100 entries that are NaN or infinite"),
        (np.full((2, 50), np.inf), "H has 100 entries that are NaN or infinite"),
        (np.zeros((2, 50)), r"Array passed to NMF \(input H\) is full of zeros"),
        (1j * np.ones((2, 50)), "Complex data not supported: H"),
        (np.ones(50), "Expected 2D array"),
    ],
)
def test_components_that_are_none_are_refused(H, message):
    X = problems.counts()
    with pytest.raises(ValueError, match=message):
        enmf.non_negative_factorization(X, H=H, update_H=False)
    with pytest.raises(ValueError, match=message):
        ENMF(2, init="custom").fit(X, W=np.ones((80, 2)), H=H)


def test_start_factors_that_are_not_used_are_not_passed_over_in_silence():
    X, W, H = problems.counts(), np.ones((80, 4)), np.ones((4, 50))
    for use in (
        lambda: ENMF(4, random_state=0).fit(X, W=W, H=H),
        lambda: ENMF(4, random_state=0).fit(X, H=H),
        lambda: enmf.non_negative_factorization(X, W, H, 4, random_state=0),
    ):
        with pytest.warns(RuntimeWarning, match="provided W or H are ignored"):
            use()
    with pytest.warns(RuntimeWarning, match="the provided initial W is not used"):
        enmf.non_negative_factorization(X, W, H, update_H=False)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_components", 0),
        ("n_components", 2.5),
        ("init", "magic"),
        ("solver", "magic"),
        ("tol", -1.0),
        ("max_iter", 0),
        ("random_state", -1),
        ("alpha_W", -1.0),
        ("alpha_W", np.inf),
        ("alpha_H", "other"),
        ("l1_ratio", 2.0),
        ("verbose", "loud"),
        ("time_limit", -1),
        ("callback", 3),
        ("n_threads", 0),
        ("preset", "magic"),
        ("warm_start", "x"),
        ("options", 3),
        ("memory_limit", 0),
        ("checkpoint", 3),
    ],
)
def test_wrong_parameters_are_named_in_the_words_of_the_caller(name, value):
    with pytest.raises(ValueError, match=f"The {name!r} parameter of ENMF must be"):
        ENMF(**{name: value}).fit(problems.counts())
    if name in ENMC._parameter_constraints:
        with pytest.raises(ValueError, match=f"The {name!r} parameter of ENMC must be"):
            ENMC(**{name: value}).fit(problems.counts())


def test_a_warning_about_the_rank_speaks_of_n_components():
    with pytest.warns(UserWarning, match=r"n_components 7 is above min\(n, m\) = 3"):
        ENMF(7, random_state=0).fit(np.ones((4, 3)))


def test_warm_start_from_components_that_died_begins_anew():
    model = ENMF(2, warm_start=True, random_state=0).fit(np.zeros((80, 50)))
    assert model.fit(problems.counts()).components_.any()


def test_inverse_transform_takes_sparse_factors():
    X = problems.counts()
    model = ENMF(3, random_state=0)
    W = model.fit_transform(X)
    np.testing.assert_allclose(model.inverse_transform(sp.csr_array(W)), W @ model.components_)
