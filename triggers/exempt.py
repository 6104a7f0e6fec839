"""Whose changes start nothing: Knative's own machinery, Telltale's, and what the policy exempts.

Every namespace that comes or goes replaces Knative's adapters (measured), and auditing our own rollouts would make us our
own best customer. Workloads that people run *on* Knative are not exempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from functions.contract.signals import Subject

_OWN = "telltale"
_OWN_LABELS = ("app.kubernetes.io/name", "app.kubernetes.io/part-of", "app.kubernetes.io/instance")
_NAMESPACES = ("knative-eventing", "knative-serving", "knative-operator", "kourier-system")
#: Deployments that Knative makes for sources
_ADAPTERS = ("apiserversource-", "pingsource-mt-adapter")
#: carried by adapters, which live in the namespace of their source
_ADAPTER_LABEL_PREFIX = "eventing.knative.dev/source"
_ADAPTER_OWNERS = ("sources.knative.dev/", "eventing.knative.dev/", "messaging.knative.dev/", "flows.knative.dev/", "sinks.knative.dev/")
_SERVICE_LABEL = "serving.knative.dev/service"


@dataclass(frozen=True, slots=True)
class Exempt:
    """What the policy adds: globs of namespaces and of Kind/namespace/name."""

    namespaces: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()

    def covers(self, raw: Mapping[str, Any]) -> bool:
        """Whether this object, or a Pod by what it inherits from its workload, starts nothing."""
        metadata = raw["metadata"]
        labels, owners = metadata.get("labels") or {}, metadata.get("ownerReferences") or ()
        if any(labels.get(name) == _OWN for name in _OWN_LABELS):
            return True
        if str(labels.get(_SERVICE_LABEL, "")).split("-")[0] == _OWN:
            return True
        if any(name.startswith(_ADAPTER_LABEL_PREFIX) for name in labels):
            return True
        if any(str(owner.get("apiVersion", "")).startswith(_ADAPTER_OWNERS) for owner in owners):
            return True
        subject = Subject(str(raw.get("kind", "")), metadata.get("name", ""), metadata.get("namespace", ""))
        return self.names(subject)

    def names(self, subject: Subject) -> bool:
        """The same for an object of which only the name is known."""
        if subject.kind == "Node":
            return False
        if subject.name == _OWN or subject.name.startswith((f"{_OWN}-", *_ADAPTERS)):
            return True
        text = f"{subject.kind}/{subject.namespace}/{subject.name}"
        return _any(subject.namespace, (*_NAMESPACES, *self.namespaces)) or _any(text, self.workloads)


def _any(text: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)
