"""The directive `view` of pages: a motion of `views`, in a frame."""

from __future__ import annotations

from docutils import nodes
from docutils.parsers.rst import Directive
from views import VIEWS, figure


class ViewDirective(Directive):
    """The directive `view`: the name of a view, and words that say what it shows."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        name, words = self.arguments[0], " ".join(self.content)
        if name not in VIEWS or not words:
            raise self.error(f"view {name!r}, {words!r}: expected one of {', '.join(VIEWS)}, and words")
        up = "../" * self.state.document.settings.env.docname.count("/")
        return [nodes.raw("", figure(name, words, up), format="html")]
