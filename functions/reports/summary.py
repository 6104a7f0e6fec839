"""The audit summary in chat: what can't be followed any more, since when, what to change, and what is unknown.

Rendered from the report's JSON form, so that what is posted, stored and shown on the board is one thing. The first line
says verdict and change, the second what is broken and since when; each kind of finding is one line. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from functions.reports.fixes import fixes
from functions.reports.groups import Line, lines
from functions.reports.wording import (
    LEVEL_MARK,
    MARK,
    Report,
    clock,
    code,
    counted,
    duration,
    headline,
    listed,
    parsed,
    prose,
    span,
    step,
    subject_text,
    what_happened,
)

_CHANGES = {"rollout": "rollout", "drain": "drain", "rejoin": "return of the node"}
#: Codes that rest on a comparison: the fault is as old as the change. Of the others only is known when they were seen.
_COMPARED = ("metric-rename/", "telemetry-gap/went-silent")
_LINES_SHOWN = 12
_UNJUDGED_SHOWN = 4
_COVERAGE_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Message:
    """A message: one headline for the channel, and the details that belong in its thread. Markdown."""

    title: str
    lead: str
    details: str

    @property
    def text(self) -> str:
        return "\n\n".join(part for part in (f"**{self.title}**" if self.title else "", self.lead, self.details) if part)


def render(
    report: Report, *, reason: str = "", titles: Mapping[str, str] | None = None, link: str = "", fresh: Collection[str] | None = None
) -> Message:
    """The summary of one audit.

    `reason` says why it is news; `titles` are the codes' titles; `link` leads to the board; `fresh` are the fingerprints that
    are new (None: all of them), what was told before is one line.
    """
    return Message(headline(report), _lead(report, titles, reason, fresh), _details(report, link))


def healthy_line(report: Report) -> str:
    """The one line that a healthy change may post: what was proven."""
    proven = "; ".join(prose(c["summary"]) for c in report["checks"] if c["verdict"] == "pass")
    return f"{headline(report)} — {proven}" if proven else headline(report)


def resolved(report: Report, ended: Sequence[Mapping[str, Any]], *, titles: Mapping[str, str] | None = None, over: bool) -> Message:
    """What has ended, from the records of findings; `over`: nothing that was told is left."""
    audit = report["audit"]
    title = f"🟢 RESOLVED · {prose(what_happened(audit))} · {prose(audit['cluster'])}" if over else ""
    said = []
    for line in lines(ended, titles):
        began = min(str(f["first_seen"]) for f in line.findings)
        lasted = duration((parsed(audit["current"]) - parsed(began)).total_seconds())
        codes = listed([f"`{f['code']}`" for f in line.findings], 3)
        names = f": {line.names}" if line.names else ""
        said.append(f"- ✅ over after {lasted} (since {clock(began, audit['current'])}): **{line.what}**{names} ({codes})")
    more = len(said) - _LINES_SHOWN
    return Message(title, "\n".join([*said[:_LINES_SHOWN], *([f"- … and {more} more kinds"] if more > 0 else [])]), "")


def since(report: Report, line: Line) -> str:
    """Since when a kind of finding holds, as far as that is known."""
    audit = report["audit"]
    now, before = audit["current"], audit["baseline"]
    if not before or not all(f["code"].startswith(_COMPARED) for f in line.findings):
        return f"seen at {clock(now)}"
    kind = audit["trigger"]["kind"]
    seen = sorted(s["at"] for s in report.get("signals", ()) if s["trigger"]["kind"] == kind) if kind in _CHANGES else []
    if not seen:
        return f"broke between {span(before, now)}"
    began = next((s["at"] for s in report["signals"] if s["trigger"].get("phase") == "started"), before)
    return f"since the {_CHANGES[kind]} between {span(min(began, seen[0]), seen[-1])}"


# ------------------------------------------------------------------------------------------------ the lead


def _lead(report: Report, titles: Mapping[str, str] | None, reason: str, fresh: Collection[str] | None) -> str:
    new = [f for f in report["findings"] if fresh is None or f["fingerprint"] in fresh]
    old = [f for f in report["findings"] if fresh is not None and f["fingerprint"] not in fresh]
    found = lines(new, titles)
    failing = [line for line in found if line.level != "unknown"]
    said = [f"{failing[0].text} · {since(report, failing[0])}"] if failing else []
    said += [f"- {line.text}" for line in failing[1:_LINES_SHOWN]]
    if len(failing) > _LINES_SHOWN:
        said.append(f"- … and {len(failing) - _LINES_SHOWN} more kinds of finding in the whole report")
    if still := [line for line in lines(old, titles) if line.level != "unknown"]:
        said.append(f"{'- ' if said else ''}{LEVEL_MARK[still[0].level]} told before, and still so: {'; '.join(map(_short, still))}")
    unknown = [*_unknown(report), *(line.text for line in found if line.level == "unknown")]
    if not said and not unknown:
        proven = any(c["verdict"] == "pass" for c in report["checks"])
        said.append("Every link that was checked can be followed." if proven else "There was nothing to judge.")
    said += [f"- {text}" if said or n else text for n, text in enumerate(unknown)]
    if reason:
        said.append(f"_Told now because: {reason}_")
    return "\n".join(said)


def _short(line: Line) -> str:
    """A kind that was told before. Blind rules keep their names: an edited message is all that a channel shows of them."""
    return f"{line.what} ({line.names})" if step(line.codes[0]) == 0 else line.what


def _unknown(report: Report) -> Iterable[str]:
    """Checks that could not judge, those with one reason together. Unknown is never healthy, and that is said."""
    reasons: dict[str, list[str]] = {}
    for check in report["checks"]:
        if check["verdict"] == "unknown":
            reasons.setdefault(_why(check), []).append(check["id"])
    for why, ids in reasons.items():
        names = " and ".join(", ".join(ids).rsplit(", ", 1))
        yield f"{MARK['unknown']} **{names} {'is' if len(ids) == 1 else 'are'} unknown**, which is not healthy: {prose(why)}"


def _why(check: Mapping[str, Any]) -> str:
    """What kept a check from judging: the fact it needs, else what was said of the subjects it left out."""
    if not check["judged"] and check["missing"]:
        return str(check["missing"][0]["detail"])
    reasons = list(dict.fromkeys(str(left["why"]) for left in check["unjudged_subjects"]))
    if not reasons:
        return str(check["missing"][0]["detail"] if check["missing"] else check["summary"])
    what = counted(check["unjudged"], "1 subject can't be judged", "{n} subjects can't be judged")
    more = counted(len(reasons) - 1, "1 more reason", "{n} more reasons")
    return f"{what}: {reasons[0]}{f'; and {more}' if reasons[1:] else ''}"


# ------------------------------------------------------------------------------------------------ the details


def _details(report: Report, link: str) -> str:
    sections = []
    if steps := fixes(report["findings"]):
        sections.append("\n".join(["**What to change**", *steps]))
    sections.append("\n".join(["**What was checked**", *_checks(report)]))
    if left := list(_unjudged(report)):
        sections.append("\n".join(["**What could not be judged**", *left]))
    if coverage := report["audit"].get("coverage"):
        more = len(coverage) - _COVERAGE_SHOWN
        shown = [f"- {prose(text)}" for text in coverage[:_COVERAGE_SHOWN]]
        sections.append("\n".join(["**What may have been missed**", *shown, *([f"- … and {more} more"] if more > 0 else [])]))
    sections.append(_footer(report, link))
    return "\n\n".join(sections)


def _checks(report: Report) -> Iterable[str]:
    for check in report["checks"]:
        yield f"- {MARK[check['verdict']]} {check['verdict']} · `{check['id']}`: {prose(check['summary'])}"


def _unjudged(report: Report) -> Iterable[str]:
    """Subjects that were left out, by reason."""
    for check in report["checks"]:
        reasons: dict[str, list[str]] = {}
        for left in check["unjudged_subjects"]:
            reasons.setdefault(left["why"], []).append(subject_text(left["subject"]))
        for why, subjects in list(reasons.items())[:_UNJUDGED_SHOWN]:
            yield f"- `{check['id']}`: {listed([code(s) for s in subjects], 3)}: {prose(why)}"
        rest = check["unjudged"] - sum(len(s) for s in list(reasons.values())[:_UNJUDGED_SHOWN])
        if rest > 0:
            yield f"- `{check['id']}`: … and {rest} more"


def _footer(report: Report, link: str) -> str:
    audit = report["audit"]
    now = audit["current"]
    window = f"{clock(now)} compared with {clock(audit['baseline'], now) if audit['baseline'] else 'nothing'}"
    queries = audit.get("cost", {}).get("queries")
    cost = counted(int(queries), "1 query", "{n} queries") if queries else ""
    found = counted(len(report["findings"]), "1 finding", "{n} findings") if report["findings"] else ""
    whole = f"[the whole report]({link})" if link else ""
    return " · ".join(filter(None, [f"audit `{audit['id']}`", window, found, cost, whole]))
