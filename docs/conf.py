"""How the documentation site is built: ``make docs``."""

from __future__ import annotations

import warnings
from importlib.metadata import version as installed_version
from typing import Any

import matplotlib

matplotlib.use("Agg")
# Notebook-style examples show figures; without a display matplotlib would remark on each.
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")

project = "mercer"
author = "The mercer developers"
copyright = "The mercer developers"
release = installed_version("mercer")
version = ".".join(release.split(".")[:2])

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "myst_parser",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "gallery/*.ipynb", "gallery/*.py", "gallery/*.codeobj.json"]
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["mercer.css"]
suppress_warnings = ["config.cache"]

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"(first_look|plot_\w+)\.py$",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 1e9,
    "abort_on_example_error": True,
    "image_scrapers": ("matplotlib",),
    "remove_config_comments": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "mercer"
html_theme_options = {
    "logo": {"text": "mercer"},
    "navbar_end": ["theme-switcher"],
    "navbar_align": "left",
    "show_prev_next": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_show_sourcelink = False


def keep_ours(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out members that come from scikit-learn: they are documented there."""
    function = getattr(obj, "__func__", getattr(obj, "fget", obj))
    module = getattr(function, "__module__", None) or ""
    return True if module.startswith("sklearn") else None


def setup(app: Any) -> None:
    app.connect("autodoc-skip-member", keep_ours)
