"""The audit summary in chat: what can't be followed any more, since when, what to change, and what is unknown.

Rendered from the report's JSON form, so that what is posted, stored and shown on the board is one thing. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Report = Mapping[str, Any]
FindingDict = Mapping[str, Any]

_MARK = {"fail": "🔴", "unknown": "🟡", "pass": "🟢", "not-applicable": "⚪"}
_SEVERITY = {"critical": 0, "warning": 1, "info": 2}
_SHOWN = 6
_FIXES = 3


@dataclass(frozen=True, slots=True)
class Message:
    """A message: one headline for the channel, and the details that belong in its thread. Markdown."""

    title: str
    lead: str
    details: str

    @property
    def text(self) -> str:
        return "\n\n".join(part for part in (f"**{self.title}**", self.lead, self.details) if part)


@dataclass(frozen=True, slots=True)
class _Group:
    """Codes that break the same step on the way from an alert to the request, and how that is said."""

    codes: tuple[str, ...]
    one: str
    many: str
    part: str


#: In the order in which a person on call meets them.
_GROUPS = (
    _Group(("metric-rename/rule-dead", "telemetry-gap/alert-blind"), "1 rule is blind", "{n} rules are blind", "rule"),
    _Group(("metric-rename/grouping-collapsed",), "1 rule still answers, wrongly", "{n} rules still answer, wrongly", "rule"),
    _Group(("metric-rename/dashboard-dead",), "1 dashboard has lost panels", "{n} dashboards have lost panels", "dashboard"),
    _Group(
        ("label-mapping/pod-missing", "label-mapping/unattributed-use"),
        "1 GPU Pod can't be told from its device's series",
        "{n} GPU Pods can't be told from their devices' series",
        "pod",
    ),
    _Group(
        ("label-mapping/exporter-pod", "label-mapping/stale-pod", "label-mapping/wrong-node", "label-mapping/wrong-container"),
        "1 device names the wrong Pod",
        "{n} devices name the wrong Pod",
        "gpu",
    ),
    _Group(
        ("telemetry-gap/target-down", "telemetry-gap/bad-exposition", "telemetry-gap/empty-exposition", "telemetry-gap/node-uncovered"),
        "1 exporter or node delivers nothing",
        "{n} exporters or nodes deliver nothing",
        "node",
    ),
    _Group(("metric-rename/renamed",), "1 metric has another name", "{n} metrics have other names", "metric"),
    _Group(("metric-rename/unit-changed",), "1 metric has another unit", "{n} metrics have another unit", "metric"),
    _Group(("metric-rename/label-renamed",), "1 label has another name", "{n} labels have other names", "label"),
)


def render(report: Report, *, reason: str = "", titles: Mapping[str, str] | None = None, link: str = "") -> Message:
    """The summary of one audit. `reason` says why it is news; `titles` are the codes' titles; `link` leads to the board."""
    failed = sorted((f for f in report["findings"] if f["verdict"] == "fail"), key=lambda f: _SEVERITY[f["severity"]])
    return Message(headline(report), _lead(report, failed, titles or {}, reason), _details(report, failed, link))


def headline(report: Report) -> str:
    """One line: verdict, what happened, where."""
    audit = report["audit"]
    verdict = audit["verdict"]
    return f"{_MARK[verdict]} {verdict.upper()} · {what_happened(audit)} · {audit['cluster']}"


def what_happened(audit: Mapping[str, Any]) -> str:
    """The trigger in words: "rollout complete: DaemonSet gpu-operator/nvidia-dcgm-exporter"."""
    trigger = audit["trigger"]
    subject = trigger.get("subject")
    words = " ".join(filter(None, [trigger["kind"], trigger.get("phase")]))
    if not subject:
        scope = audit.get("scope", "cluster")
        return words if scope == "cluster" else f"{words}: {scope}"
    return f"{words}: {subject['kind']} {'/'.join(filter(None, [subject.get('namespace'), subject['name']]))}"


def healthy_line(report: Report) -> str:
    """The one line that a healthy change may post: what was proven."""
    proven = "; ".join(f"{c['id']}: {c['summary']}" for c in report["checks"] if c["verdict"] == "pass")
    return f"{headline(report)} — {proven}" if proven else headline(report)


def _lead(report: Report, failed: Sequence[FindingDict], titles: Mapping[str, str], reason: str) -> str:
    lines = list(_broken(failed, titles))
    unknown = [c for c in report["checks"] if c["verdict"] == "unknown"]
    if not lines and not unknown:
        lines.append(f"- {'; '.join(c['summary'] for c in report['checks'] if c['verdict'] == 'pass') or 'nothing to judge'}")
    for check in unknown:
        why = check["missing"][0]["detail"] if check["missing"] else check["summary"]
        lines.append(f"- **{check['id']} is unknown**, which is not healthy: {why}")
    if reason:
        lines.append(f"_{reason}_")
    return "\n".join(lines)


def _broken(failed: Sequence[FindingDict], titles: Mapping[str, str]) -> Iterable[str]:
    said: set[str] = set()
    for group in _GROUPS:
        members = [f for f in failed if f["code"] in group.codes]
        if members:
            said.update(group.codes)
            names = _names(members, group.part)
            count = len(dict.fromkeys(names))
            yield f"- **{group.one if count == 1 else group.many.format(n=count)}**: {_listed(names)}"
    for code in dict.fromkeys(f["code"] for f in failed if f["code"] not in said):
        members = [f for f in failed if f["code"] == code]
        if len(members) == 1:
            yield f"- **{members[0]['title']}** (`{code}`)"
        else:
            yield f"- **{titles.get(code, code)}** (`{code}`, {len(members)}): {_listed([subject_text(f['subject']) for f in members])}"


def _names(findings: Iterable[FindingDict], part: str) -> list[str]:
    def name(finding: FindingDict) -> str:
        subject = finding["subject"]
        value = subject.get(part) or subject_text(subject)
        if part == "metric" and subject.get("renamed_to") and finding["code"] == "metric-rename/renamed":
            return f"`{value}` → `{subject['renamed_to']}`"
        if part == "label" and subject.get("renamed_to"):
            return f"`{value}` → `{subject['renamed_to']}`"
        if part == "pod":
            return f"`{'/'.join(filter(None, [subject.get('namespace'), value]))}` on {subject.get('node', '?')}"
        return f"`{value}`"

    return [name(f) for f in findings]


def _listed(names: Sequence[str]) -> str:
    unique = list(dict.fromkeys(names))
    more = len(unique) - _SHOWN
    return ", ".join(unique[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def subject_text(subject: Mapping[str, str]) -> str:
    """A subject in a few words, most telling part first."""
    if "rule" in subject or "dashboard" in subject:
        return subject.get("rule") or subject["dashboard"]
    if "metric" in subject or "label" in subject:
        return subject.get("metric") or subject["label"]
    pod = "/".join(filter(None, [subject.get("namespace"), subject.get("pod")]))
    device = " ".join(filter(None, [subject.get("gpu"), subject.get("gpu_instance") and f"instance {subject['gpu_instance']}"]))
    place = " on ".join(filter(None, [pod or device or subject.get("target", ""), subject.get("node", "")]))
    return place or subject.get("workload") or ", ".join(f"{k} {v}" for k, v in subject.items()) or "the cluster"


def _details(report: Report, failed: Sequence[FindingDict], link: str) -> str:
    audit = report["audit"]
    sections = []
    if fixes := list(_fixes(failed)):
        sections.append("**What to change**\n" + "\n".join(fixes))
    checks = " · ".join(f"{_MARK[c['verdict']]} {c['id']}: {c['summary']}" for c in report["checks"])
    sections.append(f"**Checks** {checks}")
    if audit.get("coverage"):
        sections.append("**What may have been missed**\n" + "\n".join(f"- {line}" for line in audit["coverage"]))
    window = f"{audit['baseline'] or 'no baseline'} → {audit['current']}"
    queries = audit.get("cost", {}).get("queries")
    cost = f" · {int(queries)} queries" if queries else ""
    sections.append(f"audit `{audit['id']}` · {window}{cost}{f' · {link}' if link else ''}")
    return "\n\n".join(sections)


def _fixes(failed: Sequence[FindingDict]) -> Iterable[str]:
    """The first hints, one a code, the gravest first; with one rewritten expression where there is one."""
    shown: set[str] = set()
    for finding in failed:
        if finding["code"] in shown or len(shown) == _FIXES:
            continue
        shown.add(finding["code"])
        yield f"{len(shown)}. {finding['hint']}"
        rewritten = next((i for i in finding["impact"] if i.get("suggested")), None)
        if rewritten:
            yield f"   `{rewritten['name']}`: `{rewritten['suggested']}`"
