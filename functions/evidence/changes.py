"""What a comparison of two moments, or a suspicious value, makes worth asking: the last stage of a gathering."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from functions.contract.facts import NO_BASELINE, NOT_ASKED, Fact, Known, Missing
from functions.contract.telemetry import DeviceSeries, MetricSchema
from functions.evidence import assemble, plan, relevance
from functions.evidence.moment import Moment
from functions.evidence.request import Found, Request, carried, put, value_of

#: Roles of labels that change places with one another.
_ROLES = ("namespace", "pod", "container", "pod_uid", "host")


class Changes:
    """The follow-up questions. Each is asked only where the facts so far give reason to."""

    def __init__(self, request: Request, names: relevance.Names, now: Moment, before: Moment | None) -> None:
        self._request = request
        self._names = names
        self._now = now
        self._before = before

    async def facts(self, found: Found) -> None:
        """Add the facts of this stage to those that were found."""
        await asyncio.gather(
            put(found, "extremes", self._extremes(found)),
            put(found, "standstill", self._standstill(found)),
            put(found, "partial_losses", self._partial_losses(found)),
            self._label_values(found),
        )

    async def _extremes(self, found: Found) -> Fact[Any] | None:
        threshold = self._request.knowledge.sentinels.threshold
        return await self._suspicious(
            found, "extremes", lambda metric: metric.high is not None and metric.high >= threshold, self._extreme_rows, assemble.extremes
        )

    async def _standstill(self, found: Found) -> Fact[Any] | None:
        restless = frozenset(signal.name for signal in self._request.knowledge.signals.restless())

        def moves(metric: MetricSchema) -> bool:
            signal = self._request.knowledge.signals.of(metric.name, self._request.policy.signals.rewrite)
            return signal is not None and signal.name in restless and signal.concept in relevance.READ

        return await self._suspicious(found, "standstill", moves, self._still_rows, assemble.standstill)

    async def _suspicious(
        self,
        found: Found,
        fact: str,
        chosen: Callable[[MetricSchema], bool],
        ask: Callable[[Sequence[str]], Awaitable[Fact[Any]]],
        assembled: Callable[[Any, Mapping[tuple[str, str], str]], Any],
    ) -> Fact[Any] | None:
        """A fact about the few metrics of the schema that give reason to ask."""
        schema = found.get("schema")
        if not self._request.wants(fact) or schema is None or isinstance(schema, Missing):
            return schema if self._request.wants(fact) else None
        names = sorted({m.name for m in schema.value if chosen(m)})
        if not names:
            return Known((), schema.at, schema.source)
        answer = await ask(names)
        return answer if isinstance(answer, Missing) else carried(answer, assembled(answer.value, nodes_of(found.get("devices"))))

    async def _extreme_rows(self, names: Sequence[str]) -> Fact[Any]:
        threshold = self._request.knowledge.sentinels.threshold
        return await self._now.rows(lambda where: plan.extremes((self._names.devices, *where), names, self._names.by, threshold))

    async def _still_rows(self, names: Sequence[str]) -> Fact[Any]:
        window = round(self._request.policy.windows.standstill)
        return await self._now.rows(lambda where: plan.standstill([m for m in where if m.label != "__name__"], names, window))

    async def _partial_losses(self, found: Found) -> Fact[Any] | None:
        if not self._request.wants("partial_losses") or self._before is None:
            return None
        wanted = ("schema", "schema_before", "targets", "targets_before")
        for name in wanted:
            if isinstance(fact := found.get(name, NO_BASELINE), Missing):
                return fact
        schema, earlier, targets, targets_before = (found[name] for name in wanted)
        up, up_before = assemble.serving(value_of(targets)), assemble.serving(value_of(targets_before))
        names = assemble.partial_candidates(value_of(schema), value_of(earlier), up)
        if not names:
            return Known((), self._now.at, "every target has what its job has")
        now, before = await asyncio.gather(
            self._now.rows(lambda where: plan.instances(where, names)), self._before.rows(lambda where: plan.instances(where, names))
        )
        if isinstance(now, Missing) or isinstance(before, Missing):
            return now if isinstance(now, Missing) else before
        return carried(now, assemble.partial_losses(now.value, before.value, up, up_before))

    async def _label_values(self, found: Found) -> None:
        if not self._request.wants("label_values", "label_values_before"):
            return
        schema, earlier = found.get("schema", NOT_ASKED), found.get("schema_before", NO_BASELINE)
        if isinstance(schema, Missing) or (self._before and isinstance(earlier, Missing)):
            lost = next(fact for fact in (schema, earlier) if isinstance(fact, Missing))
            found |= dict.fromkeys(("label_values", "label_values_before"), lost)
            return
        wanted = assemble.matched_labels(value_of(found.get("selectors")), (*schema.value, *value_of(earlier)))
        if isinstance(earlier, Known):
            changed = assemble.changed_labels(schema.value, earlier.value)
            wanted |= changed | assemble.twin_labels(changed, schema.value, self._spelled())
        found["label_values"] = await self._now.label_values(assemble.carriers(wanted, schema.value))
        if self._before and isinstance(earlier, Known):
            found["label_values_before"] = await self._before.label_values(assemble.carriers(wanted, earlier.value))

    def _spelled(self) -> frozenset[str]:
        """Every spelling of the labels that say whose and where a device is."""
        devices, policy = self._request.knowledge.devices, self._request.policy
        return frozenset(label for role in _ROLES for label in devices.spellings(role, policy))


def nodes_of(devices: Fact[tuple[DeviceSeries, ...]] | None) -> dict[tuple[str, str], str]:
    """(job, instance) -> node, where all device series of the target agree."""
    seen: dict[tuple[str, str], set[str]] = {}
    for device in value_of(devices):
        seen.setdefault((device.job, device.instance), set()).add(device.node)
    return {place: next(iter(nodes)) for place, nodes in seen.items() if len(nodes) == 1}
