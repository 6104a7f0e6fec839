"""What a target that delivers nothing hides: the rules and panels that read what its job told.

Where no other target of the job delivers, they see nothing at all, so an alert among them can't fire and the finding is
critical; where others do, they are blind to this target alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from functions.checks.impact.users import LISTED, Users
from functions.checks.telemetry_gap.vanished import Scrapes
from functions.checks.telemetry_gap.world import World, place
from functions.contract.findings import Finding
from functions.contract.telemetry import MetricSchema

#: Codes of targets that deliver nothing.
_SILENT = frozenset({"target-down", "bad-exposition", "empty-exposition", "series-dropped", "stale"})
#: What the server writes for every target: it stays.
_OWN = ("up", "scrape_", "ALERTS")


def with_hidden(world: World, scrapes: Scrapes, users: Users, schemas: Iterable[MetricSchema]) -> list[Finding]:
    """The findings on targets, each with who can no longer see it."""
    told: Mapping[str, set[str]] = defaultdict(set)
    for row in schemas:
        if row.job and not row.name.startswith(_OWN):
            told[row.job].add(row.name)
    delivering = {t.job for t in world.target_list or () if t.up and scrapes.broken.get(place(t)) is None}
    return [_with(finding, users, told, delivering) for finding in scrapes.part.findings]


def _with(finding: Finding, users: Users, told: Mapping[str, set[str]], delivering: set[str]) -> Finding:
    job = finding.subject.job or ""
    impacts = users.of(sorted(told.get(job, ())), frozenset({job}))
    if finding.code.partition("/")[2] not in _SILENT or not impacts:
        return finding
    if job not in delivering:
        return replace(users.weigh(finding, impacts), impact=tuple(replace(i, note=i.note or "sees nothing") for i in impacts[:LISTED]))
    where = finding.subject.node or finding.subject.target or finding.subject.pod or "this target"
    return replace(finding, impact=tuple(replace(i, note=f"does not see {where}") for i in impacts[:LISTED]))
