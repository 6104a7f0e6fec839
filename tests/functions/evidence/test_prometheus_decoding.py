"""A long answer is decoded to what a JSON decoder makes of it, whatever its texts hold."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest

from functions.evidence.prometheus.decoding import LONG, decoded

#: texts that look like the structure around them
ODD = ['},{"metric":{', ',{"metric":{"a":"b"},', "]}]", '"result":[', "\\", '\\"', "", "δ ✓", '[{"metric":{}}]', "\n\t"]


def answer(rows: int, **beside: Any) -> dict[str, Any]:
    """An instant vector with odd label values, as servers lay it out."""
    result = [
        {"metric": {"__name__": "m", "odd": ODD[n % len(ODD)], "n": str(n), "pad": "x" * 40}, "value": [1700000000.5, str(n)]}
        for n in range(rows)
    ]
    return {"status": "success", "data": {"resultType": "vector", "result": result}, **beside}


@pytest.mark.parametrize(
    "beside", [{}, {"warnings": ODD}, {"infos": ['{"metric":{}}'], "isPartial": True}], ids=["alone", "warned", "flagged"]
)
def test_a_long_answer_is_what_a_json_decoder_makes_of_it(beside: dict[str, Any]) -> None:
    body = orjson.dumps(answer(12_000, **beside))
    assert len(body) > LONG
    assert decoded(body) == orjson.loads(body)


@pytest.mark.parametrize("rows", [0, 1, 2, 3])
def test_a_long_answer_may_have_few_rows(rows: int) -> None:
    body = orjson.dumps(answer(rows, warnings=["w" * LONG]))
    assert decoded(body) == orjson.loads(body)


def test_equal_texts_are_one_object() -> None:
    rows = decoded(orjson.dumps(answer(12_000)))["data"]["result"]
    assert len({id(row["metric"]["pad"]) for row in rows}) == 1


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(answer(12_000), indent=1).encode(),  # a proxy that prints it nicely
        orjson.dumps(
            {"status": "success", "data": {"resultType": "matrix", "result": [{"metric": {"a": "b"}, "values": [[1, "2"]] * 199_999}]}}
        ),
        orjson.dumps({"status": "success", "data": ["x" * 99] * 20_000}),
    ],
    ids=["spaces", "matrix", "labels"],
)
def test_an_answer_of_another_layout_is_decoded_at_once(body: bytes) -> None:
    assert len(body) > LONG
    assert decoded(body) == orjson.loads(body)


@pytest.mark.parametrize("cut", [LONG + 5, -1, -2, -40])
def test_a_long_answer_that_breaks_off_is_no_answer(cut: int) -> None:
    body = orjson.dumps(answer(12_000))
    with pytest.raises(orjson.JSONDecodeError):
        decoded(body[:cut])
