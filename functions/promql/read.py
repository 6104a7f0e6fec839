"""Reading expressions of rules and dashboards. Never raises: what can't be read says why."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from functions.contract.rules import Dashboard, Matcher, PanelQuery, Rule, Selector
from functions.promql import grafana
from functions.promql.accepts import objection
from functions.promql.expression import Expression, LabelUse, Place, SelectorUse, needs
from functions.promql.labels import QUANTILES, Supply, supply
from functions.promql.nodes import Aggregate, Binary, Call, Literal, Name, Node, Select, Span, walk
from functions.promql.syntax import BINDING, parse, parsed
from functions.promql.templates import legend_labels, template_labels, template_queries
from functions.promql.tokens import Kind, PromqlError, Token, tokens

#: Patterns that every value satisfies, that of an absent label included.
_ANYTHING = frozenset({".*", "(.*)", "(?:.*)", "^.*$", ".*|"})
_LISTS = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_WORDS = _LISTS | {"bool", "offset", "inf", "nan", "with", "start", "end", "anchored", "smoothed", "keep_metric_names"} | set(BINDING)


@lru_cache(maxsize=8192)
def read(expr: str) -> Expression:
    """An expression of a rule: no variables in it."""
    return _read(grafana.Query(expr))


@lru_cache(maxsize=8192)
def read_grafana(expr: str) -> Expression:
    """A query of a dashboard, with its variables in it. What a variable stands for matches anything."""
    query = grafana.query(expr)
    if not query.text.strip():
        return _without_selectors(query)
    return _read(query)


def read_rule(rule: Rule) -> Expression:
    """A rule's expression with the labels that its texts print."""
    labels = template_labels([*rule.labels.values(), *rule.annotations.values()])
    return _with_texts(read(rule.expr), labels)


def asked_in_texts(rule: Rule) -> tuple[Selector, ...]:
    """What the templates of a rule's texts look up by themselves."""
    queries = template_queries([*rule.labels.values(), *rule.annotations.values()])
    return tuple(dict.fromkeys(use.selector for query in queries for use in read(query).selectors))


def read_panel(query: PanelQuery) -> Expression:
    """A dashboard's query with the labels that its legend prints."""
    return _with_texts(read_grafana(query.expr), legend_labels(query.legend))


def selectors(rules: Iterable[Rule], dashboards: Iterable[Dashboard]) -> tuple[Selector, ...]:
    """Every selector that rules and dashboards rest on, once; those that a variable could turn into anything left out."""
    expressions = [read(rule.expr) for rule in rules]
    expressions += [read_grafana(query.expr) for board in dashboards for query in board.queries]
    return tuple(dict.fromkeys(use.selector for expression in expressions for use in expression.selectors))


def _with_texts(expression: Expression, labels: Iterable[str]) -> Expression:
    uses = tuple(LabelUse(label, Place.TEXT, expression.supply(label)) for label in labels)
    return replace(expression, label_uses=expression.label_uses + uses) if uses else expression


def _read(query: grafana.Query) -> Expression:
    # what stands in for a variable has a type that nobody knows
    doubt = "" if query.holes else objection(query.text)
    try:
        tree = parsed(query.text, query.holes)
    except PromqlError as error:
        uses = tuple(SelectorUse(s, False) for s in dict.fromkeys(_told(query.text, query.holes)))
        return Expression(uses, (), doubt or str(error), variables=query.variables)
    if query.asked:
        tree = _asking(tree, query.asked.text)
    found = [node for node in walk(tree) if isinstance(node, Select) and not node.open]
    once = dict.fromkeys(node.selector for node in found)
    selected = tuple(SelectorUse(s, needs(tree, s)) for s in once)
    label_uses = tuple(_label_uses(tree))
    if query.asked:
        label_uses += (LabelUse(query.asked.text, Place.VARIABLE, supply(tree, query.asked.text)),)
    return Expression(selected, label_uses, "", doubt, tree, query.variables)


def _without_selectors(query: grafana.Query) -> Expression:
    """A variable's query over all metrics. Which of them have the label is not asked: that would touch every series."""
    uses = (LabelUse(query.asked.text, Place.VARIABLE),) if query.asked else ()
    if query.pattern and not query.holes:
        tree = Select(Span(0, 0), Selector(None, (Matcher("__name__", "=~", f".*(?:{query.pattern}).*"),)))
        return Expression((SelectorUse(tree.selector, True),), uses, tree=tree, variables=query.variables)
    return Expression((), uses, variables=query.variables)


def _asking(tree: Node, label: str) -> Node:
    """label_values(selector, label) sees only series that have the label."""
    if not isinstance(tree, Select) or label == "__name__":
        return tree
    wanted = Matcher(label, "=~", ".+")
    return replace(tree, selector=Selector(tree.selector.name, (*tree.selector.matchers, wanted)))


def _label_uses(tree: Node) -> Iterator[LabelUse]:
    for node in walk(tree):
        match node:
            case Select(selector=selector, matchers=written):
                for w in written:
                    if w.matcher.label != "__name__":
                        place = Place.MATCHER if demands(w.matcher) or w.open else Place.EXCLUDE
                        given = Supply(((selector, w.matcher.label),))
                        yield LabelUse(w.matcher.label, place, given, idle=w.matcher.op == "=~" and w.matcher.value in _ANYTHING)
            case Aggregate(labels=names) if node.inner:
                place, beside = Place.WITHOUT if node.without else Place.BY, _listed(names)
                yield from (LabelUse(name.text, place, supply(node.inner, name.text), beside=beside) for name in names)
            case Binary():
                yield from _join_uses(node)
            case Call():
                yield from _call_uses(node)


def _join_uses(node: Binary) -> Iterator[LabelUse]:
    place, beside = Place.IGNORING if node.ignoring else Place.ON, _listed(node.matching or ())
    for name in node.matching or ():
        left, right = supply(node.left, name.text), supply(node.right, name.text)
        yield LabelUse(name.text, place, left, right, beside)
        yield LabelUse(name.text, place, right, left, beside)
    one = node.left if node.group == "right" else node.right
    yield from (LabelUse(name.text, Place.GROUP, supply(one, name.text)) for name in node.extra)


def _listed(names: Iterable[Name]) -> frozenset[str]:
    return frozenset(name.text for name in names)


def _call_uses(node: Call) -> Iterator[LabelUse]:
    if node.function in QUANTILES:
        for arg in node.args:
            if found := supply(arg, "le"):
                yield LabelUse("le", Place.QUANTILE, found)
    texts = [arg.text for arg in node.args if isinstance(arg, Literal) and arg.text is not None]
    if node.function in ("label_replace", "label_join") and texts and node.args:
        yield LabelUse(texts[0], Place.TARGET, Supply(made=True))
        for source in texts[2:3] if node.function == "label_replace" else texts[2:]:
            if source:
                yield LabelUse(source, Place.REPLACE, supply(node.args[0], source))


def demands(matcher: Matcher) -> bool:
    """Whether a matcher asks for a label that is there: absence does not satisfy it."""
    if matcher.op in ("=", "!="):
        return (matcher.value != "") == (matcher.op == "=")
    try:
        empty = re.fullmatch(matcher.value, "") is not None
    except re.error:  # RE2 knows spellings that Python does not
        empty = matcher.value == ""
    return empty == (matcher.op == "!~")


def _told(text: str, holes: tuple[Span, ...]) -> Iterator[Selector]:
    """Selectors whose text can be told though the whole can't be read."""
    try:
        stream = tokens(text)
    except PromqlError:
        yield from _cut_off(text, holes)
        return
    at = 0
    while at < len(stream):
        token = stream[at]
        if token.kind is Kind.WORD and token.text.lower() in _LISTS and stream[at + 1].text == "(":
            at = _closing(stream, at + 1, "(", ")")
        elif token.text == "{" or (token.kind is Kind.WORD and _names_metric(stream, at)):
            brace = at if token.text == "{" else at + 1
            last = _closing(stream, brace, "{", "}") if stream[brace].text == "{" else at
            yield from _one(text[token.start : stream[last].end], token.start, holes)
            at = last
        at += 1


def _names_metric(stream: list[Token], at: int) -> bool:
    word, following = stream[at].text.lower(), stream[at + 1].text
    return following not in ("(", "=", "=~", "!~") and word not in _WORDS


def _closing(stream: list[Token], at: int, opening: str, closing: str) -> int:
    depth = 0
    for index in range(at, len(stream)):
        depth += (stream[index].text == opening) - (stream[index].text == closing)
        if depth == 0:
            return index
    return len(stream) - 1


def _one(text: str, start: int, holes: tuple[Span, ...]) -> Iterator[Selector]:
    moved = tuple(Span(h.start - start, h.end - start) for h in holes)
    try:
        tree = parse(text, moved)
    except PromqlError:
        return
    yield from (node.selector for node in walk(tree) if isinstance(node, Select) and not node.open)


def _cut_off(text: str, holes: tuple[Span, ...]) -> Iterator[Selector]:
    """Text that is not even words to its end: what looks like a metric before a brace."""
    for found in re.finditer(r"[A-Za-z_:][\w:]*\s*\{[^{}]*\}", text, re.ASCII):
        yield from _one(found[0], found.start(), holes)
