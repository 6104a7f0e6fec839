"""An evidence bundle (docs/bundle.md): a directory that is judged without a cluster, a Prometheus or a Redis.

`Bundle.read` gives both kinds of source over it. A bundle that can't be judged at all is a BundleError of one line; a
broken part is left out and makes the fact that it belongs to `Missing(malformed)`, with file and line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from functions.contract.facts import Fact, Known, Missing, Why
from functions.contract.requests import Trace
from functions.contract.rules import Rule
from functions.contract.signals import Subject, Trigger, TriggerKind
from functions.evidence import bundle_metrics, rules, traces
from functions.evidence.bundle_files import (
    BundleError,
    Problem,
    Text,
    Unreadable,
    files,
    json_document,
    read_bytes,
    read_text,
    yaml_documents,
)

Raw = Mapping[str, Any]


class _Subject(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: str
    name: str
    namespace: str = ""


class _Trigger(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: TriggerKind = TriggerKind.MANUAL
    phase: str = ""
    subject: _Subject | None = None


class _About(BaseModel):
    model_config = ConfigDict(extra="forbid")
    cluster: str = "bundle"
    trigger: _Trigger = _Trigger()
    baseline: datetime | None = None
    current: datetime | None = None
    jobs: tuple[str, ...] | None = None
    policy: dict[str, Any] | None = None


class BundleObjects:
    """An `ObjectSource` over the objects of a bundle."""

    def __init__(self, objects: tuple[Raw, ...], problem: Problem | None, at: datetime, source: str) -> None:
        self._objects = objects
        self._problem = problem
        self._at = at
        self._source = source

    async def list(self, kind: str, *, namespace: str = "", labels: str = "", fields: str = "") -> Fact[tuple[Raw, ...]]:
        """All objects of a kind. What was in a file that can't be read might be of any kind, so nothing is known then."""
        if self._problem:
            return Missing(Why.MALFORMED, str(self._problem), self._source)
        found = [o for o in self._objects if o.get("kind") == kind and _selected(o, namespace, labels, fields)]
        return Known(tuple(found), self._at, f"{self._source} {kind}")


def _selected(raw: Raw, namespace: str, labels: str, fields: str) -> bool:
    metadata = raw["metadata"]
    if namespace and metadata.get("namespace") != namespace:
        return False
    own = metadata.get("labels") or {}
    for term in filter(None, labels.split(",")):
        key, equals, value = term.partition("=")
        if key not in own or (equals and own[key] != value.lstrip("=")):
            return False
    for term in filter(None, fields.split(",")):
        path, _, wanted = term.partition("=")
        held: Any = raw
        for part in path.split("."):
            held = held.get(part) if isinstance(held, Mapping) else None
        if str(held or "") != wanted:
            return False
    return True


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle, read."""

    path: Path
    cluster: str
    trigger: Trigger
    baseline: datetime | None
    current: datetime
    #: jobs that were captured
    jobs: frozenset[str]
    #: as in bundle.yaml; the caller makes a policy of it
    policy: Mapping[str, Any] | None
    metrics: bundle_metrics.BundleMetrics
    objects: BundleObjects
    before: BundleObjects | None
    rule_texts: tuple[Text, ...]
    dashboards: tuple[Text, ...]
    alerts: tuple[Text, ...]
    traces: Fact[tuple[Trace, ...]]
    problems: tuple[Problem, ...] = field(default=())

    @classmethod
    def read(cls, path: str | Path) -> Bundle:
        """Read a directory. Raises BundleError."""
        root = Path(path)
        if not root.is_dir():
            raise BundleError(f"{root}: {'not a directory' if root.exists() else 'no such directory'}")
        about = _about(root)
        after, earlier = bundle_metrics.read(root, "after"), bundle_metrics.read(root, "before")
        current = about.current or _instant(after.newest) or datetime.now(UTC)
        baseline = about.baseline or _instant(earlier.newest)
        problems: list[Problem] = []
        objects, broken = _objects(root, "kubernetes", problems, skip="kubernetes/before/")
        before, broken_before = _objects(root, "kubernetes/before", problems)
        rule_texts = _texts(root, "rules", (".yaml", ".yml", ".json"), problems)
        dashboards = _texts(root, "dashboards", (".json",), problems)
        has_before = bool(earlier.files or earlier.targets) and baseline is not None
        if not (after.files or after.targets or earlier.files or objects or broken or rule_texts or dashboards or problems):
            raise BundleError(f"{root}: nothing of a bundle is in it (kubernetes/, metrics/, rules/ …)")
        window = bundle_metrics.Window(after, current) if after.files or after.targets else None
        window_before = bundle_metrics.Window(earlier, baseline) if has_before and baseline else None
        jobs = frozenset(about.jobs) if about.jobs is not None else (window.jobs if window else frozenset())
        return cls(
            root,
            about.cluster,
            _trigger(about.trigger),
            baseline if window_before else None,
            current,
            jobs,
            about.policy,
            bundle_metrics.BundleMetrics(window_before, window, lambda: _rules(rule_texts, current)),
            BundleObjects(objects, broken, current, "kubernetes"),
            BundleObjects(before, broken_before, baseline or current, "kubernetes/before") if before or broken_before else None,
            rule_texts,
            dashboards,
            _texts(root, "alerts", (".json",), problems),
            _traces(root, current),
            tuple(problems),
        )


def _about(root: Path) -> _About:
    if not (root / "bundle.yaml").exists():
        return _About()
    try:
        documents = yaml_documents(read_text(root, "bundle.yaml"))
        about = _About.model_validate((documents[0] if documents else None) or {})
    except Unreadable as error:
        raise BundleError(f"{root / 'bundle.yaml'}{f':{error.line}' if error.line else ''}: {error}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise BundleError(f"{root / 'bundle.yaml'}: {'.'.join(map(str, first['loc'])) or 'the file'}: {first['msg']}") from None
    return about.model_copy(update={"baseline": _aware(about.baseline), "current": _aware(about.current)})


def _aware(at: datetime | None) -> datetime | None:
    return at.replace(tzinfo=UTC) if at is not None and at.tzinfo is None else at


def _instant(at: float | None) -> datetime | None:
    return datetime.fromtimestamp(at, UTC) if at is not None else None


def _trigger(raw: _Trigger) -> Trigger:
    subject = Subject(raw.subject.kind, raw.subject.name, raw.subject.namespace) if raw.subject else None
    return Trigger(raw.kind, raw.phase, subject)


def _objects(root: Path, folder: str, problems: list[Problem], skip: str = "") -> tuple[tuple[Raw, ...], Problem | None]:
    found: list[Raw] = []
    broken: Problem | None = None
    for path in files(root, folder, (".yaml", ".yml", ".json"), problems):
        if skip and path.startswith(skip):
            continue
        try:
            documents = [json_document(read_bytes(root, path))] if path.lower().endswith(".json") else yaml_documents(read_text(root, path))
            for document in documents:
                found += _flat(document)
        except Unreadable as error:
            problem = Problem(path, error.line, str(error))
            problems.append(problem)
            broken = broken or problem
    return tuple(found), broken


def _flat(document: Any) -> list[Raw]:
    """Objects of a document; raises Unreadable where it holds anything else."""
    if document is None:
        return []
    if not isinstance(document, Mapping) or not isinstance(document.get("kind"), str):
        raise Unreadable("not a Kubernetes object (no kind)")
    if document["kind"].endswith("List") and isinstance(document.get("items"), list):
        kind = document["kind"].removesuffix("List")
        return [o for item in document["items"] for o in _flat({"kind": kind, **item} if isinstance(item, Mapping) else item)]
    metadata = document.get("metadata")
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str):
        raise Unreadable(f"a {document['kind']} without metadata.name")
    return [document]


def _texts(root: Path, folder: str, endings: tuple[str, ...], problems: list[Problem]) -> tuple[Text, ...]:
    found = []
    for path in files(root, folder, endings, problems):
        try:
            found.append(Text(path, read_text(root, path)))
        except Unreadable as error:
            problems.append(Problem(path, error.line, str(error)))
    return tuple(found)


def _rules(texts: tuple[Text, ...], at: datetime) -> Fact[tuple[Rule, ...]]:
    found: list[Rule] = []
    for text in texts:
        try:
            found += rules.from_yaml(text.text, text.path)
        except ValueError as error:
            return Missing(Why.MALFORMED, str(error), text.path)
    return Known(tuple(found), at, "rules")


def _traces(root: Path, at: datetime) -> Fact[tuple[Trace, ...]]:
    problems: list[Problem] = []
    texts = _texts(root, "traces", (".json",), problems)
    if problems:
        return Missing(Why.MALFORMED, str(problems[0]), problems[0].path)
    if not texts:
        return Missing(Why.NOT_CONFIGURED, "the bundle has no traces", "traces")
    found: list[Trace] = []
    for text in texts:
        try:
            found += traces.read(text.text)
        except traces.TraceFormatError as error:
            return Missing(Why.MALFORMED, f"{text.path}: {error}", text.path)
    return Known(tuple(found), at, "traces")
