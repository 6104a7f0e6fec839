"""What HELP says about a metric's future: deprecated, and what to use instead. Readable before the metric is gone.

Many wordings, one meaning. A text that does not speak of an end is never read for names: HELP mentions other metrics
for many reasons.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

_ENDS = re.compile(
    r"\bdeprecat|\bobsolete|\bsuperseded\b|\brenamed\b|\breplaced by\b|\b(will be|to be|is being) removed\b|\bdo not use\b", re.I
)
_NAME = r"[`'\"]?([A-Za-z_:][\w:.]*[\w](?:\{[^}]*\})?)[`'\"]?"
_INSTEAD = (
    re.compile(rf"\b(?:use|using|prefer|see|switch to|migrate to|move to)\s+(?:the\s+)?(?:new\s+)?(?:metrics?\s+)?{_NAME}", re.I),
    re.compile(
        rf"\b(?:in favou?r of|replaced (?:by|with)|superseded by|renamed (?:to|as|into))\s+(?:the\s+)?(?:metrics?\s+)?{_NAME}", re.I
    ),
    re.compile(rf"{_NAME}\s+(?:metric\s+)?(?:should be used\s+)?instead\b", re.I),
    re.compile(rf"(?:->|=>|→)\s*{_NAME}"),
    re.compile(rf"\breplacement(?:\s+is|:)?\s+{_NAME}", re.I),
    re.compile(rf"{_NAME}\s+(?:is the replacement|replaces (?:it|this))\b", re.I),
)
_EXPRESSION = re.compile(
    r"\b(?:use|using|compute|by)\s+((?:rate|increase|sum|avg|irate|histogram_quantile)\s*\(.*\)[^.;]*|[\w:]+\s*/\s*[\w:]+)", re.I
)
_FORMER = re.compile(
    rf"\b(?:replaces|replacement (?:for|of)|formerly|previously(?: known as)?|successor of|was)\s+(?:the\s+)?(?:metric\s+)?{_NAME}", re.I
)


@dataclass(frozen=True, slots=True)
class Advice:
    """An announced end. `name` (with the selector, if any) is what to use instead, as HELP writes it."""

    name: str = ""
    selector: str = ""
    expression: str = ""


def advice(text: str) -> Advice | None:
    """What a HELP text says about the end of its metric; None where it says nothing of that."""
    if not text or not _ENDS.search(text):
        return None
    if found := _EXPRESSION.search(text):
        return Advice(expression=found[1].strip(" .;)]") + (")" if found[1].count("(") > found[1].strip(" .;)]").count(")") else ""))
    for pattern in _INSTEAD:
        for found in pattern.finditer(text):
            name, _, selector = found[1].partition("{")
            if selector or _is_name(name):
                return Advice(name, "{" + selector if selector else "")
    return Advice()


def former(text: str) -> str:
    """The name that HELP says this metric took over from, or ""."""
    found = _FORMER.search(text or "")
    return found[1].partition("{")[0] if found and _is_name(found[1].partition("{")[0]) else ""


def resolve(name: str, present: Collection[str]) -> str:
    """The stored name that HELP means: with the counter's suffix, or with the prefix that HELP leaves out; "" if none."""
    for form in (name, name + "_total", name.removesuffix("_total"), name.replace(".", "_"), name.replace(":", "_")):
        if form in present:
            return form
    ends = [p for p in present if p.endswith(("_" + name, ":" + name))]
    return ends[0] if len(ends) == 1 else ""


def _is_name(text: str) -> bool:
    """A metric name rather than a word of the sentence."""
    return any(sign in text.strip(".") for sign in "_:.") and not text.endswith((".", ":"))
