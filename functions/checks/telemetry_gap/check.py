"""telemetry-gap: is everything that should be told still told, and is what is told true?

From the scrape to the rule: targets, bodies, coverage of nodes and devices, names that were there before or must be,
values that cannot be, the metrics server itself, and rules that select nothing. The nearest cause speaks: what a
broken target hides is unjudged with a pointer to it. Renames are `metric-rename`'s, Pods on devices
`label-mapping`'s. The rules are in the modules beside this; here are the order and what was proven.
"""

from __future__ import annotations

from dataclasses import replace

from functions.checks.base import Check
from functions.checks.clusters import own
from functions.checks.impact.facts import Watched
from functions.checks.metric_rename.changes import Changed, Seen, changed
from functions.checks.metric_rename.families import families
from functions.checks.metric_rename.successors import Succession
from functions.checks.telemetry_gap.codes import CODES
from functions.checks.telemetry_gap.coverage import judge_coverage
from functions.checks.telemetry_gap.hidden import with_hidden
from functions.checks.telemetry_gap.lost import Losses, judge_lost
from functions.checks.telemetry_gap.pipeline import judge_counters, judge_pipeline, judge_rule_health
from functions.checks.telemetry_gap.required import Demand, judge_required
from functions.checks.telemetry_gap.rules import Blindness, judge_rules
from functions.checks.telemetry_gap.targets import judge_targets
from functions.checks.telemetry_gap.values import judge_frozen, judge_sentinels, judge_zeros
from functions.checks.telemetry_gap.vanished import Scrapes
from functions.checks.telemetry_gap.world import Part, World, known, of_cluster, unjudged
from functions.contract.cluster import ConfigMap, Node, Pod, ResourceSlice, Workload
from functions.contract.facts import MOOT, Fact, Known, Missing, Windows
from functions.contract.findings import Finding, Judgement
from functions.contract.policy import Policy
from functions.contract.rules import Dashboard, Rule, RuleKind, SelectorCount
from functions.contract.signals import Scope
from functions.contract.telemetry import (
    Body,
    DeviceReading,
    DeviceSeries,
    Extreme,
    LabelValues,
    MetricSchema,
    PartialLoss,
    PipelineSample,
    Standstill,
    Target,
)
from functions.contract.text import count_of
from functions.knowledge import Knowledge
from functions.promql import NO_CHANGES


def judge(  # noqa: PLR0913 - the parameters are the check's needs
    *,
    targets: Fact[tuple[Target, ...]],
    targets_before: Fact[tuple[Target, ...]],
    schema: Fact[tuple[MetricSchema, ...]],
    schema_before: Fact[tuple[MetricSchema, ...]],
    partial_losses: Fact[tuple[PartialLoss, ...]],
    label_values: Fact[tuple[LabelValues, ...]],
    label_values_before: Fact[tuple[LabelValues, ...]],
    devices: Fact[tuple[DeviceSeries, ...]],
    devices_before: Fact[tuple[DeviceSeries, ...]],
    readings: Fact[tuple[DeviceReading, ...]],
    extremes: Fact[tuple[Extreme, ...]],
    standstill: Fact[tuple[Standstill, ...]],
    pipeline: Fact[tuple[PipelineSample, ...]],
    bodies: Fact[tuple[Body, ...]],
    nodes: Fact[tuple[Node, ...]],
    pods: Fact[tuple[Pod, ...]],
    pods_before: Fact[tuple[Pod, ...]],
    workloads: Fact[tuple[Workload, ...]],
    configmaps: Fact[tuple[ConfigMap, ...]],
    slices: Fact[tuple[ResourceSlice, ...]],
    rules: Fact[tuple[Rule, ...]],
    dashboards: Fact[tuple[Dashboard, ...]],
    selectors: Fact[tuple[SelectorCount, ...]],
    selectors_before: Fact[tuple[SelectorCount, ...]],
    jobs: frozenset[str] | None,
    policy: Policy,
    knowledge: Knowledge,
    windows: Windows,
    scope: Scope,
    cluster: str,
) -> Judgement:
    """Each part judges what its facts allow; a missing fact leaves its own question unjudged, never green."""
    world = World(
        windows=windows,
        policy=policy,
        knowledge=knowledge,
        target_list=known(targets),
        before_list=known(targets_before),
        pod_list=known(pods),
        node_list=known(nodes),
        workload_list=known(workloads),
        device_list=known(devices),
        earlier_pods=known(pods_before) or (),
        listed_at=targets.at if isinstance(targets, Known) else None,
    )
    world, others = of_cluster(world, cluster)
    held_bodies, _ = own(known(bodies) or (), lambda b: b.target, lambda _: False, knowledge.devices.clusters, cluster)
    held_rules = known(rules) or ()
    # an empty selector says nothing where nobody knows which names and labels there are
    watched = Watched(rules, dashboards, schema if isinstance(schema, Missing) else selectors, selectors_before)
    now, before = known(schema), known(schema_before)
    seen = Seen(now or (), before or (), targets, targets_before, partial_losses, label_values, label_values_before)
    what = changed(seen, knowledge, policy) if now is not None and before is not None else Changed(Succession())
    users = watched.users(NO_CHANGES)
    whole = Part(unjudged=list(others))
    for fact, part, quiet in (
        (targets, "targets", ()),
        (schema, "names that are stored", ()),
        (devices, "device series", ()),
        (nodes, "coverage of nodes", ()),
        (pods, "Pods behind targets", ()),
        (schema_before, "names that went silent", ()),
        (extremes, "codes for no value", MOOT),
        (standstill, "values that stand still", MOOT),
        (pipeline, "health of the metrics server", MOOT),
        (bodies, "raw expositions", MOOT),
        (rules, "rules", MOOT),
        (configmaps, "field lists of exporters", MOOT),
        (workloads, "field lists of exporters", MOOT),
        (slices, "devices of ResourceSlices", MOOT),
    ):
        whole.unjudged += unjudged(fact, part, quiet)

    scrapes = judge_targets(world, held_bodies)
    scrapes.part.findings = with_hidden(world, scrapes, users, (*(known(schema_before) or ()), *(known(schema) or ())))
    whole.add(scrapes.part)
    whole.add(judge_coverage(world, scrapes, known(slices) or (), known(devices_before)))
    if now is not None:
        if before is not None:
            recorded = frozenset(r.name for r in held_rules if r.kind is RuleKind.RECORD)
            whole.add(judge_lost(Losses(world, scrapes, what.found, users, jobs, held_bodies, recorded)))
        demand = Demand(world, scrapes, families(now), families(before) if before is not None else None, users, held_bodies)
        whole.add(judge_required(demand, known(configmaps)))
    sentinels, coded = judge_sentinels(world, known(extremes), now or (), held_rules)
    whole.add(sentinels)
    whole.add(judge_zeros(world, known(readings) or ()))
    whole.add(judge_frozen(world, scrapes, known(standstill) or (), known(readings), coded))
    told = frozenset(f.code.partition("/")[2] for f in scrapes.part.findings)
    whole.add(judge_pipeline(world, known(pipeline) or (), told))
    whole.add(judge_counters(world, known(pipeline) or (), now or (), before, told))
    whole.add(judge_rule_health(world, held_rules))
    series = watched.world(seen, what.losses, policy, knowledge, jobs)
    whole.add(judge_rules(Blindness(world, scrapes, what.found, watched, series)))
    return _judgement(whole, world, scrapes, scope)


def _judgement(whole: Part, world: World, scrapes: Scrapes, scope: Scope) -> Judgement:
    """The join of the parts, cut to a node where the audit is about one."""
    findings, left = whole.findings, whole.unjudged
    if scope.kind == "node":
        findings = [f for f in findings if f.subject.node in (None, scope.name)]
        left = [u for u in left if u.subject.node in (None, scope.name)]
    targets = len(world.target_list or ())
    up = targets - len(scrapes.broken)
    covered = len({s.node for s in world.device_list or () if s.node})
    deliver, show = "delivers" if targets == 1 else "deliver", "shows" if covered == 1 else "show"
    proven = f"{up} of {count_of(targets, 'target')} {deliver}, {count_of(covered, 'node')} {show} devices" if targets or covered else ""
    return Judgement(tuple(_once(findings)), whole.judged, tuple(dict.fromkeys(left)), proven)


def _once(findings: list[Finding]) -> list[Finding]:
    """One finding a cause: two parts may come to the same code and subject."""
    seen: dict[tuple[str, tuple[tuple[str, str], ...]], Finding] = {}
    for finding in findings:
        key = (finding.code, finding.subject.identity())
        seen[key] = replace(seen[key], evidence=(*seen[key].evidence, *finding.evidence)) if key in seen else finding
    return list(seen.values())


CHECK = Check(
    id="telemetry-gap",
    title="Telemetry gaps",
    summary="Targets, names, devices, values and rules that should be there and true, and are not.",
    codes=CODES,
    judge=judge,
)
