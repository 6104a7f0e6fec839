"""One measured run in a process of its own: `audit` judges a cluster, `fetch` only fetches and parses the same answers.

Started by `benchmarks.scale` with a JSON job on standard input; prints one JSON line: seconds, CPU seconds, the highest
resident memory. What is imported is imported before the clock starts. `fetch` is the yardstick: the requests that an
audit of the same instants sent, as many at a time, each decoded by orjson and dropped.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any

from triggers.cli import collect_rarely

Job = dict[str, Any]
#: as many requests at a time as the audit sends
AT_A_TIME = 4
#: seconds that a query may take: a large fleet on a small machine, and its neighbours, need more than the default
PATIENCE = 600


def peak_megabytes() -> float:
    """The highest resident memory of this process; `ru_maxrss` would count the parent it was forked from."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


async def audit(job: Job) -> Job:
    from functions import wiring
    from functions.audit import judge
    from functions.checks.base import union_of_needs
    from functions.contract.facts import Windows
    from functions.contract.signals import AuditRequest, Scope, Trigger, TriggerKind
    from functions.settings import Settings

    settings = Settings(prometheus_url=job["prometheus"], prometheus_timeout=PATIENCE, kubeconfig=job["kubeconfig"])
    standards = wiring.standards(settings)
    windows = Windows(datetime.fromisoformat(job["baseline"]), datetime.fromisoformat(job["current"]))
    request = AuditRequest("benchmark", Scope.parse(job["scope"]), Trigger(TriggerKind.MANUAL), windows.baseline)
    async with wiring.live_sources(settings) as (metrics, objects):
        gather = wiring.live_gather(settings, metrics, objects, standards)
        began, cpu = time.perf_counter(), time.process_time()
        facts = await gather(request, windows, union_of_needs(standards.checks))
        gathered = time.perf_counter()
        report = judge(request, facts, standards)
        text = json.dumps(report.as_dict())
        ended = time.perf_counter()
    return {
        "seconds": ended - began,
        "gathered": gathered - began,
        "cpu": time.process_time() - cpu,
        "queries": facts.cost["queries"],
        "bytes": facts.cost["bytes"],
        "findings": len(json.loads(text)["findings"]),
        "report": len(text),
        "checks": {c.id: f"{c.verdict.value}: {c.summary}" for c in report.checks},
        "missing": sorted({f"{m.fact}: {m.why}: {m.detail}" for c in report.checks for m in c.missing}),
    }


def fetch(job: Job) -> Job:
    import orjson
    import requests

    session = requests.Session()
    session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=AT_A_TIME))

    def one(sent: Job) -> int:
        answer = session.request(sent["method"], sent["url"], data=sent["body"], headers=sent["headers"])
        orjson.loads(answer.content)
        return len(answer.content)

    began, cpu = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        size = sum(pool.map(one, job["requests"]))
    return {"seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu, "bytes": size}


def main() -> None:
    job: Job = json.load(sys.stdin)
    profile: Any = nullcontext()
    if job.get("profile"):
        import cProfile

        profile = cProfile.Profile()
    collect_rarely()
    with profile:
        result = fetch(job) if job["run"] == "fetch" else asyncio.run(audit(job))
    if job.get("profile"):
        profile.dump_stats(job["profile"])
    print(json.dumps(result | {"peak": peak_megabytes()}))


if __name__ == "__main__":
    main()
