"""CloudEvents in and out, strictly: the only module that imports `cloudevents`.

The SDK is lenient where a broker's contract is not: it invents a missing id (which breaks deduplication), takes
any JSON for an event, and keeps a body that is no JSON as a string. What can't be an event is refused here.
Binary and structured HTTP modes, version 1.0: https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/http-protocol-binding.md
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson

STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
_REQUIRED = ("specversion", "id", "source", "type")
_ATTRIBUTES = frozenset({*_REQUIRED, "subject", "time", "datacontenttype", "dataschema", "data", "data_base64"})
_EXTENSION = re.compile(r"[a-z0-9]+")


class NotAnEvent(ValueError):
    """This can never be read as a CloudEvent; sending it again won't help."""


@dataclass(frozen=True, slots=True)
class Event:
    """An incoming event. `data` is decoded JSON, or None for an empty body."""

    id: str
    source: str
    type: str
    subject: str
    data: Any
    extensions: Mapping[str, str] = field(default_factory=dict)
    time: datetime | None = None


@dataclass(frozen=True, slots=True)
class Undelivered:
    """A dead letter: a name by which a repetition is known, what it is, why it came, from whom, and what to keep of its headers."""

    id: str
    what: str
    why: str
    where: str
    headers: Mapping[str, str]


def read(headers: Mapping[str, str], body: bytes) -> Event:
    """The event in a request. Raises NotAnEvent.

    An empty body is an event without data (a PingSource's tick has neither body nor Content-Type).
    """
    from cloudevents.core.bindings.http import HTTPMessage, from_binary, from_structured
    from cloudevents.core.exceptions import BaseCloudEventException
    from cloudevents.core.formats.json import JSONFormat

    lowered = {name.lower(): value for name, value in headers.items()}
    media = lowered.get("content-type", "").partition(";")[0].strip().lower()
    if media == BATCH:
        raise NotAnEvent("a batch of events; send one event a request")
    try:
        if media == STRUCTURED:
            document = _json(body)
            if not isinstance(document, dict):
                raise NotAnEvent("a structured event is a JSON object")
            _demand({name: document.get(name) for name in _REQUIRED})
            # JSON null stands for an absent attribute; the SDK trips over it
            present = orjson.dumps({name: value for name, value in document.items() if value is not None})
            event = from_structured(HTTPMessage(headers=lowered, body=present), JSONFormat(), None)
        else:
            _demand({name: lowered.get(f"ce-{name}") for name in _REQUIRED})
            # the data is decoded below, whatever its Content-Type says: the SDK would keep broken JSON as text
            plain = {k: v for k, v in lowered.items() if k.startswith("ce-")}
            event = from_binary(HTTPMessage(headers=plain, body=b""), JSONFormat(), None)
    except NotAnEvent:
        raise
    except (BaseCloudEventException, ValueError, TypeError, AttributeError, KeyError) as error:
        raise NotAnEvent(f"not a CloudEvent: {error}") from error
    attributes = dict(event.get_attributes())
    data = event.get_data() if media == STRUCTURED else (_json(body) if body.strip() else None)
    return Event(
        id=str(attributes["id"]),
        source=str(attributes["source"]),
        type=str(attributes["type"]),
        subject=str(attributes.get("subject") or ""),
        data=_json(data) if isinstance(data, bytes) and data.strip() else (None if isinstance(data, bytes) else data),
        extensions={k: str(v) for k, v in attributes.items() if k not in _ATTRIBUTES},
        time=attributes.get("time") if isinstance(attributes.get("time"), datetime) else None,
    )


def read_undelivered(headers: Mapping[str, str], body: bytes) -> Undelivered:
    """What a dead letter says of itself, whatever its data is. Raises NotAnEvent for what is no event at all.

    A broker adds to the event why it could not be delivered: a status, the subscriber and (in base64) what it said.
    https://knative.dev/docs/eventing/event-delivery/
    """
    kept = {k: v for name, v in headers.items() if (k := name.lower()).startswith("ce-") or k == "content-type"}
    structured = kept.get("content-type", "").lower().startswith(STRUCTURED)
    if not structured:
        _demand({name: kept.get(f"ce-{name}") for name in _REQUIRED})
    where = kept.get("ce-knativeerrordest", "")
    names = [kept.get("ce-source", ""), kept.get("ce-id", ""), where, *([hashlib.sha256(body).hexdigest()] if structured else [])]
    about = kept.get("ce-subject") or "/".join(filter(None, (kept.get(f"ce-{n}", "") for n in ("kind", "namespace", "name"))))
    said = ": ".join(filter(None, (kept.get("ce-knativeerrorcode", ""), _decoded(kept.get("ce-knativeerrordata", "")))))
    identity = hashlib.sha256("\n".join(names).encode()).hexdigest()[:12]
    what = " ".join(filter(None, (kept.get("ce-type", "a structured event"), about)))
    return Undelivered(f"event-{identity}", what, said or "no reason given", where, kept)


def _decoded(text: str) -> str:
    try:
        return " ".join(base64.b64decode(text, validate=True).decode(errors="replace").split())[:500]
    except ValueError:
        return text[:500]


def write(
    *, id: str, source: str, type: str, subject: str, data: Mapping[str, Any], overrides: str = "", time: datetime | None = None
) -> tuple[dict[str, str], bytes]:
    """Headers and body of a binary-mode event. `overrides` is K_CE_OVERRIDES as a SinkBinding sets it.

    Raises ValueError where the overrides are not of the form {"extensions": {name: text}}.
    """
    from cloudevents.core.bindings.http import to_binary
    from cloudevents.core.formats.json import JSONFormat
    from cloudevents.core.v1.event import CloudEvent

    attributes: dict[str, Any] = {
        "id": id,
        "source": source,
        "type": type,
        "time": time or datetime.now(UTC),
        "datacontenttype": "application/json",
    }
    if subject:
        attributes["subject"] = subject
    message = to_binary(CloudEvent({**attributes, **extensions(overrides)}, orjson.dumps(data)), JSONFormat())
    return dict(message.headers), message.body


def extensions(overrides: str) -> dict[str, str]:
    """The extensions that K_CE_OVERRIDES adds to every outgoing event."""
    if not overrides.strip():
        return {}
    try:
        added = json.loads(overrides).get("extensions") or {}
    except (ValueError, AttributeError):
        raise ValueError("K_CE_OVERRIDES is not a JSON object with extensions") from None
    if not isinstance(added, dict) or not all(isinstance(k, str) and isinstance(v, str) for k, v in added.items()):
        raise ValueError("K_CE_OVERRIDES: extensions must be texts")
    for name in added:
        # an attribute's name would replace what the event is: its id is what duplicates are known by
        if name in _ATTRIBUTES or not _EXTENSION.fullmatch(name):
            raise ValueError(f"K_CE_OVERRIDES: {name[:40]!r} is no name of an extension (letters a to z and digits)")
    return added


def _demand(values: Mapping[str, Any]) -> None:
    missing = [name for name, value in values.items() if not (isinstance(value, str) and value)]
    if missing:
        raise NotAnEvent(f"not a CloudEvent: no {', '.join(missing)}")
    if values["specversion"] != "1.0":
        raise NotAnEvent(f"specversion {str(values['specversion'])[:20]!r}; only 1.0 is read")


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise NotAnEvent(f"the data is not JSON: {error}") from error
