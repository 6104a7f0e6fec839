"""What starts an audit: scopes, triggers, signals and audit requests.

A source (`triggers/*.py`) turns an outside shape into `Signal`s; `functions/intake.py` turns signals into
`AuditRequest`s, one a scope.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class TriggerKind(StrEnum):
    ROLLOUT = "rollout"
    DRAIN = "drain"
    REJOIN = "rejoin"
    KUBERNETES_EVENT = "kubernetes-event"
    ALERT = "alert"
    SCHEDULE = "schedule"
    MANUAL = "manual"


class ScopeError(ValueError):
    """Not a scope."""


@dataclass(frozen=True, slots=True, order=True)
class Scope:
    """`cluster`, `node/NAME`, `namespace/NAME` or `Kind/NAMESPACE/NAME`: the text is the identity."""

    kind: str = "cluster"
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        if self.kind == "cluster":
            return "cluster"
        if self.kind in ("node", "namespace"):
            return f"{self.kind}/{self.name}"
        return f"{self.kind}/{self.namespace}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> Scope:
        parts = text.strip().split("/")
        if not all(parts):
            raise ScopeError(f"{text!r} is not cluster, node/NAME, namespace/NAME or Kind/NAMESPACE/NAME")
        if parts == ["cluster"]:
            return cls()
        if len(parts) == 2 and parts[0] in ("node", "namespace"):
            return cls(parts[0], "", parts[1])
        if len(parts) == 3 and parts[0][0].isupper():
            return cls(*parts)
        raise ScopeError(f"{text!r} is not cluster, node/NAME, namespace/NAME or Kind/NAMESPACE/NAME")


CLUSTER = Scope()


@dataclass(frozen=True, slots=True)
class Subject:
    """The object a trigger is about. `namespace` is empty for cluster-scoped kinds."""

    kind: str
    name: str
    namespace: str = ""

    @property
    def scope(self) -> Scope:
        return Scope("node", "", self.name) if self.kind == "Node" else Scope(self.kind, self.namespace, self.name)

    def as_dict(self) -> dict[str, str]:
        return {"kind": self.kind, "namespace": self.namespace, "name": self.name}


#: How grave a trigger is, by kind and phase ("" for the other phases); see `Trigger.gravity`.
_GRAVITY = {
    (TriggerKind.MANUAL, ""): 8,
    (TriggerKind.ALERT, "firing"): 7,
    (TriggerKind.ROLLOUT, "failed"): 6,
    (TriggerKind.ROLLOUT, "stalled"): 6,
    (TriggerKind.DRAIN, "stalled"): 6,
    (TriggerKind.ROLLOUT, ""): 5,
    (TriggerKind.REJOIN, ""): 5,
    (TriggerKind.DRAIN, ""): 4,
    (TriggerKind.ALERT, ""): 3,
    (TriggerKind.KUBERNETES_EVENT, ""): 2,
    (TriggerKind.SCHEDULE, ""): 1,
}


@dataclass(frozen=True, slots=True)
class Trigger:
    """Why an audit runs. `phase`: rollout started|complete|failed|stalled, drain cordoned|draining|drained|stalled, …"""

    kind: TriggerKind
    phase: str = ""
    subject: Subject | None = None

    @property
    def gravity(self) -> int:
        """Of several triggers that lead to one audit, the gravest is named."""
        return _GRAVITY.get((self.kind, self.phase)) or _GRAVITY[self.kind, ""]

    def as_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {"kind": self.kind.value}
        if self.phase:
            out["phase"] = self.phase
        if self.subject is not None:
            out["subject"] = self.subject.as_dict()
        return out

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Trigger:
        """The inverse of `as_dict`. Raises ValueError or KeyError on anything else."""
        subject = data.get("subject")
        return cls(
            TriggerKind(data["kind"]),
            str(data.get("phase") or ""),
            Subject(str(subject["kind"]), str(subject["name"]), str(subject.get("namespace") or "")) if subject else None,
        )


@dataclass(frozen=True, slots=True)
class Signal:
    """One transition that a source saw.

    `key` is the identity of the transition (object uid, revision and phase; or groupKey, fingerprint, startsAt
    and status): two signals with one key are one signal, however often and by whichever way they arrive.
    `audit` is False for what only opens an episode, fixes a baseline or is remembered for a postmortem.
    """

    key: str
    trigger: Trigger
    scope: Scope
    at: datetime
    audit: bool = True
    #: nothing to settle: audit at once (alerts)
    urgent: bool = False
    #: the instant to compare with: just before the change began
    baseline: datetime | None = None
    #: one line for a person: "rollout of DaemonSet gpu-operator/nvidia-dcgm-exporter complete (3 of 3 Pods)"
    summary: str = ""
    #: small JSON details kept for the summary and the postmortem (labels of an alert, excluded nodes, blocking PDBs)
    detail: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "trigger": self.trigger.as_dict(),
            "scope": str(self.scope),
            "at": self.at.isoformat(),
            "audit": self.audit,
            "urgent": self.urgent,
            "baseline": self.baseline.isoformat() if self.baseline else None,
            "summary": self.summary,
            "detail": dict(self.detail),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Signal:
        """The inverse of `as_dict`."""
        return cls(
            key=data["key"],
            trigger=Trigger.from_dict(data["trigger"]),
            scope=Scope.parse(data["scope"]),
            at=datetime.fromisoformat(data["at"]),
            audit=data["audit"],
            urgent=data["urgent"],
            baseline=datetime.fromisoformat(data["baseline"]) if data.get("baseline") else None,
            summary=data.get("summary", ""),
            detail=data.get("detail", {}),
        )


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """One audit to do: what a claim of due work yields, and what a person asks for."""

    audit: str
    scope: Scope
    trigger: Trigger
    #: the instant to compare with; None: the policy's default look-back
    baseline: datetime | None = None
    due: datetime | None = None
    signals: tuple[Signal, ...] = ()
    attempt: int = 1
    #: how often this was judged before without an answer (its sources were away), and the audit that it follows
    round: int = 0
    follows: str = ""
    #: how the attempt before this one ended, where that was a fault of Telltale's own
    fault: str = ""
    #: when its sources were found back, where it had to wait for them
    back: datetime | None = None
