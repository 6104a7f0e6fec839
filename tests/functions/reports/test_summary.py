"""The summary: first what is broken and since when, each kind once, what is unknown, what to change; within bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from functions.chat.mrkdwn import blocks
from functions.contract.findings import Finding, Impact, Severity, Verdict
from functions.contract.signals import TriggerKind
from functions.reports import summary
from functions.reports.fixes import fixes
from functions.reports.groups import lines
from tests.support.reports import EXPORTER, NOW, check, finding, later, report, signal


def renamed(n: int, severity: Severity = Severity.INFO) -> Finding:
    return finding("metric-rename/renamed", severity, metric=f"OLD_{n}", renamed_to=f"NEW_{n}")


def scaled(n: int) -> Finding:
    return finding("metric-rename/unit-changed", Severity.INFO, metric=f"OLD_{n}", renamed_to=f"NEW_{n}")


def blind(name: str, kind: str = "alert", suggested: str | None = "new > 1") -> Finding:
    impact = (Impact(kind, name, "old > 1", suggested),)
    return replace(finding("metric-rename/rule-dead", rule=name), impact=impact, hint=f"Load `{suggested}`.")


def rendered(*checks: Any, fresh: tuple[str, ...] | None = None, reason: str = "", link: str = "", **more: Any) -> summary.Message:
    return summary.render(report("a-1", *checks, **more).as_dict(), fresh=fresh, reason=reason, link=link)


def dicts(*findings: Finding) -> list[Mapping[str, Any]]:
    return report("a", check("metric-rename", findings)).as_dict()["findings"]  # type: ignore[no-any-return]


def test_the_first_two_lines_say_verdict_change_what_is_blind_and_since_when() -> None:
    started = signal("s", phase="started", at=later(-600))
    message = rendered(check("metric-rename", [renamed(1), blind("GpuHot")]), signals=(started, signal("c", at=later(-300))))
    assert message.title == "🔴 FAIL · rollout complete: DaemonSet gpu-operator/nvidia-dcgm-exporter · lab"
    first = message.lead.split("\n")[0]
    assert first == "🔴 **1 alert is blind**: `GpuHot` · since the rollout between 11:50 and 11:55 UTC"


def test_without_a_baseline_nothing_is_said_to_be_older_than_it_was_seen() -> None:
    message = rendered(check("metric-rename", [blind("GpuHot")]), baseline=None)
    assert message.lead.endswith("seen at 2026-11-03 12:00 UTC")
    assert "compared with nothing" in message.details


def test_what_rests_on_no_comparison_is_only_said_to_be_seen() -> None:
    assert rendered(check("label-mapping", [finding()])).lead.endswith("seen at 2026-11-03 12:00 UTC")


def test_between_two_audits_by_the_clock_a_fault_began_somewhere_between() -> None:
    message = rendered(check("metric-rename", [blind("GpuHot")]), kind=TriggerKind.SCHEDULE, phase="periodic")
    assert message.lead.endswith("broke between 11:00 and 12:00 UTC")


def test_twenty_three_renames_are_one_line_that_counts_them_and_shows_the_gravest() -> None:
    found = [renamed(n) for n in range(20)] + [renamed(n, Severity.CRITICAL) for n in (20, 21, 22)] + [scaled(n) for n in range(11)]
    message = rendered(check("metric-rename", found))
    assert message.lead.count("\n") == 0
    assert message.lead.startswith(
        "🔴 **23 metrics have other names, 11 of them another unit too** (3 critical, 20 info): "
        "`OLD_20` → `NEW_20`, `OLD_21` → `NEW_21`, `OLD_22` → `NEW_22` and 20 more"
    )


def test_a_unit_that_changed_under_the_same_name_is_a_line_of_its_own() -> None:
    [first, second] = lines(dicts(renamed(1), scaled(1), scaled(2)))
    assert (first.what, second.what) == ("1 metric has another name, and another unit", "1 metric has another unit")


def test_alerts_and_recording_rules_are_counted_apart() -> None:
    found = lines(dicts(blind("GpuHot"), blind("gpu:busy:avg", "recording-rule"), blind("GpuXid")))
    assert [line.what for line in found] == ["2 alerts are blind", "1 recording rule has no data"]


def test_what_could_not_be_judged_is_never_left_out_and_one_reason_is_said_once() -> None:
    message = rendered(check("telemetry-gap", missing="unreachable"), check("metric-rename", missing="unreachable"), check("label-mapping"))
    assert message.title.startswith("🟡 UNKNOWN")
    assert message.lead == "🟡 **telemetry-gap and metric-rename are unknown**, which is not healthy: Prometheus: unreachable"


def test_an_uncertain_finding_is_apart_from_those_that_fail() -> None:
    unsure = finding("telemetry-gap/went-silent", metric="m", verdict=Verdict.UNKNOWN)
    message = rendered(check("telemetry-gap", [finding("telemetry-gap/frozen", metric="t"), unsure]))
    assert "- 🟡 **telemetry-gap/went-silent on m** (not certain)" in message.lead


def test_an_update_says_what_is_new_and_in_one_line_what_is_still_so() -> None:
    old, new = [finding(node=f"n-{n}") for n in range(3)], finding("telemetry-gap/frozen", metric="t")
    message = rendered(check("label-mapping", old), check("telemetry-gap", [new]), fresh=(new.fingerprint("lab"),), reason="new failure")
    assert message.lead.split("\n") == [
        "🔴 **telemetry-gap/frozen on t** · seen at 2026-11-03 12:00 UTC",
        "- 🔴 told before, and still so: 3 GPU Pods can't be found on their devices",
        "_Told now because: new failure_",
    ]


def test_blind_alerts_keep_their_names_in_an_update() -> None:
    lead = rendered(check("metric-rename", [blind("GpuHot"), renamed(1), scaled(1)]), fresh=()).lead
    assert lead == "🔴 told before, and still so: 1 alert is blind (`GpuHot`); 1 metric has another name, and another unit"


def test_where_nothing_is_new_what_is_left_is_one_line() -> None:
    assert (
        rendered(check("label-mapping", [finding()]), fresh=()).lead
        == "🔴 told before, and still so: 1 GPU Pod can't be found on its devices"
    )


def test_a_healthy_change_is_one_line_that_says_what_was_proven() -> None:
    line = summary.healthy_line(report("a", check("label-mapping"), check("telemetry-gap", judged=12)).as_dict())
    assert line == "🟢 PASS · rollout complete: DaemonSet gpu-operator/nvidia-dcgm-exporter · lab — 8 judged; 12 judged"


def test_the_details_say_what_was_checked_what_was_left_out_and_what_may_have_been_missed() -> None:
    left = [{"node": f"n-{n}"} for n in range(5)]
    details = rendered(check("label-mapping", unjudged=left), coverage=("Events from 11:00 to 11:05 may have gone unseen",)).details
    assert "- 🟡 unknown · `label-mapping`: 8 judged" in details
    assert "- `label-mapping`: `n-0`, `n-1`, `n-2` and 2 more: no answer" in details
    assert "**What may have been missed**\n- Events from 11:00 to 11:05 may have gone unseen" in details


def test_the_footer_leads_to_the_whole_report() -> None:
    details = rendered(check("label-mapping", [finding()]), link="https://board.example/audits/a-1", cost={"queries": 21.0}).details
    assert details.endswith(
        "audit `a-1` · 2026-11-03 12:00 UTC compared with 11:00 UTC · 1 finding · 21 queries · [the whole report](https://board.example/audits/a-1)"
    )


# ------------------------------------------------------------------------------------------------ what to change


def test_an_expression_is_given_once_however_many_findings_suggest_it() -> None:
    impact = (Impact("alert", "GpuHot", "old > 1", "new > 1"), Impact("dashboard", "Fleet", "old", "new", "Temperature"))
    label = replace(finding("metric-rename/label-renamed", label="Hostname", renamed_to="hostname"), impact=impact, hint="Replace it.")
    steps = fixes(dicts(label, blind("GpuHot"), replace(renamed(1, Severity.CRITICAL), impact=impact)))
    text = "\n".join(steps)
    assert text.count("`new > 1`") == 1
    assert steps == [
        "1. Load this expression:\n   - `GpuHot`: `new > 1`",
        "2. Change 1 query of dashboard `Fleet`: `old` to `new`.",
    ]


def test_a_hint_that_several_findings_share_is_said_once() -> None:
    steps = fixes(dicts(finding(node="n-1"), finding(node="n-2"), replace(finding(node="n-3"), hint="look there")))
    assert steps == ["1. do this 1 more such place has a hint of its own. (`label-mapping/pod-missing`)"]


def test_a_rename_whose_user_has_no_suggestion_keeps_its_hint() -> None:
    kept = replace(renamed(1, Severity.CRITICAL), impact=(Impact("alert", "GpuHot", "old > 1"),), hint="Replace OLD_1 by NEW_1.")
    assert fixes(dicts(kept)) == ["1. Replace OLD_1 by NEW_1. (`metric-rename/renamed`)"]


def test_renames_that_nothing_uses_are_no_work_and_said_so() -> None:
    assert fixes(dicts(renamed(1), renamed(2))) == [
        "1. Nothing that was seen uses the 2 renames: the old names and the new ones are in the whole report."
    ]


def test_what_is_uncertain_asks_for_no_change() -> None:
    assert fixes(dicts(finding(verdict=Verdict.UNKNOWN, node="n"))) == []


# ------------------------------------------------------------------------------------------------ the end


def test_what_has_ended_says_what_it_was_and_how_long_it_lasted() -> None:
    audit = report("a-2", check("metric-rename")).as_dict()
    records = [f | {"first_seen": "2026-11-03T10:58:00Z"} for f in dicts(blind("GpuHot"), blind("GpuXid"))]
    message = summary.resolved(audit, records, over=True)
    assert message.title == "🟢 RESOLVED · rollout complete: DaemonSet gpu-operator/nvidia-dcgm-exporter · lab"
    assert message.lead == (
        "- ✅ over after 1 h 2 min (since 10:58 UTC): **2 alerts are blind**: `GpuHot`, `GpuXid` (`metric-rename/rule-dead`)"
    )
    assert summary.resolved(audit, records, over=False).title == ""


# ------------------------------------------------------------------------------------------------ bounds and strangers


def test_a_thousand_findings_of_many_kinds_stay_readable_and_within_slacks_limits() -> None:
    kinds = [finding(f"telemetry-gap/kind-{n % 40}", metric=f"metric_{n}_" + "x" * 200) for n in range(1000)]
    found = [replace(f, hint=f"hint of {f.code} " + "word " * 100) for f in kinds]
    message = rendered(check("telemetry-gap", found), coverage=tuple(f"gap {n}" for n in range(50)))
    assert message.lead.count("\n") <= 12
    assert "- … and 28 more kinds of finding in the whole report" in message.lead
    assert "more kinds of fault have hints in the whole report" in message.details
    assert len(blocks(message.lead, "x")) <= 50
    assert "- … and 44 more" in message.details


def test_names_titles_and_hints_from_outside_make_no_markup() -> None:
    evil = "<!channel> **[x](https://evil.example)**\n# boo `"
    bad = replace(finding("telemetry-gap/frozen", metric=evil), title=evil, hint=evil, observed=evil)
    trouble = replace(check("telemetry-gap", [bad]), summary=evil)
    message = rendered(trouble, coverage=(evil,), scope=replace(EXPORTER, name=evil), current=NOW)
    for text in (message.title, message.lead, message.details):
        assert "\n# boo" not in text
    for text in (message.text, message.title):
        sent = "".join(b["text"]["text"] for b in blocks(text, "x"))
        assert "<!channel>" not in sent
        assert "<https://evil" not in sent
