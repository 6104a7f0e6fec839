"""What the targets of a job explain: a metric that went with its target is not lost.

The schema says how many targets had a name, not which; so a family is explained where no more targets had it than
went down, or went away with a whole workload that nothing replaced.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from functions.checks.metric_rename.families import Family
from functions.contract.facts import Fact, Known
from functions.contract.telemetry import Target

#: Suffixes that controllers add to a Pod's name: template hash and random part, or ordinal.
_POD_SUFFIX = re.compile(r"(-[a-z0-9]{4,10})?-[a-z0-9]{5}$|-\d+$")


@dataclass(frozen=True, slots=True)
class JobTargets:
    """The targets of one job at both instants. `known` is False where nothing is known about them."""

    known: bool
    #: instance -> up, now
    now: Mapping[str, bool]
    #: targets of workloads that have none any more, where no new workload took their place
    vanished: int
    #: targets that were there before, or took a place, and are down now
    down: int
    #: targets up now
    up: int

    def silent(self, has_metrics: bool) -> str:
        """Why the job as a whole can't be judged, or ""."""
        if has_metrics and (not self.known or self.up):
            return ""
        if self.known and self.now and not self.up:
            return "no target of the job is up"
        return "" if has_metrics else "the job has no target any more" if self.known and not self.now else "the job stores nothing any more"

    def explains(self, family: Family) -> str:
        """Why the absence of a family that the whole job lacks is no loss, or ""."""
        if self.known and self.down and family.targets <= self.down:
            return "the targets that had it may be those that are down"
        if self.known and self.vanished and family.targets <= self.vanished:
            return "the workload that had it is gone"
        return ""

    def alive(self, instance: str) -> bool:
        return not self.known or self.now.get(instance, False)

    def overlap(self, old: Family, new: Family) -> bool:
        """Whether some target must have both: more of them together than there are targets."""
        total = self.up if self.known and self.up else max(old.targets, new.targets)
        return old.targets + new.targets > total


def job_targets(job: str, before: Fact[tuple[Target, ...]], now: Fact[tuple[Target, ...]]) -> JobTargets:
    """The targets of one job."""
    if not isinstance(now, Known):
        return JobTargets(False, {}, 0, 0, 0)
    current = [t for t in now.value if t.job == job]
    up = {t.instance: t.up for t in current}
    earlier = [t for t in before.value if t.job == job] if isinstance(before, Known) else []
    had = Counter(_workload(t) for t in earlier if t.up)
    have = {_workload(t) for t in current}
    gone = sum(n for w, n in had.items() if w not in have)
    replaced = bool(have - set(had))
    return JobTargets(True, up, 0 if replaced else gone, sum(not ok for ok in up.values()), sum(up.values()))


def _workload(target: Target) -> tuple[str, str]:
    """Namespace and the Pod's name without its random part; without a Pod the job stands for itself."""
    pod = target.labels.get("pod", "")
    container = target.labels.get("container", "")
    return target.labels.get("namespace", ""), (stem(pod) + "/" + container) if pod else ""


def stem(pod: str) -> str:
    """A Pod's name without what its controllers add to tell it from its siblings."""
    return _POD_SUFFIX.sub("", pod)
