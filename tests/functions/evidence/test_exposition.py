"""The exposition parser: it reads what exporters really print, and names the line for which a server drops the body."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.evidence.exposition import Exposition, Family, Sample, parse, render, sections
from tests.support.exporters import exporters
from tests.support.prometheus import BINARIES, job, prometheus

#: (what, body, number of the line that a server rejects or 0, whether versions 2 and 3 agree)
BODIES: tuple[tuple[str, bytes, int, bool], ...] = (
    ("a plain body", b'# HELP a x\n# TYPE a gauge\na{x="1"} 1\n', 0, True),
    ("no line break at the end", b"a 1", 0, True),
    ("nothing at all", b"", 0, True),
    ("blank lines", b"\n\na 1\n  \n", 0, True),
    ("CRLF behind a type", b"# TYPE a gauge\r\na 1\r\n", 1, True),
    ("CRLF behind HELP alone", b"# HELP a x\r\na 1\n", 0, True),
    ("CRLF behind a value", b"a 1\nb 2\r\n", 2, True),
    ("CRLF on an empty line", b"\r\na 1\n", 1, True),
    ("carriage returns only", b"a 1\rb 2\r", 1, True),
    ("text as a value", b'ok 1\na{gpu="0"} ERROR - FAILED TO CONVERT TO STRING\n', 2, True),
    ("a blank code as text", b"a <<<NULL>>>\n", 1, True),
    ("text behind the value", b"a 38 %\n", 1, True),
    ("a second number behind the timestamp", b"a 1 2 3\n", 1, True),
    ("a timestamp", b"a 1 1700000000000\n", 0, True),
    ("a negative timestamp", b"a 1 -5\n", 1, True),
    ("a timestamp in seconds", b"a 1 1.5\n", 1, True),
    ("a timestamp out of range", b"a 1 99999999999999999999\n", 1, True),
    ("quotes inside a value", b'a{m="x "y" z"} 1\n', 1, True),
    ("a missing comma", b'a{m="x" n="y"} 1\n', 0, True),
    ("a comma at the end", b'a{m="x",} 1\n', 0, True),
    ("two commas", b'a{m="x",,n="y"} 1\n', 1, True),
    ("a comma first", b'a{,n="y"} 1\n', 1, True),
    ("empty braces", b"a{} 1\n", 0, True),
    ("blanks inside the braces", b'a { m = "x" , n = "y" }  1  \n', 0, True),
    ("no blank before the value", b'a{m="x"}1\n', 0, True),
    ("a label twice", b'a{m="x",m="y"} 1\n', 1, True),
    ("a label called __name__", b'a{__name__="b"} 1\n', 1, True),
    ("a line break in a value", b'a{m="x\ny"} 1\nb 2\n', 0, True),
    ("an escape that is none", b'a{m="x\\qy"} 1\n', 0, True),
    ("a value that is not closed", b'a{m="x} 1\nb 2\n', 1, True),
    ("a backslash before the closing quote", b'a{m="x\\"} 1\n', 1, True),
    ("single quotes", b"a{m='x'} 1\n", 1, True),
    ("no quotes", b"a{m=1} 1\n", 1, True),
    ("UTF-8 in a value", 'a{m="é"} 1\n'.encode(), 0, True),
    ("other bytes in a value", b'a{m="\xff"} 1\n', 1, True),
    ("other bytes in HELP", b"# HELP a \xff\na 1\n", 1, True),
    ("other bytes in a comment", b"# note \xff\na 1\n", 0, True),
    ("a byte order mark", b"\xef\xbb\xbfa 1\n", 1, True),
    ("a NUL where a line starts", b"a 1\n\x00b 1\nc x\n", 0, True),
    ("a NUL in a value", b"a 1\x00\n", 1, True),
    ("a NUL in a label", b'a{m="\x00"} 1\n', 0, True),
    ("a quoted name", b'{"a.b",m="x"} 1\n', 0, False),
    ("a quoted label", b'a{"m.n"="x"} 1\n', 0, False),
    ("metadata of a quoted name", b'# TYPE "a.b" gauge\n{"a.b"} 1\n', 0, False),
    ("no name", b'{m="x"} 1\n', 1, True),
    ("an empty name", b'{""} 1\n', 1, True),
    ("two names", b'a{"b"} 1\n', 1, True),
    ("an unknown type", b"a 1\n# TYPE b foo\n", 2, True),
    ("a type of OpenMetrics", b"# TYPE a unknown\na 1\n", 1, True),
    ("no type behind TYPE", b"# TYPE a\na 1\n", 1, True),
    ("a blank behind the type", b"# TYPE a gauge \na 1\n", 1, True),
    ("two blanks before the type", b"# TYPE a  gauge\na 1\n", 1, True),
    ("a type in capitals", b"# TYPE a Gauge\na 1\n", 1, True),
    ("HELP and TYPE repeated", b"# TYPE a gauge\n# TYPE a counter\n# HELP a x\n# HELP a y\na 1\n", 0, True),
    ("TYPE after the sample", b"a 1\n# TYPE a gauge\n", 0, True),
    ("HELP without a name", b"# HELP \na 1\n", 1, True),
    ("HELP of no name", b"# HELP 1a x\na 1\n", 1, True),
    ("HELP alone", b"# HELP\na 1\n", 0, True),
    ("HELP without text", b"# HELP a\na 1\n", 0, True),
    ("no blank behind the hash", b"#HELP 1\n#TYPE x y\na 1\n", 0, True),
    ("a tab behind the hash", b"#\tTYPE a foo\na 1\n", 1, True),
    ("blanks before the hash", b"  # TYPE a foo\na 1\n", 1, True),
    ("an exemplar", b'a 1 # {t="1"} 1\n', 1, True),
    ("a dash in a name", b"a-b 1\n", 1, True),
    ("a dot in a name", b"a.b 1\n", 1, True),
    ("a digit first", b"1a 1\n", 1, True),
    ("a colon first", b":a 1\n", 0, True),
    ("no value", b'b 1\na{x="1"}\n', 2, True),
    ("braces that stay open", b'a{x="1" 1\n', 1, True),
    ("braces twice", b'a{x="1"}{y="1"} 1\n', 1, True),
    ("a page of HTML", b"<html><body>502</body></html>\n", 1, True),
    ("JSON", b'{"a": 1}\n', 1, True),
    ("a tab before the value", b"a\t1\n", 0, True),
    ("a form feed behind the value", b"a 1\x0c\n", 1, True),
    ("a no-break space", "a\u00a01\n".encode(), 1, True),
    ("the same series twice", b'a{x="1"} 1\na{x="1"} 2\n', 0, True),
    ("an empty label value", b'a{x=""} 1\n', 0, True),
    ("a colon in a label", b'a{x:y="1"} 1\n', 1, True),
    ("a digit first in a label", b'a{1y="1"} 1\n', 1, True),
    *(
        (f"the number {v}", f"a {v}\n".encode(), 0, True)
        for v in ["NaN", "nan", "Inf", "+Inf", "-inf", "infinity", "1e5", ".5", "5.", "+1", "1e-999"]
    ),
    *(
        (f"the text {v}", f"a {v}\n".encode(), 1, True)
        for v in ["+NaN", "1_0", "0x10", "0x1p4", "1e999", "True", "None", "1,5", "e5", "+", "1e", "٣"]
    ),
)


@pytest.mark.parametrize(
    ("what", "body", "line"), [(what, body, line) for what, body, line, _ in BODIES], ids=lambda v: v if isinstance(v, str) else ""
)
def test_the_verdict_is_that_of_a_server(what: str, body: bytes, line: int) -> None:
    bad = parse(body).bad
    assert (bad.number if bad else 0) == line, (what, bad)
    if bad:
        assert bad.problem
        bad.text.encode()


@pytest.mark.real
@pytest.mark.parametrize("name", BINARIES)
async def test_real_servers_reject_the_same_bodies(name: str) -> None:
    bodies = {f"b{i}": body for i, (_, body, _, agree) in enumerate(BODIES) if agree or name == "newer"}
    async with exporters(bodies) as fleet, prometheus([job("x", fleet, *bodies)], binary=BINARIES[name]) as server:
        await server.scraped(1)
        targets = (await server.api("targets", state="active"))["activeTargets"]
        samples = {r["metric"]["instance"]: int(r["value"][1]) for r in await server.query("scrape_samples_scraped")}
    seen = {t["labels"]["instance"]: t for t in targets}
    for number, (what, body, line, _) in enumerate(BODIES):
        if target := seen.get(f"b{number}"):
            assert (target["health"] == "down") == bool(line), (what, target["lastError"])
            if not line:
                assert samples[f"b{number}"] == len(parse(body).samples), what


def test_what_a_person_can_read_of_a_rejected_line_is_kept() -> None:
    body = (
        'a{gpu="0",modelName="NVIDIA "A40", fast",Hostname="n1"} 38\n'
        'b{gpu="0"} ERROR - FAILED\n'
        'c{gpu="0"} 5 percent\n'
        "d 7\r\n"
        '{"e.f",x="1"} 2 # {trace="1"} 1\n'
    )
    read = parse(body)
    assert [(s.name, dict(s.labels), s.value) for s in read.samples] == [
        ("a", {"gpu": "0", "modelName": 'NVIDIA "A40", fast', "Hostname": "n1"}, 38),
        ("c", {"gpu": "0"}, 5),
        ("d", {}, 7),
        ("e.f", {"x": "1"}, 2),
    ]
    assert read.bad
    assert read.bad.number == 1
    assert [line.number for line in read.unread] == [2]


def test_the_first_statement_about_a_family_counts_and_untyped_is_unknown() -> None:
    read = parse("# HELP a First\\nline\n# HELP a Second\n# TYPE a counter\n# TYPE a gauge\n# TYPE b untyped\n# UNIT a seconds\na 1\n")
    assert read.families["a"] == Family("counter", "First\nline", "seconds")
    assert read.families["b"].type == ""


def test_a_type_behind_which_a_carriage_return_stands_is_still_known() -> None:
    read = parse("# TYPE a gauge\r\na 1\r\n")
    assert read.families["a"].type == "gauge"
    assert [s.value for s in read.samples] == [1]


def test_an_openmetrics_body_may_hold_exemplars_and_seconds() -> None:
    read = parse('# TYPE a unknown\n# UNIT a seconds\na_total{x="1"} 5 1700000000.5 # {trace_id="t"} 1 1.5\n# EOF\n')
    assert read.bad is None
    assert read.samples[0].timestamp == 1700000000.5


def test_samples_before_the_bad_line_are_counted_as_a_server_counts_them() -> None:
    read = parse("a 1\nb 2\nc x\nd 4\n")
    assert (read.before_bad, len(read.samples)) == (2, 3)


def test_sections_begin_at_target_comments_and_keep_their_line_numbers() -> None:
    text = (
        "stored 1\n"
        '# TARGET job="a b" instance="x\\"y:1" honor_labels="true"\n'
        "raw 1\n"
        "raw x\n"
        '# TARGET  instance="z:1",  up="0"\n'
        "# TARGET nonsense\n"
        "after 1"
    )
    stored, first, second, broken = sections(text)
    assert (stored.target, stored.body, stored.first_line) == (None, "stored 1\n", 1)
    assert first.target == {"job": "a b", "instance": 'x"y:1', "honor_labels": "true"}
    assert (first.body, first.first_line) == ("raw 1\nraw x\n", 3)
    assert (second.target, second.body) == ({"instance": "z:1", "up": "0"}, "")
    assert broken.problem
    assert broken.first_line == 7


def test_a_file_that_was_converted_to_crlf_is_not_the_exporters_fault() -> None:
    converted = sections('# TARGET job="a" instance="b"\r\n# TYPE x gauge\r\nx 1\r\n')[0]
    assert parse(converted.body).bad is None
    raw = sections('# TARGET job="a" instance="b"\n# TYPE x gauge\r\nx 1\r\n')[0]
    assert parse(raw.body).bad is not None


@given(st.binary(max_size=400))
def test_no_bytes_make_it_raise(data: bytes) -> None:
    for section in sections(data):
        check_consistent(parse(section.body))
    check_consistent(parse(data))


@given(st.text(st.sampled_from('a{}="\\,# \n\r\t01.eE+-NnaIif\x00TYPEHL\ud800é_:'), max_size=120))
def test_no_text_like_an_exposition_makes_it_raise(text: str) -> None:
    check_consistent(parse(text))


def check_consistent(read: Exposition) -> None:
    for sample in read.samples:
        assert sample.name
        "".join([sample.name, *sample.labels, *sample.labels.values()]).encode()
    assert (read.bad is None) or read.bad.number >= 1
    assert read.before_bad <= len(read.samples)


_names = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,10}", fullmatch=True) | st.just("gpu.temp °C")
_labels = st.dictionaries(
    (st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True) | st.just("k8s.pod")).filter(lambda n: n != "__name__"),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    max_size=4,
)
_samples = st.builds(
    Sample, _names, _labels, st.floats(), st.none() | st.integers(0, 4_000_000_000_000).map(lambda ms: ms / 1000), st.just(0)
)


@settings(max_examples=200)
@given(st.lists(_samples, max_size=6))
def test_what_is_rendered_is_read_back(samples: list[Sample]) -> None:
    read = parse(render(tuple(samples)))
    assert read.bad is None
    assert len(read.samples) == len(samples)
    for sample, back in zip(samples, read.samples, strict=True):
        assert (back.name, dict(back.labels), back.timestamp) == (sample.name, dict(sample.labels), sample.timestamp)
        assert back.value == sample.value or (math.isnan(back.value) and math.isnan(sample.value))


@pytest.mark.parametrize(
    "line", ["a" * 3_000_000, 'a{x="' + "y" * 3_000_000, 'a{x="' + "\\" * 3_000_000, "a " + "1" * 3_000_000, '"{' * 1_500_000]
)
def test_a_line_of_megabytes_is_reported_and_not_chewed_on(line: str) -> None:
    started = time.process_time()
    read = parse(f"ok 1\n{line}\nmore 2\n")
    assert time.process_time() - started < 5
    assert [s.name for s in read.samples] == ["ok", "more"]
    assert read.bad
    assert read.bad.number == 2
    assert len(read.bad.text) < 400
