"""Markdown as our reports write it, turned into Slack's mrkdwn, and cut into blocks that Slack takes. Pure.

Limits: 3,000 characters a text object, 50 blocks a message (https://docs.slack.dev/reference/block-kit/blocks), and about
13,200 characters of blocks altogether, which Slack does not document (slackapi/bolt-js#2509). What is cut says so. Nothing
from outside can become a mention or a link: `&`, `<` and `>` are escaped first, and the texts are `verbatim`, so that Slack
makes nothing of plain words either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

#: below 3,000, for characters that Slack counts as two
TEXT_LIMIT = 2900
BLOCK_LIMIT = 50
#: of all blocks of a message together, as they are sent; below what Slack was seen to take
MESSAGE_LIMIT = 11_000
#: what a block weighs beside its text
_FRAME = 80

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
    lines = mrkdwn(markdown).split("\n")
    chunks = list(_chunks(lines))
    if len(chunks) > most or _weight(chunks) > MESSAGE_LIMIT:
        note = f"… {{}} more lines: {mrkdwn(more)}"
        kept = _fitting(lines, most - 1, MESSAGE_LIMIT - len(note) - _FRAME - 10)
        chunks = [*_chunks(lines[:kept]), note.format(len(lines) - kept)]
    return [{"type": "section", "text": {"type": "mrkdwn", "text": chunk, "verbatim": True}} for chunk in chunks]


def _weight(chunks: Iterable[str]) -> int:
    return sum(len(chunk) + _FRAME for chunk in chunks)


def _fitting(lines: Sequence[str], most: int, room: int) -> int:
    """How many lines fit, whole."""
    low, high = 0, len(lines)
    while low < high:
        middle = (low + high + 1) // 2
        chunks = list(_chunks(lines[:middle]))
        low, high = (middle, high) if len(chunks) <= most and _weight(chunks) <= room else (low, middle - 1)
    return low


def condensed(markdown: str, most: int) -> str:
    """A document for a chat: of every section its first lines, and how many are left out."""
    out: list[str] = []
    for section in re.split(r"\n(?=## )", markdown.rstrip("\n")):
        head, *lines = [line for line in section.split("\n") if line.strip()]
        out += ["", head, *lines[:most]]
        out += [f"- … {len(lines) - most} more lines"] if len(lines) > most else []
    return "\n".join(out[1:])


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
