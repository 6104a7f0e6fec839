"""What a channel is given and what it answers. Imports nothing of any service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

Ref = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message, redacted. `kind`: summary, update, resolved or postmortem."""

    kind: str
    audit: str
    scope: str
    #: the headline, what is broken, and the details that belong in a thread; Markdown
    title: str
    lead: str
    details: str
    #: stays the same however often the message is sent
    key: str
    #: somebody has to look, also where an earlier message is edited
    loud: bool = False
    #: the audit's report, for tools
    report: Mapping[str, Any] | None = None

    @property
    def text(self) -> str:
        """All of it."""
        if self.kind == "postmortem":
            return self.details  # a document with a title of its own
        return "\n\n".join(part for part in (f"**{self.title}**" if self.title else "", self.lead, self.details) if part)


@dataclass(frozen=True, slots=True)
class Delivered:
    """It has arrived. `ref`: what the channel needs to edit it later."""

    ref: Ref | None = None


@dataclass(frozen=True, slots=True)
class Retry:
    """It may arrive later. `after`: seconds, where the service said so; `progress`: what has arrived of it so far."""

    why: str
    after: float | None = None
    progress: Ref | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """It will never arrive."""

    why: str


Result = Delivered | Retry | Refused


class Channel(Protocol):
    """One place to post to. It never raises for a fault of the service."""

    async def deliver(self, message: Outgoing, ref: Ref | None, progress: Ref | None) -> Result:
        """Post, or edit what `ref` names. `progress`: what an earlier attempt at this message got done ({}: nothing known)."""
        ...

    async def close(self) -> None: ...
