"""`telltale doctor`: what can be reached, what may not be done, and what then can't be judged. Changes nothing."""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from functions import wiring
from functions.contract.errors import Again
from functions.contract.facts import Missing
from functions.settings import Settings, SettingsError
from triggers.commands import output
from triggers.commands.serve import channels, opened
from triggers.serve import is_loopback
from triggers.usage import UsageError

#: Kind -> what can't be judged without it.
_KINDS = {
    "Node": "device and node coverage",
    "Pod": "which Pod holds which device",
    "DaemonSet": "rollouts of exporters",
    "Deployment": "rollouts of workloads",
    "StatefulSet": "rollouts of workloads",
    "ControllerRevision": "OnDelete rollouts",
    "PodDisruptionBudget": "what blocks a drain",
    "ConfigMap": "exporters' field lists and dashboards",
    "ResourceClaim": "dynamic resource allocation",
}


@dataclass(frozen=True, slots=True)
class Line:
    ok: bool
    what: str
    detail: str


def run(options: argparse.Namespace) -> int:
    """Print one line a thing; exit 1 where something needed can't be had."""
    try:
        lines = asyncio.run(_examine(Settings.read()))
    except SettingsError as error:
        raise UsageError(str(error)) from None
    if options.format == "json":
        print(output.as_json({"checks": [asdict(line) for line in lines]}))
    else:
        for line in lines:
            print(f"{'ok  ' if line.ok else 'FAIL'} {line.what}: {line.detail}")
    return 0 if all(line.ok for line in lines) else 1


async def _examine(settings: Settings) -> list[Line]:
    lines = [await _prometheus(settings), *await _cluster(settings), await _store(settings)]
    names = [name for name in channels(settings) if name != "console"]
    lines.append(Line(bool(names), "chat", ", ".join(names) or "no channel is configured; summaries go to standard output only"))
    if not settings.token and not is_loopback(settings.address[0]):
        lines.append(Line(False, "TELLTALE_TOKEN", "not set: the webhook, the API and the pages answer 401 beyond loopback"))
    if not settings.oidc_audience and not is_loopback(settings.address[0]):
        lines.append(Line(True, "POST /", "senders are not verified (no TELLTALE_OIDC_AUDIENCE): the NetworkPolicy alone keeps others out"))
    return lines


async def _prometheus(settings: Settings) -> Line:
    source = wiring.metric_source(settings)
    if source is None:
        return Line(False, "prometheus", "TELLTALE_PROMETHEUS_URL is not set: no telemetry can be judged")
    answer = await source.targets(datetime.now(UTC))
    if isinstance(answer, Missing):
        return Line(False, "prometheus", f"{answer.why}: {answer.detail}")
    return Line(True, "prometheus", f"{len(answer.value)} targets, {sum(t.up for t in answer.value)} up")


async def _cluster(settings: Settings) -> list[Line]:
    source = await wiring.object_source(settings)
    if source is None:
        return [Line(False, "kubernetes", "no KUBECONFIG and not in a cluster: everything of Kubernetes is unknown")]
    lines = []
    async with source:
        for kind, loss in _KINDS.items():
            found = await source.list(kind)
            if isinstance(found, Missing):
                lines.append(Line(found.why == "unsupported", f"list {kind}", f"{found.why}: {found.detail}; can't judge {loss}"))
            else:
                lines.append(Line(True, f"list {kind}", f"{len(found.value)} found"))
    return lines


async def _store(settings: Settings) -> Line:
    if not settings.redis_url:
        return Line(True, "store", f"none configured: `run` starts its own Valkey in {settings.data_dir}")
    try:
        async with opened(settings, embedded=False) as store:
            dead = await store.queue.dead_letters()
            refused = await store.outbox.refused()
            undelivered = await store.letters.list()
    except Again as error:
        return Line(False, "store", str(error))
    if not (dead or refused or undelivered):
        return Line(True, "store", "reachable; no dead letters")
    told = f"{len(dead)} audits given up, {len(refused)} messages refused, {len(undelivered)} events undelivered"
    return Line(False, "store", f"reachable; {told}: see `telltale dead-letters`")
