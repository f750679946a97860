"""How the documentation site is built: ``make docs``."""

from __future__ import annotations

import html
import re
import sys
import textwrap
import warnings
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

import matplotlib
from docutils.nodes import SkipNode
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)
HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

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
    "myst_parser",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "generated", "gallery/*.ipynb", "gallery/*.py"]
exclude_patterns += ["gallery/*.codeobj.json"]
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["mercer.css"]
suppress_warnings = ["config.cache"]

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
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

html_math_renderer = "mathml"

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
# Pages that stand alone need no section navigation.
ALONE = ("index", "getting_started", "notes", "performance", "development")
html_sidebars = {page: [] for page in ALONE}


def keep_ours(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out members that come from scikit-learn: they are documented there."""
    function = getattr(obj, "__func__", getattr(obj, "fget", obj))
    module = getattr(function, "__module__", None) or ""
    return True if module.startswith("sklearn") else None


def join_continued(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Undo what a long line of parameter names, continued by a backslash, does to the indentation.

    The continuation starts at the margin, so that the rest of the docstring was not dedented.
    """
    if any(line.endswith("\\") for line in lines):
        text = "\n".join(lines).replace("\\\n", "")
        first, _, rest = text.partition("\n")
        lines[:] = [first, *textwrap.dedent(rest).split("\n")]


def write_inline(writer: Any, node: Any) -> None:
    writer.body.append(mathml(node.astext(), node))
    raise SkipNode


def write_display(writer: Any, node: Any) -> None:
    writer.body.append(f'<div class="formula">{mathml(node.astext(), node, as_block=True)}</div>')
    raise SkipNode


# \tfrac12 and \tfrac\lambda2 are \tfrac{1}{2} and \tfrac{\lambda}{2}; docutils wants the braces.
ARGUMENT = r"\s*(\\[a-zA-Z]+|\{[^{}]*\}|[^\s{\\])"
FRACTION = re.compile(r"(\\[td]?frac)" + ARGUMENT + ARGUMENT)


def braced(fraction: re.Match) -> str:
    command, *arguments = fraction.groups()
    return command + "".join(f"{{{argument.strip('{}')}}}" for argument in arguments)


def mathml(tex: str, node: Any, as_block: bool = False) -> str:
    """A formula as MathML, which browsers set themselves: no script, no network."""
    tex = FRACTION.sub(braced, tex.replace(r"\dots", r"\ldots"))
    try:
        return tex2mathml(tex, as_block=as_block)
    except MathError as error:
        logger.warning("%s in the formula %s", error, tex, location=node)
        return f"<code>{html.escape(tex)}</code>"


def generate(app: Any) -> None:
    """Write what pages include: the catalogue of kernels, the measurements, the drawings."""
    from generation import catalogue, drawings, performance

    for part in (catalogue, drawings, performance):
        part.write(HERE / "generated")


def link_to_the_gallery(app: Any, name: str, source: list[str]) -> None:
    """Links to example scripts, which a clone has, lead to their pages on the site."""
    scripts = re.sub(r"\(\.\./examples/(\w+)\.py\)", r"(gallery/\1.rst)", source[0])
    source[0] = scripts.replace("(../examples/)", "(gallery/index.rst)")


def setup(app: Any) -> None:
    app.connect("source-read", link_to_the_gallery)
    app.connect("builder-inited", generate)
    app.connect("autodoc-skip-member", keep_ours)
    app.connect("autodoc-process-docstring", join_continued, priority=100)
    app.add_html_math_renderer("mathml", (write_inline, None), (write_display, None))
