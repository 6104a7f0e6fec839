"""Traces of three backends in one shape; ids normalised; what is broken is named and nothing is guessed."""

from __future__ import annotations

import base64
import contextlib
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.evidence.traces import TraceFormatError, read, trace_id

ID = "4bf92f3577b34da6a3ce929d0e0e4736"
START = 1_793_527_200


def otlp_span(**more: Any) -> dict[str, Any]:
    base = {"traceId": ID, "spanId": "00f067aa0ba902b7", "name": "llm_request"}
    return base | {"startTimeUnixNano": f"{START}000000000", "endTimeUnixNano": f"{START}500000000"} | more


def attribute(key: str, **value: Any) -> dict[str, Any]:
    return {"key": key, "value": value}


def otlp(*spans: dict[str, Any], resource: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    shared = (
        resource
        if resource is not None
        else [attribute("service.name", stringValue="vllm"), attribute("k8s.pod.name", stringValue="web-1")]
    )
    return {"resource": {"attributes": shared}, "scopeSpans": [{"spans": list(spans)}]}


def jaeger_span(**more: Any) -> dict[str, Any]:
    base = {"traceID": ID, "spanID": "00f067aa0ba902b7", "operationName": "llm_request", "startTime": START * 10**6, "duration": 500_000}
    return base | {"processID": "p1", "tags": [{"key": "k8s.pod.name", "type": "string", "value": "web-1"}]} | more


JAEGER = {"data": [{"traceID": ID, "spans": [jaeger_span()], "processes": {"p1": {"serviceName": "vllm", "tags": []}}}]}


@pytest.mark.parametrize(
    "document",
    [
        {"resourceSpans": [otlp(otlp_span())]},
        {"batches": [otlp(otlp_span())]},
        {"trace": {"resourceSpans": [otlp(otlp_span())]}, "metrics": {}},
        {"result": {"resourceSpans": [otlp(otlp_span())]}},
        {"resourceSpans": [{"resource": otlp()["resource"], "instrumentationLibrarySpans": [{"spans": [otlp_span()]}]}]},
        JAEGER,
    ],
    ids=["otlp", "tempo v1", "tempo v2", "jaeger v3", "old otlp", "jaeger v1"],
)
def test_every_backend_gives_the_same_trace(document: dict[str, Any]) -> None:
    [trace] = read(json.dumps(document))
    [span] = trace.spans
    assert (trace.trace_id, trace.duration) == (ID, 0.5)
    assert trace.start == datetime.fromtimestamp(START, UTC)
    assert (span.name, span.service, span.pod, span.sampled, span.error) == ("llm_request", "vllm", "web-1", True, False)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (ID, ID),
        (ID.upper(), ID),
        (base64.b64encode(bytes.fromhex(ID)).decode(), ID),
        ("a3ce929d0e0e4736", "0" * 16 + "a3ce929d0e0e4736"),
        ("bf92f3577b34da6a3ce929d0e0e4736", "0bf92f3577b34da6a3ce929d0e0e4736"),
        (f" {ID}\n", ID),
        ("0", ""),
        ("0" * 32, ""),
        ("", ""),
        ("not an id", ""),
        (ID + "00", ""),
    ],
)
def test_ids_are_spelled_one_way_and_all_zero_is_none(text: str, wanted: str) -> None:
    assert trace_id(text) == wanted


def test_spans_of_one_trace_come_together_from_several_resources_and_stand_by_start() -> None:
    late = otlp_span(
        spanId="00f067aa0ba902b8",
        parentSpanId="00f067aa0ba902b7",
        startTimeUnixNano=f"{START}100000000",
        endTimeUnixNano=f"{START + 1}000000000",
    )
    other = otlp_span(traceId="1" * 32, startTimeUnixNano=f"{START - 5}000000000", endTimeUnixNano=f"{START - 4}000000000")
    first, second = read(json.dumps({"resourceSpans": [otlp(late), otlp(otlp_span(), other)]}))
    assert (first.trace_id, second.trace_id) == ("1" * 32, ID)
    assert [s.parent_id for s in second.spans] == ["", "00f067aa0ba902b7"]
    assert second.duration == 1.0


def test_a_spans_own_attributes_win_and_every_kind_of_value_is_text() -> None:
    own = [
        attribute("k8s.pod.name", stringValue="web-2"),
        attribute("tokens", intValue="12"),
        attribute("share", doubleValue=0.5),
        attribute("ok", boolValue=True),
        attribute("list", arrayValue={"values": [{"stringValue": "a"}]}),
        {"key": "nothing"},
    ]
    [trace] = read(json.dumps({"resourceSpans": [otlp(otlp_span(attributes=own))]}))
    [span] = trace.spans
    assert span.pod == "web-2"
    assert {k: span.attributes[k] for k in ("tokens", "share", "ok", "nothing")} == {
        "tokens": "12",
        "share": "0.5",
        "ok": "true",
        "nothing": "",
    }
    assert json.loads(span.attributes["list"]) == {"arrayValue": {"values": [{"stringValue": "a"}]}}


@pytest.mark.parametrize(
    ("document", "sampled", "error"),
    [
        ({"resourceSpans": [otlp(otlp_span(flags=257, status={"code": 2}))]}, True, True),
        ({"resourceSpans": [otlp(otlp_span(flags=256, status={"code": "STATUS_CODE_ERROR"}))]}, False, True),
        ({"data": [{"spans": [jaeger_span(flags=0, tags=[{"key": "error", "type": "bool", "value": True}])]}]}, False, True),
        ({"data": [{"spans": [jaeger_span(flags=1, tags=[])]}]}, True, False),
    ],
)
def test_the_sampled_flag_and_errors_are_kept(document: dict[str, Any], sampled: bool, error: bool) -> None:
    [trace] = read(json.dumps(document))
    assert (trace.spans[0].sampled, trace.spans[0].error) == (sampled, error)


def test_jaegers_parent_is_the_span_that_it_is_child_of() -> None:
    span = jaeger_span(references=[{"refType": "FOLLOWS_FROM", "spanID": "1"}, {"refType": "CHILD_OF", "spanID": "2"}])
    [trace] = read(json.dumps({"data": [{"spans": [span]}]}))
    assert trace.spans[0].parent_id == "0000000000000002"


@pytest.mark.parametrize("document", [{"data": []}, {"batches": []}, {"trace": {"resourceSpans": []}}, {"resourceSpans": [otlp()]}])
def test_an_answer_without_spans_is_no_trace_and_no_error(document: dict[str, Any]) -> None:
    assert read(json.dumps(document)) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"traces": []}', "neither OTLP"),
        (json.dumps({"resourceSpans": [otlp(otlp_span(traceId="0"))]}), "is no trace id"),
        (json.dumps({"resourceSpans": [otlp({"traceId": ID})]}), "startTimeUnixNano"),
        (json.dumps({"resourceSpans": [otlp(otlp_span(endTimeUnixNano="soon"))]}), "ValueError"),
        (json.dumps({"resourceSpans": [7]}), "AttributeError"),
    ],
)
def test_what_can_not_be_read_is_named(text: str, said: str) -> None:
    with pytest.raises(TraceFormatError, match=said):
        read(text)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=8), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["data", "spans", "traceID", "batches", "resourceSpans", "resource", "scopeSpans", "attributes", "key", "value", "startTime"]), inner, max_size=4), max_leaves=20))  # fmt: skip
def test_garbage_of_any_shape_is_one_clear_error_or_nothing(document: Any) -> None:
    with contextlib.suppress(TraceFormatError):
        read(json.dumps(document))
