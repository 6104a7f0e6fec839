"""Markdown as our reports write it, turned into Slack's mrkdwn, and cut into blocks that Slack takes. Pure.

Limits: 3,000 characters a text object, 50 blocks a message (https://docs.slack.dev/reference/block-kit/blocks). What is
cut says so. Nothing from outside can become a mention or a link: `&`, `<` and `>` are escaped first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

#: below 3,000, for characters that Slack counts as two
TEXT_LIMIT = 2900
BLOCK_LIMIT = 50

_CODE = re.compile(r"(```.*?```|`[^`\n]+`)", re.DOTALL)
_RULES = (
    (re.compile(r"^#{1,6}\s+(.+?)\s*$", re.MULTILINE), r"*\1*"),
    (re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*"), r"*\1*"),
    (re.compile(r"\[([^\[\]\n]+)\]\((https?://[^\s()|]+)\)"), r"<\2|\1>"),
    (re.compile(r"^(\s*)[-*]\s+", re.MULTILINE), r"\1• "),
)
#: where a text must not be cut: an entity or a link
_WHOLE = re.compile(r"&(?:amp|lt|gt);|<[^<>\n]*>")


def mrkdwn(markdown: str) -> str:
    """Markdown as mrkdwn. Code stays as it is."""
    parts = _CODE.split(escape(markdown))
    return "".join(part if i % 2 else _plain(part) for i, part in enumerate(parts))


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _plain(text: str) -> str:
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


def blocks(markdown: str, more: str, most: int = BLOCK_LIMIT) -> list[dict[str, Any]]:
    """Section blocks for a text. `more` says where the rest is, if it has to be cut."""
    chunks = list(_chunks(mrkdwn(markdown).split("\n")))
    if len(chunks) > most:
        left = sum(chunk.count("\n") + 1 for chunk in chunks[most - 1 :])
        chunks = [*chunks[: most - 1], f"… cut here, {left} more lines: {mrkdwn(more)}"]
    return [{"type": "section", "text": {"type": "mrkdwn", "text": chunk}} for chunk in chunks]


def shorten(text: str, limit: int) -> str:
    """A text within a limit; what is cut shows. Entities and links stay whole."""
    if len(text) <= limit:
        return text
    end = limit - 1
    for match in _WHOLE.finditer(text):
        if match.start() < end < match.end():
            end = match.start()
            break
    return text[:end] + "…"


def _chunks(lines: Iterable[str]) -> Iterable[str]:
    """Lines packed into texts within the limit; an empty text is none."""
    current = ""
    for line in lines:
        line = shorten(line, TEXT_LIMIT)
        joined = f"{current}\n{line}" if current else line
        if len(joined) > TEXT_LIMIT:
            yield current
            joined = line
        current = joined
    if current.strip():
        yield current
