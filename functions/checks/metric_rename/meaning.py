"""Changes of meaning under an unchanged name: data cannot show them, so the catalogue and the versions must.

A change is reported where the image behind the job's targets went from a version before it to one with it. Where
versions can't be told, nothing is claimed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from functions.checks.metric_rename.findings import Context, Pair, rows_text
from functions.contract.cluster import Pod
from functions.contract.facts import Fact, Known
from functions.contract.findings import Evidence, Finding, Severity, Subject
from functions.contract.telemetry import Target
from functions.knowledge.renames import Catalogue, Kind

#: Systems whose images are not named as the system is.
_IMAGES = {"otel collector": "opentelemetry-collector", "dcgm": "dcgm"}


def meaning_changed(
    pairs: Iterable[Pair],
    catalogue: Catalogue | None,
    context: Context,
    targets: tuple[Fact[tuple[Target, ...]], Fact[tuple[Target, ...]]],
    pods: tuple[Fact[tuple[Pod, ...]], Fact[tuple[Pod, ...]]],
) -> list[Finding]:
    """`targets` and `pods` are (before, now)."""
    if catalogue is None:
        return []
    found: dict[tuple[str, str], Finding] = {}
    for pair in pairs:
        if pair.loss:
            continue
        for row in catalogue.same_name(Kind.MEANING, pair.was.name):
            crossed = _crossed(row.system, row.version, _images(pair.job, targets[0], pods[0]), _images(pair.job, targets[1], pods[1]))
            if crossed is None:
                continue
            finding = Finding(
                code="metric-rename/meaning-changed",
                title=f"{pair.was.name} means something else now",
                observed=f"job {pair.job} went from {crossed[0]} to {crossed[1]}: {row.note} ({rows_text([row])})",
                expected="the meaning that the queries were written for",
                hint="Judge each query that is listed here by the new meaning.",
                subject=Subject(metric=pair.was.name),
                severity=Severity.INFO,
                evidence=(Evidence("kubernetes", f"image behind the targets of job {pair.job}", f"{crossed[0]} → {crossed[1]}"),),
            )
            impact = context.users.of(pair.now.names, frozenset({pair.job}))
            found[pair.was.name, row.version] = context.users.weigh(finding, impact)
    return list(found.values())


def _images(job: str, targets: Fact[tuple[Target, ...]], pods: Fact[tuple[Pod, ...]]) -> set[str]:
    """Images of the containers that serve a job's targets."""
    if not isinstance(targets, Known) or not isinstance(pods, Known):
        return set()
    by_name = {(pod.namespace, pod.name): pod for pod in pods.value}
    found: set[str] = set()
    for target in targets.value:
        pod = by_name.get((target.labels.get("namespace", ""), target.labels.get("pod", "")))
        if target.job == job and pod:
            container = target.labels.get("container", "")
            found |= {c.image for c in pod.containers if not container or c.name == container}
    return found


def _crossed(system: str, version: str, before: set[str], now: set[str]) -> tuple[str, str] | None:
    """The (old, new) images between which the change lies."""
    part = _IMAGES.get(system.lower(), re.sub(r"[ _]", "-", system.lower()))
    change = _numbers(version)
    for old in sorted(i for i in before if part in i):
        for new in sorted(i for i in now if part in i):
            a, b = _numbers(_tag(old)), _numbers(_tag(new))
            if change and a and b and a < change <= b:
                return old, new
    return None


def _tag(image: str) -> str:
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]


def _numbers(text: str) -> tuple[int, ...]:
    """A version as numbers: `4.5.1-4.8.0-ubi9` is (4, 5, 1, 4, 8, 0)."""
    found = re.match(r"v?(\d+(?:\.\d+)*)(?:-(\d+(?:\.\d+)+))?", text)
    return tuple(int(n) for part in found.groups() if part for n in part.split(".")) if found else ()
