"""Markdown as Slack has it, within Slack's limits."""

from __future__ import annotations

import json

import pytest

from functions.chat.mrkdwn import BLOCK_LIMIT, blocks, condensed, mrkdwn, shorten


@pytest.mark.parametrize(
    ("markdown", "wanted"),
    [
        ("**bold** and _it_", "*bold* and _it_"),
        ("## Head\ntext", "*Head*\ntext"),
        ("- one\n  - two", "• one\n  • two"),
        ("[board](https://x.example/audits/1)", "<https://x.example/audits/1|board>"),
        ("a < b & c > d", "a &lt; b &amp; c &gt; d"),
        ('`rate(x{a=~"b**c"}[5m]) > 1`', '`rate(x{a=~"b**c"}[5m]) &gt; 1`'),
        ("<!channel> <@U1>", "&lt;!channel&gt; &lt;@U1&gt;"),
        ("[x](javascript:alert(1))", "[x](javascript:alert(1))"),
    ],
)
def test_markdown_becomes_mrkdwn(markdown: str, wanted: str) -> None:
    assert mrkdwn(markdown) == wanted


def test_blocks_stay_within_the_limits_and_a_cut_shows() -> None:
    lines = ["&" * 100 for _ in range(5000)]
    found = blocks("\n".join(lines), "see audit")
    texts = [b["text"]["text"] for b in found]
    assert len(found) <= BLOCK_LIMIT
    assert all(1 <= len(text) <= 3000 for text in texts)
    assert len(json.dumps(found)) <= 12_000
    kept = sum(text.count("\n") + 1 for text in texts[:-1])
    assert texts[-1] == f"… {5000 - kept} more lines: see audit"
    assert kept > 15
    assert blocks("", "x") == []


def test_many_short_blocks_are_within_the_number_of_blocks() -> None:
    assert len(blocks("\n".join(f"{n} " + "x" * 2890 for n in range(80)), "see audit", most=3)) == 3


def test_slack_is_told_to_make_nothing_of_plain_words() -> None:
    [block] = blocks("@here #general https://evil.example", "x")
    assert block["text"]["verbatim"] is True


def test_one_endless_line_is_cut_and_shows_it() -> None:
    [block] = blocks("x" * 10_000, "see audit")
    assert block["text"]["text"].endswith("…")


@pytest.mark.parametrize("text", ["ab&amp;cd", "ab<https://x|y>cd"])
def test_entities_and_links_are_never_cut_in_the_middle(text: str) -> None:
    for limit in range(1, len(text) + 1):
        short = shorten(text, limit)
        assert len(short) <= limit
        assert short.count("&") == short.count(";")
        assert short.count("<") == short.count(">")


def test_a_document_is_condensed_by_section_and_says_what_it_leaves_out() -> None:
    document = "# Title\nintro\n\n## One\n- a\n- b\n- c\n\n## Two\n- d\n"
    assert condensed(document, 2) == "# Title\nintro\n\n## One\n- a\n- b\n- … 1 more lines\n\n## Two\n- d"
