"""Traces as they are stored in a bundle: OTLP/JSON, Jaeger's and Tempo's answers, in one shape.

Ids are spelled in many ways (base64 in Tempo's answers, 16 digits, lost leading zeros) and are normalised here.
Nothing is judged here.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from functions.contract.requests import Span, Trace

_HEX = re.compile(r"[0-9a-fA-F]{1,32}")


class TraceFormatError(ValueError):
    """The document is none of the known shapes, or a part of it is broken."""


def read(text: bytes | str) -> tuple[Trace, ...]:
    """All traces of a document, oldest first. Raises TraceFormatError."""
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise TraceFormatError(f"not JSON: {error}") from None
    try:
        spans = list(_spans(document))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise TraceFormatError(f"a span can't be read: {type(error).__name__}: {error}") from None
    by_trace: dict[str, list[Span]] = {}
    for span in spans:
        by_trace.setdefault(span.trace_id, []).append(span)
    traces = (Trace(trace_id, tuple(sorted(group, key=lambda s: s.start))) for trace_id, group in by_trace.items())
    return tuple(sorted(traces, key=lambda t: t.start))


def trace_id(text: str) -> str:
    """A trace id as 32 lower-case hex digits; "" where it is none or all zero."""
    return _identifier(text, 32)


def _identifier(text: str, digits: int) -> str:
    text = text.strip()
    if not (_HEX.fullmatch(text) and len(text) <= digits):
        try:
            text = base64.b64decode(text, validate=True).hex()
        except (binascii.Error, ValueError):
            return ""
    text = text.lower().zfill(digits)
    return text if len(text) == digits and text.strip("0") else ""


def _spans(document: Any) -> Iterable[Span]:
    if not isinstance(document, Mapping):
        raise TraceFormatError("not a JSON object")
    for key in ("trace", "result"):  # Tempo v2, Jaeger v3
        if isinstance(document.get(key), Mapping):
            document = document[key]
            break
    resources = document.get("resourceSpans", document.get("batches"))
    if isinstance(resources, list):
        for resource in resources:
            yield from _otlp(resource)
    elif isinstance(document.get("data"), list):
        for trace in document["data"]:
            yield from _jaeger(trace)
    else:
        raise TraceFormatError("neither OTLP (resourceSpans), Tempo (batches, trace) nor Jaeger (data)")


def _otlp(resource: Mapping[str, Any]) -> Iterable[Span]:
    shared = _attributes((resource.get("resource") or {}).get("attributes") or [])
    scopes = resource.get("scopeSpans", resource.get("instrumentationLibrarySpans")) or []
    for scope in scopes:
        for span in scope.get("spans") or []:
            start = int(span["startTimeUnixNano"])
            own = _attributes(span.get("attributes") or [])
            yield _span(
                (span["traceId"], span.get("spanId", ""), span.get("parentSpanId", "")),
                str(span.get("name", "")),
                (start / 1e9, (int(span["endTimeUnixNano"]) - start) / 1e9),
                shared,
                own,
                sampled=bool(int(span.get("flags", 1)) & 1),
                error=str((span.get("status") or {}).get("code", "")) in ("2", "STATUS_CODE_ERROR"),
            )


def _jaeger(trace: Mapping[str, Any]) -> Iterable[Span]:
    processes = trace.get("processes") or {}
    for span in trace.get("spans") or []:
        process = processes.get(span.get("processID")) or span.get("process") or {}
        shared = {"service.name": str(process.get("serviceName", "")), **_tags(process.get("tags") or [])}
        own = _tags(span.get("tags") or [])
        parents = [r["spanID"] for r in span.get("references") or [] if r.get("refType") == "CHILD_OF"]
        yield _span(
            (span["traceID"], span.get("spanID", ""), parents[0] if parents else ""),
            str(span.get("operationName", "")),
            (int(span["startTime"]) / 1e6, int(span["duration"]) / 1e6),
            shared,
            own,
            sampled=bool(int(span.get("flags", 1)) & 1),
            error=own.get("error") == "true",
        )


def _span(
    ids: tuple[str, str, str],
    name: str,
    when: tuple[float, float],
    shared: Mapping[str, str],
    own: Mapping[str, str],
    *,
    sampled: bool,
    error: bool,
) -> Span:
    """A span from (trace, span, parent) ids, (start, duration) in seconds, and resource and own attributes."""
    trace, span, parent = ids
    start, duration = when
    attributes = {**shared, **own}
    identity = trace_id(trace)
    if not identity:
        raise TraceFormatError(f"{trace[:40]!r} is no trace id")
    return Span(
        identity,
        _identifier(span, 16),
        _identifier(parent, 16) if parent else "",
        name,
        shared.get("service.name", ""),
        datetime.fromtimestamp(start, UTC),
        duration,
        attributes.get("k8s.namespace.name", ""),
        attributes.get("k8s.pod.name", ""),
        attributes.get("k8s.node.name", ""),
        sampled,
        error,
        attributes,
    )


def _attributes(pairs: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    return {str(p["key"]): _text(p.get("value") or {}) for p in pairs}


def _text(value: Mapping[str, Any]) -> str:
    for kind, content in value.items():
        if kind == "boolValue":
            return str(content).lower()
        if kind in ("stringValue", "intValue", "doubleValue", "bytesValue"):
            return str(content)
    return orjson.dumps(value).decode() if value else ""


def _tags(tags: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    return {str(t["key"]): str(t.get("value", "")).lower() if t.get("type") == "bool" else str(t.get("value", "")) for t in tags}
