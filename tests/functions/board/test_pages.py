"""The pages, from recorded cases: what is on them, escaped, and where they lead."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

import pytest

from functions.board import pages
from functions.board.pages import Chosen
from tests.support.reports import check, finding, report
from tests.test_cases import CASES, report_of

EVIL = "<script>alert(1)</script>\"'><img src=x>"


def record(**more: Any) -> dict[str, Any]:
    """A finding as the API has it."""
    [found] = report("a-1", check("label-mapping", [finding(**more)])).as_dict()["findings"]
    life = {"state": "open", "first_seen": "2026-11-03T11:00:00Z", "last_seen": "2026-11-03T12:00:00Z", "resolved_at": None, "count": 2}
    return {**found, **life, "reopened": 0, "first_audit": "a-0", "audit": "a-1"}


async def case(name: str) -> dict[str, Any]:
    [path] = [p for p in CASES if p.name.startswith(name)]
    return (await report_of(path)).as_dict()


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html.split("<main", 1)[1]).split())


async def test_an_audit_page_says_verdict_kinds_steps_checks_and_findings() -> None:
    document = await case("14")
    html = pages.audit("prod", document, drafted=True)
    text = words(html)
    assert "✕ fail rollout complete: DaemonSet gpu-operator/nvidia-dcgm-exporter" in text
    assert "3 alerts are blind" in text
    assert "What to change Load these 5 expressions:" in text
    assert "✓ pass telemetry-gap 8 of 8 targets deliver" in text
    assert html.count("<details id=") == len(document["findings"]) == 44
    assert re.findall(r"<h[1-6]", html)[0] == "<h1"
    assert html.index("GPUFramebufferNearlyFull has no data") < html.index("DCGM_FI_DEV_DEC_UTIL is called")
    assert f'<a href="/postmortems/{document["audit"]["id"]}">Postmortem stub</a>' in html


async def test_findings_are_narrowed_by_plain_links() -> None:
    document = await case("14")
    html = pages.audit("prod", document, Chosen("warning", "label-mapping"))
    assert html.count("<details id=") == 2
    assert 'href="/audits/case?severity=warning">all</a>' in html
    assert "<b>warning</b>" in html
    assert "No finding fits" in pages.audit("prod", document, Chosen("critical", "label-mapping"))


def test_many_findings_come_in_pages() -> None:
    document = report("a", check("label-mapping", [finding(node=f"n-{n}") for n in range(250)])).as_dict()
    first, last = pages.audit("lab", document), pages.audit("lab", document, start=200)
    assert (first.count("<details id="), last.count("<details id=")) == (100, 50)
    assert 'href="/audits/a?start=100">Findings 101 to 250</a>' in first
    assert "start=" not in last


def test_what_was_not_judged_and_may_have_been_missed_is_on_the_page() -> None:
    audit = report("a", check("label-mapping", unjudged=[{"node": "n-9"}]), check("x", missing="timed-out"), coverage=("Events <b> lost",))
    text = words(pages.audit("lab", audit.as_dict()))
    assert "May have been missed: Events &lt;b&gt; lost" in text
    assert "n-9: no answer" in text
    assert "missing schema (timed-out): Prometheus: timed-out" in text


def test_the_first_page_sums_up_what_is_open_and_lists_its_members() -> None:
    html = pages.index("lab", [report("a").as_dict()["audit"]], [record(node="n-1"), record(node="n-2")])
    assert "2 GPU Pods can't be found on their devices" in html
    assert html.count('<a href="/findings/') == 2
    assert "postmortem stub" not in html
    drafted = pages.index("lab", [report("a").as_dict()["audit"]], [], drafted={"a"})
    assert '<a href="/postmortems/a">postmortem stub</a>' in drafted
    assert "since 2026-11-03 11:00 UTC" in words(html)
    assert "500+ open findings" in words(pages.index("lab", [], [record(node=f"n-{n}") for n in range(500)], more=True))


@pytest.mark.parametrize(
    ("verdict", "wanted"),
    [
        ("pass", "✓ pass Every link that was judged can be followed"),
        ("unknown", "? unknown No finding is open, and not everything could be judged"),
        ("not-applicable", "– not-applicable There was nothing to judge"),
    ],
)
def test_without_findings_the_latest_verdict_is_the_headline_and_unknown_is_never_green(verdict: str, wanted: str) -> None:
    audit = report("a").as_dict()["audit"] | {"verdict": verdict}
    assert words(pages.index("lab", [audit], [])).startswith(f'id="main"> {wanted}')


def test_before_the_first_audit_the_page_says_what_to_do() -> None:
    text = words(pages.index("lab", [], []))
    assert "Nothing has been judged yet" in text
    assert "telltale doctor" in text
    assert "pass" not in text


def test_a_finding_has_its_life_and_what_it_rests_on() -> None:
    muted = record() | {"muted_until": "2026-11-04T00:00:00Z", "mute_reason": "known", "reopened": 2}
    text = words(pages.finding("lab", muted))
    for wanted in (
        "first seen 2026-11-03 11:00 UTC",
        "in 2 audits",
        "came back 2 times",
        "Muted until 2026-11-04 00:00 UTC : known",
        "expected wanted",
    ):
        assert wanted in text


def test_nothing_from_outside_is_markup_on_any_page() -> None:
    bad = record(node=EVIL) | {"title": EVIL, "observed": EVIL, "hint": EVIL, "muted_until": "2026-11-04T00:00:00Z", "mute_reason": EVIL}
    bad["impact"] = [{"kind": "alert", "name": EVIL, "expr": EVIL, "suggested": EVIL, "note": EVIL}]
    bad["evidence"] = [{"source": "rules", "ref": EVIL, "sample": EVIL, "at": ""}]
    document = report("a", check("label-mapping", [finding(node=EVIL)]), coverage=(EVIL,)).as_dict()
    document["findings"] = [bad]
    document["audit"]["trigger"]["subject"]["name"] = EVIL
    for html in (
        pages.index("lab", [document["audit"]], [bad]),
        pages.audit("lab", document),
        pages.findings("lab", [bad], "cursor&<", Chosen(check=EVIL), [EVIL]),
        pages.finding("lab", bad),
        pages.text("lab", EVIL, f"# {EVIL}\n- {EVIL}", EVIL),
        pages.problem("lab", EVIL, EVIL),
    ):
        assert "<script" not in html
        assert "<img" not in html
        assert "&lt;script&gt;" in html
        assert not re.search(r"""(?:href|src)=["'](?!/|#|\?|data:)""", html)


def test_the_policy_of_the_page_allows_its_own_style_and_nothing_else() -> None:
    html = pages.index("lab", [], [])
    [style] = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = pages.HEADERS["Content-Security-Policy"]
    assert f"style-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "style=" not in html
    assert "<script" not in html


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_colours_of_text_have_the_contrast_that_reading_needs(scheme: str) -> None:
    css = pages._STYLE
    block = css.split("prefers-color-scheme: dark")[1].split("}")[0] if scheme == "dark" else css.split("}")[0]
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{3,6});", block))
    pairs = [("ink", "paper"), ("dim", "paper"), ("dim", "raised"), ("link", "paper"), ("link", "raised")]
    pairs += [(name, f"{name}-bg") for name in ("fail", "unknown", "pass", "info", "na")]
    for text, ground in pairs:
        assert _contrast(colours[text], colours[ground]) >= 4.5, (text, ground)


def _contrast(one: str, other: str) -> float:
    """WCAG 2: relative luminance of both, the lighter over the darker."""

    def luminance(colour: str) -> float:
        digits = colour[1:] if len(colour) == 7 else "".join(c * 2 for c in colour[1:])
        parts = [int(digits[n : n + 2], 16) / 255 for n in (0, 2, 4)]
        red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
