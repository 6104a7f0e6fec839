"""The Markdown that our own reports are written in, as HTML: headings, nested lists, bold, code and links; nothing else.

Everything is escaped first, so that only what is produced here is markup. Links lead to http and https alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from markupsafe import Markup, escape

_CODE = re.compile(r"(`[^`\n]+`)")
_BOLD = re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*")
_ITALIC = re.compile(r"(?<!\w)_(?=\S)([^_\n]+?)(?<=\S)_(?!\w)")
_LINK = re.compile(r"\[([^\[\]\n]+)\]\((https?://[^\s()<>\"']+)\)")
_ITEM = re.compile(r"^(\s*)(?:[-*]|\d+\.)\s+(.*)$")
_HEADING = re.compile(r"^(#{1,4})\s+(.*)$")


def inline(text: str) -> Markup:
    """One line."""
    held: list[str] = []

    def keep(match: re.Match[str]) -> str:
        held.append(f"<code>{match.group(1)[1:-1]}</code>")
        return f"\x00{len(held) - 1}\x00"

    # code first, so that nothing in it is taken for markup
    shown = _CODE.sub(keep, str(escape(text.replace("\x00", ""))))
    shown = _LINK.sub(r'<a href="\2">\1</a>', shown)
    shown = _BOLD.sub(r"<strong>\1</strong>", shown)
    shown = _ITALIC.sub(r"<em>\1</em>", shown)
    return Markup(re.sub(r"\x00(\d+)\x00", lambda m: held[int(m.group(1))], shown))


def document(text: str, top: int = 1) -> Markup:
    """A document. `top` is the level of its first heading on the page."""
    return Markup("\n").join(_blocks(text.split("\n"), top))


def _blocks(lines: Iterable[str], top: int) -> Iterable[Markup]:
    items: list[tuple[int, bool, str]] = []
    for line in [*lines, ""]:
        if item := _ITEM.match(line):
            items.append((len(item.group(1)), line.lstrip()[0].isdigit(), item.group(2)))
            continue
        if items:
            yield _list(items)
            items = []
        if heading := _HEADING.match(line):
            level = min(6, len(heading.group(1)) + top - 1)
            yield Markup("<h{0}>{1}</h{0}>").format(level, inline(heading.group(2)))
        elif line.strip():
            yield Markup("<p>{}</p>").format(inline(line.strip()))


def _list(items: list[tuple[int, bool, str]]) -> Markup:
    """Items by indentation; what is indented deeper belongs to the item above it."""
    depth, numbered, _ = items[0]
    out, start = [], 0
    for position in range(1, len(items) + 1):
        if position == len(items) or items[position][0] <= depth:
            below = items[start + 1 : position]
            out.append(Markup("<li>{}{}</li>").format(inline(items[start][2]), _list(below) if below else ""))
            start = position
    return Markup("<{0}>{1}</{0}>").format("ol" if numbered else "ul", Markup("").join(out))
