"""The only place that builds real clients from settings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from functions import knowledge
from functions.audit import Gather, Standards
from functions.checks import CHECKS
from functions.checks.base import Check
from functions.contract.facts import Facts, Windows
from functions.contract.policy import Policy
from functions.contract.signals import AuditRequest
from functions.evidence import gather as gathering
from functions.evidence.bundle import Bundle
from functions.evidence.sources import MetricSource, ObjectSource
from functions.settings import Settings, SettingsError, policy_from, read_policy

if TYPE_CHECKING:
    from functions.evidence.kubernetes import KubernetesSource

Texts = tuple[tuple[str, str], ...]

TITLES = {code.id: code.title for check in CHECKS for code in check.codes}


def standards(settings: Settings, checks: Sequence[Check] = CHECKS, policy: Policy | None = None, cluster: str = "") -> Standards:
    """What audits judge against. Raises SettingsError for a policy file that can't be used."""
    return Standards(cluster or settings.cluster, tuple(checks), policy or read_policy(settings.policy), knowledge.load())


def bundle_standards(bundle: Bundle, checks: Sequence[Check]) -> Standards:
    """The same for a bundle, whose own policy counts. Raises SettingsError."""
    return Standards(bundle.cluster, tuple(checks), policy_from(bundle.policy, "bundle.yaml"), knowledge.load())


def bundle_gather(bundle: Bundle, standards: Standards) -> Gather:
    """Facts of a bundle, whatever the instants asked for: a bundle has two."""

    async def gather(request: AuditRequest, _windows: Windows, needs: frozenset[str]) -> Facts:
        facts = await gathering.gather(
            bundle.metrics,
            bundle.objects,
            windows=Windows(bundle.baseline, bundle.current),
            needs=needs,
            scope=request.scope,
            knowledge=standards.knowledge,
            policy=standards.policy,
            rule_texts=tuple((t.path, t.text) for t in bundle.rule_texts),
            dashboards=tuple((t.path, t.text) for t in bundle.dashboards),
            jobs=bundle.jobs,
            before=bundle.before,
        )
        return replace(facts, traces=bundle.traces)

    return gather


def metric_source(settings: Settings) -> MetricSource | None:
    """Prometheus, or several; None where none is configured. Raises SettingsError for a URL that is none."""
    from functions.evidence.many import ManyMetrics
    from functions.evidence.prometheus import Access, PrometheusSource

    urls = [url.strip() for url in settings.prometheus_url.split(",") if url.strip()]
    token = settings.prometheus_token.get_secret_value() if settings.prometheus_token else ""
    access = Access(token=token, ca=settings.prometheus_ca, timeout=settings.prometheus_timeout)
    try:
        sources = [PrometheusSource(url, access) for url in urls]
    except ValueError as error:
        raise SettingsError(f"TELLTALE_PROMETHEUS_URL: {error}") from None
    return None if not sources else sources[0] if len(sources) == 1 else ManyMetrics(sources)


async def object_source(settings: Settings) -> KubernetesSource | None:
    """The cluster as kubectl finds it; None without one. Raises SettingsError for a KUBECONFIG that can't be used."""
    from functions.evidence.kubernetes import KubernetesSource
    from functions.evidence.kubernetes_errors import NotConfigured

    try:
        return await KubernetesSource.connect(settings.kubeconfig)
    except NotConfigured as error:
        if settings.kubeconfig:
            raise SettingsError(str(error)) from None
        return None


@asynccontextmanager
async def live_sources(settings: Settings) -> AsyncIterator[tuple[MetricSource | None, KubernetesSource | None]]:
    """Both live sources, as far as they are configured; closed afterwards."""
    metrics, objects = metric_source(settings), await object_source(settings)
    try:
        yield metrics, objects
    finally:
        if objects is not None:
            await objects.close()


def live_gather(settings: Settings, metrics: MetricSource | None, objects: ObjectSource | None, standards: Standards) -> Gather:
    """Facts of the live cluster."""

    async def gather(request: AuditRequest, windows: Windows, needs: frozenset[str]) -> Facts:
        rules = await asyncio.to_thread(_texts, settings.rules, (".yaml", ".yml", ".json"))
        dashboards = await asyncio.to_thread(_texts, settings.dashboards, (".json",))
        return await gathering.gather(
            metrics,
            objects,
            windows=windows,
            needs=needs,
            scope=request.scope,
            knowledge=standards.knowledge,
            policy=standards.policy,
            rule_texts=rules,
            dashboards=dashboards,
        )

    return gather


def _texts(paths: Sequence[Path], endings: tuple[str, ...]) -> Texts:
    """Files, and those of the endings in folders."""
    files = [f for path in paths for f in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    return tuple((str(f), f.read_text()) for f in files if f.suffix in endings and f.is_file())
