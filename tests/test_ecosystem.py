"""What other libraries rely on: output as polars or pandas, metadata routing, arrays by protocol."""

import numpy as np
import pytest
import sklearn
from sklearn.pipeline import make_pipeline

import enmf
from problems import low_rank_noisy


class OnlyArray:
    """Something that is no array but can become one, as a tensor of another library."""

    def __init__(self, values):
        self.values = values
        self.shape, self.ndim, self.dtype = values.shape, values.ndim, values.dtype

    def __len__(self):
        return len(self.values)

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype=dtype)


@pytest.fixture(scope="module")
def X():
    return low_rank_noisy(30, 12, rank=2)


def test_what_becomes_an_array_by_protocol_is_factorized_as_one(X):
    wanted = enmf.factorize(X, 2, random_state=0)
    np.testing.assert_array_equal(enmf.factorize(OnlyArray(X), 2, random_state=0).V, wanted.V)


class OnlyFrame:
    """A frame of a library that nobody here knows, by the dataframe protocol."""

    def __init__(self, frame):
        self.frame = frame

    def __dataframe__(self, nan_as_null=False, allow_copy=True):
        return self.frame.__dataframe__(nan_as_null, allow_copy)


def test_what_is_a_frame_by_protocol_is_factorized_with_its_names(X):
    pandas = pytest.importorskip("pandas")
    names = [f"feature {j}" for j in range(X.shape[1])]
    frame = OnlyFrame(pandas.DataFrame(X, columns=names))
    found = enmf.factorize(frame, 2, random_state=0)
    np.testing.assert_array_equal(found.V, enmf.factorize(X, 2, random_state=0).V)
    assert found.feature_names == names
    holes = X.copy()
    holes[0, 0] = np.nan
    assert enmf.complete(OnlyFrame(pandas.DataFrame(holes, columns=names)), 2, random_state=0).feature_names == names


def test_an_arrow_table_keeps_the_names_of_its_columns(X):
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({f"c{j}": X[:, j] for j in range(X.shape[1])})
    assert enmf.factorize(table, 2, random_state=0).feature_names == [f"c{j}" for j in range(X.shape[1])]


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_the_output_is_a_frame_with_the_names_of_the_components(X, container):
    pytest.importorskip(container)
    model = enmf.ENMF(2, random_state=0).set_output(transform=container)
    frame = model.fit_transform(X)
    assert type(frame).__module__.startswith(container)
    assert list(frame.columns) == ["enmf0", "enmf1"]
    np.testing.assert_allclose(frame.to_numpy(), enmf.ENMF(2, random_state=0).fit_transform(X))


def test_weights_reach_a_completion_inside_a_pipeline(X):
    """scikit-learn's metadata routing: the weights of the pipeline are those of the model."""
    weights = np.where(np.random.default_rng(0).random(X.shape) < 0.3, 0.0, 2.0)
    with sklearn.config_context(enable_metadata_routing=True):
        model = enmf.ENMC(2, random_state=0).set_fit_request(weights=True)
        routed = make_pipeline(model).fit(X, weights=weights)[0]
    direct = enmf.ENMC(2, random_state=0).fit(X, weights=weights)
    np.testing.assert_array_equal(routed.components_, direct.components_)
    assert not np.allclose(routed.components_, enmf.ENMC(2, random_state=0).fit(X).components_)


class Watch:
    """A callback of scikit-learn 1.9 that remembers what it is told, and stops the descent at an iteration."""

    def __init__(self, last=None):
        self.seen, self.scores, self.last, self.done = [], [], last, 0

    def setup(self, estimator, context):
        self.seen.append("setup")

    def teardown(self, estimator, context):
        self.seen.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.seen.append(("begin", context.task_name))

    def on_fit_task_end(self, estimator, context, *, X=None, fitted_estimator=None):
        self.seen.append(("end", context.task_name))
        if fitted_estimator is not None:
            self.scores.append(np.linalg.norm(X - fitted_estimator.transform(X) @ fitted_estimator.components_))
        self.done += context.task_name == "descent"
        return self.last is not None and self.done >= self.last


@pytest.fixture(scope="module")
def noise():
    """No small rank fits it, so there is a descent."""
    return np.random.default_rng(0).random((40, 15))


@pytest.mark.parametrize("kind", [enmf.ENMF, enmf.ENMC])
def test_callbacks_of_scikit_learn_see_every_iteration_and_can_stop_the_fit(noise, kind):
    pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 has callbacks")
    watch = Watch()
    data = noise if kind is enmf.ENMF else np.where(np.random.default_rng(1).random(noise.shape) < 0.1, np.nan, noise)
    plain = kind(3, random_state=0).fit(data)
    model = kind(3, random_state=0).set_callbacks(watch).fit(data)
    np.testing.assert_allclose(model.components_, plain.components_, rtol=1e-8, atol=1e-10)
    assert watch.seen[:2] == ["setup", ("begin", "fit")]
    assert watch.seen[-2:] == [("end", "fit"), "teardown"]
    assert watch.seen.count(("end", "descent")) == watch.seen.count(("begin", "descent")) > 1
    stopped = kind(3, random_state=0, tol=0).set_callbacks(Watch(last=3)).fit(data)
    assert stopped.status_ == "interrupted"


def test_callbacks_of_scikit_learn_get_a_model_that_transforms(noise):
    pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 has callbacks")
    watch = Watch()
    model = enmf.ENMF(3, random_state=0).set_callbacks(watch).fit(noise)
    np.testing.assert_allclose(watch.scores[-1], model.reconstruction_err_)
    assert min(watch.scores) > 0.99 * watch.scores[-1]


def test_a_failed_fit_ends_what_callbacks_were_told(noise):
    pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 has callbacks")
    watch = Watch()

    def fails(progress):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        enmf.ENMF(3, random_state=0, callback=fails).set_callbacks(watch).fit(noise)
    assert watch.seen[-1] == "teardown"


def test_plots_show_what_they_are_asked_for(X):
    """The numbers behind the pictures, not the pictures."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    result = enmf.factorize(X, 2, random_state=0)
    axes = enmf.plot_residuals(result, X)
    rest = X - result.U @ result.V.T
    shown = np.asarray(axes.images[0].get_array())
    np.testing.assert_allclose(np.sort(shown.ravel()), np.sort(rest.ravel()), atol=1e-12)
    groups = np.minimum(np.arange(30) // 5, 2)  # of different sizes: sums are no means
    shown = np.asarray(enmf.plot_usages(result, groups).images[0].get_array())
    means = np.stack([result.U[groups == g].mean(axis=0) for g in range(3)])
    np.testing.assert_allclose(shown, means / means.max(axis=0))
    with pytest.raises(ValueError, match="2 entries for 30 rows"):
        enmf.plot_usages(result, [0, 1])
    line = enmf.plot_reconstruction(result, X, [4])[0, 0].lines[1]
    np.testing.assert_allclose(line.get_ydata(), result.U[4] @ result.V.T)
    with pytest.raises(ValueError, match="one of the 30 rows"):
        enmf.plot_reconstruction(result, X, [30])
    runs = [enmf.factorize(X, 2, "hals", init="random", random_state=0, tol=0, max_iter=5) for _ in range(2)]
    drawn = enmf.plot_convergence(runs, ["a", "b"]).lines
    np.testing.assert_allclose(drawn[0].get_ydata()[-1], 100 * runs[0].certificate.relative_error)
    np.testing.assert_allclose(drawn[-1].get_ydata()[0], 100 * runs[0].certificate.lower_bound / np.linalg.norm(X))
    with pytest.raises(ValueError, match="1 names for 2 results"):
        enmf.plot_convergence(runs, ["a"])
    with pytest.raises(ValueError, match="different losses"):
        enmf.plot_convergence([result, enmf.factorize(X + 0.1, 2, loss="kullback-leibler", random_state=0)])
    matplotlib.pyplot.close("all")
