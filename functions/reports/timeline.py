"""What was observed, in its order: signals, Events, alerts' own instants, and what the audit saw. Pure.

Only what Telltale saw itself is in it. An Event that was repeated is one line with its count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from functions.contract.report import instant
from functions.reports.groups import lines
from functions.reports.wording import Report, code, counted, listed, parsed, prose

_MOST = 60
#: Signals that are something done to the cluster rather than something that was noticed
_DONE = frozenset({"rollout", "drain", "rejoin"})


def observed(report: Report, signals: Sequence[Mapping[str, Any]]) -> list[str]:
    """The timeline, oldest first, as Markdown lines."""
    audit = report["audit"]
    rows = [(_at(s["at"]), prose(said(s))) for s in signals]
    rows += [(a["at"], prose(a["what"])) for a in _events(report)]
    if audit["baseline"]:
        rows.append((audit["baseline"], "the instant that the audit compared with"))
    for line in lines(report["findings"]):
        first = {f["first_seen"] for f in line.findings if f.get("first_seen")}
        rows += [(min(first), f"first seen: {line.what}")] if first else []
    rows.append((audit["current"], f"the audit saw: {_verdict(report)}"))
    return _bounded(sorted(set(rows)))


def actions(report: Report, signals: Sequence[Mapping[str, Any]]) -> list[str]:
    """What people or controllers were seen to do, oldest first; the same thing done several times is one line."""
    rows = [(_at(s["at"]), prose(said(s))) for s in signals if s["trigger"]["kind"] in _DONE]
    rows += [(str(a["at"]), prose(a["what"])) for a in _events(report)]
    groups: dict[str, list[str]] = {}
    for at, what in sorted(set(rows)):
        groups.setdefault(what.partition(": ")[0], []).append(at)
    alone = {what.partition(": ")[0]: what for _, what in rows}
    shown = []
    for what, instants in groups.items():
        if len(instants) == 1:
            shown.append((instants[0], alone[what]))
        else:
            shown.append((instants[0], f"{what}: {len(instants)} times, the last at {instants[-1]}"))
    return _bounded(shown)


def said(signal: Mapping[str, Any]) -> str:
    """A signal in one line. Not escaped."""
    return str(signal.get("summary") or f"{signal['trigger']['kind']} {signal['trigger'].get('phase', '')}".strip())


def _events(report: Report) -> list[Mapping[str, str]]:
    # signals are in `context` too, for reports that were stored without the signals of their episode
    return [a for a in report.get("context", {}).get("actions", []) if a.get("source") == "event"]


def _verdict(report: Report) -> str:
    found = [line.what for line in lines(report["findings"]) if line.level != "unknown"]
    return f"{report['audit']['verdict']}; {listed(found, 4)}" if found else str(report["audit"]["verdict"])


def _at(text: str) -> str:
    return instant(parsed(text)) or text


def _bounded(rows: Sequence[tuple[str, str]]) -> list[str]:
    """The beginning and the end of what is too long."""
    if len(rows) > _MOST:
        left = len(rows) - _MOST
        kept: Iterable[tuple[str, str]] = [
            *rows[: _MOST // 2],
            ("", f"… {counted(left, '1 line', '{n} lines')} left out …"),
            *rows[-_MOST // 2 :],
        ]
    else:
        kept = rows
    return [f"{code(at)} {what}" if at else what for at, what in kept]
