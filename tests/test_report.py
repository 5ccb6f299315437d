"""The report page: what it says, and what it does in a real browser."""

import errno
import html
import json
import os
import pickle
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

import enmf
import problems
from enmf.report import write
from enmf.report.fit import divergences, residuals
from enmf.report.numbers import column, explained, percent, shortened, ticks, times

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def digits():
    from sklearn.datasets import load_digits

    X = load_digits().data[:400]
    return X, enmf.factorize(X, 6, random_state=0), enmf.factorize(X, 6, "hals", random_state=0, max_iter=30, tol=1e-2)


def test_page_is_offline_small_and_accessible(tmp_path, digits):
    X, result, _ = digits
    page = Path(result.report(tmp_path / "r.html", X, image_shape=(8, 8))).read_text()
    assert len(page) < 5_000_000
    assert not re.search(r"(src|href)=\"(?!data:)", page)  # nothing comes from elsewhere
    assert "http" not in page
    assert page.count("<h1>") == 1
    assert page.count("<img") == page.count("<img alt=")
    assert page.count('role="img"') == page.count('role="img" aria-label=')
    assert page.count("<details>") >= 4  # a table behind every plot
    for word in (
        result.status,
        f"{100 * (1 - result.certificate.relative_error**2):.2f}",
        "random_state",
        "enmf.factorize(X, 6",
    ):
        assert word in page


def test_names_are_escaped_and_shown(tmp_path):
    rng = np.random.default_rng(0)
    names = ["<script>alert(1)</script>", *(f"word{j}" for j in range(7))]
    X = pd.DataFrame(rng.random((12, 8)), columns=names, index=[f"text{i}" for i in range(12)])
    result = enmf.factorize(X, 2, random_state=0)
    page = Path(result.report(tmp_path / "r.html", X)).read_text()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    assert "word3" in page
    assert "text3" in page


def test_spectra_and_wrong_shapes(tmp_path):
    X = np.random.default_rng(0).random((20, 12))
    result = enmf.factorize(X, 2, random_state=0)
    page = Path(result.report(tmp_path / "r.html", X, column_names=[str(400 + 10 * j) for j in range(12)])).read_text()
    assert page.count('aria-label="component') == 2
    assert '<span class="x" style="left:45.45%">450</span>' in page  # a round number at its place
    with pytest.raises(ValueError, match="9 pixels, X has 12 columns"):
        result.report(tmp_path / "r.html", X, image_shape=(3, 3))
    with pytest.raises(ValueError, match="3 names for 20 rows"):
        result.report(tmp_path / "r.html", X, row_names=["a", "b", "c"])


def text_of(page):
    """What is to be read on a page."""
    return re.sub(r"<(style|script)>.*?</\1>|<[^>]*>", " ", page, flags=re.S)


def test_a_hundred_per_cent_is_said_of_nothing_less():
    assert explained(0.0).startswith("100\N{NO-BREAK SPACE}%")
    for error in 10.0 ** -np.arange(0.5, 20, 0.5):
        said = explained(error)
        assert not said.startswith("100")
        shown = float(re.search(r"[\d.]+", said).group())
        assert shown <= 100 * (1 - error**2) + 1e-9 or not said.startswith("more")
        assert abs(shown - 100 * (1 - error**2)) <= max(5e-3, 10 * error**2)
    assert explained(0.0028).startswith("99.9992")
    assert [percent(share) for share in (0.0805, 0.061, 0.00052, 0.0)] == [
        f"{text}\N{NO-BREAK SPACE}%" for text in ("8.05", "6.10", "0.052", "0.00")
    ]
    assert times(1.0) == "1.000000"
    assert times(1.0 + 3e-8) == "1 + 3e-08"
    assert column([8.05, 6.1, 0.25]) == ["8.050", "6.100", "0.250"]


def test_marks_of_an_axis_are_round_and_differ():
    rng = np.random.default_rng(0)
    for _ in range(500):
        low = 10.0 ** rng.uniform(-9, 9)
        high = low * (1 + 10.0 ** rng.uniform(-6, 3))
        found = ticks(low, high)
        values, labels = zip(*found)
        assert 2 <= len(set(labels)) == len(labels) <= 7
        assert low * (1 - 1e-9) <= values[0]
        assert values[-1] <= high * (1 + 1e-9)
        assert np.allclose([float(label) for label in labels], values, rtol=0, atol=1e-6 * (high - low))


def test_names_differ_where_the_data_s_do(tmp_path):
    rng = np.random.default_rng(0)
    names = [f"ENSG{j:011d}" for j in range(30)] + [f"{'a very long name of a feature ' * 3}{j}" for j in range(5)]
    X = pd.DataFrame(rng.random((20, 35)), columns=names)
    result = enmf.factorize(X, 3, random_state=0)
    page = Path(result.report(tmp_path / "r.html")).read_text()  # the result knows the names
    for bars in re.findall(r'<div class="bars".*?</div>', page, flags=re.S):
        shown = re.findall(r'<span title="([^"]*)">([^<]*)</span>', bars)
        assert len({text for _, text in shown}) == len(shown)
        assert all(text == shortened(name) and (len(name) > 40 or text == name) for name, text in shown)
        assert len(re.findall(r"<b>[\d.]+", bars)) == len(shown)  # a number beside each bar


def test_the_order_of_wavelengths_is_kept_and_of_names_is_not(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.random((30, 20))
    result = enmf.factorize(X, 3, random_state=0)

    def heads(**names):
        page = text_of(Path(result.report(tmp_path / "r.html", X, **names)).read_text())
        return re.findall(r"(?:rows|columns) across, (in their order|grouped)", page)

    assert heads() == ["in their order"] * 2
    assert heads(column_names=[str(400 + 2 * j) for j in range(20)]) == ["in their order"] * 2
    assert heads(column_names=[f"gene{j}" for j in range(20)]) == ["in their order", "grouped"]


def test_the_order_of_the_components_is_what_is_said(tmp_path, digits):
    X, result, _ = digits
    page = text_of(Path(result.report(tmp_path / "r.html", X)).read_text())
    sizes = [part.norm for part in result.certificate.components]
    assert sizes == sorted(sizes, reverse=True)
    assert "Numbered by their size" in page
    mixed = replace(result, certificate=replace(result.certificate, components=result.certificate.components[::-1]))
    page = text_of(Path(mixed.report(tmp_path / "r.html", X)).read_text())
    assert "Numbered as the columns of U and V" in page


def test_the_worst_rows_are_worst_for_their_size(tmp_path):
    X = np.outer(np.linspace(1, 9, 20), np.linspace(1, 2, 12))
    X[3] = [0.05, 0.0] * 6  # small, and unlike the others
    X[19, 0] *= 1.2  # large, and nearly like them
    result = enmf.factorize(X, 1, random_state=0)
    page = Path(result.report(tmp_path / "r.html", X)).read_text()
    assert re.search(r"worst of 20 rows</summary>.*?<tbody><tr><td>([^<]*)</td>", page, flags=re.S).group(1) == "row 4"


def test_the_curve_has_the_descent_and_nothing_before_it(tmp_path, digits):
    X, result, _ = digits
    page = Path(result.report(tmp_path / "r.html", X)).read_text()
    data = json.loads(html.unescape(re.search(r'data-chart="([^"]*)"', page).group(1)))
    steps = [row.iteration for row in result.trace if row.phase in ("descent", "restart")]
    assert sum(len(line) for line in data["lines"]) == len(steps)
    assert data["end"] == pytest.approx(np.log10(1 + max(steps)) if data["log"] else max(steps))
    ends = [line[-1][1] for line in data["lines"]]
    assert min(ends) == pytest.approx(100 * result.certificate.relative_error, rel=1e-6)


def test_data_of_any_kind_can_be_looked_at(tmp_path):
    X = pd.DataFrame(np.random.default_rng(0).integers(0, 5, (20, 8)), columns=list("abcdefgh"))
    result = enmf.factorize(X, 2, random_state=0)
    wanted = text_of(Path(result.report(tmp_path / "r.html", X)).read_text())
    frames = X.astype(object), X.astype("category"), problems.PolarsLike(X.to_numpy(), list(X.columns))
    for other in (*frames, sp.coo_array(X.to_numpy()), X.to_numpy().tolist()):
        assert text_of(Path(result.report(tmp_path / "r.html", other)).read_text()) == wanted
    with pytest.raises(ValueError, match=r"X has shape \(20, 7\), the factors belong to a matrix of shape \(20, 8\)"):
        result.report(tmp_path / "r.html", X.iloc[:, 1:])
    with pytest.raises((TypeError, ValueError), match=r"not numbers|text"):
        result.report(tmp_path / "r.html", X.astype(object).replace({3: "three"}))


@pytest.mark.parametrize("unit", [1e-100, 1e100])
def test_the_unit_of_the_data_does_not_matter(tmp_path, unit):
    X = np.random.default_rng(0).random((20, 12))
    first, other = (
        Path(enmf.factorize(c * X, 3, random_state=0).report(tmp_path / "r.html", c * X)).read_text()
        for c in (1.0, unit)
    )

    def figures(page):
        return re.findall(r"[\d.]+", text_of(page[page.index("worst of 20 rows") : page.index("<h2>Settings")]))

    assert len(figures(first)) > 50
    assert figures(other) == figures(first)


@pytest.mark.parametrize("hidden", ["nan", "unstored", "mask"])
def test_what_was_not_observed_is_not_held_against_the_fit(tmp_path, hidden):
    rng = np.random.default_rng(0)
    X = rng.random((30, 3)) @ rng.random((3, 20))
    known = rng.random(X.shape) < 0.8
    if hidden == "nan":
        X = np.where(known, X, np.nan)
        result = enmf.complete(X, 2, random_state=0)
    elif hidden == "unstored":
        X = sp.csr_array(np.where(known, X, 0))
        result = enmf.complete(X, 2, missing="unstored", random_state=0)
    else:
        X = np.where(known, X, 1000.0)
        result = enmf.complete(X, 2, mask=known, random_state=0)
    page = text_of(Path(result.report(tmp_path / "r.html", X)).read_text())
    assert ("Entries were masked or weighted" in page) == (hidden == "mask")


def test_a_fitted_estimator_has_a_page(tmp_path, digits):
    X = pd.DataFrame(digits[0], columns=[f"pixel{j}" for j in range(64)])
    model = enmf.ENMF(6, random_state=0).set_output(transform="pandas").fit(X)
    light = len(pickle.dumps(model))
    page = Path(model.report(tmp_path / "with.html", X, image_shape=(8, 8))).read_text()
    for word in (
        "pixel36",
        "400 x 64 numbers",
        "from the best to the worst fit",
        "ENMF(n_components=6, random_state=0).fit(X)",
    ):
        assert word in page
    assert "Entries were masked" not in page
    alone = Path(model.report(tmp_path / "alone.html")).read_text()
    assert "data with 64 columns into 6 components" in alone
    assert "U: rows" not in alone
    assert len(pickle.dumps(model)) == light  # nothing is kept for it
    ratings = sp.csr_array(1 + digits[0][:50])
    rated = enmf.ENMC(2, random_state=0, missing="unstored").fit(ratings)
    assert "U: rows" in Path(rated.report(tmp_path / "rated.html", ratings)).read_text()
    with pytest.raises(NotFittedError):
        enmf.ENMF(3).report(tmp_path / "none.html")


def test_no_part_of_a_page_stays_after_a_failure(tmp_path, digits, monkeypatch):
    _, result, _ = digits
    path = tmp_path / "r.html"
    path.write_text("old")

    def full(self, text, encoding=None):
        self.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        with pytest.raises(OSError, match=r"No space left on device.*r\.html"):
            result.report(path)
    assert path.read_text() == "old"
    assert [held.name for held in tmp_path.iterdir()] == ["r.html"]
    with pytest.raises(FileNotFoundError, match=r"nowhere.*r\.html"):
        result.report(tmp_path / "nowhere" / "r.html")


def test_the_source_is_in_the_title(tmp_path, digits):
    _, result, _ = digits
    page = Path(result.report(tmp_path / "r.html", source="<digits>.csv")).read_text()
    assert "<title>&lt;digits&gt;.csv: 400 x 64 numbers in 6 components</title>" in page


def test_notebooks_show_tables(digits):
    _, result, _ = digits
    for shown in (replace(result, status="<b>")._repr_html_(), result.certificate._repr_html_()):
        assert shown.startswith("<table>")
        assert "KKT residual" in shown
        assert "||X - UVᵀ||" in shown
        assert "<b>" not in shown
        assert "<script" not in shown


@pytest.mark.parametrize("kind", ["dense", "sparse", "gaps", "unstored", "stored gaps"])
def test_residuals_are_those_of_the_entries(kind):
    rng = np.random.default_rng(0)
    X = rng.random((30, 20)) * (rng.random((30, 20)) < 0.5)
    U, V = rng.random((30, 3)), rng.random((20, 3))
    known = np.ones(X.shape, dtype=bool) if kind in ("dense", "sparse") else X > 0
    known = rng.random(X.shape) < 0.8 if kind == "stored gaps" else known
    gaps = np.where(known, X, np.nan)
    forms = {"dense": X, "sparse": sp.csr_array(X), "gaps": gaps, "unstored": sp.csr_array(X)}
    given = forms.get(kind, sp.csr_array(gaps))
    squared = np.where(known, (X - U @ V.T) ** 2, 0)
    whole = np.where(known, X**2, 0)
    found = residuals(given, U, V, missing=kind == "unstored")
    for sums, wanted in zip(found, (squared.sum(1), squared.sum(0), whole.sum(1), whole.sum(0))):
        np.testing.assert_allclose(sums, wanted, rtol=1e-10)


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_in_a_browser(tmp_path, digits):
    sync = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install enmf[browser]")
    X, result, other = digits
    result.report(tmp_path / "one.html", X, image_shape=(8, 8))
    write(tmp_path / "two.html", [result, other], names=["first", "second"])
    keep = os.environ.get("ENMF_SCREENSHOTS")  # a folder for pictures of the pages, for people
    with sync.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-dev-shm-usage"])
        for theme, width, page_name in (
            ("light", 1000, "one"),
            ("dark", 1000, "one"),
            ("light", 390, "one"),
            ("dark", 1000, "two"),
        ):
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
            problems, requests = [], []
            page.on("console", lambda message, to=problems: to.append(message.text))
            page.on("pageerror", lambda problem, to=problems: to.append(str(problem)))
            page.on("request", lambda request, to=requests: to.append(request.url))
            page.goto((tmp_path / f"{page_name}.html").as_uri())
            if keep:
                page.screenshot(path=Path(keep) / f"{page_name}-{theme}-{width}.png", full_page=True)
            # no sideways scrolling, nothing cut off or too small to read, the right colours
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            texts = page.evaluate(
                """Array.from(document.querySelectorAll(".frame span, .bars span, figcaption, p, td")).map(e =>
                [parseFloat(getComputedStyle(e).fontSize), e.getBoundingClientRect().left])"""
            )
            assert all(size >= 12 and left >= 0 for size, left in texts)
            paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (sum(map(int, re.findall(r"\d+", paper)[:3])) < 200) == (theme == "dark")
            respond(page)
            assert problems == []
            assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
            page.close()
        browser.close()


def respond(page):
    """Hover, zoom, sort and the change of theme."""
    chart = page.locator("svg.chart")
    chart.scroll_into_view_if_needed()
    place = chart.bounding_box()
    page.mouse.move(place["x"] + place["width"] * 0.7, place["y"] + place["height"] / 2)
    assert re.search(r"% after [\d.]+", page.locator(".readout").inner_text())
    before = chart.locator("polyline.run").first.get_attribute("points")
    page.mouse.down()
    page.mouse.move(place["x"] + place["width"] * 0.9, place["y"] + place["height"] / 2)
    page.mouse.up()
    assert chart.locator("polyline.run").first.get_attribute("points") != before
    page.locator(".tools .all").click()
    full = chart.get_attribute("data-shown").split()
    page.locator(".tools .in").click()
    assert float(chart.get_attribute("data-shown").split()[0]) > float(full[0])

    table = page.locator("table.sortable:visible").first
    head = table.locator("thead th").nth(1)
    orders = []
    for _ in range(2):
        head.locator("button").click()
        cells = table.locator("tbody tr td:nth-child(2)")
        orders.append(
            [cells.nth(k).get_attribute("data-value") or cells.nth(k).inner_text() for k in range(cells.count())]
        )
    assert head.get_attribute("aria-sort") == "descending"
    assert orders[0] == orders[1][::-1] or len(set(orders[0])) < len(orders[0])
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.locator("#theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != paper


# ---------------------------------------------------------------- other losses


def some_counts(shift=0.0):
    rng = np.random.default_rng(0)
    return rng.poisson(3 * rng.gamma(0.4, 1, (40, 3)) @ rng.gamma(0.4, 1, (3, 16))) + shift


@pytest.mark.parametrize(("loss", "title"), [(1, "Kullback-Leibler"), (0, "Itakura-Saito"), (1.5, "beta = 1.5")])
@pytest.mark.parametrize("shape", [None, (4, 4)], ids=["map", "images"])
def test_another_loss_is_told_in_its_own_terms(tmp_path, loss, title, shape):
    X = some_counts(0.1)
    result = enmf.factorize(X, 3, loss=loss, random_state=0)
    c, page = result.certificate, Path(result.report(tmp_path / "r.html", X, image_shape=shape)).read_text()
    said = text_of(page).replace("\N{NO-BREAK SPACE}", " ")
    for wrong in ("‖X‖", "of the norm", "% of its norm", "sum of squares", "bound,", "squared error", "nan", "inf "):
        assert wrong not in said, wrong
    assert title in said
    assert f"{100 * c.explained:.2f} %" in said
    assert f"{c.loss:.6g}" in said
    assert "no useful bound exists" in said
    assert ("U alone cannot lower the loss by more than" in said) == (loss >= 1)
    data = json.loads(html.unescape(re.search(r'data-chart="([^"]*)"', page).group(1)))
    assert min(line[-1][1] for line in data["lines"]) == pytest.approx(c.loss, rel=1e-6)
    assert (data["unit"], data["bounds"]) == ("", [])
    assert "different data" not in said


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 1.5])
@pytest.mark.parametrize("gaps", ["none", "nan", "unstored"])
@pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_losses_of_rows_and_columns_add_up_to_that_of_the_run(beta, gaps, store):
    X = some_counts(0.0 if beta > 0 else 0.1).astype(float)
    if gaps == "nan":
        X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    elif gaps == "unstored" and store is np.asarray:
        pytest.skip("a dense matrix stores all")
    given = store(X)
    if gaps == "none":
        result = enmf.factorize(given, 3, loss=beta, random_state=0)
    else:
        result = enmf.complete(given, 3, loss=beta, missing=gaps, random_state=0)
    found = divergences(given, result, gaps == "unstored")
    assert found[0].sum() == pytest.approx(result.loss, rel=1e-6)
    assert found[1].sum() == pytest.approx(result.loss, rel=1e-6)
    mass = result.certificate.error**2 / result.certificate.relative_error**2 / 2
    assert found[2].sum() == pytest.approx(found[3].sum()) == pytest.approx(mass, rel=1e-6)


def test_a_comparison_names_the_losses(tmp_path):
    X = some_counts()
    first, second, third = (enmf.factorize(X, 3, loss=loss, random_state=0) for loss in (1, 1, 2))
    same = text_of(Path(write(tmp_path / "r.html", [first, second])).read_text())
    assert "All losses agree to a hundredth of a percent" in same
    assert "How the losses fell" in same
    assert "‖X‖" not in same
    mixed = text_of(Path(write(tmp_path / "r.html", [first, third])).read_text())
    assert "The results minimize different losses" in mixed
    assert "How the" not in mixed
