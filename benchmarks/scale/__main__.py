"""python -m benchmarks.scale: what one whole audit costs, at several sizes of one fleet.

For each size a real Prometheus is filled and a rollout of the exporter is audited; each audit alternates with its
yardstick, the fetching and parsing of the same answers, and what is printed is their ratio: the figures of one machine
alone say nothing. The growth exponent is the slope of log(time) over log(GPUs); rules grow with the fleet.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from benchmarks.scale.cluster import Cluster, cluster
from benchmarks.scale.fleet import Fleet
from tests.support.recorder import Recorder

SIZES = (100, 1000, 10000)
QUICK = (80, 400)
GOAL_QUERIES = 25
GOAL_MEGABYTES = 400
GOAL_RATIO = 6.0
GOAL_GROWTH = 1.1

Run = dict[str, Any]


@dataclass(frozen=True)
class Measured:
    """One size: paired runs of the audit and its yardstick, and an audit of one node of it."""

    fleet: Fleet
    series: int
    requests: int
    pairs: tuple[tuple[Run, Run], ...]
    node: Run

    def audit(self, figure: str) -> float:
        """The median over the audits."""
        return statistics.median(audit[figure] for audit, _ in self.pairs)

    def ratio(self, figure: str) -> float:
        """The median of audit / yardstick."""
        return statistics.median(audit[figure] / fetch[figure] for audit, fetch in self.pairs)

    def yardstick(self, figure: str) -> float:
        return statistics.median(fetch[figure] for _, fetch in self.pairs)


async def measure(gpus: int, rounds: int, *, interval: float, profile: str = "", verbose: bool = False) -> Measured:
    """Fill a Prometheus and audit it so often."""
    fleet = Fleet(gpus)
    async with cluster(fleet, interval) as running:
        count = (await running.server.api("status/tsdb"))["headStats"]["numSeries"]
        sent = await _recorded(running)
        pairs = []
        for _ in range(rounds):
            audit = await _run(running, {"run": "audit", "scope": "cluster", "profile": profile})
            pairs.append((audit, await _run(running, {"run": "fetch", "requests": sent})))
        node = await _run(running, {"run": "audit", "scope": "node/gpu-0000"})
    if verbose:
        print(json.dumps(pairs[0], indent=1), json.dumps(node, indent=1), file=sys.stderr)
    return Measured(fleet, count, len(sent), tuple(pairs), node)


async def _recorded(running: Cluster) -> list[Run]:
    """The requests of one audit."""
    async with Recorder(running.server.url) as metrics, Recorder(running.kubernetes_url) as objects:
        await _run(running, {"run": "audit", "scope": "cluster"}, prometheus=metrics.url, kubernetes=objects.url)
        return [asdict(sent) for sent in (*metrics.requests, *objects.requests)]


async def _run(running: Cluster, job: Run, *, prometheus: str = "", kubernetes: str = "") -> Run:
    """One run in a process of its own."""
    job |= {
        "prometheus": prometheus or running.server.url,
        "kubeconfig": running.kubeconfig(kubernetes),
        "baseline": running.baseline.isoformat(),
        "current": running.current.isoformat(),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.scale.run", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate(json.dumps(job).encode())
    if process.returncode:
        raise SystemExit(f"a measured run ended with {process.returncode}")
    return json.loads(out)


def growth(sizes: Sequence[float], times: Sequence[float]) -> float:
    """The slope of log(time) over log(size), by least squares."""
    x, y = [math.log(s) for s in sizes], [math.log(t) for t in times]
    mean_x, mean_y = statistics.fmean(x), statistics.fmean(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / sum((a - mean_x) ** 2 for a in x)


def table(found: Sequence[Measured]) -> str:
    """The figures, for a person."""
    head = (
        "GPUs",
        "nodes",
        "rules",
        "series",
        "queries",
        "MB fetched",
        "time ratio",
        "CPU ratio",
        "peak MB",
        "a node's queries",
        "a node's time",
    )
    rows = [
        (
            f"{m.fleet.gpus}", f"{m.fleet.nodes}", f"{m.fleet.rules}", f"{m.series}", f"{m.audit('queries'):.0f}",
            f"{m.yardstick('bytes') / 1e6:.1f}", f"{m.ratio('seconds'):.1f}", f"{m.ratio('cpu'):.1f}", f"{m.audit('peak'):.0f}",
            f"{m.node['queries']:.0f}", f"{m.node['seconds'] / m.audit('seconds'):.2f}",
        )
        for m in found
    ]  # fmt: skip
    lines = ["| " + " | ".join(row) + " |" for row in (head, tuple("---:" for _ in head), *rows)]
    if len(found) > 1:
        sizes = [m.fleet.gpus for m in found]
        lines.append("")
        lines.append(
            f"growth exponent over GPUs: {growth(sizes, [m.audit('seconds') for m in found]):.2f} of the audit's time, "
            f"{growth(sizes, [m.audit('cpu') for m in found]):.2f} of its CPU time; "
            f"the yardstick's: {growth(sizes, [m.yardstick('seconds') for m in found]):.2f}"
        )
    return "\n".join(lines)


def missed(found: Sequence[Measured]) -> list[str]:
    """The goals that were not met, in words."""
    last = found[-1]
    goals = [
        ("queries", max(m.audit("queries") for m in found), GOAL_QUERIES),
        ("queries of a node's audit", max(m.node["queries"] for m in found), GOAL_QUERIES),
        ("peak MB", last.audit("peak"), GOAL_MEGABYTES),
        ("time ratio", last.ratio("seconds"), GOAL_RATIO),
    ]
    if len(found) > 1:
        goals.append(("growth exponent", growth([m.fleet.gpus for m in found], [m.audit("seconds") for m in found]), GOAL_GROWTH))
    return [f"{name}: {value:.2f}, the goal is at most {goal}" for name, value, goal in goals if value > goal]


def run(sizes: Sequence[int], rounds: int, *, profile: str = "", verbose: bool = False) -> int:
    """Measure and print. 1 where a goal is missed."""
    found = [
        asyncio.run(measure(gpus, rounds, interval=2 if gpus <= 1000 else 15, profile=profile, verbose=verbose)) for gpus in sorted(sizes)
    ]
    print(f"A whole audit after a rollout of the exporter, {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {rounds} rounds.")
    print("Ratios are to fetching the same answers and parsing them with orjson, side by side.\n")
    print(table(found))
    lost = missed(found)
    last = found[-1]
    print("\n" + "\n".join(f"goal missed: {line}" for line in lost))
    print(
        f"{last.fleet.gpus} GPUs: {last.audit('queries'):.0f} queries, {last.audit('peak'):.0f} MB, "
        f"{last.ratio('seconds'):.1f} times the yardstick ({last.ratio('cpu'):.1f} in CPU time); "
        + (f"{len(lost)} goals missed" if lost else "every goal is met")
    )
    return 1 if lost else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--gpus", default="", help=f"sizes, comma-separated (default {','.join(map(str, SIZES))})")
    parser.add_argument("--rounds", type=int, default=2, help="audits of each size, each beside its yardstick")
    parser.add_argument("--quick", action="store_true", help=f"the sizes {QUICK}, one round: under a minute")
    parser.add_argument("--profile", default="", help="write a cProfile of the last audit to this file (its times are then inflated)")
    parser.add_argument("--verbose", action="store_true", help="the figures of the first round as JSON, on standard error")
    options = parser.parse_args()
    sizes = [int(size) for size in options.gpus.split(",") if size] or (QUICK if options.quick else SIZES)
    return run(sizes, 1 if options.quick else options.rounds, profile=options.profile, verbose=options.verbose)


if __name__ == "__main__":
    sys.exit(main())
