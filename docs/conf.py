"""How the site is built (`make docs`): pages are Markdown, the API is from docstrings, the gallery from examples/.

Pages link to files of the repository as a reader of the repository would (../benchmarks/results/grid.csv). What is a
page here is linked as one; other files are offered for download; a folder is only named.
"""

import re
import sys
from pathlib import Path

import matplotlib as mpl

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # `anchors`, and what the gallery shares
mpl.use("agg")

import enmf  # noqa: E402

project = "enmf"
author = "the enmf developers"
copyright = author
release = version = enmf.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "anchors",
]
exclude_patterns = ["_build", *(f"gallery/**.{ending}" for ending in ("ipynb", "py", "md5", "zip", "json"))]
templates_path = ["_templates"]
default_role = "autolink"  # `enmf.factorize` in a docstring is a link

# ---------------------------------------------------------------- Markdown

myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 4

# ---------------------------------------------------------------- API

autosummary_generate = True
autodoc_typehints = "none"  # docstrings say the types in words
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# ---------------------------------------------------------------- gallery

sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"/plot_",
    "within_subsection_order": "anchors.StoryOrder",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,  # times of a build are no figures
    "write_computation_times": False,
    "remove_config_comments": True,
    "default_thumb_file": str(HERE / "images" / "report.png"),
    "image_scrapers": ("matplotlib",),
    "capture_repr": ("_repr_html_",),  # axes are shown, not printed
    "abort_on_example_error": True,
    "reference_url": {"enmf": None},
    "doc_module": ("enmf",),
    "backreferences_dir": "gallery/backreferences",
    "nested_sections": False,
}

# ---------------------------------------------------------------- HTML

html_theme = "pydata_sphinx_theme"
html_title = "enmf"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/mark.svg"
html_context = {"default_mode": "auto"}  # light or dark, as the system has it
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "enmf", "image_light": "_static/mark.svg", "image_dark": "_static/mark.svg", "alt_text": "enmf"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "back_to_top_button": False,
}
html_sidebars = {"index": [], "start": [], "faq": []}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# ---------------------------------------------------------------- links and docstrings

ROOMS = "benchmarks|src|tests|examples|README|CHANGELOG|CONTRIBUTING"
OUTSIDE = re.compile(rf"\[([^\]]+)\]\(((?:\.\./)+)((?:{ROOMS})[^)#]*)(#[^)]*)?\)")
PAGES = {
    "CHANGELOG.md": "/changelog.md",
    "CONTRIBUTING.md": "/contributing.md",
    "README.md": "/index.md",
    "benchmarks/paper/index.html": None,
    **{f"benchmarks/results/{path.stem}.md": f"/benchmarks/{path.name}" for path in (HERE / "benchmarks").glob("*.md")},
}

WITH_A_FEATURE = ("structure", "streams")  # pages of the guide that arrive together with what they describe


def for_the_site(app, docname, source):
    """Links to files outside docs/, as the site has them."""

    def linked(found):
        words, _, place, anchor = found.groups()
        if PAGES.get(place):
            return f"[{words}]({PAGES[place]}{anchor or ''})"
        if (HERE.parent / place).is_file():
            return found.group(0)
        return f"{words}" if "`" in words else f"`{words}`"

    source[0] = OUTSIDE.sub(linked, source[0])
    for page in WITH_A_FEATURE:
        if docname == "guide" and not (HERE / f"{page}.md").is_file():
            source[0] = source[0].replace(f"\n{page}\n", "\n")


def for_sphinx(app, what, name, obj, options, lines):
    """Formulas of docstrings are no markup: ||X||, components_."""
    for number, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...", "..", ":")):
            continue
        pieces = re.split(r"(`+[^`]*`+)", line)
        pieces[::2] = [re.sub(r"(\w)_(?=\W|$)", r"\1\\_", piece.replace("|", r"\|")) for piece in pieces[::2]]
        # a call is a link, too, and so is the name of a page
        pieces[1::2] = [re.sub(r"^`(enmf\.\w+)\(\)`$", r":obj:`\1`", piece) for piece in pieces[1::2]]
        lines[number] = re.sub(r"\bdocs/([\w-]+)\.md", r":doc:`/\1`", "".join(pieces))


def setup(app):
    app.connect("source-read", for_the_site)
    app.connect("autodoc-process-docstring", for_sphinx, priority=900)
