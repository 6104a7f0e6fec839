"""Is an audit worth saying, and why? A pure decision with a named reason.

What was told is remembered by cause (fingerprint) with the severity it was told at, so that a cause is posted once however
many audits see it, a graver one again, and one that was muted when its mute ends. Silence is the normal case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from functions.reports.wording import LEVELS, FindingDict, Report, level

_CHANGES = frozenset({"rollout", "drain", "rejoin"})
#: A scope gets one stub for one incident, however many of its signals would draft one.
DRAFT_AGAIN = timedelta(hours=1)


class Kind(StrEnum):
    """What becomes of it; the values are the kinds of the outgoing webhook."""

    POST = "summary"
    UPDATE = "update"
    RESOLVED = "resolved"
    SILENT = "silent"


class Reason(StrEnum):
    NEW_FAILURE = "new failure"
    WORSE = "worse than told before"
    REOPENED = "came back after it was resolved"
    UNKNOWN = "can't be judged any more"
    RESOLVED = "resolved"
    JUDGED = "can be judged again"
    HEALTHY = "the change left everything that was checked intact"
    ENDED = "the change did not succeed; everything that was checked is intact"
    UNCHANGED = "nothing has changed since it was told"
    MUTED = "everything new is muted"
    QUIET = "nothing to tell"


@dataclass(frozen=True, slots=True)
class Before:
    """What is known from before: told causes, the standing message of this scope, what could not be judged."""

    #: fingerprint -> {"severity", "scope": the thread it was told in}
    told: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    #: a message about this scope stands open (it said fail or unknown, and nothing since has ended it)
    standing: bool = False
    #: check -> facts that were missing in the last audit of this scope and in the last one of the whole cluster
    unknown: Mapping[str, frozenset[str]] = field(default_factory=dict)
    muted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class News:
    """The decision: what to do, why, and what counts as told afterwards."""

    kind: Kind
    reason: Reason
    #: fingerprints that are the news
    fresh: tuple[str, ...] = ()
    #: fingerprints that were told and are resolved
    resolved: tuple[str, ...] = ()
    #: findings told from now on: fingerprint -> severity
    told: Mapping[str, str] = field(default_factory=dict)
    #: one line is enough
    brief: bool = False
    #: somebody has to look: an edit alone would not be noticed
    loud: bool = False
    #: whether the message stands open afterwards
    standing: bool = False

    def as_dict(self) -> dict[str, Any]:
        return {"kind": self.kind.value, "reason": self.reason.value, "fresh": list(self.fresh), "resolved": list(self.resolved)}


def before(
    scope: str,
    told: Mapping[str, Mapping[str, str]],
    thread: Mapping[str, Any] | None,
    earlier: Iterable[Mapping[str, Any] | None],
    muted: Iterable[str] = (),
) -> Before:
    """`Before` from what the store keeps.

    `thread`: the last message about the scope; `earlier`: the last audits of the scope and of the cluster, if there are any.
    """
    unknown: dict[str, frozenset[str]] = {}
    for last in earlier:
        for check, facts in (last or {}).get("unknown", {}).items():
            unknown[check] = unknown.get(check, frozenset()) | frozenset(facts)
    standing = bool(thread and thread.get("unknown")) or any(what["scope"] == scope for what in told.values())
    return Before(told, standing, unknown, frozenset(muted))


def decide(report: Report, transitions: Sequence[Mapping[str, str]], known: Before) -> News:
    """What to say about a report, given what was told before."""
    findings = [f for f in report["findings"] if f["fingerprint"] not in known.muted]
    kinds = {t["fingerprint"]: t["kind"] for t in transitions}
    fresh = [f for f in findings if _is_news(f, known.told)]
    ended = tuple(t["fingerprint"] for t in transitions if t["kind"] == "resolved" and t["fingerprint"] in known.told)
    unknown = {c["id"]: frozenset(m["fact"] for m in c["missing"]) for c in report["checks"] if c["verdict"] == "unknown"}
    newly = [check for check, facts in unknown.items() if check not in known.unknown or facts - known.unknown[check]]
    open_now = bool(unknown) or any(f["verdict"] == "fail" for f in findings)
    told = {f["fingerprint"]: level(f) for f in fresh}

    if failing := [f for f in fresh if f["verdict"] == "fail"]:
        reason = _why(failing, kinds, known.told)
        return News(_post(known), reason, tuple(told), ended, told, loud=True, standing=True)
    if newly or fresh:
        return News(_post(known), Reason.UNKNOWN, tuple(told), ended, told, loud=True, standing=True)
    if ended:
        return News(Kind.UPDATE if open_now else Kind.RESOLVED, Reason.RESOLVED, (), ended, standing=open_now)
    if _judged_again(report, known) and known.standing:
        return News(Kind.UPDATE if open_now else Kind.RESOLVED, Reason.JUDGED, standing=open_now)
    return _nothing_new(report, known)


def line_of(scope: str, news: News, told: Mapping[str, Mapping[str, str]]) -> tuple[str, News]:
    """The thread that a decision belongs to: what only ends what another scope's message said ends it there."""
    if news.fresh or not news.resolved:
        return scope, news
    places = {told[fp]["scope"] for fp in news.resolved}
    if len(places) != 1 or scope in places:
        return scope, news
    line = places.pop()
    left = any(what["scope"] == line for fp, what in told.items() if fp not in news.resolved)
    return line, replace(news, kind=Kind.UPDATE if left else Kind.RESOLVED, standing=left)


def _is_news(finding: FindingDict, told: Mapping[str, Mapping[str, str]]) -> bool:
    old = told.get(finding["fingerprint"])
    return old is None or LEVELS[level(finding)] < LEVELS[old["severity"]]


def _why(failing: Sequence[FindingDict], kinds: Mapping[str, str], told: Mapping[str, Mapping[str, str]]) -> Reason:
    """The reason that weighs most: something new, then something back, then something worse."""
    first = [f for f in failing if told.get(f["fingerprint"], {"severity": "unknown"})["severity"] == "unknown"]
    if not first:
        return Reason.WORSE
    return Reason.REOPENED if all(kinds.get(f["fingerprint"]) == "reopened" for f in first) else Reason.NEW_FAILURE


def _post(known: Before) -> Kind:
    return Kind.UPDATE if known.standing else Kind.POST


def _judged_again(report: Report, known: Before) -> bool:
    return any(c["verdict"] in ("pass", "fail") and known.unknown.get(c["id"]) for c in report["checks"])


def _nothing_new(report: Report, known: Before) -> News:
    audit = report["audit"]
    if audit["verdict"] == "pass" and audit["trigger"]["kind"] in _CHANGES:
        failed = audit["trigger"].get("phase") in ("failed", "stalled")
        return News(Kind.POST, Reason.ENDED if failed else Reason.HEALTHY, brief=True)
    if any(f["fingerprint"] in known.muted and _is_news(f, known.told) for f in report["findings"]):
        return News(Kind.SILENT, Reason.MUTED)
    if audit["verdict"] in ("fail", "unknown"):
        return News(Kind.SILENT, Reason.UNCHANGED)
    return News(Kind.SILENT, Reason.QUIET)


def drafts(report: Report, news: News, last: Mapping[str, Any] | None, now: datetime) -> str:
    """Why a postmortem stub is drafted now; "" where none is. `last`: {"trigger", "at" (ms)} of the scope's latest one.

    An incident is an alert while something can't be followed, a change that failed or stalled, or a cause that newly
    misleads the person on call. A resolved alert completes the stub of its scope.
    """
    trigger = report["audit"]["trigger"]
    kind, phase = trigger["kind"], trigger.get("phase", "")
    failing = [f for f in report["findings"] if f["verdict"] == "fail"]
    recent = last is not None and now - datetime.fromtimestamp(last["at"] / 1000, now.tzinfo) < DRAFT_AGAIN
    if kind == "alert" and phase == "resolved":
        return "an alert was resolved" if failing or (last is not None and last["trigger"] == "alert/firing") else ""
    if recent:
        return ""
    if kind == "alert" and failing:
        return "an alert fires while something can't be followed"
    if kind in _CHANGES and phase in ("failed", "stalled"):
        return f"a {kind} {phase}" if phase == "stalled" else f"a {kind} has failed"
    if news.kind is not Kind.SILENT and any(f["fingerprint"] in news.told and f["severity"] == "critical" for f in failing):
        return "a person on call is misled now"
    return ""
