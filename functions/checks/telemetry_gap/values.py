"""Values that cannot be true: codes that mean "no value", and values that stand still where none can.

A sentinel is one finding a metric and node: the same exporter on other hardware may be sound. `frozen` needs at least
two scrapes, values that cannot repeat under load (energy, clocks, power, temperature together), and load.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from functions.checks.telemetry_gap.vanished import Scrapes
from functions.checks.telemetry_gap.world import Part, World, finding
from functions.contract.findings import Evidence, Finding, Severity, Subject, Unjudged
from functions.contract.rules import Rule
from functions.contract.telemetry import DeviceReading, Extreme, MetricSchema, Standstill
from functions.knowledge.sentinels import Sentinel

#: Different restless concepts that must stand still together before a target counts as frozen.
TOGETHER = 2
#: Of these at least one must be among them: whole degrees and whole megahertz can repeat, these can't.
FINE = frozenset({"gpu.energy", "gpu.power"})
#: Concepts that are 0 on no device that runs (NVIDIA/gpu-operator#313, #242).
NEVER_ZERO = frozenset({"gpu.power", "gpu.temperature"})
#: Scrapes the window must have held.
SCRAPES = 2


def judge_sentinels(
    world: World, extremes: Iterable[Extreme] | None, schema: Iterable[MetricSchema], rules: Iterable[Rule]
) -> tuple[Part, frozenset[tuple[str, str, str]]]:
    """Sentinel findings, and the (job, instance, metric) that hold one. Without extremes the schema has to do."""
    part = Part()
    if extremes is None:
        extremes = [Extreme(s.job, "", s.name, s.high, "") for s in schema if s.high is not None]
    grouped: dict[tuple[str, str], list[tuple[Extreme, Sentinel]]] = defaultdict(list)
    for extreme in extremes:
        part.judged += 1
        signal = world.knowledge.signals.of(extreme.metric, world.policy.signals.rewrite)
        if sentinel := world.knowledge.sentinels.of(extreme.high, signal.unit if signal else ""):
            grouped[extreme.metric, extreme.node or extreme.instance].append((extreme, sentinel))
    used = _used_in(rules)
    for (metric, _), hits in sorted(grouped.items()):
        part.findings.append(_sentinel(world, metric, hits, any(metric in expr for expr in used)))
    held = {(e.job, e.instance, e.metric) for hits in grouped.values() for e, _ in hits}
    return part, frozenset(held)


def _used_in(rules: Iterable[Rule]) -> tuple[str, ...]:
    return tuple(rule.expr for rule in rules)


def _sentinel(world: World, metric: str, hits: list[tuple[Extreme, Sentinel]], used: bool) -> Finding:
    extreme, sentinel = hits[0]
    signal = world.knowledge.signals.of(metric, world.policy.signals.rewrite)
    gpu_labels = world.knowledge.devices.labels["gpu"]
    devices = sorted({value for e, _ in hits for label in gpu_labels if (value := e.labels.get(label, ""))})
    subject = Subject(
        node=extreme.node or None,
        gpu=devices[0] if len(devices) == 1 else None,
        metric=metric,
        job=extreme.job,
        target=(extreme.instance or None) if not extreme.node else None,
    )
    where = f" on {len(devices)} devices" if len(devices) > 1 else ""
    limits = ""
    if signal and signal.low is not None and signal.high is not None:
        limits = f" between {signal.low:g} and {signal.high:g}"
    return finding(
        "blank-sentinel",
        subject,
        f"{metric} stores the code for “{sentinel.meaning}” as a value",
        observed=f"{extreme.high:.17g} ({sentinel.code}: {sentinel.meaning}){where}",
        expected=f"a value in {signal.unit if signal else 'the unit of the metric'}{limits}, or no series at all",
        hint="Take the field out of the exporter's list for this hardware, or drop it with a metric relabelling on the value's series; "
        "newer exporters leave such series out by themselves.",
        severity=Severity.CRITICAL if used else Severity.WARNING,
        evidence=[Evidence("prometheus", f'{metric}{{job="{extreme.job}"}} == {extreme.high:.17g}', f"{extreme.high:.17g}", world.at)],
    )


def judge_zeros(world: World, readings: Iterable[DeviceReading]) -> Part:
    """Targets all of whose devices are at 0 degrees and draw 0 watts: no device is, so 0 stands for "no value"."""
    part = Part()
    seen: dict[tuple[str, str], list[DeviceReading]] = defaultdict(list)
    for reading in readings:
        if reading.concept in NEVER_ZERO:
            seen[reading.source.job, reading.source.instance].append(reading)
    for (job, instance), held in sorted(seen.items()):
        if {r.concept for r in held} < NEVER_ZERO or any(r.value != 0 for r in held):
            continue
        names = sorted({r.metric for r in held})
        devices = {r.source.device for r in held}
        node = next((r.source.node for r in held if r.source.node), "")
        part.findings.append(
            finding(
                "blank-sentinel",
                Subject(node=node or None, metric=names[0] if len(names) == 1 else None, job=job, target=instance),
                f"{instance} stores 0 where no device can have it",
                observed=f"{' and '.join(names)} are 0 on {'the device' if len(devices) == 1 else f'all {len(devices)} devices'}",
                expected="a device that runs is warm and draws power; where nothing is known, no series at all",
                hint="The exporter no longer reads the devices (a MIG change or a lost host engine does that): restart its Pod, and "
                "compare with nvidia-smi on the node.",
                severity=Severity.CRITICAL,
                evidence=[Evidence("prometheus", f'{name}{{job="{job}", instance="{instance}"}}', "0", world.at) for name in names[:3]],
            )
        )
    return part


def judge_frozen(
    world: World,
    scrapes: Scrapes,
    standstill: Iterable[Standstill],
    readings: Iterable[DeviceReading] | None,
    sentinels: frozenset[tuple[str, str, str]],
) -> Part:
    """Judge each target whose restless metrics were watched."""
    part = Part()
    watched: dict[tuple[str, str], list[Standstill]] = defaultdict(list)
    signals = world.knowledge.signals
    for row in standstill:
        signal = signals.of(row.metric, world.policy.signals.rewrite)
        restless = signal is not None and signals.concepts[signal.concept].restless and not signal.still
        seen = row.total and row.scrapes >= SCRAPES and (row.job, row.instance, row.metric) not in sentinels
        if restless and seen:
            watched[row.job, row.instance].append(row)
    load = _load(world, readings or ())
    for key, rows in sorted(watched.items()):
        concepts = {s.concept for row in rows if (s := signals.of(row.metric, world.policy.signals.rewrite))}
        if len(concepts) < TOGETHER or not concepts & FINE or key in scrapes.broken:
            continue
        still = min(row.still for row in rows)
        total = max(row.total for row in rows)
        subject = Subject(node=rows[0].node or None, job=key[0], target=key[1])
        busy, idle = load.get(key, (0, 0))
        if not still:
            part.judged += 1
        elif readings is None:
            part.unjudged.append(Unjudged(subject, f"{still} of {total} series stand still; whether the devices are busy is not known"))
        elif busy and still > idle:
            part.judged += 1
            part.findings.append(_frozen(world, subject, rows, still, total))
        else:
            part.judged += 1
    return part


def _load(world: World, readings: Iterable[DeviceReading]) -> Mapping[tuple[str, str], tuple[int, int]]:
    """(job, instance) -> devices that are busy, and devices that are idle."""
    state: dict[tuple[str, str], dict[tuple[str, str, str], bool]] = defaultdict(dict)
    for reading in readings:
        signal = world.knowledge.signals.of(reading.metric, world.policy.signals.rewrite)
        busy = world.knowledge.mapping.busy(reading.concept, reading.metric, reading.value, signal.unit if signal else "")
        if busy is not None:
            device = reading.source.device
            at = state[reading.source.job, reading.source.instance]
            at[device] = at.get(device, False) or busy
    return {key: (sum(devices.values()), sum(not b for b in devices.values())) for key, devices in state.items()}


def _frozen(world: World, subject: Subject, rows: list[Standstill], still: int, total: int) -> Finding:
    names = ", ".join(sorted({row.metric for row in rows}))
    window = world.policy.windows.standstill
    return finding(
        "frozen",
        subject,
        f"the values of {subject.target} stand still under load",
        observed=f"{still} of {total} series of each of {names} did not change over {rows[0].scrapes} scrapes",
        expected="energy, clocks, power and temperature of a busy device differ from scrape to scrape",
        hint="The exporter serves what it read before it lost its source (host engine, driver): restart its Pod, and compare with "
        "nvidia-smi on the node.",
        severity=Severity.CRITICAL,
        evidence=[
            Evidence("prometheus", f'changes({row.metric}{{job="{row.job}", instance="{row.instance}"}}[{window:.0f}s])', "0", world.at)
            for row in rows[:3]
        ],
    )
