"""`telltale audit`: judge the live cluster or a bundle now, and print the report."""

from __future__ import annotations

import argparse
import asyncio
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime

from functions import wiring
from functions.audit import Gather, Standards, judge, windows_of
from functions.chat.redact import Redactor
from functions.checks import CHECKS
from functions.checks.base import Check, union_of_needs
from functions.contract.findings import worst
from functions.contract.report import AuditReport
from functions.contract.signals import CLUSTER, AuditRequest, Scope, ScopeError, Trigger, TriggerKind
from functions.evidence.bundle.files import BundleError
from functions.evidence.bundle.reading import Bundle
from functions.settings import Settings, SettingsError
from triggers.commands import output
from triggers.usage import UsageError


def run(options: argparse.Namespace) -> int:
    """Audit every scope that is named (the whole cluster by default)."""
    try:
        scopes = [Scope.parse(text) for text in options.scope] or [CLUSTER]
        checks = chosen(options.check)
        reports, redactor = asyncio.run(_bundle(options.bundle, scopes, checks) if options.bundle else _live(scopes, checks))
    except (ScopeError, SettingsError, BundleError) as error:
        raise UsageError(str(error)) from None
    documents = [redactor.json(r.as_dict()) for r in reports]
    if options.format == "json":
        print(output.as_json(documents[0] if len(documents) == 1 else documents))
    else:
        print("\n\n".join(output.report(d, options.format, wiring.TITLES) for d in documents))
    return output.EXIT[worst(r.verdict for r in reports)]


def chosen(ids: Sequence[str]) -> tuple[Check, ...]:
    """The named checks, or all. Raises UsageError for a name that is none."""
    known = {check.id: check for check in CHECKS}
    if unknown := [i for i in ids if i not in known]:
        raise UsageError(f"no check is called {unknown[0]!r}; there are {', '.join(known)}")
    return tuple(known[i] for i in dict.fromkeys(ids)) or CHECKS


async def _bundle(path: str, scopes: Sequence[Scope], checks: Sequence[Check]) -> tuple[list[AuditReport], Redactor]:
    progress = output.Progress()
    progress(f"reading {path} …")
    bundle = Bundle.read(path)
    standards = wiring.bundle_standards(bundle, checks)
    gather = wiring.bundle_gather(bundle, standards)
    requests = [AuditRequest(_new_id(), scope, bundle.trigger, bundle.baseline) for scope in scopes]
    problems = [str(p) for p in bundle.problems]
    return [await _one(request, gather, standards, progress, problems) for request in requests], wiring.redactor(standards.policy)


async def _live(scopes: Sequence[Scope], checks: Sequence[Check]) -> tuple[list[AuditReport], Redactor]:
    settings = Settings.read()
    standards = wiring.standards(settings, checks)
    wiring.check_paths(settings)
    async with wiring.live_sources(settings) as (metrics, objects):
        if metrics is None and objects is None:
            raise UsageError("nothing to audit: set TELLTALE_PROMETHEUS_URL and KUBECONFIG, or name a --bundle")
        gather = wiring.live_gather(settings, metrics, objects, standards)
        requests = [AuditRequest(_new_id(), scope, Trigger(TriggerKind.MANUAL)) for scope in scopes]
        return [await _one(request, gather, standards, output.Progress(), []) for request in requests], wiring.redactor(standards.policy)


async def _one(
    request: AuditRequest, gather: Gather, standards: Standards, progress: output.Progress, coverage: Sequence[str]
) -> AuditReport:
    progress(f"gathering facts of {request.scope} …")
    windows = windows_of(request, datetime.now(UTC), standards.policy)
    facts = await gather(request, windows, union_of_needs(standards.checks))
    progress(f"judging {request.scope} …")
    report = judge(request, facts, standards, coverage=[f"left out of the bundle: {line}" for line in coverage])
    progress.done()
    return report


def _new_id() -> str:
    return secrets.token_hex(8)
