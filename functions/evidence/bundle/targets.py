"""Scrape targets of a bundle: from `# TARGET` sections, from targets/*.json, and from stored series.

The three say different things about one target and are merged: a section knows the body and `honor_labels`, the
server's own answer knows address, interval and why a scrape failed, and a stored view at least that it is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from functions.contract.telemetry import Target
from functions.evidence.raw import at, instant, items, text, texts
from functions.evidence.stored import Scrape, Store

_PART = re.compile(r"([0-9]{1,15}(?:\.[0-9]*)?|\.[0-9]+)(ms|[smhdwy]?)", re.ASCII)
_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0, "y": 31536000.0}


def seconds(value: object) -> float | None:
    """A Prometheus duration ("15s", "1m30s") or a number of seconds; None for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if abs(value) < 1e15 else None
    held = text(value)
    parts = _PART.findall(held)
    bare = len(parts) > 1 and not all(unit for _, unit in parts)
    if not parts or bare or "".join(map("".join, parts)) != held:
        return None
    return sum(float(number) * _UNITS[unit or "s"] for number, unit in parts)


def from_api(document: Any) -> tuple[Target, ...] | None:
    """Targets in an answer of GET /api/v1/targets; None where it is no such answer."""
    data = at(document, "data") or (document if isinstance(document, Mapping) else {})
    if not isinstance(data.get("activeTargets"), list):
        return None
    return tuple(_api_target(raw) for raw in items(data, "activeTargets"))


def _api_target(raw: Mapping[str, Any]) -> Target:
    labels = texts(raw.get("labels"))
    health = text(raw.get("health"))
    error = text(raw.get("lastError"))
    if health == "unknown" and not error:
        error = "not scraped yet"
    duration = seconds(raw.get("lastScrapeDuration"))
    scraped = instant(raw.get("lastScrape"))
    return Target(
        job=labels.get("job", ""),
        instance=labels.get("instance", ""),
        labels=labels,
        up=health == "up",
        error=error,
        duration=duration if duration else None,
        timeout=seconds(raw.get("scrapeTimeout")),
        interval=seconds(raw.get("scrapeInterval")),
        scraped_at=scraped if scraped and scraped.year > 1 else None,
        url=text(raw.get("scrapeUrl")) or text(raw.get("globalUrl")),
    )


def from_scrapes(scrapes: Sequence[Scrape]) -> tuple[Target, ...]:
    """The state of each target at its newest scrape."""
    newest: dict[frozenset[tuple[str, str]], Scrape] = {}
    for scrape in sorted(scrapes, key=lambda s: s.at):
        newest[frozenset(scrape.target.items())] = scrape
    return tuple(_scraped_target(scrape) for scrape in newest.values())


def _scraped_target(scrape: Scrape) -> Target:
    return Target(
        job=scrape.target.get("job", ""),
        instance=scrape.target.get("instance", ""),
        labels=dict(scrape.target),
        up=scrape.up,
        error=scrape.error,
        samples=scrape.body.before_bad if scrape.body.bad else len(scrape.body.samples),
        duration=scrape.duration,
        scraped_at=datetime.fromtimestamp(scrape.at, UTC),
        honor_labels=scrape.honor_labels,
        process_started=next((s.value for s in scrape.body.samples if s.name == "process_start_time_seconds"), None),
    )


def from_store(store: Store, at_: float) -> tuple[Target, ...]:
    """Targets of a stored view: those of its `up` series; where it has none, the jobs and instances of its series."""

    def labelled(name: str) -> dict[tuple[str, str], float]:
        seen = store.visible(at_, None, lambda n: n == name)
        return {(s.labels.get("job", ""), s.labels.get("instance", "")): samples[-1][1] for _, s, samples in seen}

    samples, kept = labelled("scrape_samples_scraped"), labelled("scrape_samples_post_metric_relabeling")
    durations, started = labelled("scrape_duration_seconds"), labelled("process_start_time_seconds")
    found: dict[tuple[str, str], Target] = {}
    for name, series, values in store.visible(at_, None, lambda _: True):
        key = (series.labels.get("job", ""), series.labels.get("instance", ""))
        if not any(key) or (key in found and name != "up") or (not key[1] and name != "up"):
            continue
        labels = dict(series.labels) if name == "up" else {k: v for k, v in zip(("job", "instance"), key, strict=True) if v}
        found[key] = Target(
            *key,
            labels=labels,
            up=values[-1][1] == 1 if name == "up" else True,
            samples=_whole(samples.get(key)),
            samples_kept=_whole(kept.get(key)),
            duration=durations.get(key),
            process_started=started.get(key),
        )
    return tuple(found.values())


def _whole(value: float | None) -> int | None:
    return int(value) if value is not None and abs(value) < 2**53 else None


def merged(*groups: Iterable[Target]) -> tuple[Target, ...]:
    """Several accounts of the targets as one, the earlier groups believed first.

    Two targets are one where job and instance agree and no label of theirs differs. A target that any account calls
    down is down.
    """
    found: list[Target] = []
    by_key: dict[tuple[str, str], list[int]] = {}
    for group in groups:
        known = {key: list(where) for key, where in by_key.items()}  # targets of one group are never merged with each other
        for target in group:
            key = (target.job, target.instance)
            same = [i for i in known.get(key, []) if _agree(found[i].labels, target.labels)]
            if same:
                found[same[0]] = _one(found[same[0]], target)
            else:
                by_key.setdefault(key, []).append(len(found))
                found.append(target)
    return tuple(found)


def _agree(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return all(other.get(name, value) == value for name, value in one.items())


def _one(first: Target, second: Target) -> Target:
    up = first.up and second.up
    return replace(
        first,
        labels={**second.labels, **first.labels},
        up=up,
        error="" if up else (first.error or second.error),
        samples=first.samples if first.samples is not None else second.samples,
        samples_kept=first.samples_kept if first.samples_kept is not None else second.samples_kept,
        duration=first.duration if first.duration is not None else second.duration,
        timeout=first.timeout or second.timeout,
        interval=first.interval or second.interval,
        scraped_at=first.scraped_at or second.scraped_at,
        url=first.url or second.url,
        honor_labels=first.honor_labels if first.honor_labels is not None else second.honor_labels,
        process_started=first.process_started if first.process_started is not None else second.process_started,
    )
