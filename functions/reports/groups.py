"""Findings of one kind as one line: how many, which, and how grave. 23 renames are one line, not 23. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from functions.reports.wording import (
    LEVEL_MARK,
    LEVELS,
    FindingDict,
    code,
    counted,
    level,
    levels,
    listed,
    ordered,
    prose,
    step,
    subject_text,
)

RENAMED, UNIT = "metric-rename/renamed", "metric-rename/unit-changed"
_SHOWN = 6
#: enough of a UUID to tell devices apart by; the whole of it is in the report
_UUID = re.compile(r"^((?:GPU|MIG)-[0-9a-fA-F]{8})-[0-9a-fA-F-]{27}$")
#: renames are long: two names each
_PAIRS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Line:
    """Findings that are said together. `what`: "3 alerts are blind"; `names`: which; both are Markdown."""

    codes: tuple[str, ...]
    findings: tuple[FindingDict, ...]
    what: str
    names: str = ""
    #: "5 critical, 2 warning", or what else belongs behind the number
    aside: str = ""

    @property
    def level(self) -> str:
        """The gravest of them."""
        return min((level(f) for f in self.findings), key=LEVELS.__getitem__)

    @property
    def text(self) -> str:
        aside = f" ({self.aside})" if self.aside else ""
        return f"{LEVEL_MARK[self.level]} **{self.what}**{aside}{': ' + self.names if self.names else ''}"


@dataclass(frozen=True, slots=True)
class _Kind:
    """Codes that break the same step, and how that is said. `part`: the part of the subject that names them."""

    codes: tuple[str, ...]
    one: str
    many: str
    part: str
    #: one finding of this kind has a title that says more
    titled: bool = False


_ALERTS = _Kind(("metric-rename/rule-dead", "telemetry-gap/alert-blind"), "1 alert is blind", "{n} alerts are blind", "rule")
_RECORDS = _Kind(_ALERTS.codes, "1 recording rule has no data", "{n} recording rules have no data", "rule")
_KINDS = (
    _Kind(("metric-rename/grouping-collapsed",), "1 rule still answers, wrongly", "{n} rules still answer, wrongly", "rule"),
    _Kind(("metric-rename/dashboard-dead",), "1 dashboard has lost panels", "{n} dashboards have lost panels", "dashboard"),
    _Kind(
        ("label-mapping/pod-missing", "label-mapping/unattributed-use"),
        "1 GPU Pod can't be found on its devices",
        "{n} GPU Pods can't be found on their devices",
        "pod",
    ),
    _Kind(
        ("label-mapping/exporter-pod", "label-mapping/stale-pod", "label-mapping/wrong-node", "label-mapping/wrong-container"),
        "1 device names the wrong Pod",
        "{n} devices name the wrong Pod",
        "gpu",
    ),
    _Kind(
        ("telemetry-gap/target-down", "telemetry-gap/bad-exposition", "telemetry-gap/empty-exposition", "telemetry-gap/node-uncovered"),
        "1 exporter or node delivers nothing",
        "{n} exporters or nodes deliver nothing",
        "node",
        titled=True,
    ),
    _Kind(("telemetry-gap/device-missing",), "1 node shows too few devices", "{n} nodes show too few devices", "node", titled=True),
    _Kind(("telemetry-gap/went-silent",), "1 metric has gone silent", "{n} metrics have gone silent", "metric", titled=True),
    _Kind((RENAMED,), "1 metric has another name", "{n} metrics have other names", "metric"),
    _Kind((UNIT,), "1 metric has another unit", "{n} metrics have another unit", "metric"),
    _Kind(("metric-rename/label-renamed",), "1 label has another name", "{n} labels have other names", "label"),
)
_KIND = {name: kind for kind in _KINDS for name in kind.codes}


def lines(findings: Iterable[FindingDict], titles: Mapping[str, str] | None = None) -> list[Line]:
    """One line a kind, the gravest first. `titles`: the codes' titles, for kinds that have no wording of their own here."""
    findings = ordered(findings)
    renamed = {f["subject"].get("metric") for f in findings if f["code"] == RENAMED}
    scaled = {f["subject"].get("metric") for f in findings if f["code"] == UNIT}
    groups: dict[tuple[object, str], list[FindingDict]] = {}
    for finding in findings:
        if finding["code"] == UNIT and finding["subject"].get("metric") in renamed:
            continue  # said with the rename
        kind = _kind(finding)
        doubt = level(finding) == "unknown"
        groups.setdefault((kind or finding["code"], "unknown" if doubt else ""), []).append(finding)
    made = [_line(key, members, len(renamed & scaled), titles or {}) for (key, _), members in groups.items()]
    return sorted(made, key=lambda line: (LEVELS[line.level], step(line.codes[0])))


def is_alert(finding: FindingDict) -> bool:
    """Whether a blind rule is an alert; what only records misleads nobody by itself."""
    kinds = {i["kind"] for i in finding["impact"] if i["name"] == finding["subject"].get("rule")}
    return "alert" in kinds if kinds else finding["severity"] == "critical"


def _kind(finding: FindingDict) -> _Kind | None:
    if finding["code"] in _ALERTS.codes:
        return _ALERTS if is_alert(finding) else _RECORDS
    return _KIND.get(finding["code"])


def _line(key: object, members: Sequence[FindingDict], rescaled: int, titles: Mapping[str, str]) -> Line:
    if not isinstance(key, _Kind):
        return _plain(str(key), members, titles)
    if key.titled and len(members) == 1:
        return _plain(str(members[0]["code"]), members, titles)
    names = [_name(f, key.part) for f in members]
    count = len(set(names))
    what = counted(count, key.one, key.many)
    asides = [levels(members)]
    if RENAMED in key.codes and rescaled:
        what += f", {rescaled} of them another unit too" if count > 1 else ", and another unit"
    if level(members[0]) == "unknown":
        asides.append("not certain")
    most = _PAIRS_SHOWN if key.part in ("metric", "label") else _SHOWN
    return Line(key.codes, tuple(members), what, listed(names, most), "; ".join(filter(None, asides)))


def _plain(name: str, members: Sequence[FindingDict], titles: Mapping[str, str]) -> Line:
    doubt = "not certain" if level(members[0]) == "unknown" else ""
    if len(members) == 1:
        title = prose(members[0]["title"])
        place = code(subject_text(members[0]["subject"]))
        known = place.strip("`") in title
        return Line((name,), tuple(members), title, "" if known else place, doubt)
    aside = "; ".join(filter(None, [f"{len(members)} times", levels(members), doubt]))
    places = listed([code(subject_text(f["subject"])) for f in members], _SHOWN)
    return Line((name,), tuple(members), prose(titles.get(name, members[0]["title"])), places, aside)


def _name(finding: FindingDict, part: str) -> str:
    subject = finding["subject"]
    value = code(_UUID.sub(r"\1…", subject[part]) if subject.get(part) else subject_text(subject))
    if part in ("metric", "label") and subject.get("renamed_to"):
        return f"{value} → {code(subject['renamed_to'])}"
    if part == "pod":
        named = code("/".join(filter(None, [subject.get("namespace"), subject.get(part)])) or subject_text(subject))
        return f"{named} on {code(subject['node'])}" if subject.get("node") and subject.get(part) else named
    if part == "gpu" and subject.get("node"):
        return f"{value} on {code(subject['node'])}"
    return value
