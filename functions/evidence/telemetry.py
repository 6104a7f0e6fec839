"""The telemetry of an audit: two moments of one source, and what a comparison of them makes worth asking.

The stages: what matters (jobs, targets) · what is there (schema, devices, values) · what changed (labels, targets
that lost a name, suspicious values). A failed question makes only the facts that rest on it `Missing`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from functions.contract.cluster import Pod
from functions.contract.facts import NO_BASELINE, NOT_ASKED, Fact, Known, Missing, Why, Windows
from functions.contract.rules import Matcher, SelectorCount
from functions.contract.telemetry import DeviceSeries, MetricSchema, Target
from functions.evidence import assemble, plan, relevance
from functions.evidence.changes import Changes
from functions.evidence.devices import resolve
from functions.evidence.kept import Kept
from functions.evidence.moment import Moment, Relevant
from functions.evidence.questions import Question, literal, one_of
from functions.evidence.request import Found, Request, carried, put, value_of
from functions.evidence.sources import MetricSource
from functions.evidence.together import Rows

ONLY_NOW = Missing(Why.UNSUPPORTED, "a server knows its targets, types and HELP texts only as they are now")


class Telemetry:
    """The stages of one gathering."""

    def __init__(self, source: MetricSource, request: Request) -> None:
        self._source = source
        self._request = request
        self._names = relevance.names(request.knowledge, request.policy)
        self._now = Moment(source, request.windows.current)
        baseline = request.windows.baseline
        self._before = Moment(source, baseline) if baseline else None
        #: what stands for the baseline, once the source turned out to have nothing of it
        self._kept: Kept | None = None

    @property
    def _inventory(self) -> Kept | None:
        return self._request.remembered.inventory if self._request.remembered else None

    @property
    def windows(self) -> Windows:
        """The two instants that were compared."""
        return replace(self._request.windows, baseline=self._kept.at) if self._kept else self._request.windows

    @property
    def remarks(self) -> tuple[str, ...]:
        """Where the baseline is not the one that was asked for."""
        asked = self._request.windows.baseline
        if not self._kept or not asked:
            return ()
        then, kept = (f"{at:%Y-%m-%d %H:%M:%S} UTC" for at in (asked, self._kept.at))
        return (f"nothing is stored of {then}; compared with the last good inventory, of {kept}",)

    async def facts(self) -> Found:
        """Every needed fact about telemetry."""
        found: Found = {}
        lost = await self._select(found)
        if lost is not None:
            return found | dict.fromkeys((*_CURRENT, *(_BASELINE if self._before else ())), lost)
        await self._present(found)
        await Changes(self._request, self._names, self._now, self._before).facts(found)
        return found

    # ------------------------------------------------------------------------------------------- what matters

    async def _select(self, found: Found) -> Missing | None:
        """Fix the jobs and targets that the questions are about. What it returns is why there can be no answer at all."""
        beside = [plan.pipeline()] if self._request.wants("pipeline") else []
        (now, health), (before, _), listed, listed_before = await asyncio.gather(
            self._look(self._now, beside), self._look(self._before), self._listed(self._now), self._listed(self._before)
        )
        if isinstance(now, Missing):
            return now
        for answer in health:
            found["pipeline"] = answer if isinstance(answer, Missing) else carried(answer, assemble.pipeline(answer.value))
        if isinstance(before, Missing):
            found |= dict.fromkeys(_BASELINE, before)
            self._before = None
            self._kept = self._inventory if before.why is Why.NO_BASELINE else None
        seen = [r.value for r in (now, before) if isinstance(r, Known)]
        jobs = self._jobs(seen + ([Relevant(True, self._kept.jobs, ())] if self._kept else []), listed)
        where = _where(jobs)
        self._now.where = where
        if self._before:
            self._before.where = where
            if self._request.jobs is None:  # a server is asked about a span of time, a recording has two instants
                self._before.share_label_names(self._now)
        found["targets"], found["targets_before"] = await asyncio.gather(
            self._targets(self._now, listed, jobs), self._targets(self._before, listed_before, jobs)
        )
        if isinstance(before, Missing):
            found["targets_before"] = before
        elif isinstance(earlier := found["targets_before"], Known):
            found["targets_before"] = carried(earlier, assemble.with_settings(earlier.value, value_of(found["targets"])))
        self._keep_to_cluster(found)
        self._narrow(found)
        if self._kept:
            instances = frozenset(t.instance for t in value_of(found["targets"]))
            found |= self._kept.facts(self._request.scope, instances)
        return None

    async def _look(self, moment: Moment | None, beside: Sequence[Question] = ()) -> tuple[Fact[Relevant], list[Rows]]:
        """What an instant shows at first sight, and the answers to other questions about it."""
        if moment is None:
            return NO_BASELINE, []
        everything = self._request.jobs is not None
        answer, others = await moment.relevant(self._names.devices, self._names.signals, everything=everything, beside=beside)
        if isinstance(answer, Known) and not answer.value.stored:
            if moment is self._now and not everything:
                # a server that has just started will have some soon, so this is worth asking again
                answer = Missing(
                    Why.UNREACHABLE, "the server holds no series at all (just started? wrong address or tenant?)", answer.source
                )
            elif moment is not self._now:
                answer = Missing(Why.NO_BASELINE, f"nothing is stored of {moment.at:%Y-%m-%d %H:%M:%S} UTC", answer.source)
        return answer, others

    async def _listed(self, moment: Moment | None) -> Fact[tuple[Target, ...]]:
        if moment is None:
            return NO_BASELINE
        return await self._source.targets(moment.at) if self._told(moment) else ONLY_NOW

    def _told(self, moment: Moment) -> bool:
        """Whether targets and metadata can be told of the instant: a server knows them as they are now, a recording keeps them."""
        return moment is self._now or self._request.jobs is not None

    def _jobs(self, seen: Sequence[Relevant], listed: Fact[tuple[Target, ...]]) -> frozenset[str] | None:
        """The jobs that matter; None: all."""
        if self._request.jobs is not None:
            return None
        pods = relevance.concerned(value_of(self._request.pods), self._request.scope, self._request.knowledge)
        labels = [labels for r in seen for labels in r.broken] + [t.labels for t in value_of(listed)]
        return frozenset().union(*(r.jobs for r in seen)) | relevance.jobs_of(labels, pods, self._request.knowledge)

    async def _targets(
        self, moment: Moment | None, listed: Fact[tuple[Target, ...]], jobs: frozenset[str] | None
    ) -> Fact[tuple[Target, ...]]:
        if moment is None:
            return NO_BASELINE
        if isinstance(listed, Known) and jobs is not None:
            listed = replace(listed, value=tuple(t for t in listed.value if t.job in jobs))
        return await moment.targets(listed)

    def _keep_to_cluster(self, found: Found) -> None:
        """Of a store that holds several clusters, by a label of its targets, only what is this one's or nobody's."""
        targets = (*value_of(found["targets"]), *value_of(found["targets_before"]))
        for name in self._request.knowledge.devices.clusters:
            values = {value for t in targets if (value := t.labels.get(name))}
            if len(values) > 1 and self._request.cluster in values:
                own = Matcher(name, "=~", f"{literal(self._request.cluster)}|")
                for moment in (self._now, self._before):
                    if moment and moment.where is not None:
                        moment.where = (*moment.where, own)

    def _narrow(self, found: Found) -> None:
        """For a node's audit, only what the targets of that node say."""
        scope = self._request.scope
        if scope.kind != "node":
            return
        instances: set[str] = set()
        nodes, here = value_of(self._request.nodes), self._request.pods
        for name, pods in (("targets", here), ("targets_before", self._request.pods_before)):
            fact = found[name]
            if isinstance(fact, Known):
                held = relevance.on_node(fact.value, scope.name, nodes, (*value_of(pods), *value_of(here)))
                if name == "targets_before" and isinstance(here, Known):
                    # what was drained is judged where it runs now
                    held = tuple(t for t in held if not relevance.moved_away(t, frozenset(instances), scope.name, here.value))
                found[name] = carried(fact, held)
                instances |= {t.instance for t in held}
        narrow = (one_of("instance", instances),) if instances else None
        for moment in (self._now, self._before):
            if moment and moment.where is not None:
                moment.where = None if narrow is None else (*moment.where, *narrow)

    # ------------------------------------------------------------------------------------------- what is there

    async def _present(self, found: Found) -> None:
        request = self._request
        described, described_before = await asyncio.gather(self._metadata(self._now), self._metadata(self._before))
        await asyncio.gather(
            put(found, "schema", self._schema(self._now, described)),
            put(found, "schema_before", self._schema(self._before, described_before)),
            self._devices(found),
            put(found, "selectors", self._selectors(self._now)),
            put(found, "selectors_before", self._selectors(self._before)),
            put(found, "bodies", self._source.bodies(request.windows.current) if request.wants("bodies") else None),
        )

    async def _metadata(self, moment: Moment | None) -> Fact[Any]:
        wanted = self._request.wants("schema", "schema_before", "label_values", "standstill", "extremes", "partial_losses")
        if moment is None or not wanted:
            return NO_BASELINE
        if self._told(moment):
            return await self._source.metadata(moment.at)
        kept = self._request.remembered.texts if self._request.remembered else None
        return Known(kept.metadata, kept.at, "the texts of the last scheduled audit before") if kept else ONLY_NOW

    async def _schema(self, moment: Moment | None, described: Fact[Any]) -> Fact[tuple[MetricSchema, ...]] | None:
        wanted = self._request.wants("schema", "schema_before", "label_values", "standstill", "extremes", "partial_losses")
        return await moment.schema(described, self._request.recorded) if moment and wanted else None

    async def _devices(self, found: Found) -> None:
        if not self._request.wants("devices", "devices_before", "readings"):
            return
        now, before, values = await asyncio.gather(
            self._device_rows(self._now), self._device_rows(self._before), self._reading_rows(self._request.wants("readings"))
        )
        pods = self._request.pods
        found["devices"] = self._resolved(now, found["targets"], pods)
        if self._before:
            held = self._request.pods_before if isinstance(self._request.pods_before, Known) else pods
            found["devices_before"] = self._resolved(before, found["targets_before"], held)
        if isinstance(values, Missing):
            found["readings"] = values
        elif isinstance(found["devices"], Known):
            found["readings"] = carried(values, assemble.readings(values.value, found["devices"].value, self._names.read))
        else:
            found["readings"] = found["devices"]

    async def _device_rows(self, moment: Moment | None) -> Fact[Any]:
        if moment is None:
            return NO_BASELINE
        by = await moment.present(self._names.by)
        return await moment.rows(lambda where: plan.devices((*where, *self._names.one_device), self._names.devices, by))

    async def _reading_rows(self, wanted: bool) -> Fact[Any]:
        if not wanted:
            return NOT_ASKED
        names, by = self._names.read, await self._now.present(self._names.by)
        return await self._now.rows(lambda where: plan.readings((*where, *self._names.one_device), names, by))

    def _resolved(self, rows: Fact[Any], targets: Fact[Any], pods: Fact[tuple[Pod, ...]]) -> Fact[tuple[DeviceSeries, ...]]:
        if isinstance(rows, Missing):
            return rows
        request = self._request
        held = resolve(rows.value, value_of(targets), value_of(request.nodes), value_of(pods), request.knowledge, request.policy)
        return carried(rows, held)

    async def _selectors(self, moment: Moment | None) -> Fact[tuple[SelectorCount, ...]] | None:
        if moment is None or not self._request.wants("selectors", "selectors_before", "label_values"):
            return None
        if self._request.unread:
            return self._request.unread
        if not self._request.selectors:
            return Known((), moment.at, "no rule and no dashboard")
        return await self._source.count_selectors(self._request.selectors, moment.at)


_CURRENT = ("targets", "schema", "devices", "readings", "extremes", "standstill", "label_values", "pipeline", "bodies", "selectors")
_BASELINE = ("targets_before", "schema_before", "devices_before", "label_values_before", "selectors_before", "partial_losses")


def _where(jobs: frozenset[str] | None) -> tuple[Matcher, ...] | None:
    if jobs is None:
        return plan.EVERYTHING
    return (one_of("job", jobs),) if jobs else None
