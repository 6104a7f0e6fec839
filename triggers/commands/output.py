"""How reports are printed: text for a terminal, Markdown as in chat, JSON exactly as the contract has it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from functions.contract.findings import Verdict
from functions.reports import summary, wording
from functions.reports.groups import lines

_IMPACTS = 6
_UNJUDGED = 10
_LEVEL = {"critical": "!! critical", "warning": " ! warning ", "info": " i info    ", "unknown": " ? unknown "}

EXIT = {Verdict.FAIL: 1, Verdict.UNKNOWN: 3, Verdict.PASS: 0, Verdict.NOT_APPLICABLE: 0}


def as_json(document: Any) -> str:
    """JSON for a person and a tool: indented, keys in order of writing."""
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()


def report(document: Mapping[str, Any], form: str, titles: Mapping[str, str]) -> str:
    """One report (its JSON form, masked) in one of the formats."""
    if form == "json":
        return as_json(document)
    if form == "markdown":
        return summary.render(document, titles=titles).text
    return "\n".join(map(wording.printable, _text(document, titles)))


def _text(document: Mapping[str, Any], titles: Mapping[str, str]) -> Iterable[str]:
    audit = document["audit"]
    yield wording.headline(document).replace("`", "")
    compared = f"compared with {audit['baseline']}" if audit["baseline"] else "compared with nothing (no baseline)"
    yield f"   audit {audit['id']} · {audit['current']}, {compared}"
    if found := lines(document["findings"], titles):
        yield ""
    for line in found:
        yield f"   {line.text.replace('**', '').replace('`', '')}"
    for check in document["checks"]:
        yield ""
        yield f"{check['verdict'].upper()} {check['id']}: {check['summary']}"
        yield from _check(check, wording.ordered(f for f in document["findings"] if f["code"].startswith(check["id"] + "/")))
    for line in audit["coverage"]:
        yield f"may be missed: {line}"


def _check(check: Mapping[str, Any], findings: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    reasons: dict[tuple[str, str], list[str]] = {}
    for missing in check["missing"]:
        reasons.setdefault((missing["why"], missing["detail"]), []).append(missing["fact"])
    for (why, detail), facts in reasons.items():
        yield f"    ?          missing {', '.join(facts)} ({why}): {detail}"
    hint = ""
    for finding in findings:
        yield from _finding(finding, hint)
        hint = finding["hint"]
    for unjudged in check["unjudged_subjects"][:_UNJUDGED]:
        yield f"    ?          {wording.subject_text(unjudged['subject'])}: not judged, {unjudged['why']}"
    if check["unjudged"] > _UNJUDGED:
        yield f"    ?          … and {check['unjudged'] - _UNJUDGED} more not judged"


def _finding(finding: Mapping[str, Any], hint_before: str) -> Iterable[str]:
    """All of it; of what nothing in use depends on, one line. A hint that was just given isn't given again."""
    level = wording.level(finding)
    yield f"   {_LEVEL[level]}  {finding['title']}  [{finding['code']}]"
    if level == "info":
        return
    place = wording.subject_text(finding["subject"])
    if place not in finding["title"]:
        yield f"        where     {place}"
    yield f"        seen      {finding['observed']}"
    yield f"        expected  {finding['expected']}"
    yield f"        do        {finding['hint'] if finding['hint'] != hint_before else 'as above'}"
    for impact in finding["impact"][:_IMPACTS]:
        if impact["name"] != place:
            yield f"        breaks    {impact['kind']} {impact['name']}{': ' + impact['note'] if impact.get('note') else ''}"
        if impact.get("suggested") and impact["suggested"] not in finding["hint"]:
            yield f"        load      {impact['suggested']}"
    if len(finding["impact"]) > _IMPACTS:
        yield f"        breaks    … and {len(finding['impact']) - _IMPACTS} more"


class Progress:
    """One line that says what is going on, on a terminal's stderr only."""

    def __init__(self) -> None:
        self._on = sys.stderr.isatty()

    def __call__(self, text: str) -> None:
        if self._on:
            print(f"\r\x1b[2K{text}", end="", file=sys.stderr, flush=True)

    def done(self) -> None:
        """Wipe the line."""
        if self._on:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)
