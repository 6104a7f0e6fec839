"""`telltale capture --out DIR`: a bundle of the live cluster, secrets masked."""

from __future__ import annotations

import argparse
import asyncio
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from functions import wiring
from functions.contract.facts import Windows
from functions.contract.signals import Scope, ScopeError, Trigger, TriggerKind
from functions.evidence.bundle.capture import About, CaptureError, capture
from functions.settings import Settings, SettingsError
from triggers.usage import UsageError


def run(options: argparse.Namespace) -> int:
    """Write the bundle; what had to be left out is said on stderr."""
    try:
        return asyncio.run(_capture(Path(options.out), Scope.parse(options.scope)))
    except (SettingsError, ScopeError, CaptureError) as error:
        raise UsageError(str(error)) from None


async def _capture(out: Path, scope: Scope) -> int:
    settings = Settings.read()
    standards = wiring.standards(settings)
    now = datetime.now(UTC)
    windows = Windows(now - timedelta(seconds=standards.policy.windows.baseline), now)
    about = About(settings.cluster, windows, Trigger(TriggerKind.MANUAL), scope)
    async with wiring.live_sources(settings) as (metrics, objects):
        if metrics is None and objects is None:
            raise UsageError("nothing to capture: set TELLTALE_PROMETHEUS_URL and KUBECONFIG")
        written = await capture(metrics, objects, out, about=about, knowledge=standards.knowledge, policy=standards.policy)
    for what, why in written.left_out:
        print(f"left out: {what}: {why}", file=sys.stderr)
    print(f"written to {out}; look through it before you share it")
    return 0
