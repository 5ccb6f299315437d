"""The report page: what it says, and what it does in a real browser."""

import os
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import enmf
from enmf.report import write
from enmf.report.page import residuals

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
    assert page.count("<img") == page.count("<img alt=") + page.count('<img class="heat" alt=')
    assert page.count('role="img"') == page.count('role="img" aria-label=')
    assert page.count("<details>") >= 4  # a table behind every plot
    for word in ("converged", "93", "random_state", "enmf.factorize(X, 6"):
        assert word in page


def test_names_are_escaped_and_shown(tmp_path):
    rng = np.random.default_rng(0)
    names = ["<script>alert(1)</script>", *(f"word{j}" for j in range(7))]
    X = pd.DataFrame(rng.random((20, 8)), columns=names, index=[f"text{i}" for i in range(20)])
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
    assert page.count('<svg viewBox="0 0 200 100"') == 2
    with pytest.raises(ValueError, match="9 pixels, X has 12 columns"):
        result.report(tmp_path / "r.html", X, image_shape=(3, 3))
    with pytest.raises(ValueError, match="3 names for 20 rows"):
        result.report(tmp_path / "r.html", X, row_names=["a", "b", "c"])


@pytest.mark.parametrize("kind", ["dense", "sparse", "gaps", "unstored"])
def test_residuals_are_those_of_the_entries(kind):
    rng = np.random.default_rng(0)
    X = rng.random((30, 20)) * (rng.random((30, 20)) < 0.5)
    U, V = rng.random((30, 3)), rng.random((20, 3))
    known = np.ones(X.shape, dtype=bool) if kind in ("dense", "sparse") else X > 0
    given = {"dense": X, "sparse": sp.csr_array(X), "gaps": np.where(known, X, np.nan), "unstored": sp.csr_array(X)}[
        kind
    ]
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
    keep = Path(os.environ.get("ENMF_SCREENSHOTS", tmp_path))
    with sync.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
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
            page.screenshot(path=keep / f"{page_name}-{theme}-{width}.png", full_page=True)
            # no sideways scrolling, the right colours
            assert page.evaluate("document.documentElement.scrollWidth") <= width
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
