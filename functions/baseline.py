"""The last good inventory: kept after audits that found nothing lost, the baseline where Prometheus' own history is too short.

An inventory of a broken time would hide the fault from the next comparison, so what is kept is what no audit found a
loss in. Two are kept, of this hour and of the one before, so that an audit during a change doesn't take the place of the
one from before it.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from functions.contract.errors import Again
from functions.contract.facts import Facts
from functions.contract.findings import Verdict
from functions.contract.report import AuditReport
from functions.contract.signals import AuditRequest, TriggerKind
from functions.evidence import kept
from functions.evidence.kept import Kept

if TYPE_CHECKING:  # a bundle is judged without a store
    from functions.store import Store

log = logging.getLogger(__name__)

#: What says that something which was there is not there now, or not as it was.
_LOSSES = (
    "metric-rename/",
    "telemetry-gap/target-down",
    "telemetry-gap/bad-exposition",
    "telemetry-gap/empty-exposition",
    "telemetry-gap/node-uncovered",
    "telemetry-gap/device-missing",
    "telemetry-gap/went-silent",
    "telemetry-gap/series-dropped",
)
_SPAN = timedelta(hours=1)


def is_good(report: AuditReport) -> bool:
    """Whether what an audit saw may stand for how things should be: the whole cluster, seen whole, and nothing lost."""
    if report.scope.kind != "cluster" or report.trigger.kind is not TriggerKind.SCHEDULE:
        return False
    return not any(f.verdict is Verdict.FAIL and f.code.startswith(_LOSSES) for f in report.findings)


async def keep(store: Store, report: AuditReport, facts: Facts) -> bool:
    """Keep what a good audit saw. What can't be kept now is kept by the next one."""
    taken = kept.of(facts) if is_good(report) else None
    if taken is None:
        return False
    try:
        return await store.notes.keep_baseline(_name(taken.at), taken.at, kept.packed(taken))
    except Again as error:
        log.warning("the inventory of audit %s is not kept: %s", report.id, error)
        return False


async def recall(store: Store, request: AuditRequest, now: datetime) -> Kept | None:
    """The latest inventory from before the change that an audit is about; of before now, where it is about none."""
    limit = request.baseline or now
    found = [await store.notes.baseline(_name(at)) for at in (now, now - _SPAN)]
    for at, inventory in sorted((f for f in found if f is not None), key=lambda f: f[0], reverse=True):
        if at <= limit and (read := kept.unpacked(inventory)):
            return read
    return None


def _name(at: datetime) -> str:
    """One of two names, in turn by the hour."""
    return f"cluster/{int(at.timestamp() // _SPAN.total_seconds()) % 2}"
