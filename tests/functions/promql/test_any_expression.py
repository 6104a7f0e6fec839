"""Whatever the expression: what is read agrees with promql_parser, and what is suggested parses."""

from __future__ import annotations

from typing import Any

import promql_parser
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from functions.contract.rules import Matcher, Selector
from functions.promql import Changes, LabelChange, MetricChange, objection, read, read_grafana, rewrite, rewrite_grafana

NAMES = st.sampled_from(["alpha", "beta_total", "gamma:x", "delta_bucket", "DCGM_FI_DEV_FB_FREE"])
LABELS = st.sampled_from(["Hostname", "gpu", "le", "pod", "ns"])
VALUES = st.sampled_from(["a", "gpu-.+", "", "x|y", 'q"uote', "back\\slash"])
RANGE = st.sampled_from(["5m", "1h30m", "15s"])


@st.composite
def selectors(draw: st.DrawFn) -> str:
    matchers = draw(st.lists(st.tuples(LABELS, st.sampled_from(["=", "!=", "=~", "!~"]), VALUES), max_size=3))
    return str(Selector(draw(NAMES), tuple(Matcher(*m) for m in matchers)))


def compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    labels = st.lists(LABELS, max_size=2, unique=True).map(", ".join)
    return st.one_of(
        st.tuples(st.sampled_from(["sum", "max", "count", "avg"]), st.sampled_from(["by", "without"]), labels, inner).map(
            lambda t: f"{t[0]} {t[1]} ({t[2]}) ({t[3]})"
        ),
        st.tuples(inner, labels).map(lambda t: f"topk(3, {t[0]}) by ({t[1]})"),
        st.tuples(st.sampled_from(["abs", "absent", "sort", "timestamp"]), inner).map(lambda t: f"{t[0]}({t[1]})"),
        st.tuples(st.sampled_from(["+", "/", ">", "=="]), st.sampled_from(["on", "ignoring"]), labels, inner, inner).map(
            lambda t: f"({t[3]}) {t[0]} {t[1]} ({t[2]}) ({t[4]})"
        ),
        st.tuples(inner, st.sampled_from(["and", "or", "unless"]), inner).map(lambda t: f"{t[0]} {t[1]} {t[2]}"),
        st.tuples(inner, LABELS, LABELS, inner)
        .filter(lambda t: t[1] != t[2])
        .map(lambda t: f"({t[0]}) * on ({t[1]}) group_left ({t[2]}) ({t[3]})"),
        st.tuples(inner, LABELS, LABELS).map(lambda t: f'label_replace({t[0]}, "{t[1]}", "$1", "{t[2]}", "(.+)")'),
        inner.map(lambda e: f"max_over_time(({e})[10m:1m])"),
        inner.map(lambda e: f"-{e} ^ 2"),
        inner.map(lambda e: f"histogram_quantile(0.9, {e})"),
        st.tuples(inner, st.sampled_from([">", "<", "!=", "== bool"])).map(lambda t: f"{t[0]} {t[1]} 3"),
    )


EXPRESSIONS = st.recursive(
    st.one_of(
        selectors(),
        selectors().map(lambda s: f"{s} offset 5m"),
        st.tuples(st.sampled_from(["rate", "increase", "changes", "avg_over_time"]), selectors(), RANGE).map(
            lambda t: f"{t[0]}({t[1]}[{t[2]}])"
        ),
    ),
    compound,
    max_leaves=6,
)
CHANGES = Changes(
    (
        MetricChange("alpha", "omega"),
        MetricChange("DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_FREE_BYTES", 1048576),
        MetricChange("delta", "delta_milliseconds", 1000),
        MetricChange("beta_total", 'betas_total{kind="b"}'),
    ),
    (
        LabelChange("Hostname", "hostname", frozenset({"alpha", "DCGM_FI_DEV_FB_FREE", "beta_total"})),
        LabelChange("pod", "k8s.pod", frozenset({"gamma:x"})),
    ),
)
MANY = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def theirs(expr: str) -> set[Selector]:
    found: set[Selector] = set()

    def visit(node: Any) -> bool:
        node = getattr(node, "vector_selector", node)
        if type(node).__name__ == "VectorSelector":
            ops = {"Equal": "=", "NotEqual": "!=", "Re": "=~", "NotRe": "!~"}
            matchers = (Matcher(m.name, ops[str(m.op).rpartition(".")[2]], m.value) for m in node.matchers.matchers)
            found.add(Selector(node.name, tuple(matchers)))
        return True

    promql_parser.walk(promql_parser.parse(expr), visit)
    return found


@MANY
@given(EXPRESSIONS)
def test_selectors_are_those_that_promql_parser_finds(expr: str) -> None:
    assert objection(expr) == ""
    assert read(expr).error == ""
    assert {use.selector for use in read(expr).selectors} == theirs(expr)


@MANY
@given(EXPRESSIONS)
def test_a_suggestion_parses_and_no_longer_means_the_lost_names(expr: str) -> None:
    suggested = rewrite(expr, CHANGES)
    if suggested is None:
        return
    assert objection(suggested) == ""
    after = theirs(suggested)
    assert not {s.name for s in after} & {"alpha", "DCGM_FI_DEV_FB_FREE", "delta_bucket", "beta_total"}
    assert len(after) <= len(theirs(expr))
    concerned = [s for s in after if s.name in ("omega", "DCGM_FI_DEV_FB_FREE_BYTES", "betas_total")]
    assert not any(m.label == "Hostname" for s in concerned for m in s.matchers)


@MANY
@given(EXPRESSIONS)
def test_all_gone_is_blind_and_nothing_gone_is_not(expr: str) -> None:
    found = read(expr)
    assert found.blind(lambda _s: False, lambda _s, _l: False) is None
    blind = found.blind(lambda _s: True, lambda _s, _l: True) is not None
    assert blind or "absent(" in expr
    assert not any(use.needed for use in found.selectors) or blind


@MANY
@given(st.text(alphabet="ax{}[]()\"'`$=~!,|# \n\\:5m+-*/<>@_.", max_size=40))
def test_no_text_makes_the_reading_fail(text: str) -> None:
    for found in (read(text), read_grafana(text)):
        assert isinstance(found.error, str)
    rewrite(text, CHANGES)
    rewrite_grafana(text, CHANGES)
