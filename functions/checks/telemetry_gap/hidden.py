"""What a target that delivers nothing hides: the rules and panels that read what its job told.

Where no other target of the job delivers, they see nothing at all, so an alert among them can't fire and the finding is
critical; where others do, they are blind to this target alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from functions.checks.impact.users import LISTED, Users
from functions.checks.telemetry_gap.vanished import Scrapes
from functions.checks.telemetry_gap.world import World, place
from functions.contract.findings import Finding, Impact
from functions.contract.telemetry import MetricSchema
from functions.knowledge.pipeline import SYNTHETIC

#: Codes of targets that deliver nothing.
_SILENT = frozenset({"target-down", "bad-exposition", "empty-exposition", "series-dropped", "stale"})
#: How many users a finding lists at least, however many findings of its job share them.
_LEAST = 5


def with_hidden(world: World, scrapes: Scrapes, users: Users, schemas: Iterable[MetricSchema]) -> list[Finding]:
    """The findings on targets, each with who can no longer see it."""
    silent = Counter(f.subject.job or "" for f in scrapes.part.findings if _is_silent(f))
    told: Mapping[str, set[str]] = defaultdict(set)
    for row in schemas:
        if row.job in silent and row.name not in SYNTHETIC:
            told[row.job].add(row.name)
    readers = {job: users.of(sorted(told[job]), frozenset({job})) for job in silent if told.get(job)}
    delivering = {t.job for t in world.target_list or () if t.up and scrapes.broken.get(place(t)) is None}

    def hiding(finding: Finding) -> Finding:
        job = finding.subject.job or ""
        impacts = readers.get(job, ())
        if not impacts or not _is_silent(finding):
            return finding
        # a thousand targets of one job hide the same: each lists its share
        listed = max(LISTED // silent[job], _LEAST)
        if job not in delivering:
            return users.weigh(finding, _noted(impacts, "sees nothing", listed), listed=listed)
        where = finding.subject.node or finding.subject.target or finding.subject.pod or "this target"
        return users.weigh(finding, _noted(impacts, f"does not see {where}", listed, always=True), finding.severity, listed=listed)

    return [hiding(finding) for finding in scrapes.part.findings]


def _is_silent(finding: Finding) -> bool:
    return finding.code.partition("/")[2] in _SILENT


def _noted(impacts: tuple[Impact, ...], note: str, listed: int, *, always: bool = False) -> tuple[Impact, ...]:
    """The impacts with a note on the listed ones; those that have one keep it, unless `always`."""
    return (*(replace(i, note=note if always else i.note or note) for i in impacts[:listed]), *impacts[listed:])
