"""Sphinx's settings for the documentation site; `make docs` builds it, without a network."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

HERE = Path(__file__).parent
DOCS = HERE.parent
sys.path.insert(0, str(HERE))

import notebooks  # noqa: E402
import reference  # noqa: E402
import views  # noqa: E402
from directives import ViewDirective  # noqa: E402

import liebody  # noqa: E402

project = "liebody"
author = "liebody contributors"
copyright = author
version = release = liebody.__version__

extensions = ["myst_nb", "sphinx_design", "sphinx.ext.viewcode"]
root_doc = "index"
exclude_patterns = ["site", "pictures/*.py", "_build", "downloads"]
nitpicky = True
suppress_warnings = ["myst.header"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True

toc_object_entries_show_parents = "hide"
html_theme = "pydata_sphinx_theme"
html_title = "liebody"
# Canonical addresses are known where the site is hosted. Read the Docs adds a selector of versions by itself;
# elsewhere, as on GitHub Pages, a folder for each version stands at SITE_ADDRESS, beside versions.json.
address = os.environ.get("SITE_ADDRESS", "").rstrip("/")
named_version = os.environ.get("SITE_VERSION", "dev")
html_baseurl = os.environ.get("READTHEDOCS_CANONICAL_URL", f"{address}/{named_version}/" if address else "")
html_extra_path = [str(DOCS / "downloads")]
html_static_path = [str(HERE / "static")]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_sidebars = {page: [] for page in ("index", "gallery", "used-for")}  # they have no pages below them
html_theme_options = {
    "navbar_align": "left",
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 5,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
if address:
    html_theme_options |= {
        "switcher": {"json_url": f"{address}/versions.json", "version_match": named_version},
        "navbar_end": ["version-switcher", "theme-switcher", "navbar-icon-links"],
        "check_switcher": False,
    }

REPOSITORY = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+(?!docs/)[^)]*)\)")


def without_links_to_the_repository(app: Sphinx, document: str, source: list[str]) -> None:
    """Links of pages to files outside of docs/ lead somewhere in a clone, and nowhere on the site."""

    def replaced(found: re.Match[str]) -> str:
        text, target = found[1].strip("`"), found[2]
        if target.endswith(("README.md", "CONTRIBUTING.md", "CHANGELOG.md")):
            return text
        path = target.replace("../", "")
        return f"`{path}`" if text in (path, Path(path).name) else f"{text} (`{path}`)"

    source[0] = notebooks.with_link(document, REPOSITORY.sub(replaced, source[0]))


def mathml(self: nodes.NodeVisitor, node: nodes.Element, display: str = "inline") -> None:
    """Formulas as MathML, which browsers set by themselves: no script, no network."""
    self.body.append(convert(node.astext(), display=display))  # type: ignore[attr-defined]
    raise nodes.SkipNode


def mathml_block(self: nodes.NodeVisitor, node: nodes.Element) -> None:
    text = node.astext()
    if "\\\\" in text and "\\begin" not in text:
        text = rf"\begin{{align}} {text} \end{{align}}"
    self.body.append('<div class="math">')  # type: ignore[attr-defined]
    self.body.append(convert(text, display="block"))  # type: ignore[attr-defined]
    self.body.append("</div>")  # type: ignore[attr-defined]
    raise nodes.SkipNode


def unit(name, rawtext, text, lineno, inliner, options=None, content=()):  # type: ignore[no-untyped-def]
    return [nodes.inline(rawtext, text, classes=["unit"])], []


def setup(app: Sphinx) -> None:
    app.add_role("unit", unit)
    app.add_html_math_renderer("mathml", (mathml, None), (mathml_block, None))
    app.connect("source-read", without_links_to_the_repository)
    app.connect("builder-inited", lambda app: reference.write(DOCS / "reference"))
    app.add_directive("view", ViewDirective)
    # Folders of extra files are looked for when the configuration is read.
    notebooks.write(DOCS / "tutorials", DOCS / "downloads" / "tutorials")
    views.write(DOCS / "downloads" / "views")
