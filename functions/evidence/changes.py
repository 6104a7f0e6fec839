"""What a comparison of two moments, or a suspicious value, makes worth asking: the last stage of a gathering.

Each question is asked only where the facts so far give reason to, and all of one moment go in one request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from functions.contract.facts import NO_BASELINE, NOT_ASKED, Fact, Known, Missing
from functions.contract.telemetry import DeviceSeries, MetricSchema
from functions.evidence import assemble, plan, relevance
from functions.evidence.moment import Moment
from functions.evidence.questions import Question
from functions.evidence.request import Found, Request, carried, value_of
from functions.evidence.together import Rows, together

#: fact -> what it is asked by
Asked = dict[str, Question]
Answers = Mapping[str, Rows]
Carriers = Mapping[tuple[str, str], str]

#: Roles of labels that say whose a device is, and those that change places with one another.
_WHOSE = ("namespace", "pod", "container", "pod_uid")
_ROLES = (*_WHOSE, "host")


class Changes:
    """The follow-up questions."""

    def __init__(self, request: Request, names: relevance.Names, now: Moment, before: Moment | None) -> None:
        self._request = request
        self._names = names
        self._now = now
        self._before = before
        self._restless = frozenset(signal.name for signal in request.knowledge.signals.restless())

    async def facts(self, found: Found) -> None:
        """Add the facts of this stage to those that were found."""
        now: Asked = {}
        before: Asked = {}
        carriers = self._label_values(found, now, before)
        labels = self._partial_losses(found, now, before)
        still: Asked = {}  # reads a whole window of samples, and so goes by itself
        await self._suspicious(found, now, still)
        told, told_still, told_before = await asyncio.gather(
            _answers(self._now, now), _answers(self._now, still), _answers(self._before, before)
        )
        self._read(found, {**told, **told_still}, told_before, carriers)
        if labels is not None:
            found["partial_losses"] = self._lost(found, told, told_before, labels)

    def _read(self, found: Found, now: Answers, before: Answers, carriers: tuple[Carriers, Carriers]) -> None:
        nodes = nodes_of(found.get("devices"))
        read: Mapping[str, Callable[[Any], Any]] = {
            "extremes": lambda rows: assemble.extremes(rows, nodes),
            "standstill": lambda rows: assemble.standstill(rows, nodes),
            "label_values": lambda rows: assemble.label_values(rows, carriers[0]),
        }
        found |= {name: _assembled(now[name], assembled) for name, assembled in read.items() if name in now}
        if "label_values" in before:
            found["label_values_before"] = _assembled(before["label_values"], lambda rows: assemble.label_values(rows, carriers[1]))

    # ------------------------------------------------------------------------------------------ suspicious values

    async def _suspicious(self, found: Found, now: Asked, still: Asked) -> None:
        """Facts about the few metrics of the schema that give reason to ask."""
        threshold, window = self._request.knowledge.sentinels.threshold, round(self._request.policy.windows.standstill)
        where = self._now.where or ()
        if names := self._chosen(found, "extremes", lambda metric: metric.high is not None and metric.high >= threshold):
            by = await self._now.present(self._names.by)
            now["extremes"] = plan.extremes((self._names.devices, *where), names, by, threshold)
        if names := self._chosen(found, "standstill", self._moves):
            still["standstill"] = plan.standstill([m for m in where if m.label != "__name__"], names, window)

    def _chosen(self, found: Found, fact: str, chosen: Callable[[MetricSchema], bool]) -> Sequence[str]:
        if not self._request.wants(fact):
            return ()
        schema = found.get("schema", NOT_ASKED)
        if isinstance(schema, Missing):
            found[fact] = schema
            return ()
        names = sorted({m.name for m in schema.value if chosen(m)})
        if not names:
            found[fact] = Known((), schema.at, schema.source)
        return names

    def _moves(self, metric: MetricSchema) -> bool:
        """Whether its value can't stand still, and is read device by device."""
        signal = self._request.knowledge.signals.of(metric.name, self._request.policy.signals.rewrite)
        return signal is not None and signal.name in self._restless and signal.concept in relevance.READ

    # ------------------------------------------------------------------------------------------- partial losses

    def _partial_losses(self, found: Found, now: Asked, before: Asked) -> Carriers | None:
        """Ask which targets have the names, and the labels, that only some have: the metric of each label asked for.

        None where it is settled.
        """
        if not self._request.wants("partial_losses") or self._before is None:
            return None
        wanted = ("schema", "schema_before", "targets", "targets_before")
        if lost := next((fact for name in wanted if isinstance(fact := found.get(name, NO_BASELINE), Missing)), None):
            found["partial_losses"] = lost
            return None
        up = assemble.serving(value_of(found["targets"]))
        schemas = value_of(found["schema"]), value_of(found["schema_before"])
        names = assemble.partial_candidates(*schemas, up)
        # whose a device is comes and goes with who holds it
        labels = assemble.partial_labels(*schemas, self._spelled(_WHOSE))
        if not names and not labels:
            found["partial_losses"] = Known((), self._now.at, "every target has what its job has")
            return None
        for moment, asked in ((self._now, now), (self._before, before)):
            if names:
                asked["instances"] = plan.instances(moment.where or (), names)
            if labels:
                asked["bearers"] = plan.bearers(moment.narrowed(), labels)
        return labels

    def _lost(self, found: Found, told: Answers, told_before: Answers, labels: Carriers) -> Fact[Any]:
        """What some targets lost, from the answers of both moments."""
        answers = [(told[name], told_before[name]) for name in ("instances", "bearers") if name in told]
        if missing := next((a for pair in answers for a in pair if isinstance(a, Missing)), None):
            return missing
        up, up_before = assemble.serving(value_of(found["targets"])), assemble.serving(value_of(found["targets_before"]))
        known = {name: (value_of(told[name]), value_of(told_before[name])) for name in ("instances", "bearers") if name in told}
        lost = assemble.partial_losses(*known.get("instances", ((), ())), up, up_before)
        first = next(answer for pair in answers for answer in pair if isinstance(answer, Known))
        return carried(first, (*lost, *assemble.label_losses(*known.get("bearers", ((), ())), labels, up)))

    # --------------------------------------------------------------------------------------------- label values

    def _label_values(self, found: Found, now: Asked, before: Asked) -> tuple[Carriers, Carriers]:
        """Ask for the values of changed and of unmatched labels: the metrics to read them from, by moment."""
        if not self._request.wants("label_values", "label_values_before"):
            return {}, {}
        schema, earlier = found.get("schema", NOT_ASKED), found.get("schema_before", NO_BASELINE)
        if isinstance(schema, Missing) or (self._before and isinstance(earlier, Missing)):
            lost = next(fact for fact in (schema, earlier) if isinstance(fact, Missing))
            found |= dict.fromkeys(("label_values", "label_values_before"), lost)
            return {}, {}
        wanted = assemble.matched_labels(value_of(found.get("selectors")), (*schema.value, *value_of(earlier)))
        if isinstance(earlier, Known):
            changed = assemble.changed_labels(schema.value, earlier.value)
            wanted |= changed | assemble.twin_labels(changed, schema.value, self._spelled(_ROLES))
        moments = [(self._now, "label_values", schema, now)]
        if self._before and isinstance(earlier, Known):
            moments.append((self._before, "label_values_before", earlier, before))
        chosen: list[Carriers] = []
        for moment, fact, held, asked in moments:
            chosen.append(assemble.carriers(wanted, held.value))
            if chosen[-1]:
                asked["label_values"] = plan.label_values(moment.narrowed(), chosen[-1])
            else:
                found[fact] = Known((), moment.at, "no label changed, and no selector is empty")
        return chosen[0], chosen[1] if len(chosen) > 1 else {}

    def _spelled(self, roles: Sequence[str]) -> frozenset[str]:
        """Every spelling of the labels with these roles."""
        devices, policy = self._request.knowledge.devices, self._request.policy
        return frozenset(label for role in roles for label in devices.spellings(role, policy))


async def _answers(moment: Moment | None, asked: Asked) -> Answers:
    if moment is None or not asked:
        return {}
    return dict(zip(asked, await together(moment.ask, list(asked.values())), strict=True))


def _assembled(answer: Rows, assembled: Callable[[Any], Any]) -> Fact[Any]:
    return answer if isinstance(answer, Missing) else carried(answer, assembled(answer.value))


def nodes_of(devices: Fact[tuple[DeviceSeries, ...]] | None) -> dict[tuple[str, str], str]:
    """(job, instance) -> node, where all device series of the target agree."""
    seen: dict[tuple[str, str], set[str]] = {}
    for device in value_of(devices):
        seen.setdefault((device.job, device.instance), set()).add(device.node)
    return {place: next(iter(nodes)) for place, nodes in seen.items() if len(nodes) == 1}
