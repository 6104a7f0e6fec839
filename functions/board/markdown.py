"""The Markdown that our own reports are written in, as HTML. What comes from outside stays text: no HTML, no pictures, and
links lead to http and https alone."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from markupsafe import Markup

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

#: parts of CommonMark that our reports don't use and that names from outside must not become
_NOT_OURS = ("autolink", "blockquote", "code", "entity", "hr", "html_block", "html_inline", "image", "lheading", "reference")


def _leads_to_the_web(url: str) -> bool:
    return url.startswith(("http://", "https://"))


@lru_cache(maxsize=1)
def _reader() -> MarkdownIt:
    from markdown_it import MarkdownIt  # a page without any does without

    reader = MarkdownIt("commonmark", {"html": False}).disable(list(_NOT_OURS))
    reader.validateLink = _leads_to_the_web  # type: ignore[method-assign]
    return reader


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
