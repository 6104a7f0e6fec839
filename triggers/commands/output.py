"""How reports are printed: text for a terminal, Markdown as in chat, JSON exactly as the contract has it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any

import orjson

from functions.contract.findings import Verdict
from functions.contract.report import AuditReport
from functions.reports import summary

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

EXIT = {Verdict.FAIL: 1, Verdict.UNKNOWN: 3, Verdict.PASS: 0, Verdict.NOT_APPLICABLE: 0}


def as_json(document: Any) -> str:
    """JSON for a person and a tool: indented, keys in order of writing."""
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()


def report(audit: AuditReport, form: str, titles: dict[str, str]) -> str:
    """One report in one of the formats."""
    document = audit.as_dict()
    if form == "json":
        return as_json(document)
    if form == "markdown":
        return _visible(summary.render(document, titles=titles).text)
    return _visible("\n".join(_text(document)))


def _visible(text: str) -> str:
    """With control characters spelled out: what an exporter or a bundle prints must not steer the terminal."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def _text(document: dict[str, Any]) -> Iterable[str]:
    yield summary.headline(document)
    audit = document["audit"]
    yield f"  audit {audit['id']}, compared {audit['baseline'] or 'nothing (no baseline)'} with {audit['current']}"
    for check in document["checks"]:
        yield f"\n{check['verdict'].upper():8} {check['id']}: {check['summary']}"
        for missing in check["missing"]:
            yield f"         missing {missing['fact']} ({missing['why']}): {missing['detail']}"
        for finding in (f for f in document["findings"] if f["code"].startswith(check["id"] + "/")):
            yield from _finding(finding)
        for unjudged in check["unjudged_subjects"][:10]:
            yield f"  ?      {summary.subject_text(unjudged['subject'])}: not judged, {unjudged['why']}"
        if check["unjudged"] > 10:
            yield f"  ?      … and {check['unjudged'] - 10} more not judged"


def _finding(finding: dict[str, Any]) -> Iterable[str]:
    mark = {"critical": "!!", "warning": "! ", "info": "i "}[finding["severity"]] if finding["verdict"] == "fail" else "? "
    yield f"  {mark}     {finding['code'].partition('/')[2]}: {finding['title']}"
    yield f"           seen      {finding['observed']}"
    yield f"           expected  {finding['expected']}"
    yield f"           do        {finding['hint']}"
    for impact in finding["impact"][:6]:
        yield f"           breaks    {impact['kind']} {impact['name']}{': ' + impact['note'] if impact.get('note') else ''}"
        if impact.get("suggested"):
            yield f"           try       {impact['suggested']}"
    if len(finding["impact"]) > 6:
        yield f"           breaks    … and {len(finding['impact']) - 6} more"


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
