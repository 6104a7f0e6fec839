"""CloudEvents are read strictly: what a broker sends is accepted, what the SDK would paper over is refused."""

from __future__ import annotations

import json

import pytest

from functions.envelope import NotAnEvent, extensions, read, write

BINARY = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/src", "ce-type": "t"}
STRUCTURED = {"Content-Type": "application/cloudevents+json; charset=utf-8"}


def structured(**changes: object) -> bytes:
    event = {"specversion": "1.0", "id": "1", "source": "/src", "type": "t", "data": {"kind": "tick"}} | changes
    return json.dumps({k: v for k, v in event.items() if v != "absent"}).encode()


def test_a_binary_event_with_json_data_is_read() -> None:
    event = read({**BINARY, "Content-Type": "application/json", "ce-subject": "node/a"}, b'{"kind": "sweep"}')
    assert (event.id, event.source, event.type, event.subject, event.data) == ("1", "/src", "t", "node/a", {"kind": "sweep"})


def test_a_tick_has_neither_body_nor_content_type() -> None:
    assert read(BINARY, b"").data is None


def test_data_without_content_type_is_json() -> None:
    assert read(BINARY, b'{"kind": "tick"}').data == {"kind": "tick"}


def test_an_empty_extension_of_a_cluster_scoped_object_is_kept() -> None:
    event = read({**BINARY, "ce-namespace": "", "ce-kind": "Node"}, b"{}")
    assert event.extensions["kind"] == "Node"


def test_a_structured_event_is_read() -> None:
    assert read(STRUCTURED, structured()).data == {"kind": "tick"}


def test_an_attribute_that_is_null_counts_as_absent() -> None:
    assert read(STRUCTURED, structured(time=None, subject=None)).subject == ""


def test_base64_data_of_a_structured_event_is_decoded() -> None:
    assert read(STRUCTURED, structured(data="absent", data_base64="eyJhIjogMX0=")).data == {"a": 1}


@pytest.mark.parametrize("name", ["id", "source", "type", "specversion"])
@pytest.mark.parametrize("value", ["absent", None, "", 7])
def test_a_structured_event_without_a_required_attribute_is_refused(name: str, value: object) -> None:
    with pytest.raises(NotAnEvent):
        read(STRUCTURED, structured(**{name: value}))


@pytest.mark.parametrize("name", sorted(BINARY))
def test_a_binary_event_without_a_required_header_is_refused(name: str) -> None:
    with pytest.raises(NotAnEvent):
        read({k: v for k, v in BINARY.items() if k != name}, b"{}")


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"Content-Type": "application/cloudevents-batch+json"}, b"[]"),
        (STRUCTURED, b"[1]"),
        (STRUCTURED, b"{"),
        (STRUCTURED, b"\xff\xfe"),
        (STRUCTURED, structured(specversion="0.3")),
        (STRUCTURED, structured(time="yesterday")),
        (BINARY, b"{broken"),
        ({**BINARY, "ce-time": "yesterday"}, b"{}"),
        ({"Content-Type": "application/json"}, b'{"type": "t", "source": "s"}'),
        ({}, b""),
    ],
)
def test_what_is_no_event_is_refused_with_a_reason(headers: dict[str, str], body: bytes) -> None:
    with pytest.raises(NotAnEvent, match=r"\w{3}"):
        read(headers, body)


def test_what_is_written_is_read_back_with_the_overrides_of_a_sink_binding() -> None:
    headers, body = write(
        id="a1",
        source="/telltale/lab",
        type="dev.telltale.audit.due",
        subject="node/n1",
        data={"audit": "a1"},
        overrides='{"extensions": {"tenant": "x"}}',
    )
    event = read(headers, body)
    assert (event.id, event.subject, event.data, event.extensions) == ("a1", "node/n1", {"audit": "a1"}, {"tenant": "x"})
    assert headers["content-type"] == "application/json"


@pytest.mark.parametrize("text", ["[]", "{", '{"extensions": {"a": 1}}', '{"extensions": ["a"]}'])
def test_overrides_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="K_CE_OVERRIDES"):
        extensions(text)


def test_no_overrides_add_nothing() -> None:
    assert extensions("") == {} == extensions("{}")
