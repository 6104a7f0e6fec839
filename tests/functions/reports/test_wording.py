"""Words: one order, and nothing from outside that becomes markup, a mention, a link or a line of its own."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.chat.mrkdwn import mrkdwn
from functions.reports.wording import cause, clock, code, duration, ordered, printable, prose, span, subject_text, visible

NASTY = [
    "<!channel> down",
    "<@U012AB3CD> *look*",
    "[click](https://evil.example/x)",
    "https://evil.example/?q=1",
    "a\n# Heading\n- item",
    "`rm -rf /` and more`",
    "_em_ **bold** ~gone~",
    "<script>alert(1)</script>",
    "\x1b[2J\x07bell",
    "admin\u202etxt.exe",
    "&lt;b&gt;",
    "1. first",
    "> quoted",
    "@here",
    "www.evil.example",
]


@pytest.mark.parametrize("text", NASTY)
def test_nothing_from_outside_becomes_markup(text: str) -> None:
    for shown in (code(text), prose(text)):
        assert "\n" not in shown
        assert not re.search(r"[\x00-\x1f\u202a-\u202e\u2066-\u2069]", shown)
        plain = re.sub(r"`[^`]*`", "", shown)
        assert shown.count("`") % 2 == 0
        assert not re.search(r"[*\[\]<]|://|www\.|^[#>@-]|^\d+\.|&\w+;", plain), shown


@pytest.mark.parametrize("text", NASTY)
def test_slack_makes_no_mention_no_link_and_no_format_of_it(text: str) -> None:
    for shown in (mrkdwn(code(text)), mrkdwn(prose(text))):
        assert "<" not in shown
        assert ">" not in shown
        assert not re.search(r"[*~]", re.sub(r"`[^`]*`", "", shown))


@given(st.text(max_size=300))
def test_any_text_keeps_its_words_and_stays_in_its_line(text: str) -> None:
    shown = prose(text, 10_000)
    assert "\n" not in shown
    assert shown.replace("`", "").replace("'", "").split() == visible(text).replace("`", "").replace("'", "").split()
    assert len(code(text)) <= 302


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("GPU fleet is empty", "GPU fleet is empty"),
        ("DCGM_FI_DEV_FB_FREE of NVIDIA/dcgm-exporter#655", "DCGM_FI_DEV_FB_FREE of NVIDIA/dcgm-exporter#655"),
        ('two nodes show UUID="<<<NULL>>>".', 'two nodes show `UUID="<<<NULL>>>"`.'),
        ("Load `a * b`, (see x*y).", "Load `a * b`, (see `x*y`)."),
        ("rate() is > 85 & more", "rate() is > 85 & more"),
    ],
)
def test_ordinary_sentences_stay_as_they_are(text: str, wanted: str) -> None:
    assert prose(text) == wanted


def test_what_is_cut_shows() -> None:
    assert code("x" * 400).endswith("…`")
    assert prose("word " * 400, 100).endswith("…")
    assert len(prose("word " * 400, 100)) == 100


def test_an_empty_name_is_said_to_be_empty() -> None:
    assert code("") == code("\u200b") == "`(empty)`"


def test_a_terminal_keeps_the_layout_and_gets_no_escape_sequence() -> None:
    assert printable("   a    \x1b[31mred\x1b[0m\nnext") == "   a    [31mred[0m next"


def finding(code_: str, severity: str, name: str, verdict: str = "fail") -> dict[str, object]:
    return {"code": code_, "severity": severity, "verdict": verdict, "subject": {"metric": name}}


def test_the_gravest_comes_first_then_the_way_of_the_person_on_call_then_the_name() -> None:
    rename, rule, gone = "metric-rename/renamed", "metric-rename/rule-dead", "telemetry-gap/frozen"
    wanted = [
        finding(rule, "critical", "b"),
        finding(rename, "critical", "c"),
        finding(gone, "critical", "a"),
        finding(rename, "warning", "a"),
        finding(rename, "info", "a"),
        finding(rename, "info", "z"),
        finding(rule, "critical", "a", "unknown"),
    ]
    assert ordered(reversed(wanted)) == wanted  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("subject", "wanted"),
    [
        ({"node": "n-1", "namespace": "ml", "pod": "p"}, "ml/p on n-1"),
        ({"node": "n-1", "gpu": "GPU-1", "gpu_instance": "7"}, "GPU-1 instance 7 on n-1"),
        ({"namespace": "ml", "workload": "Deployment/web"}, "Deployment ml/web"),
        ({"namespace": "ml"}, "namespace ml"),
        ({"rule": "GpuHot", "metric": "m"}, "GpuHot"),
        ({"target": "10.0.0.1:9400", "job": "dcgm"}, "10.0.0.1:9400"),
        ({"job": "dcgm"}, "job dcgm"),
        ({}, "the cluster"),
    ],
)
def test_a_subject_in_a_few_words(subject: dict[str, str], wanted: str) -> None:
    assert subject_text(subject) == wanted


def test_an_alert_audit_names_the_alerts_that_led_to_it() -> None:
    trigger = {"kind": "alert", "phase": "firing", "subject": {"kind": "Namespace", "namespace": "", "name": "chat"}}
    led = {"trigger": trigger, "detail": {"labels": {"alertname": "P95High"}}}
    other = {"trigger": {"kind": "alert", "phase": "resolved"}, "detail": {"labels": {"alertname": "Gone"}}}
    report = {"audit": {"trigger": trigger, "scope": "namespace/chat"}, "signals": [led, other]}
    assert cause(report) == "alert firing: P95High on Namespace chat"
    assert cause(report | {"signals": []}) == "alert firing: Namespace chat"


def test_instants_show_their_day_only_where_it_differs() -> None:
    assert clock("2026-11-03T12:00:00Z", "2026-11-03T01:00:00Z") == "12:00 UTC"
    assert clock("2026-11-03T12:00:00Z", "2026-11-02T23:00:00Z") == "2026-11-03 12:00 UTC"
    assert span("2026-11-03T11:00:00+00:00", "2026-11-03T12:00:00Z") == "11:00 and 12:00 UTC"
    assert span("2026-11-02T23:00:00Z", "2026-11-03T12:00:00Z") == "2026-11-02 23:00 UTC and 2026-11-03 12:00 UTC"


def test_durations_have_two_units_at_most() -> None:
    assert [duration(s) for s in (0, 59.6, 3_725, 90_000)] == ["0 s", "1 min", "1 h 2 min", "1 d 1 h"]
