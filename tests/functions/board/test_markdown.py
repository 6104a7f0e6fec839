"""Our reports' Markdown as HTML: only what we make is markup."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.board.markdown import document, inline


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("**3 alerts** are _blind_: `a_b_c`", "<strong>3 alerts</strong> are <em>blind</em>: <code>a_b_c</code>"),
        ("`**no** <b>`", "<code>**no** &lt;b&gt;</code>"),
        ("[report](https://board.example/audits/1)", '<a href="https://board.example/audits/1">report</a>'),
        ("[x](javascript:alert(1))", "[x](javascript:alert(1))"),
        ('[x](https://e.example/"onmouseover=1)', '<a href="https://e.example/%22onmouseover=1">x</a>'),
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_FREE"),
    ],
)
def test_a_line(text: str, wanted: str) -> None:
    assert inline(text) == wanted


def test_headings_paragraphs_and_nested_lists() -> None:
    text = "# Title\nwords\n\n## Steps\n1. one\n   - inner `x`\n   - more\n2. two\n\n- a"
    assert "".join(document(text, top=2).split("\n")) == (
        "<h2>Title</h2><p>words</p><h3>Steps</h3>"
        "<ol><li>one<ul><li>inner <code>x</code></li><li>more</li></ul></li><li>two</li></ol>"
        "<ul><li>a</li></ul>"
    )


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)
        assert all(name == "href" and str(value).startswith(("http://", "https://")) for name, value in attrs)


@given(st.text(alphabet=st.sampled_from("ab<>&\"'`*_[]()#-1. \n\x00:/hps"), max_size=80))
def test_whatever_comes_only_our_own_tags_come_out(text: str) -> None:
    tags = Tags()
    tags.feed(str(document(text)))
    assert tags.found <= {"h1", "h2", "h3", "h4", "h5", "h6", "p", "ul", "ol", "li", "strong", "em", "code", "a"}
