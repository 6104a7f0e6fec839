"""Rules that select nothing: `alert-blind`.

A rule is blind when a selector that its expression needs finds no series, so that it can never fire. Who speaks
otherwise: a name or label that was renamed is metric-rename's, a target that can't be read hides the series, an event
that has not happened yet has none. A recording rule's output counts as there where the rule itself sees something.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from functions.checks._gap_vanished import Scrapes
from functions.checks._gap_world import Part, World, finding
from functions.checks._successors import State, Succession
from functions.contract.facts import Fact, Known, Missing
from functions.contract.findings import Evidence, Finding, Severity, Subject, Unjudged, Verdict
from functions.contract.rules import Matcher, Rule, RuleKind, Selector, SelectorCount
from functions.contract.telemetry import MetricSchema
from functions.knowledge.signals import SILENT
from functions.promql import read as read_promql

#: Series that the server writes itself, wherever rules are evaluated.
_OWN = re.compile(r"up|ALERTS|ALERTS_FOR_STATE|scrape_.*")
#: Labels that say where a series comes from. A value of theirs that is not there names something that does not exist;
#: a value of any other label (a status, a reason) may only not have happened.
_ORIGIN = frozenset({"job", "namespace", "exported_namespace", "cluster", "service", "container", "exported_container", "endpoint"})


@dataclass(frozen=True)
class Blindness:
    """Everything the judgement of rules rests on."""

    world: World
    scrapes: Scrapes
    succession: Succession
    rules: tuple[Rule, ...]
    schema: tuple[MetricSchema, ...]
    schema_before: tuple[MetricSchema, ...] | None
    selectors: Fact[tuple[SelectorCount, ...]]
    selectors_before: Fact[tuple[SelectorCount, ...]]
    #: jobs that were captured; None: every job
    jobs: frozenset[str] | None

    @cached_property
    def now(self) -> Mapping[Selector, SelectorCount]:
        return {c.selector: c for c in self.selectors.value} if isinstance(self.selectors, Known) else {}

    @cached_property
    def before(self) -> Mapping[Selector, SelectorCount]:
        return {c.selector: c for c in self.selectors_before.value} if isinstance(self.selectors_before, Known) else {}

    @cached_property
    def labels(self) -> Mapping[str, frozenset[str]]:
        """stored name -> labels on any of its series now."""
        found: dict[str, set[str]] = {}
        for row in self.schema:
            found.setdefault(row.name, {"job", "instance"}).update(label for label, count in row.labels.items() if count)
        return {name: frozenset(labels) for name, labels in found.items()}

    @cached_property
    def labels_before(self) -> Mapping[str, frozenset[str]]:
        found: dict[str, set[str]] = {}
        for row in self.schema_before or ():
            found.setdefault(row.name, {"job", "instance"}).update(label for label, count in row.labels.items() if count)
        return {name: frozenset(labels) for name, labels in found.items()}

    @cached_property
    def renamed(self) -> frozenset[str]:
        """Stored names that metric-rename speaks for, because they have a successor."""
        return frozenset(name for loss in self.succession.of(State.RENAMED) if not loss.partial for name in loss.was.names)

    @cached_property
    def first_words(self) -> frozenset[str]:
        """How the names of the captured jobs begin."""
        names = [*self.labels, *self.labels_before]
        return frozenset(_first_word(name) for name in names)


@dataclass(frozen=True, slots=True)
class _Empty:
    """A needed selector that finds nothing, and what that means."""

    selector: Selector
    #: a key of _RANK
    state: str
    why: str = ""


def judge_rules(blindness: Blindness) -> Part:
    """Judge every rule."""
    part = Part()
    if not blindness.rules:
        return part
    if isinstance(blindness.selectors, Missing):
        missing = blindness.selectors
        part.unjudged.append(Unjudged(Subject(), f"what rules select: {missing.detail} ({missing.why})"))
        return part
    records = {rule.name: rule for rule in blindness.rules if rule.kind is RuleKind.RECORD}
    verdicts: dict[str, _Empty | None] = {}
    for rule in blindness.rules:
        expression = read_promql(rule.expr)
        subject = Subject(rule=rule.name, rule_group=rule.group or None)
        if expression.error:
            part.unjudged.append(Unjudged(subject, f"its expression can't be read: {expression.error}"))
            continue
        part.judged += 1
        worst = _worst(blindness, rule, records, verdicts, frozenset())
        if worst is None or worst.state in _QUIET:
            continue
        if worst.state in ("unknown", "hidden"):
            part.judged -= 1
            part.unjudged.append(Unjudged(subject, worst.why))
        else:
            part.findings.append(_blind(blindness, rule, worst))
    return part


#: What a selector amounts to, the word that counts most last: it finds something or need not; it can't be told; it hides
#: behind a broken target; it may be meant to be empty; it is blind; metric-rename speaks for it.
_RANK = {"well": 0, "unknown": 1, "hidden": 2, "unsure": 3, "blind": 4, "renamed": 5}
_QUIET = frozenset({"well", "renamed"})


def _worst(
    blindness: Blindness, rule: Rule, records: Mapping[str, Rule], known: dict[str, _Empty | None], seen: frozenset[str]
) -> _Empty | None:
    """What its needed selectors amount to: another's word first, then blind, then unknown; None where each finds something."""
    found: list[_Empty] = []
    for use in read_promql(rule.expr).selectors:
        if not use.needed:
            continue
        selector = use.selector
        name = selector.name or ""
        if name in records and name not in seen:
            source = records[name]
            if name not in known:
                known[name] = _worst(blindness, source, records, known, seen | {rule.name, name})
            if (upstream := known[name]) and upstream.state != "well":
                found.append(_Empty(selector, upstream.state, f"the recording rule {name} sees nothing: {upstream.why}"))
        elif name not in records:
            found.append(_judge_selector(blindness, selector))
    return max(found, key=lambda e: _RANK[e.state], default=None)


def _judge_selector(blindness: Blindness, selector: Selector) -> _Empty:
    names, count, had = _names(selector), blindness.now.get(selector), blindness.before.get(selector)
    if any(_OWN.fullmatch(name) for name in names) or (count is not None and count.series):
        return _Empty(selector, "well")
    if count is None:
        return _Empty(selector, "unknown", f"nothing tells how many series {selector} selects")
    signals, rewrite = blindness.world.knowledge.signals, blindness.world.policy.signals.rewrite
    if any(signals.presence(name, rewrite) & SILENT for name in names):
        return _Empty(selector, "well")
    had_data = had is None or had.series > 0
    if had_data and blindness.renamed.intersection(names):
        return _Empty(selector, "renamed", "its metric was renamed: see metric-rename/rule-dead")
    if hidden := _hidden(blindness, names, had):
        return _Empty(selector, "hidden", f"{selector} selects nothing: {hidden}")
    if _gone_with_workload(blindness, names, had):
        return _Empty(selector, "well")
    if outside := _outside(blindness, selector, names):
        return _Empty(selector, "unknown", outside)
    if stored := [name for name in names if name in blindness.labels]:
        return _by_labels(blindness, selector, stored[0], had)
    if had and had.series:
        return _Empty(selector, "blind", f"{selector} selected {had.series} series before the change and selects none now")
    return _Empty(selector, "blind", f"{selector} selects nothing: {' and '.join(names) or 'what it describes'} is exported nowhere")


def _names(selector: Selector) -> tuple[str, ...]:
    """The metric names that a selector can mean: its own, or the plain alternatives of its pattern over __name__."""
    if selector.name:
        return (selector.name,)
    wanted = [m.value for m in selector.matchers if m.label == "__name__" and not m.negative]
    return tuple(part for value in wanted for part in value.strip("()").split("|") if re.fullmatch(r"[A-Za-z_:][\w:]*", part))


def _jobs_of(blindness: Blindness, names: tuple[str, ...], had: SelectorCount | None) -> frozenset[str]:
    """The jobs that had the series in the baseline."""
    jobs = frozenset(job for job, count in (had.by_job if had else {}).items() if count)
    return jobs or frozenset(row.job for row in blindness.schema_before or () if row.name in names)


def _hidden(blindness: Blindness, names: tuple[str, ...], had: SelectorCount | None) -> str:
    """Which broken target may have the series; "" where none can."""
    jobs = _jobs_of(blindness, names, had)
    if jobs & blindness.scrapes.vanished_jobs:
        return "its targets are no longer scraped: see telemetry-gap/target-down"
    if not jobs and blindness.schema_before is None:
        # without a baseline: the jobs of that kind of which no target can be read
        delivering = {row.job for row in blindness.schema}
        words = {_first_word(name) for name in names}
        jobs = frozenset(job for job, _ in blindness.scrapes.broken if job not in delivering and words & set(re.split(r"[^a-z0-9]", job)))
    for (job, instance), code in sorted(blindness.scrapes.broken.items()):
        if job in jobs:
            return f"target {instance} can't be read, see telemetry-gap/{code}"
    return ""


def _gone_with_workload(blindness: Blindness, names: tuple[str, ...], had: SelectorCount | None) -> bool:
    """Whether only workloads that no longer run had the series."""
    jobs = _jobs_of(blindness, names, had)
    living = {row.job for row in blindness.schema} | {t.job for t in blindness.world.target_list or ()}
    scraped = {t.job for t in blindness.world.before_list or () if t.labels.get("pod")}
    return bool(jobs) and not jobs & living and jobs <= scraped


def _outside(blindness: Blindness, selector: Selector, names: tuple[str, ...]) -> str:
    """Why the rule is about a job that was not captured; "" where it is about one that was."""
    if blindness.jobs is None:
        return ""
    wanted = [m for m in selector.matchers if m.label == "job" and not m.negative]
    if wanted:
        held = any(all(_matches(m, job) for m in wanted) for job in blindness.jobs)
        return "" if held else f"{selector} is about a job that was not captured"
    kin = any(n in blindness.labels or n in blindness.labels_before or _first_word(n) in blindness.first_words for n in names)
    return "" if kin else f"{' and '.join(names) or str(selector)} may belong to a job that was not captured"


def _by_labels(blindness: Blindness, selector: Selector, name: str, had: SelectorCount | None) -> _Empty:
    """The metric is there, and the matchers select none of it."""
    present = blindness.labels[name]
    needed = [m for m in selector.matchers if not _matches(m, "") and m.label != "__name__"]
    lacking = sorted({m.label for m in needed} - present)
    if lacking:
        was_there = had is None or had.series > 0
        if was_there and any(label in blindness.labels_before.get(name, frozenset()) for label in lacking):
            return _Empty(selector, "renamed", "a label of its metric is gone: see metric-rename/rule-dead")
        return _Empty(selector, "blind", f"{selector} selects nothing: {name} has no label {', '.join(lacking)}")
    origin = [m for m in needed if m.label in _ORIGIN]
    if not origin:
        return _Empty(selector, "well")  # a status or reason that has not happened
    where = ", ".join(map(str, origin))
    if had and had.series:
        return _Empty(selector, "unsure", f"{selector} selected {had.series} series before; nothing matches {where} now")
    return _Empty(selector, "blind", f"{selector} selects nothing: no series of {name} matches {where}")


def _matches(matcher: Matcher, value: str) -> bool:
    if matcher.op in ("=", "!="):
        return (value == matcher.value) == (matcher.op == "=")
    try:
        hit = re.fullmatch(matcher.value, value) is not None
    except re.error:
        hit = value == matcher.value
    return hit == (matcher.op == "=~")


def _first_word(name: str) -> str:
    return re.split(r"[_:\-]", name, maxsplit=1)[0].lower()


def _blind(blindness: Blindness, rule: Rule, empty: _Empty) -> Finding:
    kind = "alert" if rule.kind is RuleKind.ALERT else "recording rule"
    candidates = _candidates(blindness, [empty.selector])
    world = blindness.world
    hint = "Point the rule at a metric and labels that exist, add the field to the exporter's list, or delete the rule."
    if candidates:
        hint = f"{hint} Possible successors: {', '.join(candidates)}."
    return finding(
        "alert-blind",
        Subject(rule=rule.name, rule_group=rule.group or None),
        f"{kind} {rule.name} selects nothing" + (", so it can never fire" if rule.kind is RuleKind.ALERT else ", so it records nothing"),
        observed=empty.why,
        expected="every selector that the expression needs finds series",
        hint=hint,
        severity=Severity.CRITICAL if rule.kind is RuleKind.ALERT else Severity.WARNING,
        verdict=Verdict.UNKNOWN if empty.state == "unsure" else Verdict.FAIL,
        evidence=[
            Evidence("rules", rule.origin or rule.group or rule.name, rule.expr, world.at),
            Evidence("prometheus", f"count({empty.selector})", "no series", world.at),
        ],
    )


def _candidates(blindness: Blindness, selectors: Iterable[Selector]) -> list[str]:
    names = {s.name for s in selectors}
    return [
        f"{new} ({confidence:.0%})"
        for loss in blindness.succession.of(State.SILENT)
        if names & set(loss.was.names)
        for new, confidence in loss.candidates
    ]
