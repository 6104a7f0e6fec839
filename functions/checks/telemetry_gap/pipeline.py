"""The health of the metrics servers themselves, one finding a server and figure, or a rule that fails.

Where the server loses or refuses what was scraped, green dashboards prove nothing. Thresholds and remedies are data
(`functions/knowledge/pipeline.yaml`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

from functions.checks.telemetry_gap.world import Part, World, duration, finding, short
from functions.contract.findings import Evidence, Finding, Severity, Subject, Unjudged
from functions.contract.rules import Rule
from functions.contract.telemetry import MetricSchema, PipelineSample
from functions.knowledge.pipeline import Figure, Pipeline, load_pipeline


def judge_pipeline(world: World, samples: Iterable[PipelineSample], told: frozenset[str]) -> Part:
    """Judge every figure that a server gives. `told`: codes that findings on single targets already tell."""
    part = Part()
    pipeline = load_pipeline()
    by_server: dict[tuple[str, str], list[PipelineSample]] = defaultdict(list)
    for sample in samples:
        by_server[sample.server, sample.metric].append(sample)
    for (server, metric), held in sorted(by_server.items()):
        figure = pipeline.figures.get(metric)
        if figure is None:
            continue
        part.judged += 1
        ill = [(s, value) for s in held if (value := _ill(pipeline, figure, s, by_server)) is not None]
        if ill and figure.code not in told:
            part.findings.append(_finding(world, server, figure, ill))
    return part


def judge_counters(
    world: World,
    samples: Iterable[PipelineSample],
    now: Iterable[MetricSchema],
    before: Iterable[MetricSchema] | None,
    told: frozenset[str],
) -> Part:
    """Judge counters of which no rate is known (one scrape in the window) by what they counted since the baseline."""
    part, figures = Part(), load_pipeline().figures
    rated = {sample.metric for sample in samples}
    earlier = {(row.job, row.name): row for row in before or ()}
    start = world.windows.baseline
    for row in now:
        figure = figures.get(row.name)
        if figure is None or figure.metric in rated or not figure.metric.endswith("_total") or not row.high or figure.code in told:
            continue
        was = earlier.get((row.job, row.name))
        if start is None or was is None or was.high is None:
            why = f"{figure.what}: {row.high:g} since the server started; one scrape does not tell when"
            part.unjudged.append(Unjudged(Subject(metric=row.name, job=row.job), why))
            continue
        part.judged += 1
        counted = row.high - was.high if row.high >= was.high else row.high  # a restart begins at 0
        seconds = (world.windows.current - start).total_seconds()
        if counted / seconds > (figure.above or 0):
            part.findings.append(_counted(world, figure, row.job, counted, seconds))
    return part


def _counted(world: World, figure: Figure, job: str, counted: float, seconds: float) -> Finding:
    return finding(
        figure.code,
        Subject(metric=figure.metric, job=job),
        f"{job}: {figure.title}",
        observed=f"{figure.what}: {counted:g} more than {duration(seconds)} before",
        expected=f"{figure.what}: none",
        hint=figure.todo,
        severity=figure.severity,
        verdict=figure.verdict,
        evidence=[Evidence("prometheus", f'increase({figure.metric}{{job="{job}"}}[{seconds:.0f}s])', f"{counted:g}", world.at)],
    )


def _ill(pipeline: Pipeline, figure: Figure, sample: PipelineSample, others: dict[tuple[str, str], list[PipelineSample]]) -> float | None:
    """The value that is beyond the figure's threshold, or None."""
    value = sample.value
    if figure.ahead_of:
        behind = _partner(others.get((sample.server, figure.ahead_of), []), sample)
        if not behind:
            return None  # nothing was ever sent, or nothing tells
        value -= behind
    if math.isnan(value):
        return None
    if figure.reaches:
        limit = _partner(others.get((sample.server, figure.reaches), []), sample)
        return value if limit and value >= limit else None
    if figure.above is not None:
        return value if value > figure.above else None
    return value if figure.below is not None and value < figure.below else None


def _partner(held: list[PipelineSample], sample: PipelineSample) -> float:
    """The other figure with the same labels; of remotes that differ the slowest."""
    same = [s.value for s in held if s.labels == sample.labels] or [s.value for s in held]
    return min(same, default=0.0)


def _finding(world: World, server: str, figure: Figure, ill: list[tuple[PipelineSample, float]]) -> Finding:
    worst = max(ill, key=lambda pair: abs(pair[1]))
    per_second = figure.metric.endswith("_total")
    labels = "; ".join(sorted({", ".join(f"{k}={v}" for k, v in sorted(s.labels.items())) for s, _ in ill if s.labels})[:5])
    observed = f"{figure.what}: {worst[1]:.6g}{' a second' if per_second else ''}{f' ({labels})' if labels else ''}"
    limit = f"below {figure.reaches}" if figure.reaches else f"not above {figure.above:g}" if figure.above is not None else None
    return finding(
        figure.code,
        Subject(metric=figure.metric, target=server or None),
        f"{server or 'the metrics server'}: {figure.title}",
        observed=observed,
        expected=f"{figure.what}: {limit or f'not below {figure.below:g}'}",
        hint=figure.todo,
        severity=figure.severity,
        verdict=figure.verdict,
        evidence=[Evidence("prometheus", f"rate({figure.metric}[10m])" if per_second else figure.metric, f"{worst[1]:.6g}", world.at)],
    )


def judge_rule_health(world: World, rules: Iterable[Rule]) -> Part:
    """Rules whose last evaluation failed on the server that has loaded them."""
    failing = [rule for rule in rules if rule.health == "err" or (rule.loaded and rule.error)]
    return Part([_failing(world, rule) for rule in failing])


def _failing(world: World, rule: Rule) -> Finding:
    return finding(
        "pipeline-unhealthy",
        Subject(rule=rule.name, rule_group=rule.group or None),
        f"rule {rule.name} fails to evaluate",
        observed=short(rule.error) or "its last evaluation failed; the server does not say why",
        expected="every evaluation of a loaded rule succeeds",
        hint="Run the expression by hand; several matches for one label set and a missing label are the usual causes.",
        severity=Severity.CRITICAL,
        evidence=[Evidence("rules", rule.origin or rule.group or rule.name, rule.expr, world.at)],
    )
