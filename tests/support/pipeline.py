"""The whole way from a signal to a webhook as a process of its own, to be killed at any point.

python -m tests.support.pipeline REDIS_URL WEBHOOK_URL
"""

from __future__ import annotations

import asyncio
import random
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from functions.audit import Patience, Standards, perform
from functions.chat.webhook import Webhook
from functions.checks.base import Check, Code
from functions.contract.facts import Facts, Known, Windows
from functions.contract.findings import Judgement, Severity
from functions.contract.policy import Policy
from functions.contract.signals import AuditRequest
from functions.intake import Timing, tick
from functions.report import Desk, work
from functions.store import Store
from tests.support.reports import finding

CODE = Code("label-mapping/pod-missing", Severity.CRITICAL, "title", "why", "todo", "example")
TIMING = Timing(settle=timedelta(0), lease=timedelta(seconds=0.5))


def by_name(nodes: tuple[str, ...]) -> Judgement:
    """Fails the nodes whose names are bad."""
    return Judgement(tuple(finding(node=n) for n in nodes if n.startswith("bad")), judged=len(nodes))


STANDARDS = Standards("lab", (Check("label-mapping", "title", "summary", (CODE,), by_name),), Policy(), None)


async def gather(request: AuditRequest, windows: Windows, _needs: frozenset[str]) -> Facts:
    """One bad node for each scope."""
    await asyncio.sleep(random.uniform(0, 0.02))
    return replace(Facts(windows), nodes=Known((f"bad-{request.scope.name}",), windows.current, "test"))


async def main(redis_url: str, webhook_url: str) -> None:
    store = await Store.open(redis_url, "lab")
    desk = Desk({"webhook": Webhook(webhook_url)})

    def clock() -> datetime:
        return datetime.now(UTC)

    async def here(request: AuditRequest) -> None:
        await perform(
            request, gather=gather, standards=STANDARDS, store=store, clock=clock, patience=Patience(TIMING.lease, settle=TIMING.settle)
        )

    print("ready", flush=True)
    while True:
        await tick(store, clock(), TIMING, here)
        await work(store, desk, clock)
        await asyncio.sleep(0.005)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
