"""Words and order that every text has in common: severities, subjects, instants, and names from outside made harmless. Pure.

Whatever comes from a cluster (names, label values, Event messages, alert annotations) goes into a text through `code` or
`prose`, so that it can't become markup, a mention, a link or a line of its own. Markdown is the form that reports are
written in; channels turn it into theirs (chat/mrkdwn.py), the board escapes for HTML by itself.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

Report = Mapping[str, Any]
FindingDict = Mapping[str, Any]

#: A verdict and a severity are always said in words as well; the marks only help the eye.
MARK = {"fail": "🔴", "unknown": "🟡", "pass": "🟢", "not-applicable": "⚪"}
LEVEL_MARK = {"critical": "🔴", "warning": "🟠", "info": "🔵", "unknown": "🟡"}
#: The gravest first. An `unknown` finding has no severity that counts.
LEVELS = {"critical": 0, "warning": 1, "info": 2, "unknown": 3}

#: The order in which a person on call meets what is broken; codes that aren't here come after them, by name.
PATH = (
    ("metric-rename/rule-dead", "telemetry-gap/alert-blind"),
    ("metric-rename/grouping-collapsed",),
    ("label-mapping/exporter-pod", "label-mapping/stale-pod", "label-mapping/wrong-node", "label-mapping/wrong-container"),
    ("label-mapping/pod-missing", "label-mapping/unattributed-use"),
    ("telemetry-gap/target-down", "telemetry-gap/bad-exposition", "telemetry-gap/empty-exposition", "telemetry-gap/node-uncovered"),
    ("telemetry-gap/device-missing", "telemetry-gap/went-silent"),
    ("metric-rename/dashboard-dead",),
    ("metric-rename/label-renamed", "metric-rename/label-lost"),
    ("metric-rename/renamed",),
    ("metric-rename/unit-changed",),
)
#: Triggers whose phase says nothing to a person, in words
_TRIGGERS = {"manual": "audit by hand", "schedule": "scheduled audit", "kubernetes-event": "Kubernetes Event"}
_STEP = {code: step for step, codes in enumerate(PATH) for code in codes}

_SPAN = re.compile(r"(`[^`\n]+`)")
#: a word that Markdown, mrkdwn or a mail reader would make something of
_LOADED = re.compile(r"[*\[\]<\\`]|://|www\.|&#?\w+;|^_|_$|^~|~$|~~|^@")
#: what would make a block of its own at the beginning of a line
_BLOCK = re.compile(r"^(?:[-+>#=|:]|\d+[.)])")


def level(finding: FindingDict) -> str:
    """The severity of what fails; `unknown` for what could not be judged."""
    return str(finding["severity"]) if finding["verdict"] == "fail" else "unknown"


def ordered(findings: Iterable[FindingDict]) -> list[FindingDict]:
    """The order of findings everywhere: the gravest first, then as the person on call meets them, then by subject."""
    return sorted(findings, key=lambda f: (LEVELS[level(f)], step(str(f["code"])), str(f["code"]), subject_text(f["subject"])))


def step(code: str) -> int:
    """Where a code stands on the way from an alert to the request."""
    return _STEP.get(code, len(PATH))


# ------------------------------------------------------------------------------------------------ text from outside


def visible(text: object) -> str:
    """One line without control, bidirectional or invisible characters; a tab or a line break becomes a space."""
    return " ".join(printable(text).split())


def printable(text: object) -> str:
    """The same with every space kept, for a line that is laid out already."""
    text = str(text)
    if text.isascii() and text.isprintable():  # nearly always
        return text
    kept = (" " if c in "\n\r\t\x0b\x0c\x85\u2028\u2029" else c for c in str(text))
    return "".join(c for c in kept if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co", "Cn"))


def clipped(text: str, limit: int) -> str:
    """A text within a limit; a cut shows."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def code(text: object, limit: int = 300) -> str:
    """A name or an expression from outside as inline code: one line, and no backtick that could end it."""
    shown = clipped(visible(text).replace("`", "'"), limit)
    return f"`{shown}`" if shown else "`(empty)`"


def prose(text: object, limit: int = 600) -> str:
    """A sentence that has text from outside in it: code spans stay, and words with markup in them become code."""
    shown = clipped(visible(text), limit)
    words = "".join(part if n % 2 else " ".join(map(_word, part.split(" "))) for n, part in enumerate(_SPAN.split(shown)))
    first, space, rest = words.partition(" ")
    return f"`{first}`{space}{rest}" if _BLOCK.match(first) else words


def _word(word: str) -> str:
    """The word, as code where it is loaded; brackets and stops around it stay outside."""
    if not _LOADED.search(word):
        return word
    inner = word.rstrip(".,;:?…")
    if inner.endswith(")") and inner.count("(") < inner.count(")"):
        inner = inner[:-1]
    after = word[len(inner) :]
    before = "(" if inner.startswith("(") and ")" not in inner else ""
    inner = inner[len(before) :]
    return f"{before}`{inner.replace('`', chr(39))}`{after}" if inner else f"`{word.replace('`', chr(39))}`"


# ------------------------------------------------------------------------------------------------ phrases


def headline(report: Report) -> str:
    """One line: verdict, what happened, where."""
    audit = report["audit"]
    verdict = audit["verdict"]
    return f"{MARK[verdict]} {verdict.upper()} · {prose(cause(report))} · {prose(audit['cluster'])}"


def cause(report: Report) -> str:
    """What happened, with the names of the alerts where alerts led to the audit. Not escaped."""
    audit = report["audit"]
    if audit["trigger"]["kind"] != "alert":
        return what_happened(audit)
    phase = audit["trigger"].get("phase")
    led = [s for s in report.get("signals", ()) if s["trigger"]["kind"] == "alert" and s["trigger"].get("phase") == phase]
    names = [str(((s.get("detail") or {}).get("labels") or {}).get("alertname", "")) for s in led]
    shown = listed(filter(None, names), 3)
    words, _, place = what_happened(audit).partition(": ")
    return f"{words}: {' on '.join(filter(None, [shown, place]))}" if shown else what_happened(audit)


def what_happened(audit: Mapping[str, Any]) -> str:
    """The trigger in words: "rollout complete: DaemonSet gpu-operator/nvidia-dcgm-exporter". Not escaped."""
    trigger = audit["trigger"]
    subject = trigger.get("subject")
    kind, phase = trigger["kind"], trigger.get("phase", "")
    words = _TRIGGERS.get(kind, " ".join(filter(None, [kind, phase])))
    if not subject:
        scope = audit.get("scope", "cluster")
        return words if scope == "cluster" else f"{words}: {scope}"
    return f"{words}: {subject['kind']} {'/'.join(filter(None, [subject.get('namespace'), subject['name']]))}"


def subject_text(subject: Mapping[str, str]) -> str:
    """A subject in a few words, most telling part first. Not escaped."""
    if "rule" in subject or "dashboard" in subject:
        return subject.get("rule") or subject["dashboard"]
    if "metric" in subject or "label" in subject:
        return subject.get("metric") or subject["label"]
    pod = "/".join(filter(None, [subject.get("namespace"), subject.get("pod")])) if "pod" in subject else ""
    device = " ".join(filter(None, [subject.get("gpu"), subject.get("gpu_instance") and f"instance {subject['gpu_instance']}"]))
    place = " on ".join(filter(None, [pod or device or subject.get("target", ""), subject.get("node", "")]))
    return place or workload_text(subject) or ", ".join(f"{k} {v}" for k, v in subject.items()) or "the cluster"


def workload_text(subject: Mapping[str, str]) -> str:
    """ "Deployment chat-prod/chat-70b", or the namespace alone, or nothing."""
    kind, _, name = subject.get("workload", "").partition("/")
    if name:
        return f"{kind} {'/'.join(filter(None, [subject.get('namespace'), name]))}"
    return kind or (f"namespace {subject['namespace']}" if subject.get("namespace") else "")


def listed(names: Iterable[str], most: int) -> str:
    """ "a, b, c and 4 more", each name once."""
    unique = list(dict.fromkeys(names))
    more = len(unique) - most
    return ", ".join(unique[:most]) + (f" and {more} more" if more > 0 else "")


def counted(number: int, one: str, many: str) -> str:
    """ "1 alert is blind", "3 alerts are blind": `many` has the number as {n}."""
    return one if number == 1 else many.format(n=number)


def levels(findings: Sequence[FindingDict]) -> str:
    """ "2 critical, 3 info" where findings differ in severity; "" where they don't."""
    found = [(name, sum(level(f) == name for f in findings)) for name in LEVELS]
    found = [(name, count) for name, count in found if count]
    return ", ".join(f"{count} {name}" for name, count in found) if len(found) > 1 else ""


def parsed(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def clock(text: str, beside: str | None = None) -> str:
    """An instant for a person: "10:04 UTC", with its day where that isn't the day of `beside`."""
    when = parsed(text)
    same = beside is not None and parsed(beside).date() == when.date()
    return f"{when:%H:%M} UTC" if same else f"{when:%Y-%m-%d %H:%M} UTC"


def span(first: str, last: str) -> str:
    """Two instants: "09:50 and 10:04 UTC", with their days where they differ."""
    if parsed(first).date() == parsed(last).date():
        return f"{parsed(first):%H:%M} and {parsed(last):%H:%M} UTC"
    return f"{clock(first)} and {clock(last)}"


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [f"{n} {unit}" for n, unit in ((days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")) if n]
    return " ".join(parts[:2]) or "0 s"
