"""The metrics of a bundle: .prom files read into windows, and a `MetricSource` that answers over them.

A window that a broken, empty or cut off file belongs to answers nothing: what the file would have held can't be told
from what is gone, and a missing series is a finding. A single line of a stored view that can't be read is a lost part.
Rules come from texts; `functions/evidence/rules.py` reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from functions.contract.facts import Fact, Known, Missing, Why
from functions.contract.rules import Matcher, Rule, Selector, SelectorCount
from functions.contract.telemetry import Body, Row, Target
from functions.evidence.bundle import targets as bundle_targets
from functions.evidence.bundle.files import Problem, Unreadable, files, json_document, read_bytes, read_text
from functions.evidence.exposition import Exposition, Family, Section, parse, sections
from functions.evidence.questions import Question, matches
from functions.evidence.raw import instant
from functions.evidence.sources import Metadata
from functions.evidence.stored import Scrape, Store

#: Unix seconds of the year 9000; a later timestamp is in another unit.
_LATEST = 221_845_392_000
#: keys of a TARGET comment that are no labels
_KEYS = frozenset({"honor_labels", "up", "error", "duration", "scraped_at"})


@dataclass(slots=True)
class Reading:
    """The .prom files of one window as they stand, before the window's instant is known."""

    name: str
    #: (target section, its body, file) and (None, body, file) for a stored view
    parts: list[tuple[Section, Exposition, str]] = field(default_factory=list)
    targets: tuple[Target, ...] | None = None
    problems: list[Problem] = field(default_factory=list)
    #: lines of a stored view that could not be read; they cost that line only
    unread: list[Problem] = field(default_factory=list)
    files: int = 0
    target_problem: Problem | None = None

    @property
    def holds(self) -> bool:
        """Whether there is anything of the window in the bundle."""
        return bool(self.parts or self.files or self.problems or self.targets is not None or self.target_problem)

    @property
    def newest(self) -> float | None:
        """The newest instant that the files themselves state."""
        stated = [t.timestamp() for s, _, _ in self.parts if s.target and (t := instant(s.target.get("scraped_at")))]
        stated += [s.timestamp for section, body, _ in self.parts if not section.target for s in body.samples if s.timestamp is not None]
        return max((at for at in stated if 0 <= at < _LATEST), default=None)


def read(root: Path, name: str) -> Reading:
    """Read metrics/NAME/ and targets/NAME.json."""
    reading = Reading(name)
    for path in files(root, f"metrics/{name}", (".prom",), reading.problems):
        reading.files += 1
        try:
            data = read_bytes(root, path)
            if data[:2] == b"\x1f\x8b":
                raise Unreadable("compressed: not an exposition")
            if data[:2] in (b"\xff\xfe", b"\xfe\xff"):  # what a shell on Windows writes
                data = read_text(root, path).encode()
        except Unreadable as error:
            reading.problems.append(Problem(path, error.line, str(error)))
            continue
        held = sections(data)
        before = len(reading.parts)
        for section in held:
            _read_section(reading, section, path)
        if problem := _damage(data, reading.parts[before:], path):
            reading.problems.append(problem)
    path = f"targets/{name}.json"
    if (root / path).exists() or (root / path).is_symlink():
        try:
            reading.targets = bundle_targets.from_api(json_document(read_bytes(root, path)))
            if reading.targets is None:
                raise Unreadable("not an answer of /api/v1/targets")
        except Unreadable as error:
            reading.target_problem = Problem(path, error.line, str(error))
    return reading


def _read_section(reading: Reading, section: Section, path: str) -> None:
    header = section.first_line - 1
    if section.target is not None:
        problem = section.problem or _key_problem(section.target)
        if problem:
            reading.problems.append(Problem(path, header, f"# TARGET: {problem}"))
            return
    body = parse(section.body)
    reading.parts.append((section, body, path))
    if section.target is None:
        reading.unread += [Problem(path, section.first_line + bad.number - 1, bad.problem) for bad in body.unread]


def _damage(data: bytes, parts: Sequence[tuple[Section, Exposition, str]], path: str) -> Problem | None:
    """What shows that a file is not what was captured: nothing is in it, or it ends in the middle of a line."""
    if all(section.target is None and not body.samples for section, body, _ in parts):
        unread = next((bad for _, body, _ in parts for bad in body.unread), None)
        if unread:
            return Problem(path, unread.number, f"not an exposition: {unread.problem}")
        if not any(body.families for _, body, _ in parts):
            return Problem(path, 0, "nothing is in it: the capture failed")
    if parts and not data.endswith(b"\n") and data.strip():
        section, body, _ = parts[-1]
        last = section.body.count("\n") + 1
        if broken := next((bad for bad in (*body.unread, *([body.bad] if body.bad else [])) if bad.number == last), None):
            return Problem(path, section.first_line + last - 1, f"the file is cut off: {broken.problem}")
    return None


def _key_problem(target: Mapping[str, str]) -> str:
    for key, allowed in (("honor_labels", ("true", "false")), ("up", ("0", "1"))):
        if target.get(key, allowed[0]) not in allowed:
            return f"{key} must be {' or '.join(allowed)}"
    if "duration" in target and bundle_targets.seconds(target["duration"]) is None:
        return "duration must be seconds"
    return "scraped_at must be an RFC 3339 time" if "scraped_at" in target and instant(target["scraped_at"]) is None else ""


class Window:
    """One window with its instant: scrapes, stored series, targets."""

    def __init__(self, reading: Reading, at: datetime) -> None:
        self.reading = reading
        self.at = at.timestamp()
        self.source = f"metrics/{reading.name}"

    @property
    def problem(self) -> Problem | None:
        """Why nothing can be said about what is absent from this window."""
        return self.reading.problems[0] if self.reading.problems else None

    @cached_property
    def scrapes(self) -> tuple[Scrape, ...]:
        found = [self._scrape(section, body, path) for section, body, path in self.reading.parts if section.target is not None]
        return tuple(self._as_the_server_says(found))

    def _scrape(self, section: Section, body: Exposition, path: str) -> Scrape:
        keys = section.target or {}
        stated = instant(keys.get("scraped_at"))
        up, error = keys.get("up", "1") == "1", keys.get("error", "")
        if up and body.bad:
            up, error = False, f"{path}:{section.first_line + body.bad.number - 1}: {body.bad.problem}"
        return Scrape(
            target={k: v for k, v in keys.items() if k not in _KEYS and v},
            honor_labels=keys.get("honor_labels", "false") == "true",
            body=body,
            at=stated.timestamp() if stated else self.at,
            up=up,
            error=error if not up else "",
            duration=bundle_targets.seconds(keys["duration"]) if "duration" in keys else None,
            origin=f"{path}:{section.first_line}",
            size=len(section.body),
        )

    def _as_the_server_says(self, scrapes: list[Scrape]) -> Iterable[Scrape]:
        """A body that was copied from a target whose newest scrape failed was never stored."""
        down = {(t.job, t.instance): t.error for t in self.reading.targets or () if not t.up and t.error and t.error != "not scraped yet"}
        newest = {key: max(s.at for s in scrapes if self._key(s) == key) for key in down if any(self._key(s) == key for s in scrapes)}
        stated = {id(section.target) for section, _, _ in self.reading.parts if section.target and "up" in section.target}
        sections_ = [section for section, _, _ in self.reading.parts if section.target is not None]
        for scrape, section in zip(scrapes, sections_, strict=True):
            key = self._key(scrape)
            if scrape.up and scrape.at == newest.get(key) and id(section.target) not in stated:
                yield replace(scrape, up=False, error=down[key])
            else:
                yield scrape

    @staticmethod
    def _key(scrape: Scrape) -> tuple[str, str]:
        return scrape.target.get("job", ""), scrape.target.get("instance", "")

    @cached_property
    def store(self) -> Store:
        store = Store(self.at)
        store.add_scrapes(self.scrapes)
        for section, body, _ in self.reading.parts:
            if section.target is None:
                store.add_stored(body.samples)
        return store

    @cached_property
    def targets(self) -> tuple[Target, ...]:
        stored = any(section.target is None for section, _, _ in self.reading.parts)
        groups = [bundle_targets.from_scrapes(self.scrapes), self.reading.targets or ()]
        return bundle_targets.merged(*groups, bundle_targets.from_store(self.store, self.at) if stored else ())

    @cached_property
    def bodies(self) -> tuple[Body, ...]:
        return tuple(
            Body(
                job=s.target.get("job", ""),
                instance=s.target.get("instance", ""),
                target=s.target,
                samples=len(s.body.samples),
                bad=s.body.bad,
                scraped_at=datetime.fromtimestamp(s.at, UTC),
                size=s.size,
                labels=s.body.label_names(),
                origin=s.origin,
            )
            for s in self.scrapes
        )

    @cached_property
    def metadata(self) -> Mapping[tuple[str, str], Metadata]:
        found: dict[tuple[str, str], Family] = {}
        for section, body, _ in self.reading.parts:
            job = (section.target or {}).get("job", "")
            for name, family in body.families.items():
                known = found.setdefault((job, name), Family())
                known.type, known.help, known.unit = known.type or family.type, known.help or family.help, known.unit or family.unit
        return {key: Metadata(f.type, f.help, f.unit) for key, f in found.items()}

    @cached_property
    def jobs(self) -> frozenset[str]:
        seen = {t.job for t in self.targets} | {s.labels.get("job", "") for stored in self.store.by_name.values() for s in stored}
        return frozenset(seen - {""})


class BundleMetrics:
    """A `MetricSource` over the two windows of a bundle. An instant belongs to the window it is nearer to."""

    def __init__(self, before: Window | None, after: Window | None, rules: Callable[[], Fact[tuple[Rule, ...]]]) -> None:
        self.before = before
        self.after = after
        self._rules = rules

    def window(self, at: datetime) -> Window | Missing:
        """The window that shows an instant, if its metrics are there and whole."""
        window = self._nearest(at)
        if window and window.problem:
            return Missing(Why.MALFORMED, str(window.problem), window.source)
        if window is None or not window.reading.files:
            name = window.source if window else "metrics/after"
            return Missing(Why.NOT_CONFIGURED, f"the bundle has no {name}", name)
        return window

    def _nearest(self, at: datetime) -> Window | None:
        moment = at.timestamp()
        if self.before and (abs(moment - self.before.at) < abs(moment - self.after.at) if self.after else moment <= self.before.at):
            return self.before
        return self.after

    async def ask(self, question: Question, at: datetime) -> Fact[tuple[Row, ...]]:
        """Answer one question at an instant."""
        window = self.window(at)
        if isinstance(window, Missing):
            return window
        rows = tuple(row for asked in question.by_reach() for row in _answer(window.store, asked, at))
        lost = tuple(Missing(Why.MALFORMED, str(problem), window.source) for problem in window.reading.unread)
        return Known(rows, at, f"{window.source}: {question.shown}", lost=lost)

    async def count_selectors(self, selectors: Sequence[Selector], at: datetime) -> Fact[tuple[SelectorCount, ...]]:
        """How many series each selector selects, by job."""
        window = self.window(at)
        if isinstance(window, Missing):
            return window
        counts: list[SelectorCount] = []
        for selector in selectors:
            by_job: dict[str, int] = {}
            name_matchers = [m for m in selector.matchers if m.label == "__name__"]
            others = [m for m in selector.matchers if m.label != "__name__"]

            def wanted(name: str, selector: Selector = selector, matchers: list[Matcher] = name_matchers) -> bool:
                return (selector.name is None or name == selector.name) and all(matches(m, name) for m in matchers)

            for _, series, _ in window.store.visible(at.timestamp(), None, wanted):
                if all(matches(m, series.labels.get(m.label, "")) for m in others):
                    job = series.labels.get("job", "")
                    by_job[job] = by_job.get(job, 0) + 1
            counts.append(SelectorCount(selector, by_job))
        return Known(tuple(counts), at, window.source)

    async def targets(self, at: datetime) -> Fact[tuple[Target, ...]]:
        """The scrape targets of the window."""
        window = self._nearest(at)
        if window and window.reading.target_problem:
            return Missing(Why.MALFORMED, str(window.reading.target_problem), window.reading.target_problem.path)
        if window and not window.problem and window.reading.targets is not None:
            return Known(window.targets, at, f"{window.source}, targets/{window.reading.name}.json")
        whole = self.window(at)
        return whole if isinstance(whole, Missing) else Known(whole.targets, at, whole.source)

    async def metadata(self, at: datetime) -> Fact[Mapping[tuple[str, str], Metadata]]:
        """What HELP, TYPE and UNIT say."""
        window = self.window(at)
        return window if isinstance(window, Missing) else Known(window.metadata, at, window.source)

    async def rules(self) -> Fact[tuple[Rule, ...]]:
        """The rules in rules/ and in PrometheusRule objects."""
        return self._rules()

    async def bodies(self, at: datetime) -> Fact[tuple[Body, ...]]:
        """The raw bodies of the window's sections."""
        window = self.window(at)
        if isinstance(window, Missing):
            return window
        if not window.bodies:
            return Missing(Why.NOT_CONFIGURED, f"{window.source} is a stored view: raw bodies are not in it", window.source)
        return Known(window.bodies, at, window.source)


def _answer(store: Store, question: Question, at: datetime) -> tuple[Row, ...]:
    seen = store.visible(at.timestamp(), float(question.over[1]) if question.over else None, question.concerns)
    return question.answer(({**series.labels, "__name__": name}, samples) for name, series, samples in seen)
