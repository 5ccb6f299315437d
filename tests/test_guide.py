"""guide=: features that a component should contain, as a start and as a penalty, never as a constraint."""

import numpy as np
import pandas
import pytest
import scipy.sparse as sp

import enmf
import problems

WORDS = [f"word{j}" for j in range(32)]


def planted(seed=0):
    """Counts of 32 words in four topics of eight words each, which share a little."""
    rng = np.random.default_rng(seed)
    V = np.kron(np.eye(4), 0.5 + rng.random((8, 1))) + 0.05 * rng.random((32, 4))
    U = rng.gamma(0.5, 1.0, (100, 4))
    return rng.poisson(10.0 * U @ V.T).astype(float), V


def gradients(X, U, V, guide, weight):
    """Of loss plus penalty: by the formula of docs/structure.md."""
    elsewhere = np.zeros(V.shape)
    for features in guide:
        elsewhere[features] = 1
    for k, features in enumerate(guide):
        elsewhere[features, k] = 0
    strength, R = weight * np.sqrt((X**2).mean()), U @ V.T - X
    return R @ V + strength * (elsewhere * V).sum(0), R.T @ U + strength * elsewhere * U.sum(0)


@pytest.mark.parametrize("seed", range(5))
def test_planted_topics_come_in_the_order_of_their_words(seed):
    X, truth = planted(seed)
    guide = {"third": ["word16", "word17"], "first": ["word0"]}
    result = enmf.factorize(pandas.DataFrame(X, columns=WORDS), 4, guide=guide, random_state=seed)
    V = result.V / np.linalg.norm(result.V, axis=0)
    for k, topic in enumerate((2, 0)):
        assert V[:, k] @ truth[:, topic] / np.linalg.norm(truth[:, topic]) > 0.99
    third, first = result.guides
    assert (third.name, third.component, third.features, third.inside) == ("third", 0, (16, 17), (16, 17))
    assert first.explained > 0.95
    assert 0.05 < first.share < 0.3  # one word of eight
    assert str(third).startswith("third: 2 of 2 features")
    assert str(third) in str(result.certificate)


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_stationary_points_satisfy_the_kkt_conditions_in_plain_numpy(store):
    X, _ = planted()
    guide = [[0, 8], [16]]
    result = enmf.factorize(store(X), 4, guide=guide, guide_weight=0.5, random_state=0, tol=1e-7)
    U, V = result.U, result.V
    parts = [
        np.where(F > 0, g, np.minimum(g, 0)) for F, g in zip((U, V), gradients(X, U, V, guide, 0.5))
    ]  # at balanced columns
    residual = np.sqrt(sum((part**2).sum() for part in parts)) / np.linalg.norm(X) ** 1.5
    assert result.status == "converged"
    assert residual == pytest.approx(result.certificate.kkt, rel=1e-4)
    assert residual <= 1.001e-7


def test_a_guide_that_contradicts_the_data_gives_way_unless_its_weight_is_large():
    X, _ = planted()
    explained = []
    for weight in (0.0, 0.1, 10.0):
        result = enmf.factorize(X, 4, guide={"mixed": [0, 8]}, guide_weight=weight, random_state=0)
        explained.append(result.guides[0].explained)
    assert explained[0] < 0.7
    assert explained == sorted(explained)
    assert explained[2] > 0.95
    plain = enmf.factorize(X, 4, random_state=0)
    only_a_start = enmf.factorize(X, 4, guide=[[0, 8]], guide_weight=0.0, random_state=0)
    assert only_a_start.error == pytest.approx(plain.error, rel=1e-3)


def test_units_and_order_of_rows_change_nothing_and_the_others_are_sorted():
    X, _ = planted()
    fit = {"guide": [[16, 17]], "random_state": 0, "tol": 1e-8, "scale": "norm"}
    base = enmf.factorize(X, 4, **fit)
    other = enmf.factorize(512.0 * X[::-1], 4, **fit)
    np.testing.assert_allclose(other.V, base.V, atol=1e-5)
    sizes = np.linalg.norm(base.U, axis=0)
    assert (np.diff(sizes[1:]) <= 0).all()


def test_words_may_belong_to_several_components_and_go_with_smoothness():
    X, _ = planted()
    result = enmf.factorize(X, 4, guide=[[0, 1], [1, 8]], smooth=0.1, random_state=0, tol=1e-6)
    assert result.status == "converged"
    assert len(result.guides) == 2


def test_the_report_tells(tmp_path):
    X, _ = planted()
    result = enmf.factorize(X, 4, guide={"third": [16, 17]}, random_state=0)
    path = result.report(tmp_path / "page.html", X)
    with open(path, encoding="utf-8") as page:
        assert "guide third: 2 of 2 features" in page.read()


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"guide": [["a"]]}, "guide 0 has the feature 'a', and the columns of X have no names; give their numbers"),
        ({"guide": [[0, 6]]}, "guide '0' has column 6, and X has 6"),
        ({"guide": {"empty": []}}, "guide 'empty' has no features"),
        ({"guide": [[0], [1], [2]]}, "guide has 3 sets of features for 2 components"),
        ({"guide": [[0]], "guide_weight": -1.0}, "guide_weight must be at least 0"),
        ({"guide": [[0]], "loss": "kullback-leibler"}, "guide cannot be combined with another loss than 'frobenius'"),
        ({"guide": [[0]], "method": "anls-bpp"}, "guide cannot be combined with method .anls-bpp."),
        ({"guide": [[0]], "fixed": np.ones((1, 6))}, "guide cannot be combined with fixed: its half-steps"),
    ],
)
def test_what_is_refused(known, message):
    with pytest.raises(ValueError, match=message):
        enmf.factorize(problems.dense(9, 6), 2, **known)


@pytest.mark.parametrize("guide", ["ball", ["ball"], 3, [[1.5]]])
def test_what_is_no_guide(guide):
    with pytest.raises(TypeError, match="guide"):
        enmf.factorize(problems.dense(9, 6), 2, guide=guide)
    frame = pandas.DataFrame(problems.dense(9, 6), columns=list("abcdef"))
    with pytest.raises(ValueError, match="'z', and no column of X is called so"):
        enmf.factorize(frame, 2, guide=[["a", "z"]])


def test_estimators_take_all_of_it():
    X, _ = planted()
    frame = pandas.DataFrame(X, columns=WORDS)
    model = enmf.ENMF(4, guide={"third": ["word16", "word17"]}, random_state=0)
    W = model.fit_transform(frame)
    assert model.guides_[0].inside == (16, 17)
    np.testing.assert_allclose(model.transform(frame), W, rtol=1e-7, atol=1e-9)
    smooth = enmf.ENMF(4, smooth=0.2, grid=(4, 8), random_state=0)
    W = smooth.fit_transform(X)
    np.testing.assert_allclose(smooth.transform(X), W, rtol=1e-7, atol=1e-9)
    mixing = enmf.ENMF(4, simplex="U", random_state=0)
    W = mixing.fit_transform(X)
    np.testing.assert_allclose(mixing.transform(X), W, atol=1e-9)
    np.testing.assert_allclose(mixing.transform(X[:3]).sum(1), 1.0)
    assert enmf.ENMF(4, total_variation=0.1, random_state=0).fit(X).status_ in ("settled", "converged")


def test_the_command_line_has_words_for_them(tmp_path):
    from typer.testing import CliRunner

    from enmf.cli.commands import app

    X, _ = planted()
    pandas.DataFrame(X, columns=WORDS).to_csv(tmp_path / "x.csv", index=False)
    (tmp_path / "guide.json").write_text('{"third": ["word16", "word17"]}', encoding="utf-8")
    call = ["factorize", str(tmp_path / "x.csv"), "--rank", "4", "--out", str(tmp_path / "f.npz"), "--force"]
    guided = CliRunner().invoke(
        app, [*call, "--guide", str(tmp_path / "guide.json"), "--smooth", "0.1", "--grid", "4x8"]
    )
    assert guided.exit_code == 0, guided.output
    assert "guide third: 2 of 2 features" in guided.output
    assert CliRunner().invoke(app, [*call, "--simplex"]).exit_code == 0
    with np.load(tmp_path / "f.npz") as found:
        np.testing.assert_allclose(found["U"].sum(1), 1.0)
    (tmp_path / "guide.json").write_text('{"third": ["nothing"]}', encoding="utf-8")
    for wrong in (["--guide", str(tmp_path / "guide.json")], ["--smooth", "1", "--grid", "4by8"]):
        assert CliRunner().invoke(app, [*call, *wrong]).exit_code == 2
