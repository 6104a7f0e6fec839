"""The only place that builds real clients from settings.

Checks, knowledge and evidence are imported by the functions that use them: every role builds its clients here, and one that
only keeps events or posts reports must not pay for all of them each time it is woken.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from functions.contract.policy import Policy
from functions.contract.signals import AuditRequest
from functions.settings import Settings, SettingsError, policy_from, read_policy, variable_of

if TYPE_CHECKING:
    from functions.audit import Gather, Standards
    from functions.chat.redact import Redactor
    from functions.checks.base import Check
    from functions.contract.facts import Facts, Missing, Windows
    from functions.evidence.bundle.reading import Bundle
    from functions.evidence.kept import Remembered
    from functions.evidence.kubernetes.source import KubernetesSource
    from functions.evidence.prometheus.source import PrometheusSource
    from functions.evidence.sources import MetricSource, ObjectSource
    from functions.evidence.watched import Texts

RULE_FILES = (".yaml", ".yml", ".json")
DASHBOARD_FILES = (".json",)

#: where a Pod finds the token of its account
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


class _Titles(Mapping[str, str]):
    """Titles of all codes, read from the checks once somebody wants one: most ticks find nothing to tell."""

    @cached_property
    def _all(self) -> dict[str, str]:
        from functions.checks import CHECKS

        return {code.id: code.title for check in CHECKS for code in check.codes}

    def __getitem__(self, code: str) -> str:
        return self._all[code]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


TITLES: Mapping[str, str] = _Titles()


def standards(settings: Settings, checks: Sequence[Check] | None = None, policy: Policy | None = None, cluster: str = "") -> Standards:
    """What audits judge against: all checks, or those that are given. Raises SettingsError for a policy file that can't be used."""
    from functions import knowledge
    from functions.audit import Standards
    from functions.checks import CHECKS

    chosen = CHECKS if checks is None else tuple(checks)
    return Standards(cluster or settings.cluster, chosen, policy or read_policy(settings.policy), knowledge.load())


def bundle_standards(bundle: Bundle, checks: Sequence[Check]) -> Standards:
    """The same for a bundle, whose own policy counts. Raises SettingsError."""
    from functions import knowledge
    from functions.audit import Standards

    return Standards(bundle.cluster, tuple(checks), policy_from(bundle.policy, "bundle.yaml"), knowledge.load())


def bundle_gather(bundle: Bundle, standards: Standards) -> Gather:
    """Facts of a bundle, whatever the instants asked for: a bundle has two."""
    from functions.contract.facts import Windows
    from functions.evidence import gather as gathering

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
            cluster=standards.cluster,
        )
        return bundle.with_lost(replace(facts, traces=bundle.traces))

    return gather


def metric_source(settings: Settings) -> MetricSource | None:
    """Prometheus, or several; None where none is configured. Raises SettingsError for a URL that is none."""
    from functions.evidence.many import ManyMetrics

    sources = metric_sources(settings)
    return None if not sources else sources[0] if len(sources) == 1 else ManyMetrics(sources)


def metric_sources(settings: Settings) -> list[PrometheusSource]:
    """The configured servers, each for itself. Raises SettingsError."""
    from functions.evidence.prometheus.source import Access, PrometheusSource

    urls = [url.strip() for url in settings.prometheus_url.split(",") if url.strip()]
    token = settings.prometheus_token.get_secret_value() if settings.prometheus_token else ""
    access = Access(token, settings.prometheus_ca, settings.prometheus_timeout, headers=settings.metric_headers)
    try:
        return [PrometheusSource(url, access) for url in urls]
    except ValueError as error:
        raise SettingsError(f"TELLTALE_PROMETHEUS_URL: {error}") from None


async def object_source(settings: Settings) -> KubernetesSource | None:
    """The cluster as kubectl finds it; None without one. Raises SettingsError for a KUBECONFIG that can't be used."""
    from functions.evidence.kubernetes.errors import NotConfigured
    from functions.evidence.kubernetes.source import KubernetesSource

    try:
        return await KubernetesSource.connect(settings.kubeconfig)
    except NotConfigured as error:
        if settings.kubeconfig:
            raise SettingsError(str(error)) from None
        return None


def later_object_source(settings: Settings) -> KubernetesSource | None:
    """The same, connected when it is first asked; None where nothing says that there is a cluster."""
    from functions.evidence.kubernetes.source import KubernetesSource

    if not settings.kubeconfig and not _ACCOUNT.exists():
        return None
    return KubernetesSource.later(settings.kubeconfig)


@asynccontextmanager
async def live_sources(settings: Settings) -> AsyncIterator[tuple[MetricSource | None, KubernetesSource | None]]:
    """Both live sources, as far as they are configured; closed afterwards."""
    metrics, objects = metric_source(settings), await object_source(settings)
    try:
        yield metrics, objects
    finally:
        if objects is not None:
            await objects.close()


def redactor(policy: Policy) -> Redactor:
    """What masks everything that leaves or is shown. Raises SettingsError for a mask that is no expression."""
    from functions.chat.redact import Redactor

    try:
        return Redactor(policy.masks)
    except ValueError as error:
        raise SettingsError(f"policy: {error}") from None


#: (request, now) -> what was kept from before the change, for what a server can't tell of it
Recall = Callable[[AuditRequest, datetime], Awaitable["Remembered"]]


def live_gather(
    settings: Settings, metrics: MetricSource | None, objects: ObjectSource | None, standards: Standards, recall: Recall | None = None
) -> Gather:
    """Facts of the live cluster."""
    from functions.evidence import gather as gathering

    async def gather(request: AuditRequest, windows: Windows, needs: frozenset[str]) -> Facts:
        rules = await asyncio.to_thread(texts, settings.rules, RULE_FILES)
        dashboards = await asyncio.to_thread(texts, settings.dashboards, DASHBOARD_FILES)
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
            cluster=standards.cluster,
            remembered=await recall(request, windows.current) if recall else None,
        )

    return gather


def check_paths(settings: Settings) -> None:
    """Whether the rule and dashboard files are there. Raises SettingsError: a wrong path is best said at the start."""
    for variable, paths in ((variable_of("rules"), settings.rules), (variable_of("dashboards"), settings.dashboards)):
        for path in paths:
            if not path.exists():
                raise SettingsError(f"{variable}: there is no file or folder {path}")


def check_urls(settings: Settings) -> None:
    """Whether Prometheus' addresses look like some, without its client. Raises SettingsError: best said at the start."""
    for number, url in enumerate(filter(None, map(str.strip, settings.prometheus_url.split(","))), 1):
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise SettingsError(f"{variable_of('prometheus_url')}: address {number} is no http:// or https:// URL")


def texts(paths: Sequence[Path], endings: tuple[str, ...]) -> Texts:
    """Files, and those of the endings in folders: (where, text), or why the text can't be had."""
    return tuple((str(file), found) for path in paths for file, found in _read(path, endings))


def _read(path: Path, endings: tuple[str, ...]) -> Iterator[tuple[Path, str | Missing]]:
    if not path.is_dir():
        yield path, _text(path)  # whoever names a file means it, whatever its ending
        return
    lost: list[OSError] = []
    for folder, below, files in os.walk(path, onerror=lost.append):
        below[:] = sorted(name for name in below if not name.startswith(".."))  # a mounted ConfigMap keeps its data there twice
        for file in sorted(Path(folder, name) for name in files):
            if file.suffix in endings:
                yield file, _text(file)
    for error in lost:
        yield Path(error.filename or path), _unread(error.filename or path, error)


def _text(file: Path) -> str | Missing:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return _unread(file, error)


def _unread(place: object, error: OSError | UnicodeDecodeError) -> Missing:
    from functions.contract.facts import Missing, Why

    why = error.strerror if isinstance(error, OSError) else f"not UTF-8 text (byte {error.start})"
    return Missing(Why.MALFORMED, f"{place}: {why}", str(place))
