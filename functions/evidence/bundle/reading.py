"""An evidence bundle (docs/bundle.md): a directory that is judged without a cluster, a Prometheus or a Redis.

`Bundle.read` gives both kinds of source over it. A bundle that can't be judged at all is a BundleError of one line; a
broken part is left out, listed in `problems`, and makes the fact that it belongs to `Missing(malformed)`, with file
and line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from functions.contract.facts import Fact, Facts, Known, Missing, Why
from functions.contract.requests import Trace
from functions.contract.rules import Rule
from functions.contract.signals import Subject, Trigger, TriggerKind
from functions.evidence import rules, traces
from functions.evidence.bundle import metrics as bundle_metrics
from functions.evidence.bundle import objects as bundle_objects
from functions.evidence.bundle.files import BundleError, Problem, Text, Unreadable, files, read_text, yaml_documents, yaml_lines
from functions.evidence.bundle.objects import BundleObjects, Objects
from functions.evidence.raw import FIRST_YEAR, LAST_YEAR

#: How long before `current` a baseline is taken to be that bundle.yaml and its files give no instant for.
BASELINE_BEFORE = timedelta(hours=1)


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BundleSubject(_Model):
    kind: str = Field(min_length=1)
    name: str = Field(min_length=1)
    namespace: str = ""


class BundleTrigger(_Model):
    kind: TriggerKind = TriggerKind.MANUAL
    phase: str = ""
    subject: BundleSubject | None = None


class BundleFile(_Model):
    """bundle.yaml. Every key has a default."""

    cluster: str = Field(default="bundle", min_length=1, description="Name of the cluster, for the report.")
    trigger: BundleTrigger = Field(default=BundleTrigger(), description="What an event would have said.")
    baseline: datetime | None = Field(default=None, description="The instant that metrics/before shows.")
    current: datetime | None = Field(default=None, description="The instant that metrics/after shows.")
    jobs: tuple[str, ...] | None = Field(default=None, description="What was captured; default: the jobs seen.")
    policy: dict[str, Any] | None = Field(default=None, description="The same keys as the policy file.")


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle, read."""

    path: Path
    cluster: str
    trigger: Trigger
    #: None where nothing is known from before
    baseline: datetime | None
    current: datetime
    #: jobs that were captured
    jobs: frozenset[str]
    #: as in bundle.yaml; the caller makes a policy of it
    policy: Mapping[str, Any] | None
    metrics: bundle_metrics.BundleMetrics
    objects: BundleObjects
    #: the objects as they were at the baseline, where the bundle holds them
    before: BundleObjects | None
    rule_texts: tuple[Text, ...]
    dashboards: tuple[Text, ...]
    alerts: tuple[Text, ...]
    logs: tuple[Text, ...]
    traces: Fact[tuple[Trace, ...]]
    #: parts that were left out
    problems: tuple[Problem, ...]

    def with_lost(self, facts: Facts) -> Facts:
        """The facts, with the dashboard files that could not be read told as lost."""
        lost = tuple(Missing(Why.MALFORMED, str(p), p.path) for p in self.problems if p.path.startswith("dashboards/"))
        held = facts.dashboards
        if not lost:
            return facts
        return replace(facts, dashboards=replace(held, lost=(*held.lost, *lost)) if isinstance(held, Known) else lost[0])

    @classmethod
    def read(cls, path: str | Path, now: datetime | None = None) -> Bundle:
        """Read a directory. Raises BundleError. `now` is `current` where nothing in the bundle tells the instant."""
        root = Path(path)
        try:
            if not root.is_dir():
                raise BundleError(f"{root}: {'not a directory' if root.exists() else 'no such directory'}")
            return _read(root, now or datetime.now(UTC))
        except OSError as error:
            raise BundleError(f"{root}: {error.strerror or error}") from None


def _read(root: Path, now: datetime) -> Bundle:
    about = _about(root)
    after, earlier = bundle_metrics.read(root, "after"), bundle_metrics.read(root, "before")
    baseline, current = _instants(root, about, after.newest, earlier.newest, now)
    objects = bundle_objects.read(root, "kubernetes", skip="kubernetes/before/")
    objects_before = bundle_objects.read(root, "kubernetes/before")
    problems = [*after.problems, *after.unread, *earlier.problems, *earlier.unread, *objects.problems, *objects_before.problems]
    problems += [p for p in (after.target_problem, earlier.target_problem) if p]
    texts = {folder: _texts(root, folder, endings, problems) for folder, endings in _TEXTS.items()}
    seen = [after.holds, earlier.holds, bool(objects.files), bool(objects_before.files), *map(bool, texts.values()), bool(problems)]
    if not any(seen):
        raise BundleError(f"{root}: nothing of a bundle is in it (kubernetes/, metrics/, rules/ …)")
    window = bundle_metrics.Window(after, current) if after.holds else None
    window_before = bundle_metrics.Window(earlier, baseline) if earlier.holds else None
    jobs = frozenset(about.jobs) if about.jobs is not None else frozenset().union(*(w.jobs for w in (window, window_before) if w))
    broken_rules = [p for p in problems if p.path.startswith("rules/")]
    return Bundle(
        path=root,
        cluster=about.cluster,
        trigger=_trigger(about.trigger),
        baseline=baseline if window_before or objects_before.files else None,
        current=current,
        jobs=jobs,
        policy=about.policy,
        metrics=bundle_metrics.BundleMetrics(window_before, window, lambda: _rules(texts["rules"], broken_rules, current)),
        objects=BundleObjects(objects, current, "kubernetes"),
        before=_objects_before(objects_before, baseline),
        rule_texts=texts["rules"],
        dashboards=texts["dashboards"],
        alerts=texts["alerts"],
        logs=texts["logs"],
        traces=_traces(texts["traces"], [p for p in problems if p.path.startswith("traces/")], current),
        problems=tuple(problems),
    )


_TEXTS: Mapping[str, tuple[str, ...]] = {
    "rules": (".yaml", ".yml", ".json"),
    "dashboards": (".json",),
    "alerts": (".json",),
    "logs": (".jsonl", ".json"),
    "traces": (".json",),
}


def _about(root: Path) -> BundleFile:
    path = root / "bundle.yaml"
    if not path.exists() and not path.is_symlink():
        return BundleFile()
    lines: dict[tuple[str, ...], int] = {}
    try:
        text = read_text(root, "bundle.yaml")
        documents = yaml_documents(text)
        lines, repeated = yaml_lines(text) if len(documents) == 1 else ({}, 0)
        if repeated:
            raise Unreadable("a key stands twice", repeated)
        if len(documents) > 1:
            raise Unreadable("more than one document")
        return BundleFile.model_validate((documents[0] if documents else None) or {})
    except Unreadable as error:
        raise BundleError(f"{path}{f':{error.line}' if error.line else ''}: {error}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = tuple(map(str, first["loc"]))
        line = next((found for n in range(len(where), 0, -1) if (found := lines.get(where[:n]))), 0)
        raise BundleError(f"{path}{f':{line}' if line else ''}: {'.'.join(where) or 'the file'}: {first['msg']}") from None


def _instants(root: Path, about: BundleFile, newest: float | None, newest_before: float | None, now: datetime) -> tuple[datetime, datetime]:
    """(baseline, current): as stated, else the newest instant that the files themselves state."""
    for name, time in (("current", about.current), ("baseline", about.baseline)):
        if time is not None and not FIRST_YEAR <= time.year <= LAST_YEAR:
            raise BundleError(f"{root / 'bundle.yaml'}: {name} ({time.isoformat()}) is no time of an observation")
    current = _aware(about.current) or (datetime.fromtimestamp(newest, UTC) if newest is not None else now)
    stated = _aware(about.baseline)
    found = datetime.fromtimestamp(newest_before, UTC) if newest_before is not None else current - BASELINE_BEFORE
    if stated and stated >= current:
        raise BundleError(f"{root / 'bundle.yaml'}: baseline ({stated.isoformat()}) is not before current ({current.isoformat()})")
    return stated or (found if found < current else current - BASELINE_BEFORE), current


def _aware(at: datetime | None) -> datetime | None:
    return at.replace(tzinfo=UTC) if at is not None and at.tzinfo is None else at


def _trigger(raw: BundleTrigger) -> Trigger:
    subject = Subject(raw.subject.kind, raw.subject.name, raw.subject.namespace) if raw.subject else None
    return Trigger(raw.kind, raw.phase, subject)


def _objects_before(objects: Objects, baseline: datetime) -> BundleObjects | None:
    return BundleObjects(objects, baseline, "kubernetes/before") if objects.files or objects.problems else None


def _texts(root: Path, folder: str, endings: tuple[str, ...], problems: list[Problem]) -> tuple[Text, ...]:
    found = []
    for path in files(root, folder, endings, problems):
        try:
            text = read_text(root, path)
            if folder != "logs" and not text.strip():
                raise Unreadable("nothing is in it: the capture failed")
            found.append(Text(path, text))
        except Unreadable as error:
            problems.append(Problem(path, error.line, str(error)))
    return tuple(found)


def _rules(texts: tuple[Text, ...], broken: list[Problem], at: datetime) -> Fact[tuple[Rule, ...]]:
    if broken:
        return Missing(Why.MALFORMED, str(broken[0]), broken[0].path)
    if not texts:
        return Missing(Why.NOT_CONFIGURED, "the bundle has no rules/", "rules")
    found: list[Rule] = []
    for text in texts:
        try:
            found += rules.from_yaml(text.text, text.path)
        except ValueError as error:
            return Missing(Why.MALFORMED, _named(text.path, error), text.path)
    return Known(tuple(found), at, "rules")


def _traces(texts: tuple[Text, ...], broken: list[Problem], at: datetime) -> Fact[tuple[Trace, ...]]:
    if broken:
        return Missing(Why.MALFORMED, str(broken[0]), broken[0].path)
    if not texts:
        return Missing(Why.NOT_CONFIGURED, "the bundle has no traces", "traces")
    found: list[Trace] = []
    for text in texts:
        try:
            found += traces.read(text.text)
        except traces.TraceFormatError as error:
            return Missing(Why.MALFORMED, _named(text.path, error), text.path)
    return Known(tuple(found), at, "traces")


def _named(path: str, error: Exception) -> str:
    message = str(error)
    return message if message.startswith(path) else f"{path}: {message}"
