"""Tables and pictures of components, and the consensus of many runs."""

import builtins

import numpy as np
import pandas as pd
import pytest

import enmf
import problems
from enmf.api.consensus import local_density
from enmf.io.results import load_result, save_result

NAMES = [f"word{j}" for j in range(12)]


@pytest.fixture(scope="module")
def data():
    X, U, V = enmf.datasets.make_exact(80, 12, 3, 0.5, random_state=1)
    return pd.DataFrame(X, columns=NAMES), U, V


def test_every_model_has_the_same_table(data):
    X = data[0]
    result = enmf.factorize(X, 3, random_state=0)
    model = enmf.ENMF(3, random_state=0).fit(X)
    wanted = result.components_frame(NAMES)
    np.testing.assert_array_equal(wanted.to_numpy(), result.V.T)
    assert list(model.components_frame().columns) == NAMES  # those of the frame it was fitted with
    for form in (result, (result.U, result.V), result.V.T):
        pd.testing.assert_frame_equal(enmf.components_frame(form, NAMES), wanted)
    with pytest.raises(ValueError, match="2 names for the 12 columns"):
        result.components_frame(["a", "b"])
    with pytest.raises(TypeError, match="has no components"):
        enmf.components_frame("nothing")


def test_top_features_are_the_largest(data):
    result = enmf.factorize(data[0], 3, random_state=0)
    top = enmf.top_features(result, NAMES, 4)
    for k, group in top.groupby("component"):
        v = result.V[:, k]
        wanted = [NAMES[j] for j in np.argsort(-v)[:4] if v[j] > 0]
        assert group["feature"].tolist() == wanted
        np.testing.assert_allclose(group["share"], np.sort(v)[::-1][: len(wanted)] / v.sum())
    assert len(enmf.top_features([[0.0, 1.0, 0.0]], n=3)) == 1  # zeros are no features


def test_pictures(data):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    result = enmf.factorize(data[0], 3, random_state=0)
    bars = enmf.plot_components(result, "bar", names=NAMES, n=4)
    top = enmf.top_features(result, NAMES, 4)
    assert [t.get_text() for t in bars[1].get_yticklabels()] == top[top["component"] == 1]["feature"].tolist()
    images = enmf.plot_components(result, "image", image_shape=(3, 4))
    np.testing.assert_array_equal(images[2].images[0].get_array(), result.V[:, 2].reshape(3, 4))
    spectra = enmf.plot_components(result, "spectrum", names=[str(10 * j) for j in range(12)])
    np.testing.assert_array_equal(spectra[0].lines[0].get_data(), [10.0 * np.arange(12), result.V[:, 0]])
    assert enmf.plot_components(result, "heatmap", names=NAMES).images[0].get_array().shape == (3, 12)
    with pytest.raises(ValueError, match="give image_shape"):
        enmf.plot_components(result, "image")
    with pytest.raises(ValueError, match="kind='pie' is not known"):
        enmf.plot_components(result, "pie")
    matplotlib.pyplot.close("all")


def test_without_matplotlib_the_remedy_is_named(monkeypatch, data):
    plain = builtins.__import__

    def without(name, *more, **options):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return plain(name, *more, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        enmf.plot_components(data[0].to_numpy())


def test_consensus_finds_the_planted_components():
    X, _, V = enmf.datasets.make_exact(100, 60, 4, 0.6, random_state=3)
    X = X + 0.02 * np.random.default_rng(0).random(X.shape)
    found = enmf.consensus(X, 4, n_runs=10)
    cosines = (V / np.linalg.norm(V, axis=0)).T @ (found.V / np.linalg.norm(found.V, axis=0))
    assert cosines.max(axis=1).min() > 0.97
    assert sorted(cosines.argmax(axis=1)) == [0, 1, 2, 3]
    assert found.support.max() <= 10
    assert found.spectra.shape == (40, 60)  # components of the runs, nothing of the size of the samples squared
    assert found.error == pytest.approx(np.linalg.norm(X - found.U @ found.V.T))
    assert found.error >= found.errors.min() * (1 - 1e-6)
    again = enmf.consensus(X, 4, n_runs=10, n_threads=1)
    np.testing.assert_allclose(again.V, found.V, rtol=1e-6, atol=1e-9)
    assert "10 runs: 40 components" in str(found)


def test_outliers_are_dropped():
    rng = np.random.default_rng(0)
    points = np.repeat(np.eye(5)[:2], 10, axis=0) + 0.01 * rng.random((20, 5))
    points = np.vstack([points, [[0, 0, 0, 0, 1.0]], np.zeros((1, 5))])
    density = local_density(points, 3)
    assert (density[:20] < 0.1).all()
    assert density[20] > 1.0
    assert density[21] == np.inf
    X = np.random.default_rng(0).random((30, 20))  # noise: the runs do not agree
    with pytest.raises(ValueError, match="Raise the threshold"):
        enmf.consensus(X, 5, n_runs=4, threshold=1e-6)


def test_clustergram():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    X, _, _ = enmf.datasets.make_exact(60, 40, 3, 0.6, random_state=0)
    found = enmf.consensus(X, 3, n_runs=5)
    axes = found.plot()
    assert axes[0].images[0].get_array().shape == (15, 15)
    distances = found.distances()
    np.testing.assert_allclose(
        distances[3, 7], np.linalg.norm(found.spectra[3] - found.spectra[7]), rtol=1e-6, atol=1e-6
    )
    matplotlib.pyplot.close("all")


def test_names_of_a_frame_stay_with_its_result(data, tmp_path):
    X = data[0].set_axis([f"text{i}" for i in range(80)])
    known = enmf.factorize(X, 3, random_state=0)
    gaps = enmf.complete(X.mask(X.quantile(0.9).max() < X), 3, random_state=0)
    polars = enmf.factorize(problems.PolarsLike(X.to_numpy(), NAMES), 3, random_state=0)
    agreed = enmf.consensus(X, 3, n_runs=3, threshold=2.0)
    for result in (known, gaps, polars, agreed):
        assert list(result.components_frame().columns) == NAMES
        assert set(enmf.top_features(result)["feature"]) <= set(NAMES)
    assert known.row_names == gaps.row_names == [f"text{i}" for i in range(80)]
    assert polars.row_names is None
    save_result(str(tmp_path / "r.npz"), known, None, None)
    again = load_result(str(tmp_path / "r.npz"))[0]
    assert (again.row_names, again.feature_names) == (known.row_names, NAMES)


def test_numbers_of_rows_and_columns_are_no_names(data):
    result = enmf.factorize(pd.DataFrame(data[0].to_numpy()), 3, random_state=0)
    assert result.row_names is None
    assert result.feature_names is None
    wavelengths = pd.DataFrame(data[0].to_numpy(), columns=range(400, 520, 10))
    assert enmf.factorize(wavelengths, 3, random_state=0).feature_names[:2] == ["400", "410"]
