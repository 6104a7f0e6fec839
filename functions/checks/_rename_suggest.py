"""What a query should say instead: new names, new labels, new spellings of values, and the old scale.

Works on the tokens of the text, so that a person finds his own expression again, with Grafana's variables and his own
spaces. Thresholds stay as they are; a changed scale is undone by a division beside the metric.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from functions.checks._rename_label_findings import Respelling
from functions.checks._rename_labels import LabelChange
from functions.checks._rename_losses import Loss

_TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*)|(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)|(?P<variable>\$\{[^}]*\}|\$\w+|\[\[\w+\]\])"""
    r"""|(?P<word>[A-Za-z_:][\w:]*)|(?P<space>\s+)|(?P<other>.)""",
    re.DOTALL,
)
_OPENS, _CLOSES = "({[", ")}]"


@dataclass(frozen=True, slots=True)
class Rewriting:
    """Everything that has another spelling now."""

    #: stored name -> (stored name, matchers of a merge)
    names: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    #: stored name of now, new or unchanged -> new value ÷ old value
    factors: Mapping[str, float] = field(default_factory=dict)
    #: (label, new label, the stored names it holds for)
    labels: tuple[tuple[str, str, frozenset[str]], ...] = ()
    #: (label, old value) -> new value
    values: Mapping[tuple[str, str], str] = field(default_factory=dict)


def rewriting(
    losses: Iterable[Loss], labels: Iterable[LabelChange], values: Iterable[Respelling], factors: Mapping[str, float]
) -> Rewriting:
    """From what was found. Names that live on somewhere under the old name are left alone."""
    names: dict[str, tuple[str, str]] = {}
    for loss in losses:
        if loss.now and not loss.partial and not loss.elsewhere:
            merge = loss.renamed_to.partition("{")[2].removesuffix("}")
            for old in loss.was.names:
                new = loss.now.name + old.removeprefix(loss.was.name)
                if new in loss.now.names or len(loss.now.names) == 1:
                    names[old] = (new if new in loss.now.names else loss.now.name, merge)
    held = tuple((c.label, c.renamed_to, c.names) for c in labels if c.renamed_to and not c.partial)
    return Rewriting(names, factors, held, {(v.label, old): new for v in values for old, new in v.values.items()})


@dataclass(slots=True)
class _Token:
    kind: str
    text: str
    new: str | None = None

    @property
    def out(self) -> str:
        return self.text if self.new is None else self.new


def suggest(expr: str, change: Rewriting) -> str | None:
    """The expression with every change applied; None where nothing of it changes."""
    tokens = [_Token(m.lastgroup or "other", m[0]) for m in _TOKEN.finditer(expr)]
    code = [i for i, t in enumerate(tokens) if t.kind not in ("space", "comment")]
    used = {tokens[i].text for i in code if tokens[i].kind == "word"}
    labels = {old: (new, names) for old, new, names in change.labels if names & used}
    for place, index in enumerate(code):
        token = tokens[index]
        if token.kind == "word" and (token.text in change.names or token.text in change.factors) and not _inside(tokens, code, place):
            _metric(tokens, code, place, change)
        elif token.kind == "word" and token.text in labels and token.text not in change.names:
            _label(tokens, code, place, labels, change)
        elif token.kind == "text" and token.text[1:-1] in labels and not _inside(tokens, code, place):
            # what label_replace() makes must fit what the join asks for
            token.new = token.text[0] + labels[token.text[1:-1]][0] + token.text[-1]
    _respell(tokens, code, change)
    text = "".join(t.out for t in tokens)
    return text if text != expr else None


def _inside(tokens: list[_Token], code: list[int], place: int) -> str:
    """The metric whose braces a token stands in, "?" where they belong to none, "" outside of braces."""
    depth = 0
    for at in range(place - 1, -1, -1):
        text = tokens[code[at]].text
        if text == "}":
            depth += 1
        elif text == "{":
            if depth == 0:
                before = tokens[code[at - 1]] if at else None
                return before.text if before and before.kind == "word" else "?"
            depth -= 1
    return ""


def _label(tokens: list[_Token], code: list[int], place: int, labels: Mapping[str, tuple[str, frozenset[str]]], change: Rewriting) -> None:
    token = tokens[code[place]]
    new, names = labels[token.text]
    owner = _inside(tokens, code, place)
    following = tokens[code[place + 1]].text if place + 1 < len(code) else ""
    if following != "(" and (not owner or owner == "?" or owner in names):
        token.new = new


def _metric(tokens: list[_Token], code: list[int], place: int, change: Rewriting) -> None:
    """Write the new name, the matchers of a merge, and undo a changed scale around it."""
    token = tokens[code[place]]
    if place + 1 < len(code) and tokens[code[place + 1]].text == "(":
        return  # a function of the same name
    new, merge = change.names.get(token.text, (token.text, ""))
    factor = change.factors.get(token.text)
    token.new = new
    end = place
    if place + 1 < len(code) and tokens[code[place + 1]].text == "{":
        if merge:
            empty = place + 2 < len(code) and tokens[code[place + 2]].text == "}"
            tokens[code[place + 1]].new = "{" + merge + ("" if empty else ",")
        end = _closing(tokens, code, place + 1)
    elif merge:
        token.new += "{" + merge + "}"
    if factor and factor != 1:
        _divide(tokens, code, place, end, factor)


def _divide(tokens: list[_Token], code: list[int], start: int, end: int, factor: float) -> None:
    """`(new / factor)`; around the function where the metric is read over a range."""
    ranged = end + 1 < len(code) and tokens[code[end + 1]].text == "["
    if ranged:
        at = start - 1
        depth = 0
        while at >= 0 and not (tokens[code[at]].text == "(" and depth == 0):
            depth += (tokens[code[at]].text in _CLOSES) - (tokens[code[at]].text in _OPENS)
            at -= 1
        if at < 1 or tokens[code[at - 1]].kind != "word":
            return
        start, end = at - 1, _closing(tokens, code, at)
    first, last = tokens[code[start]], tokens[code[end]]
    first.new = "(" + first.out
    last.new = f"{last.out} / {factor:.9g})"


def _closing(tokens: list[_Token], code: list[int], place: int) -> int:
    depth = 0
    for at in range(place, len(code)):
        token = tokens[code[at]]
        if token.kind == "other":
            depth += (token.text in _OPENS) - (token.text in _CLOSES)
        if depth == 0:
            return at
    return place


def _respell(tokens: list[_Token], code: list[int], change: Rewriting) -> None:
    """Literals in matchers: label, operator, text."""
    for place, index in enumerate(code[:-2]):
        if tokens[index].kind != "word" or not _inside(tokens, code, place):
            continue
        literal = next((tokens[i] for i in code[place + 1 : place + 4] if tokens[i].kind == "text"), None)
        for (label, old), new in change.values.items():
            if literal and label == tokens[index].text and re.search(rf"(?<![\w.]){re.escape(old)}(?![\w.])", literal.text):
                literal.new = re.sub(rf"(?<![\w.]){re.escape(old)}(?![\w.])", lambda _, new=new: new, literal.out)  # type: ignore[misc]
