"""The Markdown that our own reports are written in, as HTML. What comes from outside stays text: no HTML, no pictures, and
links lead to http and https alone."""

from __future__ import annotations

from functools import lru_cache

from markdown_it import MarkdownIt
from markupsafe import Markup

#: parts of CommonMark that our reports don't use and that names from outside must not become
_NOT_OURS = ("autolink", "blockquote", "code", "entity", "hr", "html_block", "html_inline", "image", "lheading", "reference")


class _Reader(MarkdownIt):
    def validateLink(self, url: str) -> bool:
        return url.startswith(("http://", "https://"))


@lru_cache(maxsize=1)
def _reader() -> MarkdownIt:
    return _Reader("commonmark", {"html": False}).disable(list(_NOT_OURS))


def inline(text: str) -> Markup:
    """One line."""
    return Markup(_reader().renderInline(text))


def document(text: str, top: int = 1) -> Markup:
    """A document. `top` is the level of its first heading on the page."""
    reader = _reader()
    tokens = reader.parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1:]) + top - 1)}"
    return Markup(reader.renderer.render(tokens, reader.options, {}))
