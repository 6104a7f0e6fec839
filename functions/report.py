"""From a finished audit to chat: is it news, what is said, is there a postmortem to draft; then until it has arrived.

Deciding is recorded in one step with the messages (store/outbox.py). Everything that decides or words is pure and is in
`reports/`; this ties it to the store and the channels.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from functions.chat.deliver import Sent, deliver
from functions.chat.message import Channel
from functions.chat.redact import Redactor
from functions.contract.signals import CLUSTER, Scope
from functions.reports import news as newsdesk
from functions.reports import postmortem, summary
from functions.reports.news import Kind, News, Reason
from functions.reports.wording import prose, what_happened
from functions.store import Finished, Plan, Planned, Store, StoreCorrupt, Told

log = logging.getLogger(__name__)

#: How far back the timeline of a postmortem goes where nothing says when it began.
_EPISODE = timedelta(hours=6)
_RACES = 10


@dataclass(frozen=True, slots=True)
class Desk:
    """What reports are written with."""

    channels: Mapping[str, Channel]
    redactor: Redactor = field(default_factory=Redactor)
    #: the codes' titles
    titles: Mapping[str, str] = field(default_factory=dict)
    #: public address of the board
    board_url: str = ""

    def link(self, audit: str) -> str:
        return f"{self.board_url.rstrip('/')}/audits/{audit}" if self.board_url else ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one round of work did."""

    #: (audit, kind, reason)
    decided: tuple[tuple[str, str, str], ...] = ()
    #: audits that a postmortem was drafted from
    drafted: tuple[str, ...] = ()
    sent: Sent = field(default_factory=Sent)


async def work(store: Store, desk: Desk, clock: Callable[[], datetime]) -> Outcome:
    """Decide about all finished audits, in their order, and deliver what is ready. Raises StoreError; call it again then."""
    decided: list[tuple[str, str, str]] = []
    drafted: list[str] = []
    for audit in await store.outbox.untold():
        try:
            plan = await decide(store, desk, audit, clock())
        except StoreCorrupt as error:
            log.error("audit %s can't be told: %s", audit, error)
            continue  # it stays where it is, and the others don't wait for it
        if plan is not None:
            decided.append((audit, plan.kind, str(plan.news["reason"])))
            drafted += [audit] if plan.postmortem else []
    return Outcome(tuple(decided), tuple(drafted), await deliver(store, desk.channels, desk.redactor, clock))


async def decide(store: Store, desk: Desk, audit: str, now: datetime) -> Plan | None:
    """Decide about one audit and record it. None: that was done before."""
    finished = await store.outbox.finished(audit)
    if finished is None:
        return None
    for _ in range(_RACES):
        told = await store.outbox.told()
        plan = await _plan(store, desk, finished, told, now)
        outcome = await store.outbox.plan(plan, told, now)
        if outcome is not Planned.CHANGED:
            log.info("audit %s: %s, %s", audit, plan.kind, plan.news["reason"])
            return plan if outcome is Planned.DONE else None
    log.warning("audit %s is decided about later: other decisions keep coming", audit)
    return None


async def _plan(store: Store, desk: Desk, finished: Finished, told: Told, now: datetime) -> Plan:
    report, scope = finished.report, str(finished.report["audit"]["scope"])
    muted = frozenset(m.fingerprint for m in await store.findings.mutes(now))
    known = newsdesk.before(scope, told.findings, told.threads.get(scope), (finished.previous, finished.whole), muted)
    line, news = newsdesk.line_of(scope, newsdesk.decide(report, finished.transitions, known), told.findings)
    draft = newsdesk.drafts(report, news, told.drafts.get(line), now)
    stub = await _stub(store, desk, report, draft, now) if draft else None
    spoken = news.kind is not Kind.SILENT
    ended = [f for fp in news.resolved if (f := await store.findings.get(fp)) is not None] if spoken else []
    unknown = any(c["verdict"] == "unknown" for c in report["checks"])
    trigger = report["audit"]["trigger"]
    return Plan(
        audit=finished.audit,
        line=line,
        kind=news.kind.value,
        news=news.as_dict() | ({"draft": draft} if draft else {}),
        told={fp: {"severity": severity, "scope": line} for fp, severity in news.told.items()},
        # also what was resolved while it was muted: should it come back, it is news
        forget=tuple(t["fingerprint"] for t in finished.transitions if t["kind"] == "resolved"),
        thread={"audit": finished.audit, "at": _ms(now), "unknown": unknown and line == scope} if spoken and not news.brief else None,
        gaps=finished.gaps if spoken and not news.brief else (),
        message=_message(report, news, ended, muted, desk) if spoken else None,
        postmortem=stub,
        draft={"audit": finished.audit, "at": _ms(now), "trigger": f"{trigger['kind']}/{trigger.get('phase', '')}"} if stub else None,
        channels=tuple(desk.channels),
    )


def _message(
    report: Mapping[str, Any], news: News, ended: Sequence[Mapping[str, Any]], muted: frozenset[str], desk: Desk
) -> dict[str, Any]:
    """The message that a decision leads to. Pure."""
    audit = report["audit"]
    if news.brief:
        return {"title": "", "lead": summary.healthy_line(report), "details": "", "loud": False}
    hidden = [f for f in report["findings"] if f["fingerprint"] in muted]
    shown = {**report, "findings": [f for f in report["findings"] if f["fingerprint"] not in muted]}
    link = desk.link(audit["id"])
    reason = "" if ended and news.reason is Reason.RESOLVED else news.reason.value  # then what ended is said in its place
    message = summary.render(shown, reason=reason, titles=desk.titles, link=link, fresh=news.fresh)
    over = news.kind is Kind.RESOLVED and bool(ended)
    end = summary.resolved(report, ended, titles=desk.titles, over=over)
    lines = [end.lead, f"- {len(hidden)} muted" if hidden else "", "" if over else message.lead]
    lead = "\n".join(filter(None, lines))
    message = replace(message, title=end.title or message.title)
    return {"title": message.title, "lead": lead, "details": message.details, "loud": news.loud}


async def _stub(store: Store, desk: Desk, report: Mapping[str, Any], reason: str, now: datetime) -> dict[str, Any]:
    """The postmortem stub, over all signals of the episode."""
    audit = report["audit"]
    signals = await store.queue.timeline(_began(report, now), now, _scopes(report))
    by_key = {s["key"]: s for s in [*(s.as_dict() for s in signals), *report["signals"]]}
    text = postmortem.render(report, signals=list(by_key.values()), link=desk.link(audit["id"]))
    title = f"Postmortem draft · {prose(what_happened(audit))} · {prose(audit['cluster'])}"
    return {"title": title, "lead": "", "details": text, "text": text, "reason": reason, "audit": audit["id"]}


def _began(report: Mapping[str, Any], now: datetime) -> datetime:
    """When the episode began: with the baseline or the first signal, an alert's own start included."""
    texts = [report["audit"]["baseline"], *(s["at"] for s in report["signals"])]
    texts += [(s.get("detail") or {}).get("startsAt") for s in report["signals"]]
    known = [datetime.fromisoformat(t.replace("Z", "+00:00")) for t in texts if t]
    return min([*known, now - _EPISODE])


def _scopes(report: Mapping[str, Any]) -> list[Scope]:
    """The scopes whose signals belong to the episode: the audit's, the cluster, affected workloads and their nodes."""
    scopes = [Scope.parse(report["audit"]["scope"]), CLUSTER]
    for workload in report.get("context", {}).get("workloads", []):
        kind, _, name = str(workload["workload"]).partition("/")
        scopes += [Scope(kind, workload["namespace"], name)] if name else []
        scopes += [Scope("node", "", node) for node in workload["nodes"]]
        scopes += [Scope("namespace", "", workload["namespace"])]
    return scopes


def _ms(when: datetime) -> int:
    return round(when.timestamp() * 1000)
