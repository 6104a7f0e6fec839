"""What each role does with what comes in: events, webhooks and ticks become stored signals, audits and posts.

A role imports what it works with when it first does so: all of them share this module, and each is started from nothing
for a single event.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from functions import intake
from functions.chat.redact import Redactor
from functions.contract.errors import Again, Never
from functions.contract.policy import Policy
from functions.contract.signals import AuditRequest
from functions.envelope import Event, NotAnEvent, read, read_undelivered, write
from functions.settings import Settings, SettingsError
from functions.store import Letter, Store
from functions.store.letters import LONGEST_BODY
from triggers import schedule
from triggers.sink import Sink

if TYPE_CHECKING:
    from functions.audit import Gather, Standards
    from functions.evidence.kubernetes.source import KubernetesSource
    from functions.report import Desk
    from triggers import alertmanager
    from triggers.looking import Gap, Options

log = logging.getLogger(__name__)

DUE, COMPLETED, DRAFTED = "dev.telltale.audit.due", "dev.telltale.audit.completed", "dev.telltale.postmortem.drafted"
PING = "dev.knative.sources.ping"
OBJECTS = "dev.knative.apiserver."

#: Phases that may come with time alone, without a change that an event could tell.
_BY_TIME = frozenset({"stalled", "failed", "not-ready"})


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class Parts:
    """Everything that the roles of one process share. A role has only what it works with."""

    settings: Settings
    store: Store
    policy: Policy
    #: what audits are made with
    standards: Standards | None = None
    gather: Gather | None = None
    #: sets these two, where that is left until the first audit
    prepare: Callable[[], None] | None = None
    #: what reports are written with
    desk: Desk | None = None
    objects: KubernetesSource | None = None
    directory: alertmanager.Directory | None = None
    timing: intake.Timing = field(default_factory=intake.Timing)
    sink: Sink | None = None
    clock: Callable[[], datetime] = utc_now

    @property
    def options(self) -> Options:
        """How the cluster is watched and swept."""
        from triggers.exempt import Exempt
        from triggers.looking import Options
        from triggers.observer import Limits

        settings, exempt = self.settings, self.policy.exempt
        patience = (settings.rollout_deadline, settings.drain_deadline, settings.not_ready_grace)
        limits = Limits(*(timedelta(seconds=seconds) for seconds in patience))
        return Options(
            limits=limits,
            exempt=Exempt(exempt.namespaces, exempt.workloads),
            sweep=settings.sweep,
            clock=self.clock,
            on_gap=self.gap,
            again=(Again,),
        )

    async def gap(self, gap: Gap) -> None:
        await self.store.notes.note_gap(gap.as_dict(), self.clock())

    async def take(self, signals: Any) -> None:
        """Make signals durable. Raises StoreError."""
        await intake.receive(list(signals), self.store, self.clock(), self.timing)

    async def webhook(self, body: bytes) -> None:
        """An Alertmanager webhook. Raises Never for what is none."""
        from triggers import alertmanager

        try:
            parsed = alertmanager.read(body)
        except alertmanager.NotAWebhook as error:
            raise Never(f"not an Alertmanager webhook: {error}") from None
        await self.take(alertmanager.observe(parsed, self.clock(), self.directory))

    # ------------------------------------------------------------------------------------------- events

    async def intake_event(self, event: Event) -> None:
        """Objects, pings; anything else is of no interest."""
        if event.type.startswith(OBJECTS):
            from triggers.sweep import from_cloudevent

            async with _looking():
                await from_cloudevent(event.type, event.data, self.objects, self.take, self.store.episodes, self.options)
        elif event.type == PING:
            try:
                ping = schedule.read(event.data)
            except schedule.NotAPing as error:
                raise Never(str(error)) from None
            await self._ping(ping)

    async def _ping(self, ping: schedule.Ping) -> None:
        now = self.clock()
        if ping is schedule.Ping.TICK:
            await intake.tick(self.store, now, self.timing, self.send_due, here=False)
            await intake.housekeep(self.store, self.policy, now)
            await self.replay_letters()
        elif ping is schedule.Ping.SWEEP:
            await self._sweep()
        else:
            await self.take([schedule.scheduled(now, timedelta(seconds=self.settings.schedule))])

    async def _sweep(self) -> None:
        """List and compare. A transition that no event had told is a gap of the watch, and reports say that there may be more."""
        if self.objects is None:
            return
        from triggers.looking import Gap
        from triggers.sweep import sweep

        now = self.clock()
        async with _looking():
            found = await sweep(self.objects, self.take, self.store.episodes, self.options)
        missed = [s for s in found.signals if s.audit and s.trigger.phase not in _BY_TIME]
        if missed and found.since is not None:
            what = f"{len(missed)} that no event had told, the first of {missed[0].scope}"
            await self.gap(Gap("", found.since, now, f"a sweep found {what}"))

    async def audit_event(self, event: Event) -> tuple[Mapping[str, str], bytes] | None:
        """A due audit. The request lasts as long as the audit; its completion is the reply."""
        if event.type != DUE:
            return None
        identity = event.data.get("audit") if isinstance(event.data, dict) else None
        if not isinstance(identity, str):
            raise Never("an audit.due without an audit id")
        request = await self.store.queue.start(identity, self.clock(), self.timing.lease)
        if request is None or not await self.audit(request):
            return None
        return self._event(COMPLETED, f"{identity}/completed", str(request.scope), {"audit": identity})

    async def report_event(self, event: Event) -> None:
        """A completed audit, or a tick: both only wake the outbox."""
        if event.type in (COMPLETED, PING):
            from functions import report

            assert self.desk is not None
            outcome = await report.work(self.store, self.desk, self.clock)
            for audit in outcome.drafted if self.sink else ():
                await self._send(self._event(DRAFTED, f"{audit}/postmortem", "", {"audit": audit}))

    async def dead_letter(self, headers: Mapping[str, str], body: bytes) -> None:
        """An event that could not be delivered: kept with its reason, to be listed and replayed."""
        found = read_undelivered(headers, body)
        kept = body if len(body) <= LONGEST_BODY else None
        letter = Letter(found.id, self.clock(), found.what, found.why, found.where, found.headers, kept)
        if await self.store.letters.keep(letter):
            log.error("undelivered: %s, %s: %s", letter.id, letter.what, letter.why)

    async def replay_letters(self) -> None:
        """Take the dead letters that a person wants replayed as if they had just come."""
        for letter in await self.store.letters.wanted():
            try:
                if letter.body is None:
                    raise Never(f"it was longer than {LONGEST_BODY} bytes and its data was not kept")
                event = read(letter.headers, letter.body)
                # Redis has what ours are about: a due audit is claimed again, a finished one waits in the outbox
                if event.type not in (DUE, COMPLETED, DRAFTED):
                    await self.intake_event(event)
            except (Never, NotAnEvent) as error:
                await self.store.letters.explain(letter, f"the replay was refused: {error}")
            except Again as error:
                log.warning("the replay of %s waits: %s", letter.id, error)
                await self.store.letters.want(letter.id, self.clock())
            else:
                await self.store.letters.drop(letter.id)

    # ------------------------------------------------------------------------------------------- work

    async def audit(self, request: AuditRequest) -> bool:
        """Do an audit; whether it was completed here."""
        from functions.audit import Patience, perform

        if self.gather is None and self.prepare is not None:
            try:
                await asyncio.to_thread(self.prepare)  # half a second in which other requests would not be answered
            except SettingsError as error:
                raise Again(str(error)) from None
        assert self.standards is not None
        assert self.gather is not None
        patience = Patience(self.timing.lease, timedelta(seconds=self.settings.retry), self.timing.settle)
        done = await perform(request, gather=self.gather, standards=self.standards, store=self.store, clock=self.clock, patience=patience)
        return done is not None

    async def send_due(self, request: AuditRequest) -> None:
        """Send an audit around. An `audit.due` sent again keeps its id."""
        scope = {"kind": request.scope.kind, "namespace": request.scope.namespace, "name": request.scope.name}
        data = {"audit": request.audit, "scope": scope, "trigger": request.trigger.as_dict()}
        await self._send(self._event(DUE, request.audit, str(request.scope), data))

    def _event(self, type_: str, identity: str, subject: str, data: Mapping[str, Any]) -> tuple[dict[str, str], bytes]:
        source = f"/telltale/{self.settings.cluster}"
        return write(id=identity, source=source, type=type_, subject=subject, data=data, overrides=self.settings.ce_overrides)

    async def _send(self, message: tuple[Mapping[str, str], bytes]) -> None:
        if self.sink is None:
            raise Again("K_SINK is not set: there is nowhere to send events to")
        await self.sink.send(*message)


@asynccontextmanager
async def _looking() -> AsyncIterator[None]:
    """A look at the cluster that fails now may succeed later."""
    from functions.evidence.kubernetes.errors import KubernetesError
    from triggers.observer import Contended

    try:
        yield
    except (KubernetesError, Contended) as error:
        raise Again(f"the cluster can't be read now: {error}") from None


class StoredBoard:
    """What the board reads, from the store; masked as what leaves for chat is."""

    def __init__(self, store: Store, clock: Callable[[], datetime] = utc_now, redactor: Redactor | None = None) -> None:
        self._store = store
        self._clock = clock
        self._redactor = redactor or Redactor()

    async def audits(self, cursor: str | None, limit: int) -> tuple[list[dict[str, Any]], str | None]:
        found, following = await self._store.audits.page(cursor, limit)
        return [self._masked(audit) for audit in found], following

    async def audit(self, identity: str) -> dict[str, Any] | None:
        found = await self._store.audits.get(identity)
        return self._masked(found) if found else None

    async def findings(
        self, cursor: str | None, limit: int, *, everything: bool, check: str = "", severity: str = ""
    ) -> tuple[list[dict[str, Any]], str | None]:
        now = self._clock()
        found, following = await self._store.findings.page(cursor, limit, everything=everything, check=check, severity=severity, now=now)
        return [self._masked(record) for record in found], following

    async def finding(self, fingerprint: str) -> dict[str, Any] | None:
        found = await self._store.findings.get(fingerprint, self._clock())
        return self._masked(found) if found else None

    async def postmortem(self, identity: str) -> str | None:
        """The stub that was drafted; for an audit that drafted none, one from its report alone."""
        text = await self._store.audits.postmortem(identity)
        if text is None:
            from functions.reports import postmortem

            found = await self._store.audits.get(identity)
            text = postmortem.render(found) if found else None
        return self._redactor.text(text) if text else None

    async def postmortems(self) -> frozenset[str]:
        """The audits that drafted a stub."""
        return frozenset(await self._store.audits.postmortems())

    def _masked(self, document: Mapping[str, Any]) -> dict[str, Any]:
        masked: dict[str, Any] = self._redactor.json(document)
        return masked


async def forever(name: str, seconds: float, work: Callable[[], Awaitable[object]]) -> None:
    """Do something every so often; what fails is logged and done again."""
    while True:
        try:
            await work()
        except Again as error:
            log.warning("%s put off: %s", name, error)
        except Exception:  # a loop that ends would be silence; the next round may succeed
            log.exception("%s failed", name)
        await asyncio.sleep(seconds)
