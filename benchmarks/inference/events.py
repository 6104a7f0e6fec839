"""Release events, from what the catalogue records: per system and version the names that changed and those that went.

A project is a system with all that shares its names (the gateway and its successor, an engine and its consumers). A
project as a whole belongs to the tuning or to the test split, by a hash of its name: words, features and weights are
chosen on the tuning projects, so that a test project brings names, habits and wordings that were never looked at.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from dataclasses import dataclass, field

from functions.knowledge.renames import Kind, Rename, load_renames

_PLAIN = re.compile(r"[a-zA-Z_:][\w:]*")
#: A numbered row stands for this many of its names.
_NUMBERS = ("0", "1", "5")
#: The version of a drawn release that renames nothing.
NO_RENAME = "renames nothing"
#: Systems that share names are one project; any other system is a project of its own.
_PROJECTS = {
    "NVIDIA DCGM": ("DCGM", "dcgm-exporter"),
    "vLLM": ("vLLM", "vLLM consumers"),
    "SGLang": ("SGLang", "SGLang consumers", "SGLang router"),
    "OpenTelemetry": ("OTel semconv", "OTel Collector", "OTel kubeletstats receiver", "OTel->Prometheus"),
    "Kubernetes": ("apiserver", "kubelet", "kubelet/KCM", "KCM", "kube-scheduler", "kube-proxy", "kubernetes", "cAdvisor"),
    "inference gateway": ("GAIE EPP", "llm-d EPP", "llm-d KV cache"),
    "Ray": ("Ray", "Ray Serve"),
}
_PROJECT = {system: project for project, systems in _PROJECTS.items() for system in systems}


@dataclass(frozen=True)
class Event:
    """One release of one system. `vocabulary` are names of the system that have nothing to do with the event."""

    system: str
    version: str
    renamed: tuple[tuple[str, str, float], ...]
    removed: tuple[str, ...]
    vocabulary: tuple[str, ...] = field(repr=False)

    @property
    def project(self) -> str:
        return _PROJECT.get(self.system, self.system)

    @property
    def held_out(self) -> bool:
        """About a third of the projects."""
        return hashlib.sha256(f"telltale/inference/{self.project}".encode()).digest()[0] % 3 == 0


def events() -> list[Event]:
    """All events that have at least one plain rename, and for each system with names enough one release without any."""
    rows = [row for row in load_renames().rows if row.kind in (Kind.METRIC, Kind.REMOVED) and not row.match]
    by_event: dict[tuple[str, str], list[Rename]] = defaultdict(list)
    names: dict[str, set[str]] = defaultdict(set)
    kin: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        by_event[row.system, row.version].append(row)
        for old, new, _ in _pairs(row):
            names[row.system] |= {old, new} - {""}
            if new:
                kin[old].add(new)
                kin[new].add(old)
    found = []
    for (system, version), held in sorted(by_event.items()):
        pairs = {old: (old, new, factor) for row in held for old, new, factor in _pairs(row) if new}
        targets = [new for _, new, _ in pairs.values()]
        # several names folded into one is no rename of one name; the catalogue names those
        plain = tuple(p for p in pairs.values() if targets.count(p[1]) == 1 and p[1] not in pairs)
        removed = tuple(sorted({old for row in held for old, new, _ in _pairs(row) if not new}))
        if plain:
            own = {n for old, new, _ in pairs.values() for n in _relatives(old, kin) | {old, new}} | set(removed)
            found.append(Event(system, version, plain, removed, tuple(unrelated(names[system] - own, kin))))
    for system, held_names in sorted(names.items()):
        vocabulary = tuple(unrelated(held_names, kin))
        if len(vocabulary) >= 8:
            found.append(Event(system, NO_RENAME, (), (), vocabulary))
    return found


def unrelated(names: set[str], kin: dict[str, set[str]]) -> list[str]:
    """One name of each chain: two of them in one world, one dropped and one added, would be a rename by accident."""
    kept: list[str] = []
    seen: set[str] = set()
    for name in sorted(names, key=lambda n: hashlib.sha256(n.encode()).digest()):
        if name not in seen:
            kept.append(name)
            seen |= _relatives(name, kin)
    return sorted(kept)


def _relatives(name: str, kin: dict[str, set[str]]) -> set[str]:
    """Every name that a chain of renames leads to."""
    seen, edge = {name}, [name]
    while edge:
        for other in kin[edge.pop()] - seen:
            seen.add(other)
            edge.append(other)
    return seen


def _pairs(row: Rename) -> list[tuple[str, str, float]]:
    """(old, new, factor) as stored; numbers filled in; nothing for rows with free placeholders."""
    factor = row.factors[0] if row.factors else 1.0
    old, new = (re.sub(r"[.]", "_", name) if row.dotted else name for name in (row.old, row.new))
    numbers = _NUMBERS if "<N>" in old else ("",)
    filled = [(old.replace("<N>", n), new.replace("<N>", n), factor) for n in numbers]
    return [(a, b, f) for a, b, f in filled if _PLAIN.fullmatch(a) and (not b or _PLAIN.fullmatch(b)) and a != b]
