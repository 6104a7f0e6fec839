"""One staged plan over a source of metrics and a source of objects, assembled into the facts of an audit.

The same plan runs live and over a bundle: first what Kubernetes lists and which rules and dashboards there are, then
the telemetry (`telemetry.py`). One question that fails makes only the facts that rest on it `Missing`. Nothing here
judges.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

from functions.contract.facts import NO_BASELINE, NOT_ASKED, Fact, Facts, Known, Windows
from functions.contract.policy import Policy
from functions.contract.signals import Scope
from functions.evidence import watched
from functions.evidence.inventory import Inventory
from functions.evidence.kept import Remembered
from functions.evidence.meter import metered
from functions.evidence.request import Request
from functions.evidence.sources import MetricSource, ObjectSource
from functions.evidence.telemetry import Telemetry
from functions.evidence.watched import Texts
from functions.knowledge import Knowledge

#: Facts about telemetry that can't be told without others: fact -> what it rests on.
_RESTS_ON = {
    "targets": ("nodes", "pods"),
    "devices": ("nodes", "pods"),
    "devices_before": ("nodes", "pods", "pods_before"),
    "readings": ("nodes", "pods"),
    "schema": ("rules",),
    "selectors": ("rules", "dashboards"),
    "selectors_before": ("rules", "dashboards"),
    "label_values": ("rules", "dashboards"),
}


async def gather(  # noqa: PLR0913 (every parameter is one part of what an audit rests on)
    metrics: MetricSource | None,
    objects: ObjectSource | None,
    *,
    windows: Windows,
    needs: frozenset[str],
    scope: Scope,
    knowledge: Knowledge,
    policy: Policy,
    rule_texts: Texts = (),
    dashboards: Texts = (),
    jobs: frozenset[str] | None = None,
    before: ObjectSource | None = None,
    remembered: Remembered | None = None,
    cluster: str = "",
) -> Facts:
    """The needed facts, each `Known` or `Missing`.

    `rule_texts` and `dashboards` are (origin, text) of files; `before` lists the objects as they were at the
    baseline (a bundle can); `jobs` are those that the source holds: None looks for the jobs that matter instead;
    `remembered` stands in for what the source can't tell of the baseline; `cluster` is the one that is asked about, where
    the source holds several.
    """
    started = time.monotonic()
    remarks: tuple[str, ...] = ()
    helped = needs | {other for need in needs for other in _RESTS_ON.get(need, ())}
    with metered() as meter:
        inventory = Inventory(objects, scope, knowledge.devices, windows.current) if objects else None
        found, earlier, seen = await asyncio.gather(
            _listed(inventory, helped),
            _pods_before(before, scope, knowledge, windows, helped),
            watched.read(metrics, inventory, rule_texts, dashboards, windows.current, helped),
        )
        found |= earlier
        found |= {"rules": seen.rules, "dashboards": seen.dashboards}
        if metrics:
            request = Request(
                windows=windows,
                scope=scope,
                knowledge=knowledge,
                policy=policy,
                needs=needs,
                jobs=jobs,
                nodes=found.get("nodes", NOT_ASKED),
                pods=found.get("pods", NOT_ASKED),
                pods_before=found.get("pods_before", NO_BASELINE),
                selectors=seen.selectors,
                unread=seen.unread,
                recorded=seen.recorded,
                cluster=cluster,
                remembered=remembered,
            )
            telemetry = Telemetry(metrics, request)
            found |= await telemetry.facts()
            windows, remarks = telemetry.windows, telemetry.remarks
        if inventory and scope.kind == "node":
            found["pods"] = await inventory.pods_named(_named(found), found.get("pods", NOT_ASKED))
    cost = {**meter.cost(), "elapsed": round(time.monotonic() - started, 3)}
    return replace(Facts(windows, jobs=jobs, cost=cost, remarks=remarks), **{name: fact for name, fact in found.items() if name in needs})


async def _listed(inventory: Inventory | None, needs: frozenset[str]) -> dict[str, Fact[Any]]:
    return await inventory.facts(needs) if inventory else {}


async def _pods_before(
    before: ObjectSource | None, scope: Scope, knowledge: Knowledge, windows: Windows, needs: frozenset[str]
) -> dict[str, Fact[Any]]:
    if before is None or windows.baseline is None or "pods_before" not in needs:
        return {}
    return {"pods_before": await Inventory(before, scope, knowledge.devices, windows.baseline).pods()}


def _named(found: dict[str, Fact[Any]]) -> list[tuple[str, str]]:
    """(namespace, name) of the Pods that device series name."""
    return [
        (device.namespace, device.pod)
        for name in ("devices", "devices_before")
        if isinstance(fact := found.get(name), Known)
        for device in fact.value
        if device.pod
    ]
