"""`telltale demo`: a recorded incident through the real pipeline, with a real Valkey, at the recording's own pace of events.

A dcgm-exporter goes from 4.8 to 4.9 on three nodes; ten minutes after the rollout a latency alert fires.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
from datetime import datetime, timedelta
from pathlib import Path

from functions import intake, report, wiring
from functions.chat.console import Console
from functions.checks import CHECKS
from functions.contract.signals import AuditRequest
from functions.evidence.bundle.reading import Bundle
from functions.report import Desk
from functions.settings import Settings
from functions.store import Store
from functions.store.embedded import EmbeddedServer
from triggers.commands import output
from triggers.replay import Replay
from triggers.roles import Parts, StoredBoard
from triggers.usage import UsageError

DEMO = Path(__file__).parent.parent / "demo"


def run(options: argparse.Namespace) -> int:
    """Play the incident; leaves reports and postmortems in a directory."""
    out = Path(options.out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        for left in [*out.glob("audit-*.json"), *out.glob("postmortem-*.md")]:
            left.unlink()  # of the demo before this one
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror}") from None
    asyncio.run(_play(out))
    return 0


class _Clock:
    """The recording's time."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


async def _play(out: Path) -> None:
    bundle = Bundle.read(DEMO / "incident")
    standards = wiring.bundle_standards(bundle, CHECKS)
    lines = [json.loads(line) for line in (DEMO / "watch.jsonl").read_text().splitlines()]
    clock = _Clock(datetime.fromisoformat(lines[0]["at"]))
    data = out / "valkey"
    shutil.rmtree(data, ignore_errors=True)
    async with EmbeddedServer(data) as server:
        store = await Store.open(server.url, bundle.cluster)
        desk = Desk({"console": Console(postmortems=False)}, titles=wiring.TITLES)
        settings = Settings(cluster=bundle.cluster)
        gather = wiring.bundle_gather(bundle, standards)
        shared = Parts(settings, store, standards.policy, standards, gather, desk=desk, clock=clock)
        replay = Replay()
        first = [line for line in lines if line["at"] == lines[0]["at"]]
        print(f"{clock.now:%H:%M:%S} watching {len(first)} objects of cluster {bundle.cluster}")
        await replay.listed([line["object"] for line in first], clock.now)
        for line in lines[len(first) :]:
            clock.now = datetime.fromisoformat(line["at"])
            for signal in await replay.change(line["type"], line["object"], clock.now):
                print(f"{clock.now:%H:%M:%S} {signal.summary}")
                await shared.take([signal])
            await _work(shared, out)
        for text in bundle.alerts:
            clock.now = datetime.fromisoformat(json.loads(text.text)["alerts"][0]["startsAt"]) + timedelta(seconds=30)
            print(f"{clock.now:%H:%M:%S} Alertmanager posts {text.path}")
            await shared.webhook(text.text.encode())
            await _work(shared, out)
        clock.now = bundle.current + intake.STALENESS * 2
        await _work(shared, out)
        await store.close()
    program = _near(Path(sys.argv[0]))  # `make` puts it where no shell looks
    print(f"Reports and postmortem stubs: {out}/. Every finding: {program} audit --bundle {_near(DEMO / 'incident')}")
    print(f"The board over it: TELLTALE_CLUSTER={bundle.cluster} TELLTALE_DATA_DIR={data} {program} run, then http://127.0.0.1:8080/")


def _near(path: Path) -> Path:
    """As short as it can be typed here."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


async def _work(shared: Parts, out: Path) -> None:
    async def audit(request: AuditRequest) -> None:
        await shared.audit(request)
        document = await shared.store.audits.get(request.audit)
        if document is not None:
            (out / f"audit-{request.audit}.json").write_text(output.as_json(document))

    await intake.tick(shared.store, shared.clock(), shared.timing, audit)
    assert shared.desk is not None
    outcome = await report.work(shared.store, shared.desk, shared.clock)
    for identity, kind, reason in outcome.decided:
        if kind == "silent":
            print(f"{shared.clock():%H:%M:%S} audit {identity}: {reason}; no message")
    for identity in outcome.drafted:
        text = await StoredBoard(shared.store).postmortem(identity) or ""
        path = out / f"postmortem-{identity}.md"
        path.write_text(text)
        print(f"Postmortem stub: {path} ({text.count(chr(10))} lines), for instance\n{_excerpt(text)}\n")


def _excerpt(stub: str) -> str:
    """The parts of a stub that a person looks at first."""
    sections = stub.split("\n\n## ")
    wanted = [f"## {s}" for s in sections if s.startswith(("Trigger signal", "Trace", "Recovery", "Dimension"))]
    return "\n".join(f"    {line}" for s in wanted for line in s.splitlines())
