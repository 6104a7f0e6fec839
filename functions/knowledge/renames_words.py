"""General words of metric names: units, type words, fillers and synonyms, for the likeness of two names.

Not a catalogue: no metric name is in it, so that what is inferred with it rests on the data alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

import yaml
from pydantic import BaseModel, ConfigDict, Field


class _Same(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    source: str = Field(min_length=1)
    words: tuple[tuple[str, ...], ...]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    source: str = Field(min_length=1)
    units: dict[str, tuple[str, float]]
    types: tuple[str, ...]
    fillers: tuple[str, ...]
    qualifiers: tuple[str, ...]
    stops: tuple[str, ...]
    synonyms: tuple[_Same, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """A name as it is read: its words in order (synonyms resolved, unit and type words taken away), and its unit."""

    words: tuple[str, ...]
    #: the words as they are spelled, lower-cased, nothing taken away
    raw: tuple[str, ...]
    #: "time", "data" …, or "" where the name tells none
    quantity: str = ""
    scale: float = 1.0


#: `vGPU` is one word, `maxGPU` two
_WORD = re.compile(r"[a-z]?[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@dataclass(frozen=True, slots=True)
class Words:
    units: Mapping[str, tuple[str, float]]
    types: frozenset[str]
    fillers: frozenset[str]
    same: Mapping[str, str]
    qualifiers: frozenset[str]
    #: words of sentences that say nothing of what is measured
    stops: frozenset[str]

    def read(self, name: str) -> Reading:
        """Split a name and take it apart. A unit counts only at the end, before type words."""
        raw = tuple(word.lower() for word in _WORD.findall(name))
        words = list(raw)
        tail: list[str] = []
        while len(words) > 1 and words[-1] in self.types:
            tail.append(words.pop())
        quantity, scale = "", 1.0
        rate = len(words) > 3 and words[-2:] in (["per", "second"], ["per", "s"])
        if rate:
            words = words[:-2]
        if len(words) > 1 and words[-1] in self.units:
            quantity, scale = self.units[words.pop()]
            quantity += "/time" if rate else ""
        kept = [w for w in words if w not in self.types and w not in self.fillers] or words
        return Reading(tuple(map(self.plain, kept)), raw, quantity, scale)

    def plain(self, word: str) -> str:
        """The word that stands for this one and for all that mean the same."""
        return self.same.get(word, self.same.get(_singular(word), _singular(word)))

    def says_little(self, word: str) -> bool:
        """Whether a word of a sentence is a unit, a type, or grammar."""
        return word in self.stops or word in self.types or word in self.fillers or word in self.units

    def unit(self, text: str) -> tuple[str, float] | None:
        """What a UNIT line says."""
        return self.units.get(text.strip().lower())


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("sses", "xes", "ches")):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def akin(a: str, b: str) -> bool:
    """Whether two words are one: the same, an abbreviation (`vol`, `volatile`), or of one stem (`deleted`, `deletion`)."""
    if a == b:
        return True
    short, long = sorted((a, b), key=len)
    if len(short) >= 3 and long.startswith(short):
        return True
    common = 0
    while common < len(short) and short[common] == long[common]:
        common += 1
    return common >= 5 and common * 5 >= len(long) * 3


@lru_cache(maxsize=1)
def load_words() -> Words:
    """The shipped words, read once."""
    text = (resources.files("functions.knowledge") / "renames_words.yaml").read_text(encoding="utf-8")
    file = _File.model_validate(yaml.safe_load(text))
    same: dict[str, str] = {}
    for group in (words for held in file.synonyms for words in held.words):
        for word in group:
            same.setdefault(word, group[0])
    qualifiers = frozenset(same.get(w, w) for w in file.qualifiers)
    return Words(file.units, frozenset(file.types), frozenset(file.fillers), same, qualifiers, frozenset(file.stops))
