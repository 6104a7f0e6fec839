"""The Kubernetes objects of a bundle, and an `ObjectSource` over them.

What a broken file would have held can't be told from what does not exist, so every kind that it speaks of is unknown;
the other kinds are judged. A bundle without any Pod (or Node, or rule object) did not capture them: no cluster that is
audited has none. Of any other kind, none in the bundle means none in the cluster.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from functions.contract.facts import Fact, Known, Missing, Why
from functions.evidence.bundle.files import Problem, Unreadable, files, json_document, read_bytes, read_text, yaml_documents
from functions.evidence.raw import at, text, texts

Raw = Mapping[str, Any]

#: kinds of which a captured cluster has at least one
_ALWAYS_SOME = frozenset({"Pod", "Node", "PrometheusRule"})
_KIND = re.compile(r"""^[\s{,-]*["']?kind["']?\s*:\s*["']?([A-Z][A-Za-z0-9]*)""", re.MULTILINE)
_KIND_INSIDE = re.compile(r'"kind"\s*:\s*"([A-Z][A-Za-z0-9]*)"')
_TERM = re.compile(r"\s*(!?)\s*([\w./-]+)\s*(?:(==|=|!=)\s*([^,\s]*)|\s(in|notin)\s*\(([^)]*)\))?\s*(?:,|$)")
#: kinds with no namespace of their own (of those that an audit lists)
_CLUSTER_SCOPED = frozenset({"Node", "Namespace", "ResourceSlice", "DeviceClass", "PriorityClass", "PersistentVolume"})


@dataclass(slots=True)
class Objects:
    """Everything under one folder."""

    items: list[Raw] = field(default_factory=list)
    #: kind -> what of it could not be read; the kind "" is any kind
    broken: dict[str, Problem] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    #: kinds of which the bundle says that there is none: empty lists of their own type
    none: set[str] = field(default_factory=set)
    files: int = 0

    def lost(self, problem: Problem, kinds: set[str]) -> None:
        """Note a part that is left out, and which kinds are unknown for it."""
        self.problems.append(problem)
        for kind in kinds or {""}:
            self.broken.setdefault(kind, problem)


def read(root: Path, folder: str, skip: str = "") -> Objects:
    """Read the objects under a folder. Never raises for what is in it."""
    found = Objects()
    unlisted: list[Problem] = []
    for path in files(root, folder, (".yaml", ".yml", ".json"), unlisted):
        if skip and path.startswith(skip):
            continue
        found.files += 1
        try:
            documents = _documents(root, path)
        except Unreadable as error:
            found.lost(Problem(path, error.line, str(error)), _kinds_in(root, path, error.line))
            continue
        for document in documents:
            _take(found, document, path, "")
    for problem in unlisted:
        if not (skip and (problem.path + "/").startswith(skip)):
            found.lost(problem, set())
    return found


def _documents(root: Path, path: str) -> list[Any]:
    content = read_text(root, path)
    if not content.strip():
        raise Unreadable("nothing is in it: the capture failed")
    return [json_document(content)] if path.lower().endswith(".json") else yaml_documents(content)


def _kinds_in(root: Path, path: str, line: int) -> set[str]:
    """Kinds that the text of a broken file speaks of; none where even that can't be read, or where more may have followed.

    `line` is where reading it came to its end. A list or a stream of objects that is cut off there may have held any.
    """
    try:
        data = read_bytes(root, path)[:50_000_000]
    except Unreadable:
        return set()
    if b"\0" in data or data[:2] == b"\x1f\x8b":
        return set()
    text_ = data.decode("utf-8", "replace")
    kinds = {kind.removesuffix("List") for kind in (*_KIND.findall(text_), *_KIND_INSIDE.findall(text_))} - {""}
    cut = line > text_.rstrip().count("\n")
    single = len(kinds) == 1 and re.match(r"\s*(apiVersion:[^\n]*\n)?kind: (?!\w*List\b)", text_) and "\n---" not in text_
    return set() if cut and not single else kinds


def _take(found: Objects, document: Any, path: str, kind: str) -> None:
    """Add the objects of one document. `kind`: what a typed list says its items are."""
    if document is None:
        return
    if not isinstance(document, Mapping):
        found.lost(Problem(path, 0, f"not a Kubernetes object but {type(document).__name__}"), {kind} if kind else set())
        return
    own = text(document.get("kind")) or kind
    items = document.get("items")
    if own.endswith("List") and (isinstance(items, list) or items is None) and "metadata" not in at(document, "spec"):
        of = own.removesuffix("List")
        if not items and of:
            found.none.add(of)
        for item in items or []:
            _take(found, item, path, of)
    elif not own:
        found.lost(Problem(path, 0, "not a Kubernetes object: it has no kind"), set())
    elif not text(at(document, "metadata").get("name")):
        found.lost(Problem(path, 0, f"a {own} without metadata.name"), {own})
    else:
        found.items.append(document if document.get("kind") == own else {**document, "kind": own})


class BundleObjects:
    """An `ObjectSource` over the objects of one folder of a bundle."""

    def __init__(self, objects: Objects, at_: datetime, source: str) -> None:
        self._objects = objects
        self._at = at_
        self._source = source
        self._by_kind: dict[str, list[Raw]] = {}
        for item in objects.items:
            self._by_kind.setdefault(item["kind"], []).append(item)

    @property
    def items(self) -> tuple[Raw, ...]:
        """Every object."""
        return tuple(self._objects.items)

    async def list(self, kind: str, *, namespace: str = "", labels: str = "", fields: str = "") -> Fact[tuple[Raw, ...]]:
        """All objects of a kind."""
        if problem := self._objects.broken.get(kind) or self._objects.broken.get(""):
            return Missing(Why.MALFORMED, str(problem), self._source)
        held = self._by_kind.get(kind, [])
        if not held and kind not in self._objects.none and (kind in _ALWAYS_SOME or not self._objects.items):
            return Missing(Why.NOT_CONFIGURED, f"no {kind} is in the bundle's {self._source}/", self._source)
        found = tuple(raw for raw in held if _selected(raw, namespace, labels, fields))
        return Known(found, self._at, f"{self._source} {kind}")


def _selected(raw: Raw, namespace: str, labels: str, fields: str) -> bool:
    metadata = at(raw, "metadata")
    own_namespace = text(metadata.get("namespace")) or ("" if raw.get("kind") in _CLUSTER_SCOPED else "default")
    if namespace and own_namespace != namespace:
        return False
    return _labelled(texts(metadata.get("labels")), labels) and all(_field(raw, term) for term in fields.split(",") if term.strip())


def _labelled(own: Mapping[str, str], selector: str) -> bool:
    """Whether labels satisfy a selector as kubectl takes it."""
    position = 0
    while position < len(selector):
        match = _TERM.match(selector, position)
        if not match or match.end() == position:
            return False  # an API server would refuse such a selector
        negated, key, operator, value, membership, several = match.groups()
        if membership:
            holds = (own.get(key) in {v.strip() for v in several.split(",")}) == (membership == "in")
        elif operator:
            holds = (own.get(key) == value) == (operator != "!=")
        else:
            holds = (key in own) != bool(negated)
        if not holds:
            return False
        position = match.end()
    return True


def _field(raw: Raw, term: str) -> bool:
    path, operator, wanted = (part.strip() for part in re.split(r"(!=|==|=)", term, maxsplit=1)) if "=" in term else (term.strip(), "=", "")
    *parents, last = path.split(".")
    return (text(at(raw, *parents).get(last)) == wanted) == (operator != "!=")
