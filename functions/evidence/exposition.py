"""Prometheus text exposition, read as far as it can be read, with the first line that a real server would reject.

Exporters print what a strict parser refuses: quotes inside label values, text as a value, CRLF, repeated HELP. An
audit needs both sides of that: what the exporter meant to say (`samples`), and that Prometheus stored nothing of it
(`bad`). The reading is made for bodies of many megabytes: the label blocks of a body repeat from metric to metric,
so each distinct block is parsed once and its mapping is shared by all samples that carry it.

What this does not do: fetch anything, or apply target labels (see `stored.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from functions.contract.telemetry import BadLine
from functions.evidence import exposition_grammar as grammar

#: A line longer than this is no honest sample; it is not taken apart, only reported.
LONGEST_LINE = 1_000_000
_SHOWN = 300

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*+")
_BLOCK = re.compile(r'\{[ \t]*+(?:[a-zA-Z_][a-zA-Z0-9_]*+[ \t]*+=[ \t]*+"[^"\\]*+(?:\\.[^"\\]*+)*+"[ \t]*+(?:,?[ \t]*+))*+\}')
_PAIR = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*+)[ \t]*+=[ \t]*+"([^"\\]*+(?:\\.[^"\\]*+)*+)"')
_TAIL = re.compile(r"[ \t]*+([^{ \t\0]++)(?:[ \t]++([0-9]{1,18}))?[ \t]*+")
# A value with stray quotes in it ends at the quote after which the block goes on or ends.
_LOOSE_PAIR = re.compile(
    r'\s*,?\s*(?:"([^"]+)"|([\w.:-]+))\s*(?:=\s*"((?:[^"\\]|\\.|"(?!\s*(?:,\s*"?[A-Za-z_][\w.:-]*"?\s*=\s*"|,?\s*\})))*+)"|(?=[,}]))'
)
_LOOSE_HEAD = re.compile(r"\s*([a-zA-Z_:][\w:.]*)?\s*(\{)?")
_LOOSE_TAIL = re.compile(r"\s*([^\s{#]+)(?:\s+(-?\d+(?:\.\d+)?)(?![\w.]))?")
_TARGET = re.compile(r"^#[ \t]*TARGET(?=[ \t\r]|$)([^\n]*)$", re.MULTILINE)
_TARGET_PAIR = re.compile(r'[\s,]*([A-Za-z_][\w.]*)\s*=\s*"((?:[^"\\]|\\.)*)"')


class Sample(NamedTuple):
    """One sample as printed. `labels` is shared between samples: never changed in place."""

    name: str
    labels: Mapping[str, str]
    value: float
    #: Unix seconds, where the line carries a timestamp
    timestamp: float | None = None
    #: number of the line in the body, from 1
    line: int = 0


@dataclass(slots=True)
class Family:
    """What the comments say about a family. The first statement counts; exporters repeat themselves."""

    type: str = ""
    help: str = ""
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Exposition:
    """One body. `samples` holds everything that could be read, also behind a bad line."""

    samples: tuple[Sample, ...]
    families: Mapping[str, Family]
    #: the first line for which a real server rejects the whole body
    bad: BadLine | None = None
    #: samples that a server had read before it met the bad line (it counts them in scrape_samples_scraped)
    before_bad: int = 0
    #: lines from which no sample could be read, the first few
    unread: tuple[BadLine, ...] = ()

    def label_names(self) -> dict[str, frozenset[str]]:
        """Metric name -> names of the labels seen on it."""
        names: dict[str, set[str]] = {}
        seen: set[tuple[str, int]] = set()
        for sample in self.samples:
            if (key := (sample.name, id(sample.labels))) not in seen:
                seen.add(key)
                names.setdefault(sample.name, set()).update(sample.labels)
        return {name: frozenset(labels) for name, labels in names.items()}


@dataclass(frozen=True, slots=True)
class Section:
    """The lines under one `# TARGET` comment, or (target None) those before the first one."""

    target: Mapping[str, str] | None
    body: str
    #: number, in the file, of the first line of the body
    first_line: int
    #: what is wrong with the TARGET comment itself
    problem: str = ""


def decode(data: bytes) -> str:
    """Text of a body. Bytes that are no UTF-8 survive as lone surrogates, so that the verdict can name them."""
    return data.decode("utf-8", "surrogateescape")


def parse(body: str | bytes) -> Exposition:
    """Read one body. Never raises, whatever the body is."""
    return _Reader(decode(body) if isinstance(body, bytes) else body).read()


def sections(text: str | bytes) -> tuple[Section, ...]:
    """Cut a .prom file at its `# TARGET` comments. A file without one is a single section without a target."""
    text = (decode(text) if isinstance(text, bytes) else text).removeprefix("\ufeff")  # the file's, not the exporter's
    found = list(_TARGET.finditer(text))
    starts = [0, *(min(match.end() + 1, len(text)) for match in found)]
    ends = [*(match.start() for match in found), len(text)]
    out, line = [], 1
    for index, (start, end) in enumerate(zip(starts, ends, strict=True)):
        body, number = text[start:end], line
        line += text.count("\n", start, starts[index + 1] if index < len(found) else end)
        if index == 0:
            if body.strip():
                out.append(Section(None, body, number))
            continue
        header = found[index - 1][1]
        target, problem = _target(header)
        # The comment is ours: where it ends in CRLF, the file was converted and the exporter is not to blame.
        out.append(Section(target, body.replace("\r\n", "\n") if header.endswith("\r") else body, number, problem))
    return tuple(out)


def _target(header: str) -> tuple[dict[str, str], str]:
    pairs: dict[str, str] = {}
    at = 0
    while match := _TARGET_PAIR.match(header, at):
        pairs[match[1]] = grammar.printable(grammar.unescape(match[2]))
        at = match.end()
    rest = grammar.printable(header[at:].strip(" \t\r,"))
    if rest:
        return pairs, f'not label="value": {rest[:80]}'
    return pairs, "" if pairs.get("job") or pairs.get("instance") else "neither job nor instance"


@dataclass(slots=True)
class _Reader:
    text: str
    openmetrics: bool = False
    odd_bytes: bool = False
    samples: list[Sample] = field(default_factory=list)
    families: dict[str, Family] = field(default_factory=dict)
    bad: BadLine | None = None
    before_bad: int = 0
    unread: list[BadLine] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    blocks: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def read(self) -> Exposition:
        self.openmetrics = self.text.rstrip().endswith("# EOF")
        self.odd_bytes = not grammar.valid_utf8(self.text)
        text, size, at, number = self.text, len(self.text), 0, 0
        while at < size:
            number += 1
            end = text.find("\n", at)
            end = size if end < 0 else end
            line = text[at:end]
            if not line or self._plain(line, number):
                at = end + 1
            elif line.lstrip(" \t").startswith("\0"):
                break  # a server takes it for the end of the body
            else:
                stop = self._odd(line, number, at, end)
                number += text.count("\n", at, stop)
                at = stop + 1
        return Exposition(tuple(self.samples), self.families, self.bad, self.before_bad, tuple(self.unread))

    def _plain(self, line: str, number: int) -> bool:
        """The quick way for the lines that nearly all bodies consist of. False: look closer."""
        brace = line.find("{")
        labels: Mapping[str, str] | None
        if brace < 0:
            name, _, tail = line.partition(" ")
            labels = _NO_LABELS
        else:
            close = line.rfind("}") + 1
            name, tail = line[:brace], line[close:]
            block = line[brace:close]
            labels = self.blocks.get(block)
            if labels is None:
                labels = self._block(block)
            if labels is None:
                return False
        if name not in self.names:
            if not _NAME.fullmatch(name):
                return False
            self.names.add(name)
        match = _TAIL.fullmatch(tail)
        if not match or not grammar.NUMBER.fullmatch(match[1]) or (self.openmetrics and match[2]):
            return False
        value = float(match[1])
        if value - value != 0 and match[1][-1].isdigit():
            return False  # out of range
        self.samples.append(Sample(name, labels, value, int(match[2]) / 1000 if match[2] else None, number))
        return True

    def _block(self, block: str) -> Mapping[str, str] | None:
        if len(block) > LONGEST_LINE or not _BLOCK.fullmatch(block) or (self.odd_bytes and not grammar.valid_utf8(block)):
            return None
        pairs = _PAIR.findall(block)
        labels = {name: grammar.unescape(value) for name, value in pairs}
        if len(labels) != len(pairs) or "__name__" in labels:
            return None
        self.blocks[block] = labels
        return labels

    def _odd(self, line: str, number: int, start: int, end: int) -> int:
        """Anything else: comments, blank lines, odd but lawful lines, and faults. Returns where it ends."""
        if len(line) > LONGEST_LINE:
            self._reject(line, number, f"a line of {len(line)} characters")
            return end
        stripped = line.lstrip(" \t")
        try:
            if not stripped:
                return end
            if stripped.startswith("#"):
                self._comment(line)
                return end
            entry = grammar.series(self.text, start, self.openmetrics)
        except grammar.Rejected as error:
            self._loose(line, number, str(error))
            return end
        seconds = float(entry.timestamp) / (1 if self.openmetrics else 1000) if entry.timestamp else None
        self.samples.append(Sample(entry.name, dict(entry.pairs), entry.value, seconds, number))
        return entry.end

    def _comment(self, line: str) -> None:
        try:
            found = grammar.metadata(line, self.openmetrics)
        except grammar.Rejected:
            # what the comment means is still plain: `# TYPE x gauge` with a carriage return behind it
            if loose := _LOOSE_META.match(line):
                self._describe(loose[1], loose[2], loose[3].strip())
            raise
        if found:
            self._describe(*found)

    def _describe(self, word: str, name: str, text: str) -> None:
        family = self.families.setdefault(grammar.printable(name), Family())
        text = grammar.printable(text)
        if word == "HELP":
            family.help = family.help or text.strip().replace("\\n", "\n").replace("\\\\", "\\")
        elif word == "TYPE":
            family.type = family.type or ("" if text in ("untyped", "unknown") else text)
        else:
            family.unit = family.unit or text.strip()

    def _loose(self, line: str, number: int, problem: str) -> None:
        """A line that a server rejects: note why, and keep what it says if a person could read it."""
        self._reject(line, number, problem, unread=False)
        if line.lstrip(" \t").startswith("#"):
            return
        sample = loose_sample(line, number, self.openmetrics)
        if sample is not None:
            self.samples.append(sample)
        elif len(self.unread) < 20:
            self.unread.append(_bad(line, number, problem))

    def _reject(self, line: str, number: int, problem: str, unread: bool = True) -> None:
        if self.bad is None:
            self.bad, self.before_bad = _bad(line, number, problem), len(self.samples)
        if unread and len(self.unread) < 20:
            self.unread.append(_bad(line, number, problem))


_NO_LABELS: Mapping[str, str] = {}
_LOOSE_META = re.compile(r"\s*#\s+(HELP|TYPE|UNIT)\s+([a-zA-Z_:][\w:.]*)([^\n]*)")


def loose_sample(line: str, number: int, openmetrics: bool = False) -> Sample | None:
    """The sample that a person would read in a line that a server rejects; None where there is no number in it."""
    head = _LOOSE_HEAD.match(line)
    assert head is not None  # every part of it is optional
    name, at = head[1] or "", head.end()
    labels: dict[str, str] = {}
    if head[2]:
        while match := _LOOSE_PAIR.match(line, at):
            if match[3] is None:
                name = name or match[1] or ""
            else:
                labels[grammar.printable(match[1] or match[2])] = grammar.printable(grammar.unescape(match[3]))
            at = match.end()
        close = re.compile(r"\s*,?\s*\}").match(line, at)
        if not close:
            return None
        at = close.end()
    tail = _LOOSE_TAIL.match(line, at)
    if not name or not tail or not grammar.NUMBER.fullmatch(tail[1]):
        return None
    seconds = float(tail[2]) / (1 if openmetrics else 1000) if tail[2] else None
    labels.pop("__name__", None)
    return Sample(name, labels, float(tail[1]), seconds, number)


def _bad(line: str, number: int, problem: str) -> BadLine:
    text = line if len(line) <= _SHOWN else line[:_SHOWN] + "…"
    return BadLine(number, grammar.printable(text.rstrip("\r")), problem)


def render(samples: Iterator[Sample] | tuple[Sample, ...], families: Mapping[str, Family] | None = None) -> str:
    """Samples as text exposition (the inverse of `parse`), with HELP and TYPE before a family's first sample."""
    lines: list[str] = []
    described: set[str] = set()
    for sample in samples:
        for name in (sample.name, re.sub(r"_(?:bucket|sum|count|total|created)$", "", sample.name)):
            family = (families or {}).get(name)
            if family and name not in described:
                described.add(name)
                if family.help:
                    lines.append(f"# HELP {_quoted(name)} " + family.help.replace("\\", "\\\\").replace("\n", "\\n"))
                if family.type in grammar.TYPES:
                    lines.append(f"# TYPE {_quoted(name)} {family.type}")
        plain = _NAME.fullmatch(sample.name) is not None
        pairs = [f'{_label(k)}="{grammar.escape(v)}"' for k, v in sample.labels.items()]
        inner = ",".join(pairs if plain else [_quoted(sample.name), *pairs])
        stamp = f" {round(sample.timestamp * 1000)}" if sample.timestamp is not None else ""
        lines.append(f"{sample.name if plain else ''}{'{' + inner + '}' if inner else ''} {_value(sample.value)}{stamp}")
    return "\n".join(lines) + "\n" if lines else ""


def _quoted(name: str) -> str:
    return name if _NAME.fullmatch(name) else f'"{grammar.escape(name)}"'


def _label(name: str) -> str:
    return name if re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name) else f'"{grammar.escape(name)}"'


def _value(value: float) -> str:
    return {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}.get(text := repr(value), text)
