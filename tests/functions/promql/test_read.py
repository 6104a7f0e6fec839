"""What an expression rests on: its selectors, which of them it needs, and where it uses which label."""

from __future__ import annotations

import pytest

from functions.contract.rules import Matcher, Rule, RuleKind, Selector
from functions.promql import Place, duration, names_of, objection, read, read_rule

NEEDED, NOT = True, False


def selected(expr: str) -> list[tuple[str, bool]]:
    return [(str(use.selector), use.needed) for use in read(expr).selectors]


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        # plain selectors
        ("x", [("x", NEEDED)]),
        ("x > 85", [("x", NEEDED)]),
        ("85 < x", [("x", NEEDED)]),
        ("x > bool 0", [("x", NEEDED)]),
        ("x{}", [("x", NEEDED)]),
        ("x{a='b',}", [('x{a="b"}', NEEDED)]),
        (r'x{a="\"\\\n"}', [(r'x{a="\"\\\n"}', NEEDED)]),
        ("x{a=`c:\\d`}", [(r'x{a="c:\\d"}', NEEDED)]),
        (r'x{a="\u00e9\x41"}', [('x{a="éA"}', NEEDED)]),
        ("vllm:num_requests_waiting > 40", [("vllm:num_requests_waiting", NEEDED)]),
        ('x{job="a",pod!~"y.*"}', [('x{job="a",pod!~"y.*"}', NEEDED)]),
        ("# note\nx # the end", [("x", NEEDED)]),
        # names by matcher, names that need quotes
        ('{__name__="x"}', [("x", NEEDED)]),
        ('{__name__="x",a="b"}', [('x{a="b"}', NEEDED)]),
        ('{__name__=~"a|b"}', [('{__name__=~"a|b"}', NEEDED)]),
        ('{__name__!~"a|b",c="d"}', [('{__name__!~"a|b",c="d"}', NEEDED)]),
        ('{"x"}', [("x", NEEDED)]),
        ('{"gpu.temp",a="b"}', [('{__name__="gpu.temp",a="b"}', NEEDED)]),
        ('x{"k8s.pod"="a"}', [('x{"k8s.pod"="a"}', NEEDED)]),
        ('x{__name__=~"x|y"}', [('x{__name__=~"x|y"}', NEEDED)]),
        ('x{a="1" or b="2"}', [('x{a="1"}', NOT), ('x{b="2"}', NOT)]),
        # ranges, offsets, instants
        ("rate(x[5m])", [("x", NEEDED)]),
        ("rate(x[1h30m] offset -5m)", [("x", NEEDED)]),
        ("x @ 1609746000.5", [("x", NEEDED)]),
        ("x @ end() offset 1h", [("x", NEEDED)]),
        ("max_over_time(rate(x[1m])[10m:1m])", [("x", NEEDED)]),
        ("max_over_time((x > 1)[10m:] @ start())", [("x", NEEDED)]),
        ("increase(x[5m] anchored)", [("x", NEEDED)]),
        ("rate(x[5m + 1m])", [("x", NEEDED)]),
        ("x offset (1h / 2)", [("x", NEEDED)]),
        # functions and aggregations
        ("histogram_quantile(0.9, sum by (le) (rate(h_bucket[5m])))", [("h_bucket", NEEDED)]),
        ("sum(x) by (a)", [("x", NEEDED)]),
        ("sum without (a) (x)", [("x", NEEDED)]),
        ("topk(5, x)", [("x", NEEDED)]),
        ("topk(scalar(n), x)", [("n", NEEDED), ("x", NEEDED)]),
        ('count_values("version", x)', [("x", NEEDED)]),
        ("quantile(0.9, x)", [("x", NEEDED)]),
        ("limitk(3, x)", [("x", NEEDED)]),
        ("info(x)", [("x", NEEDED)]),
        ('sort_by_label(x, "a")', [("x", NEEDED)]),
        ("double_exponential_smoothing(x[5m], 0.5, 0.5)", [("x", NEEDED)]),
        ("predict_linear(x[6h], 4 * 3600) < 0", [("x", NEEDED)]),
        ('label_replace(x, "a", "$1", "b", "(.+)")', [("x", NEEDED)]),
        ('label_join(x, "a", "-", "b", "c")', [("x", NEEDED)]),
        ("count(x) == 0", [("x", NEEDED)]),
        ("time() - x > 600", [("x", NEEDED)]),
        ("x > scalar(y)", [("x", NEEDED), ("y", NEEDED)]),
        ("-(x + 1) ^ 2", [("x", NEEDED)]),
        # what is there when nothing is
        ("absent(up)", [("up", NOT)]),
        ("absent_over_time(up[5m])", [("up", NOT)]),
        ('absent(up{job="a"} == 1)', [('up{job="a"}', NOT)]),
        ("vector(1)", []),
        ("1 + 1", []),
        ("x or vector(0)", [("x", NOT)]),
        ("(sum(x) or vector(0)) / sum(y)", [("x", NOT), ("y", NEEDED)]),
        ("a or b", [("a", NOT), ("b", NOT)]),
        ("a or absent(a)", [("a", NOT)]),
        ("x or x{a='b'} or x", [("x", NOT), ('x{a="b"}', NOT)]),
        # joins
        ("a and b", [("a", NEEDED), ("b", NEEDED)]),
        ("a unless b", [("a", NEEDED), ("b", NOT)]),
        ("a unless on (c) b > 1", [("a", NEEDED), ("b", NOT)]),
        ("a * on (node) group_left (pod) b", [("a", NEEDED), ("b", NEEDED)]),
        ("a / ignoring (c) group_right b", [("a", NEEDED), ("b", NEEDED)]),
        ("a + on (c) fill (0) b", [("a", NOT), ("b", NOT)]),
        ("a > 1 and on (c) (b or d)", [("a", NEEDED), ("b", NOT), ("d", NOT)]),
        ("a == b", [("a", NEEDED), ("b", NEEDED)]),
        ("a atan2 b", [("a", NEEDED), ("b", NEEDED)]),
        # what other servers know
        ("rate(x)", [("x", NEEDED)]),
        ("x default 0", [("x", NOT)]),
        ("x if y", [("x", NEEDED), ("y", NEEDED)]),
        ("x ifnot y", [("x", NEEDED), ("y", NOT)]),
        ("rollup_rate(x[5m]) keep_metric_names", [("x", NEEDED)]),
        ("sum(x) by (a) limit 5", [("x", NEEDED)]),
        ("union(x, y)", [("x", NEEDED), ("y", NEEDED)]),
        ("x > 10Ki", [("x", NEEDED)]),
        # words that are names where a name is meant
        ("sum", [("sum", NEEDED)]),
        ("on + by", [("on", NEEDED), ("by", NEEDED)]),
        ("offset", [("offset", NEEDED)]),
        ("inf + x", [("x", NEEDED)]),
    ],
)
def test_selectors_are_read_with_whether_they_are_needed(expr: str, expected: list[tuple[str, bool]]) -> None:
    assert read(expr).error == ""
    assert selected(expr) == expected


@pytest.mark.parametrize("expr", ["", "sum(", "a{b=}", "$x", "a{", "a b", "a{b='c}", "sum by (a (x)", "x[5m", "(" * 500 + "x" + ")" * 500])
def test_what_can_not_be_read_is_said_in_one_line(expr: str) -> None:
    assert read(expr).error
    assert "\n" not in read(expr).error
    assert not any(use.needed for use in read(expr).selectors)


@pytest.mark.parametrize(
    ("expr", "names"),
    [
        ('WITH (f = {a="b"}) sum(rate(x{f}[5m])) by (c) / y', ["x", "y"]),
        ("sum by (a (x{b='c'})", ["x"]),
        ("x{a='b'} ! y{c='d'}", ["x", "y"]),
    ],
)
def test_text_that_can_not_be_read_still_tells_its_metrics(expr: str, names: list[str]) -> None:
    found = read(expr)
    assert found.error
    assert {n for use in found.selectors for n in names_of(use.selector)} >= set(names) - {"x"}
    assert all(not use.needed for use in found.selectors)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ('x{a="b"}', {("a", Place.MATCHER)}),
        ('x{a!="POD",b=~".*",c="",d!~".+"}', {("a", Place.EXCLUDE), ("b", Place.EXCLUDE), ("c", Place.EXCLUDE), ("d", Place.EXCLUDE)}),
        ('x{a!="",b=~".+"}', {("a", Place.MATCHER), ("b", Place.MATCHER)}),
        ("sum by (a, b) (x)", {("a", Place.BY), ("b", Place.BY)}),
        ('sum by ("a.b") (x)', {("a.b", Place.BY)}),
        ("sum(x) without (a)", {("a", Place.WITHOUT)}),
        ("x * on (a) group_left (b) y", {("a", Place.ON), ("b", Place.GROUP)}),
        ("x * ignoring (a) group_right (b) y", {("a", Place.IGNORING), ("b", Place.GROUP)}),
        ('label_replace(x, "a", "$1", "b", "(.+)")', {("a", Place.TARGET), ("b", Place.REPLACE)}),
        ('label_join(x, "a", "-", "b", "c")', {("a", Place.TARGET), ("b", Place.REPLACE), ("c", Place.REPLACE)}),
        ("histogram_quantile(0.9, sum by (le) (rate(h_bucket[5m])))", {("le", Place.BY), ("le", Place.QUANTILE)}),
    ],
)
def test_labels_are_read_with_the_place_of_their_use(expr: str, expected: set[tuple[str, Place]]) -> None:
    assert {(use.label, use.place) for use in read(expr).label_uses} == expected


@pytest.mark.parametrize(
    ("expr", "label", "sources", "made"),
    [
        ("x", "a", ["x"], False),
        ("sum by (a) (x)", "a", ["x"], False),
        ("sum by (b) (x)", "a", [], False),
        ("sum(x)", "a", [], False),
        ("sum without (a) (x)", "a", [], False),
        ("sum without (b) (x)", "a", ["x"], False),
        ("topk(3, x)", "a", ["x"], False),
        ("x or y", "a", ["x", "y"], False),
        ("x and y", "a", ["x"], False),
        ("x unless y", "a", ["x"], False),
        ("x > 3", "a", ["x"], False),
        ("3 - x", "a", ["x"], False),
        ("x * on (a) y", "a", ["x"], False),
        ("x * on (b) y", "a", [], False),
        ("x * ignoring (a) y", "a", [], False),
        ("x * on (b) group_left (a) y", "a", ["y"], False),
        ("x * on (b) group_right (a) y", "a", ["x"], False),
        ("x * on (b) group_left y", "a", ["x"], False),
        ('label_replace(x, "a", "$1", "b", "(.+)")', "a", ["x.b"], False),
        ('label_replace(x, "a", "fixed", "", "")', "a", [], True),
        ('count_values("a", x)', "a", [], True),
        ('absent(x{a="b"})', "a", [], True),
        ('absent(x{a=~"b"})', "a", [], False),
        ("histogram_quantile(0.9, h_bucket)", "le", [], False),
        ("vector(1)", "a", [], False),
        ("x * scalar(y)", "a", ["x"], False),
    ],
)
def test_a_label_is_followed_to_the_selectors_it_comes_from(expr: str, label: str, sources: list[str], made: bool) -> None:
    given = read(expr).supply(label)
    assert [s.name if source == label else f"{s.name}.{source}" for s, source in given.sources] == sources
    assert given.made is made


def test_the_texts_of_a_rule_are_read_for_the_labels_they_print() -> None:
    texts = {"summary": 'GPU {{ $labels.gpu }} of {{ index $labels "a.b" }}', "d": "{{ .Labels.node | toUpper }} costs $labels.none"}
    rule = Rule(RuleKind.ALERT, "A", "g", "sum by (gpu) (x)", labels={"team": "{{$labels.owner}}"}, annotations=texts)
    uses = [use for use in read_rule(rule).label_uses if use.place is Place.TEXT]
    assert [use.label for use in uses] == ["owner", "gpu", "a.b", "node"]
    assert [bool(use.supply) for use in uses] == [False, True, False, False]


def test_what_an_older_parser_refuses_is_a_doubt_and_no_error() -> None:
    assert read("rate(x)").error == ""
    assert "expected type" in read("rate(x)").doubt
    assert read("rate(x[5m])").doubt == ""
    assert objection("x{__name__='y'}")


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        (Selector("x"), ("x",)),
        (Selector(None, (Matcher("__name__", "=", "a.b"),)), ("a.b",)),
        (Selector(None, (Matcher("__name__", "=~", "a|b"),)), ("a", "b")),
        (Selector(None, (Matcher("__name__", "=~", "(?:a|b)"),)), ("a", "b")),
        (Selector(None, (Matcher("__name__", "=~", "a.*"),)), ()),
        (Selector(None, (Matcher("__name__", "!~", "a|b"),)), ()),
    ],
)
def test_the_names_that_a_selector_spells_out(selector: Selector, names: tuple[str, ...]) -> None:
    assert names_of(selector) == names


def test_durations_are_seconds() -> None:
    assert (duration("1h30m"), duration("15s"), duration("soon")) == (5400, 15, None)
