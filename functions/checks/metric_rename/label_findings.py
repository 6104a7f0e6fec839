"""Findings about labels: renamed, lost, and values that are written differently."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from functions.checks.metric_rename.findings import Context, rows_text
from functions.checks.metric_rename.forms import FORMS, matched, whole
from functions.checks.metric_rename.labels import LabelChange, Values, share
from functions.contract.findings import Finding, Severity, Subject
from functions.contract.telemetry import LabelValues
from functions.knowledge.renames import Catalogue

#: How many values are named in a finding.
_SHOWN = 3
#: How many targets that lost a label are named.
_TARGETS = 5
#: Share of the old values that must have a counterpart in the new spelling.
_MOST = 0.5


def label_findings(
    changes: Iterable[LabelChange], context: Context, renamed: Collection[str] = ()
) -> tuple[list[Finding], tuple[LabelChange, ...]]:
    """One finding a job and label; and the changes that the findings on names speak of.

    A change of relabelling is told only where somebody uses the label; so is one that came with the new names of all
    metrics that had it (`renamed`), which is part of the renames.
    """
    found, with_names = [], []
    for change in changes:
        impact = context.users.of_label(change.label, change.renamed_to, change.names, frozenset({change.job}))
        with_name = set(change.families) <= set(renamed)
        if impact or not (change.of_target or with_name):
            finding = _renamed(change, context) if change.renamed_to else _lost(change, context)
            found.append(context.users.weigh(finding, impact))
        elif with_name:
            with_names.append(change)
    return found, tuple(with_names)


def _renamed(change: LabelChange, context: Context) -> Finding:
    source = f" ({rows_text([change.row])})" if change.row else ""
    return Finding(
        code="metric-rename/label-renamed",
        title=f"Label {change.label} is called {change.renamed_to} now{_from(change, 'on')}",
        observed=f"{_series(change)} carry {change.renamed_to} instead; "
        f"{'documented' if change.row else f'inferred with confidence {change.confidence:.2f}: {change.why}'}{source}",
        expected=f"label {change.label}, as before the change",
        hint=f"Replace {change.label} by {change.renamed_to} in what is listed here: matchers, joins, groupings, legends and templates."
        + (" See whether honor_labels or a relabelling of the job was meant to change." if change.of_target else ""),
        subject=Subject(job=change.job, label=change.label, renamed_to=change.renamed_to, metric=_only(change)),
        severity=Severity.INFO,
        evidence=(
            context.evidence(change.families[0], change.job, f"{change.label} on its series", before=True),
            context.evidence(change.families[0], change.job, f"{change.renamed_to} on its series"),
        ),
    )


def _lost(change: LabelChange, context: Context) -> Finding:
    documented = f"; documented ({rows_text([change.row])})" if change.row else ""
    return Finding(
        code="metric-rename/label-lost",
        title=f"Label {change.label} is gone{_from(change)}",
        observed=f"{_series(change)} no longer carry {change.label}{documented}",
        expected=f"label {change.label}, as before the change",
        hint=(change.row.note.rstrip(".") + ". " if change.row and change.row.note else "")
        + "Look for the relabelling, allow-list or version that took it away.",
        subject=Subject(job=change.job, label=change.label, metric=_only(change)),
        severity=Severity.INFO,
        evidence=(
            context.evidence(change.families[0], change.job, f"{change.label} on its series", before=True),
            context.evidence(change.families[0], change.job, f"without {change.label}"),
        ),
    )


def _series(change: LabelChange) -> str:
    """Whose series a change is about; of a change on some targets, which."""
    where = f"{_metrics(change)} in job {change.job}"
    if not change.partial:
        return f"series of {where}"
    if not change.lost_on:
        return f"some series of {where}"
    shown = ", ".join(change.lost_on[:_TARGETS]) + (", …" if len(change.lost_on) > _TARGETS else "")
    return f"series of {where} on {shown} (not on {', '.join(change.kept_on[:_SHOWN])}{', …' if len(change.kept_on) > _SHOWN else ''})"


def _from(change: LabelChange, word: str = "from") -> str:
    """How many targets a change on some targets is about."""
    both = len(change.lost_on) + len(change.kept_on)
    return f" {word} {len(change.lost_on)} of {both} targets of job {change.job}" if change.lost_on else ""


def _only(change: LabelChange) -> str | None:
    """The metric, where one metric alone is concerned."""
    return change.families[0] if len(change.families) == 1 and not change.everywhere else None


def _metrics(change: LabelChange) -> str:
    if len(change.families) == 1:
        return change.families[0]
    return f"{len(change.families)} metrics ({', '.join(change.families[:_SHOWN])}{', …' if len(change.families) > _SHOWN else ''})"


@dataclass(frozen=True, slots=True)
class Respelling:
    """Values of a label that are written differently now: old -> new."""

    job: str
    label: str
    metric: str
    values: Mapping[str, str]
    why: str


def respelled(before: Values, now: Values, asked: Iterable[tuple[str, str, str]], catalogue: Catalogue | None) -> list[Respelling]:
    """Labels whose values changed their format. `asked`: (job, label, metric) with the label on both sides."""
    found = []
    for job, label, metric in asked:
        old, new = before.get((job, label)), now.get((job, label))
        if old and new and not old.truncated and not new.truncated and (change := _respelling(old, new, catalogue)):
            found.append(Respelling(job, label, metric, *change))
    return found


def _respelling(old: LabelValues, new: LabelValues, catalogue: Catalogue | None) -> tuple[Mapping[str, str], str] | None:
    gone, fresh = old.values - new.values - {""}, new.values - old.values - {""}
    if not gone or not fresh or (share(old.values, new.values) > 1 - _MOST and not whole(gone)):
        return None
    for why, form in FORMS:
        pairs = matched(gone, fresh, form)
        if len(pairs) >= max(1, len(gone) * _MOST):
            return pairs, why
    if catalogue:
        rows = catalogue.label_values(old.label, old.metric)
        pairs = {row.old: row.new for row in rows if row.old in gone and row.new in fresh}
        if pairs:
            return pairs, rows_text(row for row in rows if row.old in pairs)
    return None


def value_findings(changes: Iterable[Respelling], context: Context) -> list[Finding]:
    """One finding a job and label."""
    found = []
    for change in changes:
        samples = [f"{old} → {new}" for old, new in list(change.values.items())[:_SHOWN]]
        impact = context.users.of_values(change.label, change.values, frozenset({change.job}))
        finding = Finding(
            code="metric-rename/label-value-changed",
            title=f"Values of {change.label} are written differently",
            observed=f"job {change.job}: {', '.join(new for new in list(change.values.values())[:_SHOWN])} ({change.why})",
            expected=", ".join(list(change.values)[:_SHOWN]) + ", as before the change",
            hint=f"Change the literals: {'; '.join(samples)}.",
            subject=Subject(job=change.job, label=change.label, metric=change.metric or None),
            severity=Severity.INFO,
            evidence=(context.evidence(change.metric, change.job, samples[0]),),
        )
        found.append(context.users.weigh(finding, impact, None if impact else Severity.INFO))
    return found
