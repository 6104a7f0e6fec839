"""What scheduled audits keep for later ones: what a metrics server can't tell of its past (`functions/evidence/kept.py`).

The inventory stands for the baseline where Prometheus' own history is too short. One of a broken time would hide the
fault from the next comparison, so what is kept is what no audit found a loss in. TYPE and HELP texts are kept of every
time: they are true whatever else is broken.

Two of each are kept, of this hour and of the one before, so that an audit during a change doesn't take the place of the
one from before it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from functions.contract.errors import Again
from functions.contract.facts import Facts
from functions.contract.findings import Verdict
from functions.contract.report import AuditReport
from functions.contract.signals import AuditRequest, TriggerKind
from functions.evidence import kept
from functions.evidence.kept import Remembered

if TYPE_CHECKING:  # a bundle is judged without a store
    from functions.store import Store

log = logging.getLogger(__name__)

T = TypeVar("T")

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
_INVENTORY, _TEXTS = "cluster", "texts"


def is_whole(report: AuditReport) -> bool:
    """Whether an audit looked at the whole cluster at a quiet time."""
    return report.scope.kind == "cluster" and report.trigger.kind is TriggerKind.SCHEDULE


def is_good(report: AuditReport) -> bool:
    """Whether what an audit saw may stand for how things should be: the whole cluster, seen whole, and nothing lost."""
    return is_whole(report) and not any(f.verdict is Verdict.FAIL and f.code.startswith(_LOSSES) for f in report.findings)


async def keep(store: Store, report: AuditReport, facts: Facts) -> bool:
    """Keep what an audit saw; whether there was an inventory to keep. What can't be kept now is kept by the next one."""
    texts = kept.texts_of(facts) if is_whole(report) else None
    inventory = kept.of(facts) if is_good(report) else None
    try:
        if texts:
            await store.notes.keep_baseline(_name(_TEXTS, texts.at), texts.at, kept.packed(texts))
        return inventory is not None and await store.notes.keep_baseline(
            _name(_INVENTORY, inventory.at), inventory.at, kept.packed(inventory)
        )
    except Again as error:
        log.warning("what audit %s saw is not kept: %s", report.id, error)
        return False


async def recall(store: Store, request: AuditRequest, now: datetime) -> Remembered:
    """The latest from before the change that an audit is about; of before now, where it is about none."""
    limit = request.baseline or now
    return Remembered(
        await _latest(store, _INVENTORY, now, limit, kept.unpacked), await _latest(store, _TEXTS, now, limit, kept.unpacked_texts)
    )


async def _latest(store: Store, what: str, now: datetime, limit: datetime, read: Callable[[Any], T | None]) -> T | None:
    """The latest that is kept under a name and can be read, from no later than the limit."""
    found = [await store.notes.baseline(_name(what, at)) for at in (now, now - _SPAN)]
    for at, value in sorted((f for f in found if f is not None), key=lambda f: f[0], reverse=True):
        if at <= limit and (held := read(value)) is not None:
            return held
    return None


def _name(what: str, at: datetime) -> str:
    """One of two names, in turn by the hour."""
    return f"{what}/{int(at.timestamp() // _SPAN.total_seconds()) % 2}"
