"""The stub: what is known with where it came from, what isn't known marked for a person."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from functions.contract.findings import Evidence
from functions.contract.signals import Signal, TriggerKind
from functions.reports import postmortem
from functions.reports.postmortem import TODO
from tests.support.reports import check, finding, later, report, signal

WORKLOAD = {
    "namespace": "chat",
    "workload": "Deployment/web",
    "pods": ["web-1", "web-2"],
    "nodes": ["n-1"],
    "images": ["vllm:1"],
    "restarts": 1,
    "devices": [
        {
            "node": "n-1",
            "gpu": "GPU-1",
            "gpu_instance": "",
            "pod": "web-1",
            "readings": {"gpu.xid": {"metric": "XID", "value": 94.0}, "gpu.memory.used": {"metric": "FB", "value": 1.29e11}},
        }
    ],
    "devices_total": 3,
    "unmapped_pods": ["web-2"],
}
LONGEST = {"name": "llm_request", "seconds": 24.9, "namespace": "chat", "pod": "web-2", "node": "n-1"}
TRACE = {"trace_id": "ab", "start": "2026-11-03T12:00:00Z", "seconds": 25.0, "longest": LONGEST}


def alert(phase: str, at: float, starts: float = 0, fingerprint: str = "f-1", **more: Any) -> Signal:
    detail = {"fingerprint": fingerprint, "startsAt": later(starts).isoformat(), "alertname": "P95", "labels": {"alertname": "P95"}} | more
    if phase == "resolved":
        detail["endsAt"] = later(at).isoformat()
    return signal(f"{fingerprint}/{phase}", kind=TriggerKind.ALERT, phase=phase, at=later(at), detail=detail)


def stub(*signals: Signal, context: dict[str, Any] | None = None, **more: Any) -> dict[str, list[str]]:
    """The lines by section."""
    audit = report("a-1", *more.pop("checks", ()), signals=signals or (signal("s"),), context=context or {}, **more)
    sections = postmortem.render(audit.as_dict()).split("\n## ")
    return {s.split("\n")[0]: [line for line in s.split("\n")[1:] if line] for s in sections}


def test_all_that_a_postmortem_needs_has_a_section_and_what_a_machine_can_not_know_is_marked() -> None:
    text = stub()
    assert list(text)[1:] == [
        "Summary",
        "Trigger signal",
        "Affected workload",
        "Trace",
        "Device",
        "What could not be followed",
        "Timeline of what was observed (UTC)",
        "Actions observed",
        "Recovery",
        "Dimension to add next time",
        "Root cause",
        "What went well, what went wrong, where we were lucky",
        "Follow-ups (owner, date)",
    ]
    for section in ("Summary", "Affected workload", "Actions observed", "Recovery", "Root cause", "Follow-ups (owner, date)"):
        assert any(TODO in line for line in text[section]), section


def test_an_alert_is_given_with_its_labels_annotations_and_doubts() -> None:
    firing = alert("firing", 0, annotations={"summary": "p95 is <b>27 s</b>", "other": "x"}, doubt="pod names the exporter")
    assert stub(firing)["Trigger signal"] == [
        "- `2026-11-03T12:00:00Z` alert firing of DaemonSet/gpu-operator/nvidia-dcgm-exporter",
        "  - labels: `alertname=P95`",
        "  - summary: p95 is `<b>27` `s</b>`",
        "  - pod names the exporter",
    ]


def test_a_trace_leads_on_to_the_device_or_says_where_the_way_ends() -> None:
    context = {
        "workloads": [WORKLOAD],
        "traces": {"known": True, "why": "", "slowest": [TRACE, TRACE | {"longest": LONGEST | {"pod": "web-1"}}]},
    }
    lost, found = stub(context=context)["Trace"]
    assert lost.endswith(
        "25.0 s, of which 24.9 s in `llm_request` of `chat/web-2` on `n-1`; **no device series names its Pod**, so the way ends there"
    )
    assert found.endswith("of `chat/web-1` on `n-1`; its Pod holds `GPU-1`")


@pytest.mark.parametrize(
    ("traces", "wanted"),
    [
        ({}, "- none: no trace backend is configured"),
        ({"known": False, "why": "Tempo: HTTP 503", "slowest": []}, "- none: Tempo: HTTP 503"),
        ({"known": True, "why": "", "slowest": []}, "- none: no trace of the affected workloads is known from the time of the audit"),
    ],
)
def test_without_a_trace_there_is_the_reason(traces: dict[str, Any], wanted: str) -> None:
    assert stub(context={"traces": traces})["Trace"] == [wanted]


def test_devices_are_given_with_fields_sources_and_what_is_left_out() -> None:
    lines = stub(context={"workloads": [WORKLOAD]})["Device"]
    assert lines[0] == "- `n-1` `GPU-1`, held by `web-1`: memory.used 129 G, xid 94"
    assert lines[1] == "- … and 2 more devices of `chat/Deployment/web`"
    assert lines[2] == "- no device field can be given for `web-2`: no series names it"
    assert lines[3] == "- read at 2026-11-03T12:00:00Z from: memory.used `FB`, xid `XID`"
    assert "kernel log" in lines[4]
    assert stub()["Device"] == ["- no device series names an affected Pod, so no device field can be given"]


def test_findings_are_grouped_and_carry_their_first_evidence() -> None:
    found = [replace(finding(node=f"n-{n}"), evidence=(Evidence("kubernetes", f"Pod p-{n}", at="2026-11-03T12:00:00Z"),)) for n in range(7)]
    lines = stub(checks=[check("label-mapping", found), check("telemetry-gap", missing="timed-out")])["What could not be followed"]
    assert lines[0] == "- 🔴 **7 GPU Pods can't be found on their devices**"
    assert lines[1] == "  - `label-mapping/pod-missing` `n-0`: seen · kubernetes `Pod p-0` 2026-11-03T12:00:00Z"
    assert lines[6] == "  - … and 2 more in audit `a-1`"
    assert lines[-1] == "- `telemetry-gap` is unknown, so nothing is proven there: not judged: timed-out"


def test_the_timeline_has_everything_in_its_order_and_actions_what_was_done() -> None:
    events = [
        {"at": "2026-11-03T11:40:00Z", "what": "Killing Pod ml/a: stopping", "source": "event"},
        {"at": "2026-11-03T11:41:00Z", "what": "SuccessfulCreate DaemonSet g/e: Created pod: e-1", "source": "event"},
        {"at": "2026-11-03T11:42:00Z", "what": "SuccessfulCreate DaemonSet g/e: Created pod: e-2", "source": "event"},
    ]
    text = stub(alert("firing", -60), signal("s", at=later(-900)), context={"actions": events})
    instants = [line.split("`")[1] for line in text["Timeline of what was observed (UTC)"]]
    assert instants == sorted(instants)
    assert len(instants) == 7
    assert text["Actions observed"] == [
        "- `2026-11-03T11:40:00Z` Killing Pod ml/a: stopping",
        "- `2026-11-03T11:41:00Z` SuccessfulCreate DaemonSet g/e: 2 times, the last at 2026-11-03T11:42:00Z",
        "- `2026-11-03T11:45:00Z` rollout complete of DaemonSet/gpu-operator/nvidia-dcgm-exporter",
        f"- what people did elsewhere: {TODO}",
    ]


def test_a_very_long_timeline_keeps_its_beginning_and_its_end() -> None:
    events = [{"at": f"2026-11-03T10:{n // 60:02}:{n % 60:02}Z", "what": f"Killing Pod ml/p-{n}: x", "source": "event"} for n in range(300)]
    lines = stub(context={"actions": events})["Timeline of what was observed (UTC)"]
    assert len(lines) == 61
    assert lines[30] == "- … 243 lines left out …"


@pytest.mark.parametrize(
    ("signals", "wanted"),
    [
        ([signal("s")], f"- no alert marks the beginning or the end; recovery time: {TODO}"),
        ([alert("firing", 0)], "- **not recovered** when this was written: `P95` still fires"),
        ([alert("firing", 0), alert("resolved", 3725)], "- the last alert resolved at 2026-11-03T13:02:05Z, 1 h 2 min after the first began"),
        ([alert("firing", 0), alert("resolved", 60), alert("firing", 0, fingerprint="f-2", alertname="Xid")], "- **not recovered** when this was written: `Xid` still fires"),
    ],
)  # fmt: skip
def test_recovery_is_a_time_or_said_not_to_be_there(signals: list[Signal], wanted: str) -> None:
    assert stub(*signals)["Recovery"][0] == wanted


def test_the_dimension_to_add_follows_from_what_failed() -> None:
    found = [finding(node="n-1"), finding("metric-rename/label-renamed", label="Hostname", renamed_to="hostname")]
    lines = stub(alert("firing", 0), checks=[check("label-mapping", found)])["Dimension to add next time"]
    assert lines == [
        "- `namespace`, `pod`, `container` on the device series of `n-1`",
        "- one spelling of `Hostname` in every rule, join and legend",
        "- `pod` in the grouping of alert `P95`: it names neither a Pod nor a node",
    ]
    assert stub()["Dimension to add next time"] == [f"- no failed join was found: {TODO}"]


def test_event_messages_labels_and_names_from_outside_make_no_markup() -> None:
    evil = "x\n## Root cause\n- <!here> [a](https://evil.example)"
    firing = replace(alert("firing", 0, labels={"alertname": evil, "b": evil}, annotations={"summary": evil}, alertname=evil), summary=evil)
    context = {
        "workloads": [WORKLOAD | {"images": [evil], "pods": [evil]}],
        "actions": [{"at": "2026-11-03T11:41:00Z", "what": evil, "source": "event"}],
    }
    text = postmortem.render(
        report("a-1", check("label-mapping", [replace(finding(node=evil), observed=evil)]), signals=(firing,), context=context).as_dict()
    )
    assert text.count("\n## Root cause") == 1
    outside = "".join(part for n, part in enumerate(text.split("`")) if n % 2 == 0)
    assert "<!here>" not in outside
    assert "https://" not in outside
