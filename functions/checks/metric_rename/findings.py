"""Findings about names: renamed, removed, dual-emitted, and the changes of type and scale that come with a name.

Each says what was seen, how the successor is known, and what to change; who uses a name is asked of `Users`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from functions.checks.metric_rename.families import Family
from functions.checks.metric_rename.labels import LabelChange
from functions.checks.metric_rename.losses import Dual, How, Loss
from functions.checks.metric_rename.scales import NATIVE, Retyped, Scale
from functions.contract.facts import Windows
from functions.contract.findings import Evidence, Finding, Impact, Severity, Subject
from functions.knowledge.renames import Rename

if TYPE_CHECKING:
    from functions.checks.impact import Users

_KNOWN = {How.HELP: "the exporter's own HELP says so", How.CATALOGUE: "documented", How.INFERRED: "inferred"}


@dataclass(frozen=True, slots=True)
class Context:
    """What every finding of one audit shares."""

    users: Users
    windows: Windows

    def evidence(self, name: str, job: str, sample: str = "", *, before: bool = False) -> Evidence:
        """A query that a person can repeat, and its instant."""
        at = self.windows.baseline if before else self.windows.current
        return Evidence("prometheus", f"count by (job) ({_selector(name, job)})", sample, at.strftime("%Y-%m-%dT%H:%M:%SZ") if at else "")


def _selector(name: str, job: str) -> str:
    matcher = f'{{job="{job}"}}'
    return f'{{__name__="{name}",job="{job}"}}' if "." in name else name + matcher


def renamed(losses: Iterable[Loss], labels: Iterable[LabelChange], context: Context) -> list[Finding]:
    """One finding a name and successor; jobs that fared alike share it. `labels` came with the names and are told here."""
    changes = tuple(labels)
    return [_renamed(held, changes, context) for held in _together(losses)]


def _together(losses: Iterable[Loss]) -> list[list[Loss]]:
    """Losses of one name with one outcome. A partial loss, and a name that lives on elsewhere, stand alone."""
    groups: dict[tuple[str, str, str], list[Loss]] = {}
    for loss in losses:
        groups.setdefault((loss.was.name, loss.renamed_to, loss.job if loss.partial or loss.elsewhere else ""), []).append(loss)
    return list(groups.values())


def _renamed(held: list[Loss], labels: tuple[LabelChange, ...], context: Context) -> Finding:
    loss = held[0]
    impact = _users(held, context)
    found = Finding(
        code="metric-rename/renamed",
        title=f"{loss.was.name} is called {loss.renamed_to} now",
        observed=f"{_where(held)} {_stores(loss)} {loss.renamed_to}; {_how(loss)}",
        expected=f"{loss.was.name}, as before the change",
        hint=_advice(loss, labels),
        subject=Subject(metric=loss.was.name, renamed_to=loss.renamed_to, job=_job(loss)),
        severity=Severity.INFO,
        evidence=_proof(held, context),
    )
    return context.users.weigh(found, impact)


def _users(held: list[Loss], context: Context) -> tuple[Impact, ...]:
    return context.users.of([name for one in held for name in one.was.names], frozenset(one.job for one in held))


def _stores(loss: Loss) -> str:
    if loss.partial:
        return f"{'lacks' if len(loss.lost_on) == 1 else 'lack'} {loss.was.name} and {'has' if len(loss.lost_on) == 1 else 'have'}"
    return f"no longer stores {loss.was.name}, and stores"


def _where(held: list[Loss]) -> str:
    loss = held[0]
    if loss.partial:
        lost, total = len(loss.lost_on), len(loss.lost_on) + len(loss.kept_on)
        named = ", ".join(loss.lost_on[:3]) + (f" and {lost - 3} more" if lost > 3 else "")
        return f"of job {loss.job}, {lost} of {total} targets ({named})"
    jobs = sorted({one.job for one in held})
    text = f"job {jobs[0]}" if len(jobs) == 1 else f"each of the jobs {', '.join(jobs)}"
    return f"{text} (the name lives on in {', '.join(loss.elsewhere)})" if loss.elsewhere else text


def _job(loss: Loss) -> str | None:
    return loss.job if loss.partial or loss.elsewhere else None


def _how(loss: Loss) -> str:
    if loss.how is How.INFERRED:
        return f"inferred with confidence {loss.confidence:.2f}: {', '.join(loss.signals) or 'no single strong sign'}"
    return _KNOWN[loss.how] + (f" ({rows_text(loss.rows)})" if loss.rows else "")


def rows_text(rows: Iterable[Rename]) -> str:
    """Where the catalogue has it from."""
    return "; ".join(dict.fromkeys(f"{row.system} {row.version}, {row.source}" for row in rows))


def _advice(loss: Loss, labels: tuple[LabelChange, ...]) -> str:
    notes = [row.note for row in loss.rows if row.note]
    now = loss.now.name if loss.now else ""
    mine = [c for c in labels if c.job == loss.job and now in c.families and not c.partial]
    if mine:
        changed = ", ".join(f"{c.label} is {'called ' + c.renamed_to if c.renamed_to else 'gone'}" for c in mine)
        notes.insert(0, f"Its labels changed as well: {changed}")
    text = f"Replace {loss.was.name} by {loss.renamed_to} in what is listed here"
    if loss.partial:
        text = f"While both exist, query `{loss.renamed_to} or {loss.was.name}`"
    return ". ".join(dict.fromkeys([text, *(n.rstrip(".") for n in notes)])) + "."


def _proof(held: list[Loss], context: Context) -> tuple[Evidence, ...]:
    found: list[Evidence] = []
    for loss in held[:3]:
        found.append(context.evidence(loss.was.names[0], loss.job, f"{loss.was.series} series", before=True))
        if loss.now:
            found.append(context.evidence(loss.now.names[0], loss.job, f"{loss.now.series} series"))
    return tuple(found)


def removed(losses: Iterable[Loss], context: Context) -> list[Finding]:
    found = []
    for held in _together(losses):
        loss = held[0]
        finding = Finding(
            code="metric-rename/removed",
            title=f"{loss.was.name} was taken away",
            observed=f"{_where(held)} no longer stores {loss.was.name}; {_how(loss)}",
            expected=f"{loss.was.name}, as before the change, or nothing that reads it",
            hint=replacement(loss),
            subject=Subject(metric=loss.was.name, job=_job(loss)),
            severity=Severity.INFO,
            evidence=_proof(held, context),
        )
        found.append(context.users.weigh(finding, _users(held, context)))
    return found


def replacement(loss: Loss) -> str:
    """What to read instead of a metric that was taken away."""
    notes = [row.note.rstrip(".") for row in loss.rows if row.note]
    if loss.expression:
        notes.insert(0, f"`{loss.expression}` gives the same")
    elif loss.alternatives:
        notes.insert(0, f"Look at {', '.join(loss.alternatives)}")
    else:
        notes.insert(0, "There is no successor: take out what still reads it")
    return ". ".join(notes) + "."


def dual_emitted(duals: Iterable[Dual], context: Context) -> list[Finding]:
    """Old and new name at once."""
    found = []
    for dual in duals:
        impact = context.users.of(dual.old.names, frozenset({dual.job}))
        finding = Finding(
            code="metric-rename/dual-emitted",
            title=f"{dual.old.name} is also exposed as {dual.new.name}",
            observed=f"job {dual.job} stores both names ({dual.old.series} and {dual.new.series} series); {_KNOWN[dual.how]}"
            + (f" ({rows_text(dual.rows)})" if dual.rows else ""),
            expected=f"{dual.new.name} alone",
            hint=f"Move queries from {dual.old.name} to {dual.new.name}; a pattern that matches both counts twice.",
            subject=Subject(metric=dual.old.name, renamed_to=dual.new.name),
            severity=Severity.INFO,
            evidence=(context.evidence(dual.old.names[0], dual.job), context.evidence(dual.new.names[0], dual.job)),
        )
        found.append(context.users.weigh(finding, impact, Severity.WARNING if impact else None))
    return _once(found)


@dataclass(frozen=True, slots=True)
class Pair:
    """One quantity before and now; `loss` where it changed its name."""

    job: str
    was: Family
    now: Family
    loss: Loss | None = None


def unit_changed(changes: Iterable[tuple[Pair, Scale]], context: Context) -> list[Finding]:
    found = []
    for pair, scale in changes:
        renamed_to = pair.now.name if pair.loss else None
        # a rule on the old name is dead and is told so; one that reads the name of now is misled
        living = context.users.of(pair.now.names, frozenset({pair.job}))
        impact = living or context.users.of(pair.was.names, frozenset({pair.job}))
        found.append(
            context.users.weigh(
                Finding(
                    code="metric-rename/unit-changed",
                    title=f"{pair.was.name} has another scale: new values are {_factor(scale.factor)} the old ones",
                    observed=f"{_levels(pair)}; {scale.why}",
                    expected="the same scale, or thresholds that were converted with it",
                    hint=_conversion(pair, scale.factor),
                    subject=Subject(metric=pair.was.name, renamed_to=renamed_to),
                    severity=Severity.INFO,
                    evidence=(
                        context.evidence(pair.was.names[0], pair.job, _level(pair.was), before=True),
                        context.evidence(pair.now.names[0], pair.job, _level(pair.now)),
                    ),
                ),
                impact,
                None if living else context.users.at_most_warning(impact),
            )
        )
    return _once(found)


def type_changed(changes: Iterable[tuple[Pair, Retyped, str]], context: Context) -> list[Finding]:
    found = []
    for pair, retyped, why in changes:
        living = context.users.of(pair.now.names, frozenset({pair.job}))
        impact = living or context.users.of(pair.was.names, frozenset({pair.job}))
        found.append(
            context.users.weigh(
                Finding(
                    code="metric-rename/type-changed",
                    title=f"{pair.was.name} is a {retyped.after} now, and was a {retyped.before}",
                    observed=f"job {pair.job} declares {pair.now.name} as {retyped.after}{why}",
                    expected=retyped.before,
                    hint=QUERIES.get(retyped.after, "Rewrite the queries for the new type."),
                    subject=Subject(metric=pair.was.name, renamed_to=pair.now.name if pair.loss else None),
                    severity=Severity.INFO,
                    evidence=(context.evidence(pair.now.names[0], pair.job, f"TYPE {retyped.after}"),),
                ),
                impact,
                None if living else context.users.at_most_warning(impact),
            )
        )
    return _once(found)


#: type -> how it is queried
QUERIES = {
    "gauge": "Read the value itself: rate() and increase() of a gauge mean nothing.",
    "counter": "Read it through rate() or increase(): the raw value only grows.",
    "histogram": "Quantiles come from histogram_quantile() over the buckets; series with a quantile label are gone.",
    "summary": "Quantiles are series with a quantile label; there are no buckets to aggregate.",
    NATIVE: "One series holds the whole histogram: drop _bucket; use histogram_quantile(), histogram_count(), histogram_sum().",
}


def _once(findings: list[Finding]) -> list[Finding]:
    """One finding a subject, where several jobs say the same."""
    kept: Mapping[tuple[object, ...], Finding] = {f.subject.identity(): f for f in reversed(findings)}
    return list(reversed(list(kept.values())))


def _levels(pair: Pair) -> str:
    return f"job {pair.job}: {pair.was.name} {_level(pair.was)} before, {pair.now.name} {_level(pair.now)} now"


def _level(family: Family) -> str:
    figures = [("low", family.low), ("mean", family.mean), ("high", family.high)]
    return " ".join(f"{name} {value:.6g}" for name, value in figures if value is not None) or "without values"


def _factor(factor: float) -> str:
    return f"{factor:,.0f} times" if factor >= 1 else f"1/{1 / factor:,.0f} of"


def _conversion(pair: Pair, factor: float) -> str:
    return f"Multiply thresholds on {pair.now.name} by {factor:.9g}, or divide the metric by it."
