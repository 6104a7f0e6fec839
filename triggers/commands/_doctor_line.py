"""One line of what `telltale doctor` found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    OK = "ok"
    #: works, and a person should know
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Line:
    status: Status
    what: str
    detail: str

    @property
    def ok(self) -> bool:
        return self.status in (Status.OK, Status.WARN)
